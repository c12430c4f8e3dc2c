# SPDX-License-Identifier: BSD-3-Clause
"""Compare intervals with stated bounds, one or several together, and put the result into words, for all predicates."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pollscope.analysis.claims.verdict import Finding, Number, VerdictKind
from pollscope.analysis.point_values import Level, PointValues, groups
from pollscope.base.units import human_number, human_share
from pollscope.spec.points import level_text
from pollscope.spec.predicates import AverageRatio, Ratio, RiseShare, StatedBounds
from pollscope.stats.estimates import NO_INTERVAL, Estimate, equivalence, more_values, together_confidence

Text = Callable[[float], str]
# Predicates on two levels of a factor.
Ends = Ratio | AverageRatio | RiseShare
# Returns an estimate with an interval of the requested level.
AtLevel = Callable[[float], Estimate]
AGREES, DISAGREES = VerdictKind.AGREES, VerdictKind.DISAGREES
INCONCLUSIVE, NOT_MEASURABLE = VerdictKind.INCONCLUSIVE, VerdictKind.NOT_MEASURABLE


def times(value: float) -> str:
    """Return a ratio as text."""
    return human_number(value, 4)


def exact(value: float) -> str:
    """Return a bound with all its digits: rounded like a result, 1.265 would seem to exclude 1.262."""
    return human_number(value, 6)


def inside(bounds: StatedBounds, at: AtLevel, confidence: float, refuting: float = 0.0) -> VerdictKind:
    """Judge whether a quantity lies inside a stated range.

    It agrees by two one-sided tests, each with the error of the confidence: the interval of 90 % for 95 % lies inside.
    It disagrees if the whole interval of the confidence lies outside, or of a higher one (`refuting`).
    """
    if _compared(bounds, at(equivalence(confidence))) is AGREES:
        return AGREES
    return DISAGREES if _compared(bounds, at(max(confidence, refuting))) is DISAGREES else INCONCLUSIVE


def _compared(bounds: StatedBounds, estimate: Estimate) -> VerdictKind:
    low = -math.inf if bounds.low is None else bounds.low
    high = math.inf if bounds.high is None else bounds.high
    if not estimate.has_interval:
        return INCONCLUSIVE
    if low <= estimate.low and estimate.high <= high:
        return AGREES
    return DISAGREES if estimate.high < low or estimate.low > high else INCONCLUSIVE


def each_inside(bounds: StatedBounds, estimates: Sequence[AtLevel], confidence: float) -> list[VerdictKind]:
    """Judge whether each estimate lies inside.

    A claim about several is confirmed by all of them, which needs no correction, and refuted by any one: the more there
    are, the likelier one lies outside by chance, so the intervals that refute hold together.
    """
    wide = together_confidence(confidence, len(estimates))
    return [inside(bounds, at, confidence, wide) for at in estimates]


def each_group(judges: Sequence[Callable[[float], VerdictKind]], confidence: float) -> list[VerdictKind]:
    """Return the verdict of each group of points, whose judges take the level of intervals.

    As with several points, any one group refutes a claim. So it has to do that at the level that holds for all groups.
    """
    wide = together_confidence(confidence, len(judges))
    kinds = [judge(confidence) for judge in judges]
    return [
        INCONCLUSIVE if kind is DISAGREES and judge(wide) is not DISAGREES else kind
        for judge, kind in zip(judges, kinds, strict=True)
    ]


def how_decided(
    bounds: StatedBounds,
    estimates: Sequence[AtLevel],
    kind: VerdictKind,
    confidence: float,
    text: Text = times,
    exactly: Text = exact,
) -> str:
    """Return a sentence on the test behind *agrees*, or on what an open verdict waits for."""
    level = equivalence(confidence)
    share = human_share(level)
    if kind is AGREES:
        return f" Each {share} interval lies inside (equivalence test at {human_share(1 - confidence)})."
    ends = [end for end in (bounds.low, bounds.high) if end is not None]
    held = [(found, end) for at in estimates for found in (at(level),) for end in ends if found.low < end < found.high]
    held = [each for each in held if each[0].has_interval]
    if kind is not INCONCLUSIVE or not held:
        return ""
    found, end = min(held, key=lambda each: abs(each[0].value - each[1]) / (each[0].high - each[0].low))
    interval = f"{share} interval from {text(found.low)} to {text(found.high)}"
    return f" The stated end {exactly(end)} lies inside the {interval}: {more_values(found, end)}."


@dataclass
class GroupFindings:
    """Collect what a predicate finds in each group of points; `judges` take the level of intervals (each_group)."""

    numbers: list[Number] = field(default_factory=list)
    behind: list[PointValues] = field(default_factory=list)
    judges: list[Callable[[float], VerdictKind]] = field(default_factory=list)

    def add(
        self, judge: Callable[[float], VerdictKind], behind: Iterable[PointValues], numbers: Iterable[Number]
    ) -> None:
        """Add a group: its judge, the points behind its verdict, and its numbers."""
        self.judges.append(judge)
        self.behind += behind
        self.numbers += numbers

    def together(self, sentence: str, confidence: float) -> Finding:
        """Return the finding of all groups."""
        return Finding(together(each_group(self.judges, confidence)), sentence, self.numbers, self.behind)


def together(kinds: Sequence[VerdictKind]) -> VerdictKind:
    """Combine the verdicts of several points: one refutes a claim, and all together confirm it."""
    if DISAGREES in kinds:
        return DISAGREES
    return AGREES if set(kinds) == {AGREES} else INCONCLUSIVE


def _same_level(one: Level, other: Level) -> bool:
    """Return whether two levels are the same; compare words as text and numbers by value."""
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return math.isclose(float(one), float(other), abs_tol=1e-9)


def at_level(members: Sequence[PointValues], factor: str, level: Level) -> PointValues | None:
    """Return the sample at a level of a factor."""
    return next((sample for sample in members if _same_level(sample.levels[factor], level)), None)


def ends(predicate: Ends, found: Sequence[PointValues]) -> Iterator[tuple[str, PointValues, PointValues]]:
    """Return, per group with both levels, its label and the samples at `from` and at `to`."""
    for label, members in groups(found, predicate.factor):
        first, last = (at_level(members, predicate.factor, level) for level in (predicate.first, predicate.last))
        if first is not None and last is not None:
            yield label, first, last


def no_ends(predicate: Ends) -> Finding:
    """Return the finding if no group has both levels."""
    return none_of(f"no pair of points with {predicate.factor} {predicate.first} and {predicate.last}, all else equal")


def swept(factor: str, found: Sequence[PointValues]) -> dict[str, list[PointValues]]:
    """Return the groups with at least two levels of a factor."""
    return {label: members for label, members in groups(found, factor) if len(members) > 1}


def not_swept(factor: str) -> Finding:
    """Return the finding if there is no such group."""
    return none_of(f"fewer than two levels of {factor} to compare")


def number(label: str, estimate: Estimate, text: Text) -> Number:
    """Return an estimate as a number of a verdict."""
    if not estimate.has_interval:
        return Number(label, estimate.value, None, None, estimate.n, f"{text(estimate.value)} ({NO_INTERVAL})")
    written = text(estimate.value)
    if estimate.low != estimate.high:
        written += f" ({text(estimate.low)} to {text(estimate.high)})"
    return Number(label, estimate.value, estimate.low, estimate.high, estimate.n, written)


def exact_percent(value: float) -> str:
    """Return a bound of a share with all its digits."""
    return human_share(value, 6)


def stated(bounds: StatedBounds, text: Text = exact) -> str:
    """Return the stated range in words."""
    if bounds.low is None:
        return f"at most {text(bounds.high or 0.0)}"
    if bounds.high is None:
        return f"at least {text(bounds.low)}"
    if bounds.low == bounds.high:
        return text(bounds.low)
    return f"{text(bounds.low)} to {text(bounds.high)}"


def spread(numbers: Sequence[Number]) -> str:
    """Summarise numbers: the only one, or the lowest and the highest with their places."""
    if len(numbers) == 1:
        return f"{numbers[0].text} at {numbers[0].label}" if numbers[0].label else numbers[0].text
    low, high = min(numbers, key=lambda each: each.value), max(numbers, key=lambda each: each.value)
    return f"from {low.text} at {low.label} to {high.text} at {high.label}"


def placed(label: str, place: str) -> str:
    """Return the place of a number: the levels of the other factors, then the text for this one."""
    return f"{label}, {place}" if label else place


def ratios_finding(
    bounds: StatedBounds,
    what: str,
    ratios: Mapping[str, AtLevel],
    behind: list[PointValues],
    confidence: float,
    included: str = " (tolerance included)",
) -> Finding:
    """Return the finding of ratios that all have to lie in the stated range; the sentence begins with `what`."""
    numbers = [number(place, ratio(confidence), times) for place, ratio in ratios.items()]
    kind = together(each_inside(bounds, list(ratios.values()), confidence))
    sentence = f"{what} {spread(numbers)}; stated {stated(bounds)}{included}."
    sentence += how_decided(bounds, list(ratios.values()), kind, confidence)
    return Finding(kind, sentence, numbers, behind)


def sweep_text(label: str, members: Sequence[PointValues], factor: str) -> str:
    """Return a group with its first and last level as text."""
    first, last = (level_text(factor, sample.levels[factor]) for sample in (members[0], members[-1]))
    return placed(label, f"{factor} {first} to {last}")


def none_of(what: str) -> Finding:
    """Return the finding if the run lacks points that the predicate compares."""
    return Finding(NOT_MEASURABLE, f"The run has {what}.")
