# SPDX-License-Identifier: BSD-3-Clause
"""Check how often intervals hold the truth where values are not independent and normal: planted hosts.

Values of one block share an error, values are copied, a host changes between two levels, and values are rounded. With
25 values, intervals for independent values would cover 78, 72 and 81 % of the first three.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from pollscope.analysis.point_values import PointValues
from pollscope.stats.estimates import Estimate, mean_estimate, product_estimate, ratio_estimate

Values = npt.NDArray[np.float64]
_MEAN, _SPREAD = 100.0, 5.0
_VALUES, _RUNS = 25, 200


def _independent(chance: np.random.Generator) -> Values:
    return chance.standard_normal(_VALUES)


def _blocks(chance: np.random.Generator) -> Values:
    return _independent(chance) + np.repeat(chance.standard_normal(_VALUES // 4 + 1), 4)[:_VALUES]


def _copied(chance: np.random.Generator) -> Values:
    return np.repeat(chance.standard_normal(_VALUES // 3 + 1), 3)[:_VALUES]


def _levels(chance: np.random.Generator) -> Values:
    """Return values of two levels, each of which stays with 70 %."""
    changes = np.cumsum(chance.random(_VALUES) < 0.3) + chance.integers(2)
    return 0.04 * _independent(chance) + (changes % 2) - 0.5


def _rounded(chance: np.random.Generator) -> Values:
    return np.round(_independent(chance))


def _ratio(values: Sequence[float], chance: np.random.Generator) -> Estimate:
    other = _MEAN + _SPREAD * _independent(chance)
    return ratio_estimate(values, other.tolist()).scaled(_MEAN)


def _product(values: Sequence[float], chance: np.random.Generator) -> Estimate:
    others = [(_MEAN + _SPREAD * _independent(chance)).tolist() for _ in range(3)]
    return product_estimate([values, others[0]], others[1:]).scaled(_MEAN)


def _mean(values: Sequence[float], _chance: np.random.Generator) -> Estimate:
    return mean_estimate(values)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("estimate", [_mean, _ratio, _product])
@pytest.mark.parametrize(
    ("planted", "least"),
    [(_independent, 0.90), (_blocks, 0.83), (_copied, 0.90), (_levels, 0.83), (_rounded, 0.90)],
)
def test_intervals_hold_the_truth(
    estimate: Callable[[Sequence[float], np.random.Generator], Estimate],
    planted: Callable[[np.random.Generator], Values],
    least: float,
) -> None:
    chance = np.random.default_rng(2)
    found = [estimate((_MEAN + _SPREAD * planted(chance)).tolist(), chance) for _ in range(_RUNS)]
    covered = sum(each.low <= _MEAN <= each.high for each in found) / _RUNS
    assert covered >= least


def test_values_that_follow_their_neighbours_are_worth_fewer() -> None:
    once = (_MEAN + _independent(np.random.default_rng(5))).tolist()
    thrice = [value for value in once for _ in range(3)]
    assert mean_estimate(thrice).relative_half_width > 0.9 * mean_estimate(once).relative_half_width


def test_equal_values_have_an_interval_as_wide_as_the_resolution() -> None:
    point = PointValues({}, (1000.0,) * 8, resolution=10.0)
    assert point.estimate.high - point.estimate.low >= 10
    assert point.over(PointValues({}, (500.0,) * 8, resolution=10.0)).relative_half_width >= 0.01


def test_many_values_do_not_narrow_the_resolution() -> None:
    """Of 400 values all but a few lie in one bucket of a histogram: the bucket stays."""
    values = (1000.0,) * 396 + (1010.0,) * 4
    assert PointValues({}, values, resolution=10.0).estimate.high - PointValues({}, values).estimate.value >= 5
