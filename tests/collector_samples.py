# SPDX-License-Identifier: BSD-3-Clause
"""Find and read the tools' outputs on which the parsers are tested; as a program: write collectors/golden.tsv again."""

import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from pollscope.base.names import COLLECTORS, load
from pollscope.collectors.parsing import Origin
from pollscope.collectors.sample import Reading, Value

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT.parent / "shared" / "fixtures"
OWN = Path(__file__).resolve().parent / "collectors"
OWN_SAMPLES = sorted(path for path in OWN.iterdir() if path.suffix not in (".md", ".tsv", ".cases"))

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

GOLDEN = OWN / "golden.tsv"

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


@dataclass
class Golden:
    """Hold the values that collectors/golden.tsv has for the texts that fit a pattern.

    Attributes:
        pattern: of the file's name.
        parser: name of the parser.
        readings: how many there are; None: not counted.
        units: values of metrics by unit path.
    """

    pattern: str
    parser: str
    readings: int | None
    units: dict[str, dict[str, list[Value]]]


def read_golden(golden: Golden, path: Path) -> list[Reading]:
    label = "" if path.is_relative_to(FIXTURES) else "".join(path.name.split(".")[1:-1])
    return read_file(golden.parser, path, label)


def load_golden() -> list[Golden]:
    """Read collectors/golden.tsv, whose head explains its form."""
    found: list[Golden] = []
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        first, *cells = line.split("\t")
        if first.startswith("#"):
            continue
        if first:
            found.append(Golden(first, cells[0], json.loads(cells[1]), {}))
        else:
            found[-1].units[cells[0]] = json.loads(cells[1])
    return found


def write_golden() -> None:
    """Write what the parsers give now for the files, units and metrics of collectors/golden.tsv."""
    lines = [line for line in GOLDEN.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    texts = {str(path.relative_to(FIXTURES)): path for path in sorted(FIXTURES.rglob("*"))}
    texts |= {path.name: path for path in OWN_SAMPLES}
    for golden in load_golden():
        first, *_ = [texts.pop(name) for name in list(texts) if fnmatch(name, golden.pattern)]
        readings = read_golden(golden, first)
        lines.append(f"{golden.pattern}\t{golden.parser}\t{len(readings)}")
        for unit_path, metrics in golden.units.items():
            now = {metric: values(readings, unit_path, metric) for metric in metrics}
            lines.append(f"\t{unit_path}\t{json.dumps(now, ensure_ascii=False)}")
    GOLDEN.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_golden()
