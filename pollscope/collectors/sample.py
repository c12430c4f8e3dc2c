# SPDX-License-Identifier: BSD-3-Clause
"""Define what every collector delivers: readings of units, and the tidy table of samples made from them.

A *reading* is the report of a source about one unit at one time (several metrics at once, as the tools print them); a
*sample* is one cell of it: time, source, unit path, metric, value, unit. Parsers deliver readings, because a reading
costs one object for a whole printed row; `tidy` makes the table.

Unit paths go from the whole to the part, joined by "/": `socket0/stack1:PCIe1/part0`, `socket1/channel3`, `cpu7`,
`port:eth0/rx_queue2`, `system`. A name after the colon is the tool's own.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice, repeat
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pollscope.base.errors import UsageError

Value = int | float | str | None


class Kind(StrEnum):
    """Kinds of numbers; the kind decides whether a number may be differenced or divided by the interval."""

    RATE = "per second"
    INTERVAL = "per interval"
    COUNTER = "counter"
    GAUGE = "gauge"
    STATE = "state"


class SourceMetric(NamedTuple):
    """Name, unit (base units: B, s, 1, B/s, 1/s, J, Hz, degC; "" for text) and kind of one column."""

    name: str
    unit: str
    kind: Kind


class Reading(NamedTuple):
    """One unit at one time.

    `t_ns` is on the run's monotonic clock when recorded here, since the file's first time stamp when read from a
    file alone, None when the file has no time stamps. `values[i]` belongs to `metrics[i]`; None is an absence whose
    reason is in `reasons[i]`.
    """

    t_ns: int | None
    unit_path: str
    metrics: Sequence[SourceMetric]
    values: Sequence[Value]
    reasons: Mapping[int, str] = MappingProxyType({})

    def get(self, name: str) -> Value:
        """Return the value of the metric `name`; None if it is absent here."""
        return next((v for m, v in zip(self.metrics, self.values, strict=False) if m.name == name), None)


class SourceSample(NamedTuple):
    """One row of the tidy table. `value` is None exactly when `reason` says why."""

    t_ns: int | None
    source: str
    unit_path: str
    metric: str
    value: Value
    unit: str
    kind: Kind
    reason: str


def tidy(source: str, readings: Iterable[Reading]) -> Iterator[SourceSample]:
    """Spread readings into samples, in order."""
    for t_ns, path, metrics, values, reasons in readings:
        for index, (metric, value) in enumerate(zip(metrics, values, strict=False)):
            reason = reasons.get(index, "not printed by the tool") if value is None else ""
            yield SourceSample(t_ns, source, path, metric.name, value, metric.unit, metric.kind, reason)


def reading(t_ns: int | None, path: str, cells: Iterable[tuple[SourceMetric, Value, str]]) -> Reading:
    """Make a reading from (metric, value, reason) triples."""
    metrics: list[SourceMetric] = []
    values: list[Value] = []
    reasons: dict[int, str] = {}
    for metric, value, reason in cells:
        if value is None:
            reasons[len(values)] = reason
        metrics.append(metric)
        values.append(value)
    return Reading(t_ns, path, metrics, values, reasons)


def row(
    t_ns: int | None, path: str, metrics: Sequence[SourceMetric], cells: Sequence[tuple[int | float | None, str]]
) -> Reading:
    """Make a reading from metrics and (value, reason) pairs."""
    values = [value for value, _ in cells]
    if None not in values:
        return Reading(t_ns, path, metrics, values)
    return Reading(t_ns, path, metrics, values, {i: reason for i, (value, reason) in enumerate(cells) if value is None})


def absent(t_ns: int | None, path: str, metrics: Iterable[SourceMetric], reason: str) -> Reading:
    """Make a reading in which everything is absent for one reason."""
    return reading(t_ns, path, zip(metrics, repeat(None), repeat(reason), strict=False))


def write_samples(path: Path, samples: Iterable[SourceSample]) -> int:
    """Write the table as CSV, JSON lines or Parquet (by the file's ending) and return the number of rows.

    Raises:
        UsageError: the ending is none of the three.
        OSError: the file cannot be written.
    """
    writers = {".csv": _csv_table, ".jsonl": _json_lines, ".parquet": _parquet_table}
    if path.suffix not in writers:
        raise UsageError(f"unknown ending {path.suffix!r}", str(path), f"use one of {', '.join(writers)}")
    count, rest = 0, iter(samples)
    with writers[path.suffix](path) as write:
        while batch := list(islice(rest, 65536)):
            write(batch)
            count += len(batch)
    return count


_Write = Callable[[list[SourceSample]], None]


@contextmanager
def _csv_table(path: Path) -> Iterator[_Write]:
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(SourceSample._fields)
        yield table.writerows


@contextmanager
def _json_lines(path: Path) -> Iterator[_Write]:
    with path.open("w", encoding="utf-8") as file:
        yield lambda batch: file.writelines(json.dumps(sample._asdict()) + "\n" for sample in batch)


@contextmanager
def _parquet_table(path: Path) -> Iterator[_Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, number = pa.string(), pa.float64()
    schema = pa.schema(
        [("t_ns", pa.int64()), ("value", number), ("integer", pa.int64())]
        + [(name, text) for name in ("source", "unit_path", "metric", "text", "unit", "kind", "reason")]
    )
    with pq.ParquetWriter(path, schema) as writer:
        yield lambda batch: writer.write_table(pa.Table.from_pylist(list(map(_parquet_row, batch)), schema=schema))


def _parquet_row(sample: SourceSample) -> dict[str, object]:
    """Return typed columns: numbers in `value` (integers, which floats may round, in `integer` too), text in `text`."""
    value = sample.value
    exact = isinstance(value, int) and abs(value) < 1 << 63
    return sample._asdict() | {
        "text": value if isinstance(value, str) else None,
        "integer": value if exact else None,
        "value": None if isinstance(value, str) or value is None else float(value),
    }
