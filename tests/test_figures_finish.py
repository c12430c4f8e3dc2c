# SPDX-License-Identifier: BSD-3-Clause
"""Check each figure for a true legend, uncompressed panels, and no room for absent values."""

import math
from collections.abc import Iterator
from itertools import chain, combinations, cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic_run as synthetic
from command_line import pollscope
from figure_gallery import FACTORS, STATES, gallery_run, trials_of
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pollscope.analysis.figures import asked_figure, figure_of
from pollscope.analysis.figures.data import FigureData
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.finish import MARKS, finish
from pollscope.analysis.figures.points import name_marks
from pollscope.analysis.figures.style import (
    CUT,
    FLOOR,
    WHISKER,
    absent_reason,
    caption,
    interval_line,
    level_axis,
    look,
    new_figure,
)
from pollscope.analysis.figures.sweep import default_figure
from pollscope.base.names import figure_rows
from pollscope.stats.estimates import Estimate
from pollscope.store.run_folder import RunFolder

NAMES_OF_MARKS = {words: label for label, (_, words) in MARKS.items()}


def finished(figure: PaperFigure, run: RunFolder, keeps_absent: bool = False) -> tuple[Figure, FigureData]:
    """Return the figure as it is written to files, with its layout."""
    data = figure.data(run)
    with look():
        drawn = figure.draw(data)
        data.remarks.extend(finish(drawn, keeps_absent))
        drawn.draw_without_rendering()
    return drawn, data


def paper_figure(row: str) -> PaperFigure:
    figure = figure_of(row)
    assert isinstance(figure, PaperFigure)
    return figure


def legend_names(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def visible(axes: Axes) -> Iterator[tuple[str, Any]]:
    """Label and artist of what can be seen in the axes."""
    for line in axes.lines:
        heights = np.asarray(line.get_ydata(), dtype=float)
        if heights.size and np.isfinite(heights).any():
            yield str(line.get_label()), line
    for bars in axes.containers:
        if isinstance(bars, BarContainer) and any(bar.get_height() > 0 for bar in bars):
            yield str(bars.get_label()), bars
    for patch in axes.patches:
        yield str(patch.get_label()), patch


def moved(axes: Axes) -> list[Any]:
    """Return the transforms of artists that are moved from their place in the data."""
    return [line.get_transform() for line in axes.lines if line.get_label() in (WHISKER, CUT)]


def test_thousands_of_an_axis_have_distinct_labels() -> None:
    figure = new_figure(2.0)
    axes = figure.subplots()
    axes.plot([1, 2], [0, 1250])
    finish(figure)
    figure.draw_without_rendering()
    assert "1,250" in [tick.get_text() for tick in axes.get_yticklabels()]


def test_the_first_level_has_its_tick_whatever_is_beside_it() -> None:
    axes = new_figure(2.0).subplots()
    level_axis(axes, [0, 1, 50, 100])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["100", "50", "0"]
    level_axis(axes, [7])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["7"]


def look_of(artist: Any) -> tuple[Any, ...]:
    """Return the look of an artist without its hue: marker, dashes, hatch, and darkness."""
    if isinstance(artist, Line2D):
        return (
            str(artist.get_marker()),
            str(artist.get_linestyle()),
            artist.get_linewidth(),
            _dark(artist.get_markeredgecolor()),
        )
    bar = artist[0] if isinstance(artist, BarContainer) else artist
    return bar.get_hatch(), _dark(bar.get_facecolor())


def _dark(colour: Any) -> float:
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return round(0.2126 * red + 0.7152 * green + 0.0722 * blue, 2)


@pytest.mark.thorough
def test_the_gallery_has_every_figure_of_a_run() -> None:
    assert set(FACTORS) == {row for row in figure_rows() if isinstance(figure_of(row), PaperFigure)}


# Each row in one of the states in turn; rows of many points with one trial each (figure_gallery.py draws all).
MANY_POINTS = 40
TURNS = cycle(STATES)
ROW_STATE = {
    row: "single" if len(synthetic.crossed(levels)) > MANY_POINTS else next(TURNS) for row, levels in FACTORS.items()
}
# Figures that other tests draw (test_figures_rows.py).
ELSEWHERE = (
    *("S-F7a", "S-F7b", "S-T4.2", "S-F9", "S-F10b", "S-F13", "S-F16", "S-F17a", "S-F17b", "S-F18"),
    *("C-T2", "C-T3", "C-F5", "C-F6", "C-T4", "C-RIVALS", "H-F3a"),
)
EACH = [
    pytest.param(row, state, marks=pytest.mark.thorough if row in ELSEWHERE else ()) for row, state in ROW_STATE.items()
]
WHOLE = [pytest.param(row, "whole", marks=pytest.mark.thorough) for row, at in ROW_STATE.items() if at != "whole"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("row", "state"), [*EACH, *WHOLE])
def test_every_figure(row: str, state: str, tmp_path: Path) -> None:
    figure, data = finished(paper_figure(row), gallery_run(tmp_path / "run", row, state))
    drawn: dict[str, Any] = {}
    for axes in figure.axes:
        drawn |= dict(visible(axes))
    names = legend_names(figure)
    assert len(names) == len(set(names))
    for legend in figure.legends:
        assert legend.get_window_extent().width <= figure.bbox.width, "the legend is no wider than the page"
    for name in names:
        assert NAMES_OF_MARKS.get(name, name) in drawn, f"the legend lists {name}, which is not drawn"
    assert {label for label in drawn if not label.startswith("_")} <= set(names), "what has a name is in the legend"
    for label, (_, words) in MARKS.items():
        assert (label in drawn) == (words in names)
    for axes in (each for each in figure.axes if each.axison):  # S-T4.2 is a table
        across = [line for line in axes.lines if line.get_transform() not in (axes.transData, *moved(axes))]
        assert all(str(line.get_label()) in names for line in across), "the legend says what a line across stands for"
    named = [look_of(artist) for label, artist in drawn.items() if not label.startswith("_")]
    assert len(named) == len(set(named)), "series differ without colour"
    _check_axes(figure, data)
    name_marks(figure)
    numbers = [str(sorted(row.items())) for row in data.drawn]
    assert len(numbers) == len(set(numbers)), "the file beside the figure has each number once"


def _check_axes(figure: Figure, data: FigureData) -> None:
    absent = [axes for axes in figure.axes if absent_reason(axes)]
    assert not absent or len(figure.axes) == 1, "an absent panel stands alone, or not at all"
    for axes in figure.axes:
        assert axes.get_visible()
        assert axes.yaxis.get_offset_text().get_text() == "", "no 1e7 above an axis"
        assert not any("$" in text.get_text() for text in axes.get_yticklabels()), "no powers of ten as ticks"
        _check_values(axes)
    for sentence in ("95 % intervals",):
        if sentence in data.caption:
            assert any(row["low"] is not None for row in data.drawn)


def _check_values(axes: Axes) -> None:
    """Check that values take at least a third of the height, and that an interval ends inside the axes or is marked."""
    turn = math.log10 if axes.get_yscale() == "log" else float
    bottom, top = axes.get_ylim()
    lines = [(label, artist) for label, artist in visible(axes) if isinstance(artist, Line2D)]
    cut = {float(np.asarray(line.get_xdata())[0]) for label, line in lines if label == CUT}
    for label, line in lines:
        x, y = np.asarray(line.get_xdata(), dtype=float), np.asarray(line.get_ydata(), dtype=float)
        if label == WHISKER:
            assert y[1] <= top * (1 + 1e-9) or x[0] in cut, "an interval is cut and nothing says so"
            (place, _), _ = axes.transAxes.inverted().transform(line.get_transform().transform(line.get_xydata()))
            assert 0 <= place <= 1, "an interval that was moved aside is still inside the axes"
        elif label == FLOOR:
            place = axes.transAxes.inverted().transform(axes.transData.transform((x[0], y[0])))
            assert 0 < (place[0] if x[0] == x[-1] else place[1]) < 1, "a floor in the legend can be seen"
        elif line.get_transform() == axes.transData and label != CUT:
            assert (y >= bottom).all() and (y <= top * (1 + 1e-9)).all(), "values are inside the axes"
    whiskers = [line for label, line in lines if label == WHISKER]
    values = [
        float(value)
        for label, line in lines
        if label not in (WHISKER, CUT, FLOOR) and line.get_transform() == axes.transData
        for value in np.asarray(line.get_ydata(), dtype=float)
    ] + [bar.get_y() + bar.get_height() for bars in axes.containers if isinstance(bars, BarContainer) for bar in bars]
    if whiskers and values and bottom == 0:
        assert turn(max(values)) >= (turn(top) - turn(bottom)) / 3 or max(values) == 0


@pytest.mark.thorough
def test_intervals_of_several_lines_stand_side_by_side(tmp_path: Path) -> None:
    figure, _ = finished(paper_figure("S-F8"), gallery_run(tmp_path / "run", "S-F8", "whole"))
    compared = 0
    for axes in figure.axes:
        places: dict[float, list[tuple[float, float, float]]] = {}
        for line in axes.lines:
            if line.get_label() == WHISKER:
                (x, low), (_, high) = line.get_transform().transform(line.get_xydata())
                places.setdefault(float(np.asarray(line.get_xdata())[0]), []).append((x, low, high))
        hidden = 0.04 * axes.bbox.height  # by a marker
        for (x, low, high), (other_x, other_low, other_high) in chain.from_iterable(
            combinations(shown, 2) for shown in places.values()
        ):
            if low <= other_high and other_low <= high and min(high - low, other_high - other_low) > hidden:
                assert abs(x - other_x) * 72 / figure.dpi >= 2
                compared += 1
    assert compared > 0


def test_many_intervals_side_by_side_stay_inside_the_axes() -> None:
    with look():
        figure = new_figure(4.6)
        axes = figure.subplots(2, 3)[0, 0]
        for rank in range(8):
            both = [Estimate(4.0 + rank / 10, 1.0, 9.0, 3, "t")] * 2
            interval_line(axes, [1.0, 1000.0], both, rank, str(rank))
        level_axis(axes, [1.0, 1000.0])
        finish(figure)
        figure.canvas.draw()
    _check_values(axes)


def test_intervals_without_overlap_stay_at_their_marks() -> None:
    with look():
        figure = Figure()
        axes = figure.subplots()
        for value in range(1, 13):
            interval_line(axes, [1.0], [Estimate(value, value - 0.3, value + 0.3, 3, "t")], 0)
        finish(figure)
    moved = [line for line in axes.lines if line.get_label() == WHISKER and line.get_transform() != axes.transData]
    xs = {round(float(line.get_transform().transform(line.get_xydata())[0][0]), 6) for line in moved}
    assert xs == {round(float(axes.transData.transform((1.0, 1.0))[0]), 6)} or not xs


def test_absent_panels_become_a_sentence(tmp_path: Path) -> None:
    run = gallery_run(tmp_path / "run", "S-F8", "without-pmu")
    figure, data = finished(paper_figure("S-F8"), run)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["Poll rate while running", "Poll rate while running, relative to one queue", "Time of a sweep"]
    assert f"Absent, so not drawn: LLC loads, because {synthetic.NO_PMU}." in data.caption
    kept, data = finished(paper_figure("S-F8"), run, keeps_absent=True)
    assert [absent_reason(axes) for axes in kept.axes] == ["", "", "", synthetic.NO_PMU]
    assert "Absent" not in data.caption


@pytest.mark.thorough
def test_the_figure_loses_the_lines_that_it_no_longer_needs(tmp_path: Path) -> None:
    run = gallery_run(tmp_path / "run", "I-F6", "whole")
    tall, _ = finished(paper_figure("I-F6"), run, keeps_absent=True)
    low, _ = finished(paper_figure("I-F6"), run)
    assert low.get_figheight() < tall.get_figheight() / 2


def test_marks_of_panels_that_share_an_axis_say_what_it_is() -> None:
    """Only the last panel of a column labels it."""
    figure = Figure()
    upper, lower = figure.subplots(2, 1, sharex=True)
    for axes in (upper, lower):
        interval_line(axes, [0.0, 50.0], [Estimate(1.0, 0.5, 2.0, 5, "made up")] * 2, 0, "a line")
    lower.set_xlabel("Cycles freed (%)")
    for texts in name_marks(figure).values():
        assert [text.split(";")[1] for text in texts] == [" Cycles freed (%): 0", " Cycles freed (%): 50"]


def test_the_command_keeps_absent_panels_when_asked(tmp_path: Path) -> None:
    run = gallery_run(tmp_path / "run", "S-F8", "without-pmu")
    done = pollscope("figures", run.path, "--absent", "show", "--out", "shown.svg", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "absent, because" in (tmp_path / "shown.svg").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_an_invisible_floor_becomes_a_sentence(tmp_path: Path) -> None:
    figure, data = finished(paper_figure("H-F3b"), gallery_run(tmp_path / "run", "H-F3b", "whole"))
    assert FLOOR not in legend_names(figure)
    assert "The path alone, without a DUT, takes 0.199 µs (median)" in data.caption


def test_the_caption_says_what_there_is(tmp_path: Path) -> None:
    _, pooled = finished(paper_figure("H-F3c"), gallery_run(tmp_path / "pooled", "H-F3c", "whole"))
    assert "All packets of 3 trials per point." in pooled.caption and "intervals" not in pooled.caption
    _, single = finished(paper_figure("S-F8"), gallery_run(tmp_path / "single", "S-F8", "single"))
    assert "One trial per point, so there are no intervals." in single.caption
    _, whole = finished(paper_figure("S-F8"), gallery_run(tmp_path / "whole", "S-F8", "whole"))
    assert "Means of 3 trials per point with 95 % intervals, some of them unbounded." in whole.caption


def pairs_run(folder: Path) -> RunFolder:
    trials = [
        record | {"pair": pair, "trial": f"{pair}:{record['trial']}"}
        for pair in ("first", "second")
        for record in trials_of("H-F3b")
    ]
    return synthetic.run_of(folder, trials, row=None, rows=[])


@pytest.mark.thorough
def test_each_pair_is_a_line_of_a_sweep(tmp_path: Path) -> None:
    run = pairs_run(tmp_path / "run")
    for figure in (default_figure(run), asked_figure(run, {"x": "queues", "y": ("tx_pps",)}, narrow=False)):
        assert figure is not None
        drawn, data = finished(figure, run)
        assert legend_names(drawn) == ["pair first", "pair second"]
        assert "Means of 3 trials per point" in data.caption and "pollscope compare" not in data.caption
    across, _ = finished(asked_figure(run, {"x": "pair", "y": ("tx_pps",)}, narrow=False), run)
    assert [text.get_text() for text in across.axes[0].get_xticklabels()] == ["first", "second"]
    held, _ = finished(
        asked_figure(run, {"x": "queues", "y": ("tx_pps",), "at": {"pair": "second"}}, narrow=False), run
    )
    assert legend_names(held) == []


@pytest.mark.thorough
def test_amounts_begin_at_zero_where_intervals_do(tmp_path: Path) -> None:
    run = gallery_run(tmp_path / "run", "H-F3b", "noisy")
    for x, y in (("queues", "tx_pps"), ("queues", "latency_sent_p50_ns")):
        figure, _ = finished(asked_figure(run, {"x": x, "y": (y,)}, narrow=False), run)
        assert figure.axes[0].get_ylim()[0] == 0


@pytest.mark.thorough
def test_values_stated_by_a_paper_do_not_compress_the_data(tmp_path: Path) -> None:
    far, data = finished(paper_figure("S-F12"), gallery_run(tmp_path / "far", "S-F12", "whole"))
    assert "SoCC'19: below 100 Gb/s (beyond the axis)." in data.caption
    assert "SoCC'19: below 100 Gb/s" not in legend_names(far)
    near, data = finished(paper_figure("S-F10a"), gallery_run(tmp_path / "near", "S-F10a", "whole"))
    assert "SoCC'19: 1.6 Mpps at 512 queues" in legend_names(near)
    assert "beyond the axis" not in data.caption
    assert near.axes[0].get_ylim()[1] > 1.6


def test_a_column_has_clear_ticks_a_caption_inside_it_and_the_colours_of_the_page(tmp_path: Path) -> None:
    levels = [(each, feed) for each in (1, 8, 320, 448, 512) for feed in ("infinite", "wire")]
    trials = [
        trial
        for queues, feed in levels
        for trial in synthetic.repeated({"queues": queues, "feed": feed}, pps=1e7 / queues)
    ]
    run = synthetic.run_of(tmp_path / "run", trials, row=None, rows=[])
    for log in ({}, {"log": ("x", "y")}):
        figure, data = finished(asked_figure(run, {"x": "queues", "y": ("tx_pps",), **log}, narrow=True), run)
        axes = figure.axes[0]
        shown = sorted(float(place) for place in axes.get_xticks())
        assert shown == [1, 8, 512] and axes.get_xscale() == "log"
        assert legend_names(figure)[:2] == ["feed wire", "feed infinite"]
        with look():
            caption(figure, data.caption)
        assert max(text.get_window_extent().width for text in figure.texts) <= figure.bbox.width
    ticks = [text.get_text() for text in axes.get_yticklabels()]
    assert {"1 Mpps", "100 kpps"} <= set(ticks)


def test_a_row_in_a_column_is_refused_with_a_command_that_draws_it(tmp_path: Path) -> None:
    levels = [{"queues": queues, "rx_desc": each} for queues in (1, 512) for each in (64, 512)]
    trials = [trial for each in levels for trial in synthetic.repeated(each, pps=0.0)]
    factors = {"queues": [1, 512], "rx_desc": [64, 512]}
    spec = {"name": "s-f8-poll-rate", "parameters": {}, "factors": factors}
    synthetic.write_run(tmp_path / "run", trials, row="S-F8", rows=["S-F8"], spec=spec)
    refused = pollscope("figures", "run", "--width", "column", cwd=tmp_path)
    assert refused.returncode == 2
    options = "--width column --x queues --y poll_rate_running_hz --by rx_desc --log x"
    assert f"one panel of S-F8: pollscope figures run {options}" in refused.stderr
    assert pollscope("figures", "run", *options.split(), cwd=tmp_path).returncode == 0
