# SPDX-License-Identifier: BSD-3-Clause
"""Describe the machine by run.json, in words, and name what was not recorded."""

from collections.abc import Mapping
from typing import Any

from pollscope.base.units import human_size

_NOT_RECORDED = "not recorded"
MODEL = "a model"
# Of the papers' TCP flows; full packets are then 1.2 us apart.
_FAST_LINK_MBIT = 10_000


class HostMetadata:
    """Reads the host, node and testbed parts of a run.json."""

    def __init__(self, meta: Mapping[str, Any]) -> None:
        self.host = _mapping(meta.get("host"))
        self.hello = _mapping(meta.get("node_hello"))
        self.testbed = _mapping(meta.get("testbed"))

    def get(self, name: str) -> Any:
        """Return what is known of the host under a name; None if it was not recorded or the host does not show it."""
        value = self.host.get(name)
        return None if isinstance(value, Mapping) and set(value) == {"absent"} else value

    def missing(self, name: str) -> str:
        """Return the reason that the run recorded for an unknown value."""
        value = self.host.get(name)
        if isinstance(value, Mapping) and set(value) == {"absent"}:
            return str(value["absent"])
        return str(self.host.get("absent", _NOT_RECORDED))  # of the whole host

    @property
    def modelled(self) -> bool:
        """Return whether no machine measured anything: trials were simulated."""
        return self.testbed.get("kind") == "model"

    @property
    def fitted(self) -> Mapping[str, str]:
        """Return the rows and single claims that a model's costs come from, with their runs or sources."""
        made_from = _mapping(_mapping(self.testbed.get("model")).get("made_from"))
        return {str(row): str(runs) for row, runs in _mapping(made_from.get("rows")).items()}

    @property
    def processor(self) -> str:
        if self.modelled:
            return MODEL
        model, count = self.get("cpu_model"), self.get("cpus")
        if not model:
            return _NOT_RECORDED
        return f"{model}, {count} CPUs" if isinstance(count, int) else str(model)

    @property
    def caches(self) -> str:
        if self.modelled:
            return MODEL
        caches = self.get("caches")
        if isinstance(caches, Mapping):
            sizes = {name: human_size(size) if isinstance(size, int) else size for name, size in caches.items()}
            return ", ".join(f"{name} {size}" for name, size in sizes.items()) or _NOT_RECORDED
        return str(caches) if caches else _NOT_RECORDED

    @property
    def hypervisor(self) -> str | None:
        """Return the hypervisor that the host reports; None on bare metal or if not recorded."""
        hypervisor = self.get("hypervisor")
        return str(hypervisor) if hypervisor and hypervisor != "none" else None

    @property
    def machine(self) -> str:
        """Return "bare metal", or the hypervisor of a virtual machine."""
        if self.modelled:
            return MODEL
        if self.hypervisor:
            return f"virtual machine ({self.hypervisor})"
        return "bare metal" if "hypervisor" in self.host else _NOT_RECORDED

    @property
    def virtual_nic(self) -> bool:
        """Return whether the packets moved over the virtual NIC."""
        drivers = self.port_drivers
        return any("crossover" in driver for driver in drivers) or (
            not drivers and self.testbed_name in ("loopback", "namespaces")
        )

    @property
    def emulated(self) -> bool:
        """Return whether the machines, their NICs, root ports and IOMMU were made by an emulator."""
        return self.testbed.get("emulated") is True

    @property
    def without_hardware(self) -> str:
        """Return why no real line, PCIe or DDIO is behind the NIC; empty where one may be."""
        if self.modelled:
            return "a simulation has none"
        if self.virtual_nic:
            return "the virtual NIC has none"
        return "that of emulated machines is the emulator's" if self.emulated else ""

    @property
    def slow_link(self) -> str:
        """Return why the TCP flows' link is too slow for cores to contend for their queue; empty if it is not."""
        rate = self.testbed.get("rate_mbit")
        if not isinstance(rate, int | float) or rate >= _FAST_LINK_MBIT:
            return ""
        return f"its link of {rate} Mbit/s determines completion times, not its cores"

    @property
    def port_drivers(self) -> list[str]:
        ports = self.hello.get("ports")
        return sorted({str(port.get("driver")) for port in ports if isinstance(port, Mapping)}) if ports else []

    @property
    def nic(self) -> str:
        if self.modelled:
            return MODEL
        return ", ".join(self.port_drivers) or _NOT_RECORDED

    @property
    def generator(self) -> str:
        if self.modelled:
            return MODEL
        if self.testbed.get("kind") == "namespaces":
            return "the kernel's TCP on the same machine"
        if self.testbed_name == "loopback":
            return "pollscope-node on another lcore of the same process"
        return "pollscope-node"

    @property
    def software(self) -> str:
        if self.modelled:
            return MODEL
        dpdk, kernel = self.hello.get("dpdk"), self.get("kernel")
        parts = [str(dpdk) if dpdk else "", f"Linux {kernel}" if kernel else ""]
        return ", ".join(part for part in parts if part) or _NOT_RECORDED

    @property
    def testbed_name(self) -> str:
        return str(self.testbed.get("name", _NOT_RECORDED))

    @property
    def absent(self) -> Mapping[str, str]:
        """Return what the node could not measure, with the reason."""
        return {str(name): str(reason) for name, reason in _mapping(self.hello.get("absent")).items()}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
