# SPDX-License-Identifier: BSD-3-Clause
"""Test core scaling: exact parts of the lost rate, recovered parameters of known laws, and refusals."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import synthetic_run as synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

from pollscope.analysis.figures.files import svg_text
from pollscope.analysis.figures.scaling import draw_contributions, draw_laws
from pollscope.analysis.figures.style import look
from pollscope.analysis.scaling import (
    COLUMNS,
    PARTS,
    contributions,
    law_parameters,
    laws,
    paper_tables,
    points,
    scaling_of_run,
)
from pollscope.base.errors import UsageError
from pollscope.stats.scaling_laws import fit_amdahl, fit_usl
from pollscope.store.run_folder import RunFolder, read_run

CORES = [1, 2, 4, 6, 8, 12, 16, 24]
USL = "Universal Scalability Law"


def usl(cores: float, gamma: float = 10e6, sigma: float = 0.05, kappa: float = 0.002) -> float:
    return gamma * cores / (1 + sigma * (cores - 1) + kappa * cores * (cores - 1))


def law_table(error: float = 0.0, seed: int = 1, **law: float) -> pd.DataFrame:
    """Return rates of a law with independent relative errors."""
    rng = np.random.default_rng(seed)
    rates = [usl(cores, **law) * math.exp(error * rng.standard_normal()) for cores in CORES]
    return pd.DataFrame({"cores": CORES, "rate_pps": rates})


def cycle_table(rows: list[tuple[int, float, float, float]]) -> pd.DataFrame:
    """Return rows of cores, useful share, cycles per packet and frequency, with the rate that follows."""
    return pd.DataFrame([(n, n * u * f / c, u, c, f) for n, u, c, f in rows], columns=list(COLUMNS))


SHARES, CYCLES, HZ = st.floats(0.01, 1), st.floats(10, 1e5), st.floats(1e8, 6e9)
ROWS = st.lists(st.tuples(st.integers(2, 64), SHARES, CYCLES, HZ), min_size=1, max_size=6)


def test_each_cause_alone_is_all_of_the_loss() -> None:
    found = contributions(cycle_table([(1, 0.8, 100, 2e9), (2, 0.4, 100, 2e9), (3, 0.8, 200, 2e9), (4, 0.8, 100, 1e9)]))
    assert list(found["efficiency"]) == pytest.approx([1, 0.5, 0.5, 0.5])
    for row, part in zip((1, 2, 3), PARTS, strict=False):
        lost = [found[f"{each}_contribution"][row] for each in PARTS]
        assert lost == pytest.approx([-0.5 if each == part else 0 for each in PARTS])


def test_a_cost_that_every_core_has_alike_is_no_loss() -> None:
    found = contributions(cycle_table([(1, 0.3, 100, 2e9), (8, 0.3, 100, 2e9)]))
    assert list(found["efficiency"]) == pytest.approx([1, 1])
    assert found.filter(like="contribution").to_numpy() == pytest.approx(0, abs=1e-12)


def test_a_rate_that_the_cycles_do_not_explain_is_said() -> None:
    table = cycle_table([(1, 0.8, 100, 2e9), (2, 0.8, 100, 2e9)])
    table["rate_pps"] *= [1.0, 0.9]
    found = contributions(table)
    assert found["unexplained_ratio"][1] == pytest.approx(0.9)
    assert found["unexplained_contribution"][1] == pytest.approx(-0.1)


@settings(deadline=None, max_examples=50)
@given(st.tuples(SHARES, CYCLES, HZ), ROWS)
def test_the_ratios_multiply_and_the_contributions_add_up(one: tuple[float, float, float], rows: list[Any]) -> None:
    """This also holds for several trials of one number of cores."""
    found = contributions(cycle_table([(1, *one), *rows]))
    assert found["unexplained_ratio"].to_numpy() == pytest.approx(1)
    product = found["useful_ratio"] * found["cycles_ratio"] * found["frequency_ratio"]
    assert product.to_numpy() == pytest.approx(found["efficiency"].to_numpy())
    total = found[[f"{part}_contribution" for part in PARTS]].sum(axis=1)
    assert total.to_numpy() == pytest.approx(found["efficiency"].to_numpy() - 1, rel=1e-6, abs=1e-8)


@settings(deadline=None, max_examples=50)
@given(st.tuples(SHARES, CYCLES, HZ), ROWS, st.randoms(use_true_random=False))
def test_neither_order_nor_unit_matters(one: tuple[float, float, float], rows: list[Any], chance: Any) -> None:
    table = cycle_table([(1, *one), *rows])
    order = list(range(len(table)))
    chance.shuffle(order)
    other = table.iloc[order].assign(rate_pps=lambda each: each["rate_pps"] * 1e-6)
    one_way, other_way = contributions(table), contributions(other)
    names = ["efficiency", *(f"{part}_contribution" for part in PARTS)]
    assert other_way[names].to_numpy() == pytest.approx(one_way[names].to_numpy(), rel=1e-6, abs=1e-8)


def test_the_parameters_of_an_exact_law_are_recovered() -> None:
    found = laws(law_table())[USL]
    assert found.kappa is not None
    assert found.peak_cores is not None
    assert [found.gamma.value, found.sigma.value] == pytest.approx([10e6, 0.05])
    assert found.kappa.value == pytest.approx(0.002)
    assert found.peak_cores.value == pytest.approx(math.sqrt(0.95 / 0.002)), "the closed form of N*"
    assert found.rate(7) == pytest.approx(usl(7))


def test_amdahls_law_is_recovered_and_has_no_peak() -> None:
    table = law_table(kappa=0)
    amdahl, general = laws(table).values()
    assert amdahl.sigma.value == pytest.approx(0.05)
    assert (amdahl.kappa, amdahl.peak_cores) == (None, None)
    assert general.kappa is not None
    assert general.kappa.low == 0
    assert general.peak_cores is None


def test_a_peak_is_stated_only_where_kappa_is_not_zero() -> None:
    noisy = laws(law_table(error=0.02, kappa=1e-5))[USL]
    assert noisy.kappa is not None
    assert noisy.kappa.low == 0 < noisy.kappa.high
    assert noisy.peak_cores is None
    assert noisy.no_peak.startswith("kappa may be 0")
    amdahl, plain = laws(law_table(error=0.01)).values()
    assert (amdahl.free, amdahl.censored) == (len(CORES), 0)
    assert amdahl.residual > 0.01, "kappa is missing from it"
    assert plain.kappa is not None
    assert plain.peak_cores is not None
    assert plain.kappa.low > 0
    assert plain.peak_cores.low < plain.peak_cores.value < plain.peak_cores.high
    assert plain.peak_cores.low < math.sqrt(0.95 / 0.002) < plain.peak_cores.high


@pytest.mark.thorough
def test_intervals_hold_the_true_parameters_as_often_as_they_say() -> None:
    """Of 20 times three intervals of 95 %, 3 miss on average; 12 or more do with probability 1e-4."""
    missed = 0
    for seed in range(20):
        found = laws(law_table(error=0.02, seed=seed))[USL]
        assert found.kappa is not None
        known = (found.gamma, 10e6), (found.sigma, 0.05), (found.kappa, 0.002)
        missed += sum(not each.low <= true <= each.high for each, true in known)
    assert missed < 12


def test_points_at_the_limit_bind_from_below_only() -> None:
    free, limit = law_table(), 55e6
    capped = free.assign(rate_pps=free["rate_pps"].clip(upper=limit))
    found = points(capped, limit)
    assert list(found["censored"]) == [usl(cores) >= limit * 0.98 for cores in CORES]
    more = pd.concat([capped, pd.DataFrame({"cores": [3, 5], "rate_pps": [usl(3), usl(5)]})])
    fitted = laws(more, limit)[USL]
    assert fitted.kappa is not None
    assert fitted.kappa.value == pytest.approx(0.002, rel=1e-3), "the cap is not taken for contention"
    assert (fitted.free, fitted.censored) == (6, 4)
    blind = laws(more)[USL]
    assert blind.sigma.value != pytest.approx(0.05, rel=0.05)


def test_a_law_below_a_censored_point_is_pulled_up() -> None:
    cores, rates = [1, 2, 3, 4, 5, 6, 7], [1.0, 1.9, 2.7, 3.4, 4.0, 4.5, 9.0]
    without = fit_amdahl(cores[:6], rates[:6], [False] * 6)
    with_it = fit_amdahl(cores, rates, [False] * 6 + [True])
    assert with_it.rate(7) > without.rate(7)


@pytest.mark.parametrize(
    ("name", "free", "censored"), [("C-T2 same_numa", 3, 1), ("C-T3 same_numa", 4, 0), ("I-F4", 2, 0)]
)
def test_no_law_is_fitted_to_the_papers_few_points(name: str, free: int, censored: int) -> None:
    table, limit = paper_tables()[name]
    assert int(points(table, limit)["censored"].sum()) == censored
    with pytest.raises(UsageError, match=f"no law is fitted: {free} free points.*takes 6"):
        laws(table, limit)
    with pytest.raises(ValueError, match="5 free points"):
        fit_usl([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [False] * 5)


def test_parameters_are_listed_with_what_is_absent() -> None:
    listed = law_parameters(laws(law_table(error=0.02, kappa=0)))
    assert list(listed["parameter"]) == ["gamma", "sigma", "gamma", "sigma", "kappa", "peak_cores"]
    peak = listed.iloc[-1]
    assert math.isnan(peak["value"])
    assert peak["absent"].startswith("kappa may be 0")
    assert listed[listed["parameter"] != "peak_cores"]["absent"].eq("").all()


GOOD = {"cores": 2, "rate_pps": 1e6, "useful_share": 0.5, "cycles_per_useful_packet": 100.0, "frequency_hz": 2e9}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rate_pps": -1.0}, "table: row 1, column rate_pps: is -1.0"),
        ({"rate_pps": math.nan}, "table: row 1, column rate_pps: is nan"),
        ({"rate_pps": "many"}, "table: row 1, column rate_pps: is many"),
        ({"cores": 1.5}, "table: row 1, column cores: is 1.5"),
        ({"cores": 0}, "table: row 1, column cores: is 0"),
        ({"useful_share": 1.2}, "column useful_share: is 1.2"),
        ({"frequency_hz": math.inf}, "column frequency_hz: is inf"),
        ({"cycles_per_useful_packet": 0}, "column cycles_per_useful_packet: is 0"),
    ],
)
def test_an_invalid_quantity_is_refused_in_one_line(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as refused:
        contributions(pd.DataFrame([GOOD | {"cores": 1}, GOOD | change]))
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_tables_that_lack_something_are_refused() -> None:
    with pytest.raises(UsageError, match="no column useful_share, frequency_hz"):
        contributions(pd.DataFrame([GOOD]).drop(columns=["useful_share", "frequency_hz"]))
    with pytest.raises(UsageError, match="no row is of one core"):
        contributions(pd.DataFrame([GOOD]))
    with pytest.raises(UsageError, match="has no row"):
        points(pd.DataFrame(columns=["cores", "rate_pps"]))
    with pytest.raises(UsageError, match="the limit is -3"):
        points(law_table(), -3)


def swept(folder: Path, more: dict[str, list[Any]] | None = None) -> RunFolder:
    points = synthetic.crossed({"cores": (1, 2), **(more or {})})
    trials = [trial for at in points for trial in synthetic.repeated(at, 2)]
    return synthetic.run_of(folder, trials, row="S-F13", rows=["S-F13"])


def test_a_run_that_swept_cores_is_a_table(tmp_path: Path) -> None:
    table = scaling_of_run(swept(tmp_path / "run"))
    assert (len(table), set(table["frequency_hz"])) == (4, {synthetic.TSC_HZ})
    found = contributions(table)
    assert found["efficiency"][1] == pytest.approx(0.5), (
        "the synthetic trials forward the same with two cores as with one"
    )
    # The counters show one lcore only, so half of the cores is missing.
    assert found["unexplained_ratio"][1] == pytest.approx(0.5, rel=0.02)


def test_a_run_that_swept_more_or_less_is_refused(tmp_path: Path) -> None:
    run = swept(tmp_path / "run", {"frame": [64, 256]})
    with pytest.raises(UsageError, match="choose: frame of 64, 256"):
        scaling_of_run(run)
    assert len(scaling_of_run(run, where={"frame": 64})) == 4
    with pytest.raises(UsageError, match="no trial has rx_pps"):
        scaling_of_run(run, where={"frame": 99})
    with pytest.raises(UsageError, match="no factor 'load'"):
        scaling_of_run(run, where={"frame": 64, "load": 1})
    one = synthetic.write_run(tmp_path / "one", [synthetic.trial()])
    with pytest.raises(UsageError, match="did not sweep cores"):
        scaling_of_run(read_run(one))


def test_both_figures_are_drawn() -> None:
    table = law_table()
    with look():
        stacked = svg_text(
            draw_contributions(contributions(cycle_table([(1, 0.8, 100, 2e9), (2, 0.5, 90, 2e9)]))), opaque=True
        )
        figure = draw_laws(points(table), laws(table))
        drawn = svg_text(figure, opaque=True)
        few = draw_laws(points(*paper_tables()["C-T2 same_numa"]), {})
    assert "useful share of cycles" in stacked
    assert USL in drawn
    assert any(np.asarray(line.get_xdata())[0] == pytest.approx(21.79, abs=0.01) for line in figure.axes[0].lines), "N*"
    assert "at the limit" in [text.get_text() for text in few.legends[0].get_texts()]
    assert sorted(each.get_text() for each in few.axes[0].get_xticklabels()) == ["1", "2", "3", "4"], "cores are whole"
