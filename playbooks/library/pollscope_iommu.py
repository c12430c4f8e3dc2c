#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: the boot parameters of an IOMMU mode on this host, and the mode that the kernel really has."""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope.base.errors import HostError

DOCUMENTATION = r"""
module: pollscope_iommu
short_description: The boot parameters of an IOMMU mode on this host, and the mode that the kernel has
description:
  - Returns C(words), the boot parameters of the mode, by the table that the firmware has (DMAR, Intel; IVRS, AMD).
  - With C(verify), fails unless the kernel has the mode, by /sys/class/iommu and the types of the IOMMU groups.
    Nothing is changed.
options:
  mode: {type: str, choices: ['off', pt, lazy, strict], required: true, description: The wanted mode.}
  verify: {type: bool, default: false, description: Fail unless the kernel has the mode.}
  devices: {type: list, elements: str, default: [], description: PCI addresses that must have an IOMMU group.}
  root: {type: path, default: /, description: Where sys is found.}
author: [pollscope]
"""

# Documentation/admin-guide/kernel-parameters.txt; a later parameter overrides an earlier one.
WORDS = {
    "intel": {
        "off": ["intel_iommu=off"],
        "pt": ["intel_iommu=on", "iommu=pt"],
        "lazy": ["intel_iommu=on", "iommu.passthrough=0", "iommu.strict=0"],
        "strict": ["intel_iommu=on", "iommu.passthrough=0", "iommu.strict=1"],
    },
    "amd": {
        "off": ["amd_iommu=off"],
        "pt": ["iommu=pt"],
        "lazy": ["iommu.passthrough=0", "iommu.strict=0"],
        "strict": ["iommu.passthrough=0", "iommu.strict=1"],
    },
}
# Type of a group's default domain (Documentation/ABI/testing/sysfs-kernel-iommu_groups) -> mode.
MODES = {"identity": "pt", "DMA-FQ": "lazy", "DMA": "strict"}


def make_of(root: Path) -> str | None:
    """Whose IOMMU the firmware describes, also while the kernel leaves it off; None without one."""
    tables = root / "sys/firmware/acpi/tables"
    return next((make for make, table in (("intel", "DMAR"), ("amd", "IVRS")) if (tables / table).exists()), None)


def words_for(mode: str, root: Path) -> list[str]:
    """The boot parameters of a mode; none for `off` on a host without an IOMMU.

    Raises:
        HostError: the firmware describes no IOMMU.
    """
    make = make_of(root)
    if make is None and mode == "off":
        return []
    if make is None:
        raise HostError(
            f"IOMMU mode {mode}: the firmware describes no IOMMU (no table DMAR or IVRS): switch VT-d or AMD-Vi on in "
            "its set-up"
        )
    return WORDS[make][mode]


def group_types(root: Path, devices: list[str]) -> list[str]:
    """The types of the groups of the devices, or of all groups.

    Raises:
        HostError: a device has no group.
    """
    if not devices:
        return [path.read_text().strip() for path in sorted((root / "sys/kernel/iommu_groups").glob("*/type"))]
    folders = {device: root / "sys/bus/pci/devices" / device for device in devices}
    missing = [device for device, folder in folders.items() if not folder.exists()]
    if missing:
        raise HostError(f"{missing[0]}: there is no such PCI device")
    alone = [device for device, folder in folders.items() if not (folder / "iommu_group").exists()]
    if alone:
        raise HostError(f"{alone[0]} has no IOMMU group")
    return [(folder / "iommu_group/type").read_text().strip() for folder in folders.values()]


def found_mode(root: Path, devices: list[str]) -> str:
    """The mode that the kernel has; several joined by `+`. Groups that a user's program holds tell nothing."""
    units = root / "sys/class/iommu"
    if not units.is_dir() or not any(units.iterdir()):
        return "off"
    return "+".join(sorted({MODES[kind] for kind in group_types(root, devices) if kind in MODES})) or "unknown"


def verify(mode: str, found: str) -> None:
    """Compares.

    Raises:
        HostError: the kernel has another mode; says why where the kernel is known to do that.
    """
    if found == mode:
        return
    why = ""
    if (mode, found) == ("lazy", "strict"):
        why = " (the kernel is always strict under a virtual IOMMU with caching mode)"
    raise HostError(f"the IOMMU mode is {found}, should be {mode}{why}")


def main() -> None:
    """Read the parameters, look, report."""
    module = AnsibleModule(
        argument_spec={
            "mode": {"type": "str", "choices": ["off", "pt", "lazy", "strict"], "required": True},
            "verify": {"type": "bool", "default": False},
            "devices": {"type": "list", "elements": "str", "default": []},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    mode, root = module.params["mode"], Path(module.params["root"])
    try:
        words = words_for(mode, root)
        found = found_mode(root, module.params["devices"] if module.params["verify"] and mode != "off" else [])
        if module.params["verify"]:
            verify(mode, found)
    except HostError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, words=words, mode=found, msg=f"the IOMMU mode is {found}")


if __name__ == "__main__":
    main()
