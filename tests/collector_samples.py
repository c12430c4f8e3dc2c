# SPDX-License-Identifier: BSD-3-Clause
"""Find and read the tools' outputs on which the parsers are tested."""

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from pollscope.base.names import COLLECTORS, load
from pollscope.collectors.parsing import Origin
from pollscope.collectors.sample import Reading, Value

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT.parent / "shared" / "fixtures"
OWN = Path(__file__).resolve().parent / "collectors"
OWN_SAMPLES = sorted(path for path in OWN.iterdir() if path.suffix not in (".md", ".tsv"))

Parse = Callable[[Iterable[str], Origin], Iterator[Reading]]
PARSERS: dict[str, Parse] = {name: load(COLLECTORS, name).parser for name in COLLECTORS}

# Folders of the shared outputs, and the labels with which snapshots are read.
FOLDERS = {
    "dpdk-telemetry": "dpdk-telemetry",
    "ethtool": "ethtool",
    "iommu": "iommu",
    "pcm": "pcm-core",
    "pcm-iio": "pcm-iio",
    "pcm-memory": "pcm-memory",
    "pcm-pcie": "pcm-pcie",
    "pcm-power": "pcm-power",
    "perf": "perf-stat",
    "perf-iostat": "perf-iostat",
    "rapl": "cpu",
    "turbostat": "turbostat",
}
LABELS = {
    "kernel-load": ("stat", "interrupts", "softirqs"),
    "dpdk-telemetry": ("/ethdev/stats,0", ""),
    "qemu-vtd": ("25754947", "0", ""),  # the length of the interval: without one every text is refused
}

needs_fixtures = pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no tool outputs in {FIXTURES}")


def read_file(parser: str, path: Path, label: str = "") -> list[Reading]:
    """Return all readings of a file."""
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        return list(PARSERS[parser](file, Origin(path.name, label=label)))


def read_text(parser: str, text: str, label: str = "") -> list[Reading]:
    """Return all readings of a text."""
    return list(PARSERS[parser](io.StringIO(text), Origin("text", label=label)))


def values(readings: Iterable[Reading], unit_path: str, metric: str) -> list[Value]:
    """Return every value of one metric of one unit, in order (None: absent)."""
    return [
        value
        for reading in readings
        if reading.unit_path == unit_path
        for name, value in zip(reading.metrics, reading.values, strict=True)
        if name.name == metric
    ]


def reason(readings: Iterable[Reading], unit_path: str, metric: str) -> str:
    """Return the reason why the metric of a unit is absent at its first reading."""
    for reading in readings:
        for index, name in enumerate(reading.metrics):
            if reading.unit_path == unit_path and name.name == metric:
                return reading.reasons.get(index, "")
    raise AssertionError(f"no {metric} of {unit_path}")
