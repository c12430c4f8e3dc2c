# SPDX-License-Identifier: BSD-3-Clause
"""Decide whether the host was in one state or in several during a run.

A run records a host-state check (core-to-core latency, clock, memory) beside its trials, as lines of
`host_state.jsonl`. This module groups the checks. Runner and analysis both call it when they read the records, so that
they agree.

Two groups of values differ if a gap of at least SMALLEST_CHANGE lies between them that is also _SPREADS times their
internal spread, or if the values drift by SMALLEST_CHANGE over the run (Mann-Kendall). A group seen by a single check
between two checks of another group is ignored. Checks that agree on every quantity they share form one host state;
states are named A, B, ... in order of appearance. Groups are formed per knob setting, so that sweeping a knob (a
governor, for example) does not count as a change of the host. A trial is judged by the quantities of the CPUs that it
uses. The more quantities are judged, the larger a gap has to be: one of sixty is large by chance more often than one of
seven.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import scipy

from pollscope.base.errors import UsageError
from pollscope.base.units import human_number
from pollscope.metrics.record import NotMeasured, Part
from pollscope.stats.estimates import Values, bimodality_warning, trend

HostCheck = Mapping[str, Any]

# Seen changes: a factor of 4 in the latency of a cache line, and 20 to 40 % by a neighbour on the same core.
SMALLEST_CHANGE = math.log(1.2)
# tests/test_host_state.py measures the rate of false alarms for random checks.
_SPREADS = 5.0
# The quantities of two CPUs, for which _SPREADS and LARGEST_P hold.
_FEW_QUANTITIES = 7
# Weight of the spread within host-state checks, in numbers of checks, against the spread between them.
_WITHIN_WEIGHT = 4
LARGEST_P = 0.01
# Memory and time of the trend test grow with the square of the number of values, so longer runs are judged by medians.
_DRIFT_VALUES = 256
# Distance between the quartiles of a normal distribution, in standard deviations.
_QUARTILES = 1.349
# With at least this many repeats, half of them suffice for a narrow interval, and the others can be left out.
_MANY_REPEATS = 12
_CPU_NUMBER = re.compile(r"CPU (\d+)")
# A trial between two checks of different host states.
BETWEEN = "between"
UNKNOWN = ""
NO_HOST_CHECK = "the run has no host-state checks: it was made before there were any, or on a testbed without a node"
WORDS = {
    "line": ("round trip of a cache line", "cycles"),
    "chain": ("dependent multiplication", "cycles"),
    "wide": ("four multiplications side by side", "cycles"),
    "stream": ("reading memory in order", "B/cycle"),
}


@dataclass(frozen=True)
class HostCheckReading:
    """Hold one quantity of a host-state check: median of its batches, their log spread, whether they are bimodal."""

    value: float
    spread: float
    two_modes: bool


@dataclass(frozen=True)
class HostStateQuantity:
    """Hold one quantity over a run.

    Attributes:
        kind: `line`, `chain`, `wide` or `stream`.
        where: the CPUs.
        values: one per host-state check; None if it was not measured.
        levels: one per host-state check, 0 for the smallest values; an outlier has the level of its neighbours.
        moments: number of host-state checks that were treated as outliers.
        two_modes: number of host-state checks with two modes within their milliseconds.
    """

    kind: str
    where: str
    values: tuple[float | None, ...]
    levels: tuple[int | None, ...]
    moments: int
    two_modes: int

    @property
    def title(self) -> str:
        """Return the name of the quantity, with its CPUs."""
        return f"{WORDS[self.kind][0]}, {self.where}"

    @property
    def unit(self) -> str:
        """Return the unit of the values."""
        return WORDS[self.kind][1]

    @property
    def cpus(self) -> frozenset[int]:
        """Return the CPUs."""
        return frozenset(int(number) for number in _CPU_NUMBER.findall(self.where))

    @property
    def changed(self) -> bool:
        """Return whether the checks saw more than one level."""
        return len({level for level in self.levels if level is not None}) > 1

    def change_text(self) -> str:
        """Describe the levels in order of appearance, with their medians and numbers of host-state checks."""
        modes: dict[int, list[float]] = {}
        for level, value in zip(self.levels, self.values, strict=True):
            if level is not None and value is not None:
                modes.setdefault(level, []).append(value)
        parts = [f"{human_number(median(mode))} {self.unit} in {len(mode)}" for mode in modes.values()]
        return f"{self.title}: {', '.join(parts)} of {sum(map(len, modes.values()))} host-state checks"


@dataclass(frozen=True)
class HostStateJudgement:
    """Hold the judgement on the host-state checks of a run.

    Attributes:
        labels: the host state of each check, by its number; UNKNOWN if the check measured nothing.
        quantities: all measured quantities.
        absent: why nothing is known; empty if something is.
        one_host: whether all quantities are of one host and of every check.
    """

    labels: Mapping[int, str]
    quantities: tuple[HostStateQuantity, ...]
    absent: str = ""
    one_host: bool = False

    @property
    def host_states(self) -> list[str]:
        """Return the host states that were seen, in order."""
        return list(dict.fromkeys(label for label in self.labels.values() if label != UNKNOWN))

    def labels_on(self, cpus: frozenset[int]) -> Mapping[int, str]:
        """Return the labels by the quantities of some CPUs alone; all labels if the run has several pairs or hosts."""
        own = [quantity for quantity in self.quantities if quantity.cpus <= cpus]
        if not self.one_host or not own or len(own) == len(self.quantities):
            return self.labels
        return dict(zip(self.labels, _labels(own, len(self.labels)), strict=True))

    def changes(self) -> list[str]:
        """Return a text per quantity with more than one level."""
        return [quantity.change_text() for quantity in self.quantities if quantity.changed]


def readings(host_check: HostCheck) -> dict[tuple[str, str], HostCheckReading]:
    """Return the readings of a host-state check by (kind, where).

    Raises:
        UsageError: it contradicts docs/internals/store-format.md.
    """
    if "hosts" not in host_check:
        return {}
    found = {}
    for host in Part(host_check, "host_states.jsonl")["hosts"].items():
        found.update(_of_host(host))
    return found


def _of_host(host: Part) -> dict[tuple[str, str], HostCheckReading]:
    role = f"{host.value['role']} " if isinstance(host.value, Mapping) and "role" in host.value else ""
    found = {}
    try:
        for line in host["lines"].items():
            if isinstance(line.value, Mapping) and "absent" not in line.value:
                cpus = sorted(int(cpu.number()) for cpu in line["cpus"].items())
                if len(cpus) != 2:
                    raise UsageError(f"names {len(cpus)} CPUs, not two", line.path)
                found["line", f"{role}CPU {cpus[0]} - CPU {cpus[1]}"] = _reading(line, "round_trips")
        for core in host["cores"].items():
            where = f"{role}CPU {core['cpu'].number():.0f}"
            found |= {
                ("chain", where): _reading(core["chain"], "steps"),
                ("wide", where): _reading(core["wide"], "steps"),
            }
            found["stream", where] = _reading(core["stream"], "bytes", inverse=True)
    except NotMeasured:
        return found  # the record says why this host has no host-state check
    return found


def _reading(batches: Part, of: str, inverse: bool = False) -> HostCheckReading:
    cycles, count = tuple(each.number() for each in batches["cycles"].items()), batches[of].number()
    if not cycles or count <= 0:
        raise UsageError(f"holds {len(cycles)} batches of {count:,.0f} {of}", batches.path)
    return _read(cycles, count, inverse)


@cache
def _read(cycles: tuple[float, ...], count: float, inverse: bool) -> HostCheckReading:
    each = np.maximum(np.array(cycles), 1.0) / count
    values = 1 / each if inverse else each
    low, high = np.quantile(np.log(values), [0.25, 0.75])
    two = bimodality_warning(list(values)) is not None and high - low >= SMALLEST_CHANGE
    return HostCheckReading(float(np.median(values)), float(high - low) / _QUARTILES, two)


def judge_host_state(host_checks: Sequence[HostCheck]) -> HostStateJudgement:
    """Judge host-state checks in the order in which they were taken; pairs are judged separately.

    Raises:
        UsageError: one contradicts docs/internals/store-format.md.
    """
    by_pair: dict[Any, list[HostCheck]] = defaultdict(list)
    for host_check in host_checks:
        by_pair[host_check.get("pair")].append(host_check)
    labels: dict[int, str] = {}
    quantities: list[HostStateQuantity] = []
    for pair, own in by_pair.items():
        judged = _quantities(own, "" if pair is None else f"{pair} ")
        quantities += judged
        labels |= {
            int(host_check["host_check"]): label
            for host_check, label in zip(own, _labels(judged, len(own)), strict=True)
        }
    one_host = set(by_pair) == {None} and not any(quantity.where[:3] != "CPU" for quantity in quantities)
    return HostStateJudgement(labels, tuple(quantities), "" if quantities else _why_absent(host_checks), one_host)


def _why_absent(host_checks: Sequence[HostCheck]) -> str:
    reasons = [str(host_check["absent"]) for host_check in host_checks if "absent" in host_check]
    reasons += [
        str(host["absent"]) for host_check in host_checks for host in host_check.get("hosts", []) if "absent" in host
    ]
    return reasons[0] if reasons else NO_HOST_CHECK


def _quantities(host_checks: Sequence[HostCheck], prefix: str) -> list[HostStateQuantity]:
    read = [readings(host_check) for host_check in host_checks]
    settings = [repr(sorted(dict(host_check.get("knobs") or {}).items())) for host_check in host_checks]
    found = []
    keys = dict.fromkeys(key for each in read for key in each)
    largest_p = LARGEST_P * min(1.0, _FEW_QUANTITIES / max(1, len(keys)))  # Bonferroni
    for kind, where in keys:
        own = [each.get((kind, where)) for each in read]
        raw = _levels_by_setting(own, settings, largest_p)
        levels = _without_moments(raw)
        moments = sum(before != after for before, after in zip(raw, levels, strict=True))
        values = tuple(None if each is None else each.value for each in own)
        two_modes = sum(each is not None and each.two_modes for each in own)
        found.append(HostStateQuantity(kind, prefix + where, values, tuple(levels), moments, two_modes))
    return found


def _levels_by_setting(
    own: Sequence[HostCheckReading | None], settings: Sequence[str], largest_p: float
) -> list[int | None]:
    levels: list[int | None] = [None] * len(own)
    for setting in dict.fromkeys(settings):
        there = [i for i, each in enumerate(own) if each is not None and settings[i] == setting]
        logs = np.log([own[i].value for i in there])  # type: ignore[union-attr]
        within = median(own[i].spread for i in there) if there else 0.0  # type: ignore[union-attr]
        for i, level in zip(there, _levels(logs, within, largest_p), strict=True):
            levels[i] = level
    return levels


def _levels(logs: Values, within: float, largest_p: float) -> list[int]:
    cuts = _cuts(np.sort(logs), within, largest_p)
    return [int(level) for level in np.searchsorted(cuts, logs)] if cuts else _drift(logs, largest_p)


def _cuts(ordered: Values, within: float, largest_p: float) -> list[float]:
    """Return the cuts between groups of sorted values: two groups, or three whose outer ones hide the gap."""
    for count in (1, 2):
        at = np.sort(np.argsort(np.diff(ordered))[-count:]) + 1
        modes = np.split(ordered, at)
        if len(at) == count and _apart(modes, within, largest_p, fewest=count):
            middles = [float(low[-1] + high[0]) / 2 for low, high in pairwise(modes)]
            return sorted([*middles, *(cut for mode in modes for cut in _cuts(mode, within, largest_p))])
    return []


def _apart(modes: Sequence[Values], within: float, largest_p: float, fewest: int) -> bool:
    """Return whether the gaps between groups are large, both absolutely and against the spread within the groups."""
    rest = np.concatenate([mode - np.median(mode) for mode in modes])
    power = float((rest**2).sum()) + _WITHIN_WEIGHT * within**2
    freedom = len(rest) - len(modes) + _WITHIN_WEIGHT
    spread = math.sqrt(power / freedom)
    spreads = _SPREADS * float(scipy.special.stdtrit(freedom, largest_p) / scipy.special.stdtrit(freedom, LARGEST_P))
    gap = min(float(high[0] - low[-1]) for low, high in pairwise(modes))
    return min(map(len, modes)) >= fewest and gap >= max(SMALLEST_CHANGE, spreads * spread)


def _drift(logs: Values, largest_p: float) -> list[int]:
    """Return two levels if the values drift over the run, else one."""
    n = len(logs)
    if n > _DRIFT_VALUES:
        parts = np.array_split(logs, _DRIFT_VALUES)
        levels = _drift(np.array([np.median(part) for part in parts]), largest_p)
        return [level for part, level in zip(parts, levels, strict=True) for _ in part]
    if n < 2 or trend([(list(range(n)), list(logs))]).p > largest_p:
        return [0] * n
    first, second = np.triu_indices(n, 1)
    slope = float(np.median((logs[second] - logs[first]) / (second - first)))
    if abs(slope) * (n - 1) < SMALLEST_CHANGE:
        return [0] * n
    cut = max(range(1, n), key=lambda k: abs(logs[:k].mean() - logs[k:].mean()) * math.sqrt(k * (n - k)))
    return [int((i >= cut) == (slope > 0)) for i in range(n)]


def _without_moments(levels: Sequence[int | None]) -> list[int | None]:
    """Replace a level that a single check saw between two agreeing checks by their level."""
    found = list(levels)
    there = [i for i, level in enumerate(levels) if level is not None]
    for before, i, after in zip(there, there[1:], there[2:], strict=False):
        if found[before] == levels[after] != levels[i]:
            found[i] = levels[after]
    return found


def _labels(quantities: Sequence[HostStateQuantity], host_checks: int) -> list[str]:
    host_states: list[dict[int, int]] = []
    labels, last = [], 0
    for i in range(host_checks):
        own = {number: each.levels[i] for number, each in enumerate(quantities)}
        seen = {number: level for number, level in own.items() if level is not None}
        last = _place(host_states, seen, last) if seen else last
        labels.append(_name(last) if seen else UNKNOWN)
    return labels


def _place(host_states: list[dict[int, int]], seen: Mapping[int, int], last: int) -> int:
    """Return a host state that a check does not contradict, preferably the last one, else a new one."""
    for number in sorted(range(len(host_states)), key=lambda each: each != last):
        known = host_states[number]
        if all(known.get(quantity, level) == level for quantity, level in seen.items()):
            known.update(seen)
            return number
    host_states.append(dict(seen))
    return len(host_states) - 1


def _name(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else f"state {number + 1}"


class Measured(NamedTuple):
    """Hold the number of the check before a trial and the CPUs on which it measured; None where its record has none."""

    check: int | None
    cpus: frozenset[int] | None = None

    @classmethod
    def of(cls, trial: Mapping[str, Any]) -> "Measured":
        """Return the check and the CPUs from the record of a trial."""
        check, host = trial.get("host_state"), trial.get("host")
        interrupts = host.get("interrupts") if isinstance(host, Mapping) else None
        cpus = interrupts if isinstance(interrupts, Mapping) and all(str(cpu).isdecimal() for cpu in interrupts) else ()
        return cls(check if isinstance(check, int) else None, frozenset(int(cpu) for cpu in cpus) or None)


def trial_labels(
    judgement: HostStateJudgement, host_checks: Sequence[HostCheck], trials: Iterable[Measured]
) -> list[str]:
    """Return the host state of each trial: that of the checks around it, BETWEEN if they differ, or UNKNOWN.

    A trial is judged by the CPUs that it uses, as far as they are known.
    """
    following = _following(host_checks)
    labels = []
    by_cpus: dict[frozenset[int] | None, Mapping[int, str]] = {None: judgement.labels}
    for check, cpus in trials:
        if cpus is not None and cpus not in by_cpus:
            by_cpus[cpus] = judgement.labels_on(cpus)
        known = by_cpus[cpus]
        before = -1 if check is None else check  # no check has this number
        label, after = known.get(before, UNKNOWN), known.get(following.get(before, -1), UNKNOWN)
        labels.append(BETWEEN if UNKNOWN not in (label, after) and label != after else label)
    return labels


def _following(host_checks: Sequence[HostCheck]) -> dict[int, int]:
    """Return the next host-state check of the same pair, by check."""
    last: dict[Any, int] = {}
    following = {}
    for host_check in host_checks:
        number, pair = int(host_check["host_check"]), host_check.get("pair")
        if pair in last:
            following[last[pair]] = number
        last[pair] = number
    return following


@dataclass(frozen=True)
class Standing:
    """Hold how completely the points of a run were measured in one host state.

    Attributes:
        main: the host state with most of the wanted trials; UNKNOWN without checks.
        short: point -> number of trials that it lacks there.
    """

    main: str
    short: Mapping[str, int]


def wanted_in_one(repeats: int) -> int:
    """Return how many trials of a point should be in one host state: all of few repeats, half of many."""
    return repeats if repeats < _MANY_REPEATS else repeats // 2


def standing(trials: Iterable[tuple[str, str]], wanted: int | None) -> Standing:
    """Count the trials that points lack in the most complete host state.

    Args:
        trials: point and host state of each trial that is data.
        wanted: trials that each point should have there; a point with fewer trials should have all of them there. None
            stands for what `wanted_in_one` says of the point's own trials, where points have many more than planned.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for point, label in trials:
        counts[point][label] += 1
    labels = sorted({label for each in counts.values() for label in each} - {UNKNOWN})
    if not labels:
        return Standing(UNKNOWN, {})

    def asked_of(made: int) -> int:
        return wanted_in_one(made) if wanted is None else min(wanted, made)

    def short(label: str) -> dict[str, int]:
        there = {point: 0 if label == BETWEEN else each[label] for point, each in counts.items()}
        asked = {point: asked_of(each.total()) for point, each in counts.items()}
        lacking = {point: number - there[point] for point, number in asked.items()}
        return {point: number for point, number in lacking.items() if number > 0}

    main = min(labels, key=lambda label: (sum(short(label).values()), -sum(each[label] for each in counts.values())))
    return Standing(main, short(main))
