# SPDX-License-Identifier: BSD-3-Clause
"""The collectors that run Intel PCM. One at a time may own the uncore PMUs: two of them overwrite each other without
a word.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from . import pcm_core, pcm_iio, pcm_memory, pcm_pcie, pcm_power
from .interface import Availability
from .processor import read_processor
from .tool import ToolCollector

_LOCKDOWN = Path("/sys/kernel/security/lockdown")


class PcmCollector(ToolCollector):
    """What all PCM tools need: root, an Intel server processor, MSRs, no lockdown, no hypervisor."""

    package = "pcm"

    def probe(self) -> Availability:
        # first what no package changes: under a hypervisor it would be installed for nothing
        reason = _obstacle()
        return Availability(False, reason) if reason else super().probe()


def _obstacle() -> str:
    processor = read_processor()
    if processor.vendor != "GenuineIntel":
        return f"PCM needs an Intel processor, this is {processor.vendor or 'another'} ({processor.name})"
    if os.geteuid() != 0:
        return "not root"
    if processor.hypervisor:
        return "a hypervisor hides the uncore PMUs and their MSRs from this virtual machine"
    if not Path("/dev/cpu/0/msr").exists():
        return "no MSR device /dev/cpu/0/msr (modprobe msr)"
    if _LOCKDOWN.exists() and "[none]" not in _LOCKDOWN.read_text(encoding="utf-8"):
        return f"kernel lockdown is on ({_LOCKDOWN.read_text(encoding='utf-8').strip()}): MSRs and /dev/mem are closed"
    return ""


def _seconds(interval_ns: int, least: float) -> str:
    return f"{max(interval_ns / 1e9, least):g}"


class PcmIio(PcmCollector):
    """pcm-iio: a slice of the interval a counter (23 to 40 of them), so at least 1 s; 0.04 s would divide by zero."""

    name, binary, summary = pcm_iio.NAME, "pcm-iio", "PCIe traffic and IOMMU events per IIO stack"
    parser = staticmethod(pcm_iio.parse)

    def arguments(self, interval_ns: int) -> Sequence[str]:
        return (_seconds(interval_ns, 1.0), "-csv", "-silent")


class PcmPcie(PcmCollector):
    """pcm-pcie: with hits and misses (-e) and bytes (-B)."""

    name, binary, summary = pcm_pcie.NAME, "pcm-pcie", "PCIe requests at the LLC: DDIO hits and misses per socket"
    parser = staticmethod(pcm_pcie.parse)

    def arguments(self, interval_ns: int) -> Sequence[str]:
        return (_seconds(interval_ns, 1.0), "-csv", "-B", "-e", "-silent")


class PcmMemory(PcmCollector):
    """pcm-memory: -partial avoids the PMM columns, which appear without any PMM on Cascade Lake to Emerald Rapids."""

    name, binary, summary = pcm_memory.NAME, "pcm-memory", "DRAM traffic per channel and socket"
    parser = staticmethod(pcm_memory.parse)

    def arguments(self, interval_ns: int) -> Sequence[str]:
        return (_seconds(interval_ns, 0.1), "-csv", "-partial", "-silent", "-f")


class Pcm(PcmCollector):
    """pcm: cores, caches, energy. Not with -r: a PMU that another owner uses is not taken from it."""

    name, binary, summary = pcm_core.NAME, "pcm", "core, cache and energy counters"
    parser = staticmethod(pcm_core.parse)

    def arguments(self, interval_ns: int) -> Sequence[str]:
        return (_seconds(interval_ns, 0.1), "-csv", "-silent", "-f")


class PcmPower(PcmCollector):
    """pcm-power: package and DRAM energy, channel power states."""

    name, binary, summary = pcm_power.NAME, "pcm-power", "energy and power states per socket and channel"
    parser = staticmethod(pcm_power.parse)

    def arguments(self, interval_ns: int) -> Sequence[str]:
        return (_seconds(interval_ns, 0.1), "-silent")
