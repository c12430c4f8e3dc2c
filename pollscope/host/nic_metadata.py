# SPDX-License-Identifier: BSD-3-Clause
"""Read driver, firmware and PCIe link of each NIC from the kernel."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from pollscope.host.files import read_text
from pollscope.host.topology import network_controllers, pcie_link

_TOOL_LIMIT_S = 5


def nic_metadata(sys: Path) -> dict[str, dict[str, Any]]:
    """Return PCI address -> properties of a NIC; an unknown one is `{"absent": reason}`.

    `link` and `link_most` are as the kernel writes them: "16.0 GT/s PCIe x16".
    """
    return {folder.name: _metadata_of(folder) for folder in network_controllers(sys)}


def _metadata_of(folder: Path) -> dict[str, Any]:
    identity = (read_text(folder / name) or "?" for name in ("vendor", "device"))
    driver, no_link = folder / "driver", {"absent": "the kernel shows no PCIe link"}
    return {
        "identity": ":".join(word.removeprefix("0x") for word in identity),
        "driver": driver.resolve().name if driver.exists() else "none",
        "firmware": _firmware(folder),
        "link": pcie_link(folder, "current") or no_link,
        "link_most": pcie_link(folder, "max") or no_link,
    }


def _firmware(folder: Path) -> Any:
    """Return the firmware version from the RDMA device of mlx5 or from ethtool(8); both need a network interface."""
    for version in (read_text(path) for path in sorted(folder.glob("infiniband/*/fw_ver"))):
        if version:
            return version
    interfaces = sorted(path.name for path in folder.glob("net/*")) or sorted(
        path.name for path in folder.glob("*/net/*")
    )
    if not interfaces:
        return {"absent": "no network interface: the NIC is not bound to a kernel driver"}
    tool = shutil.which("ethtool") or shutil.which("ethtool", path="/usr/sbin:/sbin")
    if tool is None:
        return {"absent": "ethtool is not installed"}
    try:
        done = subprocess.run(
            [tool, "-i", interfaces[0]], capture_output=True, text=True, check=False, timeout=_TOOL_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"absent": f"ethtool -i {interfaces[0]}: {error}"}
    return firmware_of(done.stdout) or {"absent": f"ethtool -i {interfaces[0]} names none"}


def firmware_of(text: str) -> str | None:
    """Return the firmware version in the output of `ethtool -i`; None if it is empty or a dash."""
    match = re.search(r"^firmware-version:[ \t]*(.*)$", text, re.MULTILINE)
    version = match[1].strip() if match else ""
    return version if version not in ("", "N/A", "-") else None
