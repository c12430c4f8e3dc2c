# SPDX-License-Identifier: BSD-3-Clause
"""Find the counters of one NIC: NIC -> root port -> IIO stack -> part of the stack.

The recording host looks up a NIC's place when a recording begins, and stores it in the recording. Readings of that
part are repeated under the NIC's name (`nic:0000:17:00.0`, `nic_dma_write`). The kernel says which root bus an IIO PMU
watches (sysfs, `uncore_iio_N/dieM`: ABI/testing/sysfs-devices-mapping); PCM numbers stacks like the PMUs.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from pollscope.collectors.parsing import Problems
from pollscope.collectors.processor import Processor, read_processor
from pollscope.collectors.recording import Recording
from pollscope.collectors.sample import Kind, Reading, SourceMetric, absent
from pollscope.collectors.sources.perf_events import generation_of
from pollscope.collectors.tool import ToolCollector
from pollscope.host.files import SYS
from pollscope.host.topology import Nic, nics

_TRAFFIC = ("dma_read", "dma_write", "mmio_read", "mmio_write")
_PORT = re.compile(r"([0-9a-f]{4,}:[0-9a-f]{2}):([0-9a-f]{2})\.[0-7]")
_PART = re.compile(r"(socket\d+/stack\d+)(?::[^/]*)?(/part\d+)")
_NICS_LINE = re.compile(r"nics (\S+) (at (\S+)|nowhere: (.*))")


class WithNics(ToolCollector):
    """A tool that counts parts of IIO stacks, and so NICs.

    Args:
        nics: PCI addresses of the NICs whose own traffic is given (`nic_dma_write`); all, if empty.
    """

    def __init__(self, nics: Sequence[str] = ()) -> None:
        super().__init__()
        self._nics = tuple(nics)

    def metadata(self) -> Sequence[str]:
        return places(self._nics, read_processor())

    def parse_recording(self, recording: Recording, problems: Problems) -> Iterator[Reading]:
        return _with_nics(super().parse_recording(recording, problems), recording.metadata())


def places(addresses: Sequence[str], processor: Processor, sys: Path = SYS) -> list[str]:
    """Return `nics ADDRESS[,ADDRESS] at socket0/stack3/part0` or `nowhere: WHY` for these NICs, or for all.

    Functions of one card share a root port, so a part.
    """
    found: dict[str, list[str]] = {}
    for nic in nics(sys):
        if not addresses or nic.address in addresses:
            found.setdefault(_place(nic, processor, sys), []).append(nic.address)
    return [f"nics {','.join(there)} {place}" for place, there in found.items()]


def _place(nic: Nic, processor: Processor, sys: Path) -> str:
    generation = generation_of(processor)
    port = _PORT.fullmatch(nic.root_port or "")
    if generation is None or generation.first_port is None:
        return f"nowhere: the counters of root ports are unknown for {processor.name or 'this processor'}"
    if port is None:
        return "nowhere: it is not below a root port"
    part = int(port[2], 16) - generation.first_port
    stack = _stack_of(port[1], sys)
    if stack is None:
        return f"nowhere: the kernel names no IIO PMU for the root bus {port[1]} (5.10 or later does)"
    if part < 0:
        return f"nowhere: the root port {nic.root_port} is not one of the processor's PCIe ports (chipset)"
    return f"at {stack}/part{part}"


def _stack_of(bus: str, sys: Path) -> str | None:
    """Return the stack of a root bus, as `socket0/stack3`."""
    for file in sorted((sys / "bus/event_source/devices").glob("uncore_iio_[0-9]*/die[0-9]*")):
        if file.read_text(encoding="ascii").strip() == bus:
            return f"socket{file.name.removeprefix('die')}/stack{file.parent.name.rpartition('_')[2]}"
    return None


def _with_nics(readings: Iterable[Reading], metadata: Iterable[str]) -> Iterator[Reading]:
    """Add the NIC's readings to those of its part; at the end, report what NICs without a part lack."""
    matches = [match for line in metadata if (match := _NICS_LINE.fullmatch(line))]
    units = {match[3]: f"nic:{match[1]}" for match in matches if match[3]}
    for reading in readings:
        yield reading
        unit = units.get(_part(reading.unit_path)) if units else None
        if unit:
            yield from _of_nic(reading, unit)
    for match in matches:
        if match[4]:
            yield absent(None, f"nic:{match[1]}", map(_named, _TRAFFIC[:2]), match[4])


@cache
def _part(path: str) -> str:
    """Return the part as perf and sysfs name it: `socket0/stack3:PCIe2/part0` without the stack's name."""
    match = _PART.fullmatch(path)
    return f"{match[1]}{match[2]}" if match else ""


def _of_nic(reading: Reading, unit: str) -> Iterator[Reading]:
    chosen = [index for index, metric in enumerate(reading.metrics) if metric.name in _TRAFFIC]
    if chosen:
        metrics = [reading.metrics[index]._replace(name=f"nic_{reading.metrics[index].name}") for index in chosen]
        reasons = {at: reading.reasons[index] for at, index in enumerate(chosen) if index in reading.reasons}
        yield Reading(reading.t_ns, unit, metrics, [reading.values[index] for index in chosen], reasons)


def _named(name: str) -> SourceMetric:
    return SourceMetric(f"nic_{name}", "B/s", Kind.RATE)
