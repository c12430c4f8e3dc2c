# SPDX-License-Identifier: BSD-3-Clause
"""Find a change of level early in a series (the end of a warm-up) or anywhere (a history of runs).

For every cut k the first k values are compared with the rest by the sum of their normal scores (van der Waerden), in
standard deviations. The statistic is the largest of these, and its distribution without a change is that over random
orders. Therefore the test assumes no distribution of values, a few host gaps do not affect it, and its rate of false
alarms is FALSE_ALARM. Values that follow their neighbours (a queue that fills and empties slowly) carry less than their
number says: the statistic is shrunk by the effective number that their lag-1 correlation leaves. Both rates are
measured in tests/test_change_point.py.

Pettitt's test, the usual one of ranks, weighs cuts by their distance from the ends and cannot see a change this early;
with plain ranks instead of normal scores, a change in the first three or four of 64 values looks like chance.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import scipy  # scipy.stats is loaded when it is first needed: that takes a second

Values = npt.NDArray[np.float64]

FALSE_ALARM = 0.001
# Fewer values in front of a cut than this cannot reach FALSE_ALARM.
_FEWEST_BEFORE = 3
FEWEST_VALUES = 16
# A change this small is not worth cutting a window for, however sure it is.
SMALLEST_CHANGE = 0.02
RESAMPLES, SEED = 20_000, 1
# A history has few values, so its rate of false alarms is larger; fewer values than these cannot reach it, however they
# are split (half of 10 values: 2 of 252 orders).
HISTORY_FALSE_ALARM = 0.01
FEWEST_OF_HISTORY = 10
_ONE_SIDED_95 = 1.645  # standard errors
# The critical value rises slowly with the length: that of the next multiple is taken, so that few have to be made.
_LENGTH_STEP = 16


@dataclass(frozen=True)
class ChangePoint:
    """The first `count` values lie at another level than the rest.

    Attributes:
        count: values before the change.
        before, after: medians.
        z: sum of the normal scores of the first values, in standard deviations.
    """

    count: int
    before: float
    after: float
    z: float

    @property
    def change(self) -> float:
        """Return the first values' distance from the later level, as a share of it; infinite if that level is 0."""
        if self.before == self.after:  # both may be 0: a loss that a few runs show and most do not
            return 0.0
        return math.inf if self.after == 0 else self.before / self.after - 1


def early_change(values: Sequence[float] | Values) -> ChangePoint | None:
    """Return the change of level in the first half of a series; None without one, or if it is too short."""
    series = np.asarray(values, dtype=float)
    if len(series) < FEWEST_VALUES or np.ptp(series) == 0:
        return None
    scores = _normal_scores(scipy.stats.rankdata(series)[None, :])
    found = _statistics(scores, len(series) // 2)[0]
    best = int(np.argmax(np.abs(found)))
    count = best + _FEWEST_BEFORE
    critical = _critical(-(-len(series) // _LENGTH_STEP) * _LENGTH_STEP)
    largest = abs(found[best])
    if largest < critical or largest * _independence(scores[0], count) < critical:
        return None
    change = ChangePoint(count, median(series[:count]), median(series[count:]), float(found[best]))
    return change if abs(change.change) >= SMALLEST_CHANGE else None


def level_changes(values: Sequence[float]) -> list[int]:
    """Return where a series changes its level: the number of values before each change, rising.

    The cut with the largest statistic is kept when at most HISTORY_FALSE_ALARM of random orders have as large a one,
    and both sides are looked at in the same way (binary segmentation). A side of fewer than FEWEST_OF_HISTORY values is
    left whole. Changes smaller than SMALLEST_CHANGE are none.
    """
    series = np.asarray(values, dtype=float)
    n = len(series)
    if n < FEWEST_OF_HISTORY or np.ptp(series) == 0:
        return []
    scores = _normal_scores(scipy.stats.rankdata(series)[None, :])
    found = np.abs(_statistics(scores, n - _FEWEST_BEFORE)[0])
    cut = int(np.argmax(found)) + _FEWEST_BEFORE
    independence = _independence(scores[0], cut)
    correlation = (1 - independence**2) / (1 + independence**2)
    # Few independent values are correlated by chance, with a standard error of 1 / sqrt(n).
    by_chance = correlation < _ONE_SIDED_95 / math.sqrt(n)
    largest = float(found.max()) * (1 if by_chance else independence)
    # Rounding must not tell apart orders that are equal.
    chance = (1 + int((_largest_of_orders(n) >= largest - 1e-9).sum())) / (1 + RESAMPLES)
    before, after = median(series[:cut]), median(series[cut:])
    change = ChangePoint(cut, before, after, float(found.max()))
    if chance > HISTORY_FALSE_ALARM or abs(change.change) < SMALLEST_CHANGE:
        return []
    return [*level_changes(series[:cut].tolist()), cut, *(cut + each for each in level_changes(series[cut:].tolist()))]


def median(values: Values) -> float:
    """Return the median, like np.median(), of values without NaN; four times as fast for a few dozen."""
    ordered = np.sort(values)
    return float((ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2)


def _normal_scores(ranks: Values) -> Values:
    scores: Values = _scores_of_half_ranks(ranks.shape[1])[(2 * ranks).astype(int)]
    return scores


@cache
def _scores_of_half_ranks(n: int) -> Values:
    """Return normal scores of the ranks 0, 0.5, 1, ..., n; a mean of ranks is one of these."""
    normal = NormalDist()
    return np.array([-math.inf, *(normal.inv_cdf(half / (2 * (n + 1))) for half in range(1, 2 * n + 1))])


def _statistics(scores: Values, last: int) -> Values:
    """Return standardised sums of normal scores before every cut from _FEWEST_BEFORE to the last; a row per series."""
    sums: Values = scores.cumsum(axis=1)[:, _FEWEST_BEFORE - 1 : last] / _deviations(scores.shape[1], last)
    return sums


@cache
def _deviations(n: int, last: int) -> Values:
    """Return standard deviations of the sums before every cut."""
    cuts = np.arange(_FEWEST_BEFORE, last + 1)
    variance = (_scores_of_half_ranks(n)[2::2] ** 2).sum() / (n * (n - 1))
    deviations: Values = np.sqrt(cuts * (n - cuts) * variance)
    return deviations


def _independence(scores: Values, cut: int) -> float:
    """Return the standard error of a mean of independent values relative to that of values correlated like these."""
    rest = np.concatenate([scores[:cut] - scores[:cut].mean(), scores[cut:] - scores[cut:].mean()])
    power = float((rest**2).sum())
    correlation = max(0.0, float((rest[1:] * rest[:-1]).sum()) / power) if power else 0.0
    return math.sqrt((1 - correlation) / (1 + correlation))


@cache
def _critical(n: int) -> float:
    """Return the statistic that a share FALSE_ALARM of all orders of n ranks exceed; ties only lower it."""
    return float(np.quantile(np.abs(_statistics(_orders(n), n // 2)).max(axis=1), 1 - FALSE_ALARM))


@cache
def _largest_of_orders(n: int) -> Values:
    """Return the largest statistic over all cuts, for random orders of n different ranks."""
    largest: Values = np.abs(_statistics(_orders(n), n - _FEWEST_BEFORE)).max(axis=1)
    return largest


def _orders(n: int) -> Values:
    """Return normal scores of random orders of n different ranks."""
    chance = np.random.default_rng(SEED)
    return _normal_scores(chance.permuted(np.tile(np.arange(1.0, n + 1), (RESAMPLES, 1)), axis=1))
