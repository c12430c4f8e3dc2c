# SPDX-License-Identifier: BSD-3-Clause
"""Collect cautions about a run: one sentence each, with numbers and what to do."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from statistics import median

import numpy as np
import pandas as pd
import scipy  # scipy.stats is loaded when it is first needed: that takes a second
from ruamel.yaml import YAML

from pollscope.analysis.collected import deliveries, doubts
from pollscope.analysis.host_metadata import HostMetadata
from pollscope.analysis.host_state import change_text
from pollscope.analysis.point_values import PAIR, by_point, measured, places
from pollscope.analysis.saturation import generator_bound_points, unsaturated_points
from pollscope.analysis.searches import throughputs
from pollscope.base.paths import data_folder
from pollscope.base.units import counted, human_ns, human_number, human_p, human_share, human_time
from pollscope.metrics import RULES
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.record import Flag
from pollscope.stats.estimates import bimodality_warning, trend
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
# Several metrics are looked at in every run, so a drift needs more certainty than one in twenty.
LARGEST_P = 0.01
# A smaller move than this, as a share, is not worth a warning.
_SMALLEST_MOVE = 0.02


@dataclass(frozen=True)
class Caution:
    """Hold a warning and its topic; `of_host` marks a property of the host, independent of the run."""

    topic: str
    text: str
    of_host: bool = False


@cache
def _texts() -> dict[str, tuple[str, str]]:
    texts: dict[str, tuple[str, str]] = YAML(typ="safe").load(data_folder("data") / "cautions.yaml")
    return texts


def _caution(kind: str, /, **values: object) -> Caution:
    """Return a caution in the words of data/cautions.yaml."""
    topic, text = _texts()[kind]
    return Caution(topic, text.format(**values))


def cautions(run: RunFolder, table: pd.DataFrame) -> list[Caution]:
    """Return all warnings of a run, the most serious first, each sentence once."""
    found = [replace(caution, of_host=check in _OF_HOST) for check in _CHECKS for caution in check(run, table)]
    return list({caution.text: caution for caution in found}.values())


def _modelled(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    count = int(table["modelled"].sum())
    if count:
        yield _caution("modelled", count=count, trials=len(table))


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
        yield _caution("failed", count=len(failed), trials=len(table), reasons=_reasons(failed))


def _flagged(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    flagged = table[table["status"] == "flagged"]
    if len(flagged):
        are = "is" if len(flagged) == 1 else "are"
        yield _caution("flagged", count=len(flagged), trials=len(table), are=are, reasons=_reasons(flagged))


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
        yield _caution("more notes", notes=counted(len(texts) - _MOST_NOTES, "more note"))


def _generator(run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    noted = any(maximum.get("generator_bound") for maximum in run.meta.get("maxima", {}).values())
    unsaturated = {} if noted else unsaturated_points(table)
    if unsaturated:
        reason = next(iter(unsaturated.values()))
        yield _caution("unsaturated", points=counted(len(unsaturated), "point"), reason=reason)
    missing: dict[tuple[str, str], list[str]] = {}
    for each in throughputs(run):
        if each.reason:
            missing.setdefault((each.label, each.reason), []).append(human_share(each.loss_ratio, 6))
    for (label, reason), ratios in missing.items():
        yield _caution("no throughput", label=label, ratios=" and ".join(ratios), reason=reason)
    bound = generator_bound_points(table)
    if bound:
        worst = max(bound, key=lambda point: bound[point])
        unsent = human_share(bound[worst], 2)
        yield _caution("generator", points=counted(len(bound), "point"), unsent=unsent, worst=worst)


def _added_cost(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    """Report a fixed cost per packet that the spec adds to the workload; swept costs are a factor."""
    costs = {trial["params"].get("extra_cycles") for trial in run.trials if "extra_cycles" not in trial["factors"]}
    for cost in sorted(cost for cost in costs if cost):
        yield _caution("added cost", cycles=human_number(cost))


def _machine(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    host = HostMetadata(run.meta)
    smt, governor, turbo = (host.get(name) for name in ("smt", "governor", "turbo"))
    if host.hypervisor:
        yield _caution("virtual machine", hypervisor=host.hypervisor)
    if host.virtual_nic:
        yield _caution("virtual NIC")
    if host.emulated:
        yield _caution("emulated")
    if smt is None:
        yield _caution("SMT unknown", reason=host.missing("smt"))
    elif smt or host.hypervisor:
        yield _caution("SMT on" if smt else "SMT hidden")
    if governor is None:
        yield _caution("no governor", reason=host.missing("governor"))
    elif governor != "performance":
        yield _caution("governor", governor=governor)
    if turbo is None:
        yield _caution("turbo unknown", reason=host.missing("turbo"))
    elif turbo == "on":
        yield _caution("turbo")


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
        yield _caution("host noise", noisy=", ".join(noisy))


def _absent(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    things: dict[str, list[str]] = {}
    for thing, reason in HostMetadata(run.meta).absent.items():
        if not thing.startswith("link_bps."):  # unknown before a port is started; no metric is made from it
            things.setdefault(reason, []).append(thing)
    for reason, names in things.items():
        yield _caution("not measured", names=", ".join(names), reason=reason)


def _interrupted(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    shares = measured(table)["metric.interrupted_share"].dropna()
    if not shares.empty and shares.median() > INTERRUPTED_LIMIT:
        middle, worst = human_share(float(shares.median()), 2), human_share(float(shares.max()), 2)
        yield _caution("interrupted", middle=middle, worst=worst)


def _few_repeats(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    sizes = places(measured(table)).value_counts()
    few = int((sizes < FEWEST_REPEATS).sum())
    if few:
        yield _caution("few repeats", few=few, points=len(sizes), fewest=FEWEST_REPEATS)


def _instrumentation(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    worst = measured(table)["metric.instrumentation_share"].max()
    if worst > _INSTRUMENTATION_LIMIT:
        yield _caution("probe effect", worst=100 * worst)


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
    trials, where = counted(sum(map(len, texts.values())), "trial"), ", ".join(counts[:_MOST_POINTS])
    numbers = {"trials": trials, "points": counted(len(texts), "point"), "where": where, "more": more}
    yield _caution("shape", **numbers, worst=worst, text=texts[worst][0])


def _host_state(run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    text = change_text(run, table)
    if text:
        yield Caution("host_state", text)


def _baseline_drift(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    found = _flagged_with(table, "drift")
    baselines = table[(table["kind"] == "baseline") & (table["status"] == "ok")]
    if found:
        first = {"trial": found[0].trial, "text": found[0].flag["text"]}
        yield _caution("baselines", count=len(found), baselines=len(baselines), **first)


@dataclass(frozen=True)
class Drift:
    """Hold how a metric rose or fell over the minutes of a run: the median move of its points as a share.

    `p` is that of the Mann-Kendall test over all points, each compared with itself only (Hirsch 1982).
    """

    move: float
    minutes: float
    p: float
    points: int


def drift(run: RunFolder, table: pd.DataFrame, metric: str) -> Drift | None:
    """Return a metric's drift over a run, by repeats in one host state; None if too little moved or is known."""
    minutes, column = _minutes(run), f"metric.{metric}"
    # A table has hundreds of columns: select the needed ones before the rows.
    read = ["trial", "point", "host_state", "kind", "status", "other_host_state", f"factor.{PAIR}", column]
    data = measured(table[[name for name in read if name in table]])
    data = data[data[column].notna() & data["trial"].isin(minutes)]
    groups = [
        ([minutes[trial] for trial in rows["trial"]], [float(value) for value in rows[column]])
        for _, rows in data.groupby([places(data), "host_state"], sort=False)
        if len(rows) >= FEWEST_REPEATS
    ]
    found = trend(groups)
    if found.p > LARGEST_P:
        return None
    length = max(minutes[trial] for trial in data["trial"])
    moves = [move for when, values in groups if (move := _move(when, values, length)) is not None]
    if not moves or abs(median(moves)) < _SMALLEST_MOVE:
        return None
    return Drift(median(moves), length, found.p, len(groups))


def _minutes(run: RunFolder) -> dict[str, float]:
    """Return trial -> minutes since the first one."""
    starts: dict[str, datetime] = {}
    for record in last_attempts(run.trials):
        with suppress(ValueError):  # a trial without a time says nothing about a drift
            start = datetime.fromisoformat(str(record.get("started_utc")))
            starts |= {str(record["trial"]): start} if start.tzinfo is not None else {}
    first = min(starts.values(), default=None)
    return {trial: (start - first).total_seconds() / 60 for trial, start in starts.items() if first is not None}


def _move(when: Sequence[float], values: Sequence[float], length: float) -> float | None:
    middle = median(values)
    if middle == 0 or len(set(when)) < 2:
        return None
    if min(values) > 0:  # a straight line through a fall to a tenth would reach below zero
        return math.expm1(_slope([math.log(value) for value in values], when) * length)
    return max(-1.0, _slope(values, when) * length / abs(middle))


def _slope(values: Sequence[float], when: Sequence[float]) -> float:
    with np.errstate(invalid="ignore"):  # many ties make the slope's interval undefined, which is not used
        return float(scipy.stats.theilslopes(values, when).slope)


def _drifting(run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    for name in _WATCHED:
        found = drift(run, table, name)
        if found:
            moved = {"direction": "rose" if found.move > 0 else "fell", "share": human_share(abs(found.move), 2)}
            over = {"time": human_time(60 * found.minutes), "points": found.points, "p": human_p(found.p)}
            yield _caution("drift", title=metric_dictionary()[name].title, **moved, **over)


def _modes(_run: RunFolder, table: pd.DataFrame) -> Iterator[Caution]:
    data = measured(table)
    for name in _WATCHED:
        for sample in by_point(data, name):
            text = bimodality_warning(sample.values)
            if text:
                title = metric_dictionary()[name].title
                yield _caution("two modes", title=title, label=sample.label() or "all trials", text=text)


def _implausible(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    for doubt in doubts(run):
        yield Caution(f"counters: {doubt.verdict}", f"In {doubt.trials} trials ({doubt.rule}): {doubt.text}.")


def _collectors(run: RunFolder, _table: pd.DataFrame) -> Iterator[Caution]:
    for each in deliveries(run):
        if each.replay is not None:
            yield _caution("replayed", name=each.name, replay=each.replay)
        reasons = "; ".join(each.reasons[:2])
        if set(each.states) & {"failed", "hung"}:
            yield _caution("collector failed", name=each.name, status=each.status, reasons=reasons)
        elif "absent" in each.states:
            yield _caution("not collected", name=each.name, reasons=reasons)
        if each.left_out:
            lines = "1 line that was" if each.left_out == 1 else f"{each.left_out} lines that were"
            yield _caution("not understood", name=each.name, lines=lines, first=each.first_left_out)


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
