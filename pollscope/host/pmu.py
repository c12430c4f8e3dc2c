# SPDX-License-Identifier: BSD-3-Clause
"""Test with perf_event_open(2) whether this process may count instructions, instead of guessing from settings."""

import ctypes
import errno
import os
import platform
from pathlib import Path

from pollscope.host.files import read_text

# perf_event_attr (linux/perf_event.h): type PERF_TYPE_HARDWARE, size of version 0, config PERF_COUNT_HW_INSTRUCTIONS.
_TYPE_HARDWARE, _SIZE_VER0, _INSTRUCTIONS = 0, 64, 1
# Bits of the flags word: disabled, exclude_kernel, exclude_hv.
_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HV = 1 << 0, 1 << 5, 1 << 6
_SYSCALLS = {"x86_64": 298, "aarch64": 241}


class _Attr(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("bp_type", ctypes.c_uint32),
        ("config1", ctypes.c_uint64),
    )


def pmu_absence() -> str | None:
    """Return why instructions cannot be counted here; None if they can."""
    number = _SYSCALLS.get(platform.machine())
    if number is None:
        return f"perf_event_open is not known for {platform.machine()}"
    attr = _Attr(type=_TYPE_HARDWARE, size=_SIZE_VER0, config=_INSTRUCTIONS)
    attr.flags = _DISABLED | _EXCLUDE_KERNEL | _EXCLUDE_HV
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(number, ctypes.byref(attr), 0, -1, -1, 0)
    if descriptor < 0:
        return _reason(ctypes.get_errno())
    os.close(descriptor)
    return None


def _reason(error: int) -> str:
    name = errno.errorcode.get(error, str(error))
    if error in (errno.EACCES, errno.EPERM):
        paranoid = read_text(Path("/proc/sys/kernel/perf_event_paranoid"))
        return f"perf_event_open is not allowed ({name}; kernel.perf_event_paranoid is {paranoid})"
    if error in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
        return f"no hardware PMU ({name}): a virtual machine without one, or a processor that the kernel does not know"
    return f"perf_event_open: {os.strerror(error)} ({name})"
