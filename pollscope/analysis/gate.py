# SPDX-License-Identifier: BSD-3-Clause
"""Judge conditions on a comparison; 'rx_pps < -2 %' asks whether the rate fell by more than 2 %.

A condition has three outcomes at a point. It holds if the whole interval of the change lies beyond the bound; these
intervals hold jointly with 95 % over all points, so that many points do not fail by chance more often than one. It does
not hold if the 90 % interval lies on the other side, which errs in 5 % of cases; every point is judged by itself, so
these intervals need no correction. Otherwise the intervals are too wide to decide. If the data decided when a run ended
(`pollscope run --fail-if`), its intervals have a higher level.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pollscope.analysis.claims.evaluate import level_of
from pollscope.analysis.compare import Difference, Missing, compare_levels, missing_levels
from pollscope.base.errors import UsageError
from pollscope.base.units import human_number
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.stats.estimates import CONFIDENCE, NO_INTERVAL, Estimate, equivalence, more_values, together_confidence
from pollscope.store.run_folder import RunFolder

_FORM = "METRIC < NUMBER % or METRIC > NUMBER %, for instance 'rx_pps < -2 %'"
_CONDITION = re.compile(r"\s*(?P<metric>\w+)\s*(?P<sign>[<>])\s*(?P<bound>[+-]?(\d+\.?\d*|\.\d+))\s*%\s*", re.ASCII)

_SAME = Estimate(1.0, 1.0, 1.0, 0, "by definition")


@dataclass(frozen=True)
class Condition:
    """Describe a change of a metric from the first side to the second: below a bound or above it, in percent."""

    metric: str
    below: bool
    percent: float

    def __str__(self) -> str:
        """Return the condition with all its digits, so that it can be given to `--fail-if` again."""
        bound = Decimal(str(self.percent + 0.0)).normalize()  # + 0.0: a bound of -0 is 0
        return f"{self.metric} {'<' if self.below else '>'} {bound:+f} %"

    def holds(self, ratio: Estimate) -> bool:
        """Return whether the whole interval of second over first lies beyond the bound."""
        return ratio.high < self.bound if self.below else ratio.low > self.bound

    def excluded(self, ratio: Estimate) -> bool:
        """Return whether no part of the interval of second over first lies beyond the bound."""
        return ratio.low >= self.bound if self.below else ratio.high <= self.bound

    @property
    def bound(self) -> float:
        return 1 + self.percent / 100


@dataclass(frozen=True)
class Judged:
    """Hold the outcome of a condition: one line per point where it holds, does not hold, or stays open.

    `unseen_levels` holds the levels of the compared points that stay open, where both sides have a value.
    """

    condition: Condition
    holds: tuple[str, ...]
    not_so: tuple[str, ...]
    unseen: tuple[str, ...]
    unseen_levels: tuple[Mapping[str, object], ...] = ()

    def lines(self) -> list[str]:
        """Return the counts and, below them, the points where the condition holds or stays open."""
        points = len(self.holds) + len(self.not_so) + len(self.unseen)
        head = f"fail if {self.condition}: so at {len(self.holds)} of {points} points"
        blind = f", cannot tell at {len(self.unseen)}" if self.unseen else ""
        return [f"{head}{blind}", *(f"  {line}" for line in (*self.holds, *self.unseen))]


def condition(text: str) -> Condition:
    """Parse a condition.

    Raises:
        UsageError: the text is no condition, or names no metric.
    """
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError("is not a condition", f"--fail-if '{text}'", _FORM)
    metric, percent = metric_dictionary()[found["metric"]].name, float(found["bound"])
    if percent <= -100:
        raise UsageError("nothing falls by 100 % or more", f"--fail-if '{text}'", _FORM)
    return Condition(metric, found["sign"] == "<", percent)


def judge_levels(run: RunFolder, factor: str, conditions: Sequence[Condition]) -> list[Judged]:
    """Judge each condition between the first level of a factor and each other one."""
    metrics = list(dict.fromkeys(each.metric for each in conditions))
    missing = missing_levels(run, factor, metrics)
    return judge(conditions, compare_levels(run, factor, metrics), missing, level_of(run))


def judge(
    conditions: Sequence[Condition],
    differences: Sequence[Difference],
    missing: Sequence[Missing] = (),
    level: float = CONFIDENCE,
) -> list[Judged]:
    """Judge each condition at the points of its metric; it stays open where only the first side has a value."""
    looked_at = [(each, [other for other in differences if other.metric == each.metric]) for each in conditions]
    together = together_confidence(level, sum(len(found) for _, found in looked_at))
    lost = [[each for each in missing if each.metric == wanted.metric] for wanted in conditions]
    return [_judged(each, found, left, together, level) for (each, found), left in zip(looked_at, lost, strict=True)]


def _judged(
    wanted: Condition, differences: Sequence[Difference], missing: Sequence[Missing], together: float, level: float
) -> Judged:
    if not differences and not missing:
        remedy = "choose another metric, or measure it again on both sides"
        raise UsageError("was not measured on both sides", f"--fail-if '{wanted}'", remedy)
    holds: list[str] = []
    not_so: list[str] = []
    unseen = [f"{each.point}: cannot tell: {each.reason}" for each in missing]
    levels: list[Mapping[str, object]] = []
    for each in differences:
        ratio, alone, before = each.ratio_at(together), each.ratio_at(equivalence(level)), len(unseen)
        first_of_all_zero = len(each.samples[0].values) > 1 and not any(each.samples[0].values)
        if not each.is_fair:
            unseen.append(f"{each.point}: cannot tell: too many trials lack the metric for a fair sample")
        elif first_of_all_zero and each.second.has_interval and each.second.low > each.first.high:
            # The second side is certainly above 0: more than any percentage.
            (not_so if wanted.below else holds).append(f"{each.point}: from 0 in every trial to {_level(each)}")
        elif each.is_constant and min(each.first.n, each.second.n) > 1:
            (holds if wanted.holds(_SAME) else not_so).append(f"{each.point}: the same in every trial")
        elif reason := _why_unseen(each, alone):
            unseen.append(f"{each.point}: cannot tell: {reason}")
        elif wanted.holds(ratio):
            holds.append(f"{each.point}: {_change(ratio)}")
        elif wanted.excluded(alone):
            not_so.append(f"{each.point}: {_change(alone)}")
        else:
            unseen.append(f"{each.point}: cannot tell: {_change(alone)}, {more_values(alone, wanted.bound)}")
        levels += [sample.levels for sample in each.samples] if len(unseen) > before else []
    return Judged(wanted, tuple(holds), tuple(not_so), tuple(unseen), tuple(levels))


def _level(each: Difference) -> str:
    ends = (each.second.value, each.second.low, each.second.high)
    value, low, high = map(metric_dictionary()[each.metric].text, ends)
    return f"{value} ({low} to {high})"


def _why_unseen(each: Difference, ratio: Estimate) -> str:
    if not each.first.value > 0:
        return "the first is not above 0, so there is no change in percent"
    if math.isnan(ratio.value) or not ratio.has_interval:
        return NO_INTERVAL
    return ""


def _change(ratio: Estimate) -> str:
    value, low, high = (_percent(end - 1) for end in (ratio.value, ratio.low, ratio.high))
    return f"{value} % ({low} to {high})"


def _percent(change: float) -> str:
    return f"{'+' if change >= 0 else ''}{human_number(100 * change)}"
