# SPDX-License-Identifier: BSD-3-Clause
"""Model-specific registers through /dev/cpu/N/msr (msr(4)): the register number is the file offset."""

import errno
import os
import struct
from pathlib import Path

from pollscope.collectors.knobs.host import Host
from pollscope.errors import HostError

_REGISTER = struct.Struct("<Q")


def read_msr(host: Host, cpu: int, register: int) -> int:
    """The 64 bits of a register on one processor.

    Raises:
        HostError: no such file, no right, or the processor has no such register.
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


def write_msr(host: Host, cpu: int, register: int, value: int) -> None:
    """Writes the 64 bits of a register on one processor.

    Raises:
        HostError: as `read_msr`, or the processor refused the value.
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


def access_reason(host: Host, cpu: int) -> str:
    """Why this user cannot write MSRs; empty when it should work."""
    path = _path(host, cpu)
    if not path.exists():
        return f"{path} does not exist (modprobe msr; many hypervisors offer no MSRs)"
    if (mode := host.lockdown()) != "none":
        return f"the kernel is locked down ({mode}) and refuses writes to MSRs"
    return "" if os.access(path, os.R_OK | os.W_OK) else f"{path} needs root"


def _path(host: Host, cpu: int) -> Path:
    return host.dev / "cpu" / str(cpu) / "msr"


def _reason(error: OSError, verb: str, register: int) -> str:
    if error.errno == errno.EIO:  # how the msr driver reports a general-protection fault
        return f"the processor refused to {verb} MSR {register:#x}"
    return f"MSR {register:#x}: cannot {verb}: {error.strerror}"
