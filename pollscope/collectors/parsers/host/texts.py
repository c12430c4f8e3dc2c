# SPDX-License-Identifier: BSD-3-Clause
"""Small texts of this host: registers and kernel log as recorded, lscpu, latencies of the Intel IOMMU."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from pollscope.collectors.parsing import Origin, numbered, parse_cell, slug, without_mark
from pollscope.collectors.sample import Kind, Reading, SourceMetric, Value, reading

REGISTERS = {0xE7: "mperf", 0xE8: "aperf"}
_METRICS = {address: SourceMetric(name, "cycles", Kind.COUNTER) for address, name in REGISTERS.items()}
_LINE = re.compile(r"(cpu\d+) 0x([0-9a-f]+) ([0-9a-f]{1,16})")


def parse_registers(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read APERF and MPERF as recorded: `cpuN ADDRESS HEX` lines."""
    found, t_ns = False, origin.now()
    for number, text in numbered(lines, origin):
        match = _LINE.fullmatch(text)
        metric = _METRICS.get(int(match[2], 16)) if match else None
        if match is None or metric is None:
            origin.leave_out(number, f"no register: {text[:60]!r}")
            continue
        found = True
        yield Reading(t_ns, match[1], (metric,), (int(match[3], 16),))
    if not found:
        raise origin.refuse(0, "no register in it", "record with: pollscope collect aperf")


_MESSAGE, _LEVEL = SourceMetric("message", "", Kind.STATE), SourceMetric("level", "1", Kind.STATE)


def parse_kernel_log(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read records of /dev/kmsg, `priority,sequence,microseconds,flags;text`; indented continuation lines are ignored.

    The time of a record is the kernel's own (CLOCK_MONOTONIC since boot), also when the record was read later.
    """
    for number, text in numbered(lines, origin):
        match = re.fullmatch(r"(\d{1,4}),\d+,(\d{1,18}),[^;]*;(.*)", text)
        if match:
            yield reading(int(match[2]) * 1000, "system", [(_LEVEL, int(match[1]) & 7, ""), (_MESSAGE, match[3], "")])
        elif text and not text.startswith(" "):
            origin.leave_out(number, f"no record of /dev/kmsg: {text[:60]!r}")


def parse_lscpu(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read `lscpu -J`, as states; nested `children` (util-linux 2.38 and later) are flattened.

    A field without data is a heading.
    """
    try:
        document: Any = json.loads("".join(without_mark(lines, origin)))
        fields = list(_fields(document["lscpu"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise origin.refuse(1, "not the JSON of lscpu", "record with: lscpu -J") from None
    yield reading(origin.now(), "system", fields)


def _fields(entries: list[dict[str, Any]]) -> Iterator[tuple[SourceMetric, Value, str]]:
    for entry in entries:
        name, data = slug(str(entry["field"])), entry.get("data")
        if data is not None:
            number = int(data) if str(data).isdigit() and str(data).isascii() and len(str(data)) < 16 else None
            yield (
                SourceMetric(name, "1" if number is not None else "", Kind.STATE),
                str(data) if number is None else number,
                "",
            )
        yield from _fields(entry.get("children") or [])


_UNIT = re.compile(r"IOMMU:\s*(\S+)(?:\s+Register Base Address:\s*(\S+))?")


def parse_vtd_latency(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read debugfs `dmar_perf_latency`, one table per unit, one row per kind of invalidation.

    Its header has ranges (`<0.1us`, ..., `max(us)`, `average(us)`).
    """
    unit, header, t_ns, found = "", list[str](), origin.now(), False
    for number, text in numbered(lines, origin):
        match = _UNIT.match(text.strip())
        cells = text.split()
        if match:
            unit, header, found = f"iommu:{match[1]}", [], True
        elif unit and cells and any("us" in cell for cell in cells):
            header = cells
        elif header and cells and len(cells) == len(header) + 1:
            yield reading(t_ns, unit, _row(cells, header))
        elif cells and not (unit and "disabled" in text):
            origin.leave_out(number, f"no row of dmar_perf_latency: {text[:60]!r}")
    if not found:
        raise origin.refuse(0, "no IOMMU unit in it", "read /sys/kernel/debug/iommu/intel/dmar_perf_latency")


def _row(cells: list[str], header: list[str]) -> Iterator[tuple[SourceMetric, Value, str]]:
    for column, cell in zip(header, cells[1:], strict=True):
        value, reason = parse_cell(cell)
        summary = re.fullmatch(r"(min|max|average)\(us\)", column)
        if summary:
            metric = SourceMetric(f"{slug(cells[0])}_latency_{summary[1]}", "s", Kind.GAUGE)
            yield metric, None if value is None else value / 10**6, reason
        else:
            yield SourceMetric(f"{slug(cells[0])}_latency_count:{column}", "1", Kind.COUNTER), value, reason
