# SPDX-License-Identifier: BSD-3-Clause
"""Judge each kind of predicate with intervals; docs/validity.md states the rules."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pollscope.analysis.claims import contrasts, sweeps
from pollscope.analysis.claims.numbers import (
    AGREES,
    DISAGREES,
    each_inside,
    ends,
    exact_percent,
    how_decided,
    inside,
    no_ends,
    not_swept,
    number,
    placed,
    ratios_finding,
    spread,
    stated,
    swept,
    together,
)
from pollscope.analysis.claims.verdict import Finding
from pollscope.analysis.point_values import PointValues
from pollscope.base.units import human_share
from pollscope.metrics.dictionary import Metric
from pollscope.spec.predicates import (
    AverageRatio,
    Crosses,
    Dips,
    EveryTrial,
    Growth,
    LargestFall,
    Linear,
    Peak,
    Predicate,
    Ratio,
    RatioOfRatios,
    RisesAbove,
    RiseShare,
    SteeperKnee,
    TrendOver,
    Within,
)
from pollscope.stats.estimates import CONFIDENCE, Estimate, together_confidence


def judge(
    predicate: Predicate, found: Sequence[PointValues], metric: Metric, confidence: float = CONFIDENCE
) -> Finding:
    """Judge a predicate by samples of its metric (at least one).

    Args:
        predicate: of a claim.
        found: samples of the claim's metric; with a second metric beside it where the predicate asks for one.
        metric: of the dictionary.
        confidence: level of intervals; higher than that of a fixed number of repeats where luck could end them.
    """
    return JUDGES[type(predicate)](predicate, found, metric, confidence)


def _within(bounds: Within, found: Sequence[PointValues], metric: Metric, confidence: float) -> Finding:
    kinds = each_inside(bounds, [sample.at for sample in found], confidence)
    numbers = [number(sample.label(), sample.at(confidence), metric.text) for sample in found]
    count = f"{kinds.count(AGREES)} of {len(kinds)} points lie inside, {kinds.count(DISAGREES)} outside"
    kind = together(kinds)
    sentence = f"{metric.title}: {spread(numbers)}; stated {stated(bounds, metric.text)}; {count}."
    sentence += how_decided(bounds, [sample.at for sample in found], kind, confidence, metric.text, metric.text)
    return Finding(kind, sentence, numbers, found)


def _every_trial(bounds: EveryTrial, found: Sequence[PointValues], metric: Metric, confidence: float) -> Finding:
    low = -math.inf if bounds.low is None else bounds.low
    high = math.inf if bounds.high is None else bounds.high
    wrong = [sample for sample in found if any(not low <= value <= high for value in sample.values)]
    trials = sum(len(sample.values) for sample in found)
    numbers = [number(sample.label(), sample.at(confidence), metric.text) for sample in wrong or found]
    if not wrong:
        return Finding(
            AGREES, f"{metric.title} was {stated(bounds, metric.text)} in all {trials} trials.", numbers, found
        )
    bad = [value for sample in wrong for value in sample.values if not low <= value <= high]
    worst = max(bad, key=lambda value: max(low - value, value - high))
    count = f"{len(bad)} of {trials} trials"
    sentence = f"{metric.title} was not {stated(bounds, metric.text)} in {count}, at worst {metric.text(worst)}."
    return Finding(DISAGREES, sentence, numbers, found)


def _ratio(predicate: Ratio, found: Sequence[PointValues], _metric: Metric, confidence: float) -> Finding:
    ratios: dict[str, Callable[[float], Estimate]] = {}
    behind: list[PointValues] = []
    for label, first, last in ends(predicate, found):
        ratios[placed(label, f"{predicate.factor} {predicate.last} over {predicate.first}")] = partial(last.over, first)
        behind += [first, last]
    if not ratios:
        return no_ends(predicate)
    return ratios_finding(predicate, "Ratio", ratios, behind, confidence)


def _largest_fall(predicate: LargestFall, found: Sequence[PointValues], _metric: Metric, confidence: float) -> Finding:
    """Judge the largest fall. The largest of several noisy falls overestimates, so its interval covers the selection.

    Intervals that hold together contain all true falls, so the largest true one lies between their largest ends.
    """
    by_group = swept(predicate.factor, found)
    if not by_group:
        return not_swept(predicate.factor)
    largest = partial(_largest, list(by_group.values()))
    falls = {label: _fall(members, confidence) for label, members in by_group.items()}
    label = max(falls, key=lambda label: falls[label].value)
    numbers = [number(label, fall, human_share) for label, fall in falls.items()]
    several = f", chosen from {len(falls)}" if len(falls) > 1 else ""
    shown = number(label, largest(confidence), human_share).text
    kind = inside(predicate, largest, confidence)
    sentence = (
        f"The largest fall is {shown}{f' at {label}' if label else ''}{several}; "
        f"stated {stated(predicate, exact_percent)} (tolerance included)."
    )
    sentence += how_decided(predicate, [largest], kind, confidence, human_share, exact_percent)
    behind = [end for members in by_group.values() for end in (members[0], members[-1])]
    return Finding(kind, sentence, numbers, behind)


def _largest(by_group: Sequence[Sequence[PointValues]], confidence: float) -> Estimate:
    falls = [_fall(members, together_confidence(confidence, len(by_group))) for members in by_group]
    top = max(falls, key=lambda fall: fall.value)
    return replace(top, low=max(fall.low for fall in falls), high=max(fall.high for fall in falls))


def _fall(members: Sequence[PointValues], confidence: float) -> Estimate:
    ratio = members[-1].over(members[0], confidence)
    return replace(ratio, value=1 - ratio.value, low=1 - ratio.high, high=1 - ratio.low)


def _growth(predicate: Growth, found: Sequence[PointValues], _metric: Metric, confidence: float) -> Finding:
    growths: dict[str, Callable[[float], Estimate]] = {}
    behind: list[PointValues] = []
    for label, (first, *_, last) in swept(predicate.factor, found).items():
        share = float(first.levels[predicate.factor]) / float(last.levels[predicate.factor])
        place = f"{predicate.factor} {last.levels[predicate.factor]} over {first.levels[predicate.factor]}"
        growths[placed(label, place)] = partial(_scaled_ratio, last, first, share)
        behind += [first, last]
    if not growths:
        return not_swept(predicate.factor)
    what = f"Growth over that in proportion to {predicate.factor}:"
    return ratios_finding(predicate, what, growths, behind, confidence, "")


def _scaled_ratio(last: PointValues, first: PointValues, share: float, confidence: float) -> Estimate:
    return last.over(first, confidence).scaled(share)


JUDGES: Mapping[type, Callable[[Any, Sequence[PointValues], Metric, float], Finding]] = {
    Within: _within,
    EveryTrial: _every_trial,
    TrendOver: sweeps.trend_over,
    Ratio: _ratio,
    AverageRatio: contrasts.average_ratio,
    LargestFall: _largest_fall,
    RisesAbove: sweeps.rises_above,
    Linear: sweeps.linear,
    Growth: _growth,
    Peak: sweeps.peak,
    Dips: sweeps.dips,
    RiseShare: contrasts.rise_share,
    RatioOfRatios: contrasts.ratio_of_ratios,
    Crosses: contrasts.crosses,
    SteeperKnee: contrasts.steeper_knee,
}
