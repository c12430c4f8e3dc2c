# SPDX-License-Identifier: BSD-3-Clause
"""The table of `perf iostat -I MS`: PCIe traffic per root port, in MB (2^20 B, perf's own division) per interval."""

import re
from collections.abc import Iterable, Iterator

from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.parsing import Origin, numbered, parse_cell, scaled
from pollscope.collectors.sample import Kind, Reading, SourceMetric, reading

_COLUMNS = counter_names("perf-iostat")
_VALUE = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_NAME = re.compile(r"(?:Inbound|Outbound) (?:Read|Write)\(MB\)")


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Parse rows `[seconds] DDDD:BB value value value value` under the latest header.

    Raises:
        ParseError: no header, or perf's message that there is no such PMU.
    """
    columns: list[str] = []
    for number, text in numbered(lines, origin):
        names = _NAME.findall(text)
        row = re.fullmatch(r"\s*(\d+\.\d+)?\s*([0-9a-f]{4}:[0-9a-f]{2})\s+(.*?)\s*", text)
        if names:
            columns = names
        elif row and not columns and all(map(_VALUE.fullmatch, row[3].split())):
            raise origin.refuse(
                number,
                "rows without a header: this perf prints none",
                "count with the collector perf-uncore or pcm-iio",
            )
        elif row and len(row[3].split()) == len(columns):
            stamp = round(float(row[1]) * 1e9) if row[1] else None
            cells = (
                (SourceMetric(_COLUMNS[name], "B", Kind.INTERVAL), *scaled(parse_cell(cell), 2**20))
                for name, cell in zip(columns, row[3].split(), strict=True)
            )
            yield reading(origin.now(stamp), f"rootport:{row[2]}", cells)
        elif not columns:
            origin.refuse_failure(number, text)
        elif text.strip() and not text.startswith("#"):
            origin.leave_out(number, f"no row of perf iostat: {text[:60]!r}")
    if not columns:
        raise origin.refuse(0, "no header of perf iostat in it", "record with: perf iostat -I 1000")
