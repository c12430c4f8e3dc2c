# SPDX-License-Identifier: BSD-3-Clause
"""What the modes of the IOMMU mean for a NIC that VFIO holds."""

from collections.abc import Collection, Mapping
from typing import Any

# Modes of the kernel's own domains. VFIO attaches the device to one that it makes (Documentation/driver-api/vfio.rst).
KERNEL_MODES = {"passthrough", "lazy", "strict"}
VFIO = "vfio-pci"


def one_treatment(levels: Collection[object], ports: Collection[str], nics: Mapping[str, Any]) -> str:
    """Why levels of the knob `iommu` are one and the same for a NIC; empty when they are not.

    Args:
        levels: of the knob.
        ports: of the DUT, as DPDK names them.
        nics: PCI address -> facts of the host's NICs (pollscope/host/nic_facts.py).
    """
    same = sorted(KERNEL_MODES & {str(level) for level in levels})
    held = [port for port in ports if isinstance(nics.get(port), Mapping) and nics[port].get("driver") == VFIO]
    if len(same) < 2 or not held:
        return ""
    return (
        f"iommu {', '.join(same)} are one treatment for {held[0]}: VFIO translates it by a domain of its own, with a "
        "mapping that stays; differences between them are not the NIC's (a NIC on mlx5_core has the kernel's domain)"
    )
