# SPDX-License-Identifier: BSD-3-Clause
"""Detect results that moved during a run: the repeats of every point against the time of their measurement.

Repeats in different host states (docs/validity.md) are not compared: another caution says that the state changed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

import numpy as np
import pandas as pd
import scipy  # scipy.stats is loaded when it is first needed: that takes a second

from pollscope.analysis.point_values import PAIR, measured, places
from pollscope.stats.estimates import trend
from pollscope.store.results_table import last_attempts
from pollscope.store.run_folder import RunFolder

# Several metrics are looked at in every run, so a drift needs more certainty than one in twenty.
LARGEST_P = 0.01
# A smaller move than this, as a share, is not worth a warning.
_SMALLEST_MOVE = 0.02
FEWEST_REPEATS = 3


@dataclass(frozen=True)
class Drift:
    """A metric that rose or fell during the run.

    Attributes:
        move: from the first trial to the last, as a share of its first value; median over points.
        minutes: length of the run.
        p: of the Mann-Kendall test over all points, each compared with itself only (Hirsch 1982).
        points: number of points with enough repeats.
    """

    move: float
    minutes: float
    p: float
    points: int


def drift(run: RunFolder, table: pd.DataFrame, metric: str) -> Drift | None:
    """Return a metric's drift over a run; None if there is none, it is too small, or repeats are too few."""
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
    records = last_attempts(run.trials)
    starts = {str(record["trial"]): start for record in records if (start := _start(record)) is not None}
    first = min(starts.values(), default=None)
    return {trial: (start - first).total_seconds() / 60 for trial, start in starts.items() if first is not None}


def _start(record: Mapping[str, object]) -> datetime | None:
    try:
        start = datetime.fromisoformat(str(record.get("started_utc")))
    except ValueError:
        return None  # a trial without a time says nothing about a drift
    return start if start.tzinfo is not None else None


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
