# SPDX-License-Identifier: BSD-3-Clause
"""What a valid spec asks for, in words, and what its author probably did not mean."""

from collections.abc import Iterator

from pollscope.base.units import human_rate, human_time
from pollscope.spec.model import LOADS, Spec

# Below this a window sees a handful of packets: most likely a unit is missing.
FEW_PPS = 1000


def load_text(spec: Spec) -> str:
    """The offered load in words: `load: 5 Mpps`, `load: 0 to 100 % of the maximum that saturating finds first`."""
    name = next(each for each in LOADS if each in spec.levels or getattr(spec.parameters, each) is not None)
    levels = spec.levels.get(name, (getattr(spec.parameters, name),))
    if name == "saturate":
        return "load: as fast as the generator can"
    if name == "load_pps":
        return f"load: {', '.join(_rate(float(level)) for level in levels)}"
    shares = ", ".join(f"{100 * level:g} %" for level in levels)
    if name == "load_of_line":
        return f"load: {shares} of line rate"
    how = "a search" if spec.maximum.method == "mlrsearch" else f"{spec.maximum.repeats} saturating trials"
    return f"load: {shares} of the maximum, which {how} of each configuration find{'s' if how[0] == 'a' else ''} first"


def _rate(pps: float) -> str:
    if pps == 0:
        return "no packet"
    return f"{pps:g} packet{'s' if pps != 1 else ''}/s" if pps < FEW_PPS else human_rate(pps)


def advice(spec: Spec) -> list[str]:
    """Sentences on what is allowed and yet most likely a slip; each names its key."""
    return [*_few_packets(spec), *_long_intervals(spec), *_few_turns(spec)]


def _few_packets(spec: Spec) -> Iterator[str]:
    levels = spec.levels.get("load_pps", (spec.parameters.load_pps,))
    few = [float(level) for level in levels if level is not None and 0 < level < FEW_PPS]
    if few:
        window = spec.trial.window_ns / 1e9
        yield (
            f"load_pps: {_rate(few[0])} {'is' if few[0] == 1 else 'are'} {few[0] * window:.3g} packets in a window of "
            f"{human_time(window)}; did you mean {few[0]:g} Mpps?"
        )


def _few_turns(spec: Spec) -> Iterator[str]:
    turns = [use.name for use in spec.collectors if use.rotate]
    if spec.repeats.at_least < len(turns):
        yield (
            f"collectors: {len(turns)} rotate over {spec.repeats.at_least} repeat"
            f"{'s' if spec.repeats.at_least > 1 else ''}: {turns[spec.repeats.at_least]} may never run "
            f"(repeats: {{count: {len(turns)}}}, or a multiple)"
        )


def _long_intervals(spec: Spec) -> Iterator[str]:
    for use in spec.collectors:
        if use.interval_ns > spec.trial.window_ns:
            interval, window = (human_time(each / 1e9) for each in (use.interval_ns, spec.trial.window_ns))
            yield (
                f"collectors: {use.name} delivers every {interval}, but a window lasts {window}: some windows will "
                "have no sample of it (a shorter `interval`, or a longer `trial.window`)"
            )
