# SPDX-License-Identifier: BSD-3-Clause
"""Check that intervals have their coverage, that trends are found but not invented, and that warnings appear."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
import scipy  # scipy.stats is loaded when it is first needed: that takes a second
from hypothesis import given
from hypothesis import strategies as st

from pollscope.stats.estimates import (
    CONFIDENCE,
    RESOLUTION,
    STOPPED_CONFIDENCE,
    Estimate,
    _bootstrap_formula,
    _kendall_score,
    _kendall_variance,
    bimodality_warning,
    block_ratio_estimate,
    difference_estimate,
    difference_p,
    mean_estimate,
    median_estimate,
    product_estimate,
    ratio_estimate,
    rise_ratio_estimate,
    stopping_half_width,
    trend,
)
from pollscope.stats.hierarchy import hierarchy

SAMPLES = 400


def _coverage(estimate: Callable[[Sequence[float]], Estimate], draw: Callable[[], list[float]], truth: float) -> float:
    inside = 0
    for _ in range(SAMPLES):
        found = estimate(draw())
        inside += found.low <= truth <= found.high
    return inside / SAMPLES


def test_student_interval_is_the_textbook_one() -> None:
    found = mean_estimate([10.0, 12.0, 11.0, 13.0, 9.0])
    assert found.value == 11
    assert found.high - found.value == pytest.approx(2.776445 * math.sqrt(2.5 / 5), rel=1e-5)


def test_a_plainly_skewed_sample_is_bootstrapped() -> None:
    rng = np.random.default_rng(2)
    found = mean_estimate(list(rng.lognormal(0, 1.5, 60)))
    assert found.method == "BCa bootstrap"
    assert found.high - found.value > found.value - found.low, "the interval leans to the long tail"


def test_the_formula_for_large_samples_gives_the_limits_of_the_bootstrap() -> None:
    rng = np.random.default_rng(3)
    missed = []
    for _ in range(20):
        sample = rng.lognormal(0, 1, 120)
        found = _bootstrap_formula(sample, CONFIDENCE)
        drawn = scipy.stats.bootstrap((sample,), np.mean, n_resamples=20_000, rng=rng).confidence_interval
        half = (drawn.high - drawn.low) / 2
        missed.append([(found.low - drawn.low) / half, (found.high - drawn.high) / half])
    # 20,000 resamples give an end to about 3 % of the half width.
    assert np.abs(missed).max() < 0.1
    assert np.abs(np.mean(missed, axis=0)).max() < 0.015


def test_the_formula_covers_the_truth() -> None:
    rng = np.random.default_rng(4)
    assert 0.91 < _coverage(mean_estimate, lambda: list(rng.exponential(1, 400)), 1.0) < 0.98


def test_more_values_than_the_test_of_normality_knows() -> None:
    found = mean_estimate(list(np.random.default_rng(5).normal(3, 1, 6000)))
    assert found.low < 3 < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 / math.sqrt(6000), rel=0.05)


def test_values_that_differ_by_rounding_are_equal() -> None:
    found = mean_estimate([12e-9] * 10 + [12e-9 * (1 + 2**-52)])
    assert found.method == "all equal"
    assert found.relative_half_width == pytest.approx(RESOLUTION / 2)


def test_median_interval_covers_the_truth_whatever_the_distribution() -> None:
    rng = np.random.default_rng(3)
    assert _coverage(median_estimate, lambda: list(rng.lognormal(0, 2, 11)), 1.0) > 0.94


@pytest.mark.parametrize(("n", "ranks"), [(5, None), (6, (1, 6)), (11, (2, 10)), (20, (6, 15))])
def test_median_interval_is_made_of_the_tabulated_ranks(n: int, ranks: tuple[int, int] | None) -> None:
    # Ranks of the 95 % interval of a median: Conover, Practical Nonparametric Statistics, table A3.
    # Lowest and highest by turns: neighbours do not follow each other.
    found = median_estimate([float(n - turn // 2 if turn % 2 else turn // 2 + 1) for turn in range(n)])
    assert ((found.low, found.high) if found.has_interval else None) == ranks


def test_a_ratio_to_something_near_zero_has_no_interval() -> None:
    assert not ratio_estimate([1.0, 1.1, 0.9], [0.1, -0.2, 0.15]).has_interval
    assert math.isnan(ratio_estimate([1.0, 2.0], [0.0, 0.0]).value)


def test_too_few_values_have_no_interval() -> None:
    assert not mean_estimate([5.0]).has_interval
    assert stopping_half_width([5.0]) == math.inf
    assert stopping_half_width([]) == math.inf
    assert stopping_half_width([5.0, 5.0, 5.0]) == math.inf
    assert stopping_half_width([5.0] * 8) == pytest.approx(RESOLUTION / 2)
    verdict = mean_estimate([9.0, 10.0, 11.0], STOPPED_CONFIDENCE)
    assert stopping_half_width([9.0, 10.0, 11.0]) == verdict.relative_half_width > 4.302653 / math.sqrt(3) / 10


@pytest.mark.parametrize(("n", "known"), [(2, False), (5, False), (6, True)])
def test_equal_values_have_an_interval_where_there_are_enough(n: int, known: bool) -> None:
    for found in (
        mean_estimate([1000.0] * n),
        ratio_estimate([1001.0] * n, [1000.0] * n),
        product_estimate([[1001.0] * n], [[1000.0] * n]),
    ):
        assert found.has_interval is known
        assert found.relative_half_width == (pytest.approx(RESOLUTION / 2) if known else math.inf)


def test_two_equal_repeats_per_side_show_no_difference() -> None:
    assert difference_p([1000.0, 1000.0], [1001.0, 1001.0]) == 0.5
    assert difference_p([1000.0] * 6, [1001.0] * 6) == pytest.approx(2 / 64)
    assert difference_p([1000.0, 1000.0], [1000.0, 1000.0]) == 1


@pytest.mark.parametrize("n", [3, 6])
def test_equal_values_that_are_not_exact_in_binary_are_equal(n: int) -> None:
    tenth, fifth = [0.1] * n, [0.2] * n
    assert difference_p(tenth, fifth) == 2 * 0.5**n
    assert difference_p(tenth, [0.1] * (n + 1)) == 1
    rises = (tenth, fifth), ([0.7] * n, [0.9] * n)
    for found in (
        ratio_estimate(tenth, [0.3] * n),
        product_estimate([tenth], [[0.3] * n]),
        rise_ratio_estimate(*rises),
    ):
        assert found.relative_half_width == (pytest.approx(RESOLUTION / 2) if n == 6 else math.inf)
    assert difference_estimate(tenth, fifth).has_interval is (n == 6)


def test_values_at_a_limit_are_at_the_limit() -> None:
    found = mean_estimate([0.0, 0.0], limits=(0.0, 1.0))
    assert (found.low, found.high) == (0, 0)
    assert not mean_estimate([0.0, 0.0]).has_interval


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_an_interval_contains_its_mean(values: list[float]) -> None:
    found = mean_estimate(values)
    slack = 1e-9 * max(1.0, *(abs(value) for value in values))
    assert found.low - slack <= found.value <= found.high + slack


def test_the_trend_is_kendalls_and_adds_groups() -> None:
    rng = np.random.default_rng(5)
    x = [1.0, 2.0, 3.0, 4.0] * 3
    y = [level + float(rng.normal(0, 0.1)) for level in x]
    one = trend([(x, y)])
    assert one.direction() == 1
    # The package has no continuity correction, which takes 1 from a score of some 50.
    assert one.z == pytest.approx(
        scipy.stats.norm.isf(scipy.stats.kendalltau(x, y, method="asymptotic").pvalue / 2), rel=0.04
    )
    # A second group on another level rises as well: the sum is more certain, although all values together look noisy.
    two = trend([(x, y), (x, [value - 100 for value in y])])
    assert two.z > one.z


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_the_variance_of_kendalls_score_is_that_of_all_orders(n: int) -> None:
    """Both samples have ties; even two values carry some information."""
    for x, y in itertools.product([range(n), [0, *range(n - 1)]], [range(n), [1] * (n - 1) + [0]]):
        scores = [_kendall_score(np.array(x, float), np.array(order, float)) for order in itertools.permutations(y)]
        assert _kendall_variance(x, y) == pytest.approx(np.var(scores))


def test_many_groups_of_two_show_a_trend_together() -> None:
    """Nine of nine groups rise: one in 512 by chance, or falling as one in 256."""
    found = trend([([0.0, 1.0], [5.0, 6.0])] * 9)
    assert found.direction() == 1
    assert found.z == pytest.approx((9 - 1) / 3)


def test_constant_values_have_no_trend() -> None:
    assert trend([([1.0, 2.0, 3.0], [7.0, 7.0, 7.0])]).direction() == 0
    assert trend([]).direction() == 0


def test_two_modes_are_named_and_one_is_not() -> None:
    rng = np.random.default_rng(8)
    modes = [*rng.normal(100, 1, 8), *rng.normal(150, 1, 6)]
    warning = bimodality_warning([float(value) for value in modes])
    assert warning is not None
    assert warning.startswith("8 values lie around")
    false_alarms = sum(bimodality_warning(list(rng.normal(100, 5, n))) is not None for n in [10, 15, 25] * 300)
    assert false_alarms / 900 < 0.01


@pytest.mark.parametrize("n", [3, 6, 25])
def test_zeros_over_something_have_the_upper_bound_of_a_share_of_which_none_was_seen(n: int) -> None:
    estimate = ratio_estimate([0.0] * n, [1.0, 1.2, 1.1] * 3)
    assert (estimate.value, estimate.low) == (0.0, 0.0)
    clopper = scipy.stats.binomtest(0, n).proportion_ci(0.95, method="exact")
    assert estimate.high == pytest.approx(clopper.high)


@pytest.mark.parametrize("below", [[0.0, 1e-3], [5.0] * 3, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]])
def test_zeros_over_what_may_be_zero_have_no_interval(below: list[float]) -> None:
    estimate = ratio_estimate([0.0] * len(below), below)
    assert estimate.value == 0
    assert not estimate.has_interval


@pytest.mark.parametrize("lossy", [0.1, 0.3, 0.5, 0.8])
@pytest.mark.parametrize("n", [2, 3, 6, 12])
def test_equal_sides_that_rarely_lose_are_rarely_told_apart(n: int, lossy: float) -> None:
    """Zeros as an exact 0 excluded a ratio of 1 in up to 25 % of cases."""
    chance, times = np.random.default_rng(3), 2000
    sides = np.where(chance.random((times, 2, n)) < lossy, 0.01 * (1 + 0.1 * chance.standard_normal((times, 2, n))), 0)
    found = [ratio_estimate(above, below) for above, below in sides.tolist() if any(below)]
    assert sum(each.high < 1 or each.low > 1 for each in found) <= 0.05 * times + 3 * math.sqrt(0.05 * times)


def _planted(chance: np.random.Generator, kind: str, blocks: int, ratio: float) -> npt.NDArray[np.float64]:
    """Return two sides by block: noise of 1 % on a host that is quiet, has two levels, drifts, or dips."""
    sides = np.array([[ratio], [1.0]]) * (1 + 0.01 * chance.standard_normal((2, blocks)))
    if kind == "levels":
        return sides * np.where(chance.random(blocks) < 0.5, 1.0, 1.5)
    if kind == "drift":
        return sides * np.linspace(1.0, 1.4, blocks)
    if kind == "dips":
        return sides * (1 - 0.3 * (chance.random((2, blocks)) < 0.1))
    return sides


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["quiet", "levels", "drift", "dips"])
@pytest.mark.parametrize("blocks", [4, 25])
def test_the_interval_of_a_ratio_by_block_holds_the_planted_one(kind: str, blocks: int) -> None:
    chance = np.random.default_rng(3)
    found = [block_ratio_estimate(*_planted(chance, kind, blocks, 0.9)) for _ in range(SAMPLES)]
    missed = sum(not each.low <= 0.9 <= each.high for each in found) / SAMPLES
    assert missed <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / SAMPLES)


def test_what_slows_one_side_for_several_blocks_widens_the_interval() -> None:
    """A neighbour takes 10 % from one side for three blocks on average."""
    chance, missed = np.random.default_rng(6), 0
    for _ in range(SAMPLES):
        sides = _planted(chance, "quiet", 25, 0.9)
        level = (np.cumsum(chance.random(25) < 0.3) + chance.integers(2)) % 2
        found = block_ratio_estimate(sides[0] * np.exp(0.1 * (level - 0.5)), sides[1])
        missed += not found.low <= 0.9 <= found.high
    assert missed <= 0.14 * SAMPLES


def test_equal_ratios_are_known_to_the_resolution() -> None:
    assert block_ratio_estimate([2.0, 4.0] * 3, [1.0, 2.0] * 3).relative_half_width == pytest.approx(RESOLUTION / 2)
    assert not block_ratio_estimate([2.0] * 5, [1.0] * 5).has_interval


def test_equal_rises_are_known_to_the_resolution() -> None:
    for trials, known in ((2, False), (6, True)):
        first, last = ([10.0] * trials, [5.0] * trials), ([20.0] * trials, [9.0] * trials)
        found = rise_ratio_estimate(first, last)
        assert found.value == 2.5
        assert found.has_interval is known
        assert found.low < found.high


def test_a_rise_over_another_holds_the_error_that_single_trials_have() -> None:
    first, last = ([10.0, 11.0, 12.0], [5.0, 5.1, 5.2]), ([20.0, 21.0, 19.0], [9.0, 9.2, 8.9])
    alone, together = rise_ratio_estimate(first, last), rise_ratio_estimate(first, last, error=5.0)
    assert together.value == alone.value
    assert together.high - together.low > 1.5 * (alone.high - alone.low)
    equal = rise_ratio_estimate(([10.0] * 6, [5.0] * 6), ([20.0] * 6, [9.0] * 6), error=2.0)
    assert (equal.low, equal.high) == (2.0, 3.0)


def test_a_product_holds_the_error_that_single_trials_have() -> None:
    above, below = [[1.0, 1.001, 0.999]], [[2.0, 2.001, 1.999]]
    alone, together = product_estimate(above, below), product_estimate(above, below, error=0.1)
    assert math.log(alone.high / alone.value) < 0.01
    assert math.log(together.high / together.value) == pytest.approx(0.1, rel=0.01)


def test_one_block_has_no_interval_and_zeros_no_ratio() -> None:
    assert not block_ratio_estimate([2.0], [1.0]).has_interval
    assert math.isnan(block_ratio_estimate([0.0, 1.0], [1.0, 1.0]).value)
    with pytest.raises(ValueError, match="2 blocks over 1"):
        block_ratio_estimate([1.0, 2.0], [1.0])


def test_the_parts_of_two_levels_equal_those_computed_by_hand() -> None:
    """Runs (1, 3), (5, 7), (3, 5): means 2, 6, 4 with variance 4; within 2; between 4 - 2 / 2 = 3."""
    found = hierarchy([(1.0, 3.0), (5.0, 7.0), (3.0, 5.0)])
    assert found.mean.value == 4
    half = 4.302652729911275 * math.sqrt(4 / 3)  # Student, two degrees
    assert (found.mean.low, found.mean.high) == pytest.approx((4 - half, 4 + half))
    assert found.between_trials**2 == pytest.approx(2)
    assert found.between_runs**2 == pytest.approx(3)
    assert found.trials_a_run == 2
    assert found.optimal_trials == 1  # sqrt(2 / 3)
    assert hierarchy([(0.0, 4.0, 8.0, 12.0), (8.0, 12.0, 16.0, 20.0)]).optimal_trials == 2  # sqrt(26.7 / 25.3)


def test_runs_with_different_numbers_of_trials_weigh_the_same() -> None:
    found = hierarchy([(10.0,) * 9, (20.0,)])
    assert found.mean.value == 15
    assert found.trials_a_run == pytest.approx(2 / (1 / 9 + 1))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("runs", "trials", "between", "within"), [(4, 10, 3, 1), (8, 3, 1, 5), (10, 5, 0, 2)])
def test_the_interval_over_runs_has_its_coverage_whatever_scatters(
    runs: int, trials: int, between: float, within: float
) -> None:
    """A t interval over all trials as one sample covers 60 % in the first case."""
    rng, times = np.random.default_rng(3), 2000
    covered, variances = 0, []
    for _ in range(times):
        levels = 100 + between * rng.standard_normal(runs)
        found = hierarchy([(level + within * rng.standard_normal(trials)).tolist() for level in levels])
        covered += found.mean.low <= 100 <= found.mean.high
        variances.append(found.between_trials**2)
    # 1900 expected, standard deviation 10.
    assert 1855 <= covered <= 1945
    assert np.mean(variances) == pytest.approx(within**2, rel=0.05)


def test_more_trials_are_advised_if_runs_do_not_scatter() -> None:
    found = hierarchy([(1.0, 9.0), (9.0, 1.0), (1.0, 9.0)])
    assert (found.between_runs, found.optimal_trials) == (0, None)
    alone = hierarchy([(1.0,), (2.0,)])
    assert math.isnan(alone.between_trials)
    assert alone.optimal_trials is None


@pytest.mark.parametrize("runs", [[], [(1.0, 2.0)], [(1.0,), ()], [(1.0,), (math.nan,)]])
def test_invalid_groups_are_refused(runs: list[tuple[float, ...]]) -> None:
    with pytest.raises(ValueError, match="needs"):
        hierarchy(runs)


def test_the_interval_of_a_rate_has_no_negative_end() -> None:
    found = hierarchy([(1e6, 1.1e6), (1e4, 2e4)], limits=(0.0, math.inf))
    assert (found.mean.low, found.mean.value) == (0, 532_500)
    assert hierarchy([(1e6, 1.1e6), (1e4, 2e4)]).mean.low < 0
