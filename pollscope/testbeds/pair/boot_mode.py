# SPDX-License-Identifier: BSD-3-Clause
"""Set the mode of a host's IOMMU during a run: a boot parameter, by the play `iommu` with the host's inventory.

The play sets the parameter with a journal on the host, reboots it, reads the mode back and sets again what the reboot
undid. If the kernel does not accept a mode, the play restores the old one.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from pollscope.base.errors import HostError, UsageError
from pollscope.base.paths import kept_folder
from pollscope.testbeds.pair.config import PairConfig
from pollscope.testbeds.pair.inventory import Inventory, Pair, load_inventory
from pollscope.testbeds.pair.plays import run_play
from pollscope.testbeds.pair.ssh import Remote

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


def boot_modes(config: PairConfig, file: Path, name: str) -> dict[str, BootMode]:
    """Return host -> how its boot mode is set; empty if the pair's file names no inventory.

    Args:
        config: of the pair.
        file: the testbed's, from which the inventory's path is relative.
        name: of the pair, where the inventory has several.

    Raises:
        UsageError: the inventory has an error, or other hosts than the testbed.
    """
    if (found := _inventory(config, file, name)) is None:
        return {}
    inventory, pair = found
    hosts = {"dut": (pair.dut, config.dut.ssh), "generator": (pair.generator, config.generator.ssh)}
    return {host: _mode(inventory, *hosts[host], f"{file.stem}-{name}-{host}") for host in config.knobs}


def inventory_variables(config: PairConfig, file: Path, name: str) -> dict[str, Mapping[str, Any]]:
    """Return host -> its inventory variables; empty if the pair names no inventory. Raise as `boot_modes` does."""
    if (found := _inventory(config, file, name)) is None:
        return {}
    inventory, pair = found
    return {"dut": inventory.hosts[pair.dut], "generator": inventory.hosts[pair.generator]}


def _inventory(config: PairConfig, file: Path, name: str) -> tuple[Inventory, Pair] | None:
    if config.inventory is None:
        return None
    inventory = load_inventory(file.parent / config.inventory)
    named = {pair.name: pair for pair in inventory.pairs}
    if len(named) == 1:
        return inventory, inventory.pairs[0]
    if name not in named:
        raise UsageError(f"has no pair {name}", str(inventory.path), f"it has {', '.join(named)} (pollscope_pair)")
    return inventory, named[name]


def _mode(inventory: Inventory, host: str, remote: Remote, key: str) -> BootMode:
    variables = inventory.hosts[host]
    address = str(variables.get("ansible_host") or host), int(variables.get("ansible_port") or 22)
    if address != (remote.host, remote.port):
        there, here = f"{address[0]}:{address[1]}", f"{remote.host}:{remote.port}"
        raise UsageError(f"its host {host} is {there}, the testbed's is {here}", str(inventory.path))
    mode = variables.get("iommu_mode")
    own = "off" if mode is False else str(mode or AS_IT_WAS)
    if own not in (*MODES, AS_IT_WAS):
        raise UsageError(
            f"iommu_mode of {host} is '{own}'", str(inventory.path), f"write one of {', '.join((*MODES, AS_IT_WAS))}"
        )
    log = kept_folder() / "plays" / f"iommu-{key}.log"

    def play(mode: str) -> None:
        run_play("iommu", inventory, {"mode": mode, "pollscope_of_run": "true"}, options=["--limit", host], log=log)

    return BootMode(play, own)
