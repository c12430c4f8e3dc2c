# SPDX-License-Identifier: BSD-3-Clause
"""Thinned runs give the same verdicts as whole ones, and say where they cannot."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from pollscope.analysis.claims.evaluate import evaluate_run
from pollscope.base.errors import UsageError
from pollscope.store.results_table import current_table, write_table
from pollscope.store.run_folder import read_run
from pollscope.store.run_meta import check_resumable

CHECKOUT = Path(__file__).parents[1]
WHOLE = CHECKOUT / "data" / "runs" / "s-f10a-single-flow"


@pytest.fixture(scope="module")
def thinned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    script = [sys.executable, str(CHECKOUT / "data" / "runs" / "thin.py"), str(out)]
    source = out / "of" / "s-f10a-single-flow" / "1"
    source.mkdir(parents=True)
    for file in WHOLE.iterdir():
        (source / file.name).write_bytes(file.read_bytes())
    subprocess.run([*script, str(source)], check=True, cwd=CHECKOUT, timeout=120)
    return out / "s-f10a-single-flow"


def test_a_thinned_run_has_the_same_table_and_verdicts(thinned: Path) -> None:
    before, after = read_run(WHOLE), read_run(thinned)
    pd.testing.assert_frame_equal(
        current_table(after), current_table(before), check_dtype=False, check_categorical=False, check_like=True
    )
    assert [each.finding for each in evaluate_run(after)] == [each.finding for each in evaluate_run(before)]


def test_a_thinned_run_is_smaller_and_cannot_be_resumed(thinned: Path) -> None:
    run = read_run(thinned)
    lcores = [lcore for trial in run.trials for lcore in trial["result"]["dut"]["lcores"]]
    assert not any({"timed_intervals", "longest", "histograms"} & set(lcore) for lcore in lcores)
    with pytest.raises(UsageError, match="thinned"):
        check_resumable(run.meta, "run.json")


def test_a_metric_that_is_newer_than_the_table_is_absent(thinned: Path, tmp_path: Path) -> None:
    for file in thinned.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    table = pd.read_parquet(thinned / "results.parquet").drop(columns=["metric.tax_share", "absent.tax_share"])
    table.to_parquet(tmp_path / "results.parquet", index=False)
    found = current_table(read_run(tmp_path))
    assert found["metric.tax_share"].isna().all()
    assert set(found["absent.tax_share"]) == {"the run was thinned before this metric existed"}


@pytest.mark.parametrize("damage", [b"", b"PAR1 but not a table"])
def test_a_damaged_table_is_named(thinned: Path, tmp_path: Path, damage: bytes) -> None:
    for file in thinned.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "results.parquet").write_bytes(damage)
    with pytest.raises(UsageError, match="table of a thinned run cannot be read"):
        current_table(read_run(tmp_path))


@pytest.mark.parametrize(("column", "value"), [("flags", 5), ("flags", "rubbish"), ("repeat", "many")])
def test_a_table_with_other_types_is_refused(thinned: Path, tmp_path: Path, column: str, value: int | str) -> None:
    for file in thinned.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    pd.read_parquet(thinned / "results.parquet").assign(**{column: value}).to_parquet(tmp_path / "results.parquet")
    with pytest.raises(UsageError, match="table of a thinned run cannot be read"):
        current_table(read_run(tmp_path))


def test_a_table_of_other_trials_is_refused(thinned: Path, tmp_path: Path) -> None:
    for file in thinned.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    pd.read_parquet(thinned / "results.parquet").iloc[1:].to_parquet(tmp_path / "results.parquet", index=False)
    with pytest.raises(UsageError, match="rows for"):
        current_table(read_run(tmp_path))


def test_thinning_keeps_what_lies_at_its_target(thinned: Path) -> None:
    source = thinned.parent / "of" / "s-f10a-single-flow" / "1"
    script = [sys.executable, str(CHECKOUT / "data" / "runs" / "thin.py"), str(thinned.parent / "of"), str(source)]
    done = subprocess.run(script, cwd=CHECKOUT, timeout=120, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "s-f10a-single-flow" in done.stderr
    assert (source / "trials.jsonl").exists() or (source / "trials.jsonl.gz").exists()


def test_the_table_of_a_thinned_run_is_not_derived_again(thinned: Path) -> None:
    before = (thinned / "results.parquet").read_bytes()
    with pytest.raises(UsageError, match="thinned"):
        write_table(thinned)
    assert (thinned / "results.parquet").read_bytes() == before
