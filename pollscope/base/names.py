# SPDX-License-Identifier: BSD-3-Clause
"""List the names that specs and commands accept, and where each is implemented ("module:name").

A module is imported when its name is first used. A new knob, collector, testbed or workload needs one file and one
line here; a new figure or paper needs data in data/ (docs/extending.md). The build of the node program reads the
table of workloads with a Python that has no packages installed.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pollscope.base.paths import data_folder

_CLAIMED_ROW = re.compile(r"^[ -]*row: *([^\s,}#]+)", re.MULTILINE)
_FIGURE_ROW = re.compile(r"^  (\S+):$", re.MULTILINE)
Status = Literal["ok", "flagged", "failed"]
TrialKind = Literal["measure", "baseline", "maximum", "search"]
# Organisations in which every core polls every RX queue.
SHARED_QUEUES = ("locked", "trylock", "corec")
# Policies that choose CPUs.
PLACEMENTS = ("separate", "smt-pairs", "same-node", "remote-node")

KNOBS: Mapping[str, str] = MappingProxyType(
    {
        "ddio": "pollscope.knobs.ddio:Ddio",
        "ddio_ways": "pollscope.knobs.llc_ways:DdioWays",
        "iommu": "pollscope.knobs.fixed:Iommu",
        "outstanding_wqes": "pollscope.knobs.fixed:OutstandingWqes",
        "vtd_latency": "pollscope.knobs.sysfs:TimedInvalidations",
        "governor": "pollscope.knobs.sysfs:Governor",
        "core_freq": "pollscope.knobs.sysfs:CoreFreq",
        "epp": "pollscope.knobs.sysfs:Epp",
        "epb": "pollscope.knobs.sysfs:Epb",
        "turbo": "pollscope.knobs.sysfs:Turbo",
        "c_states": "pollscope.knobs.c_states:CStates",
        "smt": "pollscope.knobs.sysfs:Smt",
        "uncore_freq": "pollscope.knobs.sysfs:UncoreFreq",
        "prefetchers": "pollscope.knobs.msr:Prefetchers",
        "hugepages": "pollscope.knobs.sysfs:Hugepages",
        "irq_affinity": "pollscope.knobs.sysfs:IrqAffinity",
        "numa_balancing": "pollscope.knobs.sysfs:NumaBalancing",
        "aspm": "pollscope.knobs.nic_registers:Aspm",
        "mrrs": "pollscope.knobs.nic_registers:Mrrs",
        "nmi_watchdog": "pollscope.knobs.sysfs:NmiWatchdog",
        "probe": "pollscope.knobs.probe:ProbePlugin",
    }
)

COLLECTORS: Mapping[str, str] = MappingProxyType(
    {
        "pcm-iio": "pollscope.collectors.sources.pcm:PcmIio",
        "pcm-pcie": "pollscope.collectors.sources.pcm:PcmPcie",
        "pcm-memory": "pollscope.collectors.sources.pcm:PcmMemory",
        "pcm": "pollscope.collectors.sources.pcm:Pcm",
        "pcm-core": "pollscope.collectors.sources.pcm:PcmCore",
        "pcm-power": "pollscope.collectors.sources.pcm:PcmPower",
        "pcm-sensor-server": "pollscope.collectors.sources.pcm:PcmSensorServer",
        "amd-uprof-pcm": "pollscope.collectors.sources.amd_uprof_pcm:AmdUprofPcm",
        "perf": "pollscope.collectors.sources.perf:Perf",
        "perf-corunner": "pollscope.collectors.sources.perf:PerfCorunner",
        "perf-iostat": "pollscope.collectors.sources.perf:PerfIostat",
        "perf-uncore": "pollscope.collectors.sources.perf:Uncore",
        "vtd-pmu": "pollscope.collectors.sources.perf:VtdPmu",
        "amd-iommu": "pollscope.collectors.sources.perf:AmdIommuPmu",
        "vtd-latency": "pollscope.collectors.sources.host:VtdLatency",
        "qemu-vtd": "pollscope.collectors.sources.qemu_vtd:QemuVtd",
        "ethtool": "pollscope.collectors.sources.ethtool:Ethtool",
        "ethtool-settings": "pollscope.collectors.sources.ethtool:EthtoolSettings",
        "dpdk-telemetry": "pollscope.collectors.sources.dpdk_telemetry:DpdkTelemetry",
        "neohost": "pollscope.collectors.sources.nic_tools:NeoHost",
        "mlxconfig": "pollscope.collectors.sources.nic_tools:MlxConfig",
        "devlink": "pollscope.collectors.sources.nic_tools:DevlinkHealth",
        "turbostat": "pollscope.collectors.sources.turbostat:Turbostat",
        "rapl": "pollscope.collectors.sources.host:Rapl",
        "aperf": "pollscope.collectors.sources.host:AperfMperf",
        "cpufreq": "pollscope.collectors.sources.host:CpuFrequency",
        "cpuidle": "pollscope.collectors.sources.host:CpuIdle",
        "throttle": "pollscope.collectors.sources.host:Throttle",
        "kernel-load": "pollscope.collectors.sources.host:KernelLoad",
        "kernel-log": "pollscope.collectors.sources.host:KernelLog",
        "cpu-settings": "pollscope.collectors.sources.host:CpuSettings",
        "lscpu": "pollscope.collectors.sources.host:Lscpu",
        "pcie": "pollscope.collectors.sources.host:PcieState",
        "iommu": "pollscope.collectors.sources.host:IommuState",
    }
)

# Quantities that a spec may ask for instead of a collector -> collectors that give it; the first that works on the host
# does. PCM comes first; perf reads all of them at once, so it follows.
QUANTITIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "pcie-traffic": ("pcm-iio", "perf-uncore", "pcm-pcie"),
        "iotlb": ("pcm-iio", "perf-uncore", "vtd-pmu", "amd-iommu"),
        "device-lines": ("pcm-pcie", "perf-uncore"),
        "dram-traffic": ("pcm-memory", "perf-uncore", "pcm", "amd-uprof-pcm"),
        "package-power": ("turbostat", "pcm-power"),
    }
)

TESTBEDS: Mapping[str, str] = MappingProxyType(
    {
        "loopback": "pollscope.testbeds.loopback:LoopbackTestbed",
        "vm-pair": "pollscope.testbeds.vm.testbed:VmPairTestbed",
        "pair": "pollscope.testbeds.pair.testbed:PairTestbed",
        "pairs": "pollscope.testbeds.pairs:PairsTestbed",
        "model": "pollscope.testbeds.model:ModelTestbed",
        "namespaces": "pollscope.testbeds.namespaces.testbed:NamespacesTestbed",
    }
)


class Workload(NamedTuple):
    """The work of a DUT on each packet; implemented in apps/node/workload.

    Attributes:
        summary: in a few words (docs/reference-spec.md).
        parameters: of a spec, which only some workloads read.
        receives: packets come from RX queues.
        answers: which packets go out again as the generator knows them.
    """

    summary: str
    parameters: tuple[str, ...] = ()
    receives: bool = True
    answers: Literal["all", "some", "none"] = "all"


WORKLOADS: Mapping[str, Workload] = MappingProxyType(
    {
        "io": Workload("every packet is sent unchanged"),
        "drop": Workload("every packet is freed", answers="none"),
        "l3fwd-lpm": Workload(
            "IPv4 routing by a longest-prefix table of `routes` routes; TTL and MAC addresses are rewritten",
            ("routes", "lookups", "checksum"),
        ),
        "encap": Workload("IPv4 packets enter a tunnel (`encapsulation`)", ("encapsulation", "task_data")),
        "crypto": Workload("the payload is encrypted with AES-256-CBC", ("task_data",)),
        "steer": Workload(
            "a hash table of `sessions` sessions gives the server of each packet", ("sessions", "task_data")
        ),
        "rs": Workload(
            "the payload is cut into `task_buffers` buffers, and Reed-Solomon parity (`parity_buffers`) is added",
            ("task_buffers", "parity_buffers", "task_data"),
        ),
        "raid": Workload(
            "the payload is cut into `task_buffers` buffers, and P and Q parity is added", ("task_buffers", "task_data")
        ),
        "dispatch": Workload(
            "the type of a request is identified, and its remote procedure call is prepared", ("task_data",)
        ),
        "ipsec": Workload(
            "a third of the routes is forwarded, a third dropped, a third enters an ESP tunnel (`transform`)",
            ("transform", "routes"),
            answers="some",
        ),
        "tx": Workload(
            "sends prepared packets as fast as possible; receives nothing", ("tx_pool",), receives=False, answers="none"
        ),
        "rx": Workload("every packet is counted and freed", answers="none"),
    }
)
RECEIVE_NOTHING = frozenset(name for name, each in WORKLOADS.items() if not each.receives)
NOT_ALL_ANSWERED = frozenset(name for name, each in WORKLOADS.items() if each.answers != "all")
DROP_ON_PURPOSE = NOT_ALL_ANSWERED - RECEIVE_NOTHING
SEND_NOTHING = frozenset(name for name in DROP_ON_PURPOSE if WORKLOADS[name].answers == "none")


@cache
def papers() -> tuple[str, ...]:
    """Return the papers whose data ship with pollscope (data/papers)."""
    return tuple(sorted(path.stem for path in (data_folder("data") / "papers").glob("*.yaml")))


@cache
def figure_rows() -> tuple[str, ...]:
    """Return the rows that have a figure, in the order of the gallery (data/figures.yaml)."""
    return tuple(_FIGURE_ROW.findall((data_folder("data") / "figures.yaml").read_text(encoding="utf-8")))


def rows() -> tuple[str, ...]:
    """Return the rows that have a figure or a claim (data/claims)."""
    files = (data_folder("data") / "claims").glob("*.yaml")
    claimed = [row for file in files for row in _CLAIMED_ROW.findall(file.read_text(encoding="utf-8"))]
    return tuple(sorted({*figure_rows(), *claimed}))


def load(table: Mapping[str, str], name: str) -> Any:
    """Return the implementation of a name of a table."""
    module, _, what = table[name].partition(":")
    return getattr(import_module(module), what)


def did_you_mean(word: str, allowed: list[str]) -> str:
    """Return `; did you mean 'queues'? allowed: ...` for an unknown word."""
    close = get_close_matches(word, allowed, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ";"
    return f"{hint} allowed: {', '.join(allowed)}"
