# SPDX-License-Identifier: BSD-3-Clause
"""Collectors that read what the kernel shows of this host: /proc, /sys, /dev, PCI configuration space, and lscpu."""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers.host import iommu, kernel_load, pcie, sysfs, texts
from pollscope.collectors.polling import PollingCollector
from pollscope.collectors.tool import ask
from pollscope.host.files import read_text
from pollscope.host.topology import network_controllers

_CPU = "/sys/devices/system/cpu"


class OpenFiles:
    """Files that stay open between two readings: opening a sysfs file costs five times as much as reading it."""

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}

    def read(self, path: str) -> bytes:
        """Return the whole content now.

        Raises:
            OSError: it cannot be read, such as a file of a CPU that went offline; the next call opens it again.
        """
        if path not in self._descriptors:
            self._descriptors[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        descriptor, content = self._descriptors[path], b""
        try:
            while piece := os.pread(descriptor, 1 << 16, len(content)):  # of /proc, one read returns about a page
                content += piece
            return content
        except OSError:
            os.close(self._descriptors.pop(path))
            raise

    def close(self) -> None:
        """Close all of them."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors = {}


class SysfsCollector(PollingCollector):
    """Files that match patterns, as `path=value` lines; an unreadable file is recorded with the reason
    (`path!reason`).
    """

    parser = staticmethod(sysfs.parse)
    patterns: Sequence[str]
    why_absent: str

    def __init__(self) -> None:
        super().__init__()
        self._files = OpenFiles()
        self._found: list[str] = []

    def probe(self) -> ProbeResult:
        paths = self._paths()
        readable = [path for path in paths if os.access(path, os.R_OK)]
        if not paths:
            return ProbeResult(False, self.why_absent)
        if not readable:
            return ProbeResult(False, f"{paths[0]}: no permission")
        return ProbeResult(True, f"{len(readable)} files below {os.path.commonpath(readable)}")

    def _paths(self) -> list[str]:
        return sorted(str(path) for pattern in self.patterns for path in Path("/").glob(pattern.lstrip("/")))

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", "".join(self._lines()).encode()

    def _lines(self) -> Iterator[str]:
        # Walking /sys for the patterns costs more than reading the files, so it is done once.
        self._found = self._found or self._paths()
        for path in self._found:
            try:
                text = " ".join(self._files.read(path).decode(errors="replace").split())
            except OSError as error:
                yield f"{path}!{error.strerror}\n"
            else:
                yield f"{path}={text}\n"

    def release(self) -> None:
        self._files.close()
        self._found = []


class CpuFrequency(SysfsCollector):
    """cpufreq and uncore frequency."""

    name, summary = "cpufreq", "frequency of every CPU and of the uncore"
    notes = "gauge, state"
    patterns = (
        f"{_CPU}/cpu[0-9]*/cpufreq/scaling_cur_freq",
        f"{_CPU}/cpu[0-9]*/cpufreq/scaling_m*_freq",
        f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor",
        f"{_CPU}/cpu[0-9]*/cpufreq/scaling_driver",
        f"{_CPU}/cpu[0-9]*/cpufreq/energy_performance_preference",
        f"{_CPU}/intel_pstate/no_turbo",
        f"{_CPU}/cpufreq/boost",
        f"{_CPU}/intel_uncore_frequency/*/*_freq_khz",
    )
    why_absent = "no cpufreq in sysfs (a hypervisor or the firmware keeps the frequency to itself)"


class CpuIdle(SysfsCollector):
    """Idle states: how often and how long."""

    name, summary = "cpuidle", "C-states of every CPU: entries and residency"
    notes = "counter"
    patterns = (f"{_CPU}/cpu[0-9]*/cpuidle/state*/[nlud][aist]*", f"{_CPU}/cpu[0-9]*/cpuidle/state*/time")
    why_absent = "no cpuidle states in sysfs (idle=poll, or a hypervisor)"


class Throttle(SysfsCollector):
    """Thermal throttling as counted by the kernel."""

    name, summary = "throttle", "thermal throttling events and time per core and package"
    notes = "counter"
    patterns = (f"{_CPU}/cpu[0-9]*/thermal_throttle/*_count", f"{_CPU}/cpu[0-9]*/thermal_throttle/*_time_ms")
    why_absent = "no thermal_throttle in sysfs (Intel bare metal only)"


class Rapl(SysfsCollector):
    """Energy counters of powercap; they wrap at energy_range."""

    name, summary = "rapl", "package, core and DRAM energy (powercap)"
    notes = "counter; zone `package-N` is `socketN`; wraps at `…_energy_range`"
    patterns = tuple(
        f"/sys/class/powercap/{zone}/{file}"
        for zone in ("intel-rapl:*", "amd-rapl:*")
        for file in ("name", "energy_uj", "max_energy_range_uj")
    )
    why_absent = "no RAPL zones in /sys/class/powercap (driver not loaded, or a hypervisor)"


class CpuSettings(SysfsCollector):
    """SMT, isolation, idle driver: settings during the run."""

    name, summary = "cpu-settings", "SMT, isolated CPUs, idle driver and topology"
    notes = "state"
    patterns = (
        f"{_CPU}/smt/*",
        f"{_CPU}/isolated",
        f"{_CPU}/nohz_full",
        f"{_CPU}/online",
        f"{_CPU}/cpuidle/current_*",
        f"{_CPU}/cpu[0-9]*/topology/thread_siblings_list",
        f"{_CPU}/cpu[0-9]*/topology/physical_package_id",
    )
    why_absent = "no CPU folder in sysfs"
    once = True


class KernelLoad(PollingCollector):
    """Ticks (steal among them), context switches, interrupts and softirqs of every CPU."""

    name, summary = "kernel-load", "/proc: ticks, steal, context switches, interrupts, softirqs per CPU"
    notes = "counter; steal in ticks"
    parser = staticmethod(kernel_load.parse)

    def __init__(self) -> None:
        super().__init__()
        self._files = OpenFiles()

    def probe(self) -> ProbeResult:
        return ProbeResult(Path("/proc/stat").exists(), "/proc")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        for name in ("stat", "interrupts", "softirqs"):
            yield name, self._files.read(f"/proc/{name}")

    def release(self) -> None:
        self._files.close()


_DEVICE = "/dev/kmsg"


class KernelLog(PollingCollector):
    """Starts at the end of the log: earlier lines are not this run's."""

    name, summary = "kernel-log", "new kernel messages"
    notes = "state, with the kernel's own time"
    parser = staticmethod(texts.parse_kernel_log)
    sparse = True

    def __init__(self) -> None:
        super().__init__()
        self._descriptor: int | None = None

    def probe(self) -> ProbeResult:
        try:
            os.close(os.open(_DEVICE, os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            return ProbeResult(False, f"{_DEVICE}: {error.strerror} (not root, or dmesg_restrict)")
        return ProbeResult(True, _DEVICE)

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        if self._descriptor is None:
            self._descriptor = os.open(_DEVICE, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        yield "", b"".join(self._records(self._descriptor)) or b"\n"

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def _records(self, descriptor: int) -> Iterator[bytes]:
        while True:
            try:
                yield os.read(descriptor, 8192)
            except BlockingIOError:
                return
            except BrokenPipeError:
                # records were overwritten before they were read; the next read continues after the gap
                continue


class AperfMperf(PollingCollector):
    """Reads both through /dev/cpu/N/msr: the mean frequency over an interval is base frequency * dAPERF / dMPERF.

    Both count only while the core is not halted (Intel SDM vol. 3, 15.5.5).
    """

    name, summary = "aperf", "APERF and MPERF: real frequency of every CPU"
    notes = "counter (MSR)"
    parser = staticmethod(texts.parse_registers)

    def probe(self) -> ProbeResult:
        if not _msr_devices():
            return ProbeResult(False, "no MSR device /dev/cpu/0/msr (modprobe msr)")
        try:
            _read_msr(_msr_devices()[0], 0xE7)
        except OSError as error:
            return ProbeResult(False, f"{_msr_devices()[0]}: {error.strerror}")
        return ProbeResult(True, f"{len(_msr_devices())} CPUs")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        lines = (
            f"cpu{path.parent.name} {address:#x} {_read_msr(path, address):x}\n"
            for path in _msr_devices()
            for address in texts.REGISTERS
        )
        yield "", "".join(lines).encode()


def _msr_devices() -> list[Path]:
    return sorted(Path("/dev/cpu").glob("[0-9]*/msr"), key=lambda path: int(path.parent.name))


def _read_msr(path: Path, address: int) -> int:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return int.from_bytes(os.pread(descriptor, 8, address), "little")
    finally:
        os.close(descriptor)


class IommuState(PollingCollector):
    """Translation mode and driver of every PCI device, at start and stop: off, passthrough, lazy, strict, vfio.

    Order of evidence: /sys/class/iommu (empty: no IOMMU is active, whatever the kernel log says: it prints "Default
    domain type: Translated" and "lazy mode" without any IOMMU), then the type of the device's group, then the kernel
    command line as explanation.
    """

    name, summary = "iommu", "IOMMU: off, passthrough, lazy or strict per device; drivers; kernel command line"
    notes = "state"
    parser = staticmethod(iommu.parse)
    once = True

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__()
        self._root = root

    def probe(self) -> ProbeResult:
        units = list((self._root / "sys/class/iommu").glob("*"))
        return ProbeResult(True, f"{len(units)} IOMMU units" if units else "no active IOMMU: translation is off")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", "".join(f"{line}\n" for line in _iommu_lines(self._root)).encode()


def _iommu_lines(root: Path) -> Iterator[str]:
    """Return the state as lines: `unit NAME`, `device BDF GROUP TYPE DRIVER`, `cmdline ...`, `unsafe_noiommu Y|N`."""
    for unit in sorted((root / "sys/class/iommu").glob("*")):
        yield f"unit {unit.name}"
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        links = device / "iommu_group", device / "driver"
        group, driver = (link.resolve().name if link.exists() else "-" for link in links)
        kind = "" if group == "-" else read_text(root / "sys/kernel/iommu_groups" / group / "type")
        yield f"device {device.name} {group} {kind or '-'} {driver}"
    yield f"cmdline {read_text(root / 'proc/cmdline') or ''}"
    yield f"unsafe_noiommu {read_text(root / 'sys/module/vfio/parameters/enable_unsafe_noiommu_mode') or '-'}"


_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class PcieState(PollingCollector):
    """Link, payload sizes, ordering and DDIO of the path of every NIC, at start and stop."""

    name, summary = "pcie", "PCIe link, MPS, MRRS, relaxed ordering and DDIO of every NIC and its root port"
    notes = "state"
    parser = staticmethod(pcie.parse)
    once = True

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__()
        self._sys = root / "sys"

    def probe(self) -> ProbeResult:
        nics = [folder.name for folder in network_controllers(self._sys)]
        return ProbeResult(bool(nics), ", ".join(nics) if nics else "no PCI device of class network")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", "".join(f"{line}\n" for line in _pcie_lines(self._sys)).encode()


def _pcie_lines(sys: Path) -> Iterator[str]:
    """List `device ADDRESS nic|rootport:NIC VENDOR:DEVICE HEX`; a root port is the component below pciDDDD:BB."""
    for nic in network_controllers(sys):
        yield _pcie_line(nic, "nic")
        chain = [part for part in nic.resolve().parts if _ADDRESS.fullmatch(part)]
        if len(chain) > 1:
            yield _pcie_line(nic.with_name(chain[0]), f"rootport:{nic.name}")


def _pcie_line(folder: Path, role: str) -> str:
    identity = ":".join((folder / name).read_text(encoding="ascii").strip()[2:] for name in ("vendor", "device"))
    return f"device {folder.name} {role} {identity} {(folder / 'config').read_bytes().hex()}"


_FILE = Path("/sys/kernel/debug/iommu/intel/dmar_perf_latency")


class VtdLatency(PollingCollector):
    """Reads the histograms of invalidations (iotlb, devtlb, iec, svm_prq), which the knob vtd_latency switches on."""

    name, summary = "vtd-latency", "invalidation latency of the Intel IOMMU (debugfs)"
    notes = "counter; the knob `vtd_latency` switches it on"
    parser = staticmethod(texts.parse_vtd_latency)

    def probe(self) -> ProbeResult:
        try:
            _FILE.read_bytes()
        except OSError as error:
            return ProbeResult(False, f"{_FILE}: {error.strerror} (CONFIG_INTEL_IOMMU_DEBUGFS, root, an Intel IOMMU)")
        return ProbeResult(True, str(_FILE))

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", _FILE.read_bytes()


class Lscpu(PollingCollector):
    """`lscpu -J`."""

    name, summary = "lscpu", "model, caches, topology and mitigations of the processor"
    notes = "state"
    parser = staticmethod(texts.parse_lscpu)
    once = True

    def probe(self) -> ProbeResult:
        tool = shutil.which("lscpu")
        return ProbeResult(tool is not None, tool or "lscpu is not installed (apt-get install util-linux)")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        yield "", ask(["lscpu", "-J"])
