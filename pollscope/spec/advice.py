# SPDX-License-Identifier: BSD-3-Clause
"""Describe a valid spec in words, and warn of settings that its author probably did not mean."""

import math
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, NamedTuple

from pollscope.base.names import rows
from pollscope.base.units import counted, human, human_number, human_rate, human_share, human_time
from pollscope.spec.checks import read_level
from pollscope.spec.model import LOADS, Show, Spec
from pollscope.spec.predicates import LOAD, OwnClaim, Range

# A rate below FEW_PPS with fewer than FEW_PACKETS in a window most likely lacks its unit.
FEW_PPS, FEW_PACKETS = 1000, 1000


def offered_load(spec: Spec) -> str:
    """Return the offered load in words: `load: 5 Mpps`, `load: 100 % of the maximum, which a search finds first`."""
    name = next(each for each in LOADS if each in spec.levels or getattr(spec.parameters, each) is not None)
    levels = spec.levels.get(name, (getattr(spec.parameters, name),))
    if name == "saturate":
        return "load: as fast as the generator can"
    if name == "load_pps":
        return f"load: {', '.join(_rate(float(level)) for level in levels)}"
    if name == "flow_size":
        sizes = ", ".join(human(float(level), "B", digits=6) for level in levels)
        return f"load: {sizes} on each TCP connection, as fast as TCP lets it"
    shares = ", ".join(f"{human_share(level, 6)}" for level in levels)
    if name == "load_of_line":
        return f"load: {shares} of line rate"
    if name == "load_of_trace":
        return f"load: {shares} of the rate at which the trace was recorded"
    repeats = spec.maximum.repeats
    one = "a search" if spec.maximum.method == "mlrsearch" else "a saturating trial" if repeats == 1 else ""
    how = f"{one} of each configuration finds" if one else f"{repeats} saturating trials of each configuration find"
    return f"load: {shares} of the maximum, which {how} first"


def _rate(pps: float) -> str:
    if pps == 0:
        return "no packet"
    return f"{counted(pps, 'packet')}/s" if pps < FEW_PPS else human_rate(pps)


def advice(spec: Spec) -> list[str]:
    """Yield sentences about allowed settings that are probably mistakes; each names its key."""
    return [
        *_unknown_rows(spec),
        *_few_packets(spec),
        *_long_intervals(spec),
        *_few_turns(spec),
        *_strange_levels(spec),
        *_undrawn(spec),
    ]


def _unknown_rows(spec: Spec) -> Iterator[str]:
    """Warn of unknown rows, which are probably misspelt; their figures and claims would be missing silently."""
    known = {row.lower(): row for row in rows()}
    for row in spec.all_rows:
        if row not in known.values():
            close = [known[name] for name in get_close_matches(row.lower(), known, n=2, cutoff=0.75)]
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            yield f"row: no figure and no claim is known of {row}, so the run has none of it{hint}"


def _few_packets(spec: Spec) -> Iterator[str]:
    levels = spec.levels.get("load_pps", (spec.parameters.load_pps,))
    window = spec.trial.window_ns / 1e9
    few = [float(level) for level in levels if level is not None and 0 < level < min(FEW_PPS, FEW_PACKETS / window)]
    if few:
        packets = human_number(few[0] * window)
        yield (
            f"load_pps: {_rate(few[0])} {'is' if few[0] == 1 else 'are'} {packets} packets in a window of "
            f"{human_time(window)}; did you mean {human_number(few[0], 6)} Mpps?"
        )


def _few_turns(spec: Spec) -> Iterator[str]:
    turns = [use.name for use in spec.collectors if use.rotate]
    if spec.repeats.at_least < len(turns):
        yield (
            f"collectors: {len(turns)} rotate over {counted(spec.repeats.at_least, 'repeat')}: "
            f"{turns[spec.repeats.at_least]} may never run "
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


class _Named(NamedTuple):
    """A level that is named outside `factors`: where, of which factors it may be, and what becomes of the key."""

    place: str
    factors: list[str]
    level: Any
    consequence: str


def _strange_levels(spec: Spec) -> Iterator[str]:
    """Warn of levels in figures and claims that no factor has; otherwise they fail only after the run."""
    for place, show in ((f"show[{index}]", each) for index, each in enumerate(spec.show)):
        for named in _shown_levels(spec, place, show):
            if not any(_is_level(spec, factor, named.level) for factor in named.factors):
                yield _strange(spec, named)
    for claim in spec.claims:
        for named in _claimed_levels(spec, claim):
            if not any(_is_claimed(level, named.level) for level in spec.levels[named.factors[0]]):
                yield _strange(spec, named)


def _strange(spec: Spec, named: _Named) -> str:
    offered = "; ".join(f"{name}: {', '.join(map(str, spec.levels[name]))}" for name in named.factors)
    level = named.level.text(str) if isinstance(named.level, Range) else named.level
    return f"{named.place}: no level is {level}, so {named.consequence} (levels of {offered})"


def _undrawn(spec: Spec) -> Iterator[str]:
    """Yield why a figure could not be drawn after the run: it says lines by some factors and leaves out others."""
    for index, show in enumerate(spec.show):
        named = {show.x, *show.by, *show.at}
        together = {name for group in spec.zip if named & set(group) for name in group}
        left = [name for name, levels in spec.levels.items() if len(levels) > 1 and name not in named | together]
        if show.by and left:
            whole = f"by: [{', '.join([*show.by, *left])}]"
            held = ", ".join(f"{name}: {spec.levels[name][0]}" for name in left)
            yield (
                f"show[{index}]: {' and '.join(left)} {'has' if len(left) == 1 else 'have'} several levels and "
                f"{'is' if len(left) == 1 else 'are'} neither x, by nor at, so this figure cannot be drawn "
                f"({whole}, or at: {{{held}}})"
            )


def _shown_levels(spec: Spec, place: str, show: Show) -> Iterator[_Named]:
    lost = "this figure cannot be drawn"
    for name, level in show.at.items():
        yield _Named(f"{place}.at.{name}", [name], level, lost)
    if show.ratio_to is not None:
        factor, equals, level = str(show.ratio_to).partition("=")
        named = [factor.strip()] if equals else [*show.by, show.x]
        swept = [name for name in named if name in spec.levels] or [show.x]
        yield _Named(f"{place}.ratio_to", swept, level.strip() if equals else show.ratio_to, lost)


def _is_level(spec: Spec, factor: str, word: Any) -> bool:
    """Return whether a factor has this level, which is written with a unit or in base units."""
    levels = spec.levels[factor]
    if str(word).lower() in (str(level).lower() for level in levels):
        return True
    try:
        return bool(read_level(spec, factor, word) in levels)
    except ValueError:
        return False


# Key of a predicate, its name in a spec, and the key of the factor whose level it is.
_LEVELS_OF = ("first", "from", "factor"), ("last", "to", "factor"), ("of", "of", "across"), ("over", "over", "across")


def _claimed_levels(spec: Spec, claim: OwnClaim) -> Iterator[_Named]:
    predicate, place, lost = claim.predicate, f"claims '{claim.id}'", "it cannot be judged"
    for name, level in claim.where.items():
        yield from _of_factor(spec, f"{place}, where", name, level, lost)
    for key, role, of in _LEVELS_OF:
        named = getattr(predicate, of, ""), getattr(predicate, key, None)
        yield from _of_factor(spec, f"{place}, {role}", *named, lost)


def _of_factor(spec: Spec, place: str, name: str, level: Any, lost: str) -> Iterator[_Named]:
    """Yield the level as one of a swept factor; nothing if it is of another kind or missing."""
    factor = next((each for each in LOADS if each in spec.levels), LOAD) if name == LOAD else name
    if level is not None and factor in spec.levels:
        yield _Named(place, [factor], level, lost)


def _is_claimed(level: Any, condition: Any) -> bool:
    """Return a level in the form that claims read: numbers in base units, words unchanged."""
    if isinstance(level, str) or isinstance(condition, str):
        return bool(level == condition)
    if isinstance(condition, Range):
        return condition.contains(float(level))
    return math.isclose(float(level), condition, abs_tol=1e-9)
