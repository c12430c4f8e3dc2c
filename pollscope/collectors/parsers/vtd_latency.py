# SPDX-License-Identifier: BSD-3-Clause
"""Invalidation latency histograms of the Intel IOMMU, as debugfs prints them."""

import re
from collections.abc import Iterable, Iterator

from pollscope.collectors.parsing import Origin, numbered, parse_cell, slug
from pollscope.collectors.sample import Kind, Reading, SourceMetric, Value, reading

_UNIT = re.compile(r"IOMMU:\s*(\S+)(?:\s+Register Base Address:\s*(\S+))?")


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read one table per unit: a header of ranges (`<0.1us`, ..., `max(us)`, `average(us)`), one row per kind.

    Raises:
        ParseError: no unit in it.
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
