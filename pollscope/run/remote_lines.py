# SPDX-License-Identifier: BSD-3-Clause
"""Lines from and to a runner that may fall silent: a network that drops packets closes no connection.

Without a heartbeat timeout the runner may be silent for ever, like a person at a keyboard.
"""

import os
import select
import time
from collections.abc import Iterator

from pollscope.base.units import human_number

# Time in which this process did not run, or was busy, is not held against the runner.
_LOOK_S = 1.0
_CHUNK_BYTES = 1 << 16


class Lapsed(Exception):
    """The runner was silent for longer than its heartbeat timeout."""


class RemoteLines:
    """Two descriptors.

    Args:
        requests: is read from.
        replies: is written to.

    Attributes:
        heartbeat_timeout_s: how long the runner may be silent, in s; None: for ever.
    """

    def __init__(self, requests: int, replies: int) -> None:
        self._requests, self._replies = requests, replies
        self.heartbeat_timeout_s: float | None = None

    def __iter__(self) -> Iterator[str]:
        """Yield lines until the input ends; an empty line only says that the runner is alive.

        Raises:
            Lapsed: see there.
        """
        tail = b""
        while chunk := self._read():
            *lines, tail = (tail + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines if line.strip())

    def say(self, line: str) -> None:
        """Write a line.

        Raises:
            Lapsed: the runner did not read it. BrokenPipeError: the runner is gone.
        """
        rest = memoryview(line.encode() + b"\n")
        while rest:
            self._wait(self._replies, select.POLLOUT)
            # A pipe that poll(2) calls writable takes PIPE_BUF bytes without blocking (pipe(7)).
            rest = rest[os.write(self._replies, rest[: select.PIPE_BUF]) :]

    def _read(self) -> bytes:
        self._wait(self._requests, select.POLLIN)
        return os.read(self._requests, _CHUNK_BYTES)

    def _wait(self, descriptor: int, event: int) -> None:
        poller = select.poll()
        poller.register(descriptor, event)
        silent_s = 0.0
        while not self._ready(poller):
            silent_s += min(time.monotonic() - self._looked_at, _LOOK_S)
            if self.heartbeat_timeout_s is not None and silent_s >= self.heartbeat_timeout_s:
                raise Lapsed(f"the runner was silent for {human_number(self.heartbeat_timeout_s)} s")

    def _ready(self, poller: select.poll) -> bool:
        self._looked_at = time.monotonic()
        return bool(poller.poll(None if self.heartbeat_timeout_s is None else _LOOK_S * 1000))
