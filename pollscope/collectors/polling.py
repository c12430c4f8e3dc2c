# SPDX-License-Identifier: BSD-3-Clause
"""Collectors that read files or a socket of this host at intervals and record each text as a snapshot."""

import threading
import time
from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path

from pollscope.base.errors import HostError
from pollscope.collectors.interface import Collector, CollectorOutcome, Status
from pollscope.collectors.parsing import Problems
from pollscope.collectors.recording import Recorder
from pollscope.collectors.rounds import Rounds, rounds_of

_PATIENCE_S = 5.0
_ALLOWED_FAILURES = 3


class PollingCollector(Collector):
    """Takes a snapshot in every round of its interval; with `once`, only at start and stop (for settings)."""

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._rounds: Rounds | None = None
        self._ended = threading.Event()
        self._fresh = self._leaving = False
        self._started_ns = self._failures = self.cpu_ns = 0
        self._kernel_log_check = ""
        self._problems = Problems()

    @abstractmethod
    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        """Return (label, text) of what is there now.

        Raises:
            HostError, OSError: it cannot be read now.
        """

    def release(self) -> None:
        """Close files that stay open between snapshots; called after the last one."""
        return

    def start(self, folder: Path, interval_ns: int) -> None:
        availability = self.probe()
        if not availability.available:
            raise HostError(availability.reason, self.name, "see pollscope doctor")
        self._recorder = Recorder(folder, self.name, "snapshots")
        self._ended.clear()
        self._fresh, self._leaving, self._failures, self.cpu_ns = True, False, 0, 0
        self._started_ns = time.monotonic_ns()
        self._rounds = rounds_of(interval_ns)
        self._rounds.join(self)

    @property
    def pressing(self) -> bool:
        """Return whether its first or its last snapshot is due."""
        return self._fresh or self._leaving

    def take(self) -> bool:
        """Take a snapshot; return False if it was the last."""
        began_ns, last = time.thread_time_ns(), self._leaving
        self._fresh = False
        try:
            self._record()
            self._failures = 0
        except Exception as error:  # an error of one source must not end the others
            self._failures += 1
            self._kernel_log_check = str(error) or type(error).__name__
            self._problems.add(self._kernel_log_check)
        self.cpu_ns += time.thread_time_ns() - began_ns
        if self._failures == _ALLOWED_FAILURES:
            self._kernel_log_check = f"gave up after {self._failures} failures: {self._kernel_log_check}"
            last = True
        if last:
            self._ended.set()
        return not last

    def _record(self) -> None:
        assert self._recorder is not None
        for label, text in self.snapshot():
            self._recorder.write(text, label)

    def stop(self) -> CollectorOutcome:
        assert self._recorder is not None, "BUG: not started"
        assert self._rounds is not None, "BUG: not started"
        self._leaving = True
        self._rounds.press()
        hung, empty = not self._ended.wait(_PATIENCE_S), self._recorder.size_bytes == 0
        if not hung:
            self.release()
        self._recorder.close()
        outcome = CollectorOutcome(
            self.name,
            Status.OK,
            "",
            self.cpu_ns or None,
            self._started_ns,
            time.monotonic_ns(),
            self._recorder.path,
            self._problems,
        )
        if hung:
            outcome.status, outcome.reason = Status.HUNG, f"a read has not returned for {_PATIENCE_S:.0f} s"
        elif self._kernel_log_check and (empty or self._kernel_log_check.startswith("gave up")):
            outcome.status, outcome.reason = Status.FAILED, self._kernel_log_check
        elif self._recorder.kernel_log_check:
            outcome.status, outcome.reason = Status.FAILED, self._recorder.kernel_log_check
        return outcome
