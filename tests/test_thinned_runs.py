# SPDX-License-Identifier: BSD-3-Clause
"""Thinned runs give the same verdicts as whole ones, and say where they cannot."""

import shutil
import subprocess
import sys
from collections.abc import Callable
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
    shutil.copytree(WHOLE, source)
    subprocess.run([*script, str(source)], check=True, cwd=CHECKOUT, timeout=120)
    return out / "s-f10a-single-flow"


def test_a_thinned_run_has_the_same_table_and_verdicts(thinned: Path) -> None:
    before, after = read_run(WHOLE), read_run(thinned)
    # A table that was read again has other sorts of nothing in columns without a value.
    found, wanted = (current_table(run).astype(object) for run in (after, before))
    pd.testing.assert_frame_equal(found.where(found.notna(), None), wanted.where(wanted.notna(), None), check_like=True)
    assert [each.finding for each in evaluate_run(after)] == [each.finding for each in evaluate_run(before)]


def test_a_thinned_run_is_smaller_and_cannot_be_resumed(thinned: Path) -> None:
    run = read_run(thinned)
    lcores = [lcore for trial in run.trials for lcore in trial["result"]["dut"]["lcores"]]
    assert not any({"timed_intervals", "longest", "histograms"} & set(lcore) for lcore in lcores)
    with pytest.raises(UsageError, match="thinned"):
        check_resumable(run.meta, "run.json")


def test_a_metric_that_is_newer_than_the_table_is_absent(thinned: Path, tmp_path: Path) -> None:
    shutil.copytree(thinned, tmp_path, dirs_exist_ok=True)
    table = pd.read_parquet(thinned / "results.parquet").drop(columns=["metric.tax_share", "absent.tax_share"])
    table.to_parquet(tmp_path / "results.parquet", index=False)
    found = current_table(read_run(tmp_path))
    assert found["metric.tax_share"].isna().all()
    assert set(found["absent.tax_share"]) == {"the run was thinned before this metric existed"}


Change = Callable[[pd.DataFrame], pd.DataFrame | bytes]
UNREADABLE = "table of a thinned run cannot be read"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda _table: b"", UNREADABLE),
        (lambda _table: b"PAR1 but not a table", UNREADABLE),
        (lambda table: table.assign(flags=5), UNREADABLE),
        (lambda table: table.assign(flags="rubbish"), UNREADABLE),
        (lambda table: table.assign(repeat="many"), UNREADABLE),
        (lambda table: table.iloc[1:], "rows for"),
    ],
)
def test_a_damaged_table_is_refused(thinned: Path, tmp_path: Path, change: Change, complaint: str) -> None:
    shutil.copytree(thinned, tmp_path, dirs_exist_ok=True)
    damaged = change(pd.read_parquet(thinned / "results.parquet"))
    if isinstance(damaged, bytes):
        (tmp_path / "results.parquet").write_bytes(damaged)
    else:
        damaged.to_parquet(tmp_path / "results.parquet", index=False)
    with pytest.raises(UsageError, match=complaint):
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
