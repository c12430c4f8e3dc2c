# SPDX-License-Identifier: BSD-3-Clause
"""Judge how a metric changes over a factor: trends, lines, rises, peaks, dips."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from pollscope.analysis.claims.numbers import (
    AGREES,
    DISAGREES,
    INCONCLUSIVE,
    NOT_MEASURABLE,
    GroupFindings,
    none_of,
    not_swept,
    number,
    placed,
    spread,
    sweep_text,
    swept,
)
from pollscope.analysis.claims.verdict import Finding, Number, VerdictKind
from pollscope.analysis.point_values import PointValues, groups
from pollscope.base.units import human_number, human_p, human_share
from pollscope.metrics.dictionary import Metric
from pollscope.plan.blocks import FEWEST_BLOCKS
from pollscope.spec.points import level_text
from pollscope.spec.predicates import Dips, Linear, Peak, RisesAbove, TrendOver
from pollscope.stats.estimates import (
    Estimate,
    FittedLine,
    Trend,
    difference_estimate,
    difference_p,
    equivalence,
    line,
    together_confidence,
    trend,
)

# Most groups that a sentence names.
_MOST_NAMED = 4


def _xy(members: Sequence[PointValues], factor: str) -> tuple[list[float], list[float]]:
    pairs = [(float(sample.levels[factor]), value) for sample in members for value in sample.values]
    return [x for x, _ in pairs], [y for _, y in pairs]


def _by_block(members: Sequence[PointValues], factor: str) -> list[tuple[list[float], list[float]]]:
    """Return x and y of each block, or of all trials where the plan does not compare within blocks.

    Values of different blocks are then never compared, so that a change of the host between blocks moves no trend.
    """
    blocks: dict[str, tuple[list[float], list[float]]] = {}
    for sample in members:
        for block, values in sample.by_block().items():
            x, y = blocks.setdefault(block, ([], []))
            x += [float(sample.levels[factor])] * len(values)
            y += values
    # Blocks of a single level, for instance of a round that was added for one point, say nothing about a trend.
    compared = [(x, y) for x, y in blocks.values() if len(set(x)) > 1]
    return compared if len(compared) >= FEWEST_BLOCKS else [_xy(members, factor)]


def trend_over(predicate: TrendOver, found: Sequence[PointValues], metric: Metric, confidence: float) -> Finding:
    """Judge a trend: all groups together must show it, and more than half of them on their own."""
    by_group = swept(predicate.factor, found)
    if not by_group:
        return not_swept(predicate.factor)
    wanted = 1 if predicate.direction == "rises" else -1
    numbers, kinds = [], []
    by_kind: dict[VerdictKind, list[str]] = {AGREES: [], DISAGREES: []}
    for label, members in by_group.items():
        ratio = members[-1].over(members[0], confidence)
        change = replace(ratio, value=ratio.value - 1, low=ratio.low - 1, high=ratio.high - 1)
        numbers.append(_change_number(sweep_text(label, members, predicate.factor), members, change, metric))
        own = trend(_by_block(members, predicate.factor)).direction(confidence)
        moves = _moves(members, wanted, predicate.flat_within, confidence)
        kinds.append(_trend_kind(predicate, own, change, wanted, moves))
        by_kind.get(kinds[-1], []).append(label)
    whole = trend([each for members in by_group.values() for each in _by_block(members, predicate.factor)])
    sentence = _trend_sentence(predicate, metric, numbers, by_kind, whole)
    behind = [sample for members in by_group.values() for sample in members]
    return Finding(_trend_verdict(kinds, whole.direction(confidence), wanted), sentence, numbers, behind)


def _trend_sentence(
    predicate: TrendOver,
    metric: Metric,
    numbers: Sequence[Number],
    by_kind: Mapping[VerdictKind, Sequence[str]],
    whole: Trend,
) -> str:
    test = f"Mann-Kendall z = {human_number(whole.z, 2)}, {human_p(whole.p)}, {whole.n} trials"
    if len(numbers) == 1:
        return f"{metric.title}: {numbers[0].text} ({numbers[0].label}; {test})."
    shown, against = by_kind[AGREES], by_kind[DISAGREES]
    counts = f"{len(shown)} of {len(numbers)} groups{_named(shown)}"
    counts += f", flat or the opposite in {len(against)}{_named(against)}"
    undecided = len(numbers) - len(shown) - len(against)
    counts += f", undecided in {undecided}" if undecided else ""
    return f"{metric.title} {predicate.direction} with {predicate.factor} in {counts} (all groups: {test})."


def _named(labels: Sequence[str]) -> str:
    """Return the names of the first few groups, in brackets."""
    more = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
    return f" ({'; '.join(labels[:_MOST_NAMED])}{more})" if labels else ""


def _moves(members: Sequence[PointValues], wanted: int, flat: float, confidence: float) -> bool:
    """Return whether the near end of the change from the first level to the last exceeds the flat range."""
    first, last, level = members[0], members[-1], equivalence(confidence)
    ratio = last.over(first, level)
    if ratio.has_interval:
        return (ratio.low - 1 if wanted > 0 else 1 - ratio.high) > flat
    # The first level may be zero: compare without a division.
    end = 1 + wanted * flat
    error = math.hypot(end * first.own_error, last.own_error)
    beyond = difference_estimate([end * value for value in first.values], last.values, error, level)
    return beyond.low > 0 if wanted > 0 else beyond.high < 0


def _trend_kind(predicate: TrendOver, own: int, change: Estimate, wanted: int, moves: bool) -> VerdictKind:
    """Judge one group: its own test or its ends must show the trend, by more than the flat range for certain."""
    if change.has_interval and max(abs(change.low), abs(change.high)) < predicate.flat_within:
        return DISAGREES  # plainly flat
    ends = 1 if change.low > 0 else -1 if change.high < 0 else 0
    if math.isnan(change.value):  # a rise from 0 has no relative size: the test alone decides
        return AGREES if own == wanted else DISAGREES if own == -wanted else INCONCLUSIVE
    if own == -wanted:  # if only the ends say otherwise, as with a U, it is neither
        return INCONCLUSIVE if ends == wanted else DISAGREES
    return AGREES if wanted in (own, ends) and moves else INCONCLUSIVE


def _trend_verdict(kinds: Sequence[VerdictKind], whole: int, wanted: int) -> VerdictKind:
    """Combine the groups: more than half must show the trend and none the opposite; refuting it takes the same."""
    against, for_it = kinds.count(DISAGREES), kinds.count(AGREES)
    if whole == wanted and not against and 2 * for_it > len(kinds):
        return AGREES
    if not for_it and (whole == -wanted or 2 * against > len(kinds)):
        return DISAGREES
    return INCONCLUSIVE


def _change_number(label: str, members: Sequence[PointValues], change: Estimate, metric: Metric) -> Number:
    interval = f" ({human_share(change.low)} to {human_share(change.high)})" if change.has_interval else ""
    first, last = members[0].estimate.value, members[-1].estimate.value
    ends = f"{metric.text(first)} to {metric.text(last)}"
    low, high = (change.low, change.high) if change.has_interval else (None, None)
    within = " within blocks" if change.within_blocks else ""
    share = "" if math.isnan(change.value) else f", {human_share(change.value)}{within}{interval}"  # 0 has no share
    return Number(label, change.value, low, high, change.n, f"{ends}{share}")


def rises_above(predicate: RisesAbove, found: Sequence[PointValues], metric: Metric, confidence: float) -> Finding:
    """Judge whether the metric's last value lies above every value up to a level."""
    every = GroupFindings()
    for label, members in groups(found, predicate.factor):
        below = [sample for sample in members if float(sample.levels[predicate.factor]) <= predicate.level]
        above = [sample for sample in members if float(sample.levels[predicate.factor]) > predicate.level]
        if below and above:
            # The highest was selected, so it is shown, and only joint intervals refute by it.
            highest = max(below, key=lambda sample: sample.estimate.value)
            ratio = above[-1].over(highest, confidence)
            last = level_text(predicate.factor, above[-1].levels[predicate.factor])
            place = placed(label, f"{predicate.factor} {last} over the highest up to {predicate.level}")
            every.add(partial(_rise, predicate, below, above), members, [number(place, ratio, human_number)])
    if not every.numbers:
        return none_of(f"no points with {predicate.factor} on both sides of {predicate.level}")
    return every.together(f"{metric.title}: ratio {spread(every.numbers)}.", confidence)


def _rise(
    predicate: RisesAbove, below: Sequence[PointValues], above: Sequence[PointValues], confidence: float
) -> VerdictKind:
    """Compare the last value with those below; one of them refutes, so the intervals that refute hold together."""
    ratios = [above[-1].over(sample, confidence) for sample in below]
    wide = together_confidence(confidence, len(below))
    joint = [above[-1].over(sample, wide) for sample in below]
    not_above = any(ratio.has_interval and ratio.high <= 1 for ratio in joint)
    rising = trend(_by_block([below[-1], *above], predicate.factor)).direction(confidence)
    if rising == 1 and all(ratio.has_interval and ratio.low > 1 for ratio in ratios):
        return AGREES
    return DISAGREES if rising == -1 or not_above else INCONCLUSIVE


def linear(predicate: Linear, found: Sequence[PointValues], metric: Metric, confidence: float) -> Finding:
    """Judge whether the metric rises and a straight line explains enough of the variance of its levels."""
    every = GroupFindings()
    for label, members in groups(found, predicate.factor):
        if len(members) > 2:
            fitted = line(*_xy(members, predicate.factor), confidence)
            explained, error = _explained(members, predicate.factor, fitted, confidence)
            ends = f"{metric.text(fitted.low)} to {metric.text(fitted.high)}"
            text = f"{metric.text(fitted.slope)} ({ends}) per unit of {predicate.factor}"
            known = f" ± {human_share(error, 2)}" if math.isfinite(error) else ""
            text += f", {human_share(explained)}{known} of the variance of the means explained"
            place = sweep_text(label, members, predicate.factor)
            count = sum(len(sample.values) for sample in members)
            slope = Number(place, fitted.slope, fitted.low, fitted.high, count, text)
            every.add(partial(_linear_kind, predicate, members), members, [slope])
    if not every.numbers:
        return none_of(f"fewer than three levels of {predicate.factor} to compare")
    wanted = f"a straight line has to explain {human_share(predicate.r_squared)}"
    return every.together(f"{metric.title}: {spread(every.numbers)}; {wanted}.", confidence)


def _linear_kind(predicate: Linear, members: Sequence[PointValues], confidence: float) -> VerdictKind:
    """Judge one group; a poor fit refutes only if the line misses the joint interval of a level's mean."""
    fitted = line(*_xy(members, predicate.factor), confidence)
    if fitted.low <= 0:
        return DISAGREES if fitted.high <= 0 else INCONCLUSIVE
    explained, error = _explained(members, predicate.factor, fitted, confidence)
    if explained >= predicate.r_squared:
        return AGREES if explained - error >= predicate.r_squared else INCONCLUSIVE
    wide = together_confidence(confidence, len(members))
    means = [(sample.at(wide), _on_line(sample, predicate.factor, fitted)) for sample in members]
    return INCONCLUSIVE if all(mean.low <= value <= mean.high for mean, value in means) else DISAGREES


def _on_line(sample: PointValues, factor: str, fitted: FittedLine) -> float:
    return fitted.intercept + fitted.slope * float(sample.levels[factor])


def _explained(
    members: Sequence[PointValues], factor: str, fitted: FittedLine, confidence: float
) -> tuple[float, float]:
    """Return the share of the variance of the levels' means that the line explains, and how much less it may be.

    The share is negative for a bad line. Its error is that of the means (delta method; one-sided).
    """
    found = [sample.at(equivalence(confidence)) for sample in members]
    middle = sum(each.value for each in found) / len(found)
    apart = [each.value - _on_line(sample, factor, fitted) for each, sample in zip(found, members, strict=True)]
    whole, rest = sum((each.value - middle) ** 2 for each in found), sum(each**2 for each in apart)
    if not whole:
        return 0.0, math.inf
    halves = [max(each.value - each.low, each.high - each.value) for each in found]
    slopes = [rest / whole * (each.value - middle) - off for each, off in zip(found, apart, strict=True)]
    parts = (slope * half for slope, half in zip(slopes, halves, strict=True))
    return 1 - rest / whole, math.inf if math.inf in halves else 2 / whole * math.hypot(*parts)


def peak(predicate: Peak, found: Sequence[PointValues], metric: Metric, confidence: float) -> Finding:
    """Judge where the metric is highest: the levels that no other clearly exceeds (Hsu 1984)."""
    every = GroupFindings()
    for label, members in groups(found, predicate.factor):
        levels = [float(sample.levels[predicate.factor]) for sample in members]
        if min(levels) >= predicate.low or max(levels) <= predicate.high:
            continue  # no level before the peak, or none beyond it: the highest measured one is not a peak
        if not any(predicate.low <= level <= predicate.high for level in levels):
            continue  # the stated level may still be the highest
        at = _may_be_highest(members, predicate.factor, confidence)
        highest = max(members, key=lambda sample: sample.estimate.value)
        top = float(highest.levels[predicate.factor])
        text = f"highest at {predicate.factor} {human_number(top)} ({human_number(min(at))} to {human_number(max(at))})"
        place = Number(label, top, min(at), max(at), len(highest.values), text)
        every.add(partial(_peak_kind, predicate, members), members, [place])
    if not every.numbers:
        wanted = f"{human_number(predicate.low)} to {human_number(predicate.high)}"
        return none_of(f"no levels of {predicate.factor} at and on both sides of {wanted}")
    return every.together(f"{metric.title}: {spread(every.numbers)}.", confidence)


def _peak_kind(predicate: Peak, members: Sequence[PointValues], confidence: float) -> VerdictKind:
    at = _may_be_highest(members, predicate.factor, confidence)
    inside = [predicate.low <= level <= predicate.high for level in at]
    return AGREES if all(inside) else INCONCLUSIVE if any(inside) else DISAGREES


def _may_be_highest(members: Sequence[PointValues], factor: str, confidence: float) -> list[float]:
    """Return the levels that may have the highest mean: each is tested jointly against all others."""
    limit = 2 * (1 - confidence) / (len(members) - 1)  # of two-sided tests; only the side above counts
    return [
        float(sample.levels[factor])
        for sample in members
        if not any(_is_above(other, sample, limit) for other in members if other is not sample)
    ]


def _is_above(one: PointValues, other: PointValues, limit: float) -> bool:
    error = math.hypot(one.own_error, other.own_error)
    return one.estimate.value > other.estimate.value and difference_p(one.values, other.values, error) < limit


def dips(predicate: Dips, found: Sequence[PointValues], metric: Metric, confidence: float) -> Finding:
    """Judge whether a level between the two lies below both; the test accounts for the choice of the deepest."""
    every = GroupFindings()
    for label, members in groups(found, predicate.factor):
        parts = _valley(predicate, members)
        if parts is None:
            continue
        before, between, after = parts
        lowest = min(between, key=lambda sample: sample.estimate.value)
        place = placed(label, f"{predicate.factor} {level_text(predicate.factor, lowest.levels[predicate.factor])}")
        ends = [f"{metric.text(end.estimate.value)} at {end.levels[predicate.factor]}" for end in (before, after)]
        shown = number(place, lowest.at(confidence), metric.text)
        shown = replace(shown, text=f"{shown.text} against {' and '.join(ends)}")
        every.add(partial(_dip_kind, before, between, after), [before, *between, after], [shown])
    if not every.numbers:
        wanted = f"{human_number(predicate.first)} and {human_number(predicate.last)}, or none between them"
        return Finding(NOT_MEASURABLE, f"The run does not have {predicate.factor} {wanted}.")
    return every.together(f"{metric.title}: {spread(every.numbers)}.", confidence)


def _dip_kind(
    before: PointValues, between: Sequence[PointValues], after: PointValues, confidence: float
) -> VerdictKind:
    wide = together_confidence(confidence, len(between))
    dip = any(all(_below(one, end, wide) for end in (before, after)) for one in between)
    none = all(any(_below(end, one, wide) for end in (before, after)) for one in between)
    return AGREES if dip else DISAGREES if none else INCONCLUSIVE


def _valley(
    predicate: Dips, members: Sequence[PointValues]
) -> tuple[PointValues, list[PointValues], PointValues] | None:
    """Return the sample at the first level, those between, and the one at or first beyond the last level."""
    before = [sample for sample in members if float(sample.levels[predicate.factor]) <= predicate.first]
    after = [sample for sample in members if float(sample.levels[predicate.factor]) >= predicate.last]
    between = [
        sample for sample in members if predicate.first < float(sample.levels[predicate.factor]) < predicate.last
    ]
    return (before[-1], between, after[0]) if before and between and after else None


def _below(one: PointValues, other: PointValues, confidence: float) -> bool:
    ratio = one.over(other, confidence)
    return ratio.has_interval and ratio.high < 1
