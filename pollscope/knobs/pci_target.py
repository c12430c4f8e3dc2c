# SPDX-License-Identifier: BSD-3-Clause
"""Knobs that are registers of a PCI Express NIC, and which NIC a user means."""

from collections.abc import Mapping

from pollscope.base.errors import HostError, UsageError
from pollscope.host.pci_identity import pci_identity
from pollscope.knobs.base import Availability, Knob, Refused
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
