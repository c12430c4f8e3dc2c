#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: return the boot parameters of an IOMMU mode on this host, and the mode that the kernel has.

- Returns `words`, the boot parameters of the mode. The table of the firmware decides (DMAR, Intel; IVRS, AMD).
- With `verify`, fails unless the kernel has the mode according to /sys/class/iommu and the types of the IOMMU groups.
  Nothing is changed.
- `devices`: PCI addresses that must have an IOMMU group.
- `root`: Folder that holds sys.
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope.base.errors import HostError
from ansible.module_utils.pollscope.host.iommu import WORDS, has_iommu, mode_of


def make_of(root: Path) -> str | None:
    """Return the make of the IOMMU that the firmware describes, also while the kernel leaves it off; or None."""
    tables = root / "sys/firmware/acpi/tables"
    return next((make for make, table in (("intel", "DMAR"), ("amd", "IVRS")) if (tables / table).exists()), None)


def words_for(mode: str, root: Path) -> list[str]:
    """Return the boot parameters of a mode; none for `off` on a host without an IOMMU.

    Raises:
        HostError: the firmware describes no IOMMU.
    """
    make = make_of(root)
    if make is None and mode == "off":
        return []
    if make is None:
        what = "the firmware describes no IOMMU: there is no table DMAR or IVRS"
        raise HostError(what, f"IOMMU mode {mode}", "switch VT-d or AMD-Vi on in its set-up")
    return WORDS[make][mode]


def group_types(root: Path, devices: list[str]) -> list[str]:
    """Return the types of the groups of the devices; without devices, those of all groups.

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
    """Return the mode of the kernel."""
    return mode_of(group_types(root, devices)) if has_iommu(root / "sys") else "off"


def verify(mode: str, found: str) -> None:
    """Check that the kernel has the wanted mode.

    Raises:
        HostError: it has another one; the message has the reason if it is known.
    """
    if found == mode:
        return
    why = ""
    if (mode, found) == ("lazy", "strict"):
        why = " (the kernel is always strict under a virtual IOMMU with caching mode)"
    raise HostError(f"the IOMMU mode is {found}, should be {mode}{why}")


def main() -> None:
    """Read the parameters, read the mode, report."""
    module = AnsibleModule(
        argument_spec={
            "mode": {"type": "str", "choices": ["off", "passthrough", "lazy", "strict"], "required": True},
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
