# SPDX-License-Identifier: BSD-3-Clause
"""Linux `perf stat`: the JSON of `-j` and the separated values of `-x`.

Every event is two metrics: its count over the interval, in base units (perf prints uncore_imc traffic already in
MiB), and `EVENT.running_share`, the share of the time for which the event was on a counter (below 1 the kernel has
scaled the count). `<not counted>` and `<not supported>` are absences. A cgroup (-G) is a unit of its own. Totals after
the intervals (--summary) are left out. The human-readable text depends on the locale and is refused.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.parsers.perf.metrics import MetricTable, metric_row
from pollscope.collectors.parsing import WRAPPED_64, Cell, Origin, numbered, parse_cell, recognise_failure, scaled
from pollscope.collectors.sample import Kind, Reading, SourceMetric, row

_UNITS: dict[str, tuple[str, float]] = {
    "": ("1", 1),
    "msec": ("s", 1e-3),
    "ns": ("s", 1e-9),
    "sec": ("s", 1),
    "Bytes": ("B", 1),
    "KiB": ("B", 2**10),
    "MiB": ("B", 2**20),
    "GiB": ("B", 2**30),
    "Joules": ("J", 1),
}
_WHY = {
    "<not counted>": "perf: <not counted>: on no counter in this interval (task asleep, or too many events)",
    "<not supported>": "perf: <not supported>: this machine has no counter for the event",
}
_STAMP = re.compile(r"\s*\d+\.\d{9}")
_PLACE = re.compile(r"CPUs?\d+|S\d+(?:-D\d+)?(?:-CLS\d+|-L\d+-ID\d+)?(?:-C(?:PU)?\d+)?|D\d+|N\d+|.+-\d+")
_VALUE = re.compile(r"<not (?:counted|supported)>|-?\d+(?:\.\d+)?|-?nan")
_SPARE_COMMA = re.compile(r"(?<=[\d\"]),\s*(?=,\s*\"|\})")
_SHARE = re.compile(r"\d{1,3}\.\d\d")
_SEPARATOR = re.compile(r"[;,\t|]")
# metrics that perf derives from an event without being asked (`1.25 insn per cycle`, `715 K/sec`)
_OWN_METRIC = re.compile(
    r".*/ ?sec|CPUs utilized|GHz|insn per cycle|.*cycles idle|stalled cycles per insn|of all .*|.* of all .*|"
    r"(?:%\s+)?(?:transactional|aborted|elision|SMI) cycles|cycles / .*|SMI#|\(null\)"
)
_THRESHOLDS = {"good", "less good", "nearly bad", "bad", "unknown", ""}
_TEXT_HEADER = re.compile(r"#\s+time\b.*\bcounts\b.*\bevents")
_DECIMAL_COMMA = re.compile(r"(?:^|;)\s*\d+,\d+\s*;")
_PARTS = counter_names("perf-stat-places")
_JSON_PLACES = ("socket", "die", "cluster", "cache", "core", "cpu", "node")
_MOST_PERCENT = 110


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read either format.

    Raises:
        ParseError: text output, perf's own error message, or rows that are neither JSON nor separated values.
    """
    found = counted = stamped = False
    table = MetricTable(origin, json_path, cell_path)
    for number, text in numbered(lines, origin):
        line = text.strip()
        if not line or (line.startswith("#") and not _TEXT_HEADER.match(line)):
            continue
        metrics = table.row(text.lstrip(" "))
        is_json = line.startswith("{")
        item = None if metrics else _from_json(line, number, origin) if is_json else _from_cells(text)
        if metrics:
            found = True
            yield metrics
        elif item is None:
            if counted or not table.begin(text.lstrip(" ")):
                _no_row(line, number, origin)
        elif stamped and not item.stamp:
            origin.leave_out(number, f"a total, no interval: {line[:60]!r}")
        else:
            found = counted = True
            stamped = bool(item.stamp)
            yield from _readings(item, origin)
    if not found:
        raise origin.refuse(0, "no row of perf stat -j or -x in it", "record with: perf stat -a -j -I 1000 -e EVENTS")


def _no_row(line: str, number: int, origin: Origin) -> None:
    """Refuse perf's own messages and its text output; any other line is left out."""
    failure = recognise_failure(line)
    if failure:
        raise origin.refuse(number, f"{failure[0]}: {line[:80]}", failure[1])
    if line.startswith("Performance counter stats") or _TEXT_HEADER.match(line):
        raise origin.refuse(
            number, "human-readable text of perf stat (depends on the locale)", "record with -j or -x';'"
        )
    if _DECIMAL_COMMA.search(line):
        raise origin.refuse(number, f"decimal commas of a locale: {line[:60]!r}", "record with LC_ALL=C")
    if not _is_metric_only(line):
        origin.leave_out(number, f"no row of perf stat: {line[:60]!r}")


def _is_metric_only(line: str) -> bool:
    """Return whether a line has a further metric (`insn per cycle`) of the event above, without a count."""
    if line.startswith("{"):
        return '"metric-value"' in line
    cells = [cell.strip() for cell in _SEPARATOR.split(line)]
    return len(cells) > 5 and not any(cells[-6:-2]) and bool(_VALUE.fullmatch(cells[-2])) and bool(cells[-1])


class _Item(NamedTuple):
    """One printed row, whatever the format."""

    stamp: str
    path: str
    value: str
    unit: str
    event: str  # empty: a row of a metric alone
    share: str
    metric: str = ""
    metric_value: str = ""


@lru_cache(maxsize=4096)
def _metrics(event: str, unit: str) -> tuple[SourceMetric, SourceMetric]:
    return SourceMetric(event, unit, Kind.INTERVAL), SourceMetric(f"{event}.running_share", "1", Kind.GAUGE)


def _readings(item: _Item, origin: Origin) -> Iterator[Reading]:
    """Return the event, and the metric of a group (-M, --topdown) in its row."""
    if item.event:
        yield _reading(item, origin)
    if _is_named(item.metric):
        yield metric_row(_time(item, origin), item.path, [item.metric], [parse_cell(item.metric_value)])


@lru_cache(maxsize=4096)
def _is_named(metric: str) -> bool:
    """Return whether the metric was requested by name."""
    return bool(metric) and not _OWN_METRIC.fullmatch(metric)


def _time(item: _Item, origin: Origin) -> int | None:
    stamp = parse_cell(item.stamp)[0] if item.stamp else None
    return origin.now(None if stamp is None else round(stamp * 1e9))


def _reading(item: _Item, origin: Origin) -> Reading:
    unit, scale = _UNITS.get(item.unit, (item.unit, 1))
    why = _WHY.get(item.value)
    cell: Cell = (None, why) if why else scaled(parse_cell(item.value, wrapped=WRAPPED_64), scale)
    if cell[0] is not None and isinstance(cell[0], float) and unit == "1" and cell[0].is_integer():
        cell = (int(cell[0]), "")  # JSON of perf 6.1 prints counts as 20.000000
    share: Cell = (None, why) if why else _share(parse_cell(item.share))
    return row(_time(item, origin), item.path, _metrics(item.event, unit), (cell, share))


def _share(percent: Cell) -> Cell:
    """Convert to a share; old builds of perf 6.0 glued the run time to the percentage, which is refused."""
    if percent[0] is not None and percent[0] > _MOST_PERCENT:
        return None, f"no share of the time: {percent[0]} %"
    return scaled(percent, 0.01)


def _from_json(line: str, number: int, origin: Origin) -> _Item | None:
    try:
        fields: Any = _decoded(line)
    except (json.JSONDecodeError, RecursionError, ValueError):
        if line.startswith('{"unit" : '):
            raise origin.refuse(
                number, "--metric-only -j of this perf separates the metrics from their names", "record with -x';'"
            ) from None
        raise origin.refuse(
            number,
            f"broken JSON: {line[:60]!r}",
            "record with -x';': some versions of perf 6 misplace commas with -j",
        ) from None
    if not isinstance(fields, dict) or ("event" in fields) != ("counter-value" in fields):
        return None
    if "event" not in fields and not _is_named(str(fields.get("metric-unit", ""))):
        return None
    keys = "interval", "counter-value", "unit", "event", "pcnt-running", "metric-unit", "metric-value"
    stamp, *values = [str(fields.get(key, "")) for key in keys]
    return _Item(stamp, json_path(fields), *values)


def _decoded(line: str) -> Any:
    """Return the row; perf 6.12 leaves a comma where an event has no metric: `"pcnt-running" : 100.00, }`."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return json.loads(_SPARE_COMMA.sub("", line))


def json_path(fields: dict[str, Any]) -> str:
    """Return the unit path of a JSON row."""
    path = "/".join([_named(kind, str(fields[kind])) for kind in _JSON_PLACES if kind in fields]) or "system"
    if "thread" in fields:
        path = f"thread:{fields['thread']}"
    return f"{path}/cgroup:{fields['cgroup']}" if fields.get("cgroup") else path


def cell_path(text: str) -> str:
    """Return the unit path of a cell that names a place; empty if it is none."""
    return _place(text) if _is_place(text) else ""


@lru_cache(maxsize=4096)
def _named(kind: str, text: str) -> str:
    """Return the unit path: `S0` of kind socket is socket0; `S0-D1-C3` of core socket0/die1/core3; `3` of cpu cpu3."""
    return f"{kind}{text}" if text.isdigit() else _place(text)


@lru_cache(maxsize=4096)
def _is_place(text: str) -> bool:
    return bool(_PLACE.fullmatch(text)) and not _VALUE.fullmatch(text)


@lru_cache(maxsize=4096)
def _place(text: str) -> str:
    parts = [re.fullmatch(r"([A-Za-z]+)(\d+)", part) for part in text.split("-")]
    if all(part and part[1] in _PARTS for part in parts):
        return "/".join(f"{_PARTS[part[1]]}{part[2]}" for part in parts if part)
    return f"thread:{text}"


def _from_cells(text: str) -> _Item | None:
    """Split into [time] [place [counters]] value unit event [cgroup] [variance%] runtime share [metric unit].

    An event may contain the separator (uncore_iio/event=0x83,umask=0x1/): it ends where runtime and share begin.
    """
    separator = max(";,\t|", key=text.count)
    for mark in (";", separator):
        cells = list(map(str.strip, text.split(mark)))
        if len(cells) >= 5:
            break
    stamp = cells.pop(0) if _STAMP.fullmatch(cells[0]) and len(cells) > 1 else ""
    path = "system"
    if cells and _is_place(cells[0]):
        path = _place(cells.pop(0))
        if len(cells) > 2 and cells[0].isdigit() and _VALUE.fullmatch(cells[1]):
            cells.pop(0)
    metric = _metric_alone(cells)
    if metric:
        return _Item(stamp, path, "", "", "", "", *metric)
    if len(cells) < 5 or not _VALUE.fullmatch(cells[0]) or (cells[1] and _PLACE.fullmatch(cells[1])):
        return None  # a place where the unit should be: the time before it was truncated and would become the count
    end = next((i for i in range(3, len(cells) - 1) if cells[i].isdigit() and _SHARE.fullmatch(cells[i + 1])), None)
    if end is None:
        return None
    name_end = end - 1 if cells[end - 1].endswith("%") and end > 3 else end
    event, cgroup = _event(cells[2:name_end], mark)
    if not event or event.endswith("%"):  # a row of a metric group has no event
        return None
    value, name = [*cells[end + 2 : end + 4], "", ""][:2]
    place = f"{path}/cgroup:{cgroup}" if cgroup else path
    return _Item(stamp, place, cells[0], cells[1], event, cells[end + 1], name, value if name else "")


def _metric_alone(cells: list[str]) -> tuple[str, str] | None:
    """Return name and value of a metric in a row without an event; the last cell may be the metric's threshold."""
    kept = cells[:-1] if len(cells) > 6 and cells[-1] in _THRESHOLDS else cells
    kept = kept[1:] if kept and kept[0].isdigit() else kept  # how many counters were summed
    if len(kept) < 6 or any(kept[:-2]) or not _VALUE.fullmatch(kept[-2]) or not _is_named(kept[-1]):
        return None
    return kept[-1], kept[-2]


def _event(cells: list[str], mark: str) -> tuple[str, str]:
    """Return event and cgroup (-G), both empty if more cells follow; events hold separators only between slashes."""
    whole = mark.join(cells)
    if len(cells) == 1:
        return whole, ""
    ends = (end for end in range(1, len(cells)) if mark.join(cells[:end]).count("/") % 2 == 0)
    end = next(ends, len(cells))
    if end == len(cells):
        return whole, ""
    return (mark.join(cells[:end]), cells[end]) if end == len(cells) - 1 else ("", "")
