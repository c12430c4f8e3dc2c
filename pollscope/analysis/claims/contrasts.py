# SPDX-License-Identifier: BSD-3-Clause
"""Judge predicates that compare changes: of two metrics, or of two levels of a factor over another factor."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from pollscope.analysis.claims.numbers import (
    AGREES,
    DISAGREES,
    INCONCLUSIVE,
    AtLevel,
    GroupFindings,
    at_level,
    ends,
    how_decided,
    inside,
    no_ends,
    none_of,
    number,
    placed,
    ratios_finding,
    spread,
    stated,
    times,
)
from pollscope.analysis.claims.verdict import Finding, VerdictKind
from pollscope.analysis.point_values import PointValues, groups
from pollscope.base.units import counted
from pollscope.metrics.dictionary import Metric, metric_dictionary
from pollscope.spec.points import level_text
from pollscope.spec.predicates import Across, AverageRatio, Crosses, RatioOfRatios, RiseShare, SteeperKnee
from pollscope.stats.estimates import Estimate, product_estimate, rise_ratio_estimate, together_confidence

# A level with a larger share of lost packets is beyond saturation.
_SATURATED_LOSS = 0.01


def rise_share(predicate: RiseShare, found: Sequence[PointValues], metric: Metric, confidence: float) -> Finding:
    """Judge the rise of one metric as a share of another's, both from the same trials."""
    shares: dict[str, AtLevel] = {}
    behind: list[PointValues] = []
    for label, first, last in ends(predicate, found):
        place = placed(label, f"{predicate.factor} {predicate.first} to {predicate.last}")
        both = (first.values, first.beside), (last.values, last.beside)
        shares[place] = partial(rise_ratio_estimate, *both, error=math.hypot(first.own_error, last.own_error))
        behind += [first, last]
    if not shares:
        return no_ends(predicate)
    of = metric_dictionary()[predicate.beside].title
    what = f"{metric.title} rises by this share of the rise of {of}:"
    return ratios_finding(predicate, what, shares, behind, confidence)


def average_ratio(predicate: AverageRatio, found: Sequence[PointValues], _metric: Metric, confidence: float) -> Finding:
    """Judge the average ratio of two levels over all groups; it stays open if two kinds of mean disagree."""
    pairs = {label: (first, last) for label, first, last in ends(predicate, found)}
    if not pairs:
        return no_ends(predicate)
    place = f"{predicate.factor} {predicate.last} over {predicate.first}"
    means: dict[str, AtLevel] = {
        "arithmetic mean": partial(_arithmetic_mean, list(pairs.values())),
        "geometric mean": partial(_geometric_mean, list(pairs.values())),
    }
    kinds = {inside(predicate, mean, confidence) for mean in means.values()}
    kind = kinds.pop() if len(kinds) == 1 else INCONCLUSIVE
    numbers = [number(f"{name}, {place}", mean(confidence), times) for name, mean in means.items()]
    numbers += [
        number(placed(label, place), last.over(first, confidence), times) for label, (first, last) in pairs.items()
    ]
    said = "; ".join(f"{each.label.partition(',')[0]} {each.text}" for each in numbers[: len(means)])
    claimed = stated(predicate)
    sentence = (
        f"Ratio over {_averaged(pairs.values(), predicate.factor)}: {said}; stated {claimed} (tolerance included)."
    )
    sentence += how_decided(predicate, list(means.values()), kind, confidence)
    behind = [each for pair in pairs.values() for each in pair]
    return Finding(kind, sentence, numbers, behind)


def _own_error(samples: Iterable[PointValues]) -> float:
    """Return the half-width of a 95 % interval that a product of positive means has by the errors of single trials."""
    return math.hypot(*(each.own_error * len(each.values) / sum(each.values) for each in samples))


def _product(above: Sequence[PointValues], below: Sequence[PointValues], confidence: float) -> Estimate:
    """Return a product of means over a product of others, with the errors that single trials have by themselves."""
    every = [*above, *below]
    error = _own_error(every) if all(sum(each.values) > 0 for each in every) else 0.0
    return product_estimate([each.values for each in above], [each.values for each in below], confidence, error)


def _averaged(pairs: Iterable[tuple[PointValues, PointValues]], factor: str) -> str:
    """Describe the number of pairs and their levels of the other factors."""
    levels: dict[str, dict[str, None]] = {}
    count = 0
    for first, _ in pairs:
        count += 1
        for name, level in first.levels.items():
            if name != factor:
                levels.setdefault(name, {})[level_text(name, level)] = None
    named = "; ".join(f"{name} {', '.join(found)}" for name, found in levels.items())
    what = f"{counted(count, 'pair')} of points"
    return f"{what} ({named})" if named else what


def _arithmetic_mean(pairs: Sequence[tuple[PointValues, PointValues]], confidence: float) -> Estimate:
    """Return the mean of independent ratios; the squares of their errors add up."""
    ratios = [last.over(first, confidence) for first, last in pairs]
    mean = sum(ratio.value for ratio in ratios) / len(ratios)
    below = math.hypot(*(ratio.value - ratio.low for ratio in ratios)) / len(ratios)
    above = math.hypot(*(ratio.high - ratio.value for ratio in ratios)) / len(ratios)
    return Estimate(mean, mean - below, mean + above, min(ratio.n for ratio in ratios), "errors added as squares")


def _geometric_mean(pairs: Sequence[tuple[PointValues, PointValues]], confidence: float) -> Estimate:
    """Return the geometric mean of ratios; samples are scaled to mean 1, because large products overflow."""
    first, last = ([sum(each.values) / len(each.values) for each in side] for side in zip(*pairs, strict=True))
    if min(*first, *last) <= 0:
        return Estimate(math.nan, -math.inf, math.inf, 0, "a mean is not positive")
    logarithms = [math.log(above / below) for below, above in zip(first, last, strict=True)]
    mean = math.exp(sum(logarithms) / len(logarithms))
    below_1, above_1 = (
        [[value * len(each.values) / sum(each.values) for value in each.values] for each in side]
        for side in zip(*pairs, strict=True)
    )
    spread = product_estimate(above_1, below_1, confidence, _own_error(chain(*pairs)))
    low, high = (mean * end ** (1 / len(pairs)) if spread.has_interval else end for end in (spread.low, spread.high))
    return replace(spread, value=mean, low=low, high=high)


def _pairs(
    predicate: Across, found: Sequence[PointValues]
) -> Iterator[tuple[str, list[PointValues], list[PointValues]]]:
    """Yield, per group, the sweeps at both compared levels, by rising level of the factor."""
    others: dict[str, tuple[list[PointValues], list[PointValues]]] = {}
    for sample in found:
        if predicate.factor in sample.levels and predicate.across in sample.levels:
            sides = others.setdefault(sample.label(predicate.factor, predicate.across), ([], []))
            for side, level in zip(sides, (predicate.of, predicate.over), strict=True):
                if at_level([sample], predicate.across, level) is not None:
                    side.append(sample)
    for label, sides in others.items():
        if all(sides):
            of, over = (next(members for _, members in groups(side, predicate.factor)) for side in sides)
            yield label, of, over


def _no_pair(predicate: Across, what: str) -> Finding:
    return none_of(f"no sweep of {predicate.factor} with {predicate.across} {predicate.of} and {predicate.over} {what}")


def ratio_of_ratios(
    predicate: RatioOfRatios, found: Sequence[PointValues], _metric: Metric, confidence: float
) -> Finding:
    """Judge how much more or less one of two levels changes over a factor than the other."""
    ratios: dict[str, AtLevel] = {}
    behind: list[PointValues] = []
    for label, of, over in _pairs(predicate, found):
        four = [at_level(side, predicate.factor, to) for side in (of, over) for to in (predicate.last, predicate.first)]
        known = [each for each in four if each is not None]
        if len(known) == len(four):
            behind += known
            place = f"{predicate.factor} {predicate.first} to {predicate.last}, {predicate.of} over {predicate.over}"
            ratios[placed(label, place)] = partial(_double_ratio, known)
    if not ratios:
        return _no_pair(predicate, f"from {predicate.first} to {predicate.last}")
    return ratios_finding(predicate, "Ratio of the changes", ratios, behind, confidence)


def _double_ratio(four: Sequence[PointValues], confidence: float) -> Estimate:
    """Return the first point over the second, over the third over the fourth.

    Where the plan compares within blocks, both ratios are estimated block by block; the squares of their errors add up.
    """
    of_last, of_first, over_last, over_first = four
    of, over = of_last.over(of_first, confidence), over_last.over(over_first, confidence)
    known = of.has_interval and over.has_interval and min(of.low, over.low) > 0
    if not (known and all(sample.by_block() for sample in four)):
        return _product([of_last, over_first], [of_first, over_last], confidence)
    below = math.hypot(math.log(of.value / of.low), math.log(over.high / over.value))
    above = math.hypot(math.log(of.high / of.value), math.log(over.value / over.low))
    value = of.value / over.value
    method = "errors of logarithms added as squares"
    return Estimate(value, value * math.exp(-below), value * math.exp(above), min(of.n, over.n), method)


def crosses(predicate: Crosses, found: Sequence[PointValues], _metric: Metric, confidence: float) -> Finding:
    """Judge a crossing: below at one end of the sweep, above at the other. The ends do not depend on the data."""
    every, factor = GroupFindings(), predicate.factor
    for label, of, over in _pairs(predicate, found):
        common = [(one, two) for one in of if (two := at_level(over, factor, one.levels[factor]))]
        if len(common) > 1:
            places = [placed(label, f"{factor} {level_text(factor, one.levels[factor])}") for one, _ in common]
            ratios = [one.over(two, confidence) for one, two in common]
            numbers = [number(place, ratio, times) for place, ratio in zip(places, ratios, strict=True)]
            every.add(partial(_crossing, [common[0], common[-1]]), chain.from_iterable(common), numbers)
    if not every.numbers:
        return _no_pair(predicate, "at two common levels")
    return every.together(f"Ratio of {predicate.of} to {predicate.over}: {spread(every.numbers)}.", confidence)


def _crossing(ends: Sequence[tuple[PointValues, PointValues]], confidence: float) -> VerdictKind:
    """Combine both ends: both confirm, either refutes, so refuting intervals hold jointly."""
    first, last = (one.over(two, confidence) for one, two in ends)
    if first.has_interval and last.has_interval and first.high < 1 < last.low:
        return AGREES
    wide = together_confidence(confidence, len(ends))
    first, last = (one.over(two, wide) for one, two in ends)
    refuted = (first.has_interval and first.low >= 1) or (last.has_interval and last.high <= 1)
    return DISAGREES if refuted else INCONCLUSIVE


@dataclass(frozen=True)
class _Curve:
    """Hold the levels up to saturation: per level its share of the capacity, and its sample."""

    kept: list[tuple[float, PointValues]]

    def growth(self, sample: PointValues, confidence: float) -> Estimate:
        """Return the growth from the lowest level to the sample."""
        return sample.over(self.kept[0][1], confidence)


def _curve(members: Sequence[PointValues], factor: str) -> _Curve | None:
    """Return the levels up to saturation; None if the sweep does not reach it or has fewer than two levels before."""
    lost = [sum(sample.beside) / len(sample.beside) for sample in members]
    beyond = next((k for k, share in enumerate(lost) if share > _SATURATED_LOSS), None)
    if beyond is None or beyond < 2:
        return None
    carried = max(float(one.levels[factor]) * (1 - share) for one, share in zip(members, lost, strict=True))
    return _Curve([(float(sample.levels[factor]) / carried, sample) for sample in members[:beyond]])


def steeper_knee(predicate: SteeperKnee, found: Sequence[PointValues], metric: Metric, confidence: float) -> Finding:
    """Judge which knee is sharper: up to the same share of its own capacity, one curve grows less than the other.

    The sweep has fixed levels, so equal shares are rare; the comparison always errs against the claim.
    """
    every = GroupFindings()
    for label, of, over in _pairs(predicate, found):
        first, second = _curve(of, predicate.factor), _curve(over, predicate.factor)
        if first is not None and second is not None:
            compared = zip((predicate.of, predicate.over), _compared_growths(first, second, confidence), strict=True)
            numbers = [
                number(placed(label, f"{level} up to {share:.0%} of what it can carry"), ratio, times)
                for level, (share, ratio) in compared
            ]
            every.add(partial(_knee, first, second), [*of, *over], numbers)
    if not every.numbers:
        return _no_pair(predicate, "that reaches saturation after two levels or more")
    return every.together(f"{metric.title} grows before saturation: {spread(every.numbers)}.", confidence)


def _compared_growths(of: _Curve, over: _Curve, confidence: float) -> list[tuple[float, Estimate]]:
    """Return the growth of the first up to saturation, and of the other up to the same share, each with its share."""
    share, last = of.kept[-1]
    less = [each for each in over.kept[1:] if each[0] <= share]
    shown = less[-1] if less else over.kept[-1]
    return [(share, of.growth(last, confidence)), (shown[0], over.growth(shown[1], confidence))]


def _knee(of: _Curve, over: _Curve, confidence: float) -> VerdictKind:
    share, last = of.kept[-1]
    less = [each for each in over.kept[1:] if each[0] <= share]
    more = [each for each in over.kept[1:] if each[0] >= share]
    # Growth only increases towards saturation: at a smaller share of its capacity the other has had less of it.
    if less and _grows_more(over, less[-1][1], of, last, confidence):
        return AGREES
    if more and _grows_more(of, last, over, more[0][1], confidence):
        return DISAGREES
    return INCONCLUSIVE


def _grows_more(one: _Curve, at: PointValues, other: _Curve, other_at: PointValues, confidence: float) -> bool:
    ratio = _product([at, other.kept[0][1]], [one.kept[0][1], other_at], confidence)
    return ratio.has_interval and ratio.low > 1
