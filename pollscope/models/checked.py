# SPDX-License-Identifier: BSD-3-Clause
"""Refuse values that a model cannot compute with: arguments that do not fit the types below."""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar, cast, dataclass_transform

from pydantic import ConfigDict, Field, ValidationError, validate_call
from pydantic.dataclasses import dataclass

from pollscope.base.errors import UsageError
from pollscope.base.units import human_number

NS_PER_S = 1e9
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Whole = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
_STRICT = ConfigDict(strict=True, arbitrary_types_allowed=True)
_Kind = TypeVar("_Kind", bound=type)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@dataclass_transform(frozen_default=True)
def model(kind: _Kind) -> _Kind:
    """Make a frozen dataclass that refuses values which do not fit its fields, with a UsageError."""
    made: Any = dataclass(kind, frozen=True, config=_STRICT)
    made.__init__ = _naming(made.__init__, kind.__name__, list(inspect.signature(made).parameters))
    return cast(_Kind, made)


def checked(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Make a function that refuses arguments which do not fit its types, with a UsageError."""
    names = list(inspect.signature(function).parameters)
    return _naming(validate_call(config=_STRICT)(function), function.__name__, names)


def _naming(call: Callable[_Arguments, _Result], name: str, names: Sequence[str]) -> Callable[_Arguments, _Result]:
    @wraps(call)
    def named(*given: _Arguments.args, **by_name: _Arguments.kwargs) -> _Result:
        try:
            return call(*given, **by_name)
        except ValidationError as error:
            first = error.errors()[0]
            argument, *places = first["loc"]
            where = names[argument] if isinstance(argument, int) else argument
            where += "".join(f"[{place}]" for place in places)
            raise UsageError(f"is {first['input']}: {first['msg'].lower()}", f"{name}: {where}") from None

    return named


def at_least(model: str, least: float, **values: float) -> None:
    """Refuse a value below another one.

    Raises:
        UsageError: names the model, the value and what is allowed.
    """
    for name, value in values.items():
        if value < least:
            raise UsageError(f"is {value}, allowed is a number from {human_number(least)} on", f"{model}: {name}")


def stable(model: str, utilisation: float) -> float:
    """Return the utilisation if a queue with it has a steady state.

    Raises:
        UsageError: it has none: more arrives than can be served.
    """
    if utilisation >= 1:
        raise UsageError(
            f"is {human_number(utilisation, 6)}, allowed is below 1",
            f"{model}: utilisation",
            "lower the rate or the service time",
        )
    return utilisation
