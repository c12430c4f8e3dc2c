# SPDX-License-Identifier: BSD-3-Clause
"""Outputs of NVIDIA's and the kernel's NIC tools: NEO-Host (JSON or table), mlxconfig/mstconfig (table), devlink
health (JSON or text).
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.parsing import (
    WRAPPED_64,
    Cell,
    Origin,
    ParseError,
    clean,
    numbered,
    parse_cell,
    scaled,
    slug,
    without_mark,
)
from pollscope.collectors.sample import Kind, Reading, SourceMetric, Value, reading

_CONFIG_COLUMN = re.compile(r"Default|Current|Next [Bb]oot|New")
# Lines around the rows: the device, rulers, and the meaning of the asterisk.
_CONFIG_TITLE = re.compile(
    r"Device #\d+:|-+|(?:Device type|Name|Description|Device|PCI device):.*|The '\*' shows.*|-[WI]-.*"
)
# RO: read only; *: the next boot's value differs. Text below the table is not indented.
_CONFIG_ROW = re.compile(r"(?:RO)?[ *]+([A-Za-z]\w{2,}(?:\[\d+\])?)(?:\s+(.*))", re.ASCII)
_READABLE_UNITS = {
    "ns": ("s", 1e-9),
    "gb/s": ("B/s", 1e9 / 8),
    "gbps": ("B/s", 1e9 / 8),
    "mhz": ("Hz", 1e6),
    "%": ("%", 1),
    "packets/seconds": ("1/s", 1),
    "mpps": ("1/s", 1e6),
}
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", re.ASCII)
_TABLE_CELLS = re.compile(r"\|\|\s*([^|\s][^|]*?)\s*\|\|\s*([^|\s]+)(?:\s*\[([^\]]*)\])?\s*(?=\|\|)")
_NEOHOST = counter_names("neohost")


def parse_neohost(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read `get_device_performance_counters`: JSON (--output-format=JSON) or a table; with --run-loop one
    after the other. `origin.label` is the device.

    Raises:
        ParseError: it contains neither, or truncated JSON.
    """
    text = "\n".join(clean(line) for line in without_mark(lines, origin))
    first = text.find("{")
    samples = _neohost_tables(text, origin) if "|| Counter Name" in text else _neohost_documents(text, first, origin)
    path, found = f"device:{origin.label}" if origin.label else "device", False
    for sample, entries in enumerate(samples):
        if entries:
            found = True
            yield reading(origin.now(None, sample), path, (_neohost_cell(entry) for entry in entries))
    if not found:
        raise origin.refuse(1, "no counters and no analysis in it", "record with --get-analysis --output-format=JSON")


def _neohost_documents(text: str, start: int, origin: Origin) -> Iterator[list[dict[str, Any]]]:
    """Return the counters and the analysis of every document."""
    if start < 0:
        raise origin.refuse(1, f"no JSON: {text.strip()[:60]!r}", "record with the tool's JSON option")
    end = 0
    while start >= 0:
        try:
            document, end = _decoded(text, start, origin)
        except ParseError:
            if not end:
                raise
            origin.leave_out(1 + text.count("\n", 0, start), "the last document is cut off")
            return
        yield [*_entries(document, "counters", "counter"), *_entries(document, "analysis", "analysisAttribute")]
        start = text.find("{", end)
    _leave_out_rest(text, end, origin)


def _neohost_tables(text: str, origin: Origin) -> Iterator[list[dict[str, Any]]]:
    """Return the two halves of every table; rows of the right half are independent of the rows beside them.

    || Level 0 MTT Cache Hit || 3,495,893 ||| PCIe Avg Latency || 800 [NS] ||
    """
    number = 1 + text.partition("|| Counter Name")[0].count("\n")
    for table in text.split("|| Counter Name")[1:]:
        _, *lines = table.split("\n")
        rows = [_TABLE_CELLS.findall(line) if line.strip().startswith("||") else [] for line in lines]
        for offset, (line, row) in enumerate(zip(map(str.strip, lines), rows, strict=True), number + 1):
            is_title = not line.strip("=") or (line.startswith("||") and not any(map(str.isdigit, line)))
            if not row and not is_title:
                origin.leave_out(offset, f"no row of two values: {line[:60]!r}")
        number += len(lines)
        yield [dict(zip(("name", "value", "units"), cells, strict=True)) for row in rows for cells in row]


def _entries(document: Any, group: str, item: str) -> Iterator[dict[str, Any]]:
    found = document.get(group) if isinstance(document, dict) else None
    for entry in found if isinstance(found, list) else []:
        inner = entry.get(item) if isinstance(entry, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("name"), str):
            yield inner


def _neohost_cell(entry: dict[str, Any]) -> tuple[SourceMetric, Value, str]:
    name = slug(entry["name"])
    text = str(entry.get("value", ""))
    text = text.replace(",", "") if _THOUSANDS.fullmatch(text) else text
    printed = str(entry.get("units", "")).strip("[] ").lower()
    if not printed and name == "chip_frequency":  # 429.9965 of a ConnectX-5: MHz, which the tool does not print
        printed = "mhz"
    unit, scale = _READABLE_UNITS.get(printed, ("1", 1))
    metric = SourceMetric(_NEOHOST.get(name, name), unit, Kind.GAUGE)
    return metric, *scaled(parse_cell(text, wrapped=WRAPPED_64), scale)


def _json(lines: Iterable[str], origin: Origin) -> Any:
    text = "\n".join(clean(line) for line in without_mark(lines, origin))
    start = text.find("{")
    if start < 0:
        raise origin.refuse(1, f"no JSON: {text.strip()[:60]!r}", "record with the tool's JSON option")
    document, end = _decoded(text, start, origin)
    _leave_out_rest(text, end, origin)
    return document


def _leave_out_rest(text: str, end: int, origin: Origin) -> None:
    """Count the lines after the last document."""
    if rest := text[end:].strip():
        origin.leave_out(1 + text.count("\n", 0, end), f"no document: {rest[:60]!r}")


def _decoded(text: str, start: int, origin: Origin) -> tuple[Any, int]:
    """Return the document that begins at `start`, and where it ends."""
    try:
        return json.JSONDecoder().raw_decode(text, start)
    except (json.JSONDecodeError, RecursionError, ValueError) as error:
        line = getattr(error, "lineno", 1)
        raise origin.refuse(line, "broken or truncated JSON", "record with the tool's JSON option") from None


def parse_mlxconfig(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Parse `mlxconfig -d DEVICE -e query`: per device and name the default, current and next boot's value.

    The current value is under NAME, the next boot's under NAME.next_boot; without -e mlxconfig prints only that.
    Values: a number, `Enum(n)` (the name is kept as text, n as NAME.number), `Array[0..7]` (absent: must be asked for).

    Raises:
        ParseError: no row in it.
    """
    path = f"device:{origin.label}" if origin.label else "device"
    devices: dict[str, list[tuple[SourceMetric, Value, str]]] = {}
    columns: list[str] = []
    complaint = ""
    for number, text in numbered(lines, origin):
        words = text.split()
        row = _CONFIG_ROW.fullmatch(text) if columns else None
        if words[:1] == ["Configurations:"]:
            columns = [slug(name) for name in _CONFIG_COLUMN.findall(text)]
        elif words[:1] == ["Device:"] and len(words) == 2 and not origin.label:
            path = f"device:{words[1]}"
        elif words[:1] == ["-E-"]:
            complaint = f": {text.strip()[:120]}"
        elif row and len(values := row[2].split()) == len(columns):
            devices.setdefault(path, []).extend(_settings(row[1], dict(zip(columns, values, strict=True))))
        elif columns and words and not _CONFIG_TITLE.fullmatch(text.strip()):
            origin.leave_out(number, f"no row of {len(columns)} values: {text.strip()[:60]!r}")
    if not devices:
        raise origin.refuse(1, f"no configuration row in it{complaint}", "record with: mlxconfig -d DEVICE -e query")
    for device, cells in devices.items():
        yield reading(origin.now(), device, cells)


def _settings(name: str, values: dict[str, str]) -> Iterator[tuple[SourceMetric, Value, str]]:
    if "current" in values:
        yield from _config_cells(name, values["current"])
    else:
        yield SourceMetric(name, "", Kind.STATE), None, "mlxconfig printed no current value (option -e)"
    if "next_boot" in values:
        yield from _config_cells(f"{name}.next_boot", values["next_boot"])


def _config_cells(name: str, text: str) -> Iterator[tuple[SourceMetric, Value, str]]:
    number = re.fullmatch(r"\d{1,20}|0x[0-9a-fA-F]{1,16}", text, re.ASCII)
    choice = re.fullmatch(r"(.*)\((\d{1,20})\)", text, re.ASCII)
    if text.startswith("Array["):
        yield (
            SourceMetric(name, "", Kind.STATE),
            None,
            f"an array: query {name.removesuffix('.next_boot')}{text.removeprefix('Array')}",
        )
    elif text == "N/A":
        yield SourceMetric(name, "", Kind.STATE), None, "mlxconfig: N/A"
    elif number:
        yield SourceMetric(name, "1", Kind.STATE), int(text, 16 if text.startswith("0x") else 10), ""
    elif choice:
        yield SourceMetric(name, "", Kind.STATE), choice[1], ""
        yield SourceMetric(f"{name}.number", "1", Kind.STATE), int(choice[2]), ""
    else:
        yield SourceMetric(name, "", Kind.STATE), text, ""


def parse_devlink_health(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Parse `devlink health show`, as JSON (-j) or text: reporters with state, errors and recoveries.

    Raises:
        ParseError: neither JSON with health nor reporters in the text.
    """
    kept = list(without_mark(lines, origin))
    if "".join(kept).lstrip().startswith("{"):
        yield from _devlink_json(_json(kept, origin), origin)
        return
    device, reporter, found = "", "", False
    for number, text in numbered(kept, origin):
        words = text.split()
        if not words:
            continue
        if len(words) == 1 and text.strip().endswith(":"):
            device = text.strip().rstrip(":")
            continue
        if words[0] in ("reporter", "name") and len(words) >= 2:
            reporter, words = words[1], words[2:]
        if words and words[0] == "state" and device and reporter:
            found = True
            pairs = dict(zip(words[::2], words[1::2], strict=False))
            yield _reporter(device, reporter, pairs, origin)
        elif words:
            origin.leave_out(number, f"no line of devlink health: {text[:60]!r}")
    if not found:
        raise origin.refuse(1, "no reporter in it", "record with: devlink -j health show")


def _devlink_json(document: Any, origin: Origin) -> Iterator[Reading]:
    health = document.get("health") if isinstance(document, dict) else None
    if not isinstance(health, dict):
        raise origin.refuse(1, "no health in it", "record with: devlink -j health show")
    for device, reporters in health.items():
        for entry in reporters if isinstance(reporters, list) else []:
            if isinstance(entry, dict) and ("reporter" in entry or "name" in entry):
                pairs = {key: str(value) for key, value in entry.items()}
                yield _reporter(str(device), pairs.get("reporter", pairs.get("name", "")), pairs, origin)


def _reporter(device: str, reporter: str, pairs: dict[str, str], origin: Origin) -> Reading:
    cells: list[tuple[SourceMetric, Value, str]] = [
        (SourceMetric("health", "", Kind.STATE), pairs.get("state"), "devlink printed no state")
    ]
    for name in ("error", "recover"):
        cell: Cell = parse_cell(pairs[name], wrapped=WRAPPED_64) if name in pairs else (None, "devlink printed none")
        cells.append((SourceMetric(f"health_{name}s", "1", Kind.COUNTER), *cell))
    return reading(origin.now(), f"device:{device}/reporter:{reporter}", cells)
