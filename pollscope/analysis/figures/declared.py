# SPDX-License-Identifier: BSD-3-Clause
"""Draw a figure by its panels; the head of data/figures.yaml explains their keys."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import PurePath
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pollscope.analysis.figures import style
from pollscope.analysis.figures.data import FEEDS, FigureData, short_name
from pollscope.analysis.figures.panels import Along, Line, Up, draw_lines, key_of, set_axes
from pollscope.analysis.figures.predicted import draw_latency, draw_poll_rate
from pollscope.analysis.papers import stated
from pollscope.analysis.point_values import PointValues, groups, level_rank, levels_text
from pollscope.base.units import counted, human_number
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.spec.points import level_text

Levels = Mapping[str, Any]
Options = Mapping[str, Any]
Choice = tuple[str, Levels]  # words, and the levels that they stand for
MOST_UPRIGHT = 5  # levels whose labels fit side by side below a third of a figure
MOST_TICKS = 5  # of an axis with units


def _slanted(axes: Axes, places: Sequence[float]) -> None:
    style.log2_axis(axes, places)
    if len(places) > MOST_UPRIGHT:
        axes.tick_params(axis="x", labelrotation=45)


TICKS: Mapping[str, Callable[[Axes, Sequence[float]], None]] = {
    "levels": style.level_axis,
    "log2": style.log2_axis,
    "spread": style.spread_axis,
    "slanted": _slanted,
    "own": lambda axes, places: None,
}


@dataclass(frozen=True)
class _FigureSamples:
    """Hold the data of a figure; a point without a factor of `defaults` is at the level given there."""

    data: FigureData
    defaults: Levels

    def level(self, sample: PointValues, factor: str) -> Any:
        return sample.levels.get(factor, self.defaults.get(factor))

    def at(self, found: Iterable[PointValues], levels: Levels) -> list[PointValues]:
        return [each for each in found if all(self.level(each, name) == level for name, level in levels.items())]

    def only(self, found: Sequence[PointValues], factor: str, choose: Callable[..., Any]) -> list[PointValues]:
        levels = [each.levels.get(factor, 0) for each in found]
        return [each for each, level in zip(found, levels, strict=True) if level == choose(levels)]

    def choices(
        self, found: Sequence[PointValues], by: str, names: Any = None, text: str = "", word: str = "", **_: Any
    ) -> list[Choice]:
        """Return the named levels of a factor, or those that the samples have, rising."""
        if names is not None:
            return [(name, {by: level}) for level, name in (FEEDS if names == "feeds" else names).items()]
        levels = {self.level(each, by) for each in found} - {None}
        return [(_words(by, level, text, word), {by: level}) for level in sorted(levels, key=level_rank)]


def _words(factor: str, level: Any, text: str, word: str) -> str:
    if level == "" or factor == "trace":
        return PurePath(level).stem
    if isinstance(level, str) or not (word or text):
        return level_text(factor, level)
    return counted(level, word) if word else text.format(human_number(level, 6))


def draw(
    data: FigureData,
    *,
    height: Any,
    panels: Sequence[Options],
    facets: Sequence[Options] = (),
    facets_inside: bool = False,
    columns: int | Mapping[int, int] = 0,
    share: bool = False,
    defaults: Levels | None = None,
) -> Figure:
    """Draw each panel for each choice of all facets, row by row."""
    points = _FigureSamples(data, defaults or {})
    facet_choices = [_facet(points, **facet) for facet in facets]
    cells = [(panel, each) for each in product(*facet_choices) for panel in panels]
    if facets_inside:
        cells = [(panel, each) for panel in panels for each in product(*facet_choices)]
    inner = len(facet_choices[-1]) if facets and (facets_inside or len(panels) == 1) else len(panels)
    wide = (columns.get(len(cells)) if isinstance(columns, Mapping) else columns) or inner
    rows = math.ceil(len(cells) / wide)
    height = height[rows] if isinstance(height, Mapping) else height
    figure = style.new_figure(height[0] + rows * height[1] if isinstance(height, Sequence) else height)
    grid = list(figure.subplots(rows, wide, squeeze=False).flat)
    for place, (axes, (panel, each)) in enumerate(zip(grid, cells, strict=False)):
        first = place - place % inner
        if share and place != first:
            axes.sharey(grid[first])
            axes.tick_params(labelleft=False)
        levels = {factor: level for _, chosen in each for factor, level in chosen.items()}
        _Panel(axes, points, levels, [words for words, _ in each], place == first).draw(**panel)
    for axes in grid[len(cells) :]:
        axes.set_visible(False)
    return figure


def _facet(
    points: _FigureSamples,
    of: str,
    by: str = "",
    ways: Sequence[Choice] = (),
    whole: bool = False,
    greatest: bool = False,
    among: str = "",
    **how: Any,
) -> list[Choice]:
    found = points.data.by_point(of)
    found = points.only(found, among, max) if among and found else found
    chosen = [each for each in ways or points.choices(found, by, **how) if whole or points.at(found, each[1])]
    return chosen[-1 if greatest else 0 :] or [("", {})]


@dataclass
class _Panel:
    """Draw one panel: at the levels of its facets, in their words; the first of its row has the label."""

    axes: Axes
    points: _FigureSamples
    levels: Levels
    words: Sequence[str]
    first: bool

    def draw(
        self,
        *,
        metric: str,
        along: Options | Sequence[Options],
        up: Options,
        title: str = "{}",
        lines: Sequence[Options] = ({},),
        compared: Options | None = None,
        swept: str = "",
        greatest: str = "",
        apart: float = 0.0,
        marks: Sequence[Options] = (),
        states: Sequence[Options] = (),
        least_top: float = 0.0,
        xlim: Sequence[float | None] = (),
        also: Sequence[float] | str = (),
        width: int = 40,
    ) -> None:
        """Draw the panel, or the reason why none of its lines has a sample."""
        found, data = self.points.data.by_point(metric), self.points.data
        words = self.words if found else [""] * len(self.words)
        title = title.format(*words, metric=metric_dictionary()[metric].title).strip(" ,:\n")
        self.axes.set_title(title or up["label"].partition(" (")[0])
        self.along = self._along(along, found)
        self.up = self._up(**up)
        if swept and not any(swept in each.levels for each in found):
            lines = ({},)
        self.levels = {**self.levels, **self._greatest(found, greatest)}
        self.lines: list[Line] = []
        for each in lines:
            self.lines += self._line(len(self.lines), **{"metric": metric, **each})
        if compared and not any(compared["by"] in {**self.levels, **each.get("at", {})} for each in lines):
            self.lines = self._compared(**compared) or self.lines
        everywhere = self.along.places(found)
        if apart and everywhere:
            self._spread(apart * (everywhere[-1] - everywhere[0] or 1.0))
        places = draw_lines(self.axes, self.lines, self.along, self.up.unit)
        if not places:
            style.absent_panel(self.axes, self._reason(found, metric, lines), width)
            return
        for mark in marks:
            MARKS[mark["mark"]](self, **{key: mark[key] for key in mark if key != "mark"})
        set_axes(self.axes, self.along, self.up, sorted({*places, *(everywhere if also == "run" else also)}))
        if up.get("amount"):
            style.amount_axis(self.axes.yaxis, metric_dictionary()[metric], MOST_TICKS)
        _extend(self.axes, least_top, xlim)
        for state in states:
            _state(self.axes, data.row, **state)

    def _spread(self, step: float) -> None:
        """Move the marks of lines with points aside, so that none hides another."""
        there = [line for line in self.lines if line.found]
        self.lines = [replace(line, aside=step * (rank - (len(there) - 1) / 2)) for rank, line in enumerate(there)]

    def _greatest(self, found: Sequence[PointValues], factor: str) -> Levels:
        """Return the greatest level of a factor in this panel; nothing without points or factor."""
        here = self.points.at(found, self.levels) if factor else []
        levels = [self.points.level(each, factor) for each in here]
        return {factor: max(levels, key=level_rank)} if levels else {}

    def _reason(self, found: Sequence[PointValues], metric: str, lines: Sequence[Options]) -> str:
        """Return why no line has a point."""
        base = next((each["base"] for each in lines if "level" in each.get("base", {}) and found), None)
        if base:
            return f"the run has no point with {levels_text({base['factor']: base['level']})}"
        held = {**self.levels, **(lines[0].get("at") or {})}
        return f"no trial with {levels_text(held)} is data" if found and held else self.points.data.absence(metric)

    def _along(self, along: Options | Sequence[Options], found: Sequence[PointValues]) -> Along:
        if isinstance(along, Mapping) and "kinds" in along:
            return self._kinds(found, along["kinds"])
        every = [along] if isinstance(along, Mapping) else along
        there = (each for each in every if any(each["factor"] in sample.levels for sample in found))
        how = dict(next(there, every[0]))
        ticks, metric = TICKS[how.pop("ticks", "levels")], how.pop("metric", None)
        of = {key_of(each): each.estimate.value for each in self.points.data.by_point(metric)} if metric else None
        return Along(**how, ticks=ticks, of=of)

    def _kinds(self, found: Sequence[PointValues], kinds: Sequence[tuple[str | None, Levels]]) -> Along:
        """Return an axis with a place for each kind of points: the last that a point is of."""
        names = [name for name, _ in kinds if name]
        places: dict[Any, float] = {}
        for name, levels in kinds:
            for each in self.points.at(found, levels):
                places[key_of(each)] = names.index(name) if name else math.nan
        places = {key: place for key, place in places.items() if not math.isnan(place)}
        return Along("", of=places, ticks=lambda axes, _: axes.set_xticks(range(len(names)), names))

    def _up(self, label: str = "", outer: bool = False, faceted: bool = False, amount: bool = False, **how: Any) -> Up:
        how["log"] = how.get("log", False) or (faceted and any(self.words))
        return Up("" if amount or (outer and not self.first) else label, **how)

    def _line(
        self,
        place: int,
        metric: str,
        name: str = "{}",
        at: Levels | None = None,
        by: str = "",
        ways: Sequence[Choice] | None = None,
        rank: int | None = None,
        ranks: Sequence[int] | None = None,
        step: int = 1,
        dashes: Any = "-",
        base: Levels | None = None,
        lowest: str = "",
        **how: Any,
    ) -> list[Line]:
        """Return a line, or one for each level of a factor or group of points."""
        found = self.points.at(self.points.data.by_point(metric), {**self.levels, **(at or {})})
        found = self.points.only(found, lowest, min) if lowest and found else found
        if by == "rest":
            parts = [([words], own) for words, own in groups(found, self.along.factor)]
            parts = parts if len(parts) > 1 else [([""], own) for _, own in parts]
        else:
            choices = self.points.choices(found, by, **how) if by else [("", {})]
            every = [(each, more) for each in choices for more in ways or [("", {})]]
            parts = [([each[0], more[0]], self.points.at(found, {**each[1], **more[1]})) for each, more in every]
            parts = [part for part in parts if part[1] or not (by and ways)]
        lines = []
        for number, (words, own) in zip(ranks or range(len(parts)), parts, strict=False):
            label = name.format(*words).strip(" ,:")
            line = Line(label, own, (place if rank is None else rank) + step * number, _dashes(dashes))
            lines.append(_over_base(line, **base) if base else line)
        return lines

    def _compared(self, by: str, ways: Mapping[str, Sequence[Any]]) -> list[Line]:
        """Return each line for each of these levels of a factor that the run has, with its words and dashes."""
        return [
            replace(line, name=", ".join(filter(None, (line.name, words))), found=own, dashes=_dashes(dashes))
            for level, (words, dashes) in ways.items()
            if any(self.points.at(line.found, {by: level}) for line in self.lines)
            for line in self.lines
            for own in [self.points.at(line.found, {by: level})]
        ]


def _extend(axes: Axes, least_top: float, xlim: Sequence[float | None]) -> None:
    if least_top:
        axes.set_ylim(0, max(least_top, axes.get_ylim()[1]))
    if xlim:
        axes.set_xlim(*xlim)


def _dashes(dashes: Any) -> Any:
    return None if dashes == "rank" else style.DASHES[dashes] if isinstance(dashes, int) else dashes


def _over_base(line: Line, factor: str, level: Any = None) -> Line:
    """Return a line relative to its point at a level, without one at the lowest."""
    known = [each for each in line.found if factor in each.levels]
    wanted = min((each.levels[factor] for each in known), default=None) if level is None else level
    first = next((each for each in known if each.levels[factor] == wanted), None)
    return replace(line, found=line.found if first else (), base=first)


def _state(
    axes: Axes, row: str, paper: str, mark: str, key: str, words: str, unit: float = 1.0, x: Any = None, dashes: int = 0
) -> None:
    """Draw a value of the paper: a point, a level over a range of x, a line across at an x, or a band."""
    value = stated(paper, row)[key]
    every = [each / unit for each in (value if isinstance(value, list) else [value])]
    said = f"{short_name(paper)}: {words.format(*(human_number(each, 6) for each in every))}"
    if mark == "point":
        style.stated_point(axes, x, every[0], said)
    elif mark == "level":
        style.stated_level(axes, x or axes.get_xlim(), every[0], said)
    elif mark == "across":
        style.stated_at(axes, every[0], said, *([":"] if dashes else []))
    elif mark == "band":
        axes.axhspan(*every, color=style.GRID, alpha=0.6, zorder=0, lw=0, label=said)
    elif (limits := axes.get_xlim())[1] >= every[1]:
        axes.axvspan(*every, color=style.GRID, alpha=0.6, zorder=0, label=said)
        axes.set_xlim(limits)


def _limits(panel: _Panel, metric: str, at: Levels | None = None) -> None:
    limited = panel.points.data.generator_limited(metric, panel.along.factor)
    limited = panel.points.at(limited, {**panel.levels, **(at or {})})
    aside = {key_of(each): line.aside for line in panel.lines for each in line.found}
    x = [panel.along.place(each) + aside.get(key_of(each), 0.0) for each in limited]
    if limited:  # the DUT can do at least so much
        y = [each.estimate.value / panel.up.unit for each in limited]
        look: Any = {"ms": 9, "mfc": "none", "mec": style.MUTED, "mew": 0.9, "ls": "", "zorder": 5}
        panel.axes.plot(x, y, "o", label="ring: limit of the generator, not of the DUT", **look)


def _latency(panel: _Panel, shapes: Sequence[str]) -> None:
    for line, shape in zip(panel.lines, shapes, strict=False):
        draw_latency(panel.axes, panel.points.data, line.found, shape, 1 / panel.up.unit)


def _poll_rate(panel: _Panel) -> None:
    for line in panel.lines:
        draw_poll_rate(panel.axes, panel.points.data, panel.along.having(line.found), 1 / panel.up.unit)


def _proportional(panel: _Panel) -> None:
    """Draw what each line would be if it grew in proportion to one core, where one core was measured."""
    for line in panel.lines:
        found = panel.along.having(line.found)
        cores = [panel.along.place(each) for each in found]
        if len(found) > 1 and cores[0] == 1:
            ideal = [found[0].estimate.value / panel.up.unit * count for count in cores]
            look: Any = {"color": style.MUTED, "lw": 0.8, "ls": (0, (2, 2))}
            panel.axes.plot(cores, ideal, label="in proportion to one core", **look)


def _calibrated(panel: _Panel, metric: str) -> None:
    """Mark cycles as calibrated before the trials: without the rest of the loop and without host gaps."""
    data, label = panel.points.data, "dash: calibrated empty polls of a sweep, without the rest of the loop"
    tsc_hz: Any = (data.run.meta.get("node_hello") or {}).get("tsc_hz")
    known = {key_of(each): each.estimate.value for each in data.by_point(metric)} if tsc_hz else {}
    for rank, line in enumerate(panel.lines):
        if found := [each for each in panel.along.having(line.found) if key_of(each) in known]:
            x = [panel.along.place(each) for each in found]
            y = [known[key_of(each)] / tsc_hz * 1e9 / panel.up.unit for each in found]
            look: Any = {"ms": 9, "mec": style.LINES[rank], "mew": 1.4, "ls": "", "zorder": 5}
            panel.axes.plot(x, y, "_", label=label, **look)
            label = "_nolegend_"


MARKS: Mapping[str, Callable[..., None]] = {
    "floor": lambda panel: style.floor_line(panel.axes, panel.points.data.floor_ns),
    "limits": _limits,
    "latency": _latency,
    "poll_rate": _poll_rate,
    "proportional": _proportional,
    "calibrated": _calibrated,
}
