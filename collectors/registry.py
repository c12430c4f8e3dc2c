# SPDX-License-Identifier: BSD-3-Clause
"""All collectors by name: made with their options, or probed for `pollscope doctor`."""

from collections.abc import Callable, Mapping

from pollscope.errors import PollscopeError, UsageError

from .dpdk_telemetry import DpdkTelemetry
from .host_files import CpuFrequency, CpuIdle, CpuSettings, Ethtool, KernelLoad, Rapl, Throttle
from .interface import Availability, Collector
from .iommu_state import IommuState
from .kernel_log import KernelLog
from .msr_clock import AperfMperf
from .nic_tool_collectors import DevlinkHealth, MlxConfig, NeoHost
from .pci_state import PcieState
from .pcm import Pcm, PcmIio, PcmMemory, PcmPcie, PcmPower
from .perf import AmdIommuPmu, Perf, PerfCorunner, Uncore, VtdPmu
from .qemu_vtd import QemuVtd
from .turbostat_tool import Turbostat
from .vtd_latency import VtdLatency

_ALL: tuple[Callable[..., Collector], ...] = (
    PcmIio,
    PcmPcie,
    PcmMemory,
    Pcm,
    PcmPower,
    Perf,
    PerfCorunner,
    Uncore,
    VtdPmu,
    AmdIommuPmu,
    VtdLatency,
    QemuVtd,
    Ethtool,
    DpdkTelemetry,
    NeoHost,
    MlxConfig,
    DevlinkHealth,
    Turbostat,
    Rapl,
    AperfMperf,
    CpuFrequency,
    CpuIdle,
    Throttle,
    KernelLoad,
    KernelLog,
    CpuSettings,
    PcieState,
    IommuState,
)
COLLECTORS: Mapping[str, Callable[..., Collector]] = {getattr(make, "name"): make for make in _ALL}  # noqa: B009


def create(name: str, **options: object) -> Collector:
    """A collector by its name.

    Raises:
        UsageError: no collector has this name, or it does not have one of the options.
    """
    make = COLLECTORS.get(name)
    if make is None:
        raise UsageError(f"no collector {name!r}", "", f"one of: {', '.join(COLLECTORS)}")
    try:
        return make(**options)
    except TypeError:
        raise UsageError(f"{name} has no option {', '.join(options)}", "", "see docs/collectors.md") from None


def probe_all() -> dict[str, Availability]:
    """Every collector and whether it can work here, or the precise reason why not."""
    return {name: _probe(make()) for name, make in COLLECTORS.items()}


def _probe(collector: Collector) -> Availability:
    try:
        return collector.probe()
    except (OSError, PollscopeError) as error:
        return Availability(False, str(error))
