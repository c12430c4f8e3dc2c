# SPDX-License-Identifier: BSD-3-Clause
"""The figure of a comparison: both sides with intervals, and the ratios that are larger than noise."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic_run as synthetic
from command_line import pollscope
from test_figures import words

from pollscope.analysis.compare import Difference, _adjusted, _difference, compare_knobs, compare_levels, compare_runs
from pollscope.analysis.figures import Target, save_comparison
from pollscope.analysis.figures.comparison import draw_comparison, told_most
from pollscope.analysis.point_values import PointValues
from pollscope.analysis.report import report_html
from pollscope.analysis.run_differences import differences_of
from pollscope.store.run_folder import RunFolder

RATES = {"off": 1e6, "passthrough": 1e6, "strict": 0.8e6}


def iommu_run(folder: Path, modes: tuple[str, ...] = ("off", "passthrough", "strict"), **meta: Any) -> RunFolder:
    """Return three trials per mode: strict forwards a fifth less, far more than the trials differ."""
    trials = [
        trial for mode in modes for trial in synthetic.repeated({"knob.iommu": mode}, pps=RATES[mode], spread=0.001)
    ]
    return synthetic.run_of(folder, trials, row="I-IOMMU", rows=["I-IOMMU"], **meta)


def drawn(found: Sequence[Difference], *runs: RunFolder, out: Path) -> str:
    return words(save_comparison(found, runs, "t", Target(out, "x", ("svg",)))[0].read_text(encoding="utf-8"))


def test_sides_ratios_and_what_exceeds_noise_are_drawn(tmp_path: Path) -> None:
    run = iommu_run(tmp_path / "run")
    text = drawn(compare_levels(run, "iommu", ["rx_pps", "loss_share"]), run, out=tmp_path / "out")
    for word in ("iommu off", "iommu passthrough", "iommu strict", "Ratio to iommu off", "Received by the DUT", "0.8"):
        assert word in text
    assert "1 of 4 differences exceeds noise (in bold)" in text
    assert "absent, because the first is zero" in text, "nothing was lost, so there is no ratio of losses"
    assert "3 trials per point" in text


@pytest.mark.thorough
def test_of_many_equal_metrics_hardly_any_differs(tmp_path: Path) -> None:
    """Four hundred points at which nothing differs: single intervals leave out 0 at some twenty, together at none."""
    rng = np.random.default_rng(5)
    sides = [[PointValues({}, tuple(1e6 * (1 + 0.01 * rng.standard_normal(3)))) for _ in range(2)] for _ in range(400)]
    found = _adjusted([_difference("rx_pps", f"{at}", ("off", "strict"), *both) for at, both in enumerate(sides)])
    assert sum(not each.change.low <= 0 <= each.change.high for each in found) >= 8
    assert sum(each.beyond_noise for each in found) <= 1
    assert all(each.adjusted >= each.p for each in found)


@pytest.mark.thorough
def test_whiskers_are_the_intervals_and_only_what_exceeds_noise_is_filled(tmp_path: Path) -> None:
    found = compare_levels(iommu_run(tmp_path / "run"), "iommu", ["rx_pps"])
    values, ratios = draw_comparison(found).axes
    faces = [line.get_markerfacecolor() for line in ratios.lines if line.get_marker() not in ("None", "")]
    edges = [line.get_markeredgecolor() for line in ratios.lines if line.get_marker() not in ("None", "")]
    assert [face == edge for face, edge in zip(faces, edges, strict=True)] == [False, True]
    assert [text.get_fontweight() for text in ratios.texts] == ["normal", "bold"]
    spans = [list(np.asarray(line.get_xdata())) for line in values.lines if len(np.asarray(line.get_xdata())) == 2]
    sides = [found[0].first, *(each.second for each in found)]
    assert spans == [[side.low, side.high] for side in sides]
    spans = [list(np.asarray(line.get_xdata())) for line in ratios.lines if len(np.asarray(line.get_xdata())) == 2][1:]
    assert spans == [[each.ratio.low, each.ratio.high] for each in found]


def test_a_figure_of_many_points_stays_on_a_page_and_spreads_wide_ratios(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    wide = [3.0**at for at in range(60)]
    sides = [[PointValues({}, tuple(level * (1 + 0.01 * rng.standard_normal(3)))) for level in (1, by)] for by in wide]
    every = _adjusted([_difference("rx_pps", f"{at}", ("off", "strict"), *both) for at, both in enumerate(sides)])
    assert draw_comparison(every).get_figheight() <= 9
    assert len(told_most(every)) < len(every)
    assert {each.point for each in told_most(every)} >= {"59"}
    assert draw_comparison(every[:4]).axes[1].get_xscale() == "log"
    assert draw_comparison(every[:1]).axes[1].get_xscale() == "linear"
    paths = save_comparison(every, [iommu_run(tmp_path / "run")], "t", Target(tmp_path / "out", "x", ("svg",)))
    assert f"{len(told_most(every))} of them are drawn" in words(paths[0].read_text())
    assert len(pd.read_csv(paths[1])) == len(every)


@pytest.mark.thorough
def test_one_trial_per_side_has_no_interval_and_is_hollow(tmp_path: Path) -> None:
    trials = [trial for mode in ("off", "strict") for trial in synthetic.repeated({"knob.iommu": mode}, 1, RATES[mode])]
    run = synthetic.run_of(tmp_path / "run", trials, row="I-IOMMU")
    values, _ratios = draw_comparison(compare_levels(run, "iommu", ["rx_pps"])).axes
    assert all(
        len(np.asarray(line.get_xdata())) == 1 and line.get_markerfacecolor() == "#ffffff" for line in values.lines
    )


@pytest.mark.thorough
def test_two_runs_are_drawn(tmp_path: Path) -> None:
    one = iommu_run(tmp_path / "one", run_id="first")
    two = iommu_run(tmp_path / "two", run_id="second")
    text = drawn(compare_runs(one, two, ["rx_pps"]), one, two, out=tmp_path / "out")
    assert "Ratio to run A" in text
    assert "0 of 3 differences exceed noise" in text
    assert "Run first." in text
    assert "Run second." in text


def test_the_command_prints_where_the_files_are(tmp_path: Path) -> None:
    run = iommu_run(tmp_path / "run")
    done = pollscope("compare", run.path, "--by", "iommu", "--out", "drawn", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    paths = done.stdout.splitlines()[-4:]
    assert paths == [f"drawn/compare-iommu-{run.run_id}.{kind}" for kind in ("svg", "pdf", "png", "csv")]
    assert all((tmp_path / path).stat().st_size > 100 for path in paths)
    asked = pollscope("compare", run.path, "--by", "iommu", "--metric", "rx_pps", "--out", "drawn", cwd=tmp_path)
    assert asked.stdout.splitlines()[-1] == f"drawn/compare-iommu-{run.run_id}-rx_pps.csv"
    assert "modelled" not in done.stdout
    assert not done.stderr
    assert set(pd.read_csv(tmp_path / paths[3])["first_modelled"]) == {False}


@pytest.mark.thorough
def test_levels_of_a_modelled_run_are_said_to_be_so(tmp_path: Path) -> None:
    run = iommu_run(tmp_path / "run")
    lines = [{**json.loads(line), "modelled": True} for line in (run.path / "trials.jsonl").read_text().splitlines()]
    (run.path / "trials.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    shown = pollscope("compare", run.path, "--by", "iommu", "--out", "drawn", cwd=tmp_path)
    assert shown.stdout.startswith(f"{run.path} (modelled, not measured)\n")
    [data] = (tmp_path / "drawn").glob("*.csv")
    assert set(pd.read_csv(data)["second_modelled"]) == {True}


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "command",
    [("claims",), ("explain",), ("compare", "--by", "iommu"), ("figures", "--x", "knob.iommu", "--y", "rx_pps")],
)
def test_a_running_run_is_marked_as_unfinished(tmp_path: Path, command: tuple[str, ...]) -> None:
    run = iommu_run(tmp_path / "run", status="running")
    name, *options = command
    done = pollscope(name, run.path, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"warning: {run.path}: The run has not ended, or was killed: 9 of 9 planned trials") == 1


@pytest.mark.thorough
@pytest.mark.parametrize(("modes", "figures"), [(("off", "strict"), 1), (("off",), 0)])
def test_the_report_shows_the_levels_of_a_knob(tmp_path: Path, modes: tuple[str, ...], figures: int) -> None:
    run = iommu_run(tmp_path / "run", modes)
    assert len(compare_knobs(run)) == figures
    page = report_html([run])
    assert page.count("Levels of iommu, all else equal</h2>") == figures
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_a_knob_with_many_levels_is_no_comparison(tmp_path: Path) -> None:
    trials = [trial for ways in (1, 2, 4, 8) for trial in synthetic.repeated({"knob.ddio_ways": f"{ways} ways"}, 2)]
    assert compare_knobs(synthetic.run_of(tmp_path / "run", trials, row="I-WAYS")) == {}


def test_metrics_that_are_equal_everywhere_are_left_out_unless_requested(tmp_path: Path) -> None:
    run = iommu_run(tmp_path / "run")
    assert "loss_share" not in {each.metric for each in compare_levels(run, "iommu", None)}
    assert {each.metric for each in compare_levels(run, "iommu", ["loss_share"])} == {"loss_share"}


def test_differences_of_hosts_and_builds_are_listed(tmp_path: Path) -> None:
    sides: list[dict[str, Any]] = [
        {
            "host": {"microcode": code, "nics": {"0000:4b:00.0": {"link": link, "firmware": "22.35"}}},
            "build": {"commit": commit, "compiler": "GCC: (GNU) 13.2.1"},
            "generator": {"host": {"bios": "1.9.2"}},
        }
        for code, link, commit in (("0x1", "8.0 GT/s PCIe x8", "abc"), ("0x2", "16.0 GT/s PCIe x16", "abc-dirty"))
    ]
    sides[1]["generator"]["host"]["bios"] = "2.0.0"
    runs = [iommu_run(tmp_path / name, **side) for name, side in zip("ab", sides, strict=True)]
    assert differences_of(*runs) == [
        "host.microcode: 0x1 in A, 0x2 in B",
        "host.nics.0000:4b:00.0.link: 8.0 GT/s PCIe x8 in A, 16.0 GT/s PCIe x16 in B",
        "build.commit: abc in A, abc-dirty in B",
        "generator.host.bios: 1.9.2 in A, 2.0.0 in B",
    ]


@pytest.mark.thorough
def test_two_runs_are_a_and_b_with_what_differs(tmp_path: Path) -> None:
    one = iommu_run(tmp_path / "one", run_id="first", spec={"parameters": {"burst": 32}})
    two = iommu_run(tmp_path / "two", run_id="second", spec={"parameters": {"burst": 64}})
    done = pollscope("compare", one.path, two.path, "--metric", "rx_pps", "--out", "c.svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:4] == [
        f"A: {one.path}",
        f"B: {two.path}",
        "What differs between them:",
        "  parameters.burst: 32 in A, 64 in B",
    ]
    assert "their intervals exclude 0. Chance alone gives about 0.15." in done.stdout
    assert done.stdout.split()[-2:] == ["c.svg", "c.csv"]
