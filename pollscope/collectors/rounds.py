# SPDX-License-Identifier: BSD-3-Clause
"""One thread that takes the snapshots of all polling collectors of an interval, one after the other.

So what is measured is interrupted once an interval and not once a collector, and each finds caches that the one before
it has filled. A snapshot that does not come back keeps the thread to itself: the other collectors go on in a new one.
"""

import threading
import time
from collections.abc import Sequence
from typing import Protocol

# A snapshot takes a few milliseconds; one that takes longer than this waits for something. (Or the host took the CPU
# away: then there are two threads from here on, which does no harm.)
STUCK_S = 0.1
LOOK_EVERY_S = 0.2


class Member(Protocol):
    """A collector that takes part.

    Attributes:
        once: only `pressing` brings it a turn.
        cpu_ns: CPU time that it has cost so far.
    """

    once: bool
    cpu_ns: int

    @property
    def pressing(self) -> bool:
        """Whether it wants a turn now: its first, or its last."""

    def turn(self) -> bool:
        """Takes a snapshot; False when it was the last."""


class Rounds:
    """The rounds of one interval, at its multiples on the monotonic clock; a late one does not shift the next."""

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns = interval_ns
        self._lock = threading.Lock()
        self._crews: list[_Crew] = []
        self._watching = False

    def join(self, member: Member) -> None:
        """From now on it has its turns, the first at once."""
        with self._lock:
            if not self._crews:
                self._crews.append(_started(self, self._interval_ns, []))
            self._crews[-1].members.append(member)
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="collect-watch", daemon=True).start()
        self.press()

    def press(self) -> None:
        """Members that are pressing have their turn now."""
        with self._lock:
            for crew in self._crews:
                crew.pressed.set()

    def dismiss(self, crew: "_Crew", ended: Sequence[Member]) -> bool:
        """Takes members out of a crew; whether it has still some."""
        with self._lock:
            crew.members = [each for each in crew.members if each not in ended]
            if not crew.members:
                self._crews.remove(crew)
            return bool(crew.members)

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_EVERY_S)
            with self._lock:
                if not self._crews:
                    self._watching = False
                    return
                self._relieve(self._crews[-1])

    def _relieve(self, crew: "_Crew") -> None:
        """The others of a crew that is stuck with one of its members go on without it."""
        stuck, since_ns = crew.busy
        others = [each for each in crew.members if each is not stuck]
        if stuck is not None and others and time.monotonic_ns() - since_ns > STUCK_S * 1e9:
            crew.members = [stuck]
            self._crews.append(_started(self, self._interval_ns, others))


class _Crew(threading.Thread):
    """A thread and the members that it serves; `busy` is the one whose turn it is, and since when."""

    def __init__(self, rounds: Rounds, interval_ns: int, members: list[Member]) -> None:
        super().__init__(name="collect", daemon=True)
        self._rounds, self._interval_ns, self.members = rounds, interval_ns, members
        self.pressed = threading.Event()
        self.busy: tuple[Member | None, int] = None, 0
        self._counted_ns = 0  # of this thread's CPU time, put to the account of members

    def run(self) -> None:
        pressed = True
        while self._round(pressed):
            pressed = self.pressed.wait(self._until_next_s())

    def _round(self, pressed: bool) -> bool:
        """Serves who is due; whether anybody is left."""
        if pressed:
            self.pressed.clear()
        due = [each for each in self.members if each.pressing or not (pressed or each.once)]
        before_ns = sum(each.cpu_ns for each in due)
        ended = [each for each in due if each in self.members and not self._serve(each)]
        self._share(due, sum(each.cpu_ns for each in due) - before_ns)
        return self._rounds.dismiss(self, ended)

    def _share(self, served: Sequence[Member], turns_ns: int) -> None:
        """What waking up and going round have cost is borne by all who were served."""
        spent_ns = time.thread_time_ns() - self._counted_ns
        for each in served:
            each.cpu_ns += (spent_ns - turns_ns) // len(served)
        self._counted_ns += spent_ns

    def _serve(self, member: Member) -> bool:
        self.busy = member, time.monotonic_ns()
        try:
            return member.turn()
        finally:
            self.busy = None, 0

    def _until_next_s(self) -> float | None:
        if all(each.once for each in self.members):
            return None
        return (self._interval_ns - time.monotonic_ns() % self._interval_ns) / 1e9


def _started(rounds: Rounds, interval_ns: int, members: list[Member]) -> _Crew:
    crew = _Crew(rounds, interval_ns, members)
    crew.start()
    return crew


_all: dict[int, Rounds] = {}


def rounds_of(interval_ns: int) -> Rounds:
    """Those that all collectors of an interval share."""
    return _all.setdefault(interval_ns, Rounds(interval_ns))
