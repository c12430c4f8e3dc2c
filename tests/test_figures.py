# SPDX-License-Identifier: BSD-3-Clause
"""Figures: drawn from any run folder, with intervals, units, testbed and run in the caption; absence has a reason."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
import synthetic_run as synthetic
from command_line import pollscope

from pollscope.analysis.figures import Target, figure_of, figures_of, save_figure
from pollscope.analysis.figures.data import figure_data
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.socc19 import OTHER_DEFINITIONS
from pollscope.analysis.figures.style import PARTS, new_figure, spread_axis
from pollscope.base.names import figure_rows
from pollscope.store.run_folder import RunFolder, read_run

RUN_ID = "20260101T000000Z-abcdef"


def tax_trials(loads: Sequence[float] = (0.0, 0.5, 1.0), queues: Sequence[int] = (1, 2)) -> list[dict[str, Any]]:
    return [
        synthetic.trial(
            f"{count}-{load}-{repeat}",
            f"{count}-{load}",
            repeat,
            {"queues": count, "load_of_max": load},
            pps=1e6 * load,
            queues=count,
            useful_share=0.7 * load + 0.01 * repeat * load,
        )
        for count in queues
        for load in loads
        for repeat in range(3)
    ]


def poll_trials() -> list[dict[str, Any]]:
    return [
        synthetic.trial(f"{2**power}-{repeat}", f"{2**power}", repeat, {"queues": 2**power}, pps=0, queues=2**power)
        for power in range(11)
        for repeat in range(3)
    ]


def run_of(folder: Path, row: str, trials: Sequence[dict[str, Any]], **meta: Any) -> RunFolder:
    return read_run(synthetic.write_run(folder, trials, row=row, rows=[row], **meta))


def drawn(row: str) -> PaperFigure:
    figure = figure_of(row)
    assert isinstance(figure, PaperFigure)
    return figure


def svg_of(run: RunFolder, row: str, out: Path) -> str:
    return save_figure(drawn(row), run, Target(out, row, ("svg",)))[0].read_text(encoding="utf-8")


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
    for word in (
        "1 queue",
        "2 queues",
        "Empty polls",
        "Receiving",
        "Cycles (%)",
        "Open vSwitch",
        "testpmd",
    ):
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


@pytest.mark.thorough
def test_heavier_work_has_a_panel_of_its_own_and_no_bar(tax_svg: str, tmp_path: Path) -> None:
    trials = [
        record
        | {"trial": f"{record['trial']}-{lookups}", "point": f"{record['point']}-{lookups}"}
        | {"factors": record["factors"] | {"lookups": lookups}}
        for lookups in (1, 16)
        for record in tax_trials()
        if lookups == 1 or record["factors"]["load_of_max"] == 1.0
    ]
    text = words(svg_of(run_of(tmp_path / "run", "S-F5", trials), "S-F5", tmp_path / "out"))
    assert "Full load, by work" in text
    assert "Look-ups of a packet" in text
    assert "Full load, by work" not in words(tax_svg)


@pytest.mark.thorough
def test_rings_of_several_sizes_are_lines_of_their_own(tmp_path: Path) -> None:
    trials = [
        record
        | {"trial": f"{record['trial']}-{size}", "point": f"{record['point']}-{size}"}
        | {"factors": record["factors"] | {"rx_desc": size}}
        for size in (64, 512)
        for record in poll_trials()
    ]
    text = words(svg_of(run_of(tmp_path / "run", "S-F8", trials), "S-F8", tmp_path / "out"))
    assert "64 descriptors" in text
    assert "512 descriptors" in text


@pytest.mark.thorough
def test_a_load_whose_tax_is_absent_has_no_bar_and_no_marks(tmp_path: Path) -> None:
    """Busy polls timed one by one are known nevertheless, but testpmd's definition has no bar to mark."""
    trials = tax_trials()
    lost = trials[-1]["factors"]["load_of_max"]
    for record in trials:
        if record["factors"]["load_of_max"] == lost:
            lcore = record["result"]["dut"]["lcores"][0]
            lcore["empty_poll_cycles"] = {"absent": "packets came while it was calibrated"}
            lcore["timed_intervals"]["quiet"] = [[0] * len(block) for block in lcore["timed_intervals"]["quiet"]]
    run = run_of(tmp_path / "run", "S-F5", trials)
    data = figure_data("S-F5", run)
    assert lost not in {sample.levels["load_of_max"] for sample in data.by_point("tax_share")}
    assert lost in {sample.levels["load_of_max"] for sample in data.by_point("tax_share_testpmd")}
    assert "Useful cycles" in words(svg_of(run, "S-F5", tmp_path / "out"))


def test_a_modelled_run_is_marked(tmp_path: Path) -> None:
    trials = [record | {"modelled": True} for record in tax_trials()]
    text = words(svg_of(run_of(tmp_path / "run", "S-F5", trials), "S-F5", tmp_path / "out"))
    assert text.count("MODELLED") == 2, "in the caption, and as a watermark that is not lost with it"


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


def test_absent_data_is_a_panel_with_the_reason(poll_svg: str, tmp_path: Path) -> None:
    assert synthetic.NO_PMU in words(poll_svg)
    ipc = run_of(tmp_path / "ipc", "S-F6", tax_trials())
    assert f"absent, because {synthetic.NO_PMU}" in words(svg_of(ipc, "S-F6", tmp_path / "out"))


@pytest.mark.thorough
def test_ipc_is_drawn_where_there_is_a_pmu(tmp_path: Path) -> None:
    trials = tax_trials()
    for record in trials:
        counts = {"instructions": 2_000_000, "cycles": 1_000_000}
        record["result"]["dut"]["lcores"][0]["pmu"] = {"window": counts, "multiplexed_share": 0.0}
    text = words(svg_of(run_of(tmp_path / "run", "S-F6", trials), "S-F6", tmp_path / "out"))
    assert "1 queue" in text
    assert "SoCC'19: average, 2 to 2.6" in text


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
    assert "no valid trial" in words(svg_of(run_of(tmp_path / "run", row, trials), row, tmp_path / "out"))


@pytest.mark.thorough
def test_a_single_trial_has_no_interval_but_a_figure(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", "S-F8", [record for record in poll_trials() if record["repeat"] == 0])
    svg_of(run, "S-F8", tmp_path / "out")
    assert "Means of 1 trials" not in figure_data("S-F8", run).caption


@pytest.mark.thorough
def test_the_same_data_give_the_same_file(poll_run: RunFolder, tmp_path: Path) -> None:
    first, second = (save_figure(drawn("S-F8"), poll_run, Target(tmp_path / name, "f")) for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_figures_follow_rows_and_paper(tmp_path: Path) -> None:
    run = read_run(synthetic.write_run(tmp_path / "run", tax_trials(), rows=["S-F5", "S-F6", "SANITY"]))
    assert [figure.row for figure in figures_of(run)] == ["S-F5", "S-F6"]
    assert figures_of(run, "corec") == []


def test_command_prints_the_files(tmp_path: Path) -> None:
    run = run_of(tmp_path / "results" / "s" / RUN_ID, "S-F8", poll_trials())
    done = pollscope("figures", run.path, "--out", "drawn", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [f"drawn/S-F8.{kind}" for kind in ("svg", "pdf", "png", "csv")]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["figures", "nowhere"], "there is no such run"),
        (["figures"], "holds no run folder"),
        (["figures", "--paper", "nature"], "nature"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    done = pollscope(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.thorough
def test_of_several_pairs_one_is_drawn_and_the_others_are_named(tmp_path: Path) -> None:
    trials = [
        synthetic.trial(f"{pair}{repeat}", "queues=1", repeat, {"queues": 1}, pps=0, polls=polls + repeat)
        | {"pair": pair}
        for pair, polls in (("first", 10_000_000), ("second", 20_000_000))
        for repeat in range(3)
    ]
    run = read_run(synthetic.write_run(tmp_path / "run", trials, row="S-F8", rows=["S-F8"]))
    data = figure_data("S-F8", run)
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
    command = [
        sys.executable,
        "-P",
        "-c",
        "from pollscope.cli import main; main()",
        "figures",
        str(tax_run.path),
        "--out",
        "drawn",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "drawn/S-F5.svg").exists(), done.stdout
