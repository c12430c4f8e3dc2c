# SPDX-License-Identifier: BSD-3-Clause
"""State in a few sentences what runs measured, and sum up their verdicts."""

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pollscope.analysis.claims.evaluate import SANITY
from pollscope.analysis.claims.verdict import Verdict, VerdictKind
from pollscope.analysis.point_values import PointValues, by_point, factors, groups, measured, places, unfair_samples
from pollscope.analysis.saturation import saturated_generator_points, unreached_points, unsaturated_points
from pollscope.base.paths import is_shipped
from pollscope.base.units import counted, human_number, human_share
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.spec import known_specs
from pollscope.spec.points import level_text
from pollscope.stats.estimates import CONFIDENCE, Estimate
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

MOST_FINDINGS = 6
_LOAD = "load_of_max"
# The load that findings report besides the highest.
_LIGHT = 0.1
_SHAPES = {"SQ": "all traffic in one queue", "FB": "traffic in all queues"}
# If more than this share of its trials are flagged, a sentence says so.
_MOST_FLAGGED = 0.5
_PMU = re.compile(r"perf_event_open|\bPMU\b")
# Why a claim is not measurable, by the words of its finding; the first that fits.
_NEEDS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"no valid trial"), "trials that did not fail"),
    (re.compile(r"spaced as at 10 Gbit/s"), "a link of 10 Gbit/s"),
    (re.compile(r"claim is about|virtual NIC has no"), "a NIC with PCIe"),
    (_PMU, "a PMU"),
    (re.compile(r"\bSMT\b|smt-"), "SMT"),
    (re.compile(r"needs (?:about )?[\d.]+ [KMG]iB|hugepages"), "more memory"),
    (re.compile(r"needs? \d+ CPUs|core of its own"), "more CPUs"),
    (re.compile(r"has 1 NUMA node"), "a second NUMA node"),
    (re.compile(r"collector|counter"), "counters of the host"),
    (re.compile(r"no fair sample"), "a quieter machine or longer windows"),
    (re.compile(r"suitable for a judgement"), "a load that the generator reaches"),
    (re.compile(r"fewer than two levels|no point with|no pair of points"), "levels that the run leaves out"),
)
_TALLY_WORDS = {
    VerdictKind.AGREES: ("agrees", "agree"),
    VerdictKind.DISAGREES: ("disagrees", "disagree"),
    VerdictKind.CONSISTENT: ("consistent by construction", "consistent by construction"),
    VerdictKind.INCONCLUSIVE: ("inconclusive", "inconclusive"),
    VerdictKind.NOT_MEASURABLE: ("not measurable", "not measurable"),
}


def tally(verdicts: Sequence[Verdict]) -> list[tuple[VerdictKind, str]]:
    """Return how many claims have which verdict: '7 agree', '3 disagree', '2 not measurable'."""
    return tally_of(verdict.kind for verdict in verdicts)


def tally_of(kinds: Iterable[VerdictKind]) -> list[tuple[VerdictKind, str]]:
    """Return how often each verdict occurs, in words."""
    counts = Counter(kinds)
    return [(kind, f"{counts[kind]} {words[counts[kind] > 1]}") for kind, words in _TALLY_WORDS.items() if counts[kind]]


def by_chance(verdicts: Sequence[Verdict]) -> str:
    """Return how many claims chance alone would refute; empty if none was tested."""
    tested = sum(verdict.tested for verdict in verdicts)
    if not tested:
        return ""
    error = human_share(1 - CONFIDENCE)
    are = "claim was" if tested == 1 else "claims were"
    return (
        f"{tested} {are} tested at {error}: if all were true, chance alone would make up to "
        f"{human_number((1 - CONFIDENCE) * tested)} disagree. Of those that disagree, {error} at most do so by chance "
        "(false discovery rate of each run)."
    )


def folded(verdicts: Sequence[Verdict]) -> str:
    """Return one sentence on what unmeasurable claims need; empty without such a claim."""
    return ", ".join(
        f"{counted(count, 'claim')} need{'s' if count == 1 else ''} {what}" for what, count in lacking(verdicts)
    )


def lacking(verdicts: Sequence[Verdict]) -> list[tuple[str, int]]:
    """Return what unmeasurable claims need, and how many of them: the commonest first."""
    sentences = [each.finding.sentence for each in verdicts if each.kind is VerdictKind.NOT_MEASURABLE]
    unknown = "what this run does not have"
    needs = Counter(next((what for pattern, what in _NEEDS if pattern.search(each)), unknown) for each in sentences)
    return needs.most_common()


def verdict_lines(verdicts: Sequence[Verdict]) -> list[tuple[str, str, str]]:
    """Return verdict, claim and statement of each judged claim; the checks of a testbed are one line."""
    checks = [verdict for verdict in verdicts if verdict.claim.row == SANITY]
    others = [each for each in verdicts if each.claim.row != SANITY and each.kind is not VerdictKind.NOT_MEASURABLE]
    lines = [(each.kind.value, each.claim.id, each.claim.statement) for each in others]
    if not checks:
        return lines
    broken = [verdict for verdict in checks if verdict.kind is not VerdictKind.AGREES]
    kind = broken[0].kind if broken else VerdictKind.AGREES
    text = f"{len(checks) - len(broken)} of {counted(len(checks), 'check')} of this testbed hold"
    wrong = [f"{verdict.claim.id}: {verdict.claim.statement}" for verdict in broken]
    return [(kind.value, SANITY, "; ".join([text, *wrong])), *lines]


def run_command(run: RunFolder) -> str:
    """Return the command line that measures the same again; a spec of the user's own is a file of its name."""
    meta, testbed = run.meta, run.meta["testbed"]
    if run.attached:
        return shlex.join(_attach_words(run))
    asked = meta.get("overrides") or {}
    file = str(testbed.get("file") or testbed["name"])
    words = ["pollscope", "run", _word_of_spec(meta)]
    words += ["--testbed", Path(file).stem if is_shipped(file) else file] if testbed["name"] != "loopback" else []
    words += ["--quick"] if asked.get("quick") else []
    words += [word for setting in asked.get("set", ()) for word in ("--set", str(setting))]
    return shlex.join(words)


def _attach_words(run: RunFolder) -> Iterator[str]:
    program = run.meta.get("program", {})
    yield from ("pollscope", "attach", str(program.get("name")))
    yield from ("--seconds", str(program["seconds"]).removesuffix(".0")) if "seconds" in program else ()
    yield from ("--out", "results")
    for name in run.trials[0].get("collectors", {}) if run.trials else ():
        yield from ("--collect", str(name))


def _word_of_spec(meta: Mapping[str, Any]) -> str:
    """Return the row or name of a spec that ships with pollscope, or the file of another."""
    known, name, row = known_specs(), str(meta["spec_name"]), str(meta.get("row"))
    if name not in known:
        return f"{name}.yaml"
    return row if known.get(row) == known[name] else name


def findings(runs: Sequence[RunFolder]) -> list[str]:
    """Return at most MOST_FINDINGS sentences that state what runs measured, with 95 % intervals.

    Raises:
        UsageError: a run folder contradicts its formats.
    """
    tables = [(run, current_table(run)) for run in runs]
    every = [sentence for find in _FINDERS for run, table in tables for sentence in _of(find, run, table)]
    return list(dict.fromkeys(every))[:MOST_FINDINGS]


def _of(
    find: "Callable[[RunFolder, pd.DataFrame], Iterator[_Found]]", run: RunFolder, table: pd.DataFrame
) -> Iterator[str]:
    data = measured(table)
    unfit = unsaturated_points(table) | unreached_points(run, table) | saturated_generator_points(run, table)
    for sentence, behind in find(run, data[~places(data).isin(unfit)] if len(data) else data):
        trials, flagged = sum(len(each.values) for each in behind), sum(each.flagged for each in behind)
        notes = ["modelled, not measured"] if run.modelled else []
        notes += [f"{flagged} of {trials} trials are flagged"] if flagged > _MOST_FLAGGED * trials else []
        yield f"{sentence} ({'; '.join([f'n = {min(len(each.values) for each in behind)}', *notes])})."


_Found = tuple[str, Sequence[PointValues]]


def _tax(_run: RunFolder, data: pd.DataFrame) -> Iterator[_Found]:
    """Yield the polling tax at light load and at full load, with the most queues for which it is known.

    Where a noisy host leaves it unknown at the lightest load, that load has the tax by testpmd's definition.
    """
    found, counted_by_testpmd = _by_load(data, "tax_share_running"), _by_load(data, "tax_share_testpmd")
    if not found:
        return
    light, other = _light(found), _light(counted_by_testpmd)
    if other and (light is None or float(other.levels[_LOAD]) < float(light.levels[_LOAD])):
        share = value_text("tax_share_testpmd", other.estimate)
        where = f"With {_load(other)} load on {_queues(other)}"
        yield f"{where}, {share} of the core's cycles are polling tax as testpmd counts it", [other]
    elif light:
        where = f"With {_load(light)} load on {_queues(light)}"
        yield f"{where}, {_share(light)} of the core's cycles are polling tax, spent on empty polls", [light]
    if light and found[-1].levels[_LOAD] == 1:
        yield f"At full load the polling tax is {_share(found[-1])} of the cycles", [found[-1]]


def _cost(_run: RunFolder, data: pd.DataFrame) -> Iterator[_Found]:
    """Yield the useful cycles per packet at light load and at the highest load, and the bursts that explain them."""
    found = _by_load(data, "cycles_per_packet_useful")
    bursts = {repr(each.levels): each for each in by_point(data, "burst_mean")} if found else {}
    light = _light(found)
    if light and repr(light.levels) in bursts and light.levels != found[-1].levels:
        costs = [
            f"{value_text('cycles_per_packet_useful', each.estimate)} of useful work at {_load(each)} load, "
            f"in bursts of {human_number(bursts[repr(each.levels)].estimate.value)}"
            for each in (light, found[-1])
        ]
        yield f"One packet takes {', and '.join(costs)}", [light, found[-1]]


def _many_queues(run: RunFolder, data: pd.DataFrame) -> Iterator[_Found]:
    """Yield the remaining throughput when more queues have to be polled."""
    if not run.meta["spec"].get("parameters", {}).get("saturate"):
        return
    for shape, words in _SHAPES.items():
        of_shape = [each for each in by_point(data, "tx_pps") if each.levels.get("shape") == shape]
        pairs = [
            (found[0], found[-1], found[-1].over(found[0])) for _, found in groups(of_shape, "queues") if found[1:]
        ]
        for few, many, left in pairs[:1]:
            rates = [value_text("tx_pps", each.estimate) for each in (few, many)]
            queues = f"{many.levels['queues']} queues instead of {few.levels['queues']}"
            kept = f"leave {_range(left)} of the throughput"
            means = f": {rates[0]} become {rates[1]}"
            if left.within_blocks:
                means = f" within blocks; the means of all trials are {rates[0]} and {rates[1]}"
            yield f"With {words}, {queues} {kept}{means}", [few, many]


def _latency(_run: RunFolder, data: pd.DataFrame) -> Iterator[_Found]:
    """Yield how the median latency grows with the number of queues."""
    for where, found in _named_groups(by_point(data, "latency_sent_p50_ns")):
        few, many = found[0], found[-1]
        if many.levels["queues"] != few.levels["queues"]:
            values = [value_text("latency_sent_p50_ns", each.estimate) for each in (few, many)]
            at = f"{values[0]} with {_queues(few)} and {values[1]} with {_queues(many)}"
            yield f"The median latency{where} is {at}", [few, many]


def _poll_rate(_run: RunFolder, data: pd.DataFrame) -> Iterator[_Found]:
    """Yield the poll rate of a core that receives nothing."""
    idle = [each for each in by_point(data, "poll_rate_running_hz") if not each.levels.get(_LOAD)]
    nothing_came = bool((data["metric.rx_pps"].fillna(0) == 0).all())
    idle = [each for each in idle if _LOAD in each.levels or nothing_came]
    for where, found in _named_groups(idle):
        rates = [
            f"{value_text('poll_rate_running_hz', each.estimate)} of {_queues(each)}" for each in (found[0], found[-1])
        ]
        made = " and ".join(dict.fromkeys(rates))
        yield f"Without traffic{where} one core makes {made}", [found[0], found[-1]]


_FINDERS = (_tax, _cost, _many_queues, _latency, _poll_rate)


def _named_groups(found: Sequence[PointValues]) -> Iterator[tuple[str, list[PointValues]]]:
    """Yield the samples by rising queues, named by their other levels if there are several groups."""
    parts = list(groups(found, "queues"))
    for label, members in parts:
        yield f", at {label}," if len(parts) > 1 else "", members


def _by_load(data: pd.DataFrame, metric: str) -> list[PointValues]:
    """Return the points with traffic by rising load, and at each load the one with the most queues."""
    if f"metric.{metric}" not in data or _LOAD not in factors(data):
        return []
    found = by_point(data[~places(data).isin(unfair_samples(data, metric))], metric)
    most = {
        float(each.levels[_LOAD]): each for each in sorted(found, key=lambda each: int(each.levels.get("queues", 1)))
    }
    return [most[load] for load in sorted(most) if load]


def _light(found: Sequence[PointValues]) -> PointValues | None:
    below = [each for each in found if float(each.levels[_LOAD]) < 1]
    return min(below, key=lambda each: abs(float(each.levels[_LOAD]) - _LIGHT), default=None)


def _load(sample: PointValues) -> str:
    return level_text(_LOAD, sample.levels[_LOAD])


def _queues(sample: PointValues) -> str:
    return counted(float(sample.levels.get("queues", 1)), "queue")


def _share(sample: PointValues) -> str:
    return value_text("tax_share_running", sample.estimate)


def value_text(metric: str, estimate: Estimate) -> str:
    """Return a mean and half of its 95 % interval, or both ends where they are not at the same distance."""
    words = metric_dictionary()[metric]
    if not estimate.has_interval:
        return words.text(estimate.value)
    half = (estimate.high - estimate.low) / 2
    low, high = words.limits
    if not low <= estimate.value - half <= estimate.value + half <= high:
        return f"{words.text(estimate.value)} ({words.text(estimate.low)} to {words.text(estimate.high)})"
    if words.unit == "share":
        return f"{human_number(100 * estimate.value)} ± {human_number(100 * half, 2)} %"
    if not half:
        return words.text(estimate.value)
    relative = human_number(100 * half / abs(estimate.value), 2) if estimate.value else "0"
    return f"{words.text(estimate.value)} ± {relative} %"


def _range(ratio: Estimate) -> str:
    if not ratio.has_interval:
        return human_share(ratio.value)
    return f"{human_share(ratio.value)} ({human_share(ratio.low)} to {human_share(ratio.high)})"
