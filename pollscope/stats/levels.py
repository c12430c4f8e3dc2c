# SPDX-License-Identifier: BSD-3-Clause
"""Find the undisturbed values of a point: those at the upper level of a host that has several.

Disturbances slow a program down: another hardware thread of its core, another program on its CPU. The model is
that the k highest values scatter normally around one level, and that the others lie anywhere below it with the same
density, or around a lower level. The k with the largest likelihood counts. All values are one level unless a split
gains _GAIN in log likelihood, and the upper level is denser than the others or lies apart from them.

The bias and the coverage of the mean of these values are simulated in tests/test_levels.py, with levels, dips, drifts
and no levels at all.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pollscope.stats.estimates import RESOLUTION, trend

# Of fewer values the upper level is missed too often (12 values with two levels of equal length: every tenth time).
FEWEST_VALUES = 20
# The upper level has at least this share of the values, and this number.
_LEAST_SHARE, _FEWEST_OF_LEVEL = 0.15, 4
# Normal values exceed it in 2 % of cases (25 to 400 values).
_GAIN = 4.0
# A level has at least this multiple of the density of the values below, or a distance of so many deviations (Ashman's
# D). Halves of values of constant density have a D of 3.5.
_DENSER, _APART = 2.0, 4.5
# A level that changes by more over the run, and more than by chance, is none.
_MOST_DRIFT, _DRIFT_CONFIDENCE = 0.02, 0.99
_NORMAL = 0.5 * math.log(2 * math.pi) + 0.5


def upper_level(values: Sequence[float] | npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return which of at least FEWEST_VALUES values lie at the upper level."""
    given = np.asarray(values, dtype=float)
    if np.ptp(given) == 0:
        return np.ones(len(given), bool)
    ordered = np.sort(given)[::-1]
    n = len(ordered)
    above = np.arange(max(_FEWEST_OF_LEVEL, math.ceil(_LEAST_SHARE * n)), n + 1)
    below = n - above
    apart = ordered - ordered[0]
    sums, squares = np.cumsum(apart), np.cumsum(apart**2)
    top, of_top = _moments(sums[above - 1], squares[above - 1], above)
    rest, of_rest = _moments(sums[-1] - sums[above - 1], squares[-1] - squares[above - 1], np.maximum(below, 1))
    least = (RESOLUTION * np.abs(ordered).max()) ** 2 / 12  # the variance of rounding
    deviation, other = np.sqrt(np.maximum(of_top, least)), np.sqrt(np.maximum(of_rest, least))
    width = np.maximum(top - apart[-1], math.sqrt(least))
    level = np.where(below >= _FEWEST_OF_LEVEL, -np.log(other) - _NORMAL - 1 / np.maximum(below, 1), -np.inf)
    of_below = below * (np.log(np.maximum(below, 1) / n) + np.maximum(-np.log(width), level))
    likelihood = above * (np.log(above / n) - np.log(deviation) - _NORMAL) + of_below
    denser = above / (math.sqrt(12) * deviation) >= _DENSER * below / width
    distant = math.sqrt(2) * (top - rest) >= _APART * np.hypot(deviation, other)
    likelihood = np.where(denser | distant, likelihood, -np.inf)
    best = int(np.argmax(likelihood[:-1]))
    split = likelihood[best] - likelihood[-1] >= _GAIN
    return np.asarray(given >= ordered[above[best] - 1] if split else np.ones(n, bool))


def _moments(
    sums: npt.NDArray[np.float64], squares: npt.NDArray[np.float64], counts: npt.NDArray[np.int_]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    means = sums / counts
    return means, squares / counts - means**2


def drift(values: Sequence[float] | npt.NDArray[np.float64]) -> float:
    """Return by which share a level rises or falls over the run, 0.0 if it may be constant (Mann-Kendall)."""
    level = np.asarray(values, dtype=float)
    order = np.arange(len(level), dtype=float)
    if trend([(order, level)]).direction(_DRIFT_CONFIDENCE) == 0:  # type: ignore[list-item]
        return 0.0
    change = float(np.polyfit(order, level, 1)[0] * len(level) / level.mean())
    return change if abs(change) > _MOST_DRIFT else 0.0
