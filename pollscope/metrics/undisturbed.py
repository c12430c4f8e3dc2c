# SPDX-License-Identifier: BSD-3-Clause
"""Compute metrics of undisturbed trials: those at the upper level of their point (stats/levels.py).

A trial alone does not show whether it was disturbed. So these metrics come from all measured trials of a point, in the
order of measurement, when the table is made: a trial at the level has the value of the underlying metric, all others
have none.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pollscope.base.units import human_share
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.formulas import Compute
from pollscope.metrics.record import NotMeasured, TrialObservations
from pollscope.stats.levels import FEWEST_VALUES, drift, upper_level

# Metric of undisturbed trials -> the same metric of all trials.
UNDISTURBED: Mapping[str, str] = {
    "undisturbed_rx_pps": "rx_pps",
    "undisturbed_tx_pps": "tx_pps",
    "undisturbed_poll_rate_hz": "poll_rate_running_hz",
    "undisturbed_cycles_per_packet": "cycles_per_packet_useful",
}
# Part of the reason if a point has too few trials, so that more would help.
TOO_FEW = f"an undisturbed level takes {FEWEST_VALUES}"
_OF_ONE_TRIAL = "it needs all trials of a point"
DISTURBED = "the trial was disturbed: it lies off the undisturbed level of its point"


def _of_one_trial(_trial: TrialObservations) -> float:
    raise NotMeasured(_OF_ONE_TRIAL)


COMPUTED: dict[str, Compute] = dict.fromkeys(UNDISTURBED, _of_one_trial)


def undisturbed(
    metric: str, values: npt.NDArray[np.float64], points: Sequence[Hashable | None]
) -> tuple[npt.NDArray[np.float64], list[str | None]]:
    """Return the values of an undisturbed metric, NaN where it is absent, and the reasons.

    Args:
        metric: name of the undisturbed metric.
        values: of the underlying metric, trial by trial; NaN where that one is absent.
        points: of each trial its point; None for trials that are not data.
    """
    found, reasons = np.full(len(values), np.nan), [_OF_ONE_TRIAL] * len(values)
    sign = -1 if metric_dictionary()[metric].better == "lower" else 1
    by_point: dict[Hashable, list[int]] = {}
    for trial, point in enumerate(points):
        if point is not None and np.isfinite(values[trial]):
            by_point.setdefault(point, []).append(trial)
    for trials in by_point.values():
        own = values[trials]
        at_level, why = _level(sign * own)
        for trial, value, kept in zip(trials, own, at_level, strict=True):
            found[trial] = value if kept else np.nan
            reasons[trial] = why or DISTURBED
    return found, [reason if np.isnan(value) else None for reason, value in zip(reasons, found, strict=True)]


def _level(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.bool_], str]:
    """Return which values lie at the level, and why none does."""
    none = np.zeros(len(values), bool)
    if len(values) < FEWEST_VALUES:
        return none, f"{len(values)} trials at this point; {TOO_FEW}"
    at_level = upper_level(values)
    change = drift(values[at_level])
    return (none, f"the level drifts by {human_share(abs(change))} over the run") if change else (at_level, "")
