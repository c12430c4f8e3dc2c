# SPDX-License-Identifier: BSD-3-Clause
"""Collectors that read files of /sys: frequency, idle states, energy, throttling, settings of the CPUs."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.open_files import OpenFiles
from pollscope.collectors.parsers import sysfs
from pollscope.collectors.polling import PollingCollector

_CPU = "/sys/devices/system/cpu"


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
