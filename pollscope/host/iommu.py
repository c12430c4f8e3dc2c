# SPDX-License-Identifier: BSD-3-Clause
"""Modes of the IOMMU: the boot parameters that choose one, and how the running kernel shows it.

The modules of the playbooks copy this file to hosts without pollscope, so it imports only Python's standard library.
"""

from collections.abc import Iterable
from pathlib import Path

# Documentation/admin-guide/kernel-parameters.txt; a later parameter overrides an earlier one.
WORDS = {
    "intel": {
        "off": ["intel_iommu=off"],
        "passthrough": ["intel_iommu=on", "iommu=pt"],
        "lazy": ["intel_iommu=on", "iommu.passthrough=0", "iommu.strict=0"],
        "strict": ["intel_iommu=on", "iommu.passthrough=0", "iommu.strict=1"],
    },
    "amd": {
        "off": ["amd_iommu=off"],
        "passthrough": ["iommu=pt"],
        "lazy": ["iommu.passthrough=0", "iommu.strict=0"],
        "strict": ["iommu.passthrough=0", "iommu.strict=1"],
    },
}
# Type of a group's default domain (Documentation/ABI/testing/sysfs-kernel-iommu_groups) -> mode.
_MODES = {"identity": "passthrough", "DMA-FQ": "lazy", "DMA": "strict"}


def has_iommu(sysfs: Path) -> bool:
    """Return whether the kernel uses an IOMMU."""
    return any((sysfs / "class/iommu").glob("*"))


def mode_of(types: Iterable[str]) -> str:
    """Return the mode of groups of these types, several joined by `+`. Groups that a program holds do not count."""
    return "+".join(sorted({_MODES[kind] for kind in types if kind in _MODES})) or "unknown"
