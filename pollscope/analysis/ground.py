# SPDX-License-Identifier: BSD-3-Clause
"""What the ground under trials means for results (docs/validity.md): which comparisons it divides, how it is shown."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import pandas as pd

from pollscope.analysis.point_values import PointValues, on_any_ground
from pollscope.base.units import counted, human_number
from pollscope.metrics.ground import (
    BETWEEN,
    NO_CANARY,
    UNKNOWN,
    GroundJudgement,
    GroundQuantity,
    judge_ground,
    trial_labels,
)
from pollscope.store.results_table import last_attempts, trial_grounds
from pollscope.store.run_folder import RunFolder

# Two sets of trials stand on the same ground when so large a share of each has a counterpart on it in the other.
_LEAST_OVERLAP = 0.8
MOST_CHANGES, MOST_QUANTITIES = 3, 3
SPARK_WIDTH, SPARK_HEIGHT = 180, 26


@dataclass(frozen=True)
class Footing:
    """How two or more sets of trials stand to each other.

    Attributes:
        same: whether on the same ground; None when that is not known.
        text: which trials stand where, or why it is not known; empty when all stand on one ground.
    """

    same: bool | None
    text: str


UNKNOWN_FOOTING = Footing(None, NO_CANARY)


def footing(sides: Sequence[tuple[str, Sequence[str]]]) -> Footing:
    """How sets of trials (name, grounds of its trials) stand to each other."""
    known = [(name, Counter(label for label in labels if label != UNKNOWN)) for name, labels in sides]
    if any(not counts for _, counts in known):
        return UNKNOWN_FOOTING
    whole = sum((counts for _, counts in known), Counter[str]())
    if len(whole) == 1 and BETWEEN not in whole:
        return Footing(True, "")
    same = all(_overlap(counts, other) >= _LEAST_OVERLAP for _, counts in known for _, other in known)
    parts = [f"{name}: {counts_text(counts)}" if name else counts_text(counts) for name, counts in known]
    return Footing(same, "; ".join(dict.fromkeys(parts)))


def _overlap(first: Counter[str], second: Counter[str]) -> float:
    return sum(min(first[label] / first.total(), second[label] / second.total()) for label in first)


def counts_text(counts: Counter[str]) -> str:
    """`ground A in 3 trials, ground B in 2, between grounds in 1`."""
    (label, number), *rest = sorted(counts.items())
    first = f"{_ground_text(label)} in {counted(number, 'trial')}"
    return ", ".join([first, *(f"{_ground_text(label)} in {number}" for label, number in rest)])


def _ground_text(label: str) -> str:
    """A ground by name, which is not that of a run: `ground A`."""
    return "between grounds" if label == BETWEEN else f"ground {label}"


def of_samples(found: Iterable[PointValues]) -> Footing:
    """How the points of a finding stand to each other."""
    return footing([(sample.label() or "all", sample.grounds) for sample in found])


def whole_mix(found: Iterable[PointValues]) -> Counter[str]:
    """Trials of all samples by ground."""
    return Counter(label for sample in found for label in sample.grounds if label != UNKNOWN)


def labelled_together(runs: Sequence[RunFolder], tables: Sequence[pd.DataFrame]) -> tuple[list[pd.DataFrame], str]:
    """The tables of several runs with grounds that mean the same in all of them, and why they do not, if so."""
    shifted, last = [], 0
    for run in runs:
        shifted.append([{**canary, "canary": last + int(canary["canary"])} for canary in run.canaries])
        last += 1 + max((int(canary["canary"]) for canary in run.canaries), default=0)
    judgement = judge_ground([canary for own in shifted for canary in own])
    reason = _not_comparable(runs)
    found = []
    for run, own, table in zip(runs, shifted, tables, strict=True):
        offset = int(own[0]["canary"]) - int(run.canaries[0]["canary"]) if own else 0
        trials = [
            {"ground": trial["ground"] + offset} if isinstance(trial.get("ground"), int) else {}  # type: ignore[operator]
            for trial in last_attempts(run.trials)
        ]
        labels = [UNKNOWN] * len(trials) if reason else trial_labels(judgement, own, trials)
        found.append(table.assign(ground=labels))
    return found, reason


def _not_comparable(runs: Sequence[RunFolder]) -> str:
    seen = []
    for run in runs:
        judgement = judge_ground(run.canaries)
        if judgement.absent:
            return f"run {run.run_id}: {judgement.absent}"
        seen.append({(quantity.kind, quantity.where) for quantity in judgement.quantities})
    return "" if set.intersection(*seen) else "the canaries of the runs were of different CPUs"


@dataclass(frozen=True)
class GroundRow:
    """One quantity for a reader."""

    title: str
    unit: str
    middle: str
    extremes: str
    canaries: int
    note: str
    line: list[str]


@dataclass(frozen=True)
class GroundTable:
    """What the canaries of a run saw; `absent` says why there is nothing."""

    rows: list[GroundRow]
    changed: bool
    absent: str


def ground_table(run: RunFolder) -> GroundTable:
    """The quantities over a run, those that changed first."""
    judgement = judge_ground(run.canaries)
    quantities = sorted(judgement.quantities, key=lambda each: not each.changed)
    return GroundTable([_row(each) for each in quantities], len(judgement.grounds) > 1, judgement.absent)


def _row(quantity: GroundQuantity) -> GroundRow:
    values = [value for value in quantity.values if value is not None]
    seen = Counter(level for level in quantity.levels if level is not None)
    notes = [f"{len(seen)} levels, with {', '.join(str(seen[level]) for level in sorted(seen))} canaries"]
    notes = notes if len(seen) > 1 else []
    notes += [f"{quantity.moments} for a moment at another level"] if quantity.moments else []
    notes += [f"{quantity.two_modes} with two modes within"] if quantity.two_modes else []
    return GroundRow(
        quantity.title,
        quantity.unit,
        human_number(median(values)),
        f"{human_number(min(values))} to {human_number(max(values))}",
        len(values),
        "; ".join(notes),
        _spark(quantity),
    )


def _spark(quantity: GroundQuantity) -> list[str]:
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
    """A warning when the ground changed under a run, with the trials that it divides; else empty."""
    judgement = judge_ground(run.canaries)
    if len(judgement.grounds) < 2:
        return ""
    what = f"The ground under the run changed: {_quantities_text(judgement)}."
    return " ".join(text for text in (what, _divided(run), _consequence(table)) if text)


def _quantities_text(judgement: GroundJudgement) -> str:
    changes = judgement.changes()
    more = f"; {len(changes) - MOST_QUANTITIES} more quantities" if len(changes) > MOST_QUANTITIES else ""
    return "; ".join(changes[:MOST_QUANTITIES]) + more


def _divided(run: RunFolder) -> str:
    """Where the trials change their ground."""
    trials = [str(record["trial"]) for record in last_attempts(run.trials)]
    labels = [stand.label for stand in trial_grounds(run)]
    moves = [
        f"{_ground_text(before)} to {_ground_text(label)} at {trial}"
        for before, label, trial in zip(labels, labels[1:], trials[1:], strict=False)
        if before != label
    ]
    if not moves:
        return ""
    more = f" and {len(moves) - MOST_CHANGES} more" if len(moves) > MOST_CHANGES else ""
    return f"It divides the trials: from {', from '.join(moves[:MOST_CHANGES])}{more}."


def _consequence(table: pd.DataFrame) -> str:
    data = on_any_ground(table)
    if data.empty:
        return ""
    kept = data[~data["other_ground"]]["ground"]
    text = f"Measured on {counts_text(Counter(data['ground']))}."
    if kept.nunique() > 1 or kept.iloc[0] == BETWEEN:
        return f"{text} No ground has every point as often as repeats ask: all trials are pooled, with wider intervals."
    main = kept.iloc[0]
    if len(kept) < len(data):
        others = len(data) - len(kept)
        text += f" Each point was seen often enough on ground {main}: the {others} trials on other ground are left out."
    maxima = table[(table["kind"] == "maximum") & table["status"].isin(["ok", "flagged"])]["ground"]
    elsewhere = int((maxima != main).sum())
    if elsewhere:
        text += f" {elsewhere} of {len(maxima)} trials of maxima stand elsewhere, so 100 % load"
        text += f" is not all of ground {main}."
    return text
