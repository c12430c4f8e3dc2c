# SPDX-License-Identifier: BSD-3-Clause
"""Define a figure of a paper: its row, its paper, its title, and how it is drawn (data/figures.yaml)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

from matplotlib.figure import Figure
from ruamel.yaml import YAML

from pollscope.analysis.figures.data import FigureData, figure_data
from pollscope.analysis.figures.sweep_lines import MOST_LINES
from pollscope.base.paths import data_folder
from pollscope.store.run_folder import RunFolder

# Keys of data/figures.yaml that name a function, "module:name" in this package.
_FUNCTIONS = ("draw", "caption", "rows")


@dataclass(frozen=True)
class PaperFigure:
    """Hold how one row is drawn; the head of data/figures.yaml explains the fields."""

    row: str
    paper: str | None
    title: str
    draw: Callable[[FigureData], Figure]
    leaves_out_interruptions: bool | None = False
    pools_trials: bool = False
    every_pair: bool = False
    along: tuple[str, ...] = ()
    beside: tuple[str, ...] | None = None

    def data(self, run: RunFolder) -> FigureData:
        away, pools, pairs = self.leaves_out_interruptions, self.pools_trials, self.every_pair
        return figure_data(self.row, run, away, pools_trials=pools, every_pair=pairs)

    @property
    def heading(self) -> str:
        return self.title if self.paper is None else f"{self.row}. {self.title}"

    def asked(self, run: RunFolder) -> str:
        """Return the options of `pollscope figures` that draw the first panel for a run in any width."""
        panel = (getattr(self.draw, "keywords", {}).get("panels") or [{}])[0]
        along = panel.get("along", {})
        along = along if isinstance(along, Mapping) else along[0]
        x = along.get("factor") or next(iter(self.along), "")
        others = {name: levels for name, levels in planned_levels(run).items() if levels > 1 and name != x}
        by = ",".join(others) if math.prod(others.values()) <= MOST_LINES else ""
        words = {"x": x, "y": panel.get("metric"), "by": by}
        words["log"] = "x" if along.get("ticks") == "log2" else ""
        return " ".join(f"--{name} {word}" for name, word in words.items() if word)

    def misfit(self, swept: Mapping[str, int]) -> str:
        """Return why the figure cannot show a run whose factors have so many levels; empty if it can."""
        if self.along and not set(self.along) & swept.keys():
            return f"it shows {' or '.join(self.along)}, which this run does not have as a factor"
        strange = [
            name for name, levels in swept.items() if levels > 1 and name not in (*self.along, *(self.beside or ()))
        ]
        if self.beside is not None and strange:
            return f"it has no place for the factor {strange[0]}, so its lines would mix levels"
        return ""


@dataclass(frozen=True)
class TableFigure:
    """How a row is drawn from a paper's table instead of a run; `rows` returns its numbers."""

    row: str
    paper: str
    title: str
    draw: Callable[[], Figure]
    caption: Callable[[], str]
    rows: Callable[[], Sequence[Mapping[str, Any]]] = tuple


def planned_levels(run: RunFolder) -> dict[str, int]:
    """Return the number of levels of each factor of a run's spec."""
    return {name: len(levels) for name, levels in run.meta.get("spec", {}).get("factors", {}).items()}


@cache
def figure_of(row: str) -> PaperFigure | TableFigure:
    """Return the figure of a row.

    Its keys in data/figures.yaml are those of `PaperFigure`, or with `caption` and `rows` those of `TableFigure`;
    `options` are further arguments of its function.
    """
    keys = dict(_rows()[row])
    options = keys.pop("options", {})
    for name in set(_FUNCTIONS) & keys.keys():
        module, _, function = keys[name].partition(":")
        keys[name] = getattr(import_module(f"pollscope.analysis.figures.{module}"), function)
    keys["draw"] = partial(keys["draw"], **options) if options else keys["draw"]
    if "caption" in keys:
        return TableFigure(row, **keys)
    keys |= {name: tuple(keys[name]) for name in ("along", "beside") if name in keys}
    return PaperFigure(row, keys.pop("paper", None), **keys)


@cache
def _rows() -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = YAML(typ="safe").load(data_folder("data") / "figures.yaml")["figures"]
    return rows
