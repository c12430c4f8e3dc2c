# SPDX-License-Identifier: BSD-3-Clause
"""Knobs that are files of the kernel: clocks, energy, SMT, huge pages, interrupts, timed invalidations."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from pollscope.base.errors import UsageError
from pollscope.host.files import format_list, parse_list
from pollscope.knobs.base import HOST_TARGET, Availability, FileKnob, Refused, in_order, parse_choice, parse_whole
from pollscope.knobs.host import read_text, write_text
from pollscope.knobs.pci import PciDevice

_NO_DRIVER = "the kernel has no frequency driver on this machine"
_PREFERENCE = "energy_performance_preference"
# Contents of smt/control that cannot be left at run time (kernel documentation, ABI/testing/sysfs-devices-system-cpu).
FIXED_SMT = MappingProxyType(
    {
        "forceoff": "SMT was switched off for good until the next boot (forceoff)",
        "notsupported": "the processor has one thread per core (notsupported)",
        "notimplemented": "the kernel cannot control SMT on this architecture (notimplemented)",
    }
)
# Kernel documentation, admin-guide/pm/intel_epb.
_BIASES = MappingProxyType(
    {"performance": 0, "balance-performance": 4, "normal": 6, "balance-power": 8, "power": 15},
)


class _KernelFile(FileKnob):
    """A knob whose file has one place per target.

    Attributes:
        root: attribute of the host: the folder where `path` begins.
        path: of the file below `root`; a first part with `*` matches the targets.
        reason: why a host has no target; `{root}` and `{file}` stand for their paths.
    """

    root: ClassVar[str]
    path: ClassVar[str]
    reason: ClassVar[str]

    def folder(self) -> Path:
        """Return the folder in which the files are."""
        found: Path = getattr(self.host, self.root)
        return found

    def file(self, target: str = HOST_TARGET) -> Path:
        head, _, tail = self.path.partition("/")
        return self.folder() / target / tail if "*" in head else self.folder() / self.path

    def missing(self) -> str:
        return self.reason.format(root=self.folder(), file=self.file())

    def targets(self) -> list[str]:
        if "*" not in self.path:
            return [HOST_TARGET] if self.file().exists() else []
        return in_order(path.relative_to(self.folder()).parts[0] for path in self.folder().glob(self.path))


class Switch(_KernelFile):
    """A knob that is one file for the whole host, whose content is one of a few words.

    Attributes:
        words: value -> content of the file.
    """

    words: ClassVar[Mapping[str, str]] = MappingProxyType({"off": "0", "on": "1"})

    def __init_subclass__(cls) -> None:
        cls.values = ", ".join(cls.words)

    @classmethod
    def parse(cls, value: object) -> str:
        return parse_choice(cls, value, list(cls.words))

    def show(self, state: str) -> str:
        content = state.strip()
        return next((value for value, word in self.words.items() if word == content), content)

    def state_for(self, value: str, state: str, target: str) -> str:
        return super().state_for(self.words[value], state, target)


class NmiWatchdog(Switch):
    """Switch the hard-lockup detector (kernel documentation, admin-guide/lockup-watchdogs).

    It takes one counter of every core's PMU and an interrupt every few seconds.
    """

    name = "nmi_watchdog"
    summary = "hard-lockup detector, which occupies one PMU counter per core"
    where = "sysctl `kernel.nmi_watchdog`"
    root, path = "proc", "sys/kernel/nmi_watchdog"
    reason = "{file} does not exist: the kernel is built without the hard-lockup detector"


class NumaBalancing(Switch):
    """Switch automatic NUMA balancing (kernel documentation, admin-guide/sysctl/kernel).

    The kernel unmaps pages to see which CPUs use them, which costs a poller page faults.
    """

    name = "numa_balancing"
    summary = "automatic NUMA balancing"
    where = "sysctl `kernel.numa_balancing`"
    words = MappingProxyType({"off": "0", "on": "1", "tiering": "2"})
    root, path = "proc", "sys/kernel/numa_balancing"
    reason = "{file} does not exist: the kernel is built without CONFIG_NUMA_BALANCING"


class Smt(Switch):
    """Switch the second thread of every core; `forceoff` is never written, because it cannot be undone."""

    name = "smt"
    summary = "second hardware thread of every core"
    where = "`smt/control`"
    words = MappingProxyType({"off": "off", "on": "on"})
    root, path = "cpu_dir", "smt/control"
    reason = "{file} does not exist: the kernel has no SMT control"

    def available(self) -> Availability:
        present = super().available()
        if not self.file().exists():
            return present
        return Availability(FIXED_SMT.get(read_text(self.file()).strip(), present.reason))


class Turbo(Switch):
    """Switch turbo by intel_pstate/no_turbo (1 means off) or, with other drivers, cpufreq/boost (1 means on)."""

    name = "turbo"
    summary = "frequencies above the nominal one"
    where = "`intel_pstate/no_turbo`, else `cpufreq/boost`"
    root, path = "cpufreq_dir", "boost"

    def file(self, target: str = HOST_TARGET) -> Path:
        inverted = self._no_turbo()
        return inverted if inverted.exists() else super().file(target)

    def missing(self) -> str:
        return f"neither {self._no_turbo()} nor {self.file()} exists: {_NO_DRIVER}"

    def show(self, state: str) -> str:
        return self._turn(super().show(state))

    def state_for(self, value: str, state: str, target: str) -> str:
        return super().state_for(self._turn(value), state, target)

    def _no_turbo(self) -> Path:
        return self.host.cpu_dir / "intel_pstate/no_turbo"

    def _turn(self, value: str) -> str:
        if not self._no_turbo().exists():
            return value
        return {"off": "on", "on": "off"}.get(value, value)


class Epb(_KernelFile):
    """Set power/energy_perf_bias of a processor (MSR 0x1B0), which some processors obey besides the preference
    `epp`.
    """

    name = "epb"
    summary = "energy performance bias of each processor, 0 is the most performance"
    values = f"0 to 15, or {', '.join(_BIASES)}"
    aims = "`cpuN` (all)"
    where = "`power/energy_perf_bias`"
    holder = "hardware"
    root, path = "cpu_dir", "*/power/energy_perf_bias"
    reason = "no processor has power/energy_perf_bias: no Intel processor with this hint"

    @classmethod
    def parse(cls, value: object) -> str:
        word = str(value).strip().replace("_", "-")
        return str(_BIASES[word] if word in _BIASES else parse_whole(cls, value, 0, 15))


class Epp(_KernelFile):
    """Set energy_performance_preference of a policy (kernel documentation, admin-guide/pm/intel_pstate, amd-pstate).

    It says how eagerly a processor that chooses its own clock (HWP, CPPC) raises it.
    """

    name = "epp"
    summary = "energy performance preference of each cpufreq policy"
    values = "one that the driver offers (performance, balance_performance, power), or 0 to 255"
    aims = "`policyN` (all)"
    where = "cpufreq"
    root, path = "cpufreq_dir", f"policy*/{_PREFERENCE}"
    reason = "no policy of {root} has a preference: the driver chooses the clock"

    @classmethod
    def parse(cls, value: object) -> str:
        word = str(value).strip()
        number = int(word) if word.isascii() and word.isdecimal() and len(word) <= 3 else None
        if isinstance(value, bool) or (number is None and not word.isidentifier()) or (number or 0) > 255:
            raise cls.bad_value(value)
        return word if number is None else str(number)

    def state_for(self, value: str, state: str, target: str) -> str:
        policy = self.host.cpufreq_dir / target
        offered = read_text(policy / "energy_performance_available_preferences").split()
        if not value.isdecimal() and value not in offered:
            raise Refused(f"the driver offers {', '.join(offered)}, not {value}", self.place(target))
        if read_text(policy / "scaling_governor").strip() == "performance" and value not in ("performance", "0"):
            raise Refused("the governor performance fixes the preference: set governor first", self.place(target))
        return super().state_for(value, state, target)


class Governor(_KernelFile):
    """Set the frequency governor of a cpufreq policy.

    The state holds the energy preference as well, after a NUL: some drivers move it together with the governor, and
    restoring the governor alone would leave it changed.
    """

    name = "governor"
    summary = "frequency governor of each cpufreq policy"
    values = "a governor that the driver offers, for instance performance, powersave, schedutil"
    aims = "`policyN` (all)"
    where = "cpufreq; the energy preference is restored with it"
    root, path = "cpufreq_dir", "policy*/scaling_governor"
    reason = f"{{root}} holds no policy: {_NO_DRIVER}"

    @classmethod
    def parse(cls, value: object) -> str:
        word = str(value).strip()
        if isinstance(value, bool) or not word.isidentifier():
            raise cls.bad_value(value)
        return word

    def read(self, target: str) -> str:
        preference = self.host.cpufreq_dir / target / _PREFERENCE
        return super().read(target) + ("\0" + read_text(preference) if preference.exists() else "")

    def show(self, state: str) -> str:
        return state.partition("\0")[0].strip()

    def state_for(self, value: str, state: str, target: str) -> str:
        offered = read_text(self.host.cpufreq_dir / target / "scaling_available_governors").split()
        if value not in offered:
            raise Refused(f"the driver offers {', '.join(offered)}, not {value}", f"{self.name} {target}")
        _, separator, preference = state.partition("\0")
        return f"{value}\n{separator}{preference}"

    def write(self, target: str, state: str) -> None:
        policy = self.host.cpufreq_dir / target
        governor, _, preference = state.partition("\0")
        super().write(target, governor)
        # Under "performance" the drivers fix the preference and refuse to have it written.
        if preference and governor.strip() != "performance" and read_text(policy / _PREFERENCE) != preference:
            write_text(policy / _PREFERENCE, preference)


class _FrequencyRange(_KernelFile):
    """Set the lower and the upper limit of a clock in kHz: "1200000-2400000", or one number that fixes the clock.

    The state is the content of both files with a NUL between them.

    Attributes:
        files: names of the lower and of the upper limit's file.
    """

    values = "LOW-HIGH or one frequency, in kHz (1200000-2400000)"
    files: ClassVar[tuple[str, str]]

    def __init_subclass__(cls) -> None:
        cls.path = f"*/{cls.files[0]}"

    @classmethod
    def parse(cls, value: object) -> str:
        match = re.fullmatch(r"\s*(\d{5,8})(?:\s*-\s*(\d{5,8}))?\s*", str(value))
        if not match:
            raise cls.bad_value(value)
        low, high = int(match[1]), int(match[2] or match[1])
        if low > high:
            raise cls.bad_value(value)
        return f"{low}-{high}"

    def read(self, target: str) -> str:
        return "\0".join(read_text(self.folder() / target / name) for name in self.files)

    def show(self, state: str) -> str:
        return "-".join(part.strip() for part in state.split("\0"))

    def state_for(self, value: str, state: str, target: str) -> str:
        return "\0".join(f"{limit}\n" for limit in value.split("-"))

    def write(self, target: str, state: str) -> None:
        """Write the limit first that moves away from the other one, so that low never stands above high."""
        wanted = dict(zip(self.files, state.split("\0"), strict=True))
        present_high = int(read_text(self.folder() / target / self.files[1]))
        rising = int(wanted[self.files[0]]) > present_high
        for name in reversed(self.files) if rising else self.files:
            write_text(self.folder() / target / name, wanted[name])


class CoreFreq(_FrequencyRange):
    """Set scaling_min_freq and scaling_max_freq of a policy (kernel documentation, admin-guide/pm/cpufreq)."""

    name = "core_freq"
    summary = "lower and upper limit of the core clock of each cpufreq policy, in kHz"
    aims = "`policyN` (all)"
    where = "cpufreq"
    files = ("scaling_min_freq", "scaling_max_freq")
    root = "cpufreq_dir"
    reason = f"{{root}} holds no policy: {_NO_DRIVER}"

    def state_for(self, value: str, state: str, target: str) -> str:
        # The kernel accepts a value beyond these limits and holds the nearest one that it can.
        lowest, highest = (int(read_text(self.folder() / target / f"cpuinfo_{end}_freq")) for end in ("min", "max"))
        low, high = map(int, value.split("-"))
        if not lowest <= low <= high <= highest:
            raise Refused(f"the processor has {lowest}-{highest} kHz, not {value}", self.place(target))
        return super().state_for(value, state, target)


class UncoreFreq(_FrequencyRange):
    """Set the limits of a die's mesh clock (kernel documentation, admin-guide/pm/intel_uncore_frequency_scaling).

    It sets the speed of the LLC, the memory controller and the PCIe roots.
    """

    name = "uncore_freq"
    summary = "lower and upper limit of the uncore clock of each die, in kHz"
    aims = "`package_PP_die_DD` (all)"
    where = "`intel_uncore_frequency`"
    files = ("min_freq_khz", "max_freq_khz")
    root = "cpu_dir"
    reason = "{root} holds no die: no Intel server processor, or the driver is not loaded"

    def folder(self) -> Path:
        return super().folder() / "intel_uncore_frequency"


_MOST_PAGES = 1 << 24


class Hugepages(FileKnob):
    """nr_hugepages of a node (kernel documentation, admin-guide/mm/hugetlbpage); a target is "node0/2048kB".

    Always per node: the host-wide file spreads pages over the nodes again, so writing an old total there would not
    restore what was there. The kernel cannot free pages that programs use; the read-back then differs.
    """

    name = "hugepages"
    summary = "number of reserved huge pages of each NUMA node"
    values = "a number of pages; without a target: of 2048 kB, on every node"
    aims = "`nodeN/SIZEkB` (2048 kB on every node)"
    where = "per-node `nr_hugepages`"

    def missing(self) -> str:
        return f"{self._root()}/node*/hugepages is empty: the kernel has no hugetlbfs"

    def targets(self) -> list[str]:
        files = self._root().glob("node[0-9]*/hugepages/hugepages-*kB/nr_hugepages")
        return sorted(f"{path.parents[2].name}/{path.parent.name.removeprefix('hugepages-')}" for path in files)

    def select(self, target: str | None, value: str | None = None) -> list[str]:
        chosen = super().select(target)
        if target is None and value is not None:
            return [name for name in chosen if name.endswith("/2048kB")]
        return chosen

    @classmethod
    def parse(cls, value: object) -> str:
        return str(parse_whole(cls, value, 0, _MOST_PAGES))

    def _root(self) -> Path:
        return self.host.sysfs / "devices/system/node"

    def file(self, target: str) -> Path:
        match = re.fullmatch(r"(node\d+)/(\d+kB)", target)
        assert match, f"BUG: {target!r} did not come from targets()"
        return self._root() / match[1] / f"hugepages/hugepages-{match[2]}/nr_hugepages"


_CPU_RANGE = re.compile(r"\s*\d{1,5}(-\d{1,5})?\s*", re.ASCII)


class IrqAffinity(FileKnob):
    """/proc/irq/N/smp_affinity_list (proc(5)); a target is "irq42", or a PCI device for all its interrupts.

    The kernel refuses interrupts that it manages itself (queues of NVMe, some NICs) with an input/output error.
    """

    name = "irq_affinity"
    summary = "processors that may serve an interrupt"
    values = "a list of processors: 0-1,4"
    aims = "`irqN`, or a NIC for all its MSIs (none)"
    where = "`/proc/irq/N/smp_affinity_list`"

    def missing(self) -> str:
        return f"{self.host.proc}/irq lists no interrupt whose affinity can be set"

    def available(self) -> Availability:
        if self.targets() and (pid := self._irqbalance()):
            return Availability(f"irqbalance (pid {pid}) would move the interrupts again: systemctl stop irqbalance")
        return super().available()

    def targets(self) -> list[str]:
        numbers = (path.parent.name for path in (self.host.proc / "irq").glob("[0-9]*/smp_affinity_list"))
        return [f"irq{number}" for number in sorted(map(int, numbers))]

    def select(self, target: str | None, value: str | None = None) -> list[str]:
        if target is None and value is not None:
            raise UsageError(
                "irq_affinity needs a target", remedy="for instance irq42, or a PCI device like 0000:17:00.0"
            )
        if target is None or target.startswith("irq"):
            return super().select(target)
        return self._of_device(target)

    @classmethod
    def parse(cls, value: object) -> str:
        try:
            return format_list(_cpus(str(value)))
        except ValueError:
            raise cls.bad_value(value) from None

    def show(self, state: str) -> str:
        return format_list(_cpus(state)) if state.strip() else ""

    def state_for(self, value: str, state: str, target: str) -> str:
        present = set(_cpus(read_text(self.host.cpu_dir / "online")))
        if absent := {*_cpus(value)} - present:
            what = f"processor {format_list(absent)} is not online (online: {format_list(present)})"
            raise Refused(what, self.place(target))
        return super().state_for(value, state, target)

    def _irqbalance(self) -> str:
        """Return the pid of irqbalance, which writes these files every few seconds; empty when it does not run."""
        # Not in one pattern: glob() would raise ProcessLookupError for a process that ends during the search.
        for path in (process / "comm" for process in self.host.proc.glob("[0-9]*")):
            try:
                if path.read_text(errors="replace").strip() == "irqbalance":
                    return path.parent.name
            except OSError:  # it has ended
                continue
        return ""

    def _of_device(self, name: str) -> list[str]:
        device = PciDevice.find(self.host, name)
        numbers = sorted(int(path.name) for path in (device.path / "msi_irqs").glob("[0-9]*"))
        known = set(self.targets())
        found = [f"irq{number}" for number in numbers if f"irq{number}" in known]
        if not found:
            raise Refused("the device has no MSI interrupt", f"{self.name} {device.address}")
        return found

    def file(self, target: str) -> Path:
        return self.host.proc / "irq" / target.removeprefix("irq") / "smp_affinity_list"


def _cpus(text: str) -> list[int]:
    """Return the processors of a list, each once; raise ValueError for an empty, reversed or unreadable part."""
    parts = text.strip().split(",")
    if not all(_CPU_RANGE.fullmatch(part) and parse_list(part) for part in parts):
        raise ValueError(text)
    return sorted({cpu for part in parts for cpu in parse_list(part)})


# Number that switches each on, and its row in the file (drivers/iommu/intel/debugfs.c); 0 switches all off.
_KINDS = MappingProxyType({"iotlb": 1, "devtlb": 2, "iec": 3, "svm_prq": 4})
_ROWS = MappingProxyType({"inv_iotlb": "iotlb", "inv_devtlb": "devtlb", "inv_iec": "iec", "svm_prq": "svm_prq"})


class TimedInvalidations(FileKnob):
    """debugfs iommu/intel/dmar_perf_latency, which prints a row for each kind that is timed.

    The state is the kinds, joined by commas: the file is not read as it is written. What had been counted before is
    lost, because the kernel begins again.
    """

    name = "vtd_latency"
    summary = "which invalidations of the Intel IOMMU are timed (collector vtd-latency)"
    values = f"off, or some of {','.join(_KINDS)}"
    where = "debugfs `dmar_perf_latency`"

    def file(self, target: str = HOST_TARGET) -> Path:
        return self.host.sysfs / "kernel/debug/iommu/intel/dmar_perf_latency"

    def missing(self) -> str:
        return f"{self.file()} does not exist (CONFIG_INTEL_IOMMU_DEBUGFS, root, an Intel IOMMU)"

    def targets(self) -> list[str]:
        try:
            return [HOST_TARGET] if self.file().exists() else []
        except PermissionError:  # debugfs is for root alone
            return []

    @classmethod
    def parse(cls, value: object) -> str:
        word = "off" if value is False else str(value).strip().lower()
        kinds = {each.strip() for each in word.split(",")}
        if word == "off":
            return "off"
        if not kinds <= set(_KINDS):
            raise cls.bad_value(value)
        return ",".join(kind for kind in _KINDS if kind in kinds)

    def read(self, target: str) -> str:
        words = (line.split() for line in super().read(target).splitlines())
        rows = {_ROWS[each[0]] for each in words if each and each[0] in _ROWS}
        return ",".join(kind for kind in _KINDS if kind in rows)

    def show(self, state: str) -> str:
        return state or "off"

    def state_for(self, value: str, state: str, target: str) -> str:
        return "" if value == "off" else value

    def write(self, target: str, state: str) -> None:
        write_text(self.file(), "0\n")
        for kind in filter(None, state.split(",")):
            write_text(self.file(), f"{_KINDS[kind]}\n")
