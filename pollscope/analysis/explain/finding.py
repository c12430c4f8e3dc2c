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


LIMITS, OPEN, CLEAR, ABSENT = RuleOutcome


@dataclass(frozen=True)
class RuleJudgement:
    """Hold the outcome of a rule at a point and the sentences with its numbers, the most important first."""

    kind: RuleOutcome
    evidence: tuple[str, ...]


def judged(kind: RuleOutcome, *evidence: str) -> RuleJudgement:
    """Return the outcome with its evidence, without empty sentences."""
    return RuleJudgement(kind, tuple(text for text in evidence if text))


@dataclass(frozen=True)
class Rule:
    """Hold a stage that may limit a DUT, and how it is judged (data/stages.yaml).

    `judge` raises NotMeasured with the reason if a number is absent; with `hardware` it needs a real NIC.
    """

    stage: str
    when: tuple[str, ...]
    judge: Callable[["PointObservations"], RuleJudgement]
    source: str
    refuted_by: str
    hardware: bool


@dataclass(frozen=True)
class StageFinding:
    """Hold the finding of a rule at one point; the evidence of an absent finding is the reason."""

    stage: str
    kind: RuleOutcome
    evidence: tuple[str, ...]
    source: str
    refuted_by: str

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "kind": str(self.kind), "evidence": list(self.evidence)}
