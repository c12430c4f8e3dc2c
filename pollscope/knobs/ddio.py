# SPDX-License-Identifier: BSD-3-Clause
"""DDIO of one PCIe root port: whether DMA writes of the devices below it allocate in the LLC."""

from collections.abc import Mapping

from pollscope.base.errors import HostError
from pollscope.knobs.base import Availability, Knob, Refused, parse_choice
from pollscope.knobs.nic_registers import card
from pollscope.knobs.pci import PciDevice, access_reason, network_devices
from pollscope.knobs.platforms import DdioBit, of_host, of_root_port


class Ddio(Knob):
    """Use_Allocating_Flow_Wr, bit 7 of PERFCTRLSTS_0 at 0x180 of the root port, where the platform table knows it.

    Source: Intel Xeon Scalable Datasheet volume 2 (May 2019), PERFCTRLSTS_0. On Ice Lake and younger ports the same
    offset holds the header of a PCIe extended capability, which ignores writes: such ports are refused by their device
    id and, in case the table is wrong, by the capability chain. An emulated port can always be read and restored; it is
    set only on a host that is declared emulated.
    """

    name = "ddio"
    summary = "DMA writes below a root port go to the LLC (on) or to memory (off)"
    values = "off, on"
    aims = "root port, or a NIC or interface below it (all above NICs)"
    where = "`PERFCTRLSTS_0` bit 7 at 0x180, through `setpci`"
    holder = "hardware"

    def available(self) -> Availability:
        if reason := access_reason(self.host):
            return Availability(reason)
        ports = self.targets()
        if not ports:
            return Availability("no network device is below a PCIe root port")
        reasons = [self._refusal(port) for port in ports]
        return Availability("" if "" in reasons else reasons[0])

    def device(self, target: str) -> Mapping[str, str]:
        return card(self.host, target)

    def targets(self) -> list[str]:
        ports = set()
        for nic in network_devices(self.host):
            try:
                ports.add(nic.root_port().address)
            except HostError:
                continue
        return sorted(ports)

    def select(self, target: str | None, value: str | None = None) -> list[str]:
        """Return the root port itself, or the one above a NIC; without a target, all of the host's NICs' root ports."""
        if target is None:
            return self.targets()
        return [PciDevice.find(self.host, target).root_port().address]

    @classmethod
    def parse(cls, value: object) -> str:
        return parse_choice(cls, value, ("off", "on"))

    def read(self, target: str) -> str:
        bit = self._bit(target)
        register = PciDevice.find(self.host, target).read_register(f"{bit.register_offset:x}.l")
        return "on" if register >> bit.bit & 1 else "off"

    def state_for(self, value: str, state: str, target: str) -> str:
        self._require_consent(target)
        return value

    def write(self, target: str, state: str) -> None:
        bit = self._bit(target)
        value = bit.mask if state == "on" else 0
        PciDevice.find(self.host, target).write_bits(f"{bit.byte:x}.b", value, bit.mask)

    def _bit(self, target: str) -> DdioBit:
        port = PciDevice.find(self.host, target)
        platform = of_root_port(port.identity)
        if platform is None:
            known = of_host(self.host)
            reason = (
                known.ddio.absent if known and not isinstance(known.ddio, DdioBit) else "it is in no platform table"
            )
            raise Refused(f"root port {port.identity} is not known to switch DDIO: {reason}", f"ddio {target}")
        if not isinstance(platform.ddio, DdioBit):
            raise Refused(f"root port {port.identity} ({platform.name}): {platform.ddio.absent}", f"ddio {target}")
        _refuse_capability(port, platform.ddio.register_offset)
        return platform.ddio

    def _require_consent(self, target: str) -> None:
        emulated = self._bit(target).emulated
        if emulated and not self.host.emulated:
            raise Refused(
                f"the root port is emulated: {emulated}",
                f"ddio {target}",
                "declare the machine emulated: pollscope knob --emulated, ddio_emulated_consent or emulated: true",
            )

    def _refusal(self, target: str) -> str:
        try:
            self._require_consent(target)
        except HostError as error:
            return str(error)
        return ""


def _refuse_capability(port: PciDevice, offset: int) -> None:
    for place, identity in port.extended_capabilities():
        if place == offset:
            raise Refused(
                f"{offset:#x} is the header of extended capability {identity:#06x}, not PERFCTRLSTS_0",
                f"ddio {port.address}",
            )
