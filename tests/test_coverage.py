# SPDX-License-Identifier: BSD-3-Clause
"""Check how often intervals hold the truth where values are not independent and normal: planted hosts.

Values of one block share an error, values are copied, a host changes between two levels, and values are rounded. With
25 values, intervals for independent values would cover 78, 72 and 81 % of the first three.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
import scipy.stats

from pollscope.analysis.compare import _shares_of_baseline
from pollscope.analysis.point_values import PointValues
from pollscope.stats.estimates import (
    Estimate,
    mean_estimate,
    median_estimate,
    product_estimate,
    ratio_estimate,
    rise_ratio_estimate,
)

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


def _median(values: Sequence[float], _chance: np.random.Generator) -> Estimate:
    return median_estimate(values)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("estimate", [_mean, _median, _ratio, _product])
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


@pytest.mark.parametrize("planted", [_independent, _levels])
def test_a_rise_over_another_holds_the_truth(planted: Callable[[np.random.Generator], Values]) -> None:
    """The quantity rises by half of what the other does; on two levels 83 % were covered by independent values' n."""
    chance, covered = np.random.default_rng(2), 0
    for _ in range(5 * _RUNS):
        sides = [
            (start / 2 + _SPREAD * planted(chance), start + 0.1 * _independent(chance)) for start in (_MEAN, 3 * _MEAN)
        ]
        first, last = ((rise.tolist(), other.tolist()) for rise, other in sides)
        found = rise_ratio_estimate(first, last)
        covered += found.low <= 0.5 <= found.high
    assert covered >= 0.885 * 5 * _RUNS


def test_what_both_quantities_share_does_not_widen_their_ratio() -> None:
    """Both follow the same two levels of the host, and one is half of the other."""
    chance = np.random.default_rng(2)
    others = [start + _SPREAD * _levels(chance) for start in (_MEAN, 3 * _MEAN)]
    first, last = (((other + 0.01 * _independent(chance)) / 2, other) for other in others)
    assert rise_ratio_estimate(first, last).relative_half_width < 1e-3  # type: ignore[arg-type]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("planted", [_independent, _blocks, _copied, _levels, _rounded])
def test_medians_of_the_same_host_rarely_differ(planted: Callable[[np.random.Generator], Values]) -> None:
    chance, most = np.random.default_rng(4), 0.15 if planted in (_blocks, _levels) else 0.1
    pairs = [[PointValues({}, tuple(planted(chance)), statistic="median") for _ in range(2)] for _ in range(_RUNS)]
    assert sum(one.chance(other) < 0.05 for one, other in pairs) <= most * _RUNS


def test_trials_with_the_same_baseline_share_its_error() -> None:
    """Nothing differs between baseline and trials, each of which has noise of 5 %."""
    chance, covered, runs = np.random.default_rng(3), 0, _RUNS // 2
    kinds = ["baseline", *["measure"] * 6] * 3
    same: dict[str, Any] = {
        "status": "ok",
        "flags": "[]",
        "other_host_state": False,
        "host_state": "A",
        "run_id": "r",
        "block": "",
        "point": "p",
    }
    for _ in range(runs):
        rates = 1e6 * (1 + 0.05 * chance.standard_normal(len(kinds)))
        table = pd.DataFrame({"kind": kinds, "factor.pair": "a", "metric.rx_pps": rates}).assign(**same)
        (found,) = _shares_of_baseline(table, "a", "rx_pps")
        covered += found.estimate.low <= 1 <= found.estimate.high
    assert covered >= 0.9 * runs


def test_values_that_follow_their_neighbours_are_worth_fewer() -> None:
    once = (_MEAN + _independent(np.random.default_rng(5))).tolist()
    thrice = [value for value in once for _ in range(3)]
    assert mean_estimate(thrice).relative_half_width > 0.9 * mean_estimate(once).relative_half_width


def test_equal_values_have_an_interval_as_wide_as_the_resolution() -> None:
    point = PointValues({}, (1000.0,) * 8, resolution=10.0)
    assert point.estimate.high - point.estimate.low >= 10
    assert point.over(PointValues({}, (500.0,) * 8, resolution=10.0)).relative_half_width >= 0.01


@pytest.mark.parametrize("confidence", [0.95, 0.9999])
def test_few_skewed_values_have_wide_intervals_of_high_levels(confidence: float) -> None:
    """Levels of corrected tests lie beyond all resamples; 12 values then are as uncertain as Student says."""
    values = np.random.default_rng(3).lognormal(0, 1.2, 12)
    found = mean_estimate(values.tolist(), confidence)
    student = scipy.stats.t.ppf((1 + confidence) / 2, 11) * values.std(ddof=1) / math.sqrt(12)
    assert found.method == "BCa bootstrap"
    assert (found.high - found.low) / 2 > 0.95 * student


def test_many_values_do_not_narrow_the_resolution() -> None:
    """Of 400 values all but a few lie in one bucket of a histogram: the bucket stays."""
    values = (1000.0,) * 396 + (1010.0,) * 4
    assert PointValues({}, values, resolution=10.0).estimate.high - PointValues({}, values).estimate.value >= 5
