# SPDX-License-Identifier: BSD-3-Clause
"""List what a host has as one JSON object. Runs there through `python3 -`, on Python 3.6 or later, without pollscope.

It changes nothing. Values that this host does not show are null or missing; host_check.py judges them.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

_NETWORK_CLASS = "0x02"
SYS, PROC = Path("/sys"), Path("/proc")


def text(path: Path) -> Any:
    """Return the content of a small file, without the newline; None if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def said(*command: str) -> Any:
    """Return what a program wrote on standard output; None if it is missing, failed or took too long."""
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    try:
        done = subprocess.run(command, stdin=null, stdout=pipe, stderr=null, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip()


def distribution() -> str:
    """Return ID and VERSION_ID of os-release(5)."""
    lines = (text(Path("/etc/os-release")) or "").splitlines()
    fields = {name: value.strip("\"'") for name, _, value in (line.partition("=") for line in lines)}
    return " ".join(fields[name] for name in ("ID", "VERSION_ID") if name in fields)


def time_synchronised() -> Any:
    """Return whether the clock is synchronised over the network; None if unknown."""
    answer = said("timedatectl", "show", "-p", "NTPSynchronized", "--value")
    if answer in ("yes", "no"):
        return answer == "yes"
    tracking = said("chronyc", "-n", "tracking")
    return None if tracking is None else "Normal" in tracking


def hugepages() -> Any:
    """Return the hugepages of each node: `{node, size_kib, total, free}`."""
    found = []
    for folder in sorted(SYS.glob("devices/system/node/node*/hugepages/hugepages-*kB")):
        numbers = re.search(r"node(\d+)/hugepages/hugepages-(\d+)kB$", str(folder))
        total, free = text(folder / "nr_hugepages"), text(folder / "free_hugepages")
        if numbers and total and free:
            node, size_kib = (int(each) for each in numbers.groups())
            found.append({"node": node, "size_kib": size_kib, "total": int(total), "free": int(free)})
    return found


def nic(address: str) -> Any:
    """Describe the device at a PCI address; None if there is none."""
    folder = SYS / "bus/pci/devices" / address
    if not folder.exists():
        return None
    names = sorted(path.name for path in folder.glob("net/*"))
    shown = (said("ethtool", "-i", names[0]) or "") if names else ""
    firmware = re.search(r"^firmware-version: *(\S.*)$", shown, re.MULTILINE)
    driver = folder / "driver"
    return {
        "vendor": text(folder / "vendor"),
        "device": text(folder / "device"),
        "driver": driver.resolve().name if driver.exists() else None,
        "node": text(folder / "numa_node"),
        "near_cpus": text(folder / "local_cpulist"),
        "interfaces": names,
        "firmware": firmware.group(1) if firmware else None,
        "iommu_group": text(folder / "iommu_group/type"),
    }


def nics() -> Any:
    """Return all network controllers: `ADDRESS (INTERFACE)`, and the one that has the default route."""
    routes = [line.split() for line in (text(PROC / "net/route") or "").splitlines()]
    management = {words[0] for words in routes if words[1:2] == ["00000000"]}
    found = []
    for folder in sorted(SYS.glob("bus/pci/devices/*")):
        if (text(folder / "class") or "").startswith(_NETWORK_CLASS):
            names = sorted(path.name for way in ("net/*", "virtio*/net/*") for path in folder.glob(way))
            words = names + ["the management's"] * bool(management & set(names))
            found.append(folder.name + (" (" + ", ".join(words) + ")" if words else ""))
    return found


def ddp_packages() -> Any:
    """Return files of the DDP package for the E800 series, where DPDK looks (NIC guide, ice)."""
    folders = ("updates/intel/ice/ddp", "intel/ice/ddp")
    return [str(path) for each in folders for path in sorted(Path("/lib/firmware", each).glob("ice*.pkg*"))]


def governors() -> Any:
    """Return the governors of the frequency policies; empty if the kernel sets no frequency."""
    return sorted({text(path) or "" for path in SYS.glob("devices/system/cpu/cpufreq/policy*/scaling_governor")})


def look(addresses: Any, programs: Any) -> Any:
    """Return everything that this script finds out."""
    root = os.geteuid() == 0
    nodes = SYS.glob("devices/system/node/node[0-9]*")
    return {
        "python": platform.python_version(),
        "user": said("id", "-un"),
        "root": root,
        "sudo": root or said("sudo", "-n", "true") is not None,
        "distribution": distribution(),
        "time_synchronised": time_synchronised(),
        "hugepages": hugepages(),
        "nics": {address: nic(address) for address in addresses},
        "all_nics": nics(),
        "ddp_packages": ddp_packages(),
        "iommu_groups": len(list(SYS.glob("kernel/iommu_groups/*"))),
        "online_cpus": text(SYS / "devices/system/cpu/online"),
        "isolated_cpus": text(SYS / "devices/system/cpu/isolated"),
        "node_cpus": {each.name[len("node") :]: text(each / "cpulist") for each in nodes},
        "governors": governors(),
        "pmu": any(SYS.glob("bus/event_source/devices/cpu*")),
        "tools": {name: shutil.which(name) for name in ("perf", "pcm")},
        "programs": {path: os.access(path, os.X_OK) for path in programs},
        "versions": {path: said(path, "--version") for path in programs if Path(path).name == "pollscope"},
    }


if __name__ == "__main__":
    split = sys.argv.index("--")
    print(json.dumps(look(sys.argv[1:split], sys.argv[split + 1 :])))
