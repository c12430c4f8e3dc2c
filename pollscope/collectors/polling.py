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

_PATIENCE_S = 5.0
_ALLOWED_FAILURES = 3


class PollingCollector(Collector):
    """Takes a snapshot in every round of its interval; with `once`, only at start and stop (for settings)."""

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._thread: threading.Thread | None = None
        self._leaving = threading.Event()
        self._started_ns = self._failures = self._cpu_ns = 0
        self._failure = ""
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
        self._leaving = threading.Event()  # a thread that hangs since an earlier start keeps its own
        self._failures, self._cpu_ns, self._started_ns = 0, 0, time.monotonic_ns()
        self._thread = threading.Thread(
            target=self._run,
            args=(self._recorder, interval_ns, self._leaving),
            name=f"collect-{self.name}",
            daemon=True,
        )
        self._thread.start()

    def _run(self, recorder: Recorder, interval_ns: int, leaving: threading.Event) -> None:
        """Take snapshots at multiples of the interval on the monotonic clock.

        All collectors wake up together, so that a measured CPU is disturbed at one moment per interval. A late snapshot
        does not shift the next.
        """
        last = False
        while self._take(recorder) and not last:
            left_ns = interval_ns - time.monotonic_ns() % interval_ns
            last = leaving.wait(None if self.once else left_ns / 1e9)

    def _take(self, recorder: Recorder) -> bool:
        """Take a snapshot; return False after too many failures."""
        try:
            for label, text in self.snapshot():
                recorder.write(text, label)
            self._failures = 0
        except Exception as error:  # an error of a source must not end the trial
            self._failures += 1
            self._failure = str(error) or type(error).__name__
            self._problems.add(self._failure)
        self._cpu_ns = time.thread_time_ns()
        if self._failures == _ALLOWED_FAILURES:
            self._failure = f"gave up after {self._failures} failures: {self._failure}"
        return self._failures < _ALLOWED_FAILURES

    def stop(self) -> CollectorOutcome:
        assert self._recorder is not None, "BUG: not started"
        assert self._thread is not None, "BUG: not started"
        self._leaving.set()
        self._thread.join(_PATIENCE_S)
        hung, empty = self._thread.is_alive(), self._recorder.size_bytes == 0
        if not hung:
            self.release()
        self._recorder.close()
        outcome = CollectorOutcome(
            self.name, Status.OK, "", self._cpu_ns or None, self._started_ns, time.monotonic_ns()
        )
        outcome.raw, outcome.problems = self._recorder.path, self._problems
        if hung:
            outcome.status, outcome.reason = Status.HUNG, f"a read has not returned for {_PATIENCE_S:.0f} s"
        elif self._failure and (empty or self._failure.startswith("gave up")):
            outcome.status, outcome.reason = Status.FAILED, self._failure
        elif self._recorder.failure:
            outcome.status, outcome.reason = Status.FAILED, self._recorder.failure
        return outcome
