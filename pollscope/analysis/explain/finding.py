# SPDX-License-Identifier: BSD-3-Clause
"""Define rules and their findings: whether a stage limits the DUT at a point, with numbers and a refutation."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pollscope.analysis.explain.observations import PointObservations


class RuleOutcome(StrEnum):
    """Name the outcomes of a rule: the stage limits, may limit, does not limit, or nothing was measured."""

    LIMITS = "limits"
    OPEN = "open"
    CLEAR = "not"
    ABSENT = "absent"


@dataclass(frozen=True)
class Judged:
    """Hold the outcome of a rule at a point and the sentences with its numbers, the weightiest first."""

    kind: RuleOutcome
    evidence: tuple[str, ...]


def judged(kind: RuleOutcome, *evidence: str) -> Judged:
    """The same with empty sentences left out."""
    return Judged(kind, tuple(text for text in evidence if text))


@dataclass(frozen=True)
class Rule:
    """A stage that may limit a DUT, and how to tell.

    Attributes:
        stage: its name, as a reader sees it.
        when: the conditions under which it limits or may limit, one sentence part each.
        judge: from numbers to what they say; raises NotMeasured with the reason where one is absent.
        source: where the rule comes from.
        refuted_by: a measurement that would show that the stage does not limit.
    """

    stage: str
    when: tuple[str, ...]
    judge: Callable[["PointObservations"], Judged]
    source: str
    refuted_by: str


@dataclass(frozen=True)
class StageFinding:
    """Hold the finding of a rule at one point; `evidence` of an absent one is the reason."""

    stage: str
    kind: RuleOutcome
    evidence: tuple[str, ...]
    source: str
    refuted_by: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "kind": str(self.kind), "evidence": list(self.evidence)}
