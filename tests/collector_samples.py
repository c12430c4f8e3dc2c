# SPDX-License-Identifier: BSD-3-Clause
"""Where the tools' outputs lie that the parsers are tested on, and how the tests read them."""

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from pollscope.collectors import (
    ddio_bench,
    dpdk_replies,
    ethtool,
    iommu_state,
    kernel_load,
    kernel_log,
    lscpu,
    msr_clock,
    nic_tools,
    pci_state,
    pcm_core,
    pcm_iio,
    pcm_memory,
    pcm_pcie,
    pcm_power,
    pcm_sensor_server,
    perf_iostat,
    perf_stat,
    qemu_vtd,
    sysfs_values,
    turbostat,
    vtd_latency,
)
from pollscope.collectors.parsing import Origin
from pollscope.collectors.sample import Reading, Value

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT.parent / "shared" / "fixtures"
OWN = Path(__file__).resolve().parent / "collectors"

Parse = Callable[[Iterable[str], Origin], Iterator[Reading]]
PARSERS: dict[str, Parse] = {
    "ddio-bench": ddio_bench.parse,
    "devlink": nic_tools.parse_devlink_health,
    "dpdk-telemetry": dpdk_replies.parse,
    "ethtool": ethtool.parse,
    "ethtool-settings": ethtool.parse_settings,
    "iommu": iommu_state.parse,
    "kernel-load": kernel_load.parse,
    "kernel-log": kernel_log.parse,
    "lscpu": lscpu.parse,
    "mlxconfig": nic_tools.parse_mlxconfig,
    "aperf": msr_clock.parse,
    "neohost": nic_tools.parse_neohost,
    "pcie": pci_state.parse,
    "pcm": pcm_core.parse,
    "pcm-iio": pcm_iio.parse,
    "pcm-memory": pcm_memory.parse,
    "pcm-pcie": pcm_pcie.parse,
    "pcm-power": pcm_power.parse,
    "pcm-sensor-server": pcm_sensor_server.parse,
    "perf": perf_stat.parse,
    "perf-iostat": perf_iostat.parse,
    "qemu-vtd": qemu_vtd.parse,
    "sysfs": sysfs_values.parse,
    "turbostat": turbostat.parse,
    "vtd-latency": vtd_latency.parse,
}

needs_fixtures = pytest.mark.skipif(not FIXTURES.is_dir(), reason=f"no tool outputs in {FIXTURES}")


def read_file(parser: str, path: Path, label: str = "") -> list[Reading]:
    """All readings of a file."""
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        return list(PARSERS[parser](file, Origin(path.name, label=label)))


def read_text(parser: str, text: str, label: str = "") -> list[Reading]:
    """All readings of a text."""
    return list(PARSERS[parser](io.StringIO(text), Origin("text", label=label)))


def values(readings: Iterable[Reading], unit_path: str, metric: str) -> list[Value]:
    """Every value of one metric of one unit, in order (None: absent)."""
    return [
        value
        for reading in readings
        if reading.unit_path == unit_path
        for name, value in zip(reading.metrics, reading.values, strict=True)
        if name.name == metric
    ]


def reason(readings: Iterable[Reading], unit_path: str, metric: str) -> str:
    """Why the metric of a unit is absent at its first reading."""
    for reading in readings:
        for index, name in enumerate(reading.metrics):
            if reading.unit_path == unit_path and name.name == metric:
                return reading.reasons.get(index, "")
    raise AssertionError(f"no {metric} of {unit_path}")
