# SPDX-License-Identifier: BSD-3-Clause
"""Draw the lines of a panel over a factor: the one path by which figures show samples along an axis."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from pollscope.analysis.figures.style import DASHES, absent_panel, interval_line, level_axis, log2_axis, log_y_axis
from pollscope.analysis.point_values import Level, PointValues


@dataclass(frozen=True)
class Along:
    """Describe an x axis: its factor, its label, the value of one unit, and how it gets its ticks."""

    factor: str
    label: str = ""
    unit: float = 1.0
    ticks: Callable[[Axes, Sequence[float]], None] = level_axis

    def place(self, sample: PointValues) -> float:
        """Return where a sample lies; the level `4 ways` lies at 4."""
        return float(str(sample.levels[self.factor]).partition(" ")[0]) * (1 / self.unit)

    def places(self, found: Iterable[PointValues]) -> list[float]:
        """Return the distinct places of samples that have the factor, rising."""
        return sorted({self.place(each) for each in found if self.factor in each.levels})


@dataclass(frozen=True)
class Up:
    """Describe a y axis: its label, the value of one unit, whether it is logarithmic, else whether it begins at 0."""

    label: str = ""
    unit: float = 1.0
    log: bool = False
    zero: bool = True


@dataclass(frozen=True)
class Line:
    """Hold a line of a panel.

    Attributes:
        name: for the legend.
        found: samples in any order; without samples the line is not drawn.
        rank: colour, marker and dashes; None: the place among the lines of the panel.
        dashes: None: those of the rank.
        aside: how far right of their places the marks stand.
        base: sample that all others are divided by; None: they are drawn as measured.
        marker: instead of that of the rank.
    """

    name: str
    found: Sequence[PointValues]
    rank: int | None = None
    dashes: Any = "-"
    aside: float = 0.0
    base: PointValues | None = None
    marker: str = ""


QUEUES = Along("queues", "RX queues polled by the core", ticks=log2_axis)
LOAD_MPPS = Along("load_pps", "Offered load (Mpps)", 1e6)
MPPS, MICROSECONDS = 1e6, 1e3  # in base units


def lines_by(
    factor: str, names: Mapping[Any, str], found: Sequence[PointValues], default: Level | None = None, dashes: Any = "-"
) -> list[Line]:
    """Return a line for each named level of a factor; points without the factor belong to `default`."""
    return [
        Line(name, [each for each in found if each.levels.get(factor, default) == level], dashes=dashes)
        for level, name in names.items()
    ]


def having(found: Iterable[PointValues], **levels: object) -> list[PointValues]:
    """Return the samples that have these levels."""
    return [each for each in found if levels.items() <= each.levels.items()]


def draw_lines(axes: Axes, lines: Sequence[Line], along: Along, unit: float = 1.0) -> list[float]:
    """Draw lines in a unit; return the places along x that they have, rising."""
    drawn: list[float] = []
    for place, line in enumerate(lines):
        found = sorted((each for each in line.found if along.factor in each.levels), key=along.place)
        if found:
            x = [along.place(each) + line.aside for each in found]
            y = [each.relative_to(line.base) if line.base else each.estimate.scaled(1 / unit) for each in found]
            rank = place if line.rank is None else line.rank
            dashes = DASHES[rank % len(DASHES)] if line.dashes is None else line.dashes
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
