# SPDX-License-Identifier: BSD-3-Clause
"""Intel PCM's `pcm-pcie`: PCIe requests that reach the LLC, per socket. Counts of cache lines per interval, not per
second.

Each event is visible for a part of the interval only (1/14 on Haswell to Cascade Lake, 1/2 on Ice Lake, 1/3 later) and
scaled up. With `-e` a socket has three rows, whose class is glued to the last number: `...,17698752512(Total)`. `PCIe
Rd (B)`, `PCIe Wr (B)` (option -B) are bytes per interval; where RFO exists, it is counted in both.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from pollscope.collectors.parsing import Cell, Origin, numbered, parse_cell, slug
from pollscope.collectors.sample import Kind, Reading, SourceMetric, row

_HEADER = re.compile(r"Skt\s*([|,;])")
_SOCKET = re.compile(r"\d+|\*")
_CLASSES = ("(Total)", "(Miss)", "(Hit)", "(Aggregate)")
_WORD = re.compile(r"-?\d+(?:\.\d+)?(?: [KMGT](?![A-Za-z]))?|[*]|\S+")
_BYTES = {"PCIe Rd (B)": "pcie_read_bytes", "PCIe Wr (B)": "pcie_write_bytes"}
# Ice Lake and later (they have ItoMCacheNear) count no hits of these; the tool prints 0 (COLLECTORS 1.2).
_WITHOUT_HIT = {"UCRdF", "WiL", "WCiL", "WCiLF"}


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read CSV or text, with or without -B and -e; text before the first header is skipped.

    Raises:
        ParseError: no header, or a row whose width is not its header's.
    """
    table: _PcieTable | None = None
    sample, t_ns = -1, None
    for number, text in numbered(lines, origin):
        line = text.strip()
        header = _header(line)
        if header:
            table, sample = header, sample + 1
            t_ns = origin.now(None, sample)
        elif table is None:
            origin.refuse_failure(number, line)
        elif line and not line.startswith("--"):
            found = _row(line, table, number, origin)
            if found:
                yield row(t_ns, *found)
    if table is None:
        raise origin.refuse(0, "no pcm-pcie header in it", "record with: pcm-pcie 1.0 -B -e -csv")


@dataclass(frozen=True)
class _PcieTable:
    """A header; `metrics` of the columns by the class of a row, `without_hit` the columns that count no hits."""

    delimiter: str
    columns: tuple[str, ...]
    metrics: dict[str, tuple[SourceMetric, ...]]
    without_hit: tuple[int, ...]


def _header(line: str) -> _PcieTable | None:
    """Return the columns after the socket's; CSV by its delimiter, text by its bars."""
    match = _HEADER.match(line)
    if match is None:
        return None
    cells = [cell.strip() for cell in line.rstrip("|").split(match[1])]
    return _table(match[1], tuple(cell for cell in cells[1:] if cell))


@lru_cache(maxsize=64)
def _table(delimiter: str, columns: tuple[str, ...]) -> _PcieTable:
    metrics = {kind: tuple(_metric(name, kind) for name in columns) for kind in ("Total", "Miss", "Hit", "Aggregate")}
    none = [i for i, name in enumerate(columns) if name in _WITHOUT_HIT and "ItoMCacheNear" in columns]
    return _PcieTable(delimiter, columns, metrics, tuple(none))


def _row(
    line: str, table: _PcieTable, number: int, origin: Origin
) -> tuple[str, tuple[SourceMetric, ...], list[Cell]] | None:
    """Return unit path, metrics and cells of one row; note any other line and return None."""
    body, _, kind = line.rpartition("(") if line.endswith(_CLASSES) else (line, "", "Total")
    body, kind = body.rstrip(), kind.rstrip(")")
    cells = _WORD.findall(body) if table.delimiter == "|" else list(map(str.strip, body.split(table.delimiter)))
    if len(cells) == len(table.columns) + 2 and not cells[-1]:
        cells.pop()  # a delimiter after the last value
    if not _SOCKET.fullmatch(cells[0] if cells else ""):
        origin.leave_out(number, f"neither header nor row: {line[:60]!r}")
        return None
    if len(cells) - 1 > len(table.columns):
        raise origin.refuse(
            number, f"the row has {len(cells) - 1} values, its header {len(table.columns)}", "record again"
        )
    if len(cells) - 1 < len(table.columns):
        origin.leave_out(number, f"the row has {len(cells) - 1} of {len(table.columns)} values: cut off")
        return None
    path = "system" if cells[0] == "*" else f"socket{int(cells[0])}"
    values = [parse_cell(cell, human=True) for cell in cells[1:]]
    for index in table.without_hit if kind == "Hit" else ():
        values[index] = None, "this processor counts no hits of this event; the tool prints 0"
    return path, table.metrics[kind], values


def _metric(name: str, kind: str) -> SourceMetric:
    suffix = f"_{kind.lower()}" if kind in ("Miss", "Hit") else ""
    if name in _BYTES:
        return SourceMetric(_BYTES[name] + suffix, "B", Kind.INTERVAL)
    return SourceMetric(slug(name) + suffix, "cachelines", Kind.INTERVAL)
