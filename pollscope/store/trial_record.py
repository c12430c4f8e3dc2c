# SPDX-License-Identifier: BSD-3-Clause
"""The record of one trial, and that of one host-state check: lines of a run folder (docs/internals/store-format.md)."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from pollscope.base.errors import UsageError
from pollscope.base.names import Status, TrialKind
from pollscope.spec.model import Parameters

# As a node, a co-runner or a collector sent it.
_Said = dict[str, Any]
_Kind = TypeVar("_Kind", bound=BaseModel)


def _is_number(annotation: object) -> bool:
    """Return whether a parameter's type allows numbers only."""
    if annotation in (int, float):
        return True
    if get_origin(annotation) is Literal:
        return False
    kinds = [
        each for each in get_args(annotation) if (isinstance(each, type) and each is not type(None)) or get_args(each)
    ]
    return bool(kinds) and all(map(_is_number, kinds))


# Levels of these factors are numbers, whatever a spec writes.
_NUMBERS = frozenset(name for name, field in Parameters.model_fields.items() if _is_number(field.annotation))


def checked(kind: type[_Kind], line: Mapping[str, Any], place: str) -> _Kind:
    """Return a line as a record.

    Raises:
        UsageError: it is not such a record.
    """
    try:
        return kind.model_validate(dict(line))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UsageError(f"{key}: {first['msg']}", place) from None


class CheckRecord(BaseModel):
    """A host-state check: its number, and what each host measured."""

    model_config = ConfigDict(extra="ignore", strict=True)

    host_check: int
    why: str = ""
    block: str = ""
    pair: str | None = None
    started_utc: str | None = None
    started_monotonic_ns: int | None = None
    knobs: _Said | None = None
    hosts: list[_Said] = []


class TrialRecord(BaseModel):
    """A part that is None is not in the line. A testbed without a node has `result` at most (node-protocol.md)."""

    model_config = ConfigDict(extra="ignore", strict=True)

    trial: str
    point: str
    repeat: int
    kind: TrialKind
    factors: _Said
    params: _Said = {}
    status: Status = "ok"
    attempt: int = 0
    testbed: str
    modelled: bool
    flags: Sequence[Mapping[str, object]] = ()
    pair: str | None = None
    block: str | None = None
    started_utc: str | None = None
    started_monotonic_ns: int | None = None
    maximum_pps: float | None = None
    config: _Said | None = None
    start: _Said | None = None
    result: _Said | None = None
    calibration: _Said | None = None
    floor: _Said | None = None
    host: _Said | None = None
    corunner: _Said | None = None
    collectors: _Said | None = None
    phases: list[_Said] | None = None
    samples: str | None = None
    plausibility: list[_Said] | None = None
    search: _Said | None = None
    reason: str | None = None
    lost: bool | None = None
    final: bool | None = None
    host_state: int | None = None

    @field_validator("factors")
    @classmethod
    def _check_levels(cls, factors: _Said) -> _Said:
        for name in _NUMBERS & factors.keys():
            level = factors[name]
            if not isinstance(level, int | float) or abs(level) > sys.float_info.max:
                raise ValueError(f"{name} is {str(level)[:40]!r}, not a number")
        return factors

    @classmethod
    def from_json(cls, line: Mapping[str, Any], place: str) -> Self:
        """Read a line; ignore keys that a later version may have added.

        Raises:
            UsageError: it is not the record of a trial.
        """
        return checked(cls, line, f"{place}: trial {line.get('trial')}")

    def to_json(self) -> dict[str, Any]:
        """Return the line, with histograms as the node wrote them."""
        return {name: value for name, value in self if value is not None}

    def having(self, **parts: Any) -> Self:
        """Return a copy with these parts replaced."""
        return self.model_copy(update=parts)

    def failed(self, reason: str, **parts: Any) -> Self:
        """Return a failed copy."""
        return self.having(status="failed", reason=reason, **parts)
