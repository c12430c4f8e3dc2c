# SPDX-License-Identifier: BSD-3-Clause
"""SQL over all runs of a results folder: DuckDB on the parquet files of the run folders, without a server.

DuckDB itself opens no file but the tables of the runs, loads no extension, changes no setting and starts no transaction
that writes. `check_reads_only` adds what that leaves: a COPY into an opened file in a WITH clause, table functions that
execute a text or follow a pointer, the log, and the catalog with its temporary paths.
"""

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb

from pollscope.analysis.host_metadata import HostMetadata
from pollscope.base.errors import UsageError
from pollscope.metrics import RULES
from pollscope.store.run_folder import read_meta, read_run
from pollscope.store.table_file import TABLE_FILE, is_newer_than_sources, stamp

_RUN_COLUMNS = ("run_id", "spec", "row", "paper", "testbed", "host", "status", "started_utc", "finished_utc", "folder")
BATCH_ROWS = 10_000
REMEDY = "one SELECT over the tables `trials` and `runs`; DESCRIBE trials lists the columns"
_READING_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
_TABLE_FUNCTIONS = {
    "range",
    "generate_series",
    "unnest",
    "json_each",
    "json_tree",
    "duckdb_columns",
    "duckdb_functions",
}
_HIDDEN = re.compile(
    r"(pragma_|duckdb_(?!columns$|functions$)|sqlite_|pg_).*|current_setting|write_log|views|every_run"
)
# Of a statement that json_serialize_sql has written; the quotation marks of a literal are escaped there.
_NODE = re.compile(r'"type":"(\w+)_NODE"')
_TABLE_FUNCTION = re.compile(r'"type":"TABLE_FUNCTION".*?"function_name":"([^"]*)"')
_NAME = re.compile(r'"(?:function_name|table_name)":"([^"]*)"')
SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # SQL sees no variable of this program
}


@contextmanager
def opened(runs: Sequence[Path]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the tables `trials` (store-format.md, and `spec`, `host`) and `runs` (_RUN_COLUMNS), for read_only().

    A table of a run that is missing or out of date is derived again; it is kept in memory where the run is not ours.

    Raises:
        UsageError: no run folder, one of another format, or the same run twice.
    """
    rows = _runs_table(runs)
    with (
        tempfile.TemporaryDirectory() as spare,
        closing(duckdb.connect(":memory:", config=dict(SETTINGS))) as connection,
    ):
        tables = [_table_file(connection, run, Path(spare) / f"{number}.parquet") for number, run in enumerate(runs)]
        names = [str(table) for table in tables]
        columns = ", ".join(f"{name} VARCHAR" for name in (*_RUN_COLUMNS, "table_file"))
        connection.execute(f"CREATE TABLE every_run ({columns})")
        marks = ", ".join("?" * (len(_RUN_COLUMNS) + 1))
        connection.executemany(
            f"INSERT INTO every_run VALUES ({marks})", [[*row, name] for row, name in zip(rows, names, strict=True)]
        )
        connection.execute("CREATE VIEW runs AS SELECT * EXCLUDE (table_file) FROM every_run")
        quoted = ", ".join(_quoted(name) for name in names)
        try:
            connection.execute(
                "CREATE VIEW trials AS SELECT every_run.spec, every_run.host, found.* EXCLUDE (table_file) "
                f"FROM read_parquet([{quoted}], union_by_name = true, filename = 'table_file') AS found "
                "JOIN every_run ON every_run.table_file = found.table_file"
            )
        except duckdb.Error as error:
            raise sql_error(error) from None
        connection.execute(f"SET temp_directory = {_quoted(spare)}")
        connection.execute(f"SET allowed_paths = [{', '.join(map(_quoted, names))}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        try:
            yield connection
        except duckdb.Error as error:  # a table that is damaged behind its head
            raise sql_error(error) from None


def check_reads_only(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse all but one statement that only reads.

    Raises:
        UsageError: SQL that cannot be parsed, several statements, or one that does more than read the runs.
    """
    if "\0" in sql or any("\ud800" <= each <= "\udfff" for each in sql):
        raise UsageError("holds a byte that is not a character", "SQL", REMEDY)
    try:
        statements = connection.extract_statements(sql)
        serialized = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0][0]
    except duckdb.Error as error:
        raise sql_error(error) from None
    if not statements:
        raise UsageError("there is no statement", "SQL", REMEDY)
    for statement in statements:
        if statement.type != duckdb.StatementType.SELECT:
            raise UsageError(f"{statement.query.split()[0].upper()} is refused: only SELECT is executed", "SQL", REMEDY)
    if len(statements) > 1:
        raise UsageError(f"{len(statements)} statements are given", "SQL", "give one")
    if not serialized.startswith('{"error":false'):
        raise UsageError(f"is refused: {json.loads(serialized)['error_message']}", "SQL", REMEDY)
    refused = [
        *(node.removesuffix("_QUERY") for node in _NODE.findall(serialized) if f"{node}_NODE" not in _READING_NODES),
        *(f"the table function {name}" for name in _TABLE_FUNCTION.findall(serialized) if name not in _TABLE_FUNCTIONS),
        *(name for name in _NAME.findall(serialized) if _HIDDEN.fullmatch(name.lower())),
    ]
    if refused:
        raise UsageError(f"{refused[0]} is refused: only what reads the runs is executed", "SQL", REMEDY)


def sql_error(error: Exception) -> UsageError:
    """Return an error of DuckDB as one line, with the line of the SQL where it says so."""
    message, _, place = str(error).partition("\n\nLINE ")
    line = place.partition(":")[0]
    what = " ".join(message.split("Traceback")[0].split())
    dotted = re.search(r'Referenced table "(metric|factor|absent)" not found', what)
    remedy = 'names with a dot need double quotes: SELECT "metric.rx_pps" FROM trials' if dotted else REMEDY
    return UsageError(what, f"SQL line {line}" if line.isdigit() else "SQL", remedy)


def read_only(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyConnection:
    """Execute one statement that only reads; the answer is fetched from what is returned.

    Raises:
        UsageError: SQL that is wrong, that writes, or that reads more than the tables (see check_reads_only).
    """
    check_reads_only(connection, sql)
    try:
        connection.execute("BEGIN TRANSACTION READ ONLY")
        return connection.execute(sql)
    except duckdb.Error as error:
        raise sql_error(error) from None


def write_parquet(connection: duckdb.DuckDBPyConnection, sql: str, path: Path) -> None:
    """Write the answer of one statement that only reads into a parquet file, piece by piece.

    Raises:
        UsageError: as read_only().
    """
    import pyarrow.parquet

    check_reads_only(connection, sql)
    try:
        connection.execute("BEGIN TRANSACTION READ ONLY")
        batches: Any = connection.sql(sql).to_arrow_reader(BATCH_ROWS)
        with pyarrow.parquet.ParquetWriter(path, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except (duckdb.Error, pyarrow.ArrowException) as error:
        raise sql_error(error) from None


def hosts_of(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the processors on which the opened runs were measured."""
    return [str(host) for (host,) in connection.execute("SELECT DISTINCT host FROM every_run ORDER BY 1").fetchall()]


def modelled_trials(connection: duckdb.DuckDBPyConnection) -> int:
    """Return how many trials of the opened runs a simulation computed."""
    found = connection.execute("SELECT count(*) FROM trials WHERE modelled").fetchone()
    return int(found[0]) if found else 0


def _runs_table(runs: Sequence[Path]) -> list[list[str | None]]:
    rows, places = [], dict[str, Path]()
    for run in runs:
        meta = read_meta(run)
        run_id = str(meta["run_id"])
        if run_id in places:
            raise UsageError(f"is the same run as {places[run_id]}", str(run), "its trials would count twice")
        places[run_id] = run
        host = HostMetadata(meta)
        known = {**meta, "spec": meta["spec_name"], "testbed": host.testbed_name, "host": host.processor}
        known["folder"] = str(run)
        rows.append([None if known.get(name) is None else str(known[name]) for name in _RUN_COLUMNS])
    return rows


def _table_file(connection: duckdb.DuckDBPyConnection, run: Path, place: Path) -> Path:
    """Put the table of a run at a place whose name holds no pattern: a link, or a copy where it cannot be stored."""
    if not _links(connection, run, place):
        from pollscope.store.results_table import current_table  # loads the numerical libraries

        table = current_table(read_run(run))
        if not _links(connection, run, place):
            table.to_parquet(place, index=False)
    return place


def _links(connection: duckdb.DuckDBPyConnection, run: Path, place: Path) -> bool:
    if not is_newer_than_sources(run):
        return False
    place.symlink_to((run / TABLE_FILE).resolve())
    if _stamp_of(connection, place) == stamp(run, RULES):
        return True
    place.unlink()
    return False


def _stamp_of(connection: duckdb.DuckDBPyConnection, table: Path) -> Any:
    """Return what a table says of how it was derived; None if it does not say so, or is no table."""
    sql = "SELECT value FROM parquet_kv_metadata(?) WHERE key = 'PANDAS_ATTRS'::BLOB"
    try:
        row = connection.execute(sql, [str(table)]).fetchone()
        return json.loads(bytes(row[0])) if row else None
    except (duckdb.Error, ValueError, RecursionError):
        return None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
