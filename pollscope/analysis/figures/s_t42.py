# SPDX-License-Identifier: BSD-3-Clause
"""S-T4.2: frequency of a regular core beside spinning cores (SoCC'19 section 4.2), as a table."""

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData, short_name
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.style import GRID, INK, MUTED, new_figure
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues

_GHZ = 1e-9
_LINE_INCH = 0.24
PLACES = (0.0, 0.2, 0.36, 0.52, 0.76)  # left ends of the columns
_REASON_CHARACTERS = 128


def draw(data: FigureData) -> Figure:
    """A line for each number of spinning cores that the paper or the run has."""
    paper = stated("socc19", "S-T4.2")["frequency_hz"]
    frequency, rate = _by_cores(data, "corunner_frequency_hz"), _by_cores(data, "corunner_rate_running_hz")
    lines = [
        [f"{cores}", *_paper(paper, cores), _frequency(frequency, cores), _rate(rate, cores)]
        for cores in sorted({*paper, *frequency, *rate})
    ]
    reason = "" if frequency else f"Frequency absent, because {data.absence('corunner_frequency_hz')}"
    notes = textwrap.wrap(reason, _REASON_CHARACTERS)
    figure = new_figure(_LINE_INCH * (len(lines) + 2 + 0.8 * len(notes)))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(len(lines) + 1.2 + 0.8 * len(notes), -0.6)
    _head(axes)
    for number, line in enumerate(lines, 1):
        _line(axes, number, line, INK)
    for number, text in enumerate(notes):
        axes.text(0, len(lines) + 1 + 0.8 * number, text, va="center", fontsize=7.5, color=MUTED)
    return figure


def _head(axes: Axes) -> None:
    paper = f"{short_name('socc19')} (GHz)"
    _line(axes, 0, ["Spinning cores", paper, "relative", "Here (GHz, relative)", "Rate here, relative"], MUTED)
    axes.axhline(0.5, color=GRID, lw=0.8)


def _line(axes: Axes, number: int, cells: list[str], colour: str) -> None:
    for place, text in zip(PLACES, cells, strict=True):
        axes.text(place, number, text, va="center", fontsize=8, color=colour)


# Samples beside spinning cores, and those without them that they are compared with, if there are any.
Pair = tuple[PointValues, PointValues | None]


def _by_cores(data: FigureData, metric: str) -> dict[int, Pair]:
    """Spinning cores -> what was measured beside them. They are the DUT's: the same cores left idle are none."""
    found = data.by_point(metric, "cores", "dut_core")
    if not found:
        return _of_corunners(data, metric)
    by_core = {(each.levels["dut_core"], int(each.levels["cores"])): each for each in found}
    idle = {cores: each for (core, cores), each in by_core.items() if core == "idle"}
    spinning = {cores: (each, idle.get(cores)) for (core, cores), each in by_core.items() if core == "dut"}
    none = {0: (idle[min(idle)], idle[min(idle)])} if idle else {}
    return {**none, **spinning}


def _of_corunners(data: FigureData, metric: str) -> dict[int, Pair]:
    """Return the pairs of a run whose spinning cores are no DPDK program but a co-runner."""
    found = {int(each.levels["spinning_cores"]): each for each in data.by_point(metric, "spinning_cores")}
    return {cores: (each, found.get(0)) for cores, each in found.items()}


def _paper(paper: dict[int, float], cores: int) -> tuple[str, str]:
    """Return the value that the paper states, and its ratio to the value without spinning cores."""
    return (f"{paper[cores] * _GHZ:.2f}", f"{paper[cores] / paper[0]:.3f}") if cores in paper else ("-", "-")


def _relative(found: dict[int, Pair], cores: int) -> str:
    """A level's mean over that without spinning cores, with its interval where there is one."""
    beside, alone = found[cores]
    if alone is None:
        return "-"
    ratio = beside.over(alone)
    return f"{ratio.value:.3f}" + (f" ({ratio.low:.3f} to {ratio.high:.3f})" if cores and ratio.has_interval else "")


def _frequency(found: dict[int, Pair], cores: int) -> str:
    if not found:
        return "absent"
    return f"{found[cores][0].estimate.value * _GHZ:.2f}, {_relative(found, cores)}" if cores in found else "left out"


def _rate(found: dict[int, Pair], cores: int) -> str:
    return _relative(found, cores) if cores in found else "left out"


FIGURE = PaperFigure(
    "S-T4.2",
    "socc19",
    "Frequency of a core that multiplies matrices, by number of spinning cores",
    draw,
    along=("dut_core", "spinning_cores"),
    beside=("cores", "queues"),
    leaves_out_interruptions=True,
)
