# SPDX-License-Identifier: BSD-3-Clause
"""The points of a spec: every combination of its levels, zipped factors moving together."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from pollscope.base.knob_values import KNOB_PREFIX
from pollscope.base.units import (
    RATE,
    SHARE,
    SIZE,
    TIME,
    Dimension,
    human,
    human_ns,
    human_number,
    human_share,
    human_size,
)
from pollscope.spec import expressions
from pollscope.spec.model import Parameters, Spec, dimension_of

# Of a factor, in base units.
Level = bool | int | float | str | None


@dataclass(frozen=True)
class Point:
    """One combination of factor levels.

    Attributes:
        id: `queues=4,load_of_max=0.25`; unique in a plan.
        factors: name -> level in base units.
        params: fixed parameters and the levels of factors; levels of knobs are only in `factors`.
    """

    id: str
    factors: Mapping[str, Level]
    params: Parameters

    def values(self) -> dict[str, Level]:
        """Return parameters and levels of knobs by name, as JSON types: a record's `params`."""
        return {**self.params.model_dump(mode="json"), **_knobs(self.factors)}


def all_points(spec: Spec) -> Iterator[Point]:
    """Yield each combination of levels in the spec's order, including those that the spec drops."""
    names = list(spec.levels)
    for combination in product(*_axes(spec)):
        levels = {name: level for group in combination for name, level in group}
        yield point_of(spec, {name: levels[name] for name in names})


def number_of_points(spec: Spec) -> int:
    """Return the number of points of all_points()."""
    return prod(map(len, _axes(spec)))


def point_of(spec: Spec, factors: Mapping[str, Level]) -> Point:
    """Return the point with these levels."""
    own = {name: level for name, level in factors.items() if name not in _knobs(factors)}
    return Point(point_id(factors), factors, spec.parameters.model_copy(update=own))


def _knobs(factors: Mapping[str, Level]) -> dict[str, Level]:
    return {name: level for name, level in factors.items() if name.startswith(KNOB_PREFIX)}


def point_id(factors: Mapping[str, object]) -> str:
    """Return the name of a point: `queues=4,load_of_max=0.25`; `all` when nothing is swept."""
    return ",".join(f"{name}={level}" for name, level in factors.items()) or "all"


def point_text(factors: Mapping[str, Level]) -> str:
    """Return the name of a point for a reader: `queues=4,load_of_max=25 %,wait_after=1 ms`."""
    return point_id({name: level_text(name, level) for name, level in factors.items()})


# Dimension -> a level for a reader; with 6 digits, so that neighbouring levels differ.
_TEXTS: Mapping[Dimension | None, Callable[[float], str]] = {
    SHARE: lambda share: human_share(share, 6),
    RATE: lambda pps: human(pps, "pps", 6),
    TIME: lambda ns: human_ns(ns, digits=6),
    SIZE: lambda size: human(size, "B", 6) if size % 1000 == 0 else human_size(size, 6),
}


def level_text(factor: str, level: Level) -> str:
    """Return a level for a reader: shares in percent; rates, times and sizes with a prefix."""
    if not isinstance(level, int | float):
        return str(level)
    dimension = dimension_of(factor)
    if dimension in _TEXTS:
        return _TEXTS[dimension](level)
    return human_number(level, 6) if isinstance(level, float) else str(level)


def dropped(spec: Spec, point: Point) -> str | None:
    """Return the reason of the constraint that drops a point; None if none does."""
    for constraint in spec.constraints:
        if expressions.parse(constraint.drop)(point.values()):
            return constraint.reason
    return None


def _axes(spec: Spec) -> list[list[tuple[tuple[str, Any], ...]]]:
    swept, zipped = spec.levels, {name for group in spec.zip for name in group}
    groups = list(spec.zip) + [(name,) for name in swept if name not in zipped]
    groups.sort(key=lambda group: list(swept).index(group[0]))
    return [
        [tuple(zip(group, levels, strict=True)) for levels in zip(*(swept[name] for name in group), strict=True)]
        for group in groups
    ]
