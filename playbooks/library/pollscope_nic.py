#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: set ring sizes and flow control of NICs, and with consent mlx5 firmware, with a journal.

- Works on NICs that a driver of the kernel holds. DPDK sets the rings of a NIC that is bound to vfio-pci, so such a
  NIC is left alone. The NIC of the management is refused.
- `rings`: Number of descriptors, `rx` and `tx`.
- `pause`: Flow control, `autoneg`, `rx` and `tx`, each on or off.
- `firmware`: Parameters of mlxconfig and their values.
- `firmware_consent`: Change the firmware. It takes effect after a reset.
"""

import re
import shutil
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope.base.errors import HostError
from ansible.module_utils.pollscope.host.journal import Entry
from ansible.module_utils.pollscope.host.restore import Setting
from ansible.module_utils.pollscope_devices import Devices
from ansible.module_utils.pollscope_journal import STATE_ARGUMENTS, Item, report, run_state
from ansible.module_utils.pollscope_kinds import Run, run, word_of


class EthtoolSetting(Setting):
    """Settings that ethtool shows one per line and takes as words; its state is `{word: value}`.

    Args:
        show_option: option of ethtool that shows them.
        set_option: option that sets them.
        labels: ethtool's label -> its word.
    """

    def __init__(
        self, devices: Devices, show_option: str, set_option: str, labels: Mapping[str, str], tool: Run = run
    ) -> None:
        self.devices, self.run, self.labels = devices, tool, labels
        self.show_option, self.set_option = show_option, set_option

    def device(self, target: str) -> Mapping[str, str]:
        return self.devices.device(target.partition(" ")[0])

    def read(self, target: str) -> dict[str, str]:
        shown = self.run(["ethtool", self.show_option, self._interface(target)])
        current = shown.rpartition("Current hardware settings:")[2]
        pairs = (line.partition(":") for line in current.splitlines())
        return {self.labels[name.strip()]: value.strip() for name, _, value in pairs if name.strip() in self.labels}

    def write(self, target: str, state: Mapping[str, str]) -> None:
        words = [word for name, value in state.items() for word in (name, str(value))]
        self.run(["ethtool", self.set_option, self._interface(target), *words])

    def same(self, found: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
        missing = sorted(wanted.keys() - found.keys())
        if missing:
            raise HostError(f"this NIC's driver does not show {', '.join(missing)} (ethtool {self.show_option})")
        return all(found[name] == str(value) for name, value in wanted.items())

    def show(self, state: Mapping[str, str]) -> str:
        return " ".join(f"{name} {value}" for name, value in state.items())

    def _interface(self, target: str) -> str:
        address = target.partition(" ")[0]
        names = self.devices.interfaces(address)
        if not names:
            raise HostError(f"{address} has no interface of the kernel")
        return names[0]


class Firmware(Setting):
    """One parameter of a Mellanox or NVIDIA NIC's firmware; it outlives a reboot.

    It uses mlxconfig (NVIDIA's MFT), or else mstconfig (the distribution's mstflint), which takes the same words.
    """

    holder = "disk"

    def __init__(self, devices: Devices, tool: Run = run) -> None:
        self.devices, self.run = devices, tool
        self.program = "mlxconfig" if shutil.which("mlxconfig") or not shutil.which("mstconfig") else "mstconfig"

    def device(self, target: str) -> Mapping[str, str]:
        return self.devices.device(target.partition(" ")[0])

    def read(self, target: str) -> str:
        address, _, name = target.partition(" ")
        shown = self.run([self.program, "-d", address, "query", name])
        found = re.search(rf"^[*\s]*{re.escape(name)}\s+(\S+)\s*$", shown, re.MULTILINE)
        if found is None:
            raise HostError(f"{address}: its firmware has no parameter {name}")
        number = re.search(r"\((-?\w+)\)$", found[1])
        return number[1] if number else found[1]

    def write(self, target: str, state: str) -> None:
        address, _, name = target.partition(" ")
        self.run([self.program, "-y", "-d", address, "set", f"{name}={state}"])


def items_for(devices: Devices, parameters: Mapping[str, Any]) -> list[Item]:
    """Return the items that the parameters ask for.

    Raises:
        HostError: a NIC is one of the management, or firmware is given without consent.
    """
    devices.refuse_management(parameters["devices"])
    if parameters["firmware"] and not parameters["firmware_consent"]:
        raise HostError("nic_firmware is given without consent", remedy="consent to it with nic_firmware_consent: true")
    with_kernel = [address for address in parameters["devices"] if devices.interfaces(address)]
    items = []
    for kind in ("pause", "rings"):
        wanted = {name: word_of(value) for name, value in parameters[kind].items()}
        items += [Item(kind, f"{address} {kind}", wanted) for address in with_kernel if wanted]
    for address in parameters["devices"]:
        items += [Item("firmware", f"{address} {name}", str(value)) for name, value in parameters["firmware"].items()]
    return items


def is_out_of_reach(devices: Devices, entry: Entry) -> bool:
    """Return whether DPDK holds the NIC by now: its setting is restored when the kernel has the NIC again."""
    return entry.knob in ("rings", "pause") and not devices.interfaces(entry.target.partition(" ")[0])


def main() -> None:
    """Read the parameters, act, report."""
    module = AnsibleModule(
        argument_spec={
            **STATE_ARGUMENTS,
            "devices": {"type": "list", "elements": "str", "default": []},
            "rings": {"type": "dict", "default": {}, "options": {"rx": {"type": "int"}, "tx": {"type": "int"}}},
            "pause": {
                "type": "dict",
                "default": {},
                "options": {name: {"type": "bool"} for name in ("autoneg", "rx", "tx")},
            },
            "firmware": {"type": "dict", "default": {}},
            "firmware_consent": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    devices = Devices()
    kinds: dict[str, Setting] = {
        "rings": EthtoolSetting(devices, "-g", "-G", {"RX": "rx", "TX": "tx"}),
        "pause": EthtoolSetting(devices, "-a", "-A", {"Autonegotiate": "autoneg", "RX": "rx", "TX": "tx"}),
        "firmware": Firmware(devices),
    }
    given = {**module.params, **{name: _without_none(module.params[name]) for name in ("rings", "pause")}}
    report(
        module,
        lambda: run_state(
            module,
            kinds,
            [] if given["state"] == "absent" else items_for(devices, given),
            lambda entry: is_out_of_reach(devices, entry),
        ),
    )


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


if __name__ == "__main__":
    main()
