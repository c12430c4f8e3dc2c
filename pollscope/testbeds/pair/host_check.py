# SPDX-License-Identifier: BSD-3-Clause
"""Say what a host of a pair has and lacks for its part of the testbed's file, by the findings of look_at_host.py."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pollscope import __version__
from pollscope.base.errors import HostError, reason_of
from pollscope.host.files import format_list, parse_list
from pollscope.testbeds.base import HostFinding
from pollscope.testbeds.pair.config import PairHost
from pollscope.testbeds.pair.ssh import LOST_STATUS, run_ssh

SCRIPT = Path(__file__).with_name("look_at_host.py")
_LOOK_LIMIT_S = 90.0
DISTRIBUTIONS = ("debian 12", "debian 13", "ubuntu 24.04")
_OLDEST_PYTHON = (3, 11)
MELLANOX, INTEL = "0x15b3", "0x8086"
DPDK_DRIVERS = ("vfio-pci", "uio_pci_generic", "igb_uio")
# Device ids of the E800 series, which takes its parser from a file (DPDK, drivers/net/ice/base/ice_devids.h).
E800 = tuple(f"0x{number:04x}" for number in (*range(0x1591, 0x1594), *range(0x1599, 0x159C), *range(0x1888, 0x1893)))
_PROVISION = "pollscope play provision -i INVENTORY"
_LOGIN = (
    ("Permission denied", "ssh-copy-id, or name the key in the testbed's file (ssh: key)"),
    ("Host key verification failed", "compare the host's key and put it into known_hosts"),
    ("IDENTIFICATION HAS CHANGED", "compare the host's key and put it into known_hosts"),
)
_CheckState = Literal["yes", "no", "note"]


def check_host(role: str, host: PairHost) -> list[HostFinding]:
    """Look at a host over SSH and return what it has and lacks; change nothing."""
    try:
        seen = look(host)
    except HostError as error:
        return [HostFinding(role, error.where or "login", "no", error.what, error.remedy)]
    try:
        return list(findings(role, host, seen))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = f"the answer is not in the form of {SCRIPT.name}: {reason_of(error)}"
        return [HostFinding(role, "Python", "no", what, "check what its login scripts print")]


def look(host: PairHost) -> dict[str, Any]:
    """Return what look_at_host.py finds there.

    Raises:
        HostError: the login fails, or there is no Python; `where` says which.
    """
    programs = [host.program, *([host.pollscope] if host.pollscope else [])]
    try:
        done = run_ssh(host.ssh, ["python3", "-", *host.nics, "--", *programs], _LOOK_LIMIT_S, SCRIPT.read_text())
    except HostError as error:
        raise HostError(error.what, "login", error.remedy) from error
    if done.returncode == 0:
        try:
            return dict(json.loads(done.stdout))
        except (ValueError, TypeError, RecursionError) as error:
            raise HostError("the answer is no JSON object", "Python", "check what its login scripts print") from error
    last = (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[-1]
    if done.returncode == LOST_STATUS:
        known = next((remedy for sign, remedy in _LOGIN if sign in done.stderr), f"ssh {host.ssh.user}@{host.ssh.host}")
        raise HostError(last, "login", known)
    raise HostError(f"python3 does not run there: {last}", "Python", "apt-get install python3, there")


def findings(role: str, host: PairHost, seen: Mapping[str, Any]) -> Iterator[HostFinding]:
    """Return one line per examined feature."""
    for what, state, text, remedy in (
        *_system(host, seen),
        *_memory(host, seen),
        *_nics(host, seen),
        *_cpus(host, seen),
    ):
        yield HostFinding(role, what, state, text, "" if state == "yes" else remedy)


def inventory_findings(role: str, host: PairHost, variables: Mapping[str, Any]) -> Iterator[HostFinding]:
    """Return contradictions between the testbed's file and the inventory's variables, before a play sets them."""
    isolated, polling = cpus_of(str(variables.get("cpu_isolation_cpus") or "")), set(host.cpus)
    if isolated:
        others = polling - isolated
        text = f"isolates {format_list(isolated)}" + (f"; not {format_list(others)}" if others else "")
        remedy = f'cpu_isolation_cpus: "{format_list(polling | isolated)}"'
        yield _met(role, polling <= isolated, text, remedy)
    named = set(variables.get("pollscope_nics") or ())
    remedy = f"pollscope_nics: [{', '.join(sorted(host.nics))}]"
    yield _met(role, named.issuperset(host.nics), f"NICs {', '.join(sorted(named))}", remedy)


def _met(role: str, met: bool, text: str, remedy: str) -> HostFinding:
    return HostFinding(role, "inventory", "yes" if met else "note", text, "" if met else remedy)


_Row = tuple[str, _CheckState, str, str]


def _system(host: PairHost, seen: Mapping[str, Any]) -> Iterator[_Row]:
    yield "login", "yes", str(host.ssh), ""
    user = str(seen["user"])
    if seen["root"]:
        yield "sudo", "yes", "is root", ""
    elif not host.ssh.becomes_root:
        yield "sudo", "no", f"{user} is not root, and the testbed's file says sudo: false", "ssh: {sudo: true}"
    else:
        line = f"echo '{user} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/pollscope, there as root"
        yield "sudo", _yes(seen["sudo"]), f"{user}, {'without' if seen['sudo'] else 'not without'} a password", line
    version = tuple(int(part) for part in str(seen["python"]).split(".")[:2])
    yield (
        "Python",
        _yes(version >= _OLDEST_PYTHON),
        str(seen["python"]),
        "3.11 or later: a distribution below that has it",
    )
    known = seen["distribution"] in DISTRIBUTIONS
    by_hand = f"the plays know {', '.join(DISTRIBUTIONS)}; by hand: docs/administer.md"
    yield "distribution", "yes" if known else "note", str(seen["distribution"]), by_hand
    in_step = {True: "the network's", False: "on its own", None: "unknown"}[seen["time_synchronised"]]
    yield "time", "yes" if seen["time_synchronised"] else "note", in_step, "timedatectl set-ntp true, there"
    yield "node program", _yes(seen["programs"][host.program]), host.program, _PROVISION
    if host.pollscope:
        yield _own_version(host.pollscope, seen["versions"][host.pollscope])
    for tool in ("perf", "pcm"):
        path = seen["tools"][tool]
        yield tool, "yes" if path else "note", path or "not installed", f"{_PROVISION} (role {tool})"
    pmu = "there" if seen["pmu"] else "the kernel shows none"
    yield "PMU", "yes" if seen["pmu"] else "note", pmu, "a bare-metal machine, or a hypervisor that exposes it"


def _own_version(program: str, version: str | None) -> _Row:
    own = f"pollscope {__version__}"
    if version is None:
        return "agent", "note", f"{program} is not there: no collectors, no knobs", _PROVISION
    same = __version__ in version.split()
    return "agent", "yes" if same else "note", f"{version.splitlines()[0]}, here is {own}", _PROVISION


def _yes(there: object) -> _CheckState:
    return "yes" if there else "no"


def _memory(host: PairHost, seen: Mapping[str, Any]) -> Iterator[_Row]:
    if host.memory_mib is not None:
        yield "hugepages", "note", "the testbed's file does without (memory_mib)", "take memory_mib out"
        return
    nodes = _nodes(seen)
    free = dict.fromkeys(nodes, 0)
    for each in seen["hugepages"]:
        free[each["node"]] = free.get(each["node"], 0) + each["size_kib"] * each["free"] // 1024
    text = ", ".join(f"node {node}: {mib} MiB free" for node, mib in sorted(free.items())) or "the kernel shows none"
    lacking = [node for node in nodes if not free[node]]
    wanted = f"{_PROVISION} (role hugepages: 1024 pages of 2 MB on the NIC's node)"
    yield "hugepages", _yes(free and not lacking), text, wanted


def _nodes(seen: Mapping[str, Any]) -> list[int]:
    """Return the NUMA nodes of the NICs; of a machine that reports none, the first."""
    found = {int(nic["node"]) for nic in seen["nics"].values() if nic and nic["node"] and int(nic["node"]) >= 0}
    return sorted(found) or [0]


def _nics(host: PairHost, seen: Mapping[str, Any]) -> Iterator[_Row]:
    if not seen["nics"]:
        yield "NIC", "note", f"{host.ports.rx} is no PCI address", "a virtual device: nothing to check"
    for address, nic in seen["nics"].items():
        if nic is None:
            others = ", ".join(seen["all_nics"]) or "none"
            yield f"NIC {address}", "no", "there is no such device", f"NICs there: {others}"
            continue
        vendor, device = str(nic["vendor"]), str(nic["device"])
        text = f"{vendor[2:]}:{device[2:]}, node {nic['node']}, {', '.join(nic['interfaces']) or 'no interface'}"
        yield f"NIC {address}", "yes", text, ""
        driver = nic["driver"] or "none"
        right = driver == "mlx5_core" if vendor == MELLANOX else driver in DPDK_DRIVERS
        yield "driver", _yes(right), driver, f"{_PROVISION} (role vfio)"
        if vendor == INTEL and device in E800:
            files = seen["ddp_packages"]
            remedy = "the distribution's firmware package: /lib/firmware/intel/ice/ddp/ice.pkg"
            yield "DDP package", "yes" if files else "note", files[0] if files else "none: one queue, no RSS", remedy
        shown = nic["firmware"] or f"not shown ({'ethtool is not there' if nic['interfaces'] else 'DPDK has the NIC'})"
        yield "firmware", "yes", shown, ""
        group = nic["iommu_group"]
        off = "no IOMMU group: DMA is not checked" if seen["iommu_groups"] else "off"
        yield "IOMMU", "yes" if group else "note", group or off, "pollscope play iommu -i INVENTORY -e mode=passthrough"


def _cpus(host: PairHost, seen: Mapping[str, Any]) -> Iterator[_Row]:
    polling, online = set(host.cpus), cpus_of(seen["online_cpus"])
    missing = sorted({host.main_cpu, *polling} - online)
    if missing:
        yield "cpus", "no", f"there is no CPU {missing[0]}", f"online are {seen['online_cpus']}"
        return
    if host.main_cpu in polling:
        yield "cpus", "no", f"main_cpu {host.main_cpu} is one of cpus", "main_cpu: another one"
        return
    nodes = _nodes(seen)
    near = {cpu for node in nodes for cpu in cpus_of(seen["node_cpus"].get(str(node)))} or online
    far = sorted(polling - near)
    where = " and ".join(str(node) for node in nodes)
    if far:
        text = f"CPU {far[0]} is not on node {where}, where the NIC is"
        yield "cpus", "note", text, f"cpus of {format_list(near - {host.main_cpu})}"
    else:
        yield "cpus", "yes", f"{format_list(polling)}, on node {where}", ""
    yield _governor(seen["governors"])
    isolated = cpus_of(seen["isolated_cpus"])
    open_cpus = polling - isolated
    text = f"{format_list(isolated) or 'none'}" + (f"; not {format_list(open_cpus)}" if open_cpus and isolated else "")
    wanted = f'cpu_isolation_cpus: "{format_list(polling)}" in the inventory, then {_PROVISION}'
    yield "isolated CPUs", "note" if open_cpus else "yes", text, wanted


def _governor(governors: Sequence[str]) -> _Row:
    if not governors:
        text = "none: the kernel sets no frequency (the firmware does, or a hypervisor)"
        return "governor", "note", text, "leave cpu_power_governor and cpu_power_turbo out of the inventory"
    state: _CheckState = "yes" if list(governors) == ["performance"] else "note"
    return (
        "governor",
        state,
        ", ".join(governors),
        f"cpu_power_governor: performance in the inventory, then {_PROVISION}",
    )


def cpus_of(text: str | None) -> set[int]:
    """Return the CPUs of a list of the kernel (`0-3,8`); empty for none."""
    return set(parse_list(text or ""))
