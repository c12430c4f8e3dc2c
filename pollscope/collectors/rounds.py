# SPDX-License-Identifier: BSD-3-Clause
"""Take the snapshots of all polling collectors of an interval in one thread, one after the other.

The measured programs are then interrupted once per interval, not once per collector, and each collector finds caches
warmed by the one before. If a snapshot does not return, the other collectors continue in a new thread.
"""

import threading
import time
from collections.abc import Sequence
from typing import Protocol

# A snapshot takes a few milliseconds; one that takes longer is blocked. (If only its CPU was taken away, two threads
# result, which does no harm.)
STUCK_S = 0.1
_LOOK_EVERY_S = 0.2


class Polled(Protocol):
    """A collector whose snapshots a shared thread takes.

    Attributes:
        once: a snapshot is taken only while it is `pressing`.
        cpu_ns: CPU time that it has cost so far.
    """

    once: bool
    cpu_ns: int

    @property
    def pressing(self) -> bool:
        """Return whether it needs a snapshot now: its first, or its last."""

    def take(self) -> bool:
        """Take a snapshot; return False if it was the last."""


class Rounds:
    """The rounds of one interval, at its multiples on the monotonic clock; a late one does not shift the next."""

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns = interval_ns
        self._lock = threading.Lock()
        self._threads: list[_PollerThread] = []
        self._watching = False

    def join(self, collector: Polled) -> None:
        """Start to take snapshots of a collector, the first at once."""
        with self._lock:
            if not self._threads:
                self._threads.append(_started(self, self._interval_ns, []))
            self._threads[-1].collectors.append(collector)
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="collect-watch", daemon=True).start()
        self.press()

    def press(self) -> None:
        """Take snapshots of the urgent collectors now."""
        with self._lock:
            for thread in self._threads:
                thread.pressed.set()

    def remove(self, thread: "_PollerThread", ended: Sequence[Polled]) -> bool:
        """Take collectors from a thread; return whether it has any left."""
        with self._lock:
            thread.collectors = [each for each in thread.collectors if each not in ended]
            if not thread.collectors:
                self._threads.remove(thread)
            return bool(thread.collectors)

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK_EVERY_S)
            with self._lock:
                if not self._threads:
                    self._watching = False
                    return
                self._relieve(self._threads[-1])

    def _relieve(self, thread: "_PollerThread") -> None:
        """Let the other collectors of a thread continue without the stuck one."""
        stuck, since_ns = thread.busy
        others = [each for each in thread.collectors if each is not stuck]
        if stuck is not None and others and time.monotonic_ns() - since_ns > STUCK_S * 1e9:
            thread.collectors = [stuck]
            self._threads.append(_started(self, self._interval_ns, others))


class _PollerThread(threading.Thread):
    """A thread and its collectors; `busy` is the one whose snapshot it takes, and since when."""

    def __init__(self, rounds: Rounds, interval_ns: int, collectors: list[Polled]) -> None:
        super().__init__(name="collect", daemon=True)
        self._rounds, self._interval_ns, self.collectors = rounds, interval_ns, collectors
        self.pressed = threading.Event()
        self.busy: tuple[Polled | None, int] = None, 0
        self._counted_ns = 0  # part of this thread's CPU time that is charged to its collectors

    def run(self) -> None:
        pressed = True
        while self._round(pressed):
            pressed = self.pressed.wait(self._until_next_s())

    def _round(self, pressed: bool) -> bool:
        """Take the snapshots that are due; return whether a collector is left."""
        if pressed:
            self.pressed.clear()
        due = [each for each in self.collectors if each.pressing or not (pressed or each.once)]
        before_ns = sum(each.cpu_ns for each in due)
        ended = [each for each in due if each in self.collectors and not self._take(each)]
        self._share(due, sum(each.cpu_ns for each in due) - before_ns)
        return self._rounds.remove(self, ended)

    def _share(self, due: Sequence[Polled], snapshots_ns: int) -> None:
        """Divide the cost of waking up among all collectors that were due."""
        spent_ns = time.thread_time_ns() - self._counted_ns
        for each in due:
            each.cpu_ns += (spent_ns - snapshots_ns) // len(due)
        self._counted_ns += spent_ns

    def _take(self, collector: Polled) -> bool:
        self.busy = collector, time.monotonic_ns()
        try:
            return collector.take()
        finally:
            self.busy = None, 0

    def _until_next_s(self) -> float | None:
        if all(each.once for each in self.collectors):
            return None
        return (self._interval_ns - time.monotonic_ns() % self._interval_ns) / 1e9


def _started(rounds: Rounds, interval_ns: int, collectors: list[Polled]) -> _PollerThread:
    thread = _PollerThread(rounds, interval_ns, collectors)
    thread.start()
    return thread


_all: dict[int, Rounds] = {}


def rounds_of(interval_ns: int) -> Rounds:
    """Return the rounds that all collectors of an interval share."""
    return _all.setdefault(interval_ns, Rounds(interval_ns))
