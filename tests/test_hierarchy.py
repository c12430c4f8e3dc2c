# SPDX-License-Identifier: BSD-3-Clause
"""Test repeats at two levels: known variances are recovered, and intervals have their coverage."""

import math
from pathlib import Path

import numpy as np
import pytest
import synthetic_run as synthetic
from command_line import pollscope

from pollscope.stats.hierarchy import hierarchy


def test_the_parts_equal_those_computed_by_hand() -> None:
    """Runs (1, 3), (5, 7), (3, 5): means 2, 6, 4 with variance 4; within 2; between 4 - 2 / 2 = 3."""
    found = hierarchy([(1.0, 3.0), (5.0, 7.0), (3.0, 5.0)])
    assert found.mean.value == 4
    half = 4.302652729911275 * math.sqrt(4 / 3)  # Student, two degrees
    assert (found.mean.low, found.mean.high) == pytest.approx((4 - half, 4 + half))
    assert found.between_trials**2 == pytest.approx(2)
    assert found.between_runs**2 == pytest.approx(3)
    assert found.trials_a_run == 2
    assert found.optimal_trials == 1  # sqrt(2 / 3)
    assert hierarchy([(1.0, 3.0), (5.0, 7.0), (3.0, 5.0)], run_over_trial_time=24).optimal_trials == 4


def test_runs_with_different_numbers_of_trials_weigh_the_same() -> None:
    found = hierarchy([(10.0,) * 9, (20.0,)])
    assert found.mean.value == 15
    assert found.trials_a_run == pytest.approx(2 / (1 / 9 + 1))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("runs", "trials", "between", "within"), [(4, 10, 3, 1), (8, 3, 1, 5), (10, 5, 0, 2)])
def test_the_interval_has_its_coverage_whatever_scatters(runs: int, trials: int, between: float, within: float) -> None:
    """A t interval over all trials as one sample covers 60 % in the first case."""
    rng, times = np.random.default_rng(3), 2000
    covered, variances = 0, []
    for _ in range(times):
        levels = 100 + between * rng.standard_normal(runs)
        found = hierarchy([(level + within * rng.standard_normal(trials)).tolist() for level in levels])
        covered += found.mean.low <= 100 <= found.mean.high
        variances.append(found.between_trials**2)
    # 1900 expected, standard deviation 10.
    assert 1855 <= covered <= 1945
    assert np.mean(variances) == pytest.approx(within**2, rel=0.05)


def test_more_trials_are_advised_if_runs_do_not_scatter() -> None:
    found = hierarchy([(1.0, 9.0), (9.0, 1.0), (1.0, 9.0)])
    assert (found.between_runs, found.optimal_trials) == (0, None)
    alone = hierarchy([(1.0,), (2.0,)])
    assert math.isnan(alone.between_trials)
    assert alone.optimal_trials is None


@pytest.mark.parametrize("runs", [[], [(1.0, 2.0)], [(1.0,), ()], [(1.0,), (math.nan,)]])
def test_invalid_groups_are_refused(runs: list[tuple[float, ...]]) -> None:
    with pytest.raises(ValueError, match="needs"):
        hierarchy(runs)


def test_history_puts_runs_together(tmp_path: Path) -> None:
    for day, level in enumerate((1.00e6, 1.10e6, 0.90e6), 1):
        run_id = f"202601{day:02}T000000Z-abcdef"
        trials = [synthetic.trial(f"t{r}", "p", r, pps=level * (1 + 0.01 * r)) for r in range(3)]
        synthetic.write_run(tmp_path / "results" / "synthetic" / run_id, trials, run_id=run_id)
    done = pollscope("history", "synthetic", "--together", "--metric", "rx_pps", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    line, costs = done.stdout.splitlines()
    assert line.startswith("rx_pps, all: 1.01 Mpps (")
    assert "over 3 runs; runs scatter by 9.98 %" in line
    assert line.endswith(": 1 trial per run instead of 3 would use the time best")
    assert costs.startswith("The recommended trials per run")
    both = pollscope("history", "synthetic", "--together", "--fail-on-change", cwd=tmp_path)
    assert both.returncode == 2
    assert "--together: shows no change of level" in both.stderr


@pytest.mark.thorough
def test_one_run_has_no_interval_over_runs(tmp_path: Path) -> None:
    run_id = "20260101T000000Z-abcdef"
    synthetic.write_run(tmp_path / "results" / "synthetic" / run_id, [synthetic.trial()], run_id=run_id)
    done = pollscope("history", "synthetic", "--together", "--metric", "rx_pps", cwd=tmp_path)
    assert done.stdout == "rx_pps, all: one run has it, and an interval over runs needs two\n"


def test_the_interval_of_a_rate_has_no_negative_end() -> None:
    found = hierarchy([(1e6, 1.1e6), (1e4, 2e4)], limits=(0.0, math.inf))
    assert (found.mean.low, found.mean.value) == (0, 532_500)
    assert hierarchy([(1e6, 1.1e6), (1e4, 2e4)]).mean.low < 0
