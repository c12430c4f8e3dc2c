# SPDX-License-Identifier: BSD-3-Clause
"""Check the undisturbed level on planted hosts: levels, dips, drifts, and no levels at all."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import synthetic_run as synthetic

from pollscope.analysis.point_values import by_point, measured
from pollscope.analysis.run_section import run_section
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.undisturbed import UNDISTURBED
from pollscope.stats.estimates import mean_estimate
from pollscope.stats.levels import FEWEST_VALUES, drift, upper_level
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import read_run

Values = npt.NDArray[np.float64]
_RUNS, _VALUES, _LEVEL, _NOISE = 100, 50, 67e6, 0.01


def _noise(chance: np.random.Generator) -> Values:
    return 1 + _NOISE * chance.standard_normal(_VALUES)


def _levels(chance: np.random.Generator, ratio: float = 1.5, share: float = 0.5) -> Values:
    """Return two levels that stay for a few windows; the host is at the upper one for this share of the time."""
    upper = np.empty(_VALUES, bool)
    upper[0] = chance.random() < share
    for at in range(1, _VALUES):
        upper[at] = chance.random() < share if chance.random() < 0.6 else upper[at - 1]
    return _noise(chance) * np.where(upper, 1, 1 / ratio)


def _dips(chance: np.random.Generator) -> Values:
    return _noise(chance) - np.where(chance.random(_VALUES) < 0.4, 0.4 * chance.random(_VALUES), 0)


def _near_dips(chance: np.random.Generator) -> Values:
    """Return dips from nothing on, so that many are smaller than the noise."""
    return _noise(chance) - np.where(chance.random(_VALUES) < 0.4, chance.exponential(0.05, _VALUES), 0)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("planted", "most_bias", "least_coverage"),
    [
        (_noise, 0.001, 0.9),
        (_levels, 0.002, 0.9),
        (partial(_levels, share=0.4), 0.02, 0.85),
        (partial(_levels, ratio=1.08), 0.004, 0.85),
        (_dips, 0.002, 0.85),
        (_near_dips, 0.008, 0.4),
    ],
    ids=["no levels", "levels", "mostly disturbed", "close levels", "dips", "near dips"],
)
def test_the_upper_level_is_found(
    planted: Callable[[np.random.Generator], Values], most_bias: float, least_coverage: float
) -> None:
    """The mean over all values is off by up to a quarter; docs/validity.md has the bias of the level."""
    chance, found, covered = np.random.default_rng(8), [], 0
    for _ in range(_RUNS):
        values = _LEVEL * planted(chance)
        estimate = mean_estimate(values[upper_level(values)].tolist())
        found.append(estimate.value / _LEVEL - 1)
        covered += estimate.low <= _LEVEL <= estimate.high
    assert abs(np.mean(found)) <= most_bias
    assert covered >= least_coverage * _RUNS


@pytest.mark.parametrize("values", [[0.0] * 30, [5.0] * 30, [0.0] * 15 + [-1.0] * 15, [2.0] * 29 + [1.0]])
def test_equal_values_and_zeros_have_a_level(values: list[float]) -> None:
    at_level = upper_level(values)
    assert at_level.tolist() == [value == max(values) for value in values]
    assert drift(np.array(values)[at_level]) == 0


def test_a_drift_is_no_level() -> None:
    chance, seen = np.random.default_rng(9), 0
    for _ in range(_RUNS):
        values = _LEVEL * _noise(chance) * np.linspace(1, 0.9, _VALUES)
        seen += drift(values[upper_level(values)]) != 0
    assert seen >= 0.9 * _RUNS


def test_a_constant_level_seldom_drifts() -> None:
    chance = np.random.default_rng(10)
    assert sum(drift(_LEVEL * _noise(chance)) != 0 for _ in range(_RUNS)) <= 3


def _run(folder: Path, rates: Sequence[float]) -> Path:
    trials = [synthetic.trial(f"p:{repeat}", "p", repeat, {}, pps=rate) for repeat, rate in enumerate(rates)]
    return synthetic.write_run(folder, trials)


def test_a_run_has_both_numbers_and_the_report_shows_them_where_they_differ(tmp_path: Path) -> None:
    chance = np.random.default_rng(12)
    rates = [1e6 * (1 + 0.01 * chance.standard_normal()) / (1.5 if at % 3 == 0 else 1) for at in range(30)]
    run = read_run(_run(tmp_path / "levels", rates))
    (whole,), (level,) = (by_point(measured(current_table(run)), name) for name in ("rx_pps", "undisturbed_rx_pps"))
    assert (len(whole.values), len(level.values)) == (30, 20)
    assert whole.estimate.value == pytest.approx(0.89e6, rel=0.02)
    assert level.estimate.low <= 1e6 <= level.estimate.high
    reasons = set(current_table(run)["absent.undisturbed_rx_pps"].dropna())
    assert reasons == {"the trial was disturbed: it lies off the undisturbed level of its point"}
    shown = {name for table in run_section(run, 0).tables for name in table.metrics}
    assert {"rx_pps", "undisturbed_rx_pps"} <= shown


def test_a_quiet_run_shows_one_number(tmp_path: Path) -> None:
    chance = np.random.default_rng(13)
    run = read_run(_run(tmp_path / "quiet", [1e6 * (1 + 0.01 * chance.standard_normal()) for _ in range(30)]))
    (level,) = by_point(measured(current_table(run)), "undisturbed_rx_pps")
    assert len(level.values) == 30
    assert "undisturbed_rx_pps" not in {name for table in run_section(run, 0).tables for name in table.metrics}


def test_few_trials_have_no_undisturbed_level(tmp_path: Path) -> None:
    run = read_run(_run(tmp_path / "few", [1e6 + at for at in range(5)]))
    reasons = set(current_table(run)["absent.undisturbed_rx_pps"])
    assert reasons == {f"5 trials at this point; an undisturbed level takes {FEWEST_VALUES}"}


def test_each_undisturbed_metric_has_the_unit_and_the_merit_of_its_own() -> None:
    known = metric_dictionary()
    for name, of in UNDISTURBED.items():
        assert (known[name].unit, known[name].better) == (known[of].unit, known[of].better)
        assert known[name].better != "neither"
