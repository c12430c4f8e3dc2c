# SPDX-License-Identifier: BSD-3-Clause
"""Look at the claims of a run while it is measured, and repeat the points of open ones (`repeats: {until: verdicts}`).

The largest number of repeats is declared before the first trial: twice the repeats that all points could get in the
given time, because decided points leave their time to others. A look is taken whenever the repeats have doubled. The
level of intervals at a look follows from the share of the declared repeats (pollscope.stats.sequential). The last look,
at the end of the time or at the declared number, spends all error that is left. A small part of the error would open
claims again that an earlier look had decided. The level is stored in run.json, and the verdicts of the run use it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pollscope.plan.plan import Plan
from pollscope.spec.model import MOST_REPEATS
from pollscope.spec.points import Point
from pollscope.stats.estimates import CONFIDENCE
from pollscope.stats.sequential import look_confidence


@dataclass(frozen=True)
class OpenClaim:
    """A claim, or a condition of `--fail-if`, that is not decided yet.

    Attributes:
        claim: its id, or the condition.
        waits_for: its present finding.
        levels: the points behind it, each by levels of its factors; none if it is not known.
        all_flagged: whether all trials behind it are flagged, so that none of them can decide it.
    """

    claim: str
    waits_for: str
    levels: Sequence[Mapping[str, object]]
    all_flagged: bool = False


# Reads a run folder and the repeats below a number; returns the open claims at the level that its run.json holds.
Judge = Callable[[Path, int], Sequence[OpenClaim]]


def declared_repeats(plan: Plan) -> int:
    """Return the largest number of repeats over which the looks are spread."""
    repeats = plan.spec.repeats
    one_s = sum(trial.seconds for trial in plan.further_round(plan.points, 0))
    return max(repeats.at_least, min(MOST_REPEATS, round(2 * (repeats.at_most_ns or 0) / 1e9 / one_s)))


class Looks:
    """The looks of one run.

    Args:
        declared: the largest number of repeats.
        made: the repeats at each look of an interrupted part of the run.
        ended: whether the last look was made, so that no error is left.
    """

    def __init__(self, declared: int, made: Sequence[int] = (), *, ended: bool = False) -> None:
        self.declared, self.made, self.ended = declared, [*made], ended

    @classmethod
    def of(cls, plan: Plan, meta: Mapping[str, Any]) -> "Looks":
        """Return the looks of a new or resumed run."""
        stored = meta.get("looks") or {}
        made = [int(each) for each in stored.get("made", [])]
        return cls(int(stored.get("declared", declared_repeats(plan))), made, ended=bool(stored.get("ended")))

    def after(self, repeats: int) -> int:
        """Return the repeats at the look that follows: twice as many, or all where little would be left."""
        return self.declared if self.declared < 3 * repeats else 2 * repeats

    def take(self, repeats: int, *, last: bool = False) -> dict[str, Any]:
        """Count a look after this number of repeats; return the entry of run.json."""
        if not self.made or repeats > self.made[-1]:
            self.made.append(repeats)
        self.ended = last
        shares = [each / self.declared for each in self.made]
        confidence = look_confidence(1 - CONFIDENCE, [*shares[:-1], 1.0 if last else shares[-1]])
        return {"declared": self.declared, "made": self.made, "confidence": confidence, "ended": last}


def points_of(open_claims: Sequence[OpenClaim], points: Sequence[Point]) -> list[Point]:
    """Return the points that the open claims rest on; all points if a claim does not name its own."""
    if not all(claim.levels for claim in open_claims):
        return list(points)
    wanted = [levels for claim in open_claims for levels in claim.levels]
    found = [point for point in points if any(_has(point, levels) for levels in wanted)]
    return found or list(points)


def _has(point: Point, levels: Mapping[str, object]) -> bool:
    # A level of a table may be a float where the spec has a whole number, and a word where it has a number.
    own = {name: level for name, level in levels.items() if name in point.factors}
    return all(level in (point.factors[name], str(point.factors[name])) for name, level in own.items())
