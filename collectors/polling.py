# SPDX-License-Identifier: BSD-3-Clause
"""Collectors that read files or a socket of this host at intervals and record each text as a snapshot."""

import threading
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

from pollscope.errors import HostError, PollscopeError

from .interface import Collector, Outcome, Status
from .parsing import Problems
from .recording import Parser, Recorder, Recording
from .sample import Reading

_PATIENCE_S = 5.0
_ALLOWED_FAILURES = 3


class PollingCollector(Collector):
    """Takes a snapshot in a thread of its own, every interval; with `once`, only at start and stop (for settings)."""

    parser: Parser

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._started_ns = 0
        self._cpu_ns: int | None = None
        self._trouble = ""
        self._problems = Problems()

    @abstractmethod
    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        """(label, text) of what is there now.

        Raises:
            HostError, OSError: it cannot be read now.
        """

    def release(self) -> None:
        """Gives back what snapshots keep open between them; called when the last one was taken."""
        return

    def start(self, folder: Path, interval_ns: int) -> None:
        availability = self.probe()
        if not availability.available:
            raise HostError(availability.reason, self.name, "see pollscope doctor")
        self._recorder = Recorder(folder, self.name, "snapshots")
        self._over.clear()
        self._started_ns = time.monotonic_ns()
        self._thread = threading.Thread(
            target=self._poll, args=(interval_ns,), name=f"collect-{self.name}", daemon=True
        )
        self._thread.start()

    def _poll(self, interval_ns: int) -> None:
        """Snapshots at multiples of the interval on the clock; the first one at once, the last one at the stop.

        Collectors of one interval wake up together: what is measured is interrupted once, and the second of them finds
        caches that the first has filled. One that was late does not shift the next.
        """
        began, failures = time.thread_time_ns(), 0
        while failures < _ALLOWED_FAILURES:
            over = self._over.is_set()
            try:
                self._take()
                failures = 0
            except (OSError, PollscopeError) as error:
                failures += 1
                self._problems.add(str(error))
                self._trouble = str(error)
            self._cpu_ns = time.thread_time_ns() - began
            if over:
                return
            now_ns = time.monotonic_ns()
            self._over.wait(None if self.once else (interval_ns - now_ns % interval_ns) / 1e9)
        self._trouble = f"gave up after {failures} failures: {self._trouble}"

    def _take(self) -> None:
        assert self._recorder is not None
        for label, text in self.snapshot():
            self._recorder.write(text, label)

    def stop(self) -> Outcome:
        assert self._recorder is not None, "BUG: not started"
        assert self._thread is not None, "BUG: not started"
        self._over.set()
        self._thread.join(_PATIENCE_S)
        hung, empty = self._thread.is_alive(), self._recorder.size_bytes == 0
        if not hung:
            self.release()
        self._recorder.close()
        outcome = Outcome(
            self.name,
            Status.OK,
            "",
            self._cpu_ns,
            self._started_ns,
            time.monotonic_ns(),
            self._recorder.path,
            self._problems,
        )
        if hung:
            outcome.status, outcome.reason = Status.HUNG, f"a read has not come back for {_PATIENCE_S:.0f} s"
        elif self._trouble and (empty or self._trouble.startswith("gave up")):
            outcome.status, outcome.reason = Status.FAILED, self._trouble
        return outcome

    def parse_recording(self, recording: Recording, problems: Problems) -> Iterator[Reading]:
        return recording.readings(type(self).parser, problems)
