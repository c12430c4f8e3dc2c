# SPDX-License-Identifier: BSD-3-Clause
"""Draw the lines of a panel over a factor: the one path by which figures show samples along an axis."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from pollscope.analysis.figures.style import (
    DASHES,
    absent_panel,
    interval_line,
    level_axis,
    log2_axis,
    log_y_axis,
    mean_line,
)
from pollscope.analysis.point_values import PointValues


@dataclass(frozen=True)
class Along:
    """Describe an x axis: its factor, its label, the value of one unit, and how it gets its ticks.

    With `of` (levels of a point -> value), points lie at these values; lines follow the factor, if there is one.
    """

    factor: str
    label: str = ""
    unit: float = 1.0
    ticks: Callable[[Axes, Sequence[float]], object] = level_axis
    of: Mapping[frozenset[tuple[str, Any]], float] | None = None

    def order(self, sample: PointValues) -> float:
        """Return the level of a sample as a number; the level `4 ways` is 4."""
        if not self.factor:
            return self.place(sample)
        return float(str(sample.levels[self.factor]).partition(" ")[0])

    def place(self, sample: PointValues) -> float:
        return (self.order(sample) if self.of is None else self.of[key_of(sample)]) * (1 / self.unit)

    def having(self, found: Iterable[PointValues]) -> list[PointValues]:
        """Return the samples that have a place, by rising level."""
        there = [each for each in found if not self.factor or self.factor in each.levels]
        there = there if self.of is None else [each for each in there if key_of(each) in self.of]
        return sorted(there, key=self.order)

    def places(self, found: Iterable[PointValues]) -> list[float]:
        return sorted({self.place(each) for each in self.having(found)})


@dataclass(frozen=True)
class Up:
    """Describe a y axis: its label, the value of one unit, whether it is logarithmic, else whether it begins at 0."""

    label: str = ""
    unit: float = 1.0
    log: bool = False
    zero: bool = True


@dataclass(frozen=True)
class Line:
    """Hold a line of a panel; without samples it is not drawn.

    Its rank gives colour, marker and dashes (None: those of the rank). All are divided by the sample `base`, and the
    marks stand `aside` of their places.
    """

    name: str
    found: Sequence[PointValues]
    rank: int | None = None
    dashes: Any = "-"
    aside: float = 0.0
    base: PointValues | None = None
    marker: str = ""


QUEUES = Along("queues", "RX queues polled by the core", ticks=log2_axis)
MPPS = 1e6  # in base units


def key_of(sample: PointValues) -> frozenset[tuple[str, Any]]:
    """Return what identifies a point: its levels."""
    return frozenset(sample.levels.items())


def having(found: Iterable[PointValues], **levels: object) -> list[PointValues]:
    """Return the samples that have these levels."""
    return [each for each in found if levels.items() <= each.levels.items()]


def draw_lines(axes: Axes, lines: Sequence[Line], along: Along, unit: float = 1.0) -> list[float]:
    """Draw lines in a unit; return the places along x that they have, rising."""
    drawn: list[float] = []
    for place, line in enumerate(lines):
        if found := along.having(line.found):
            x = [along.place(each) + line.aside for each in found]
            rank = place if line.rank is None else line.rank
            dashes = DASHES[rank % len(DASHES)] if line.dashes is None else line.dashes
            if line.base is None:
                mean_line(axes, x, found, 1 / unit, rank, line.name, dashes, marker=line.marker)
            else:
                y = [each.relative_to(line.base) for each in found]
                interval_line(axes, x, y, rank, line.name, dashes, marker=line.marker)
            drawn += along.places(found)
    return sorted(set(drawn))


def set_axes(axes: Axes, along: Along, up: Up, places: Sequence[float]) -> None:
    """Label the axes, with ticks at the places along x."""
    along.ticks(axes, places)
    axes.set_xlabel(along.label)
    axes.set_ylabel(up.label)
    if up.log:
        log_y_axis(axes)
    elif up.zero:
        axes.set_ylim(bottom=0)


def draw_panel(
    axes: Axes,
    lines: Sequence[Line],
    along: Along,
    up: Up,
    absence: str,
    width: int = 40,
    also: Sequence[float] = (),
) -> bool:
    """Draw lines with their axes; if no line has a sample, write the reason in lines of `width` characters.

    Args:
        axes: of the panel.
        lines: in the order of their ranks.
        along: x axis.
        up: y axis.
        absence: why there is no sample.
        width: of the reason.
        also: places along x that have ticks without a sample.

    Returns:
        Whether a line was drawn.
    """
    places = draw_lines(axes, lines, along, up.unit)
    if not places:
        absent_panel(axes, absence, width)
        return False
    set_axes(axes, along, up, sorted({*places, *also}))
    return True
