# SPDX-License-Identifier: BSD-3-Clause
"""Collect the metadata of this host and of the build, which each run stores so that runs can be compared."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from pollscope.base.paths import PACKAGE
from pollscope.host.cpus import online_cpus
from pollscope.host.files import PROC, SYS, cpuinfo, read_int, read_text
from pollscope.host.memory import hugepages, meminfo_bytes
from pollscope.host.nic_metadata import nic_metadata

_Value = Any
MACHINE_ID = Path("/etc/machine-id")
# Compiler versions as gcc and clang write them into the section .comment.
_COMPILER = re.compile(rb"GCC: \([^)\0]{1,80}\) [\d.]+|[\w ]{0,40}clang version [\d.]+[^\0\n]{0,60}")


def absent(reason: str) -> dict[str, str]:
    """Return the mark of a missing value, with the reason."""
    return {"absent": reason}


def host_metadata(proc: Path = PROC, sys: Path = SYS) -> dict[str, _Value]:
    """Return the properties of the machine that results depend on; unknown ones are `{"absent": reason}`."""
    info = cpuinfo(proc)
    return {
        "hostname": platform.node(),
        "machine_id": machine_id(),
        "cpu_model": info.get("model name", platform.machine()),
        "cpu_vendor": info.get("vendor_id", absent("/proc/cpuinfo has no vendor_id")),
        "cpu_family_model_stepping": "/".join(info.get(key, "?") for key in ("cpu family", "model", "stepping")),
        "cpu_flags": cpu_flags(proc),
        "microcode": info.get("microcode", absent("/proc/cpuinfo has no microcode")),
        "mitigations": mitigations(sys) or absent("the kernel does not list vulnerabilities"),
        "bios": _dmi(sys, "bios_vendor", "bios_version", "bios_date"),
        "board": _dmi(sys, "sys_vendor", "product_name"),
        "nics": nic_metadata(sys),
        **_counts(sys),
        "caches": cache_bytes(sys),
        "llc_ways": llc_ways(sys) or absent("the kernel does not show the ways of a third-level cache"),
        "memory_bytes": meminfo_bytes("MemTotal", proc) or absent("/proc/meminfo has no MemTotal"),
        "hugepages": [
            {"page_bytes": pages.page_bytes, "total": pages.total, "free": pages.free} for pages in hugepages(sys)
        ],
        "thp": _selected(sys / "kernel/mm/transparent_hugepage/enabled"),
        "kernel": platform.release(),
        "os": _os_name(),
        "command_line": read_text(proc / "cmdline") or absent("/proc/cmdline cannot be read"),
        "governor": _file_value(sys / "devices/system/cpu/cpu0/cpufreq/scaling_governor", "no cpufreq driver"),
        "turbo": turbo(sys),
        "clocksource": _file_value(sys / "devices/system/clocksource/clocksource0/current_clocksource", "not shown"),
        "hypervisor": hypervisor(proc, sys),
        "isolated_cpus": read_text(sys / "devices/system/cpu/isolated") or "none",
    }


def machine_id(file: Path = MACHINE_ID) -> _Value:
    """Return a digest of the machine's id, which itself must not be published (machine-id(5))."""
    found = read_text(file)
    return hashlib.sha256(f"pollscope {found}".encode()).hexdigest()[:16] if found else absent(f"no {file}")


def cpu_flags(proc: Path = PROC) -> dict[str, bool]:
    """Return flag -> whether the processor has it, for the flags that matter for time stamps and waiting."""
    flags = cpuinfo(proc).get("flags", "").split()
    waits = ("waitpkg", "mwaitx")
    wanted = ("constant_tsc", "nonstop_tsc", "tsc_known_freq", "rdtscp", *waits, "rtm", "avx2", "avx512f")
    return {flag: flag in flags for flag in wanted}


def mitigations(sys: Path = SYS) -> dict[str, str]:
    """Return vulnerability -> the kernel's text on its mitigation, without those that do not affect the processor."""
    folder = sys / "devices/system/cpu/vulnerabilities"
    found = {path.name: read_text(path) or "" for path in sorted(folder.glob("*"))}
    return {name: text for name, text in found.items() if text and text != "Not affected"}


def _dmi(sys: Path, *names: str) -> _Value:
    words = [read_text(sys / "class/dmi/id" / name) for name in names]
    return " ".join(filter(None, words)) or absent("no DMI: not a PC, or a container")


def _counts(sys: Path) -> dict[str, int | bool]:
    cpus = online_cpus(sys)
    cores = {cpu.physical for cpu in cpus}
    return {
        "cpus": len(cpus),
        "cores": len(cores),
        "packages": len({cpu.package for cpu in cpus}),
        "numa_nodes": len({cpu.node for cpu in cpus}),
        "smt": len(cpus) > len(cores),
    }


def cache_bytes(sys: Path = SYS) -> dict[str, int]:
    """Return the size in bytes of each cache of CPU 0: `L1d`, `L1i`, `L2`, `L3`."""
    kinds = {"Data": "d", "Instruction": "i", "Unified": ""}
    found = {}
    for folder in sorted((sys / "devices/system/cpu/cpu0/cache").glob("index[0-9]*")):
        level, kind, size = (read_text(folder / name) or "" for name in ("level", "type", "size"))
        if kind in kinds and size.endswith("K"):
            found[f"L{level}{kinds[kind]}"] = int(size.removesuffix("K")) * 1024
    return found


def llc_ways(sys: Path = SYS) -> int | None:
    """Return the ways of the third-level cache of CPU 0."""
    for folder in (sys / "devices/system/cpu/cpu0/cache").glob("index[0-9]*"):
        if read_text(folder / "level") == "3":
            return read_int(folder / "ways_of_associativity")
    return None


def _os_name() -> str:
    """Return the name of the distribution."""
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def turbo(sys: Path = SYS) -> _Value:
    """Return `on` or `off`, from intel_pstate or the generic boost file."""
    no_turbo = read_int(sys / "devices/system/cpu/intel_pstate/no_turbo")
    boost = read_int(sys / "devices/system/cpu/cpufreq/boost")
    if no_turbo is not None:
        return "off" if no_turbo else "on"
    if boost is not None:
        return "on" if boost else "off"
    return absent("no cpufreq driver shows it")


def hypervisor(proc: Path = PROC, sys: Path = SYS) -> _Value:
    """Return the name of the hypervisor; `none` on bare metal."""
    if "hypervisor" not in cpuinfo(proc).get("flags", "").split():
        return "none"
    if vendor := _hypervisor_vendor():
        return vendor
    product = read_text(sys / "class/dmi/id/product_name")
    vendor = read_text(sys / "class/dmi/id/sys_vendor")
    return " ".join(word for word in (vendor, product) if word) or "a hypervisor that does not name itself"


def _hypervisor_vendor() -> str | None:
    # lscpu(1) asks the processor itself (CPUID leaf 0x40000000), which no file in /sys shows.
    tool = shutil.which("lscpu")
    if tool is None:
        return None
    plain = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run([tool], env=plain, capture_output=True, text=True, check=False, timeout=10)
    found = re.search(r"^\s*Hypervisor vendor:\s*(.+)$", done.stdout, re.MULTILINE)
    return found[1] if found else None


def build_metadata(program: Path) -> dict[str, _Value]:
    """Return the identity of the node program and its build options, from meson's record beside it."""
    own = {"program": program.name, "sha256": _sha256(program), "compiler": _compiler(program), "commit": commit()}
    try:
        options = json.loads((program.parent / "meson-info" / "intro-buildoptions.json").read_text())
        wanted = {option["name"]: option["value"] for option in options}
    except (OSError, ValueError, KeyError, TypeError):
        return {**own, "flags": absent("the build folder with meson's record is not there")}
    names = ("buildtype", "optimization", "b_lto", "b_sanitize", "c_args", "march")
    return {**own, "flags": {name: wanted.get(name) for name in names}}


def _compiler(program: Path) -> _Value:
    """Return the compiler from meson's record, or for meson before 1.2 from the section .comment of the program."""
    try:
        found = json.loads((program.parent / "meson-info" / "intro-compilers.json").read_text())["host"]["c"]
        return str(found.get("full_version") or found["version"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        names = set(_COMPILER.findall(program.read_bytes()))
    except OSError as error:
        return absent(f"cannot be read: {error.strerror}")
    return ", ".join(sorted(name.decode() for name in names)) or absent("the program does not name its compiler")


def commit(folder: Path = PACKAGE) -> _Value:
    """Return the commit of this package's checkout, with `-dirty` appended if files were changed."""
    tool = shutil.which("git")
    if tool is None or not (folder.parent / ".git").exists():
        return absent("no checkout" if tool else "git is not installed")
    words = [tool, "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired) as error:
        return absent(f"git: {error}")
    return done.stdout.strip() or absent(f"git: {' '.join(done.stderr.split())[:120]}")


def _sha256(program: Path) -> _Value:
    """Return the digest of a program, which distinguishes two builds of the same version."""
    try:
        with program.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return absent(f"cannot be read: {error.strerror}")


def _file_value(path: Path, reason: str) -> _Value:
    return read_text(path) or absent(reason)


def _selected(path: Path) -> _Value:
    text = read_text(path)
    if text is None:
        return absent("not in this kernel")
    return next((word.strip("[]") for word in text.split() if word.startswith("[")), text)
