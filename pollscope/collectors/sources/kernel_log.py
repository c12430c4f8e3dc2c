# SPDX-License-Identifier: BSD-3-Clause
"""Lines of the kernel log that appeared while the collector ran (/dev/kmsg)."""

import os
from collections.abc import Iterable, Iterator

from pollscope.collectors.interface import ProbeResult
from pollscope.collectors.parsers import kernel_log
from pollscope.collectors.polling import PollingCollector

_DEVICE = "/dev/kmsg"


class KernelLog(PollingCollector):
    """Starts at the end of the log: earlier lines are not this run's."""

    name, summary = "kernel-log", "new kernel messages"
    notes = "state, with the kernel's own time"
    parser = staticmethod(kernel_log.parse)
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
