# SPDX-License-Identifier: BSD-3-Clause
"""Give each mark of a drawing a title in the SVG, which browsers show when the pointer is over it."""

import re
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pollscope.base.units import human_number
from pollscope.stats.estimates import NO_INTERVAL, Estimate

# Line of marks -> what each of them is; style.interval_line fills it.
ESTIMATES: WeakKeyDictionary[Line2D, tuple[str, Sequence[Estimate]]] = WeakKeyDictionary()
USE = re.compile(r"<use ([^>]*)/>")


def name_marks(figure: Figure) -> dict[str, list[str]]:
    """Give each line of marks an id for the SVG; return id -> the text of each mark."""
    found = {}
    for panel, axes in enumerate(figure.axes):
        lines = [line for line in axes.get_lines() if line in ESTIMATES]
        for number, line in enumerate(lines):
            line.set_gid(f"marks-{panel}-{number}")
            found[f"marks-{panel}-{number}"] = _texts(axes, line)
    return found


def _texts(axes: Axes, line: Line2D) -> list[str]:
    name, estimates = ESTIMATES[line]
    title = axes.get_title(loc="left") or axes.get_title()
    # Panels above each other share an axis, which only the last of them labels.
    shared = axes.get_shared_x_axes().get_siblings(axes)
    along = next(filter(None, (each.get_xlabel() for each in shared)), "")
    up = next(filter(None, (each.get_ylabel() for each in axes.get_shared_y_axes().get_siblings(axes))), "")
    labelled = next((each for each in shared if each.get_xticklabels()), axes)
    ticks = zip(labelled.get_xticks(), (label.get_text() for label in labelled.get_xticklabels()), strict=False)
    words = {float(place): text for place, text in ticks if text}
    head = ", ".join(each for each in (title, name) if each)
    return [
        f"{head}{'; ' if head else ''}{along}: {words.get(x, human_number(x, 6))}; {up}: {_said(estimate)}"
        for x, estimate in zip(np.asarray(line.get_xdata(), float).tolist(), estimates, strict=True)
    ]


def _said(estimate: Estimate) -> str:
    value = human_number(estimate.value)
    if not estimate.has_interval:
        return f"{value}, {NO_INTERVAL} (n = {estimate.n})"
    return f"{value} (95 %: {human_number(estimate.low)} to {human_number(estimate.high)}; n = {estimate.n})"


def titled(svg: str, marks: dict[str, list[str]]) -> str:
    """Return the SVG with a title per mark; skip lines with marks outside the drawing."""
    for gid, texts in marks.items():
        begin = svg.find(f'<g id="{gid}">')
        if begin < 0:
            continue
        end = svg.find("<g id=", begin + 1)
        part = svg[begin : end if end > 0 else len(svg)]
        if len(USE.findall(part)) == len(texts):
            rest = iter(texts)
            new = USE.sub(lambda use: f"<use {use[1]}><title>{escape(next(rest))}</title></use>", part)  # noqa: B023
            svg = svg[:begin] + new + svg[begin + len(part) :]
    return svg
