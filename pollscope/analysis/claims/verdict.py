# SPDX-License-Identifier: BSD-3-Clause
"""Hold the verdict on a claim, the numbers behind it, and one sentence."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from pollscope.analysis.claims.model import OWN, Claim
from pollscope.analysis.claims.reasons import reason
from pollscope.analysis.point_values import PointValues
from pollscope.spec.predicates import EveryTrial

MODELLED = "computed by a simulation; nothing was measured"


class VerdictKind(StrEnum):
    """Name the verdicts; a model agrees by construction with the rows that its costs were fitted to."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    CONSISTENT = "consistent by construction"
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURABLE = "not measurable here"


@dataclass(frozen=True)
class Number:
    """Hold a value behind a verdict, in base units, with its 95 % interval (None if it has none).

    The value is NaN if it is the relative size of a rise from 0.
    """

    label: str
    value: float
    low: float | None
    high: float | None
    n: int
    text: str

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON, which knows no NaN: null."""
        return asdict(self) | {"value": None if math.isnan(self.value) else self.value}


@dataclass(frozen=True)
class Finding:
    """The result of a predicate and the points that it compared, which may be fewer than the claim covers."""

    kind: VerdictKind
    sentence: str
    numbers: list[Number] = field(default_factory=list)
    behind: Sequence[PointValues] = ()

    def saying(self, text: str, kind: VerdictKind | None = None) -> "Finding":
        """Return the finding with a further sentence, and as another verdict if one is given."""
        return replace(self, kind=kind or self.kind, sentence=f"{self.sentence} {text}")

    @property
    def trials(self) -> int:
        """Return the number of trials behind the finding."""
        return sum(len(sample.values) for sample in self.behind)

    @property
    def flagged(self) -> int:
        """Return the number of flagged trials behind the finding."""
        return sum(sample.flagged for sample in self.behind)


@dataclass(frozen=True)
class Verdict:
    """Hold a claim judged by one run.

    Attributes:
        modelled: whether trials of the run were simulated instead of measured.
        view: the same by another statistic or fewer trials, which decides nothing.
        viewed_by: name of that view; empty without one.
    """

    claim: Claim
    run_id: str
    finding: Finding
    differs: list[str]
    modelled: bool = False
    view: "Finding | None" = None
    viewed_by: str = ""

    @property
    def kind(self) -> VerdictKind:
        """Return the verdict."""
        return self.finding.kind

    @property
    def tested(self) -> bool:
        """Return whether chance could have caused the verdict: trials were compared by their intervals."""
        known = isinstance(self.claim, Claim) and not isinstance(self.claim.predicate, EveryTrial)
        return known and self.kind is not VerdictKind.NOT_MEASURABLE

    @property
    def why(self) -> str:
        """Return the cause of a disagreement, if an experiment has shown it, with a link."""
        return reason(self.claim.row) if self.kind is VerdictKind.DISAGREES and not self.modelled else ""

    def text(self) -> str:
        """Return the verdict as text for a terminal: statement, sentence, number of trials, numbers."""
        lines = [f"{self.kind.value.upper():20} {self.claim.id}  ({self.run_id})", f"  claim:   {self.claim.statement}"]
        lines += [
            f"  source:  {', '.join(dict.fromkeys([self.claim.paper or 'pollscope', self.claim.source]))}",
            f"  finding: {self.finding.sentence}",
        ]
        lines += [f"  modelled: {MODELLED}"] if self.modelled else []
        lines += [f"  why:     {self.why}"] if self.why else []
        lines += [f"  trials:  {self.finding.trials}, {self.finding.flagged} flagged"] if self.finding.trials else []
        lines += [f"    {number.label or 'all'}: {number.text}, n = {number.n}" for number in self.finding.numbers]
        if self.view is not None and (self.view.numbers or self.view.kind is not self.kind):
            colon = ":" if self.view.numbers else f": {self.view.sentence}"
            lines.append(f"  {self.viewed_by}, which would say '{self.view.kind.value}'{colon}")
            lines += [f"    {number.label or 'all'}: {number.text}, n = {number.n}" for number in self.view.numbers]
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as `pollscope claims --json` prints it."""
        return {
            "claim": self.claim.id,
            "row": None if self.claim.source == OWN else self.claim.row,
            "paper": self.claim.paper,
            "statement": self.claim.statement,
            "source": self.claim.source,
            "metric": self.claim.metric,
            "run": self.run_id,
            "verdict": self.kind.value,
            "sentence": self.finding.sentence,
            "numbers": [number.to_json() for number in self.finding.numbers],
            "trials": self.finding.trials,
            "flagged": self.finding.flagged,
            "why": self.why,
            "differs": self.differs,
            "modelled": self.modelled,
            "view": self.view
            and {
                "by": self.viewed_by,
                "verdict": self.view.kind.value,
                "numbers": [number.to_json() for number in self.view.numbers],
            },
        }


def with_views(verdicts: Sequence[Verdict], others: Sequence[Verdict], seen: str) -> list[Verdict]:
    """Return the verdicts, each with the numbers of the same claim by another view."""
    found = {other.claim.id: other.finding for other in others}
    return [replace(verdict, view=found.get(verdict.claim.id), viewed_by=seen) for verdict in verdicts]
