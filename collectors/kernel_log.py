# SPDX-License-Identifier: BSD-3-Clause
"""Lines of the kernel log that appeared while the collector ran (/dev/kmsg; format in the kernel's dev-kmsg
document).
"""

import os
import re
from collections.abc import Iterable, Iterator

from .interface import Availability
from .parsing import Origin, numbered
from .polling import PollingCollector
from .sample import Kind, Metric, Reading, reading

NAME = "kernel-log"

_DEVICE = "/dev/kmsg"
_MESSAGE, _LEVEL = Metric("message", "", Kind.STATE), Metric("level", "1", Kind.STATE)


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Reads records `priority,sequence,microseconds,flags;text`; indented continuation lines are left alone.

    The time of a record is the kernel's own (CLOCK_MONOTONIC since boot), also when the record was read later.
    """
    for number, text in numbered(lines, origin):
        match = re.fullmatch(r"(\d{1,4}),\d+,(\d{1,18}),[^;]*;(.*)", text)
        if match:
            yield reading(int(match[2]) * 1000, "system", [(_LEVEL, int(match[1]) & 7, ""), (_MESSAGE, match[3], "")])
        elif text and not text.startswith(" "):
            origin.leave_out(number, f"no record of /dev/kmsg: {text[:60]!r}")


class KernelLog(PollingCollector):
    """Starts at the end of the log: what was there before is not this run's."""

    name, summary = NAME, "kernel messages that appear meanwhile"
    parser = staticmethod(parse)
    sparse = True

    def __init__(self) -> None:
        super().__init__()
        self._descriptor: int | None = None

    def probe(self) -> Availability:
        try:
            os.close(os.open(_DEVICE, os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            return Availability(False, f"{_DEVICE}: {error.strerror} (not root, or dmesg_restrict)")
        return Availability(True, _DEVICE)

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
                # records were overwritten before they were read; the next read goes on behind the gap
                continue
