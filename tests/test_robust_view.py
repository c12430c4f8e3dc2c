# SPDX-License-Identifier: BSD-3-Clause
"""Test `--stat median` and `--without-flagged`: what people see changes, the verdict of a claim does not."""

import json
from pathlib import Path

import numpy as np
import pytest
import synthetic_run as synthetic
from command_line import pollscope
from matplotlib.figure import Figure

from pollscope.analysis.compare import compare_runs
from pollscope.analysis.figures.data import figure_data
from pollscope.analysis.figures.style import mean_line
from pollscope.analysis.point_values import PointValues, by_point, measured, viewed
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import read_run

# One trial of nine was disturbed: the mean follows it, the median does not.
_RATES = (1.00e6, 1.01e6, 0.99e6, 1.02e6, 0.98e6, 1.00e6, 1.01e6, 0.99e6, 0.2e6)


def _run(folder: Path, factor: float = 1.0) -> Path:
    trials = [synthetic.trial(f"p:{at}", "p", at, {}, pps=factor * rate) for at, rate in enumerate(_RATES)]
    trials[-1] = synthetic.disturbed(trials[-1])
    return synthetic.write_run(folder, trials)


def test_a_median_is_shown_with_its_interval(tmp_path: Path) -> None:
    run = viewed(read_run(_run(tmp_path / "run")), "median")
    (point,) = by_point(measured(current_table(run)), "rx_pps")
    assert point.estimate.value == pytest.approx(1.00e6, rel=1e-3)
    assert 0.97e6 < point.estimate.low <= point.estimate.high < 1.03e6
    assert figure_data("S-F5", run).caption.count("Medians of 9 trials per point") == 1


def test_the_run_itself_keeps_its_means(tmp_path: Path) -> None:
    run = read_run(_run(tmp_path / "run"))
    viewed(run, "median", without_flagged=True)
    (point,) = by_point(measured(current_table(run)), "rx_pps")
    assert point.estimate.value == pytest.approx(sum(_RATES) / 9, rel=1e-3)


def test_medians_are_compared_by_ranks(tmp_path: Path) -> None:
    one, two = (read_run(_run(tmp_path / name, factor)) for name, factor in (("a", 1.0), ("b", 1.1)))
    (means,) = compare_runs(one, two, ["rx_pps"])
    (medians,) = compare_runs(viewed(one, "median"), viewed(two, "median"), ["rx_pps"])
    assert means.p > 0.05 > medians.p
    assert medians.ratio.value == pytest.approx(1.1, rel=1e-3)
    assert medians.ratio.low > 1
    assert medians.change.low > 0


def test_runs_are_compared_without_their_flagged_trials(tmp_path: Path) -> None:
    one, two = (read_run(_run(tmp_path / name, factor)) for name, factor in (("a", 1.0), ("b", 1.1)))
    (rates,) = compare_runs(viewed(one, without_flagged=True), viewed(two, without_flagged=True), ["rx_pps"])
    assert (rates.first.n, rates.second.n, rates.flagged) == (8, 8, (0, 0))
    assert rates.ratio.value == pytest.approx(1.1, rel=1e-3)


def test_a_figure_of_medians_has_a_dot_per_trial() -> None:
    axes = Figure().subplots()
    points = [PointValues({}, tuple(float(value) for value in range(1, 10)), statistic="median")]
    mean_line(axes, [1.0], points, 1.0, 0)
    (dots,) = (line for line in axes.lines if line.get_marker() == ".")
    assert np.asarray(dots.get_ydata()).tolist() == list(range(1, 10))


def test_a_median_that_may_be_zero_has_no_ratio() -> None:
    zeros, ones = (PointValues({}, (value,) * 9, statistic="median") for value in (0.0, 1.0))
    assert not ones.over(zeros).has_interval
    assert not zeros.over(ones).has_interval


def test_a_view_of_a_claim_without_numbers_ends_with_no_colon(tmp_path: Path) -> None:
    claim = {
        "id": "rate",
        "statement": "It receives a million packets per second.",
        "metric": "rx_pps",
        "predicate": {"kind": "within", "low": 0.9e6, "high": 1.1e6},
    }
    trials = [synthetic.disturbed(synthetic.trial(f"p:{at}", "p", at, {}, pps=rate)) for at, rate in enumerate(_RATES)]
    absent = {**claim, "id": "ipc", "metric": "ipc"}
    spec = {"claims": [claim, absent]}
    run = synthetic.write_run(tmp_path / "run", trials, row=None, spec=spec, spec_name="mine")
    lines = pollscope("claims", run, "--all", "--without-flagged", cwd=tmp_path).stdout.splitlines()
    [view] = [line for line in lines if "which would say" in line]
    assert view.startswith("  means without flagged trials, which would say 'not measurable here': ")


def test_claims_keep_their_verdict_and_show_the_view(tmp_path: Path) -> None:
    claim = {
        "id": "rate",
        "statement": "It receives a million packets per second.",
        "metric": "rx_pps",
        "predicate": {"kind": "within", "low": 0.9e6, "high": 1.1e6},
    }
    trials = [synthetic.trial(f"p:{at}", "p", at, {}, pps=rate) for at, rate in enumerate(_RATES)]
    run = synthetic.write_run(tmp_path / "run", trials, row=None, spec={"claims": [claim]}, spec_name="mine")
    plain = pollscope("claims", run, cwd=tmp_path)
    shown = pollscope("claims", run, "--stat", "median", cwd=tmp_path)
    assert (plain.returncode, shown.returncode, shown.stderr) == (0, 0, "")
    assert "INCONCLUSIVE" in plain.stdout
    assert "INCONCLUSIVE" in shown.stdout
    assert "medians, which would say 'agrees':\n    all: 1 Mpps (" in shown.stdout
    as_json = pollscope("claims", run, "--stat", "median", "--without-flagged", "--json", cwd=tmp_path)
    (verdict,) = (each for each in json.loads(as_json.stdout) if each["claim"] == "mine.rate")
    assert (verdict["verdict"], verdict["view"]["by"]) == ("inconclusive", "medians without flagged trials")
