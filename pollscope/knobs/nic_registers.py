# SPDX-License-Identifier: BSD-3-Clause
"""Knobs that are registers of a PCI Express NIC, and which NIC a user means."""

from collections.abc import Mapping

from pollscope.base.errors import HostError, UsageError
from pollscope.host.pci_identity import pci_identity
from pollscope.knobs.base import Availability, Knob, Refused, parse_choice
from pollscope.knobs.host import KnobHost
from pollscope.knobs.pci import PCI_EXPRESS, PciDevice, access_reason, network_devices


def _express_nics(host: KnobHost) -> list[str]:
    """Return addresses of all PCI Express network functions."""
    found = []
    for device in network_devices(host):
        try:
            if device.has_capability(PCI_EXPRESS):
                found.append(device.address)
        except HostError:
            continue
    return found


def one_nic(knob: Knob, target: str | None) -> PciDevice:
    """Return the named PCI Express device, or the host's only such NIC when none is named.

    Raises:
        UsageError: none is named, and the host has not exactly one.
        HostError: it is gone, or not a PCI Express device.
    """
    if target is None:
        nics = _express_nics(knob.host)
        if len(nics) != 1:
            raise UsageError(
                f"{knob.name} needs a target", remedy=f"PCI Express NICs here: {', '.join(nics) or 'none'}"
            )
        target = nics[0]
    device = PciDevice.find(knob.host, target)
    if not device.has_capability(PCI_EXPRESS):
        raise Refused("the device has no PCI Express capability", f"{knob.name} {device.address}")
    return device


def card(host: KnobHost, target: str) -> Mapping[str, str]:
    """Return the identity of the device at an address; empty if it is gone (reading its registers then reports
    that).
    """
    try:
        return pci_identity(PciDevice.find(host, target).path)
    except (HostError, UsageError):
        return {}


class NicKnob(Knob):
    """A register of a NIC's PCI Express capability; a target is the NIC's PCI address or interface name."""

    holder = "hardware"

    def available(self) -> Availability:
        if reason := access_reason(self.host):
            return Availability(reason)
        return Availability("" if self.targets() else "no network device of this host is PCI Express")

    def targets(self) -> list[str]:
        return _express_nics(self.host)

    def device(self, target: str) -> Mapping[str, str]:
        return card(self.host, target)


# Device Control, bits 14:12 (PCI Express Base Specification 7.5.3.4): 128 bytes << code.
_MRRS, _MRRS_SHIFT = "CAP_EXP+8.w", 12
_SIZES_BYTES = [128 << code for code in range(6)]


class Mrrs(NicKnob):
    """Max_Read_Request_Size, the largest DMA read that a NIC sends as one request."""

    name = "mrrs"
    summary = "largest DMA read request of a NIC, in bytes"
    values = ", ".join(map(str, _SIZES_BYTES))
    aims = "NIC (the only one)"
    where = "Device Control"

    def select(self, target: str | None, value: str | None = None) -> list[str]:
        return [one_nic(self, target).address] if target or value else self.targets()

    @classmethod
    def parse(cls, value: object) -> str:
        text = str(value).strip()
        if text not in map(str, _SIZES_BYTES):
            raise cls.bad_value(value)
        return text

    def read(self, target: str) -> str:
        code = PciDevice.find(self.host, target).read_register(_MRRS) >> _MRRS_SHIFT & 7
        if code >= len(_SIZES_BYTES):
            raise HostError(f"Max_Read_Request_Size has the reserved code {code}", f"mrrs {target}")
        return str(_SIZES_BYTES[code])

    def state_for(self, value: str, state: str, target: str) -> str:
        return value

    def write(self, target: str, state: str) -> None:
        code = _SIZES_BYTES.index(int(state))
        PciDevice.find(self.host, target).write_bits(_MRRS, code << _MRRS_SHIFT, 7 << _MRRS_SHIFT)


# PCI Express Base Specification 7.5.3.6 and 7.5.3.7: Link Capabilities bits 11:10, Link Control bits 1:0.
_CAPABILITIES, _CAPABILITIES_SHIFT = "CAP_EXP+0c.l", 10
_CONTROL = "CAP_EXP+10.w"
_CODES = {"off": 0, "l0s": 1, "l1": 2, "l0s+l1": 3}
_NAMES = {code: name for name, code in _CODES.items()}


class Aspm(NicKnob):
    """ASPM Control at both ends of the link above a NIC, so of all its functions and the port above.

    A link that sleeps adds microseconds to the next DMA.

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
