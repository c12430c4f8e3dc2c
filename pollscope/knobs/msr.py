# SPDX-License-Identifier: BSD-3-Clause
"""Access model-specific registers through /dev/cpu/N/msr (msr(4)); knobs on them, such as the prefetchers."""

import errno
import os
import struct
from abc import abstractmethod
from pathlib import Path
from typing import Generic, TypeVar

from pollscope.base.errors import HostError
from pollscope.knobs.base import Availability, Knob, Refused
from pollscope.knobs.host import KnobHost
from pollscope.knobs.platforms import Absent, Platform, PrefetchersRegister, WaysRegister, of_host

_REGISTER = struct.Struct("<Q")
Table = TypeVar("Table", WaysRegister, PrefetchersRegister)


def _read_msr(host: KnobHost, cpu: int, register: int) -> int:
    """Return the 64 bits of a register on one processor.

    Raises:
        HostError: no such file, no permission, or the processor has no such register.
    """
    path = _path(host, cpu)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = os.pread(descriptor, _REGISTER.size, register)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise HostError(_reason(error, "read", register), str(path)) from error
    if len(content) != _REGISTER.size:
        raise HostError(f"MSR {register:#x} gave {len(content)} bytes where 8 were expected", str(path))
    return int(_REGISTER.unpack(content)[0])


def write_msr(host: KnobHost, cpu: int, register: int, value: int) -> None:
    """Write the 64 bits of a register on one processor.

    Raises:
        HostError: as `_read_msr`, or the processor refused the value.
    """
    path = _path(host, cpu)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            written = os.pwrite(descriptor, _REGISTER.pack(value), register)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise HostError(_reason(error, "write", register), str(path)) from error
    if written != _REGISTER.size:
        raise HostError(f"only {written} of 8 bytes were taken for MSR {register:#x}", str(path))


def access_reason(host: KnobHost, cpu: int) -> str:
    """Say why this user cannot write MSRs; empty if it should work."""
    path = _path(host, cpu)
    if not path.exists():
        return f"{path} does not exist (modprobe msr; many hypervisors offer no MSRs)"
    if (mode := host.lockdown()) != "none":
        return f"the kernel is locked down ({mode}) and refuses writes to MSRs"
    return "" if os.access(path, os.R_OK | os.W_OK) else f"{path} needs root"


class MsrKnob(Knob, Generic[Table]):
    """A knob that is a register of the platform tables; a state is its 64 bits."""

    holder = "hardware"

    @abstractmethod
    def entry(self, platform: Platform) -> Table | Absent:
        """Return the register's entry in a platform table."""

    @abstractmethod
    def cpu(self, target: str) -> int:
        """Return the processor on which a target's register is read and written.

        Raises:
            HostError: there is none online.
        """

    def table(self) -> Table:
        """Return the register on this host.

        Raises:
            Refused: it is not known here.
        """
        platform = of_host(self.host)
        if platform is None:
            raise Refused("this processor is in no platform table", self.name)
        entry = self.entry(platform)
        if isinstance(entry, Absent):
            raise Refused(f"{platform.name}: {entry.absent}", self.name)
        return entry

    def available(self) -> Availability:
        try:
            table = self.table()
        except HostError as error:
            return Availability(error.what)
        if not (targets := self.targets()):
            return Availability("the kernel shows no processor topology")
        try:
            cpu = self.cpu(targets[0])
            if reason := access_reason(self.host, cpu):
                return Availability(reason)
            _read_msr(self.host, cpu, table.msr)
        except HostError as error:
            return Availability(str(error))
        return Availability()

    def read(self, target: str) -> str:
        return f"{_read_msr(self.host, self.cpu(target), self.table().msr):#018x}"

    def write(self, target: str, state: str) -> None:
        write_msr(self.host, self.cpu(target), self.table().msr, int(state, 16))


def _path(host: KnobHost, cpu: int) -> Path:
    return host.dev / "cpu" / str(cpu) / "msr"


def _reason(error: OSError, verb: str, register: int) -> str:
    if error.errno == errno.EIO:  # how the msr driver reports a general-protection fault
        return f"the processor refused to {verb} MSR {register:#x}"
    return f"MSR {register:#x}: cannot {verb}: {error.strerror}"


# Bits of MISC_FEATURE_CONTROL, 1 = disabled (Intel SDM volume 4).
_BITS = {"l2_stream": 0, "l2_adjacent": 1, "dcu_stream": 2, "dcu_ip": 3}
_FIELD = 0b1111


class Prefetchers(MsrKnob[PrefetchersRegister]):
    """MSR 0x1A4 of each processor ("cpu3"); a value is the set of prefetchers that run.

    They decide how much of a packet's cost is a cache miss.
    """

    name = "prefetchers"
    summary = "hardware prefetchers that run, per processor"
    values = f"on (all), off (none), or some of {','.join(_BITS)}"
    aims = "`cpuN` (all)"
    where = "MSR 0x1A4"

    def targets(self) -> list[str]:
        return [f"cpu{cpu}" for cpu in sorted(cpu for cpus in self.host.packages().values() for cpu in cpus)]

    @classmethod
    def parse(cls, value: object) -> str:
        word = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value).strip().lower()
        running = {"on": set(_BITS), "off": set[str]()}.get(word)
        if running is None:
            running = {part.strip() for part in word.split(",")}
        if not running <= _BITS.keys():
            raise cls.bad_value(value)
        return _name(running)

    def show(self, state: str) -> str:
        return _name({name for name, bit in _BITS.items() if not int(state, 16) >> bit & 1})

    def state_for(self, value: str, state: str, target: str) -> str:
        running = {"on": list(_BITS), "off": []}.get(value, value.split(","))
        disabled = sum(1 << bit for name, bit in _BITS.items() if name not in running)
        return f"{int(state, 16) & ~_FIELD | disabled:#018x}"

    def entry(self, platform: Platform) -> PrefetchersRegister | Absent:
        return platform.prefetchers

    def cpu(self, target: str) -> int:
        return int(target.removeprefix("cpu"))


def _name(running: set[str]) -> str:
    ordered = [name for name in _BITS if name in running]
    if len(ordered) in (0, len(_BITS)):
        return "on" if ordered else "off"
    return ",".join(ordered)
