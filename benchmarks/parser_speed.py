# SPDX-License-Identifier: BSD-3-Clause
"""Speed of the pcm-iio parser on one core: a generated log of 100 MB against the 50 MB/s that it must reach.

Prints `ratio parser_speed MEDIAN LOW HIGH N`: speed / 50 MB/s per tenth of the log (10 MB), with the 95 % interval of
the median, and the memory that the parser takes beyond the first tenth.
"""

import os
import random
import sys
import time
import tracemalloc
from collections.abc import Iterator

from pollscope.collectors.parsing import Origin
from pollscope.collectors.pcm_iio import parse

LOG_BYTES = 100_000_000
PIECES = 10
REQUIRED_BYTES_PER_S = 50e6
BANDWIDTH = "IB write,IB read,OB read,OB write"
IOMMU = "IOTLB Lookup,IOTLB Miss,Ctxt Cache Hit,512G Cache Hit,1G Cache Hit,2M Cache Hit,4K Cache Hit,IOMMU Mem Access"
HEADER = f"Date,Time,Socket,Name,Part,{BANDWIDTH},{IOMMU}\n"
STACKS = ("0 - PCIe0", "1 - PCIe1", "2 - MCP", "3 - PCIe2", "4 - PCIe3", "5 - CBDMA/DMI")
PARTS = ("1st x16/x8/x4", "2nd x4", "2nd x8/3rd x4", "4th x4") * 2


def sample_lines(source: random.Random, second: int) -> Iterator[str]:
    """One sample of a two-socket Ice Lake server, in the layout of pcm 202509: counts of 1 to 10 digits."""
    yield HEADER
    stamp = f"2026-11-20,{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}.152"
    for socket in (0, 1):
        for stack in STACKS:
            for part, width in enumerate(PARTS):
                count = 12 if part == 0 else 4
                values = ",".join(str(source.randrange(10 ** source.randrange(1, 11))) for _ in range(count))
                yield f"{stamp},Socket{socket},IIO Stack {stack},Part{part} ({width}),{values}\n"


def make_piece(source: random.Random, first_second: int, size_bytes: int) -> tuple[list[str], int]:
    lines: list[str] = []
    size, second = 0, first_second
    while size < size_bytes:
        for line in sample_lines(source, second):
            lines.append(line)
            size += len(line)
        second += 1
    return lines, second


def measure(lines: list[str]) -> float:
    """MB/s of CPU time, so that another process on the core does not count."""
    size = sum(map(len, lines))
    began = time.process_time()
    for _ in parse(iter(lines), Origin("generated")):
        pass
    return size / (time.process_time() - began)


def parser_memory_bytes(lines: list[str]) -> int:
    """Peak of what the parser allocates while it goes through the lines."""
    tracemalloc.start()
    for _ in parse(iter(lines), Origin("generated")):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def median_interval(ratios: list[float]) -> tuple[float, float, float]:
    """Median and the order statistics that hold it with 95 % (binomial; for 10 values the 2nd and the 9th)."""
    ordered = sorted(ratios)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return middle, ordered[1], ordered[-2]


def main() -> int:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    source, second = random.Random(1), 0
    ratios: list[float] = []
    memory: list[int] = []
    for _ in range(PIECES):
        lines, second = make_piece(source, second, LOG_BYTES // PIECES)
        ratios.append(measure(lines) / REQUIRED_BYTES_PER_S)
        memory.append(parser_memory_bytes(lines[: len(lines) // 10]))
    growth = max(memory) - memory[0]
    print(f"parser memory: {memory[0]} bytes at most in the first tenth, {growth} more later", file=sys.stderr)
    median, low, high = median_interval(ratios)
    print(f"ratio parser_speed {median:.3f} {low:.3f} {high:.3f} {len(ratios)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
