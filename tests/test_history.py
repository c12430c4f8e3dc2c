# SPDX-License-Identifier: BSD-3-Clause
"""Test the history of runs: changes of level are found where they are, and none is invented."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import synthetic_run as synthetic
from command_line import pollscope

from pollscope.stats.change_point import FEWEST_OF_HISTORY, HISTORY_FALSE_ALARM, level_changes


@pytest.mark.one_in(3)
@pytest.mark.parametrize("n", [FEWEST_OF_HISTORY, 14, 30])
def test_the_rate_of_false_alarms_is_the_stated_one(n: int) -> None:
    rng, series = np.random.default_rng(4), 1000
    alarms = sum(bool(level_changes(rng.normal(100, 10, n).tolist())) for _ in range(series))
    # 10 of 1000 are expected; more than 24 come with probability 1e-4.
    assert alarms <= HISTORY_FALSE_ALARM * series + 14


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("n", "cut"), [(10, 5), (15, 10), (30, 25), (40, 8)])
@pytest.mark.parametrize("change", [0.9, 1.1])
def test_a_change_is_found_where_it_is(n: int, cut: int, change: float) -> None:
    rng, found = np.random.default_rng(5), []
    for _ in range(40):
        values = rng.normal(1000, 5, n)
        values[cut:] *= change
        found.append(level_changes(values.tolist()))
    assert sum(any(abs(at - cut) <= 2 for at in each) for each in found) >= 32


@pytest.mark.thorough
def test_runs_that_follow_their_neighbours_seldom_look_like_a_change() -> None:
    rng, alarms = np.random.default_rng(1), 0
    for _ in range(200):
        values = [1000.0]
        for shock in rng.normal(0, 50, 29):
            values.append(1000 + 0.3 * (values[-1] - 1000) + shock)
        alarms += bool(level_changes(values))
    assert alarms <= 24, "measured: 6 %"


def test_two_changes_are_found() -> None:
    rng = np.random.default_rng(6)
    values = np.concatenate([rng.normal(level, 1, 15) for level in (100, 120, 90)])
    assert level_changes(values.tolist()) == [15, 30]


@pytest.mark.parametrize(
    "values",
    [[], [1.0] * 30, [1.0, 2.0, 1.0, 9.0], [1000.0] * 10 + [1001.0] * 10, [0.0] * 60 + [1.0, 0.0, 0.0, 1.0, 0.0] * 15],
)
def test_a_short_or_small_shift_is_no_change(values: Sequence[float]) -> None:
    assert level_changes(values) == []


def results(folder: Path, rates: Sequence[float]) -> Path:
    """Write one run per rate, of two trials each; the first is the oldest."""
    for day, pps in enumerate(rates, 1):
        run_id = f"202601{day:02}T000000Z-abcdef"
        trials = synthetic.repeated({}, 2, pps * (1 + 7 * day % 5 / 1000), spread=0.01)
        synthetic.write_run(folder / "results" / "synthetic" / run_id, trials, run_id=run_id)
    return folder


def test_the_command_names_the_first_slower_run(tmp_path: Path) -> None:
    cwd = results(tmp_path, [1e6] * 6 + [0.9e6] * 5)
    done = pollscope("history", "synthetic", "--metric", "rx_pps", "--fail-on-change", cwd=cwd)
    assert (done.returncode, done.stderr) == (1, "")
    change, count, chance, beside = done.stdout.splitlines()
    assert change.startswith("rx_pps, all: changed at run 20260107T000000Z-abcdef: ")
    assert "(-10" in change
    assert count == "1 series (metric and point) over up to 11 runs; 1 change of level."
    assert chance == "Without any change about 0.01 of the series would show one."
    last, first = "20260106T000000Z-abcdef", "20260107T000000Z-abcdef"
    assert beside == f"From run {last} (A) to run {first} (B) nothing else changed."


@pytest.mark.thorough
def test_changes_of_the_spec_are_listed_below_the_change_point(tmp_path: Path) -> None:
    cwd = results(tmp_path, [1e6] * 6 + [0.9e6] * 5)
    for day in range(7, 12):
        file = cwd / "results" / "synthetic" / f"202601{day:02}T000000Z-abcdef" / "run.json"
        spec = {"name": "synthetic", "parameters": {"rx_desc": 64}}
        file.write_text(json.dumps(json.loads(file.read_text()) | {"spec": spec}))
    done = pollscope("history", "synthetic", "--metric", "rx_pps", cwd=cwd)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2:] == [
        "From run 20260106T000000Z-abcdef (A) to run 20260107T000000Z-abcdef (B) also changed:",
        "  parameters: nothing in A, {'rx_desc': 64} in B",
    ]


def test_too_few_runs_are_reported(tmp_path: Path) -> None:
    cwd = results(tmp_path, [1e6, 0.5e6])
    done = pollscope("history", "synthetic", "--metric", "rx_pps", "--fail-on-change", cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 of 1 have fewer than 10 runs, too few to tell a change." in done.stdout


def test_input_without_a_history_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    cwd = results(tmp_path, [1e6, 1e6])

    def refused(*words: str) -> str:
        done = pollscope("history", *words, cwd=cwd)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
        return done.stderr

    assert "is neither a file, a folder, nor a row or name of a spec" in refused("synthetik")
    assert "results/s-f5-polling-tax: holds no run folder" in refused("s-f5-polling-tax")
    assert "no metric is called 'rx_pqs'" in refused("synthetic", "--metric", "rx_pqs")
    assert "no run measured one of these metrics" in refused("synthetic", "--metric", "iotlb_miss_share")
    other = cwd / "results" / "synthetic" / "20260131T000000Z-abcdef"
    synthetic.write_run(other, [synthetic.trial()], run_id=other.name, host={"cpu_model": "ANOTHER"})
    assert f"{other.relative_to(cwd)}: is a run of another processor than" in refused("synthetic")


def test_runs_are_put_together(tmp_path: Path) -> None:
    cwd = results(tmp_path, [1.00e6, 1.10e6, 0.90e6])
    done = pollscope("history", "synthetic", "--together", "--metric", "rx_pps", cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    line, costs = done.stdout.splitlines()
    assert re.match(r"rx_pps, all: 1\.01 Mpps \(.* over 3 runs; runs scatter by 10\.1 %", line), line
    assert line.endswith(": 1 trial per run instead of 2 would use the time best")
    assert costs.startswith("The recommended trials per run")
    both = pollscope("history", "synthetic", "--together", "--fail-on-change", cwd=cwd)
    assert both.returncode == 2
    assert "--together: shows no change of level" in both.stderr
    alone = pollscope("history", "synthetic", "--together", "--metric", "rx_pps", cwd=results(tmp_path / "one", [1e6]))
    assert alone.stdout == "rx_pps, all: one run has it, and an interval over runs needs two\n"
