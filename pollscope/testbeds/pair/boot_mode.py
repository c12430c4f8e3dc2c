# SPDX-License-Identifier: BSD-3-Clause
"""Set the mode of a host's IOMMU during a run: a boot parameter, by the play `iommu` with the host's inventory.

The play sets the parameter with a journal on the host, reboots it, reads the mode back and sets again what the reboot
undid. If the kernel does not accept a mode, the play restores the old one.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from pollscope.base.errors import HostError

KNOB = "iommu"
MODES = ("off", "passthrough", "lazy", "strict")
AS_IT_WAS = "default"
# Modes of the kernel's own domains. VFIO makes another domain for the device (Documentation/driver-api/vfio.rst).
_KERNEL_MODES = {"passthrough", "lazy", "strict"}
VFIO = "vfio-pci"


class BootMode:
    """The mode of one host.

    Args:
        play: runs the play with a mode on this host; HostError when it fails.
        own: the play's mode that restores what the inventory says.

    Attributes:
        changed: whether a run has begun to set a mode that is not restored yet; the host has a note of it.
    """

    def __init__(self, play: Callable[[str], None], own: str = AS_IT_WAS) -> None:
        self._play, self._own = play, own
        self._present: str | None = None  # None: not set, or not known after a play that failed
        self._refused: dict[str, HostError] = {}
        self.changed = False

    def needs_play(self, value: str) -> bool:
        """Return whether the host has another mode than this one.

        Raises:
            HostError: the host refused this mode before.
        """
        if value in self._refused:
            raise self._refused[value]
        return value != self._present

    def set(self, value: str) -> None:
        """Run the play.

        Raises:
            HostError: the host refuses the mode.
        """
        self._present = None
        self._play(value)
        self._present = value

    def refuse(self, value: str, error: HostError) -> None:
        """Remember that the host refused a mode although it answers: each retry would cost one or two reboots."""
        self._refused[value] = error

    def restore(self) -> None:
        """Run the play with the mode that the inventory has.

        Raises:
            HostError: it fails.
        """
        self._present = None
        self._play(self._own)
        self.changed = False


def one_treatment(levels: Collection[object], ports: Collection[str], nics: Mapping[str, Any]) -> str:
    """Return why levels of the knob `iommu` are equivalent for a NIC; empty if they are not.

    Args:
        levels: of the knob.
        ports: of the DUT, as DPDK names them.
        nics: PCI address -> metadata of the host's NICs (pollscope/host/nic_metadata.py).
    """
    same = sorted(_KERNEL_MODES & {str(level) for level in levels})
    held = [port for port in ports if isinstance(nics.get(port), Mapping) and nics[port].get("driver") == VFIO]
    if len(same) < 2 or not held:
        return ""
    return (
        f"iommu {', '.join(same)} are equivalent for {held[0]}: VFIO translates it by its own domain, with a "
        "permanent mapping; differences between them are not the NIC's (a NIC on mlx5_core has the kernel's domain)"
    )
