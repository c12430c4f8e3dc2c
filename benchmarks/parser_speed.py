#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Speed and memory of the pcm-iio parser on one core: one continuous log of 100 MB, read from a file as a replay does.

Prints for every tenth of the log its speed and the resident memory so far, then `ratio parser_speed MEDIAN LOW HIGH N`:
MB per second of CPU time (so that another process on the core does not count) over the 50 MB/s that must be reached,
with the 95 % interval of the median over the tenths. Ends with 1 when the interval's low end is below 1, or when memory
grew by more than 1 MB after the first tenth.
"""

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TextIO

from ratio import print_ratio

from pollscope.collectors.parsing import Origin
from pollscope.collectors.pcm_iio import parse

LOG_BYTES = 100_000_000
PIECES = 10
REQUIRED_BYTES_PER_S = 50e6
GROWTH_BYTES = 1 << 20
BANDWIDTH = "IB write,IB read,OB read,OB write"
IOMMU = "IOTLB Lookup,IOTLB Miss,Ctxt Cache Hit,512G Cache Hit,1G Cache Hit,2M Cache Hit,4K Cache Hit,IOMMU Mem Access"
HEADER = f"Date,Time,Socket,Name,Part,{BANDWIDTH},{IOMMU}\n"
STACKS = ("0 - PCIe0", "1 - PCIe1", "2 - MCP", "3 - PCIe2", "4 - PCIe3", "5 - CBDMA/DMI")
PARTS = ("1st x16/x8/x4", "2nd x4", "2nd x8/3rd x4", "4th x4") * 2


def sample_lines(source: random.Random, second: int) -> Iterator[str]:
    """One sample of a two-socket Ice Lake server, in the layout of pcm 202509: counts of 1 to 10 digits."""
    yield HEADER
    stamp = f"2026-11-{1 + second // 86400:02d},{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}.152"
    for socket in (0, 1):
        for stack in STACKS:
            for part, width in enumerate(PARTS):
                count = 12 if part == 0 else 4
                values = ",".join(str(source.randrange(10 ** source.randrange(1, 11))) for _ in range(count))
                yield f"{stamp},Socket{socket},IIO Stack {stack},Part{part} ({width}),{values}\n"


def write_log(path: Path) -> None:
    source, size, second = random.Random(1), 0, 0
    with path.open("w", encoding="ascii") as file:
        while size < LOG_BYTES:
            size += sum(file.write(line) for line in sample_lines(source, second))
            second += 1


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Trace:
    """Lines of the log as they are read; notes CPU time and memory after every tenth."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.marks: list[tuple[int, float, int]] = [(0, time.process_time(), resident_bytes())]

    def __iter__(self) -> Iterator[str]:
        size, next_mark = 0, LOG_BYTES // PIECES
        for line in self._file:
            size += len(line)
            yield line
            if size >= next_mark:
                self.marks.append((size, time.process_time(), resident_bytes()))
                next_mark += LOG_BYTES // PIECES


def measure(path: Path) -> list[tuple[int, float, int]]:
    """(bytes so far, CPU time so far, resident memory) after every tenth of the log."""
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        trace = Trace(file)
        for _ in parse(iter(trace), Origin(path.name)):
            pass
    return trace.marks


def main() -> int:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "pcm-iio.csv"
        write_log(log)
        marks = measure(log)
    ratios = []
    for (size, cpu_s, _), (more, later_s, memory) in pairwise(marks):
        speed = (more - size) / (later_s - cpu_s)
        ratios.append(speed / REQUIRED_BYTES_PER_S)
        print(f"# {more / 1e6:5.0f} MB: {speed / 1e6:5.1f} MB/s, {memory / 1e6:.1f} MB resident")
    estimate = print_ratio("parser_speed", ratios)
    growth = marks[-1][2] - marks[1][2]
    print(f"# memory grew by {growth} bytes after the first tenth")
    return 0 if estimate.low >= 1 and growth <= GROWTH_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
