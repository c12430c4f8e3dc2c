# SPDX-License-Identifier: BSD-3-Clause
"""Rows of `perf stat --metric-only`: every metric is a gauge under the name that perf prints.

With -x a header names the metrics and the cells before them: `time,socket,cpus,insn per cycle,GHz,`. With -j
every row names its metrics itself (perf before that had this form is refused by its caller).
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from pollscope.collectors.parsing import Cell, Origin, parse_cell, scaled
from pollscope.collectors.sample import Kind, Reading, SourceMetric, row

# perf 6.1 writes these commas whatever the separator; older versions omit the one before the names
_HEADER = re.compile(
    r"(?P<time>time[,;\t|])?"
    r"(?P<place>(?:core|die|cluster|cache|socket)[,;\t|](?:cpus|ctrs)[,;\t|]?|(?:cpu|comm-pid|node)[,;\t|])?"
    r"(?P<names>.*[A-Za-z].*)(?P<mark>[,;\t|])"
)
_MARKS = tuple(",;\t|")
_STAMP = re.compile(r"\d+\.\d{9}")
_VALUE = re.compile(r"\d+(?:\.\d*)?|\.\d+|", re.ASCII)
# Units that perf prints before a metric's name, where its event list says so: kind and factor to base units.
_UNITS: dict[str, tuple[str, Kind, float]] = {
    "%": ("%", Kind.GAUGE, 1),
    "MB/s": ("B/s", Kind.RATE, 10**6),
    "MiB": ("B", Kind.INTERVAL, 2**20),
    "ns": ("s", Kind.GAUGE, 1e-9),
}
_UNIT = re.compile(r"(%|MB/s|MiB|ns)\s+(\S.*)")
_ALONE = {"cpu", "comm-pid"}  # places that no number of counters follows
# keys of a JSON row that are no metrics, and those that a row of --metric-only does not have
_PLACES = {"interval", "counters", "aggregate-number", "cgroup", "thread"}
_PLACES |= {"socket", "die", "cluster", "cache", "core", "cpu", "node"}
_OTHER_ROWS = {"event", "counter-value", "unit", "event-runtime", "metric-value", "metric-unit", "metricgroup"}
_TORN = "perf leaves out the metrics of an event that was not counted: the row's values cannot be assigned"
_TWICE = "perf printed two metrics of this name"


class MetricTable:
    """Read rows after their header; JSON rows need none.

    Args:
        json_path: gives the unit path of a JSON row.
        cell_path: gives the unit path of the cell that names a place; empty when it is none.
    """

    def __init__(
        self, origin: Origin, json_path: Callable[[dict[str, Any]], str], cell_path: Callable[[str], str]
    ) -> None:
        self._origin, self._json_path, self._cell_path = origin, json_path, cell_path
        self._header: re.Match[str] | None = None
        self._names: list[str] = []

    def begin(self, line: str) -> bool:
        """Return whether the line is a header, and remember it for the rows below."""
        header = _HEADER.fullmatch(line) if line.endswith(_MARKS) else None  # the pattern alone is slow on long lines
        names = [" ".join(name.split()) for name in header["names"].split(header["mark"])] if header else []
        if not header or not all(re.search("[A-Za-z]", name) for name in names):
            return False
        self._header, self._names = header, names
        return True

    def row(self, line: str) -> Reading | None:
        """Return the reading of a row; None when the line is none."""
        if line.startswith("{"):
            return self._from_json(line)
        return self._from_cells(line, self._header) if self._header else None

    def _from_json(self, line: str) -> Reading | None:
        if '"counter-value"' in line or '"metric-value"' in line:  # nearly every line
            return None
        try:
            fields: Any = json.loads(line, object_pairs_hook=list)
            names = [key for key, _ in fields if key not in _PLACES]
        except (ValueError, RecursionError, TypeError):
            return None
        places = {key: value for key, value in fields if key in _PLACES}
        values = [value for key, value in fields if key not in _PLACES]
        if not names or not _OTHER_ROWS.isdisjoint(names) or not all(isinstance(value, str) for value in values):
            return None
        cells = [parse_cell(value.replace("none", "")) for value in values]
        return self._reading(str(places.get("interval", "")), self._json_path(places), names, cells)

    def _from_cells(self, line: str, header: re.Match[str]) -> Reading | None:
        cells = [cell.strip() for cell in line.split(header["mark"])]
        stamp = cells.pop(0) if header["time"] else ""
        path = "system"
        if header["place"] and cells:
            path = self._cell_path(cells.pop(0))
            if cells and header["place"].rstrip(",;\t|") not in _ALONE:
                cells.pop(0)
        values = cells[:-1]
        fits = len(values) == len(self._names) and not cells[-1] and all(map(_VALUE.fullmatch, values))
        if not fits or not path or bool(header["time"]) != bool(_STAMP.fullmatch(stamp)):
            return None
        torn = "" in values
        return self._reading(stamp, path, self._names, [(None, _TORN) if torn else parse_cell(v) for v in values])

    def _reading(self, stamp: str, path: str, names: Sequence[str], cells: list[Cell]) -> Reading:
        twice = {name for name, count in Counter(names).items() if count > 1}
        kept = [(None, _TWICE) if name in twice else cell for name, cell in zip(names, cells, strict=True)]
        seconds = parse_cell(stamp)[0] if stamp else None
        t_ns = self._origin.now(None if seconds is None else round(seconds * 1e9))
        return metric_row(t_ns, path, names, kept)


def metric_row(t_ns: int | None, path: str, names: Sequence[str], cells: Sequence[Cell]) -> Reading:
    """Return the reading of metrics under the names that perf prints, in base units."""
    known = [_named(name) for name in names]
    values = [scaled(cell, scale) for cell, (_, scale) in zip(cells, known, strict=True)]
    return row(t_ns, path, [metric for metric, _ in known], values)


@lru_cache(maxsize=4096)
def _named(name: str) -> tuple[SourceMetric, float]:
    """Split the unit from the name: `%  tma_retiring`, `MB/s  umc_mem_read_bandwidth`; others have none.

    `branch-misses of all branches` is a percentage, too.
    """
    if match := _UNIT.fullmatch(name):
        unit, kind, scale = _UNITS[match[1]]
        return SourceMetric(match[2], unit, kind), scale
    return SourceMetric(name.strip(), "%" if " of all " in f" {name} " else "", Kind.GAUGE), 1
