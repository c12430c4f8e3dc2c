# SPDX-License-Identifier: BSD-3-Clause
"""The collectors that run `perf stat`: core and software events, uncore events by generation, VT-d and AMD IOMMU
PMUs.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pollscope.base.errors import UsageError
from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.nic_place import WithNics
from pollscope.collectors.parsers.perf import iostat, stat
from pollscope.collectors.parsing import Problems
from pollscope.collectors.processor import read_processor
from pollscope.collectors.recording import Recording
from pollscope.collectors.sample import Kind, Reading, SourceMetric
from pollscope.collectors.sources.perf_events import Event, host_uncore_events, named_events, printed_event
from pollscope.collectors.tool import ToolCollector

PMUS = Path("/sys/bus/event_source/devices")
# `perf stat -e` compiles and loads files with these endings.
_PROGRAM = re.compile(r"\.(c|o)\b")
_SOFTWARE = ("task-clock", "context-switches", "cpu-migrations", "page-faults")
_HARDWARE = ("cycles", "instructions", "cache-references", "cache-misses")


class Perf(ToolCollector):
    """System-wide, one row per CPU: software events everywhere, hardware events where there is a PMU."""

    name, summary = "perf", "perf stat: cycles, instructions, cache misses, context switches per CPU"
    binary, package = "perf", "linux-perf"
    notes = (
        "per interval; if `EVENT.running_share` is below 1, the event is scaled; cgroups are `…/cgroup:NAME`; "
        "metrics (`-M`) are gauges"
    )
    parser = staticmethod(stat.parse)

    def __init__(self, events: Sequence[str] = (), cpus: Sequence[int] = ()) -> None:
        super().__init__()
        if programs := [event for event in events if _PROGRAM.search(event)]:
            raise UsageError(f"{programs[0]} is not an event: perf would load it as a BPF program", "events")
        self._events, self._cpus = tuple(events), tuple(cpus)

    def arguments(self, interval_ns: int) -> Sequence[str]:
        events = self._events or (*_SOFTWARE, *(_HARDWARE if _has_pmu() else ()))
        interval = "-I", _interval_ms(interval_ns)
        return ("stat", *self._scope(), "-j", "--log-fd", "1", *interval, "-e", ",".join(events))

    def _scope(self) -> Sequence[str]:
        return ("-a", "-A", *(("-C", ",".join(map(str, self._cpus))) if self._cpus else ()))

    def probe(self) -> ProbeResult:
        availability = super().probe()
        if availability.available and not _has_pmu():
            return ProbeResult(True, "software events only: this machine shows no hardware PMU")
        return availability


def _interval_ms(interval_ns: int) -> str:
    """Return the interval, at least 10 ms as perf demands; below 100 ms it warns of overhead."""
    return str(max(10, interval_ns // 1_000_000))


def _has_pmu() -> bool:
    return any(path for pattern in ("cpu", "cpu_*", "arm*") for path in PMUS.glob(pattern))


class PerfCorunner(Perf):
    """The co-runner alone: the process that the run started (`pid`), or the CPUs that it was given."""

    name, summary = "perf-corunner", "perf stat: cycles, instructions, cache misses of the co-runner"
    notes = "per interval; absent if the run has no co-runner"

    def __init__(self, pid: int | None = None, cpus: Sequence[int] = ()) -> None:
        super().__init__(cpus=cpus)
        self._pid = pid

    def probe(self) -> ProbeResult:
        if self._pid is None and not self._cpus:
            return ProbeResult(False, "the run has no co-runner")
        return super().probe()

    def _scope(self) -> Sequence[str]:
        return ("-p", str(self._pid)) if self._pid is not None else ("-a", "-C", ",".join(map(str, self._cpus)))

    def parse_recording(self, recording: Recording, problems: Problems) -> Iterator[Reading]:
        for reading in super().parse_recording(recording, problems):
            yield reading._replace(unit_path="corunner")


class _NamedEvents(ToolCollector):
    """Events that this package names: perf prints our name, the table has unit and factor."""

    binary, package = "perf", "linux-perf"
    parser = staticmethod(stat.parse)
    why_absent = ""
    pmu = ""  # kind of the PMU that names its events

    def events(self) -> list[Event]:
        return named_events(PMUS, self.pmu)

    def probe(self) -> ProbeResult:
        availability = super().probe()
        if not availability.available:
            return availability
        events = self.events()
        reason = self.why_absent if not events else f"{len(events)} events"
        return ProbeResult(bool(events), reason)

    def arguments(self, interval_ns: int) -> Sequence[str]:
        events = [flag for event in self.events() for flag in ("-e", event.perf_name)]
        return ("stat", "-a", "--per-socket", "-j", "--log-fd", "1", "-I", _interval_ms(interval_ns), *events)

    def parse_recording(self, recording: Recording, problems: Problems) -> Iterator[Reading]:
        return map(in_base_units, super().parse_recording(recording, problems))


def in_base_units(reading: Reading) -> Reading:
    """Return the reading of one event with the event's own unit, factor and place (`iio3.dma_write` goes to stack3)."""
    event = printed_event(reading.metrics[0].name)
    if event is None:
        return reading
    metrics = [
        SourceMetric(event.metric, event.unit, Kind.INTERVAL),
        SourceMetric(f"{event.metric}.running_share", "1", Kind.GAUGE),
    ]
    count = reading.values[0]
    value = count * event.scale if isinstance(count, (int, float)) else None
    path = "/".join(filter(None, (reading.unit_path, event.unit_path)))
    return Reading(reading.t_ns, path, metrics, [value, *reading.values[1:]], reading.reasons)


class Uncore(WithNics, _NamedEvents):
    """IIO, CHA and memory controller events of Intel, memory controllers and data fabric of AMD, the mesh of Arm."""

    name = "perf-uncore"
    summary = "perf stat: IO, LLC and memory controller events of this processor generation"
    notes = "per interval; events in `configs/platforms/events.yaml`; a NIC's own part is `nic:ADDRESS`"
    owns_uncore = True

    def events(self) -> list[Event]:
        return host_uncore_events(read_processor(), PMUS)

    @property
    def why_absent(self) -> str:  # type: ignore[override]
        if not any(path for pattern in ("uncore_*", "amd_*", "arm_cmn*") for path in PMUS.glob(pattern)):
            return "the kernel shows no uncore PMU (hypervisor, or no driver for this processor)"
        return f"no event table for {read_processor().name}"


class PerfIostat(ToolCollector):
    """`perf iostat`, an alias of `perf stat --iostat`: every root port that the uncore IIO PMUs see."""

    name, summary = "perf-iostat", "perf iostat: PCIe traffic per root port"
    binary, package = "perf", "linux-perf"
    notes = "per interval; MB are 2^20 B"
    parser = staticmethod(iostat.parse)
    owns_uncore = True

    def probe(self) -> ProbeResult:
        if not any(PMUS.glob("uncore_iio_[0-9]*")):
            return ProbeResult(False, "the kernel shows no uncore IIO PMU (hypervisor, or no Intel server processor)")
        return super().probe()

    def arguments(self, interval_ns: int) -> Sequence[str]:
        return ("stat", "--iostat", "--log-fd", "1", "-I", _interval_ms(interval_ns))


class VtdPmu(_NamedEvents):
    """PMU of the VT-d units (`dmar*`; kernel 6.3 or later, Sapphire Rapids or later)."""

    name, summary = "vtd-pmu", "IOTLB lookups and hits, page walks of the Intel IOMMU's own PMU"
    notes = "per interval; the events that the PMU offers here"
    why_absent = "no dmar* PMU (it needs kernel 6.3, VT-d switched on, and a processor that has it)"
    pmu = "dmar"


class AmdIommuPmu(_NamedEvents):
    """PMU of the AMD IOMMU (`amd_iommu_*`)."""

    name, summary = "amd-iommu", "IOTLB hits and misses of the AMD IOMMU's PMU"
    notes = "per interval; the events that the PMU offers here"
    why_absent = "no amd_iommu_* PMU (not an AMD server, IOMMU off, or hidden by a hypervisor)"
    pmu = "amd_iommu"
