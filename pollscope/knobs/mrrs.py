# SPDX-License-Identifier: BSD-3-Clause
"""Max_Read_Request_Size: the largest DMA read that a NIC sends as one request."""

from pollscope.base.errors import HostError
from pollscope.knobs.pci import PciDevice
from pollscope.knobs.pci_target import NicKnob, one_nic

# Device Control, bits 14:12 (PCI Express Base Specification 7.5.3.4): 128 bytes << code.
_REGISTER = "CAP_EXP+8.w"
_SHIFT = 12
_SIZES_BYTES = [128 << code for code in range(6)]


class Mrrs(NicKnob):
    """Max_Read_Request_Size of a NIC; a target is its PCI address or interface name."""

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
        code = PciDevice.find(self.host, target).read_register(_REGISTER) >> _SHIFT & 7
        if code >= len(_SIZES_BYTES):
            raise HostError(f"Max_Read_Request_Size has the reserved code {code}", f"mrrs {target}")
        return str(_SIZES_BYTES[code])

    def state_for(self, value: str, state: str, target: str) -> str:
        return value

    def write(self, target: str, state: str) -> None:
        code = _SIZES_BYTES.index(int(state))
        PciDevice.find(self.host, target).write_bits(_REGISTER, code << _SHIFT, 7 << _SHIFT)
