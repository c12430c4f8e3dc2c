# SPDX-License-Identifier: BSD-3-Clause
"""Estimates with 95 % intervals, ratios, trends, and warnings about samples that an interval would hide.

A sample is one value per trial of a point. With too few values for an interval, the interval is infinite, never zero.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy  # scipy.stats is loaded when it is first needed: that takes a second

from pollscope.base.units import human_number

Values = npt.NDArray[np.float64]

CONFIDENCE = 0.95
# If trials are repeated until an interval is narrow, an interval of this level covers 95 %: luck stops early
# (Chow & Robbins 1965). Holds from two repeats on (simulated in tests/test_claim_truths.py).
STOPPED_CONFIDENCE = 0.985
NO_LIMITS = (-math.inf, math.inf)
# Text for an interval without ends: too few trials, or a denominator that may be zero.
NO_INTERVAL = "its interval is unbounded"
# No quantity counts as known better than this share of itself: histograms have three significant digits.
RESOLUTION = 1e-3
ALL_EQUAL, FEW_EQUAL = "all equal", "all equal, too few for an interval"
_BY_BLOCK = "Student t of logarithms by block"
# Student's factor is 2.8 at five values, and 13 at two: beyond that a logarithm's interval spans decades.
_TRANSFORMED_MIN_N = 5
# With fewer values or degrees of freedom, serial correlation is not estimated.
_SERIAL_MIN_N, _SERIAL_MIN_DEGREES = 8, 4
# Below this the Shapiro-Wilk test has too little power to reject, so Student's t stays (n from Razali & Wah, 2011).
_NORMALITY_MIN_N = 10
_NORMALITY_P = 0.01
_BOOTSTRAP_RESAMPLES = 5000
# Beyond this level too few resamples lie outside, so its interval is stretched by Student's factors.
_BOOTSTRAP_CONFIDENCE = 0.99
_BOOTSTRAP_SEED = 1
# From this number of values on, the bootstrap's limits are taken from their formula: no further from them than two
# bootstraps with other seeds are from each other (tests/test_analysis_statistics.py), and thousands of times as fast.
_FORMULA_MIN_N = 100
# The Shapiro-Wilk test knows its distribution up to here (Royston 1995).
_NORMALITY_MAX_N = 5000
# Values that differ by less than this share are equal but for rounding: a bootstrap of them divides 0 by 0.
_ROUNDING = 16 * float(np.finfo(float).eps)
# With this many degrees of freedom, Student's distribution is practically normal.
_MOST_DEGREES = 1e9
# If excluding a bound takes more than this multiple of the values, the quantity lies at the bound.
_MOST_LONGER = 100
# Ashman's D of the two modes found below; a normal sample exceeds it in under 1 % of cases for any n from 10 on
# (simulated in tests/test_analysis_statistics.py).
_BIMODAL_SEPARATION = 7.5
_BIMODAL_MIN_N = 10


@dataclass(frozen=True)
class Estimate:
    """Hold a value with its 95 % interval; `low` and `high` are infinite if the sample is too small for one."""

    value: float
    low: float
    high: float
    n: int
    method: str

    @property
    def has_interval(self) -> bool:
        """Return whether both ends are known."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def within_blocks(self) -> bool:
        """Return whether it is a mean of ratios within blocks, which the ratio of two means may contradict."""
        return self.method == _BY_BLOCK

    @property
    def relative_half_width(self) -> float:
        """Return half the interval over the value; infinite without an interval, or around zero."""
        half = (self.high - self.low) / 2
        if half == 0:
            return 0.0
        return abs(half / self.value) if self.has_interval and self.value != 0 else math.inf

    def widened(self, error: float) -> "Estimate":
        """Add an independent error with a 95 % half-width."""
        if error == 0 or not self.has_interval:
            return self
        below, above = math.hypot(self.value - self.low, error), math.hypot(self.high - self.value, error)
        return Estimate(self.value, self.value - below, self.value + above, self.n, self.method)

    def stretched(self, factor: float) -> "Estimate":
        """Return the estimate with an interval so many times as wide on either side."""
        low, high = (self.value + factor * (end - self.value) for end in (self.low, self.high))
        return replace(self, low=low, high=high)

    def clipped(self, limits: tuple[float, float]) -> "Estimate":
        """Clip the estimate to the possible range."""
        value, low, high = (min(max(end, limits[0]), limits[1]) for end in (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high) if self.has_interval else replace(self, value=value)

    def scaled(self, factor: float) -> "Estimate":
        """Return the estimate in another unit; `factor` is positive."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor, self.n, self.method)


def _equal_p(n: int) -> float:
    """Return how likely n values are all on one side of the median of what they are drawn from.

    Equal values say nothing of a spread that is smaller than their resolution. So many of them bound the median (and
    the mean, which is then their value) at a level of one minus this, by the order statistics of `median_estimate`.
    """
    return float(2 * 0.5**n)


def _of_equal(value: float, n: int, confidence: float, half: float | None = None) -> Estimate:
    """Return an interval as wide as the resolution where there are enough equal values for one, else none."""
    if _equal_p(n) > 1 - confidence:
        return Estimate(value, -math.inf, math.inf, n, FEW_EQUAL)
    half = RESOLUTION / 2 * abs(value) if half is None else half
    return Estimate(value, value - half, value + half, n, ALL_EQUAL)


def _worth(sample: Values) -> float:
    """Return how many independent values know as much of the mean as these.

    Values of one block, copied values and values of a host that changes its level follow their neighbours, in the order
    of measurement: n (1 - r) / (1 + r) with the lag-1 correlation r. Coverage with such values is simulated in
    tests/test_coverage.py.
    """
    n = len(sample)
    apart = sample - sample.mean()
    squares = float(apart @ apart)
    if n < _SERIAL_MIN_N or squares == 0:
        return n
    # The lag-1 correlation of independent values is -1/n on average; that of copies may reach 1.
    lag = min(max(float(apart[1:] @ apart[:-1]) / squares + 1 / n, 0.0), 1 - 1 / n)
    return n * (1 - lag) / (1 + lag)


def _is_constant(sample: Values) -> bool:
    return bool(np.ptp(sample) <= _ROUNDING * abs(sample.mean()))


def _student(degrees: float, confidence: float) -> float:
    return float(scipy.special.stdtrit(degrees, (1 + confidence) / 2))


def _mean_variance(sample: Values) -> tuple[float, float]:
    """Return the variance of a mean and its degrees of freedom; 0 for values that are equal but for rounding."""
    n = len(sample)
    if _is_constant(sample):
        return 0.0, n - 1
    worth = _worth(sample)
    return float(sample.var(ddof=1)) / worth, n - 1 if worth == n else max(worth - 1, _SERIAL_MIN_DEGREES)


def mean_estimate(
    values: Sequence[float], confidence: float = CONFIDENCE, limits: tuple[float, float] = NO_LIMITS
) -> Estimate:
    """Return the mean with Student's t interval, or a BCa bootstrap interval if the sample is plainly not normal.

    Values that are all equal have an interval, as wide as the resolution, from six on (at 95 %); two or more that are
    all equal to a limit are at the limit. Values in the order of measurement that follow their neighbours have a wider
    interval.

    An end that would leave what is possible is taken from the interval on a logit scale (on a log scale where only one
    limit is finite); with fewer than five values it is the limit, because so few say nothing of a shape.

    Args:
        values: one per trial, at least one, all finite.
        confidence: level of the interval.
        limits: between which the quantity lies by its nature; they do not hold where a value lies outside.
    """
    sample = np.asarray(values, dtype=float)
    mean, n = float(sample.mean()), len(sample)
    if n == 1:
        return Estimate(mean, -math.inf, math.inf, 1, "one value")
    if _is_constant(sample):
        return Estimate(mean, mean, mean, n, ALL_EQUAL) if mean in limits else _of_equal(mean, n, confidence)
    if n > _NORMALITY_MAX_N or (n >= _NORMALITY_MIN_N and scipy.stats.shapiro(sample).pvalue < _NORMALITY_P):
        of_independent = _bootstrap_mean if n < _FORMULA_MIN_N else _bootstrap_formula
        drawn = min(confidence, _BOOTSTRAP_CONFIDENCE)
        beyond = _student(n - 1, confidence) / _student(n - 1, drawn)
        found = of_independent(sample, drawn).stretched(beyond * math.sqrt(n / _worth(sample)))
        return found.clipped(limits) if limits[0] <= sample.min() <= sample.max() <= limits[1] else found
    variance, degrees = _mean_variance(sample)
    half = _student(degrees, confidence) * math.sqrt(variance)
    plain = Estimate(mean, mean - half, mean + half, n, "Student t")
    if not limits[0] <= sample.min() <= sample.max() <= limits[1]:
        return plain
    return _inside(plain, half, limits) if n >= _TRANSFORMED_MIN_N else plain.clipped(limits)


def _inside(plain: Estimate, half: float, limits: tuple[float, float]) -> Estimate:
    """Return the interval of a mean strictly inside its limits, on a transformed scale (delta method)."""
    low, high = limits
    if plain.low >= low and plain.high <= high:
        return plain
    mean = plain.value
    if math.isfinite(high):
        middle = math.log((mean - low) / (high - mean))
        wide = half * (high - low) / ((mean - low) * (high - mean))
        ends = [low + (high - low) * float(scipy.special.expit(end)) for end in (middle - wide, middle + wide)]
        return replace(plain, low=ends[0], high=ends[1], method="Student t of logits")
    least = low + (mean - low) * math.exp(-half / (mean - low))
    return replace(plain, low=least, method="Student t of logarithms")


def _bootstrap_mean(sample: Values, confidence: float) -> Estimate:
    result = scipy.stats.bootstrap(
        (sample,),
        np.mean,
        confidence_level=confidence,
        n_resamples=_BOOTSTRAP_RESAMPLES,
        method="BCa",
        rng=np.random.default_rng(_BOOTSTRAP_SEED),
    ).confidence_interval
    return Estimate(float(sample.mean()), float(result.low), float(result.high), len(sample), "BCa bootstrap")


def _bootstrap_formula(sample: Values, confidence: float) -> Estimate:
    """Return the limit of the BCa bootstrap interval of a mean (ABC: DiCiccio and Efron, Biometrika 79, 1992)."""
    mean, apart = float(sample.mean()), sample - sample.mean()
    squares = float((apart**2).sum())
    acceleration = float((apart**3).sum()) / (6 * squares**1.5)  # and the bias correction, for a mean
    ends = [acceleration + float(scipy.special.ndtri(level)) for level in ((1 - confidence) / 2, (1 + confidence) / 2)]
    low, high = (mean + math.sqrt(squares) / len(sample) * end / (1 - acceleration * end) ** 2 for end in ends)
    return Estimate(mean, low, high, len(sample), "BCa bootstrap, by its formula")


def median_estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Return the median with the interval of order statistics, which assumes no distribution and needs six values.

    Values in the order of measurement that follow their neighbours are worth fewer, by their side of the median.
    """
    sample, n = np.sort(np.asarray(values, dtype=float)), len(values)
    median = float(np.median(sample))
    worth = max(1, int(_worth(np.sign(np.asarray(values, dtype=float) - median))))
    # Largest rank k with P(fewer than k values below the median) <= 2.5 %; 0 when even the extremes cover too little.
    rank = int(scipy.stats.binom.ppf((1 - confidence) / 2, worth, 0.5))
    if scipy.stats.binom.cdf(rank - 1, worth, 0.5) > (1 - confidence) / 2:
        rank -= 1
    if rank < 1:
        return Estimate(median, -math.inf, math.inf, n, "too few values for an interval of the median")
    rank = rank * n // worth
    return Estimate(median, float(sample[rank - 1]), float(sample[n - rank]), n, "order statistics")


def stopping_half_width(values: Sequence[float], limits: tuple[float, float] = NO_LIMITS) -> float:
    """Return half the width of the mean's interval over the mean; infinite for fewer than two values.

    This is what `repeats.until` of a spec compares with `within`. The interval is the one that claims about such a run
    are judged by, of STOPPED_CONFIDENCE.
    """
    return mean_estimate(values, STOPPED_CONFIDENCE, limits).relative_half_width if len(values) > 1 else math.inf


def _most_above_zero(n: int, confidence: float) -> float:
    """Return the upper end of the exact interval of the share of values above 0 if n are zeros (Clopper, 1934)."""
    return float(1 - ((1 - confidence) / 2) ** (1 / n))


def ratio_estimate(
    numerator: Sequence[float], denominator: Sequence[float], confidence: float = CONFIDENCE
) -> Estimate:
    """Return the ratio of two independent means with Fieller's interval (Fieller 1954; degrees of freedom by Welch).

    The interval is infinite if the denominator's mean may be zero, or if all values are equal in fewer trials than
    `mean_estimate` needs for equal values. Zeros over a mean that is certainly not zero have an upper bound
    (`_most_above_zero`): a value above 0 that was missed by chance counts as that mean.
    """
    above, below = np.asarray(numerator, dtype=float), np.asarray(denominator, dtype=float)
    n = min(len(above), len(below))
    if below.mean() == 0:
        return Estimate(math.nan, -math.inf, math.inf, n, "denominator is zero")
    ratio = float(above.mean() / below.mean())
    if n < 2:
        return Estimate(ratio, -math.inf, math.inf, n, "one value")
    (of_above, degrees_above), (of_below, degrees_below) = _mean_variance(above), _mean_variance(below)
    if ratio == 0 and of_above == 0:
        few = of_below == 0 and _equal_p(len(below)) > 1 - confidence
        if few or abs(below.mean()) <= _student(degrees_below, confidence) * math.sqrt(of_below):
            return Estimate(0.0, -math.inf, math.inf, n, "Fieller, unbounded")
        return Estimate(0.0, 0.0, _most_above_zero(len(above), confidence), n, "zeros")
    spread = of_above + ratio**2 * of_below
    if spread == 0:
        return _of_equal(ratio, n, confidence)
    degrees = spread**2 / (of_above**2 / degrees_above + (ratio**2 * of_below) ** 2 / degrees_below)
    means = float(above.mean()), float(below.mean())
    return _fieller(means, (of_above, of_below), 0.0, _student(degrees, confidence), n)


def _fieller(
    means: tuple[float, float], variances: tuple[float, float], covariance: float, t: float, n: int
) -> Estimate:
    """Return the first mean over the second; the interval is infinite if the second may be zero."""
    (a, b), (of_a, of_b) = means, variances
    least = b**2 - t**2 * of_b
    if least <= 0:
        return Estimate(a / b, -math.inf, math.inf, n, "Fieller, unbounded")
    middle = (a * b - t**2 * covariance) / least
    spread = b**2 * of_a - 2 * a * b * covariance + a**2 * of_b - t**2 * (of_a * of_b - covariance**2)
    half = t * math.sqrt(max(0.0, spread)) / least
    return Estimate(a / b, middle - half, middle + half, n, "Fieller")


def block_ratio_estimate(
    numerators: Sequence[float], denominators: Sequence[float], confidence: float = CONFIDENCE
) -> Estimate:
    """Return the geometric mean of ratios of values that were measured beside each other, block by block.

    Disturbances of both sides of a block cancel. The interval is Student's, of the logarithms over blocks, so
    blocks may differ from each other by any factor. A disturbance of one side may last for several blocks, so the
    interval is wider if ratios follow their neighbours.

    Args:
        numerators: one value per block; the mean, where a block has several.
        denominators: the same of the other side, in the same order.
        confidence: level of the interval, which is infinite for a single block.

    Raises:
        ValueError: the sides have different numbers of blocks.
    """
    above, below = np.asarray(numerators, dtype=float), np.asarray(denominators, dtype=float)
    if len(above) != len(below):
        raise ValueError(f"{len(above)} blocks over {len(below)}")
    if min(above.min(), below.min()) <= 0:
        return Estimate(math.nan, -math.inf, math.inf, len(above), "a value is not positive")
    logs = np.log(above / below)
    mean, n = float(logs.mean()), len(logs)
    if n < 2:
        return Estimate(math.exp(mean), -math.inf, math.inf, n, "one block")
    if np.ptp(logs) <= _ROUNDING * max(1.0, abs(mean)):
        return _of_equal(math.exp(mean), n, confidence)
    variance, degrees = _mean_variance(logs)
    half = _student(degrees, confidence) * math.sqrt(variance)
    return Estimate(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n, _BY_BLOCK)


def equivalence(confidence: float) -> float:
    """Return the level of the interval that shows a quantity to lie inside a range: 90 % for an error of 5 %.

    Each of the two ends is a one-sided test (TOST: Schuirmann, J. Pharmacokinet. Biopharm. 15, 1987).
    """
    return 1 - 2 * (1 - confidence)


def more_values(estimate: Estimate, bound: float) -> str:
    """Estimate the factor by which the number of values must grow until an interval excludes a bound.

    Its width falls with the square root of the number of values, if the value does not change.
    """
    apart = abs(estimate.value - bound)
    half = estimate.high - estimate.value if estimate.value < bound else estimate.value - estimate.low
    if half > math.sqrt(_MOST_LONGER) * apart:
        return "the value lies at the bound itself, so no number of trials decides soon"
    return f"about {human_number(math.ceil(2 * (half / apart) ** 2) / 2)} times as many trials would decide"


def together_confidence(confidence: float, count: int) -> float:
    """Return the level of each interval so that all hold jointly with the given confidence (Bonferroni)."""
    return 1 - (1 - confidence) / max(1, count)


def difference_p(first: Sequence[float], second: Sequence[float], error: float = 0.0) -> float:
    """Return the probability of means so far apart if they are equal; NaN when it cannot be known.

    It is that of Welch's t test, two-sided. If no side varies, it is the probability that an interval of equal values
    misses, which two repeats of a side cannot bring below 50 %.

    Args:
        first: values of one side.
        second: values of the other.
        error: half-width of a 95 % interval that the difference has besides the spread of the values.
    """
    n = min(len(first), len(second))
    if n < 2:
        return math.nan
    apart, deviation, degrees = _welch(first, second, error)
    if deviation == 0:
        return 1.0 if abs(apart) <= error else _equal_p(n)
    return float(2 * scipy.special.stdtr(degrees, -abs(apart) / deviation))


def difference_estimate(
    first: Sequence[float], second: Sequence[float], error: float = 0.0, confidence: float = CONFIDENCE
) -> Estimate:
    """Return second minus first with Welch's interval, which excludes 0 exactly if `difference_p` is below 5 %."""
    n, apart = min(len(first), len(second)), float(np.mean(second) - np.mean(first))
    if n < 2:
        return Estimate(apart, -math.inf, math.inf, n, "one value")
    apart, deviation, degrees = _welch(first, second, error)
    if deviation == 0:
        return _of_equal(apart, n, confidence, error)
    half = _student(degrees, confidence) * deviation
    return Estimate(apart, apart - half, apart + half, n, "Welch")


def _welch(first: Sequence[float], second: Sequence[float], error: float) -> tuple[float, float, float]:
    """Return second minus first, its standard deviation with an error of its own, and its degrees of freedom.

    The deviation is 0 where no value of either side differs from the others.
    """
    sides = [np.asarray(values, dtype=float) for values in (first, second)]
    means = [float(values.mean()) for values in sides]
    apart = 0.0 if math.isclose(*means, rel_tol=_ROUNDING) else means[1] - means[0]
    known = [_mean_variance(values) for values in sides]
    parts = sum(variance**2 / degrees for variance, degrees in known)
    if parts == 0:
        return apart, 0.0, _MOST_DEGREES
    spread = sum(variance for variance, _ in known) + _own_variance(error)
    return apart, math.sqrt(spread), min(spread**2 / parts, _MOST_DEGREES)


def _own_variance(error: float) -> float:
    """Return the variance of an error with this half-width of a 95 % interval."""
    return float((error / scipy.special.ndtri((1 + CONFIDENCE) / 2)) ** 2)


def product_estimate(
    above: Sequence[Sequence[float]],
    below: Sequence[Sequence[float]],
    confidence: float = CONFIDENCE,
    error: float = 0.0,
) -> Estimate:
    """Return a product of positive means over a product of others, with an interval of the logarithm.

    The delta method on logarithms, degrees of freedom by Welch-Satterthwaite: for ratios of ratios.

    Args:
        above: values of each factor.
        below: values of each divisor.
        confidence: level of the interval.
        error: half-width of a 95 % interval that the logarithm has besides the spread of the values.
    """
    samples = [np.asarray(values, dtype=float) for values in (*above, *below)]
    means, n = [float(values.mean()) for values in samples], min(len(values) for values in samples)
    if min(means) <= 0:
        return Estimate(math.nan, -math.inf, math.inf, n, "a mean is not positive")
    value = math.prod(means[: len(above)]) / math.prod(means[len(above) :])
    if n < 2:
        return Estimate(value, -math.inf, math.inf, n, "one value")
    known = [_mean_variance(values) for values in samples]
    parts = [variance / mean**2 for (variance, _), mean in zip(known, means, strict=True)]
    if sum(parts) == 0:
        return _of_equal(value, n, confidence, value * math.expm1(error) if error else None)
    variance = sum(parts) + _own_variance(error)
    degrees = variance**2 / sum(part**2 / own for part, (_, own) in zip(parts, known, strict=True))
    spread = math.exp(_student(min(degrees, _MOST_DEGREES), confidence) * math.sqrt(variance))
    return Estimate(value, value / spread, value * spread, n, "delta method on logarithms")


def rise_ratio_estimate(
    first: tuple[Sequence[float], Sequence[float]],
    last: tuple[Sequence[float], Sequence[float]],
    confidence: float = CONFIDENCE,
    error: float = 0.0,
) -> Estimate:
    """Return the rise of one quantity over that of another between two levels, with Fieller's interval.

    Args:
        first: values of both quantities, trial by trial, at the first level.
        last: the same at the last level.
        confidence: level of the interval, which is infinite if the other quantity's rise may be zero.
        error: half-width of a 95 % interval that the rise has besides the spread of the values.
    """
    levels = [np.asarray(level, dtype=float) for level in (first, last)]
    rise, other = (float(levels[1][k].mean() - levels[0][k].mean()) for k in (0, 1))
    n = min(level.shape[1] for level in levels)
    if other == 0 or n < 2:
        return Estimate(rise / other if other else math.nan, -math.inf, math.inf, n, "one value")
    ratio = rise / other
    known = [[_mean_variance(values) for values in (*level, level[0] - ratio * level[1])] for level in levels]
    of_rise, of_other, of_apart = (sum(variance for variance, _ in parts) for parts in zip(*known, strict=True))
    if of_rise == of_other == 0:
        return _of_equal(ratio, n, confidence, error / abs(other) if error else None)
    # Values of both quantities may follow their neighbours together, so their difference gives the covariance.
    covariance = (of_rise + ratio**2 * of_other - of_apart) / (2 * ratio) if ratio else 0.0
    # The fewest degrees of freedom of a part: Welch's lower bound, valid for every contrast of both levels.
    degrees = min(degrees for level in known for _, degrees in level)
    variances = of_rise + _own_variance(error), of_other
    return _fieller((rise, other), variances, covariance, _student(degrees, confidence), n)


@dataclass(frozen=True)
class Trend:
    """The test whether a quantity rises or falls over the levels of a factor.

    Attributes:
        z: standardised Mann-Kendall statistic over all groups; positive when rising.
        p: two-sided probability of such a z without a trend.
        n: number of pairs.
    """

    z: float
    p: float
    n: int

    def direction(self, confidence: float = CONFIDENCE) -> int:
        """Return 1 if rising, -1 if falling, 0 if neither is significant."""
        if self.p >= 1 - confidence:
            return 0
        return 1 if self.z > 0 else -1


def trend(groups: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Trend:
    """Return the Mann-Kendall trend of y over x, summed over groups that are never compared (Hirsch 1982).

    Args:
        groups: pairs (x, y) of equal length, for instance one per queue count with x the load; ties are allowed.
    """
    score, variance, pairs = 0.0, 0.0, 0
    for x, y in groups:
        score += _kendall_score(np.asarray(x, dtype=float), np.asarray(y, dtype=float))
        variance += _kendall_variance(x, y)
        pairs += len(x)
    if variance == 0:
        return Trend(0.0, 1.0, pairs)
    # Continuity correction: S moves in steps of two.
    z = float(np.sign(score) * max(0.0, abs(score) - 1) / math.sqrt(variance))
    return Trend(z, float(2 * scipy.special.ndtr(-abs(z))), pairs)


def _kendall_score(x: Values, y: Values) -> float:
    upper = np.triu_indices(len(x), 1)
    signs = np.sign(x[:, None] - x[None, :]) * np.sign(y[:, None] - y[None, :])
    return float(signs[upper].sum())


def _kendall_variance(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the variance of Kendall's S under independence with ties in both variables (Kendall 1970, chapter 4)."""
    n = len(x)
    if n < 2:
        return 0.0
    ties = [np.unique(np.asarray(each), return_counts=True)[1].astype(np.float64) for each in (x, y)]
    pairs = [each * (each - 1) for each in ties]
    variance = n * (n - 1) * (2 * n + 5) / 18
    variance -= sum(float((two * (2 * each + 5)).sum()) for two, each in zip(pairs, ties, strict=True)) / 18
    if n > 2:  # of two values no three can be tied
        triples = (float((two * (each - 2)).sum()) for two, each in zip(pairs, ties, strict=True))
        variance += math.prod(triples) / (9 * n * (n - 1) * (n - 2))
    variance += math.prod(float(two.sum()) for two in pairs) / (2 * n * (n - 1))
    return max(0.0, variance)


@dataclass(frozen=True)
class FittedLine:
    """Hold a least squares line with an interval of its slope."""

    slope: float
    low: float
    high: float
    intercept: float


def line(x: Sequence[float], y: Sequence[float], confidence: float = CONFIDENCE) -> FittedLine:
    """Fit a straight line to at least three points with at least two different x."""
    fit = scipy.stats.linregress(x, y)
    half = _student(len(x) - 2, confidence) * float(fit.stderr)
    return FittedLine(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half, float(fit.intercept))


def bimodality_warning(values: Sequence[float] | Values) -> str | None:
    """Return a sentence if the values have two separate modes, so that their mean describes neither; else None."""
    sample = np.sort(np.asarray(values, dtype=float))
    if len(sample) < _BIMODAL_MIN_N or np.ptp(sample) == 0:
        return None
    low, high = _two_modes(sample)
    spread = math.sqrt(low.var() + high.var())
    distance = float(high.mean() - low.mean())
    separation = math.inf if spread == 0 else math.sqrt(2) * distance / spread
    if separation < _BIMODAL_SEPARATION or distance < 0.01 * abs(float(sample.mean())):
        return None
    around = [human_number(float(mode.mean())) for mode in (low, high)]
    between = [human_number(float(end)) for end in (low[-1], high[0])]
    return (
        f"{len(low)} values lie around {around[0]} and {len(high)} around {around[1]}, with nothing between "
        f"{between[0]} and {between[1]} (Ashman's D = {human_number(separation)}): the mean describes neither"
    )


def _two_modes(sample: Values) -> tuple[Values, Values]:
    """Split a sorted sample into two modes of at least a quarter each with the least variance within them."""
    margin = max(2, len(sample) // 4)
    splits = np.arange(margin, len(sample) - margin + 1)
    sums = np.cumsum(sample - sample.mean())  # of the centred sample, so its last one is 0
    # The variance between the modes is largest where the variance within them is least.
    between = sums[splits - 1] ** 2 * (1 / splits + 1 / (len(sample) - splits))
    best = int(splits[np.argmax(between)])
    return sample[:best], sample[best:]
