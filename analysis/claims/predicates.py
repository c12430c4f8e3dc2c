# SPDX-License-Identifier: BSD-3-Clause
"""How each kind of predicate is judged, with intervals; docs/claims.md states the rules."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from pollscope.analysis.claims.model import (
    Bounds,
    EveryTrial,
    LargestFall,
    Linear,
    Predicate,
    Ratio,
    RisesAbove,
    TrendOver,
    Within,
)
from pollscope.analysis.claims.verdict import Finding, Number, VerdictKind
from pollscope.analysis.samples import Sample, groups, level_text
from pollscope.analysis.statistics import Estimate, Line, Trend, line, ratio_estimate, trend
from pollscope.metrics import Metric

Text = Callable[[float], str]
AGREES, DISAGREES = VerdictKind.AGREES, VerdictKind.DISAGREES
INCONCLUSIVE, NOT_MEASURABLE = VerdictKind.INCONCLUSIVE, VerdictKind.NOT_MEASURABLE


def judge(predicate: Predicate, found: Sequence[Sample], metric: Metric) -> Finding:
    """Judge a predicate by samples of its metric (at least one)."""
    match predicate:
        case Within():
            return _within(predicate, found, metric)
        case EveryTrial():
            return _every_trial(predicate, found, metric)
        case TrendOver():
            return _trend(predicate, found, metric)
        case Ratio():
            return _ratio(predicate, found)
        case LargestFall():
            return _largest_fall(predicate, found)
        case RisesAbove():
            return _rises_above(predicate, found, metric)
        case Linear():
            return _linear(predicate, found, metric)


def number(label: str, estimate: Estimate, text: Text) -> Number:
    """An estimate as a number of a verdict."""
    if not estimate.has_interval:
        return Number(label, estimate.value, None, None, estimate.n, f"{text(estimate.value)} (one value, no interval)")
    written = text(estimate.value)
    if estimate.low != estimate.high:
        written += f" ({text(estimate.low)} to {text(estimate.high)})"
    return Number(label, estimate.value, estimate.low, estimate.high, estimate.n, written)


def stated(bounds: Bounds, text: Text) -> str:
    """The stated range in words."""
    if bounds.low is None:
        return f"at most {text(bounds.high or 0.0)}"
    if bounds.high is None:
        return f"at least {text(bounds.low)}"
    if bounds.low == bounds.high:
        return text(bounds.low)
    return f"{text(bounds.low)} to {text(bounds.high)}"


def _inside(bounds: Bounds, estimate: Estimate) -> VerdictKind:
    """Agrees if the whole interval lies inside, disagrees if all of it lies outside, else inconclusive."""
    low = -math.inf if bounds.low is None else bounds.low
    high = math.inf if bounds.high is None else bounds.high
    if not estimate.has_interval:
        return INCONCLUSIVE
    if low <= estimate.low and estimate.high <= high:
        return AGREES
    return DISAGREES if estimate.high < low or estimate.low > high else INCONCLUSIVE


def _together(kinds: Sequence[VerdictKind]) -> VerdictKind:
    """A claim about several points is refuted by one of them and confirmed by all."""
    if DISAGREES in kinds:
        return DISAGREES
    return AGREES if set(kinds) == {AGREES} else INCONCLUSIVE


def _spread(numbers: Sequence[Number]) -> str:
    """The numbers in short: the one, or lowest and highest with where they were seen."""
    if len(numbers) == 1:
        return f"{numbers[0].text} at {numbers[0].label}" if numbers[0].label else numbers[0].text
    low, high = min(numbers, key=lambda each: each.value), max(numbers, key=lambda each: each.value)
    return f"from {low.text} at {low.label} to {high.text} at {high.label}"


def _within(bounds: Within, found: Sequence[Sample], metric: Metric) -> Finding:
    estimates = [sample.estimate for sample in found]
    kinds = [_inside(bounds, estimate) for estimate in estimates]
    numbers = [number(sample.label(), estimate, metric.text) for sample, estimate in zip(found, estimates, strict=True)]
    count = f"{kinds.count(AGREES)} of {len(kinds)} points lie inside, {kinds.count(DISAGREES)} outside"
    sentence = f"{metric.title}: {_spread(numbers)}; stated {stated(bounds, metric.text)}; {count}."
    return Finding(_together(kinds), sentence, numbers)


def _every_trial(bounds: EveryTrial, found: Sequence[Sample], metric: Metric) -> Finding:
    low = -math.inf if bounds.low is None else bounds.low
    high = math.inf if bounds.high is None else bounds.high
    wrong = [sample for sample in found if any(not low <= value <= high for value in sample.values)]
    trials = sum(len(sample.values) for sample in found)
    numbers = [number(sample.label(), sample.estimate, metric.text) for sample in wrong or found]
    if not wrong:
        return Finding(AGREES, f"{metric.title} was {stated(bounds, metric.text)} in all {trials} trials.", numbers)
    bad = [value for sample in wrong for value in sample.values if not low <= value <= high]
    worst = max(bad, key=lambda value: max(low - value, value - high))
    count = f"{len(bad)} of {trials} trials"
    sentence = f"{metric.title} was not {stated(bounds, metric.text)} in {count}, at worst {metric.text(worst)}."
    return Finding(DISAGREES, sentence, numbers)


def _xy(members: Sequence[Sample], factor: str) -> tuple[list[float], list[float]]:
    pairs = [(float(sample.levels[factor]), value) for sample in members for value in sample.values]
    return [x for x, _ in pairs], [y for _, y in pairs]


def _trend(predicate: TrendOver, found: Sequence[Sample], metric: Metric) -> Finding:
    swept = {label: members for label, members in groups(found, predicate.factor) if len(members) > 1}
    if not swept:
        return Finding(NOT_MEASURABLE, f"The run has fewer than two levels of {predicate.factor} to compare.")
    wanted = 1 if predicate.direction == "rises" else -1
    numbers, kinds = [], []
    for label, members in swept.items():
        change = _shifted(ratio_estimate(members[-1].values, members[0].values), -1.0)
        numbers.append(_change_number(_sweep_text(label, members, predicate.factor), members, change, metric))
        kinds.append(_trend_kind(predicate, trend([_xy(members, predicate.factor)]), change, wanted))
    whole = trend([_xy(members, predicate.factor) for members in swept.values()])
    sentence = _trend_sentence(predicate, metric, numbers, kinds, whole)
    return Finding(_trend_verdict(kinds, whole, wanted), sentence, numbers)


def _sweep_text(label: str, members: Sequence[Sample], factor: str) -> str:
    first, last = (level_text(factor, sample.levels[factor]) for sample in (members[0], members[-1]))
    return f"{label}, {factor} {first} to {last}" if label else f"{factor} {first} to {last}"


def _trend_sentence(
    predicate: TrendOver, metric: Metric, numbers: Sequence[Number], kinds: Sequence[VerdictKind], whole: Trend
) -> str:
    test = f"Mann-Kendall z = {whole.z:.1f}, p = {whole.p:.2g}, {whole.n} trials"
    if len(kinds) == 1:
        return f"{metric.title}: {numbers[0].text} ({numbers[0].label}; {test})."
    counts = f"{kinds.count(AGREES)} of {len(kinds)} groups, flat or the opposite in {kinds.count(DISAGREES)}"
    return f"{metric.title} {predicate.direction} with {predicate.factor} in {counts} (all groups: {test})."


def _trend_kind(predicate: TrendOver, own: Trend, change: Estimate, wanted: int) -> VerdictKind:
    if change.has_interval and max(abs(change.low), abs(change.high)) < predicate.flat_within:
        return DISAGREES  # plainly flat
    if own.direction == wanted and change.value * wanted > 0:
        return AGREES
    return DISAGREES if own.direction == -wanted else INCONCLUSIVE


def _trend_verdict(kinds: Sequence[VerdictKind], whole: Trend, wanted: int) -> VerdictKind:
    """All groups together decide; one that plainly goes the other way or stays flat makes it inconclusive."""
    against, for_it = kinds.count(DISAGREES), kinds.count(AGREES)
    if whole.direction == wanted and not against and for_it:
        return AGREES
    if whole.direction == -wanted or (against and not for_it):
        return DISAGREES
    return INCONCLUSIVE


def _shifted(estimate: Estimate, by: float) -> Estimate:
    return replace(estimate, value=estimate.value + by, low=estimate.low + by, high=estimate.high + by)


def percent(value: float) -> str:
    """A share in percent."""
    return f"{100 * value:.3g} %"


def _change_number(label: str, members: Sequence[Sample], change: Estimate, metric: Metric) -> Number:
    interval = f" ({percent(change.low)} to {percent(change.high)})" if change.has_interval else ""
    first, last = members[0].estimate.value, members[-1].estimate.value
    ends = f"{metric.text(first)} to {metric.text(last)}"
    low, high = (change.low, change.high) if change.has_interval else (None, None)
    return Number(label, change.value, low, high, change.n, f"{ends}, {percent(change.value)}{interval}")


def _level(members: Sequence[Sample], factor: str, level: float | str) -> Sample | None:
    def same(other: float | str) -> bool:
        return other == level if isinstance(level, str) else math.isclose(float(other), level)

    return next((sample for sample in members if same(sample.levels[factor])), None)


def _ratio(predicate: Ratio, found: Sequence[Sample]) -> Finding:
    numbers, kinds = [], []
    for label, members in groups(found, predicate.factor):
        first, last = (_level(members, predicate.factor, level) for level in (predicate.first, predicate.last))
        if first is None or last is None:
            continue
        ratio = ratio_estimate(last.values, first.values)
        place = f"{predicate.factor} {predicate.last} over {predicate.first}"
        numbers.append(number(f"{label}, {place}" if label else place, ratio, lambda value: f"{value:.3f}"))
        kinds.append(_inside(predicate, ratio))
    if not numbers:
        ends = f"{predicate.factor} {predicate.first} and {predicate.last}"
        return Finding(NOT_MEASURABLE, f"The run has no pair of points with {ends}.")
    claimed = stated(predicate, lambda value: f"{value:.3g}")
    sentence = f"Ratio {_spread(numbers)}; stated {claimed} (tolerance included)."
    return Finding(_together(kinds), sentence, numbers)


def _largest_fall(predicate: LargestFall, found: Sequence[Sample]) -> Finding:
    falls = []
    for label, members in groups(found, predicate.factor):
        if len(members) > 1:
            ratio = ratio_estimate(members[-1].values, members[0].values)
            fall = replace(ratio, value=1 - ratio.value, low=1 - ratio.high, high=1 - ratio.low)
            falls.append((label, fall))
    if not falls:
        return Finding(NOT_MEASURABLE, f"The run has fewer than two levels of {predicate.factor} to compare.")
    numbers = [number(label, fall, percent) for label, fall in falls]
    label, largest = max(falls, key=lambda each: each[1].value)
    sentence = (
        f"The largest fall is {number(label, largest, percent).text}{f' at {label}' if label else ''}; "
        f"stated {stated(predicate, percent)} (tolerance included)."
    )
    return Finding(_inside(predicate, largest), sentence, numbers)


def _rises_above(predicate: RisesAbove, found: Sequence[Sample], metric: Metric) -> Finding:
    numbers, kinds = [], []
    for label, members in groups(found, predicate.factor):
        below = [sample for sample in members if float(sample.levels[predicate.factor]) <= predicate.level]
        above = [sample for sample in members if float(sample.levels[predicate.factor]) > predicate.level]
        if below and above:
            kind, ratio = _rise(predicate, below, above)
            last = level_text(predicate.factor, above[-1].levels[predicate.factor])
            place = f"{label}, " if label else ""
            place += f"{predicate.factor} {last} over the highest up to {predicate.level}"
            numbers.append(number(place, ratio, "{:.3g}".format))
            kinds.append(kind)
    if not numbers:
        ends = f"{predicate.factor} on both sides of {predicate.level}"
        return Finding(NOT_MEASURABLE, f"The run has no points with {ends}.")
    return Finding(_together(kinds), f"{metric.title}: ratio {_spread(numbers)}.", numbers)


def _rise(predicate: RisesAbove, below: Sequence[Sample], above: Sequence[Sample]) -> tuple[VerdictKind, Estimate]:
    highest = max(below, key=lambda sample: sample.estimate.value)
    ratio = ratio_estimate(above[-1].values, highest.values)
    rising = trend([_xy([below[-1], *above], predicate.factor)]).direction
    if rising == 1 and ratio.has_interval and ratio.low > 1:
        return AGREES, ratio
    if rising == -1 or (ratio.has_interval and ratio.high <= 1):
        return DISAGREES, ratio
    return INCONCLUSIVE, ratio


def _linear(predicate: Linear, found: Sequence[Sample], metric: Metric) -> Finding:
    numbers, kinds = [], []
    for label, members in groups(found, predicate.factor):
        if len(members) > 2:
            fitted = line(*_xy(members, predicate.factor))
            explained = _explained(members, predicate.factor, fitted)
            kinds.append(_linear_kind(predicate, members, fitted, explained))
            ends = f"{metric.text(fitted.low)} to {metric.text(fitted.high)}"
            text = f"{metric.text(fitted.slope)} ({ends}) per unit of {predicate.factor}"
            text += f", {percent(explained)} of the variance of the means explained"
            place = _sweep_text(label, members, predicate.factor)
            count = sum(len(sample.values) for sample in members)
            numbers.append(Number(place, fitted.slope, fitted.low, fitted.high, count, text))
    if not numbers:
        return Finding(NOT_MEASURABLE, f"The run has fewer than three levels of {predicate.factor} to compare.")
    wanted = f"a straight line has to explain {percent(predicate.r_squared)}"
    return Finding(_together(kinds), f"{metric.title}: {_spread(numbers)}; {wanted}.", numbers)


def _linear_kind(predicate: Linear, members: Sequence[Sample], fitted: Line, explained: float) -> VerdictKind:
    """A bend counts as one only if the line misses the interval of a mean."""
    if fitted.low <= 0:
        return DISAGREES if fitted.high <= 0 else INCONCLUSIVE
    if explained >= predicate.r_squared:
        return AGREES
    missed = [
        sample
        for sample in members
        if not sample.estimate.low <= _on_line(sample, predicate.factor, fitted) <= sample.estimate.high
    ]
    return DISAGREES if missed else INCONCLUSIVE


def _on_line(sample: Sample, factor: str, fitted: Line) -> float:
    return fitted.intercept + fitted.slope * float(sample.levels[factor])


def _explained(members: Sequence[Sample], factor: str, fitted: Line) -> float:
    """Share of the variance of the levels' means that the line explains; negative when their mean does better."""
    means = [sample.estimate.value for sample in members]
    middle = sum(means) / len(means)
    rest = sum((mean - _on_line(sample, factor, fitted)) ** 2 for mean, sample in zip(means, members, strict=True))
    whole = sum((mean - middle) ** 2 for mean in means)
    return 1 - rest / whole if whole else 0.0
