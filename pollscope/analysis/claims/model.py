# SPDX-License-Identifier: BSD-3-Clause
"""Read the claims of data/claims/*.yaml strictly, and those that a spec states."""

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from pollscope.base import document as documents
from pollscope.base.errors import UsageError
from pollscope.base.fields import OneOf, StrictModel
from pollscope.base.knob_values import KNOB_PREFIX
from pollscope.base.names import KNOBS, papers
from pollscope.base.paths import data_folder
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.spec.model import Parameters
from pollscope.spec.predicates import LOAD, Need, OwnClaim, Predicate, Where
from pollscope.stats.tolerance import bounds_of

# The source of a claim that a user's spec states.
OWN = "this spec"
# Kinds of predicates on a ratio, whose effect is its distance from 1.
OF_RATIO = ("ratio", "average_ratio", "ratio_of_ratios", "growth")


class Claim(StrictModel):
    """Hold one statement of a paper, of the sanity check, or of a spec (`row` is then the spec's name)."""

    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*\.[a-z0-9-]+$")
    row: str
    statement: str = Field(min_length=1)
    source: str = Field(min_length=1)
    metric: str
    where: Where = Field(default={})
    needs: tuple[Need, ...] = Field(default=(), strict=False, description="judged only where a real NIC has these")
    needs_load: bool = Field(default=False, description="leave out points that do not stand for their load")
    stated: str | None = Field(
        default=None, description="what the paper prints; the bounds of the predicate follow from it"
    )
    predicate: Predicate
    paper: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _bounds_of_what_is_stated(cls, fields: Any) -> Any:
        """Give the predicate the bounds that follow from what is stated (pollscope.stats.tolerance)."""
        if not isinstance(fields, Mapping):
            return fields
        stated, predicate = fields.get("stated"), fields.get("predicate")
        if not (isinstance(stated, str) and isinstance(predicate, Mapping)):
            return fields
        if not {"low", "high"}.isdisjoint(predicate):
            raise ValueError("'stated' gives the bounds, so the predicate has no low and no high")
        low, high = bounds_of(stated, predicate.get("kind") in OF_RATIO)
        bounds = {name: end for name, end in (("low", low), ("high", high)) if end is not None}
        return {**fields, "predicate": {**predicate, **bounds}}

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        for metric in (self.metric, self.beside):
            if metric is not None and metric not in metric_dictionary().metrics:
                raise ValueError(f"no metric is called '{metric}'")
        known = {*Parameters.model_fields, LOAD, *(f"{KNOB_PREFIX}{name}" for name in KNOBS)}
        factors = {*self.where, *(getattr(self.predicate, key, LOAD) for key in ("factor", "across"))}
        if not factors <= known:
            raise ValueError(f"no parameter is called '{sorted(factors - known)[0]}'")
        if not self.id.startswith(f"{self.row}."):
            raise ValueError(f"the id '{self.id}' does not begin with the row '{self.row}.'")
        return self

    @property
    def beside(self) -> str | None:
        """Return the second metric that the predicate needs from the same trials."""
        return getattr(self.predicate, "beside", None)


def own_claim(spec_name: str, stated: OwnClaim) -> Claim:
    """Return a claim for a statement of a spec."""
    parts = {name: getattr(stated, name) for name in OwnClaim.model_fields if name != "id"}
    return Claim(id=f"{spec_name}.{stated.id}", row=spec_name, source=OWN, **parts)


class ClaimFile(StrictModel):
    """Hold one file of claims."""

    paper: Annotated[str, OneOf(papers)] | None
    claims: list[Claim]


def parse_claims(text: str, name: str) -> list[Claim]:
    """Read the claims that runs are judged by from YAML text.

    Raises:
        UsageError: the first thing that is wrong, with file, line and key.
    """
    document = documents.parse(text, name)
    try:
        file = ClaimFile.model_validate(document.data)
    except ValidationError as error:
        raise _one_line(document, error) from None
    identifiers = [claim.id for claim in file.claims]
    twice = {identifier for identifier in identifiers if identifiers.count(identifier) > 1}
    if twice:
        raise UsageError(f"the claim '{min(twice)}' is listed twice", name)
    return [claim.model_copy(update={"paper": file.paper}) for claim in file.claims]


def _one_line(document: documents.Document, error: ValidationError) -> UsageError:
    # A value that fits none of several types is reported once per type; the deepest place says most.
    first: Mapping[str, Any] = max(error.errors(), key=lambda each: len(each["loc"]))
    path = document.locate(tuple(first["loc"]))
    place = f"{document.place(path)}: {'.'.join(str(part) for part in path)}"
    missing = f" '{first['loc'][-1]}'" if first["type"] in ("missing", "extra_forbidden") else ""
    return UsageError(first["msg"].removeprefix("Value error, ") + missing, place, "see docs/validity.md")


@cache
def load_claims() -> tuple[Claim, ...]:
    """Return all claims that ship with pollscope (data/claims).

    Raises:
        UsageError: a file is wrong.
    """
    return tuple(claim for file in _files() for claim in _claims_in(file))


def claims_of(rows: Collection[str]) -> list[Claim]:
    """Return the shipped claims of some rows. Files that name none of them are not parsed, because parsing is slow.

    Raises:
        UsageError: a file is wrong.
    """
    files = [file for file in _files() if any(row in file.read_text(encoding="utf-8") for row in rows)]
    return [claim for file in files for claim in _claims_in(file) if claim.row in rows]


@cache
def _claims_in(file: Path) -> list[Claim]:
    return parse_claims(file.read_text(encoding="utf-8"), str(file))


def _files() -> list[Path]:
    return sorted((data_folder("data") / "claims").glob("*.yaml"))
