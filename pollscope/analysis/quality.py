# SPDX-License-Identifier: BSD-3-Clause
"""Collect cautions about a run: one sentence each, with numbers and what to do."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from pollscope.analysis.collected import deliveries, doubts
from pollscope.analysis.drift import drift
from pollscope.analysis.host_metadata import HostMetadata
from pollscope.analysis.host_state import change_text
from pollscope.analysis.point_values import by_point, measured, places
from pollscope.analysis.saturation import generator_bound_points, unsaturated_points
from pollscope.analysis.searches import throughputs
from pollscope.base.units import counted, human_ns, human_number, human_p, human_share, human_time
from pollscope.metrics import RULES
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.record import Flag
from pollscope.stats.estimates import bimodality_warning
from pollscope.store.results_table import flags_of, last_attempts, noise_limits
from pollscope.store.run_folder import RunFolder, resume_command

_NOISY_GAPS_PER_S = 10
FEWEST_REPEATS = 3
INTERRUPTED_LIMIT = 0.01
_MOST_NOTES = 4
_MOST_POINTS = 4
# Other checks say these. Those behind the second are judgements, which runs wrote down before they were made when read.
_OTHER_CAUTIONS = (
    "no result of the search",
    "the host state changed during the run",
    "trials are flagged for host noise; the first",
    "of its trials had not the shape that was asked for",
    ": the baseline's ",
    ": expect flagged trials",
)
_INSTRUMENTATION_LIMIT = 0.02
# Metrics whose mean misleads if they have two modes. Latency and host gaps always have several, so they are no part.
_WATCHED = ("tax_share_running", "poll_rate_running_hz", "rx_pps")


@dataclass(frozen=True)
class Caution:
    """Hold a warning and its topic; `of_host` marks a property of the host, independent of the run."""

    topic: str
    text: str
    of_host: bool = False


def cautions(run: RunFolder, table: pd.DataFrame) -> list[Caution]:
    """Return all warnings of a run, the most serious first, each sentence once."""
    found = [replace(caution, of_host=check in _OF_HOST) for check in _CHECKS for caution in check(run, table)]
    return list({caution.text: caution for caution in found}.values())


def _modelled(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    count = int(table["modelled"].sum())
    if count:
        yield Caution(
            "modelled", f"{count} of {len(table)} trials were computed by a simulation; nothing was measured in them."
        )


def unfinished(run: RunFolder) -> Iterator[str]:
    """Yield cautions about missing or cut-off parts of a run."""
    status = run.meta.get("status")
    planned, made = len(run.meta.get("plan", [])), len(last_attempts(run.trials))
    if status != "complete":
        ended = "has not ended, or was killed" if status == "running" else f"is {status}"
        if reason := run.meta.get("reason"):
            ended += f", because {str(reason).rstrip('.')}"
        yield (
            f"The run {ended}: {made} of {planned} planned trials are there. `{resume_command(run.path)}` completes it."
        )
    if run.torn:
        yield "The last line of trials.jsonl was cut off and is left out; --resume repeats that trial."


def _unfinished(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    return (Caution("unfinished", text) for text in unfinished(run))


def _failed(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    failed = table[table["status"] == "failed"]
    if len(failed):
        yield Caution(
            "failed trials", f"{len(failed)} of {len(table)} trials failed and are no data: {_reasons(failed)}."
        )


def _flagged(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    flagged = table[table["status"] == "flagged"]
    if len(flagged):
        are = "is" if len(flagged) == 1 else "are"
        yield Caution(
            "noisy trials",
            f"{len(flagged)} of {len(table)} trials {are} flagged, and still in the figures: {_reasons(flagged)}.",
        )


def _reasons(bad: pd.DataFrame) -> str:
    """Return the most frequent reasons, each in the words of the first trial with it; a trial may have several."""
    example: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for flags, reason in zip(flags_of(bad), bad["reason"], strict=True):
        causes = {flag["name"]: flag["text"] for flag in flags if flag["text"] in reason} or {reason: reason}
        counts.update(causes.keys())
        example = causes | example
    shown = [f"{example[kind]} ({count} such)" if count > 1 else example[kind] for kind, count in counts.most_common(3)]
    more = len(example) - len(shown)
    return "; ".join([*shown, *([f"{counted(more, 'more reason')} below"] if more else [])])


def _of_the_run(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    """Yield the notes of the runner: maxima, roles of cores, missing hugepages, build flags."""
    notes = [str(text).removesuffix(".") for text in run.meta.get("warnings", [])]
    texts = [text for text in notes if not any(words in text for words in _OTHER_CAUTIONS)]
    for text in texts[:_MOST_NOTES]:
        yield Caution("noted by the run", f"{text}.")
    if len(texts) > _MOST_NOTES:
        yield Caution(
            "noted by the run", f"{counted(len(texts) - _MOST_NOTES, 'more note')} are in run.json under `warnings`."
        )


def _generator(run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    noted = any(maximum.get("generator_bound") for maximum in run.meta.get("maxima", {}).values())
    unsaturated = {} if noted else unsaturated_points(table)
    if unsaturated:
        reason = next(iter(unsaturated.values()))
        yield Caution(
            "generator",
            f"100 % load is not the DUT's maximum at {counted(len(unsaturated), 'point')}: {reason}. "
            "Add cycles to the workload.",
        )
    missing: dict[tuple[str, str], list[str]] = {}
    for each in throughputs(run):
        if each.reason:
            missing.setdefault((each.label, each.reason), []).append(human_share(each.loss_ratio, 6))
    for (label, reason), ratios in missing.items():
        yield Caution("no throughput", f"{label}, loss ratio {' and '.join(ratios)}: no result, {reason}.")
    bound = generator_bound_points(table)
    if bound:
        worst = max(bound, key=lambda point: bound[point])
        yield Caution(
            "generator",
            f"At {counted(len(bound), 'point')} the generator did not send what was due "
            f"(worst: {human_share(bound[worst], 2)} unsent at {worst}); they show the generator, not the DUT.",
        )


def _added_cost(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    """Report a fixed cost per packet that the spec adds to the workload; swept costs are a factor."""
    costs = {trial["params"].get("extra_cycles") for trial in run.trials if "extra_cycles" not in trial["factors"]}
    for cost in sorted(cost for cost in costs if cost):
        yield Caution(
            "added cost",
            f"The spec adds {human_number(cost)} TSC cycles to each packet's processing, which the workload alone does "
            "not have: shares of cycles and maximum rates include them.",
        )


def _machine(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    host = HostMetadata(run.meta)
    if host.hypervisor:
        yield Caution(
            "virtual machine",
            f"This host is a virtual machine ({host.hypervisor}): other guests share caches and cores, and gaps that "
            "the guest cannot see are in the numbers. Use ratios rather than absolute values.",
        )
    if host.virtual_nic:
        yield Caution(
            "virtual NIC",
            "Packets moved over net_crossover, a virtual NIC: a core plays the DMA engine, so PCIe, DDIO and line rate "
            "have no part in the results.",
        )
    if host.emulated:
        yield Caution(
            "emulated machines",
            "Both hosts were emulated machines: NIC, root port and IOMMU are an emulator's. Times and "
            "rates are the emulator's, the IOTLB is an emulated one, and an emulated root port has no DDIO behind it.",
        )
    yield from _threads(host)
    yield from _clocks(host)


def _threads(host: HostMetadata) -> Iterator[Caution]:
    smt = host.get("smt")
    if smt:
        yield Caution("SMT", "SMT is on: hardware threads share cores on this host; a busy sibling slows the DUT.")
    elif smt is None:
        yield Caution("SMT", f"Whether hardware threads share cores is not known: {host.missing('smt')}.")
    elif host.hypervisor:
        yield Caution(
            "SMT",
            "The guest sees no SMT; the hypervisor does not reveal which of its processors are threads of one core.",
        )


def _clocks(host: HostMetadata) -> Iterator[Caution]:
    governor, turbo = host.get("governor"), host.get("turbo")
    if governor is None:
        yield Caution(
            "governor",
            f"The host shows no frequency governor ({host.missing('governor')}), so a change of core frequency goes "
            "unnoticed.",
        )
    elif governor != "performance":
        yield Caution(
            "governor",
            f"The frequency governor is '{governor}', not 'performance': the core's speed may vary with load.",
        )
    if turbo == "on":
        yield Caution("turbo", "Turbo is on: core frequency depends on temperature and on what other cores do.")
    elif turbo is None:
        yield Caution("turbo", f"Whether turbo is on is not known: {host.missing('turbo')}.")


def _noise(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    allowed = noise_limits(run).max_gaps_over_100us_per_s
    noisy: list[str] = []
    for entry in run.meta.get("noise", []):
        seconds = entry.get("duration_ns", 0) / 1e9
        rate = entry.get("over_100us", 0) / seconds if seconds else 0.0
        if rate > _NOISY_GAPS_PER_S:
            limit = f"; the spec allows {human_number(allowed)}" if allowed is not None and rate > allowed else ""
            longest = f"longest {human_ns(entry.get('longest_ns', 0))}{limit}"
            host = f"{entry['role']} " if "role" in entry else ""  # of two hosts, each with a CPU of that number
            noisy.append(f"{host}CPU {entry.get('cpu')} {rate:.0f} times per second ({longest})")
    if noisy:
        yield Caution(
            "host noise",
            f"Away for more than 100 us before the run: {', '.join(noisy)}. Maxima and high percentiles show the host.",
        )


def _absent(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    things: dict[str, list[str]] = {}
    for thing, reason in HostMetadata(run.meta).absent.items():
        if not thing.startswith("link_bps."):  # unknown before a port is started; no metric is made from it
            things.setdefault(reason, []).append(thing)
    for reason, names in things.items():
        yield Caution("not measured", f"{', '.join(names)} could not be measured: {reason}.")


def _interrupted(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    shares = measured(table)["metric.interrupted_share"].dropna()
    if not shares.empty and shares.median() > INTERRUPTED_LIMIT:
        middle, worst = human_share(float(shares.median()), 2), human_share(float(shares.max()), 2)
        yield Caution(
            "core taken away",
            f"Other work had the DUT's CPU for {middle} of the time (up to {worst}). Metrics called "
            "`..._running` leave that time out; loads and latencies suffer from it. Stop what else runs here.",
        )


def _few_repeats(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    sizes = places(measured(table)).value_counts()
    few = int((sizes < FEWEST_REPEATS).sum())
    if few:
        yield Caution(
            "few repeats",
            f"{few} of {len(sizes)} points have fewer than {FEWEST_REPEATS} trials: intervals are wide or missing.",
        )


def _instrumentation(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    worst = measured(table)["metric.instrumentation_share"].max()
    if worst > _INSTRUMENTATION_LIMIT:
        yield Caution(
            "probe effect",
            f"Up to {100 * worst:.1f} % of the cycles are the time stamps' own; accounting: sampled costs less.",
        )


def _unsteady(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    """Report trials that were not steady within their window: a warm-up that reached into it, or two levels."""
    trials = table[table["kind"] == "measure"]
    for name, topic in (("warm-up", "warm-up"), ("two-levels", "two levels")):
        found = _flagged_with(trials, name)
        if found:
            first = f"the first, {found[0].trial}: {found[0].flag['text']}"
            yield Caution(topic, f"In {len(found)} of {len(trials)} trials; {first}.")


@dataclass(frozen=True)
class _Flagged:
    trial: str
    point: str
    flag: Flag


def _flagged_with(table: pd.DataFrame, name: str) -> list[_Flagged]:
    """Return the flags of this name, each with its trial and point."""
    every = zip(table["trial"], table["point"], flags_of(table), strict=True)
    return [_Flagged(trial, point, flag) for trial, point, flags in every for flag in flags if flag["name"] == name]


def _shapeless(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    """Report points whose trials did not have the shape of traffic that the spec asks for."""
    texts: dict[str, list[str]] = {}
    for found in _flagged_with(table, "shape"):
        texts.setdefault(found.point, []).append(found.flag["text"])
    if not texts:
        return
    # The first of them represents all: its neighbours say the same with other numbers.
    worst = max(texts, key=lambda point: len(texts[point]))
    counts = [f"'{point}' ({len(own)})" for point, own in sorted(texts.items(), key=lambda each: -len(each[1]))]
    more = f" and {len(counts) - _MOST_POINTS} more" if len(counts) > _MOST_POINTS else ""
    yield Caution(
        "shape",
        f"{counted(sum(map(len, texts.values())), 'trial')} at {counted(len(texts), 'point')} had not "
        f"the shape that was asked for: {', '.join(counts[:_MOST_POINTS])}{more}; the first of '{worst}': "
        f"{texts[worst][0]}.",
    )


def _host_state(run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    text = change_text(run, table)
    if text:
        yield Caution("host_state", text)


def _baseline_drift(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    found = _flagged_with(table, "drift")
    baselines = table[(table["kind"] == "baseline") & (table["status"] == "ok")]
    if found:
        yield Caution(
            "drift",
            f"{len(found)} of {len(baselines)} baselines without noise moved; the first, {found[0].trial}: "
            f"{found[0].flag['text']}.",
        )


def _drifting(run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    for name in _WATCHED:
        found = drift(run, table, name)
        if found:
            direction = "rose" if found.move > 0 else "fell"
            yield Caution(
                "drift",
                f"{metric_dictionary()[name].title} {direction} by {human_share(abs(found.move), 2)} over the "
                f"{human_time(60 * found.minutes)} of the run (repeats of {found.points} points, Mann-Kendall "
                f"{human_p(found.p)}): the host changed, and intervals of means contain that.",
            )


def _modes(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    data = measured(table)
    for name in _WATCHED:
        for sample in by_point(data, name):
            text = bimodality_warning(sample.values)
            if text:
                yield Caution(
                    "two modes", f"{metric_dictionary()[name].title} at {sample.label() or 'all trials'}: {text}."
                )


def _implausible(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    for doubt in doubts(run):
        yield Caution(f"counters: {doubt.verdict}", f"In {doubt.trials} trials ({doubt.rule}): {doubt.text}.")


def _collectors(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    for each in deliveries(run):
        if each.replay is not None:
            yield Caution(
                "replayed", f"{each.name} was not read from this host: a recording was played ({each.replay})."
            )
        if set(each.states) & {"failed", "hung"}:
            yield Caution("collector failed", f"{each.name} was {each.status}: {'; '.join(each.reasons[:2])}.")
        elif "absent" in each.states:
            yield Caution("not collected", f"{each.name} is absent: {'; '.join(each.reasons[:2])}.")
        if each.left_out:
            lines = "1 line that was" if each.left_out == 1 else f"{each.left_out} lines that were"
            yield Caution("not understood", f"{each.name} printed {lines} left out, first {each.first_left_out}.")


# Order: disturbances and limits other than the DUT, then missing parts, then properties of the host.
_CHECKS: tuple[Callable[[RunFolder, pd.DataFrame], Iterator[Caution]], ...] = (
    _modelled,
    _unfinished,
    _failed,
    _flagged,
    _implausible,
    _noise,
    _interrupted,
    _generator,
    _host_state,
    _unsteady,
    _shapeless,
    _baseline_drift,
    _drifting,
    _modes,
    _few_repeats,
    _of_the_run,
    _collectors,
    _absent,
    _machine,
    _added_cost,
    _instrumentation,
)
_OF_HOST = (_absent, _machine)


def steadiness(run: RunFolder, table: pd.DataFrame) -> list[str]:
    """Return cautions for the terminal about disturbances by the host, within windows, and over the run."""
    checks = (_flagged, _host_state, _unsteady, _shapeless, _baseline_drift, _drifting, _modes, _noise)
    return [f"{caution.topic}: {caution.text}" for check in checks for caution in check(run, table)]


def rules_text(run: RunFolder) -> str:
    """Return the rules that judge trials here (store-format.md), and those that the run used to repeat trials."""
    decided = run.meta.get("rules", 1)
    return f"{RULES}" if decided == RULES else f"{RULES}; {decided} when the run decided which trials to repeat"


def left_out(run: RunFolder) -> list[dict[str, Any]]:
    """Return points that the testbed could not host, with the reason."""
    return [dict(entry) for entry in run.meta.get("left_out", [])]
