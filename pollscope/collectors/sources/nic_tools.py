# SPDX-License-Identifier: BSD-3-Clause
"""Collectors of NIC settings and health that ask a tool at start and stop: mlxconfig, devlink, NEO-Host."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from pollscope.base.errors import HostError
from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import nic_tools
from pollscope.collectors.polling import PollingCollector
from pollscope.collectors.tool import ask
from pollscope.host.files import SYS, read_text
from pollscope.host.topology import network_controllers

_NEOHOST = Path("/opt/neohost/sdk/get_device_performance_counters.py")


def _mellanox_devices() -> list[str]:
    """Return the PCI addresses of NVIDIA/Mellanox network functions."""
    folders = network_controllers(SYS)
    return [folder.name for folder in folders if read_text(folder / "vendor") == "0x15b3"]


class MlxConfig(PollingCollector):
    """Firmware settings such as LOG_MAX_OUTSTANDING_WQE, PCI_WR_ORDERING, CQE_COMPRESSION."""

    name, summary = "mlxconfig", "firmware settings of NVIDIA/Mellanox NICs"
    notes = "state; mlxconfig or mstconfig; `….next_boot`: values after the next boot"
    parser = staticmethod(nic_tools.parse_mlxconfig)
    once = True

    def _tool(self) -> str | None:
        return shutil.which("mlxconfig") or shutil.which("mstconfig")

    def probe(self) -> ProbeResult:
        if not _mellanox_devices():
            return ProbeResult(False, "no NVIDIA/Mellanox NIC")
        tool = self._tool()
        return ProbeResult(
            tool is not None, tool or "neither mlxconfig nor mstconfig is installed (apt-get install mstflint)"
        )

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        for device in _mellanox_devices():
            yield device, ask([self._tool() or "mlxconfig", "-d", device, "-e", "query"])


class NeoHost(PollingCollector):
    """PCIe bandwidth and latency, stalls, translation caches inside the NIC."""

    name, summary = "neohost", "NVIDIA NEO-Host: PCIe latency, stalls and cache misses inside the NIC"
    notes = "gauge"
    parser = staticmethod(nic_tools.parse_neohost)

    def probe(self) -> ProbeResult:
        if not _mellanox_devices():
            return ProbeResult(False, "no NVIDIA/Mellanox NIC")
        if not _NEOHOST.exists():
            return ProbeResult(False, f"{_NEOHOST} is not installed (NEO-Host is not offered for new NICs)")
        return ProbeResult(shutil.which("python2") is not None, str(_NEOHOST))

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        for device in _mellanox_devices():
            command = ["python2", str(_NEOHOST), "--mode=shell", f"--dev-uid={device}", "--get-analysis"]
            yield device, ask([*command, "--output-format=JSON"])


class DevlinkHealth(PollingCollector):
    """Health reporters of the NIC's driver."""

    name, summary = "devlink", "health reporters of the NICs' drivers"
    notes = "counter, state"
    parser = staticmethod(nic_tools.parse_devlink_health)
    once = True

    def probe(self) -> ProbeResult:
        if shutil.which("devlink") is None:
            return ProbeResult(False, "devlink is not installed (apt-get install iproute2)")
        try:
            output = ask(["devlink", "-j", "health", "show"])
        except HostError as error:
            return ProbeResult(False, str(error))
        has_reporters = b"reporter" in output
        return ProbeResult(has_reporters, "devlink" if has_reporters else "no driver here has health reporters")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", ask(["devlink", "-j", "health", "show"])
