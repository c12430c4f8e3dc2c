#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure the speed and memory of the parsers on one core, above all of pcm-iio's on a continuous log of 100 MB.

Prints `ratio parser_speed MEDIAN LOW HIGH N`: MB per second of CPU time over the 10 MB/s to be reached, with the 95 %
interval of the median over the tenths of the log. Goals: low end at least 1, and memory grows by at most 1 MB after the
first tenth. Ends with 1 when one is missed.

With --details also the speed and resident memory after every tenth, the speed of the other parsers, each on a recording
of 4 MB in its tool's form (samples of tests/collectors and ../shared/fixtures, repeated), and of all together: bytes of
all logs over their time.
"""

import io
import os
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from ratio import options, print_ratio

from pollscope.base.names import COLLECTORS, load
from pollscope.collectors.parsers.pcm.iio import parse
from pollscope.collectors.parsing import Origin
from pollscope.collectors.polling import PollingCollector

LOG_BYTES = 100_000_000
PIECES = 10
REQUIRED_BYTES_PER_S = 10e6
GROWTH_BYTES = 1 << 20
OTHER_BYTES = 4_000_000
ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "tests" / "collectors", ROOT.parent / "shared" / "fixtures")
# By collector: label of the recording, sample.
SAMPLES = {
    "pcm-pcie": ("", "pcm-pcie/codegen/pcm-pcie_head2606_csv_e_B_icx.csv"),
    "pcm-memory": ("", "pcm-memory/codegen/pcm-memory_head2606_csv_partial_icx_8ch.csv"),
    "pcm": ("", "pcm-core/codegen/pcm_head2606_csv_icx_2s4c.csv"),
    "pcm-power": ("", "pcm-power.txt"),
    "perf": ("", "perf-stat/perf61_j_I100_vm.json"),
    "vtd-latency": ("", "vtd-latency.txt"),
    "ethtool": ("eth0", "ethtool/ethtool_S_mlx5_core_ethq.txt"),
    "dpdk-telemetry": ("/ethdev/xstats,0", "dpdk-telemetry/testpmd26.11rc0_net_null/ethdev_xstats_0.json"),
    "neohost": ("", "neohost.json"),
    "turbostat": ("", "turbostat/turbostat_2s_perfspect_testdata.txt"),
    "aperf": ("", "aperf.txt"),
    "cpufreq": ("", "cpu/sysfs_cpu_vm_k618.txt"),
    "kernel-load": ("interrupts", "kernel-load.interrupts.txt"),
    "kernel-log": ("", "kernel-log.txt"),
}
BANDWIDTH = "IB write,IB read,OB read,OB write"
IOMMU = "IOTLB Lookup,IOTLB Miss,Ctxt Cache Hit,512G Cache Hit,1G Cache Hit,2M Cache Hit,4K Cache Hit,IOMMU Mem Access"
HEADER = f"Date,Time,Socket,Name,Part,{BANDWIDTH},{IOMMU}\n"
STACKS = ("0 - PCIe0", "1 - PCIe1", "2 - MCP", "3 - PCIe2", "4 - PCIe3", "5 - CBDMA/DMI")
PARTS = ("1st x16/x8/x4", "2nd x4", "2nd x8/3rd x4", "4th x4") * 2


def sample_lines(source: random.Random, second: int) -> Iterator[str]:
    """Yield one sample of a two-socket Ice Lake server, in the layout of pcm 202509: counts of 1 to 10 digits."""
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


class CountedFile(io.FileIO):
    """A log that notes bytes, CPU time and memory after every tenth; per block, because per line costs too much."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._size = 0
        self.marks: list[tuple[int, float, int]] = [(0, time.process_time(), resident_bytes())]

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer) or 0
        self._size += count
        if self._size >= len(self.marks) * LOG_BYTES // PIECES:
            self.marks.append((self._size, time.process_time(), resident_bytes()))
        return count


def measure(path: Path) -> list[tuple[int, float, int]]:
    """Return (bytes so far, CPU time so far, resident memory) after every tenth of the log."""
    counted = CountedFile(path)
    with io.TextIOWrapper(io.BufferedReader(counted), encoding="utf-8", errors="replace", newline="\n") as file:
        deque(parse(iter(file), Origin(path.name)), maxlen=0)
    return counted.marks


def measure_others(size: int, cpu_s: float) -> None:
    """Print the speed of the other parsers, and of all together with the `size` bytes of pcm-iio's log."""
    for name, (label, sample) in SAMPLES.items():
        path = next((folder / sample for folder in FOLDERS if (folder / sample).is_file()), None)
        if path is None:
            print(f"# {name:15s} no sample {sample} here", file=sys.stderr)
            continue
        log = path.read_text(encoding="utf-8", errors="replace").rstrip("\n") + "\n"
        make, times = load(COLLECTORS, name), OTHER_BYTES // len(log) + 1
        logs = [log] * times if isinstance(make(), PollingCollector) else [log * times]
        began = time.process_time()
        for each in logs:
            deque(make.parser(iter(io.StringIO(each)), Origin(name, label=label)), maxlen=0)
        taken_s = time.process_time() - began
        size, cpu_s = size + times * len(log), cpu_s + taken_s
        print(f"# {name:15s} {times * len(log) / taken_s / 1e6:6.1f} MB/s", file=sys.stderr)
    print(f"# all together    {size / cpu_s / 1e6:6.1f} MB/s ({size / 1e6:.0f} MB)", file=sys.stderr)


def main() -> int:
    details = options(__doc__, details=True).parse_args().details
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "pcm-iio.csv"
        write_log(log)
        marks = measure(log)
    ratios = []
    for (size, cpu_s, _), (more, later_s, memory) in pairwise(marks):
        speed = (more - size) / (later_s - cpu_s)
        ratios.append(speed / REQUIRED_BYTES_PER_S)
        if details:
            print(f"# {more / 1e6:5.0f} MB: {speed / 1e6:5.1f} MB/s, {memory / 1e6:.1f} MB resident", file=sys.stderr)
    if details:
        measure_others(marks[-1][0], marks[-1][1] - marks[0][1])
    estimate = print_ratio("parser_speed", ratios)
    growth = marks[-1][2] - marks[1][2]
    print("  goal: low end at least 1", file=sys.stderr)
    print(f"# memory grew by {growth} bytes after the first tenth", file=sys.stderr)
    return 0 if estimate.low >= 1 and growth <= GROWTH_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
