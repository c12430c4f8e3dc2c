# SPDX-License-Identifier: BSD-3-Clause
"""Knobs that are files of the kernel: clocks, energy preferences, SMT, NUMA balancing, the NMI watchdog."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from pollscope.knobs.base import HOST_TARGET, Availability, FileKnob, Refused, in_order, parse_choice, parse_whole
from pollscope.knobs.host import read_text, write_text

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
