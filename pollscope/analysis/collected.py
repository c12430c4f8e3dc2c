# SPDX-License-Identifier: BSD-3-Clause
"""Read from the trial records which collectors delivered, their means by point, and values that cannot be true."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from pollscope.analysis.point_values import levels_text
from pollscope.base.units import human_number
from pollscope.store.results_table import last_attempts
from pollscope.store.run_folder import RunFolder

# The page shows this many metrics per collector; the samples contain all.
_MOST_METRICS = 8
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Delivery:
    """Describe one collector of a run.

    `states` counts trials by status; `cpu_share` is a median of one core; `left_out` counts unreadable lines;
    `first_left_out` is the first of them.
    """

    name: str
    states: Mapping[str, int]
    reasons: Sequence[str]
    cpu_share: float | None
    samples: int
    replay: str | None
    left_out: int
    first_left_out: str

    @property
    def status(self) -> str:
        """Describe the outcomes, as in `ok in 12 trials, hung in 2 trials`; `no trial` if there are none."""
        return ", ".join(f"{status} in {count} trials" for status, count in self.states.items()) or "no trial"


@dataclass(frozen=True)
class MeansTable:
    """One collector's means by point; `more` is the number of metrics not shown."""

    collector: str
    metrics: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]
    more: int


@dataclass(frozen=True)
class Doubt:
    """A rule of plausibility that did not hold: in how many trials, and the sentence of the first."""

    rule: str
    verdict: str
    trials: int
    text: str


def deliveries(run: RunFolder) -> list[Delivery]:
    """Return one line per collector that the spec names."""
    records = [record for record in last_attempts(run.trials) if record.get("collectors")]
    return [_delivery(name, known, records) for name, known in run.meta.get("collectors", {}).items()]


def _delivery(name: str, known: Record, records: Sequence[Record]) -> Delivery:
    outcomes = [record["collectors"][name] for record in records if name in record["collectors"]]
    bad = [str(each["reason"]) for each in outcomes if each["status"] != "ok" and each["reason"]]
    reasons = bad or ([] if known.get("available") else [str(known.get("reason"))])
    shares = [each["cpu_share"] for each in outcomes if each.get("cpu_share") is not None]
    return Delivery(
        name,
        Counter(str(each["status"]) for each in outcomes),
        list(dict.fromkeys(reasons)),
        median(shares) if shares else None,
        sum(int(each["samples_in_window"]) for each in outcomes),
        known.get("replay"),
        sum(int(each["left_out"]["count"]) for each in outcomes if "left_out" in each),
        next((str(each["left_out"]["first"][0]) for each in outcomes if "left_out" in each), ""),
    )


def means_tables(run: RunFolder) -> list[MeansTable]:
    """Return, for each point, the means over its trials of the metrics that are not zero everywhere."""
    points: dict[str, list[Record]] = {}
    records: Sequence[Record] = last_attempts(run.trials)
    for record in records:
        if record["kind"] == "measure" and record["status"] in ("ok", "flagged") and record.get("collectors"):
            points.setdefault(levels_text(record["factors"]) or "all", []).append(record)
    names = run.meta.get("collectors", {})
    return [table for table in (_means_table(name, points) for name in names) if table.metrics]


def _means_table(name: str, points: Mapping[str, Sequence[Record]]) -> MeansTable:
    found = {
        label: [record["collectors"].get(name, {}).get("means", {}) for record in records]
        for label, records in points.items()
    }
    everywhere = [means for several in found.values() for means in several]
    units = {metric: mean["unit"] for means in everywhere for metric, mean in means.items() if mean["value"]}
    shown = list(units)[:_MOST_METRICS]
    rows = []
    for label, means in found.items():
        values = [[float(each[metric]["value"]) for each in means if metric in each] for metric in shown]
        rows.append((label, [human_number(fmean(each), 6) if each else "absent" for each in values]))
    heads = [f"{metric} ({units[metric]})" for metric in shown]
    return MeansTable(name, heads, rows, len(units) - len(shown))


def doubts(run: RunFolder) -> list[Doubt]:
    """Return findings that are not ok, the impossible ones first; one line per rule, verdict and run."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    records: Sequence[Record] = last_attempts(run.trials)
    for record in records:
        for finding in record.get("plausibility", []):
            if finding["verdict"] != "ok":
                key = str(finding["verdict"]), str(finding["rule"])
                found.setdefault(key, []).append((str(record["trial"]), str(finding["text"])))
    return [
        Doubt(rule, verdict, len({trial for trial, _ in several}), several[0][1])
        for (verdict, rule), several in sorted(found.items())
    ]
