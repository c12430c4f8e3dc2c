# SPDX-License-Identifier: BSD-3-Clause
"""Find the comparisons that a change of the host state affects, and show the checks (docs/validity.md)."""

from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
import pandas as pd
import scipy  # scipy.stats is loaded when it is first needed

from pollscope.analysis.point_values import PointValues, on_any_host_state
from pollscope.base.units import counted, human_number
from pollscope.metrics.host_state import (
    BETWEEN,
    NO_HOST_CHECK,
    UNKNOWN,
    HostStateJudgement,
    HostStateQuantity,
    Measured,
    judge_host_state,
    trial_labels,
)
from pollscope.plan.blocks import FEWEST_BLOCKS
from pollscope.store.results_table import last_attempts, trial_host_states
from pollscope.store.run_folder import RunFolder

# Two sets of trials share a host state when so large a share of each has a counterpart in the other. Where points are
# measured by turns, chance distributes the states, and only a distribution rarer than this is none of chance.
_LEAST_OVERLAP, _CHANCE = 0.8, 0.05
MOST_CHANGES, MOST_QUANTITIES = 3, 3
SPARK_WIDTH, SPARK_HEIGHT = 180, 26


@dataclass(frozen=True)
class Footing:
    """How two or more sets of trials stand to each other.

    Attributes:
        same: whether in the same host state; None when that is not known.
        text: the host states of the trials, or why they are not known; empty when there is one.
    """

    same: bool | None
    text: str


UNKNOWN_FOOTING = Footing(None, NO_HOST_CHECK)


def footing(sides: Sequence[tuple[str, Sequence[str]]], *, by_turns: bool = False) -> Footing:
    """Return how sets of trials (name, host states of its trials) stand to each other.

    Args:
        sides: the sets.
        by_turns: whether their trials were measured by turns, in many blocks.
    """
    known = [(name, Counter(label for label in labels if label != UNKNOWN)) for name, labels in sides]
    if any(not counts for _, counts in known):
        return UNKNOWN_FOOTING
    whole = sum((counts for _, counts in known), Counter[str]())
    if len(whole) == 1 and BETWEEN not in whole:
        return Footing(True, "")
    same = all(_overlap(counts, other) >= _LEAST_OVERLAP for _, counts in known for _, other in known)
    same = same or (by_turns and _by_chance([counts for _, counts in known]))
    parts = [f"{name}: {counts_text(counts)}" if name else counts_text(counts) for name, counts in known]
    return Footing(same, "; ".join(dict.fromkeys(parts)))


def _overlap(first: Counter[str], second: Counter[str]) -> float:
    return sum(min(first[label] / first.total(), second[label] / second.total()) for label in first)


def _by_chance(sides: Sequence[Counter[str]]) -> bool:
    """Return whether chance may have distributed the host states over the sides so (Pearson's chi-squared test)."""
    labels = sorted({label for counts in sides for label in counts})
    table = [[counts[label] for label in labels] for counts in sides]
    return len(labels) < 2 or float(scipy.stats.chi2_contingency(table).pvalue) >= _CHANCE


def counts_text(counts: Counter[str]) -> str:
    """Return `host state A in 3 trials, host state B in 2, between host states in 1`."""
    (label, number), *rest = sorted(counts.items())
    first = f"{_host_state_text(label)} in {counted(number, 'trial')}"
    return ", ".join([first, *(f"{_host_state_text(label)} in {number}" for label, number in rest)])


def _host_state_text(label: str) -> str:
    """Return the name of a host state for a reader: `host state A`."""
    return "between host states" if label == BETWEEN else f"host state {label}"


def of_samples(found: Iterable[PointValues], compared: Set[str] = frozenset()) -> Footing:
    """Return how the points of a finding stand to each other.

    Args:
        found: the points.
        compared: the factors whose levels are compared block by block.
    """
    samples = list(found)
    sides = [(sample.label() or "all", sample.host_states) for sample in samples]
    stand = footing(sides, by_turns=_are_by_turns(samples))
    return replace(stand, same=True) if stand.same is False and _in_common_blocks(samples, compared) else stand


def _in_common_blocks(samples: Sequence[PointValues], compared: Set[str]) -> bool:
    """Return whether points that differ in the factors alone share enough blocks, each within one host state.

    What such points are compared by, a ratio in each block, is free of changes between blocks. Few trials may lie
    between two host states.
    """
    groups: dict[frozenset[tuple[str, object]], list[set[str]]] = {}
    for sample in samples:
        others = frozenset(level for level in sample.levels.items() if level[0] not in compared)
        groups.setdefault(others, []).append(set(sample.by_block()))
    labels = whole_mix(samples)
    return labels[BETWEEN] <= (1 - _LEAST_OVERLAP) * labels.total() and all(
        len(blocks) > 1 and len(set.intersection(*blocks)) >= FEWEST_BLOCKS for blocks in groups.values()
    )


def _are_by_turns(samples: Sequence[PointValues]) -> bool:
    """Return whether points of one run were measured by turns, in enough blocks for an estimate block by block."""
    blocks = [sample.by_block() for sample in samples]
    runs = {block.partition(" ")[0] for own in blocks for block in own}
    return len(runs) == 1 and min(map(len, blocks)) >= FEWEST_BLOCKS


def whole_mix(found: Iterable[PointValues]) -> Counter[str]:
    """Count the trials of all samples by host state."""
    return Counter(label for sample in found for label in sample.host_states if label != UNKNOWN)


def labelled_together(runs: Sequence[RunFolder], tables: Sequence[pd.DataFrame]) -> tuple[list[pd.DataFrame], str]:
    """Return the tables of several runs with host states that mean the same in all, and why they do not, if so."""
    shifted, last = [], 0
    for run in runs:
        shifted.append(
            [{**host_check, "host_check": last + int(host_check["host_check"])} for host_check in run.host_checks]
        )
        last += 1 + max((int(host_check["host_check"]) for host_check in run.host_checks), default=0)
    judgement = judge_host_state([host_check for own in shifted for host_check in own])
    reason = _not_comparable(runs)
    found = []
    for run, own, table in zip(runs, shifted, tables, strict=True):
        offset = int(own[0]["host_check"]) - int(run.host_checks[0]["host_check"]) if own else 0
        trials = [
            Measured(None if check is None else check + offset, cpus)
            for check, cpus in map(Measured.of, last_attempts(run.trials))
        ]
        labels = [UNKNOWN] * len(trials) if reason else trial_labels(judgement, own, trials)
        # By the number of the trial: a view without flagged trials has fewer rows.
        found.append(table.assign(host_state=pd.Series(labels, dtype="str")))
    return found, reason


def _not_comparable(runs: Sequence[RunFolder]) -> str:
    seen = []
    for run in runs:
        judgement = judge_host_state(run.host_checks)
        if judgement.absent:
            return f"run {run.run_id}: {judgement.absent}"
        seen.append({(quantity.kind, quantity.where) for quantity in judgement.quantities})
    return "" if set.intersection(*seen) else "the host-state checks of the runs were of different CPUs"


@dataclass(frozen=True)
class HostStateRow:
    """One quantity for a reader."""

    title: str
    unit: str
    middle: str
    extremes: str
    host_checks: int
    note: str
    line: list[str]


@dataclass(frozen=True)
class HostStateTable:
    """Hold the quantities of a run's host-state checks; `absent` is the reason why there are none."""

    rows: list[HostStateRow]
    changed: bool
    absent: str


def host_state_table(run: RunFolder) -> HostStateTable:
    """Return the quantities over a run, those that changed first."""
    judgement = judge_host_state(run.host_checks)
    quantities = sorted(judgement.quantities, key=lambda each: not each.changed)
    return HostStateTable([_row(each) for each in quantities], len(judgement.host_states) > 1, judgement.absent)


def _row(quantity: HostStateQuantity) -> HostStateRow:
    values = [value for value in quantity.values if value is not None]
    seen = Counter(level for level in quantity.levels if level is not None)
    notes = [f"{len(seen)} levels, with {', '.join(str(seen[level]) for level in sorted(seen))} host-state checks"]
    notes = notes if len(seen) > 1 else []
    notes += [f"{quantity.moments} for a moment at another level"] if quantity.moments else []
    notes += [f"{quantity.two_modes} with two modes within"] if quantity.two_modes else []
    return HostStateRow(
        quantity.title,
        quantity.unit,
        human_number(median(values)),
        f"{human_number(min(values))} to {human_number(max(values))}",
        len(values),
        "; ".join(notes),
        _spark(quantity),
    )


def _spark(quantity: HostStateQuantity) -> list[str]:
    """Return `x,y` of each value, in the order of measurement, on a logarithmic scale of at least a factor of 2."""
    logs = [None if value is None else float(np.log2(value)) for value in quantity.values]
    there = [each for each in logs if each is not None]
    middle, half = (max(there) + min(there)) / 2, max(0.5, (max(there) - min(there)) / 2)
    step = (SPARK_WIDTH - 4) / max(1, len(logs) - 1)
    return [
        f"{2 + i * step:.1f},{SPARK_HEIGHT / 2 - (each - middle) / half * (SPARK_HEIGHT / 2 - 3):.1f}"
        for i, each in enumerate(logs)
        if each is not None
    ]


def change_text(run: RunFolder, table: pd.DataFrame) -> str:
    """Return a warning if the host state changed during a run, with the trials that the change divides; else empty."""
    judgement = judge_host_state(run.host_checks)
    if len(judgement.host_states) < 2:
        return ""
    what = f"The host state changed during the run: {_quantities_text(judgement)}."
    return " ".join(text for text in (what, _divided(run), _consequence(table)) if text)


def _quantities_text(judgement: HostStateJudgement) -> str:
    changes = judgement.changes()
    more = f"; {len(changes) - MOST_QUANTITIES} more quantities" if len(changes) > MOST_QUANTITIES else ""
    return "; ".join(changes[:MOST_QUANTITIES]) + more


def _divided(run: RunFolder) -> str:
    """Return at which trials the host state changes."""
    trials = [str(record["trial"]) for record in last_attempts(run.trials)]
    labels = [stand.label for stand in trial_host_states(run)]
    moves = [
        f"{_host_state_text(before)} to {_host_state_text(label)} at {trial}"
        for before, label, trial in zip(labels, labels[1:], trials[1:], strict=False)
        if before != label
    ]
    if not moves:
        return ""
    more = f" and {len(moves) - MOST_CHANGES} more" if len(moves) > MOST_CHANGES else ""
    return f"It divides the trials: from {', from '.join(moves[:MOST_CHANGES])}{more}."


def _consequence(table: pd.DataFrame) -> str:
    data = on_any_host_state(table)
    if data.empty:
        return ""
    kept = data[~data["other_host_state"]]["host_state"]
    text = f"Measured in {counts_text(Counter(data['host_state']))}."
    if kept.nunique() > 1 or kept.iloc[0] == BETWEEN:
        return f"{text} No host state has every point as often as asked: all trials are pooled, with wider intervals."
    main = kept.iloc[0]
    if len(kept) < len(data):
        others = len(data) - len(kept)
        text += f" Each point was seen often enough in host state {main}: the {others} other trials are left out."
    maxima = table[(table["kind"] == "maximum") & table["status"].isin(["ok", "flagged"])]["host_state"]
    elsewhere = int((maxima != main).sum())
    if elsewhere:
        text += f" {elsewhere} of {len(maxima)} trials of maxima were made in other host states, so 100 % load"
        text += f" is not the maximum of host state {main}."
    return text
