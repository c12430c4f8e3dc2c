# SPDX-License-Identifier: BSD-3-Clause
"""Draw core scaling from tables: the causes of less than proportional growth, and the fitted laws."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pollscope.analysis.figures.data import MILLION
from pollscope.analysis.figures.style import INK, LINES, MUTED, PAPER, level_axis, new_figure
from pollscope.analysis.scaling import PARTS
from pollscope.base.units import human_number
from pollscope.stats.scaling_laws import ScalingLaw

NAMES = {
    "useful": "useful share of cycles",
    "cycles": "cycles per useful packet",
    "frequency": "frequency",
    "unexplained": "not in these counters",
}


def draw_contributions(found: pd.DataFrame) -> Figure:
    """Draw analysis.scaling.contributions(): gains above 0 and losses below it; dots are their sums."""
    figure = new_figure(2.9)
    axes = figure.subplots()
    places = np.arange(len(found))
    above, below = np.zeros(len(found)), np.zeros(len(found))
    for part, colour in zip(PARTS, LINES, strict=False):
        heights = 100 * found[f"{part}_contribution"].to_numpy()
        axes.bar(
            places, heights, bottom=np.where(heights >= 0, above, below), width=0.6, color=colour, label=NAMES[part]
        )
        above, below = above + np.maximum(0, heights), below + np.minimum(0, heights)
    sums = 100 * (found["efficiency"].to_numpy() - 1)
    axes.plot(places, sums, "o", ms=4.2, mfc=PAPER, mec=INK, label="rate per core against one core")
    axes.axhline(0, color=INK, lw=0.8)
    axes.set_xticks(places, [human_number(cores, 6) for cores in found["cores"]])
    axes.set_xlabel("Cores")
    axes.set_ylabel("Rate per core against one core (%)")
    figure.legend(loc="outside upper left", ncols=3)
    return figure


def draw_laws(points: pd.DataFrame, laws: Mapping[str, ScalingLaw]) -> Figure:
    """Draw analysis.scaling.points() with the laws that could be fitted; points at a limit are hollow."""
    figure = new_figure(2.9)
    axes = figure.subplots()
    for rank, (name, law) in enumerate(laws.items()):
        cores, colour = np.linspace(points["cores"].min(), points["cores"].max(), 200), LINES[rank + 1]
        axes.plot(cores, [law.rate(each) / MILLION for each in cores], color=colour, label=name)
        if law.peak_cores is not None and law.peak_cores.value <= cores[-1]:
            axes.axvline(law.peak_cores.value, color=colour, lw=0.8, ls=(0, (3, 3)))
    for censored, words in ((False, "rate"), (True, "at the limit")):
        shown = points[points["censored"] == censored]
        if not shown.empty:
            face = PAPER if censored else LINES[0]
            rates = shown["rate_pps"] / MILLION
            axes.plot(shown["cores"], rates, "o", ms=4.2, mfc=face, mec=LINES[0], label=words, zorder=4)
    first = points.iloc[0]
    ideal = first["rate_pps"] / first["cores"] * points["cores"] / MILLION
    axes.plot(points["cores"], ideal, color=MUTED, lw=0.8, ls=(0, (2, 2)), label="in proportion to the first")
    axes.set_ylim(0, 1.25 * points["rate_pps"].max() / MILLION)
    level_axis(axes, sorted(set(points["cores"])))
    axes.set_xlabel("Cores")
    axes.set_ylabel("Rate (Mpps)")
    figure.legend(loc="outside upper left", ncols=3)
    return figure
