# SPDX-License-Identifier: BSD-3-Clause
"""Find the hosts of a pair in the inventory of the playbooks, through which their boot parameters are set."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pollscope.base.errors import UsageError
from pollscope.base.paths import kept_folder
from pollscope.testbeds.pair.boot_mode import AS_IT_WAS, MODES, BootMode
from pollscope.testbeds.pair.config import PairConfig
from pollscope.testbeds.pair.inventory import Inventory, Pair, load_inventory
from pollscope.testbeds.pair.plays import run_play
from pollscope.testbeds.pair.ssh import Remote


def boot_modes(config: PairConfig, file: Path, name: str) -> dict[str, BootMode]:
    """Return host -> how its boot mode is set; empty if the pair's file names no inventory.

    Args:
        config: of the pair.
        file: the testbed's, from which the inventory's path is relative.
        name: of the pair, where the inventory has several.

    Raises:
        UsageError: the inventory has an error, or other hosts than the testbed.
    """
    if config.inventory is None:
        return {}
    inventory = load_inventory(file.parent / config.inventory)
    pair = _pair(inventory, name)
    hosts = {"dut": (pair.dut, config.dut.ssh), "generator": (pair.generator, config.generator.ssh)}
    return {host: _mode(inventory, *hosts[host], f"{file.stem}-{name}-{host}") for host in config.knobs}


def inventory_variables(config: PairConfig, file: Path, name: str) -> dict[str, Mapping[str, Any]]:
    """Return host -> its inventory variables; empty if the pair names no inventory. Raise as `boot_modes` does."""
    if config.inventory is None:
        return {}
    inventory = load_inventory(file.parent / config.inventory)
    pair = _pair(inventory, name)
    return {"dut": inventory.hosts[pair.dut], "generator": inventory.hosts[pair.generator]}


def _pair(inventory: Inventory, name: str) -> Pair:
    named = {pair.name: pair for pair in inventory.pairs}
    if len(named) == 1:
        return inventory.pairs[0]
    if name not in named:
        raise UsageError(f"has no pair {name}", str(inventory.path), f"it has {', '.join(named)} (pollscope_pair)")
    return named[name]


def _mode(inventory: Inventory, host: str, remote: Remote, key: str) -> BootMode:
    variables = inventory.hosts[host]
    address = str(variables.get("ansible_host") or host), int(variables.get("ansible_port") or 22)
    if address != (remote.host, remote.port):
        there, here = f"{address[0]}:{address[1]}", f"{remote.host}:{remote.port}"
        raise UsageError(f"its host {host} is {there}, the testbed's is {here}", str(inventory.path))
    return BootMode(_player(inventory, host, key), _own_mode(inventory, host))


def _own_mode(inventory: Inventory, host: str) -> str:
    mode = inventory.hosts[host].get("iommu_mode")
    own = "off" if mode is False else str(mode or AS_IT_WAS)
    if own not in (*MODES, AS_IT_WAS):
        raise UsageError(
            f"iommu_mode of {host} is '{own}'", str(inventory.path), f"write one of {', '.join((*MODES, AS_IT_WAS))}"
        )
    return own


def _player(inventory: Inventory, host: str, key: str) -> Callable[[str], None]:
    log = kept_folder() / "plays" / f"iommu-{key}.log"

    def play(mode: str) -> None:
        run_play("iommu", inventory, {"mode": mode, "pollscope_of_run": "true"}, options=["--limit", host], log=log)

    return play
