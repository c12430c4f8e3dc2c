# SPDX-License-Identifier: BSD-3-Clause
"""Which SQL `pollscope query` executes: one statement that reads the tables it is given, and nothing else.

DuckDB's own parser says what a text is. Its list of statements is not enough: a SELECT may have a COPY or an INSERT in
its WITH clause, and the table function `query` takes SQL as a text. So the tree of the statement is walked, and only
what is known to read is let through.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb

from pollscope.base.errors import UsageError

_READING_NODES = {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
# They read no file, execute no text and follow no pointer.
_TABLE_FUNCTIONS = {
    "range",
    "generate_series",
    "unnest",
    "json_each",
    "json_tree",
    "duckdb_columns",
    "duckdb_functions",
}
_NEWLINE = b"\n"
_QUOTES = 'names with a dot stand in double quotes: SELECT "metric.rx_pps" FROM trials'
REMEDY = "one SELECT over the tables `trials` and `runs`; DESCRIBE trials lists the columns"


def check_reads_only(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuses all but one statement that only reads.

    Raises:
        UsageError: SQL that cannot be parsed, several statements, or what is not let through, with its line.
    """
    statements = parsed(connection, sql)
    if not statements:
        raise UsageError("there is no statement", "SQL", REMEDY)
    for statement in statements:
        if statement.type != duckdb.StatementType.SELECT:
            raise UsageError(f"{_first_word(statement.query)} is refused: only SELECT is executed", "SQL", REMEDY)
    if len(statements) > 1:
        raise UsageError(f"{len(statements)} statements are given", "SQL", "give one")
    answer = json.loads(_text(connection, "SELECT json_serialize_sql(?::VARCHAR)", sql))
    if answer["error"]:
        raise UsageError(f"is refused: {answer['error_message']}", "SQL", REMEDY)
    for what, place in _refused(answer["statements"], 0):
        raise UsageError(f"{what} is refused: only what reads the runs is executed", _where(sql, place), REMEDY)


def parsed(connection: duckdb.DuckDBPyConnection, sql: str) -> list[duckdb.Statement]:
    """The statements of a text.

    Raises:
        UsageError: it is no SQL.
    """
    if "\0" in sql or (not sql.isascii() and any("\ud800" <= each <= "\udfff" for each in sql)):
        raise UsageError("holds a byte that is no character", "SQL", REMEDY)
    try:
        return connection.extract_statements(sql)
    except duckdb.Error as error:
        raise sql_error(error) from None


def sql_error(error: Exception) -> UsageError:
    """An error of DuckDB as one line, with the line of the SQL where it says so."""
    message, _, place = str(error).partition("\n\nLINE ")
    line = place.partition(":")[0]
    what = " ".join(message.split("Traceback")[0].split())
    remedy = _QUOTES if re.search(r'Referenced table "(metric|factor|absent)" not found', what) else REMEDY
    return UsageError(what, f"SQL line {line}" if line.isdigit() else "SQL", remedy)


def _refused(tree: Any, place: int) -> Iterator[tuple[str, int]]:
    """What is not let through, and at which character it stands (or what holds it)."""
    if isinstance(tree, list):
        for each in tree:
            yield from _refused(each, place)
    if not isinstance(tree, dict):
        return
    place = _place(tree, place)
    kind = str(tree.get("type", ""))
    if kind.endswith("_NODE") and kind not in _READING_NODES:
        yield kind.removesuffix("_NODE").removesuffix("_QUERY").replace("_", " "), place
    if kind == "TABLE_FUNCTION":
        name = _function(tree["function"])
        if name not in _TABLE_FUNCTIONS:
            yield f"the table function {name}", place
    for each in tree.values():
        yield from _refused(each, place)


def _function(tree: dict[str, Any]) -> str:
    """The name of a table function; anything that is no plain call has none that is known."""
    path = tree.get("qualified_name", {}).get("path", [])
    names = {str(name).lower() for name in (tree.get("function_name"), *path[-1:]) if name}
    return names.pop() if len(names) == 1 else "of several names"


def _place(tree: dict[str, Any], place: int) -> int:
    found = tree.get("query_location")
    return found if isinstance(found, int) and 0 <= found < 1 << 40 else place


def _where(sql: str, place: int) -> str:
    # DuckDB counts bytes.
    before = sql.encode()[:place]
    return f"SQL line {1 + before.count(_NEWLINE)}" if _NEWLINE in sql.encode() else "SQL"


def _first_word(query: str) -> str:
    words = query.split()
    return words[0].upper() if words else "nothing"


def _text(connection: duckdb.DuckDBPyConnection, sql: str, value: str) -> str:
    row = connection.execute(sql, [value]).fetchone()
    if row is None:
        raise AssertionError("BUG: json_serialize_sql gave no row")
    return str(row[0])
