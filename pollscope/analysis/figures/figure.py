# SPDX-License-Identifier: BSD-3-Clause
"""What a figure of a paper is: its row, its paper, its title, and how it is drawn."""

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from pollscope.analysis.figures.data import FigureData


@dataclass(frozen=True)
class PaperFigure:
    """How one paper row is drawn.

    Attributes:
        row: the paper row.
        paper: the name of its paper; None for a question of one's own.
        title: below the figure.
        draw: makes the figure from the data of a run.
        leaves_out_interruptions: whether the metrics drawn leave out time in which the DUT's CPU did other work.
    """

    row: str
    paper: str | None
    title: str
    draw: Callable[[FigureData], Figure]
    leaves_out_interruptions: bool = False


@dataclass(frozen=True)
class TableFigure:
    """How a row is drawn that needs no run, because its numbers are a paper's table."""

    row: str
    paper: str
    title: str
    draw: Callable[[], Figure]
    caption: Callable[[], str]
