# SPDX-License-Identifier: BSD-3-Clause
"""The collectors that run Intel PCM. Only one at a time may own the uncore PMUs: two of them silently overwrite each
other.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.loopback_url import check_loopback_url, fetch
from pollscope.collectors.nic_place import WithNics
from pollscope.collectors.parsers.pcm import core_text, iio, memory, pcie, power, sensor_server
from pollscope.collectors.polling import PollingCollector
from pollscope.collectors.processor import read_processor
from pollscope.collectors.tool import ToolCollector

_LOCKDOWN = Path("/sys/kernel/security/lockdown")
_SCRAPE_LIMIT_S = 2.0


class PcmCollector(ToolCollector):
    """Check the needs of all PCM tools: root, an Intel server processor, MSRs, no lockdown, no hypervisor."""

    package = "pcm"
    owns_uncore = True
    options: Sequence[str]
    least_s = 0.1

    def arguments(self, interval_ns: int) -> Sequence[str]:
        return (f"{max(interval_ns / 1e9, self.least_s):g}", *self.options)

    def probe(self) -> ProbeResult:
        # check first what no package changes: under a hypervisor, installing the package would be useless
        reason = obstacle("GenuineIntel", "PCM needs an Intel", "the uncore PMUs and their MSRs") or no_msr()
        if not reason and _LOCKDOWN.exists() and "[none]" not in (mode := _LOCKDOWN.read_text(encoding="utf-8")):
            reason = f"kernel lockdown is on ({mode.strip()}): MSRs and /dev/mem are closed"
        return ProbeResult(False, reason) if reason else super().probe()


def obstacle(vendor: str, needs: str, hidden: str) -> str:
    """Return why a tool for the processors of a vendor cannot count here; empty if nothing is against it."""
    processor = read_processor()
    if processor.vendor != vendor:
        return f"{needs} processor, this is {processor.vendor or 'another'} ({processor.name})"
    if processor.hypervisor:
        return f"a hypervisor hides {hidden} from this virtual machine"
    return "" if os.geteuid() == 0 else "not root"


def no_msr() -> str:
    """Return why registers cannot be read; empty if they can."""
    return "" if Path("/dev/cpu/0/msr").exists() else "no MSR device /dev/cpu/0/msr (modprobe msr)"


class PcmIio(WithNics, PcmCollector):
    """pcm-iio: each counter (23 to 40) gets a part of the interval, which is therefore at least 1 s; 0.04 s would
    divide by zero.
    """

    name = binary = "pcm-iio"
    summary = "PCIe traffic and IOMMU events per IIO stack"
    notes = (
        "per second; counters are read one after the other; row `Total`: a whole stack; "
        "a NIC's own part is `nic:ADDRESS`"
    )
    parser = staticmethod(iio.parse)
    options = ("-csv", "-silent")
    least_s = 1.0


class PcmPcie(PcmCollector):
    """pcm-pcie: with hits and misses (-e) and bytes (-B)."""

    name = binary = "pcm-pcie"
    summary = "PCIe requests at the LLC per socket, with hits and misses of the look-up (not of DDIO)"
    notes = "**per interval**, in cache lines"
    parser = staticmethod(pcie.parse)
    options = ("-csv", "-B", "-e", "-silent")
    least_s = 1.0


class PcmMemory(PcmCollector):
    """pcm-memory: -partial avoids the PMM columns, which appear without any PMM on Cascade Lake to Emerald Rapids."""

    name = binary = "pcm-memory"
    summary = "DRAM traffic per channel and socket"
    notes = "per second (mean); MB = 10^6 B; versions before 202207 are refused if channels are inactive"
    parser = staticmethod(memory.parse)
    options = ("-csv", "-partial", "-silent", "-f")


class Pcm(PcmCollector):
    """pcm: cores, caches, energy. Not with -r: a PMU that another owner uses is not taken from it."""

    name = binary = "pcm"
    summary = "core, cache and energy counters"
    notes = (
        "per interval; counts in millions, traffic in 10^9 B; UPI links (`upi0_in`, `upi0_out`); "
        "dies are `socket0/die1`"
    )
    parser = staticmethod(core_text.parse)
    options = ("-csv", "-silent", "-f")


class PcmCore(PcmCollector):
    """pcm-core: cores only; the memory controllers and the IIO stay free for others."""

    name = binary = "pcm-core"
    summary = "instructions and cycles of every logical CPU"
    notes = "per interval; counts cut to K, M, G; events without a name are `event0`"
    parser = staticmethod(core_text.parse)
    owns_uncore = False
    options = ("-silent",)


class PcmPower(PcmCollector):
    """pcm-power: package and DRAM energy, channel power states."""

    name = binary = "pcm-power"
    summary = "energy and power states per socket and channel"
    notes = "per interval; `limited_by_…` is 1 if that throttled a die"
    parser = staticmethod(power.parse)
    options = ("-silent",)


class PcmSensorServer(PollingCollector):
    """Read the Prometheus page of a pcm-sensor-server that runs here; the server keeps the PMUs while it runs."""

    name, summary = "pcm-sensor-server", "counters of a running pcm-sensor-server"
    notes = "counter; start the server yourself; it keeps the PMUs"
    parser = staticmethod(sensor_server.parse)
    owns_uncore = True

    def __init__(self, url: str = "http://localhost:9738/metrics") -> None:
        super().__init__()
        self._url = check_loopback_url(url)

    def probe(self) -> ProbeResult:
        try:
            self._scrape()
        except OSError as error:
            return ProbeResult(False, f"no pcm-sensor-server answers at {self._url} ({error})")
        return ProbeResult(True, self._url)

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", self._scrape()

    def _scrape(self) -> bytes:
        return fetch(self._url, _SCRAPE_LIMIT_S)
