# SPDX-License-Identifier: BSD-3-Clause
"""Test `pollscope query`: answers of SQL over runs, its limits, and its messages for bad input."""

import csv
import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
import synthetic_run as synthetic
from command_line import Done, pollscope

from pollscope.store.results_table import current_table
from pollscope.store.run_folder import read_run

IDS = ("20260101T000000Z-abcdef", "20260102T000000Z-abcdef")


def results(folder: Path) -> Path:
    """Write a folder with two runs of one spec, of two and three trials."""
    for number, run_id in enumerate(IDS):
        trials = [
            synthetic.trial(f"t{r}", "p", r, {"queues": 1 + number}, pps=(1 + number) * 1e6) for r in range(2 + number)
        ]
        synthetic.write_run(folder / "results" / "synthetic" / run_id, trials, run_id=run_id)
    return folder


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    return results(tmp_path)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the same with its tables, for tests that change nothing."""
    folder = results(tmp_path_factory.mktemp("kept"))
    assert asked("SELECT count(*) FROM trials", folder).returncode == 0
    return folder


def asked(sql: str, cwd: Path, *more: str) -> Done:
    return pollscope("query", sql, *more, cwd=cwd)


def refused(sql: str, cwd: Path, *more: str) -> str:
    done = asked(sql, cwd, *more)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done
    return done.stderr


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_query_answers_over_all_runs(cwd: Path) -> None:
    columns = 'run_id, "factor.queues" AS q, count(*) AS n, round(avg("metric.rx_pps")) AS pps'
    done = asked(f"SELECT {columns} FROM trials GROUP BY ALL ORDER BY q", cwd)
    assert (done.returncode, done.stderr) == (0, "")
    head, *lines = [line.split() for line in done.stdout.splitlines()]
    assert head == ["run_id", "q", "n", "pps"]
    assert [line[:3] for line in lines] == [[IDS[0], "1", "2"], [IDS[1], "2", "3"]]
    means = [current_table(read_run(cwd / "results" / "synthetic" / each))["metric.rx_pps"].mean() for each in IDS]
    assert [float(line[3].replace(",", "")) for line in lines] == pytest.approx(means, rel=1e-4)


def test_runs_are_a_table_as_well(kept: Path) -> None:
    done = asked("SELECT run_id, spec, host, folder FROM runs ORDER BY run_id", kept, "results", "--csv")
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["run_id"] for row in rows] == list(IDS)
    assert {(row["spec"], row["host"]) for row in rows} == {("synthetic", "SYNTHETIC CPU")}
    assert rows[0]["folder"] == f"results/synthetic/{IDS[0]}"


def test_csv_and_parquet_hold_every_row_with_all_digits(cwd: Path) -> None:
    sql = 'SELECT trial, "metric.rx_pps" AS pps, "metric.ipc" AS ipc FROM trials ORDER BY run_id, trial'
    for name in ("x.csv", "x.parquet"):
        done = asked(sql, cwd, "--out", name)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{name}\n", "")
    tables = [current_table(read_run(cwd / "results" / "synthetic" / each)) for each in IDS]
    stored = pd.concat(tables, ignore_index=True)["metric.rx_pps"].tolist()
    assert pd.read_parquet(cwd / "x.parquet")["pps"].tolist() == stored
    assert pd.read_csv(cwd / "x.csv")["pps"].tolist() == stored
    assert pd.read_csv(cwd / "x.csv")["ipc"].isna().all()
    assert {path.name for path in cwd.iterdir()} == {"results", "x.csv", "x.parquet"}


def test_a_long_table_says_what_it_leaves_out(kept: Path) -> None:
    done = asked("SELECT * FROM range(1000) AS t(n)", kept)
    *lines, last = done.stdout.splitlines()
    assert len(lines) == 1 + 200
    assert last == "... and 800 more rows; --csv or --out FILE gives all 1000"
    assert len(asked("SELECT * FROM range(1000) AS t(n)", kept, "--csv").stdout.splitlines()) == 1001
    assert asked("SELECT * FROM trials WHERE false", kept).stdout.splitlines()[-1] == "no row"


def test_an_outdated_table_is_derived_again(cwd: Path) -> None:
    count = "SELECT count(*) AS n FROM trials"
    assert asked(count, cwd).stdout.split() == ["n", "5"]
    run = cwd / "results" / "synthetic" / IDS[0]
    before = (run / "results.parquet").stat()
    with (run / "trials.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(synthetic.trial("t9", "p", 2, {"queues": 1})) + "\n")
    # As after unpacking a folder: by its time the table is the newest file.
    os.utime(run / "results.parquet", ns=(before.st_mtime_ns + 10**12, before.st_mtime_ns + 10**12))
    assert asked(count, cwd).stdout.split() == ["n", "6"]
    (run / "results.parquet").write_bytes(b"PAR1 broken")
    assert asked(count, cwd).stdout.split() == ["n", "6"]


def test_levels_that_are_numbers_in_one_run_and_words_in_another_are_words(cwd: Path) -> None:
    for name, frame in (("x", 64), ("y", "imix")):
        trials = [synthetic.trial("t0", "p", 0, {"frame": frame})]
        synthetic.write_run(
            cwd / "results" / "other" / name, trials, run_id=f"2026010{3 + (frame == 64)}T000000Z-abcdef"
        )
    done = asked('SELECT DISTINCT "factor.frame" AS f FROM trials WHERE f IS NOT NULL ORDER BY f', cwd, "--csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["f", "64", "imix"]


def test_runs_of_several_hosts_are_said_to_be(cwd: Path) -> None:
    other = cwd / "results" / "synthetic" / "20260103T000000Z-abcdef"
    synthetic.write_run(other, [synthetic.trial()], run_id=other.name, host={"cpu_model": "ANOTHER"})
    done = asked("SELECT count(*) FROM trials", cwd)
    assert done.returncode == 0
    assert done.stderr == "note: runs of 2 hosts (column host): ANOTHER; SYNTHETIC CPU\n"


def test_numbers_of_a_model_are_said_to_be_in_an_answer(cwd: Path) -> None:
    other = cwd / "results" / "synthetic" / "20260103T000000Z-abcdef"
    synthetic.write_run(other, [{**synthetic.trial(), "modelled": True}], run_id=other.name)
    mixed = asked('SELECT avg("metric.rx_pps") FROM trials', cwd)
    assert mixed.stderr == "note: 1 trials are modelled, not measured (column modelled)\n"
    assert asked('SELECT avg("metric.rx_pps") FROM trials WHERE NOT modelled', cwd).stderr == ""


def test_a_folder_whose_name_is_a_pattern_is_that_folder(cwd: Path) -> None:
    shutil.move(cwd / "results", cwd / "re[s]ul*'ts?")
    assert asked("SELECT count(*) AS n FROM trials", cwd, "re[s]ul*'ts?").stdout.split() == ["n", "5"]


WRITES = {
    "COPY trials TO 'x.csv'": "COPY is refused: only SELECT is executed",
    "CREATE TABLE x (y INT)": "CREATE is refused",
    "CREATE OR REPLACE VIEW trials AS SELECT 1": "CREATE is refused",
    "INSERT INTO every_run VALUES (1)": "INSERT is refused",
    "UPDATE every_run SET spec = 'x'": "UPDATE is refused",
    "DELETE FROM every_run": "DELETE is refused",
    "DROP VIEW trials": "DROP is refused",
    "ATTACH 'x.db'": "ATTACH is refused",
    "INSTALL httpfs": "INSTALL is refused",
    "LOAD httpfs": "LOAD is refused",
    "PRAGMA database_list": "PRAGMA is refused",
    "SET threads = 1": "SET is refused",
    "EXPORT DATABASE 'x'": "EXPORT is refused",
    "CALL pragma_version()": "CALL is refused",
    "BEGIN": "BEGIN is refused",
    "EXPLAIN ANALYZE COPY trials TO 'x.csv'": "EXPLAIN is refused",
    "SELECT 1; DROP VIEW trials": "DROP is refused",
    "SELECT 1; SELECT 2": "2 statements are given (give one)",
    # A SELECT by name only: DuckDB executes its WITH clause.
    "WITH x AS (COPY runs TO 'x.csv') SELECT * FROM x": "COPY is refused: only what reads the runs is executed",
    "WITH x AS (INSERT INTO every_run (spec) VALUES (1) RETURNING spec) FROM x": "INSERT is refused",
    "SELECT (WITH x AS (DELETE FROM every_run RETURNING spec) SELECT count(*) FROM x)": "DELETE is refused",
    "FROM query('WITH x AS (COPY runs TO ''x.csv'') FROM x')": "the table function query is refused",
    "FROM json_execute_serialized_sql('{}')": "the table function json_execute_serialized_sql is refused",
    "FROM read_csv('/etc/passwd')": "the table function read_csv is refused",
    "FROM pragma_database_list": "pragma_database_list is refused: only what reads the runs is executed",
    "FROM duckdb_settings()": "duckdb_settings is refused",
    "FROM duckdb_views": "duckdb_views is refused",
    "FROM sqlite_master": "sqlite_master is refused",
    "FROM every_run": "every_run is refused",
    "SELECT current_setting('temp_directory')": "current_setting is refused",
    "SELECT main.\"Write_Log\"('x') FROM trials": "write_log is refused",
    "SELECT 'x'.write_log()": "write_log is refused",
    "FROM query('SELECT wri' || 'te_log(''x'')')": "the table function query is refused",
    "FROM system.main.glob('/*')": "the table function glob is refused",
    "FROM pandas_scan(1, 2, 3)": "the table function pandas_scan is refused",
    "SELECT 1\nFROM read_text('/etc/passwd')": "the table function read_text is refused",
    "FROM '/etc/passwd.csv'": "Cannot access file",
    "FROM 'https://example.org/x.parquet'": "Cannot access file",
    "FROM json_tree('[]') JOIN 'results/synthetic/x/run.json' ON true": "Cannot access file",
    "": "there is no statement",
    "/* nothing */": "there is no statement",
    "SELEC 1": 'SQL line 1: Parser Error: syntax error at or near "SELEC"',
    "FROM nowhere": "SQL line 1: Catalog Error: Table with name nowhere does not exist!",
    'SELECT "factor.queue" FROM trials': 'Candidate bindings: "factor.queues"',
    "SELECT 1,\n nothing FROM trials": 'SQL line 2: Binder Error: Referenced column "nothing" not found',
    "SELECT CAST(run_id AS INT) FROM trials": "Could not convert string",
    "FROM refused": "Catalog Error",
    "SELECT '\ud800'": "SQL: ",
}


@pytest.mark.parametrize("sql", WRITES)
def test_a_query_that_writes_is_refused_and_changes_nothing(kept: Path, sql: str) -> None:
    before = files(kept)
    assert WRITES[sql] in refused(sql, kept)
    assert files(kept) == before


def test_no_number_is_called_by_its_name(kept: Path) -> None:
    assert asked("SELECT 1/0 AS a, 'nan'::DOUBLE AS b", kept).stdout.split() == ["a", "b", "inf", "nan"]


def test_not_even_the_file_that_is_open_is_written_over(kept: Path) -> None:
    """DuckDB would: the file is one that it may access, and USE_TMP_FILE avoids the name that is not."""
    file = kept / "results" / "synthetic" / IDS[0] / "results.parquet"
    before = file.read_bytes()
    sql = f"WITH x AS (COPY runs TO '{file}' (USE_TMP_FILE false)) FROM x"
    assert "COPY is refused" in refused(sql, kept)
    assert file.read_bytes() == before


def test_no_variable_of_the_program_is_seen(kept: Path) -> None:
    assert "Table with name connection does not exist" in refused("FROM connection", kept)


def test_a_folder_without_runs_or_of_another_format_is_refused(cwd: Path) -> None:
    one = "SELECT 1"
    assert "nowhere: there is no such folder" in refused(one, cwd, "nowhere")
    (cwd / "empty").mkdir()
    assert "empty: holds no run folder" in refused(one, cwd, "empty")
    assert "answers are written as CSV or parquet" in refused(one, cwd, "--out", "x.xlsx")
    assert "--out nowhere/x.csv: there is no such folder" in refused(one, cwd, "--out", "nowhere/x.csv")
    inside = f"results/synthetic/{IDS[0]}/x.csv"
    assert "is in a run folder, which must not change" in refused(one, cwd, "--out", inside)
    shutil.copytree(cwd / "results" / "synthetic" / IDS[0], cwd / "results" / "copy" / "of")
    assert "is the same run as results/copy/of" in refused(one, cwd)
    (cwd / "results" / "copy" / "of" / "run.json").write_text('{"format": 2}')
    assert "results/copy/of/run.json: has format 2; this pollscope reads format 1" in refused(one, cwd)
    (cwd / "results" / "copy" / "of" / "run.json").write_text("{")
    assert "results/copy/of/run.json: is not JSON" in refused(one, cwd)
