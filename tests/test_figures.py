# SPDX-License-Identifier: BSD-3-Clause
"""Figures: drawn from any run folder, with intervals, units, testbed and run in the caption; absence has a reason."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
import synthetic_run as synthetic

from pollscope.analysis.figures import Target, figure_of, figures_of, save_figure
from pollscope.analysis.figures.data import figure_data
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.socc19 import OTHER_DEFINITIONS
from pollscope.analysis.figures.style import PARTS, new_figure, spread_axis
from pollscope.analysis.figures.sweep import _y_axis
from pollscope.base.names import figure_rows
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.spec.model import Show
from pollscope.store.run_folder import RunFolder

RUN_ID = "20260101T000000Z-abcdef"


def tax_trials(loads: Sequence[float] = (0.0, 0.5, 1.0), queues: Sequence[int] = (1, 2)) -> list[dict[str, Any]]:
    return [
        synthetic.trial(
            f"{count}-{load}-{repeat}", f"{count}-{load}", repeat, {"queues": count, "load_of_max": load},
            pps=1e6 * load, queues=count, useful_share=0.7 * load + 0.01 * repeat * load,
        )
        for count, load, repeat in product(queues, loads, range(3))
    ]  # fmt: skip


def poll_trials() -> list[dict[str, Any]]:
    queues = [2**power for power in range(11)]
    return [trial for each in queues for trial in synthetic.repeated({"queues": each}, pps=0, queues=each)]


def run_of(folder: Path, row: str, trials: Sequence[dict[str, Any]], **meta: Any) -> RunFolder:
    return synthetic.run_of(folder, trials, row=row, rows=[row], **meta)


def drawn(row: str) -> PaperFigure:
    figure = figure_of(row)
    assert isinstance(figure, PaperFigure)
    return figure


def svg_of(run: RunFolder, row: str, out: Path) -> str:
    return save_figure(drawn(row), run, Target(out, row, ("svg",)))[0].read_text(encoding="utf-8")


def text_of(folder: Path, row: str, trials: Sequence[dict[str, Any]], **meta: Any) -> str:
    """Return the words of a row's figure of these trials."""
    return words(svg_of(run_of(folder / "run", row, trials, **meta), row, folder / "out"))


@pytest.fixture(scope="module")
def tax_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Return a run of the polling tax that tests only read."""
    return run_of(tmp_path_factory.mktemp("tax"), "S-F5", tax_trials())


@pytest.fixture(scope="module")
def tax_svg(tax_run: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> str:
    return svg_of(tax_run, "S-F5", tmp_path_factory.mktemp("tax-figure"))


@pytest.fixture(scope="module")
def poll_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Return a run of the poll rate that tests only read."""
    return run_of(tmp_path_factory.mktemp("polls"), "S-F8", poll_trials())


@pytest.fixture(scope="module")
def poll_svg(poll_run: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> str:
    return svg_of(poll_run, "S-F8", tmp_path_factory.mktemp("polls-figure"))


def words(svg: str) -> str:
    """Return all text of an SVG without line breaks."""
    root = ElementTree.fromstring(svg)
    return " ".join(" ".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text"))


def test_a_figure_is_svg_pdf_and_png_with_its_numbers(tax_run: RunFolder, tmp_path: Path) -> None:
    paths = save_figure(drawn("S-F5"), tax_run, Target(tmp_path / "out", "S-F5"))
    heads = [path.read_bytes()[:8] for path in paths]
    assert [path.name for path in paths] == ["S-F5.svg", "S-F5.pdf", "S-F5.png", "S-F5.csv"]
    assert heads[0].startswith(b"<?xml")
    assert heads[1].startswith(b"%PDF")
    assert heads[2] == b"\x89PNG\r\n\x1a\n"
    assert set(pd.read_csv(paths[3])["modelled"]) == {False}


def test_an_svg_is_self_contained_and_its_text_is_text(tax_svg: str) -> None:
    assert "@font-face" in tax_svg
    assert not re.search(r'(href|src)="(?!#)', tax_svg), "no reference leaves the file"
    assert not re.search(r"url\((?!#|data:)", tax_svg)
    text = words(tax_svg)
    for word in ("1 queue", "2 queues", "Empty polls", "Receiving", "Cycles (%)", "Open vSwitch", "testpmd"):
        assert word in text


def test_the_caption_names_testbed_nic_machine_trials_and_run(tax_svg: str) -> None:
    text = words(tax_svg)
    for word in ("loopback", "net_crossover", "SYNTHETIC CPU", "3 trials", "95 %", RUN_ID):
        assert word in text


def test_time_taken_away_does_not_move_the_bars(tax_run: RunFolder, tmp_path: Path) -> None:
    quiet = figure_data("S-F5", tax_run)
    trials = tax_trials()
    for record in trials:
        # The same work in a window that is 1.5 times as long; the difference was taken away.
        lcore = record["result"]["dut"]["lcores"][0]
        away = lcore["cycles"]["total"] // 2
        lcore["cycles"]["total"] += away
        lcore["interruptions"]["cycles"] = away
    noisy = figure_data("S-F5", run_of(tmp_path / "noisy", "S-F5", trials))
    for metric in (*PARTS, *OTHER_DEFINITIONS):
        for first, second in zip(quiet.running(metric), noisy.running(metric), strict=True):
            assert second.values == pytest.approx(first.values, abs=1e-6), metric
    assert "Other work on the DUT's CPU, 33.3 % of the time" in noisy.caption
    assert "Other work" not in quiet.caption


def test_the_caption_says_what_a_run_leaves_out_of_its_spec(tmp_path: Path) -> None:
    spec = """
format: 1
name: synthetic
title: t
parameters: {workload: l3fwd-lpm}
factors: {queues: [1, 8, 1000], load_of_max: [0 %, 25 %, 50 %, 100 %]}
repeats: {count: 3}
"""
    asked = {"quick": True, "set": ["parameters.rx_desc=64"]}
    left_out = [{"point": "queues=1000", "reason": "too few mbufs"}]
    run = run_of(tmp_path / "run", "S-F5", tax_trials(), spec_text=spec, overrides=asked, left_out=left_out)
    caption = figure_data("S-F5", run).caption
    assert "Measured with --quick --set 'parameters.rx_desc=64'." in caption
    assert "Not measured: queues 8, 1000; load 25 %." in caption
    assert "1 point left out; the first: too few mbufs." in caption
    assert "Measured with" not in figure_data("S-F5", run_of(tmp_path / "whole", "S-F5", tax_trials())).caption


def test_the_papers_value_is_drawn_where_it_is_stated_and_no_other(poll_svg: str) -> None:
    text = words(poll_svg)
    assert "SoCC'19: 0.67 of the poll rate at 512 queues" in text
    assert text.count("SoCC'19") == 1, "nothing is stated for the panels of absolute values"


@pytest.mark.parametrize(
    "row",
    [
        row if row in ("S-F5", "H-F3c") else pytest.param(row, marks=pytest.mark.thorough)
        for row in figure_rows()
        if isinstance(figure_of(row), PaperFigure)
    ],
)
def test_a_run_in_which_all_failed_still_gives_a_figure_that_says_so(tmp_path: Path, row: str) -> None:
    trials = [record | {"status": "failed", "reason": "the node hung"} for record in tax_trials()]
    assert "no valid trial" in text_of(tmp_path, row, trials)


@pytest.mark.thorough
def test_the_same_data_give_the_same_file(poll_run: RunFolder, tmp_path: Path) -> None:
    first, second = (save_figure(drawn("S-F8"), poll_run, Target(tmp_path / name, "f")) for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.parametrize(("lowest", "bottom"), [(-0.02, -0.02), (0.0, 0.0)])
def test_an_axis_leaves_room_below_zero_for_what_lies_there_only(lowest: float, bottom: float) -> None:
    """A loss is negative if foreign packets were counted."""
    axes = new_figure(2).subplots()
    axes.plot([1, 2, 4], [lowest, 0.01, 0.03])
    _y_axis(axes, Show.model_validate({"x": "queues", "y": ["loss_share"]}), metric_dictionary()["loss_share"])
    assert axes.get_ylim()[0] == 0 if bottom == 0 else axes.get_ylim()[0] <= bottom


def test_figures_follow_rows_and_paper(tmp_path: Path) -> None:
    run = synthetic.run_of(tmp_path / "run", tax_trials(), rows=["S-F5", "S-F6", "SANITY"])
    assert [figure.row for figure in figures_of(run)] == ["S-F5", "S-F6"]
    assert figures_of(run, "corec") == []


@pytest.mark.thorough
def test_of_several_pairs_one_is_drawn_and_the_others_are_named(tmp_path: Path) -> None:
    trials = [
        record | {"pair": pair, "trial": f"{pair}:{record['trial']}"}
        for pair, polls in (("first", 10_000_000), ("second", 20_000_000))
        for record in synthetic.repeated({"queues": 1}, pps=0, polls=polls)
    ]
    data = figure_data("S-F8", run_of(tmp_path / "run", "S-F8", trials))
    (sample,) = data.by_point("poll_rate_hz")
    assert len(sample.values) == 3
    assert max(sample.values) < 1.1 * min(sample.values)
    assert "Pair first of 2; `pollscope compare" in data.caption
    assert "shows second." in data.caption


@pytest.mark.parametrize(
    ("levels", "scale"),
    [
        ((1, 2, 8, 64, 512, 1000), "log"),
        ((1, 100, 250, 500, 750, 1000), "linear"),
        ((0, 1, 2, 1000), "linear"),
        ((1, 1000), "linear"),
        ((1,), "linear"),
    ],
)
def test_an_axis_is_logarithmic_where_levels_would_lie_on_each_other(levels: tuple[int, ...], scale: str) -> None:
    axes = new_figure(2.0).subplots()
    spread_axis(axes, levels)
    assert axes.get_xscale() == scale


@pytest.mark.thorough
def test_the_first_figure_of_a_machine_says_nothing_on_standard_error(tmp_path: Path) -> None:
    """Matplotlib would, while it looks for fonts: after 5 s, here at once."""
    code = (
        "import threading; later = threading.Timer; threading.Timer = lambda seconds, call: later(0, call)\n"
        "import pollscope.analysis, matplotlib.font_manager"
    )
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert list(tmp_path.glob("fontlist-*.json")) != []


@pytest.mark.thorough
def test_a_matplotlibrc_in_the_current_folder_has_no_effect(tax_run: RunFolder, tmp_path: Path) -> None:
    # Otherwise a stranger's folder could run LaTeX, whose preamble can read the user's files.
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\ntext.latex.preamble: \\input{/etc/passwd}\n")
    words = ["figures", str(tax_run.path), "--out", "drawn"]
    command = [sys.executable, "-P", "-c", "from pollscope.cli import main; main()", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "drawn/S-F5.svg").exists(), done.stdout
