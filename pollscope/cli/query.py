# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope query`."""

import csv
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from duckdb import DuckDBPyConnection, Error

from pollscope.analysis.query import (
    BATCH_ROWS,
    hosts_of,
    modelled_trials,
    opened,
    read_only,
    sql_error,
    write_parquet,
)
from pollscope.base.errors import UsageError, one_line
from pollscope.base.replacing import written
from pollscope.base.units import human_number
from pollscope.cli.words import say
from pollscope.store.find import RESULTS, is_run, runs_below

MOST_ROWS = 200


def query(
    sql: Annotated[str, typer.Argument(metavar='"SQL"', help="One SELECT over the tables `trials` and `runs`.")],
    places: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RESULTS...]", help="Folders of results; run folders; default: results."),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV on standard output, all rows.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write all rows to x.csv or x.parquet.")
    ] = None,
) -> None:
    """Answer SQL over all runs of a results folder.

    `trials` has a row per trial (docs/internals/store-format.md): spec, host, run_id, point, status, "factor.NAME",
    "metric.NAME", ...; names with a dot need double quotes. `runs` has a row per run. The SQL is DuckDB's, and only
    reads: nothing else is executed, no other file is opened. A table shows the first 200 rows and how many more there
    are. Failed trials are rows as well: filter by `status`, and by `kind` for baselines and measurements.
    """
    target = _target(out) if out else None
    with opened(runs_below(places or [RESULTS])) as connection:
        if len(hosts := hosts_of(connection)) > 1:
            say(f"note: runs of {len(hosts)} hosts (column host): {'; '.join(hosts)}")
        if "modelled" not in sql and (count := modelled_trials(connection)):
            say(f"note: {count} trials are modelled, not measured (column modelled)")
        if target is not None:
            _write(connection, sql, target)
            typer.echo(target)
        elif as_csv:
            _csv(read_only(connection, sql), sys.stdout)
        else:
            _show(read_only(connection, sql))


def _target(path: Path) -> Path:
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise UsageError("answers are written as CSV or parquet", f"--out {path}", "name a file .csv or .parquet")
    if not path.parent.is_dir():
        raise UsageError("there is no such folder", f"--out {path}")
    if is_run(path.parent):
        raise UsageError("is in a run folder, which must not change", f"--out {path}", "name another place")
    return path


def _write(connection: DuckDBPyConnection, sql: str, path: Path) -> None:
    with written(path) as new:
        if path.suffix.lower() == ".parquet":
            write_parquet(connection, sql, new)
        else:
            answer = read_only(connection, sql)
            with new.open("w", encoding="utf-8", newline="") as file:
                _csv(answer, file)


def _csv(answer: DuckDBPyConnection, file: Any) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_names(answer))
    for rows in _batches(answer):
        writer.writerows(rows)


def _batches(answer: DuckDBPyConnection) -> Iterator[Sequence[Sequence[Any]]]:
    try:
        while rows := answer.fetchmany(BATCH_ROWS):
            yield rows
    except Error as error:  # a cast that fails in a later row
        raise sql_error(error) from None


def _show(answer: DuckDBPyConnection) -> None:
    shown: list[list[str]] = [_names(answer)]
    count = 0
    numbers = [True] * len(shown[0])
    for rows in _batches(answer):
        for row in rows[: max(0, MOST_ROWS - count)]:
            numbers = [so_far and _is_number(value) for so_far, value in zip(numbers, row, strict=True)]
            shown.append([_text(value) for value in row])
        count += len(rows)
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for line in shown:
        cells = zip(line, widths, numbers, strict=True)
        typer.echo(
            "  ".join(f"{cell:>{width}}" if right else f"{cell:{width}}" for cell, width, right in cells).rstrip()
        )
    if count > MOST_ROWS:
        typer.echo(f"... and {count - MOST_ROWS} more rows; --csv or --out FILE gives all {count}")
    elif not count:
        typer.echo("no row")


def _names(answer: DuckDBPyConnection) -> list[str]:
    return [str(column[0]) for column in answer.description or []]


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _text(value: Any) -> str:
    """Return a value for a person to read, and a dash where there is none. CSV and parquet have all digits."""
    if value is None:
        return "-"
    if isinstance(value, float) and math.isfinite(value):
        return human_number(value, 6).replace(",", "")
    return one_line(" ".join(str(value).split()))
