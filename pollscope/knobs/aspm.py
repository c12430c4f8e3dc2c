# SPDX-License-Identifier: BSD-3-Clause
"""Active-state power management of a NIC's link: a link that sleeps adds microseconds to the next DMA."""

from pollscope.knobs.base import Refused, parse_choice
from pollscope.knobs.pci import PciDevice
from pollscope.knobs.pci_target import NicKnob, one_nic

# PCI Express Base Specification 7.5.3.6 and 7.5.3.7: Link Capabilities bits 11:10, Link Control bits 1:0.
_CAPABILITIES, _CAPABILITIES_SHIFT = "CAP_EXP+0c.l", 10
_CONTROL = "CAP_EXP+10.w"
_CODES = {"off": 0, "l0s": 1, "l1": 2, "l0s+l1": 3}
_NAMES = {code: name for name, code in _CODES.items()}


class Aspm(NicKnob):
    """ASPM Control at both ends of the link above a NIC; a target is the NIC; the write covers all its functions and
    the port above.

    Order: the specification (5.4.1.4) has L1 switched on from the upstream end, and off from the downstream end;
    restoring in reverse order keeps to that.
    """

    name = "aspm"
    summary = "power saving states of the PCIe link above a NIC"
    values = ", ".join(_CODES)
    aims = "NIC (the only one)"
    where = "Link Control of all its functions and the port above"

    def select(self, target: str | None, value: str | None = None) -> list[str]:
        if target is None and value is None:
            return self.targets()
        nic = one_nic(self, target)
        slot = nic.address.rpartition(".")[0]
        functions = sorted(path.name for path in nic.path.parent.glob(f"{slot}.[0-7]"))
        port = nic.parent().address
        return [*functions, port] if value == "off" else [port, *functions]

    @classmethod
    def parse(cls, value: object) -> str:
        return parse_choice(cls, "off" if value is False else value, tuple(_CODES))

    def read(self, target: str) -> str:
        return _NAMES[PciDevice.find(self.host, target).read_register(_CONTROL) & 3]

    def state_for(self, value: str, state: str, target: str) -> str:
        offered = PciDevice.find(self.host, target).read_register(_CAPABILITIES) >> _CAPABILITIES_SHIFT & 3
        if _CODES[value] & ~offered:
            raise Refused(f"one end of the link offers {_NAMES[offered]}, not {value}", f"aspm {target}")
        return value

    def write(self, target: str, state: str) -> None:
        PciDevice.find(self.host, target).write_bits(_CONTROL, _CODES[state], 3)
