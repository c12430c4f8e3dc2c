# SPDX-License-Identifier: BSD-3-Clause
"""The collectors that run `perf stat`: core and software events, uncore events by generation, VT-d and AMD IOMMU
PMUs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from . import perf_stat
from .interface import Availability
from .parsing import Problems
from .perf_events import Event, host_uncore_events, iommu_events
from .processor import read_processor
from .recording import Recording
from .sample import Kind, Metric, Reading
from .tool import ToolCollector

PMUS = Path("/sys/bus/event_source/devices")
_SOFTWARE = ("task-clock", "context-switches", "cpu-migrations", "page-faults")
_HARDWARE = ("cycles", "instructions", "cache-references", "cache-misses")


class Perf(ToolCollector):
    """System-wide, a row a CPU: software events everywhere, hardware events where there is a PMU."""

    name, summary = perf_stat.NAME, "perf stat: cycles, instructions, cache misses, context switches per CPU"
    binary, package = "perf", "linux-perf"
    parser = staticmethod(perf_stat.parse)

    def __init__(self, events: Sequence[str] = (), cpus: Sequence[int] = ()) -> None:
        super().__init__()
        self._events, self._cpus = tuple(events), tuple(cpus)

    def arguments(self, interval_ns: int) -> Sequence[str]:
        events = self._events or (*_SOFTWARE, *(_HARDWARE if _has_pmu() else ()))
        # perf refuses intervals below 10 ms and warns of overhead below 100 ms
        interval_ms = max(10, interval_ns // 1_000_000)
        return ("stat", *self._scope(), "-j", "--log-fd", "1", "-I", str(interval_ms), "-e", ",".join(events))

    def _scope(self) -> Sequence[str]:
        return ("-a", "-A", *(("-C", ",".join(map(str, self._cpus))) if self._cpus else ()))

    def probe(self) -> Availability:
        availability = super().probe()
        if availability.available and not _has_pmu():
            return Availability(True, "software events only: this machine shows no hardware PMU")
        return availability


def _has_pmu() -> bool:
    return any(path for pattern in ("cpu", "cpu_*", "arm*") for path in PMUS.glob(pattern))


class PerfCorunner(Perf):
    """The co-runner alone: the process that the run started (`pid`), or the CPUs that it was given."""

    name, summary = "perf-corunner", "perf stat: cycles, instructions, cache misses of the co-runner"

    def __init__(self, pid: int | None = None, cpus: Sequence[int] = ()) -> None:
        super().__init__(cpus=cpus)
        self._pid = pid

    def probe(self) -> Availability:
        if self._pid is None and not self._cpus:
            return Availability(False, "the run has no co-runner")
        return super().probe()

    def _scope(self) -> Sequence[str]:
        return ("-p", str(self._pid)) if self._pid is not None else ("-a", "-C", ",".join(map(str, self._cpus)))

    def parse_recording(self, recording: Recording, problems: Problems) -> Iterator[Reading]:
        for reading in super().parse_recording(recording, problems):
            yield reading._replace(unit_path="corunner")


class _NamedEvents(ToolCollector):
    """Events that this package names: perf prints our name, the table knows unit and factor."""

    binary, package = "perf", "linux-perf"
    parser = staticmethod(perf_stat.parse)
    why_absent = ""

    def events(self) -> list[Event]:
        raise NotImplementedError

    def probe(self) -> Availability:
        availability = super().probe()
        if not availability.available:
            return availability
        events = self.events()
        reason = self.why_absent if not events else f"{len(events)} events"
        return Availability(bool(events), reason)

    def arguments(self, interval_ns: int) -> Sequence[str]:
        interval_ms = max(10, interval_ns // 1_000_000)
        events = [flag for event in self.events() for flag in ("-e", event.perf_name)]
        return ("stat", "-a", "--per-socket", "-j", "--log-fd", "1", "-I", str(interval_ms), *events)

    def parse_recording(self, recording: Recording, problems: Problems) -> Iterator[Reading]:
        known = {event.name: event for event in self.events()}
        for reading in super().parse_recording(recording, problems):
            yield in_base_units(reading, known)


def in_base_units(reading: Reading, known: dict[str, Event]) -> Reading:
    """The reading of one event with the event's own unit, factor and place (`iio3.dma_write` goes to stack3)."""
    event = known.get(reading.metrics[0].name)
    if event is None:
        return reading
    metrics = [
        Metric(event.metric, event.unit, Kind.INTERVAL),
        Metric(f"{event.metric}.running_share", "1", Kind.GAUGE),
    ]
    count = reading.values[0]
    value = count * event.scale if isinstance(count, (int, float)) else None
    path = "/".join(filter(None, (reading.unit_path, event.unit_path)))
    return Reading(reading.t_ns, path, metrics, [value, *reading.values[1:]], reading.reasons)


class Uncore(_NamedEvents):
    """IIO, CHA and memory controller events, encoded for this processor generation (configs/platforms/events.yaml)."""

    name, summary = "perf-uncore", "perf stat: IIO, LLC and memory controller events of this processor generation"

    def events(self) -> list[Event]:
        return host_uncore_events(read_processor(), PMUS)

    @property
    def why_absent(self) -> str:  # type: ignore[override]
        pmus = sorted(path.name for path in PMUS.glob("uncore_*")) if PMUS.exists() else []
        if not pmus:
            return "the kernel shows no uncore PMU (hypervisor, or no driver for this processor)"
        return f"no event table for {read_processor().name}"


class VtdPmu(_NamedEvents):
    """PMU of the VT-d units (`dmar*`; kernel 6.3 or later, Sapphire Rapids or later)."""

    name, summary = "vtd-pmu", "IOTLB lookups and hits, page walks of the Intel IOMMU's own PMU"
    why_absent = "no dmar* PMU (it needs kernel 6.3, VT-d switched on, and a processor that has it)"

    def events(self) -> list[Event]:
        return iommu_events(PMUS, "dmar")


class AmdIommuPmu(_NamedEvents):
    """PMU of the AMD IOMMU (`amd_iommu_*`)."""

    name, summary = "amd-iommu", "IOTLB hits and misses of the AMD IOMMU's PMU"
    why_absent = "no amd_iommu_* PMU (not an AMD server, IOMMU off, or hidden by a hypervisor)"

    def events(self) -> list[Event]:
        return iommu_events(PMUS, "amd_iommu")
