# SPDX-License-Identifier: BSD-3-Clause
"""The frequency of this host's TSC, which is also that of an emulated machine's."""

import ctypes
import mmap
import time
from collections.abc import Callable

from pollscope.errors import HostError

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
_RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")
PAUSE_S = 0.2
TRIES = 16


def tsc_khz() -> int:
    """Measured against the kernel's clock, to some millionths.

    Raises:
        HostError: the kernel gives no memory that may be executed.
    """
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError as error:
        raise HostError(f"the TSC cannot be read: {error.strerror}") from error
    page.write(_RDTSC)
    read_tsc = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    begin_ns, begin_ticks = _pair(read_tsc)
    time.sleep(PAUSE_S)
    end_ns, end_ticks = _pair(read_tsc)
    return round((end_ticks - begin_ticks) * 1_000_000 / (end_ns - begin_ns))


def _pair(read_tsc: Callable[[], int]) -> tuple[int, int]:
    """Both clocks at one time: of several tries the one that was interrupted least."""
    tries = []
    for _ in range(TRIES):
        before_ns = time.monotonic_ns()
        ticks = read_tsc()
        after_ns = time.monotonic_ns()
        tries.append((after_ns - before_ns, (before_ns + after_ns) // 2, ticks))
    _, now_ns, ticks = min(tries)
    return now_ns, ticks
