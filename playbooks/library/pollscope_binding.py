#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: take NICs from the kernel for DPDK, by PCI address, and restore them.

- Loads vfio-pci and binds the devices to it through driver_override. Without an IOMMU it uses vfio's no-IOMMU mode,
  or uio_pci_generic if the kernel was built without that mode, as Debian's kernels are.
- Refuses the NIC of the management, and a NIC that has an IP address (itself, on a VLAN, in a bond or on a virtual
  function), that has no IOMMU group (unless you consent), or whose group holds another device that the kernel uses.
- Leaves devices of Mellanox and NVIDIA (vendor 15b3) with mlx5_core, because DPDK drives them beside the kernel.
- `no_iommu_consent`: Bind without an IOMMU group. Nothing then checks the DMA.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope.base.errors import HostError
from ansible.module_utils.pollscope.host.restore import Setting
from ansible.module_utils.pollscope_devices import Devices
from ansible.module_utils.pollscope_journal import STATE_ARGUMENTS, Item, report, run_state
from ansible.module_utils.pollscope_kinds import KernelModule, Run, Text, run

DRIVER, WITHOUT_IOMMU = "vfio-pci", "uio_pci_generic"
BIFURCATED_VENDORS = {"0x15b3"}
NO_IOMMU = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"  # exists only with CONFIG_VFIO_NOIOMMU
BRIDGE_CLASS = "0x06"
INTERFACE_LIMIT_S = 10
ETHERNET_MTU = 1500


class NoIommu(Text):
    """The switch of vfio's no-IOMMU mode; it reads as `N` while vfio is not loaded."""

    def read(self, target: str) -> str:
        return super().read(target) if self._path(target).exists() else "N"


class Binding(Setting):
    """The driver of a PCI device; its state is `{"driver", "override", "up"}` and what goes with the kernel's driver.

    `up` names the interfaces that were up, because a device returns with its interfaces down. These are there only if
    they are needed: `mtu`, the MTUs that differ from Ethernet's; `vlans`, the VLANs on the interfaces (`name`, `link`,
    `id`, `protocol`, `up`) in the order in which they can be made; `functions`, the number of virtual functions.
    """

    def __init__(self, devices: Devices, tool: Run = run, wait: Callable[[float], None] = time.sleep) -> None:
        self.devices, self.run, self.wait = devices, tool, wait

    def device(self, target: str) -> Mapping[str, str]:
        return self.devices.device(target)

    def read(self, target: str) -> dict[str, Any]:
        override = (self.devices.folder(target) / "driver_override").read_text().strip()
        interfaces = self.devices.interfaces(target)
        mtus = {name: int(self._attribute(name, "mtu", str(ETHERNET_MTU))) for name in interfaces}
        more = {
            "mtu": {name: mtu for name, mtu in mtus.items() if mtu != ETHERNET_MTU},
            "vlans": self._vlans(interfaces),
            "functions": len(self.devices.virtual_functions(target)),
        }
        return {
            "driver": self.devices.driver(target),
            "override": "" if override == "(null)" else override,
            "up": [name for name in interfaces if self._is_up(name)],
            **{key: value for key, value in more.items() if value},
        }

    def write(self, target: str, state: dict[str, Any]) -> None:
        folder = self.devices.folder(target)
        # The kernel would wait for the program's end, and no signal could end that wait.
        if self.devices.driver(target) == DRIVER and (pid := self.devices.holder(target)):
            raise HostError(f"process {pid} holds it through vfio (end the process first)")
        if self.devices.virtual_functions(target):
            self._write(folder / "sriov_numvfs", "0")  # unbinding would remove them without order
        if self.devices.driver(target) is not None:
            self._write(folder / "driver/unbind", target)
        # An empty line removes the override (Documentation/ABI/testing/sysfs-bus-pci).
        self._write(folder / "driver_override", state["override"] or "\n")
        if state["driver"] is not None:
            if self.devices.driver(target) is None:
                self._write(self.devices.root / "sys/bus/pci/drivers_probe", target)
            self._bring_back(target, state)

    def _bring_back(self, target: str, state: dict[str, Any]) -> None:
        """Restore what went with the kernel's driver; each interface before the links on top of it."""
        if state.get("functions"):
            self._write(self.devices.folder(target) / "sriov_numvfs", str(state["functions"]))
        vlans = state.get("vlans", [])
        for name in {*state["up"], *state.get("mtu", {}), *(each["link"] for each in vlans)}:
            if not any(each["name"] == name for each in vlans):
                self._await(target, name)
        for name, mtu in state.get("mtu", {}).items():
            self.run(["ip", "link", "set", name, "mtu", str(mtu)])
        for name in state["up"]:
            self.run(["ip", "link", "set", name, "up"])
        for each in vlans:
            kind = ["type", "vlan", "protocol", each["protocol"], "id", str(each["id"])]
            self.run(["ip", "link", "add", "link", each["link"], "name", each["name"], *kind])
            if each["up"]:
                self.run(["ip", "link", "set", each["name"], "up"])

    def same(self, found: dict[str, Any], wanted: dict[str, Any]) -> bool:
        return bool(found["driver"] == wanted["driver"])

    def show(self, state: dict[str, Any]) -> str:
        return str(state["driver"] or "no driver")

    def _vlans(self, interfaces: Sequence[str]) -> list[dict[str, Any]]:
        """Return the VLANs on interfaces, each after the link below it."""
        if not any(self._stands_on(name) for name in interfaces):
            return []
        shown = self.run(["ip", "-json", "-details", "link", "show", "type", "vlan"])
        links = [link for link in json.loads(shown or "[]") if link]
        found: list[dict[str, Any]] = []
        lower = set(interfaces)
        while nearer := [link for link in links if link.get("link") in lower and link["ifname"] not in lower]:
            for link in nearer:
                data = link["linkinfo"]["info_data"]
                own = {"name": link["ifname"], "link": link["link"], "id": data["id"], "protocol": data["protocol"]}
                found.append({**own, "up": "UP" in link["flags"]})
                lower.add(link["ifname"])
        return found

    def _stands_on(self, name: str) -> bool:
        return any((self.devices.root / "sys/class/net" / name).glob("upper_*"))

    def _attribute(self, name: str, attribute: str, default: str) -> str:
        path = self.devices.root / "sys/class/net" / name / attribute
        return path.read_text().strip() if path.exists() else default

    def _write(self, path: Path, text: str) -> None:
        try:
            path.write_text(text)
        except OSError as error:
            raise HostError(f"{path}: the kernel refused {text.strip()!r}: {error.strerror}") from error

    def _is_up(self, name: str) -> bool:
        flags = int((self.devices.root / "sys/class/net" / name / "flags").read_text(), 0)
        return bool(flags & 1)  # IFF_UP

    def _await(self, target: str, name: str) -> None:
        # udev names the interface some time after the driver has made it.
        waited_s = 0.0
        while name not in self.devices.interfaces(target) and waited_s < INTERFACE_LIMIT_S:
            self.wait(0.2)
            waited_s += 0.2


def to_bind(devices: Devices, addresses: Sequence[str]) -> list[str]:
    """Return the devices that DPDK can drive only without the kernel's driver."""
    vendors = {address: (devices.folder(address) / "vendor").read_text().strip() for address in addresses}
    return [address for address, vendor in vendors.items() if vendor not in BIFURCATED_VENDORS]


def refuse_groups(devices: Devices, addresses: Sequence[str], consent: bool) -> None:
    """Refuse devices that vfio cannot give to a program.

    Raises:
        HostError: a device has no IOMMU group and there is no consent, or a driver of the kernel holds another device
            of its group.
    """
    for address in addresses:
        group = devices.folder(address) / "iommu_group"
        if not group.exists():
            if consent:
                continue
            remedy = "pollscope play iommu -e mode=passthrough, or vfio_no_iommu_consent: true (unchecked DMA)"
            raise HostError(f"{address} has no IOMMU group", remedy=remedy)
        for other in sorted(path.name for path in (group / "devices").iterdir()):
            if other not in addresses and _is_held(devices, other):
                raise HostError(f"{address} shares its IOMMU group with {other}, which {devices.driver(other)} holds")


def _is_held(devices: Devices, address: str) -> bool:
    bridge = (devices.folder(address) / "class").read_text().startswith(BRIDGE_CLASS)
    return not bridge and devices.driver(address) not in (None, DRIVER)


def items_for(devices: Devices, addresses: Sequence[str], consent: bool) -> list[Item]:
    """Return the items for the devices, in the order in which they are set.

    Raises:
        HostError: a device must not or cannot be bound.
    """
    # This holds for NICs that DPDK drives beside the kernel as well: DPDK takes the kernel's packets.
    devices.refuse_management(addresses)
    devices.refuse_configured([address for address in addresses if devices.driver(address) != DRIVER])
    addresses = to_bind(devices, addresses)
    fresh = [address for address in addresses if devices.driver(address) != DRIVER]
    refuse_groups(devices, addresses, consent)
    bare = any(not (devices.folder(address) / "iommu_group").exists() for address in fresh)
    # vfio makes a group of its own for a device that is bound without an IOMMU.
    bare = bare or any((devices.folder(address) / "iommu_group/name").is_file() for address in addresses)
    if bare and not _has_no_iommu_mode(devices):
        return [*_loaded(WITHOUT_IOMMU), *_bound(addresses, WITHOUT_IOMMU)]
    modules = _loaded("vfio", *([] if bare else ["vfio_iommu_type1"]), "vfio-pci") if addresses else []
    switch = [Item("no_iommu", NO_IOMMU, "Y")] if bare else []
    return modules[:1] + switch + modules[1:] + _bound(addresses, DRIVER)


def _has_no_iommu_mode(devices: Devices) -> bool:
    return Path(NO_IOMMU).name in devices.run(["modinfo", "-F", "parm", "vfio"])


def _loaded(*modules: str) -> list[Item]:
    return [Item("module", name, True) for name in modules]


def _bound(addresses: Sequence[str], driver: str) -> list[Item]:
    return [Item("binding", address, {"driver": driver, "override": driver, "up": []}) for address in addresses]


def main() -> None:
    """Read the parameters, act, report."""
    module = AnsibleModule(
        argument_spec={
            **STATE_ARGUMENTS,
            "devices": {"type": "list", "elements": "str", "default": []},
            "no_iommu_consent": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    devices = Devices()
    kinds: dict[str, Setting] = {"module": KernelModule(), "no_iommu": NoIommu(), "binding": Binding(devices)}

    def act() -> list[str]:
        absent = module.params["state"] == "absent"
        items = [] if absent else items_for(devices, module.params["devices"], module.params["no_iommu_consent"])
        return run_state(module, kinds, items)

    report(module, act)


if __name__ == "__main__":
    main()
