# SPDX-License-Identifier: BSD-3-Clause
"""Test when polling collectors take their snapshots, and that none waits for a hung one."""

import threading
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

from pollscope.collectors.interface import ProbeResult, Status
from pollscope.collectors.polling import PollingCollector

INTERVAL_NS = 20_000_000


class Noted(PollingCollector):
    """Notes when its snapshots were taken."""

    summary = "notes"
    parser = staticmethod(lambda _lines, _origin: iter(()))

    def __init__(self, name: str, once: bool = False) -> None:
        super().__init__()
        self.name, self.once = name, once
        self.taken: list[int] = []
        self.free = threading.Event()
        self.free.set()

    def probe(self) -> ProbeResult:
        return ProbeResult(True, "")

    def snapshot(self) -> Iterable[tuple[str, bytes]]:
        self.free.wait(20)
        self.taken.append(time.monotonic_ns())
        return [("", b"text\n")]


def wait_until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_snapshots_are_taken_at_multiples_of_the_interval_and_settings_twice(tmp_path: Path) -> None:
    before, counters, settings = threading.active_count(), Noted("counters"), Noted("settings", once=True)
    for each in (counters, settings):
        each.start(tmp_path, INTERVAL_NS)
    wait_until(lambda: len(counters.taken) >= 5)
    assert len(settings.taken) == 1
    assert [each.stop().status for each in (counters, settings)] == [Status.OK, Status.OK]
    assert len(settings.taken) == 2
    between = counters.taken[1:-1]
    assert all(at_ns // INTERVAL_NS > before_ns // INTERVAL_NS for before_ns, at_ns in pairwise(between))
    assert threading.active_count() == before


def test_the_others_continue_without_a_hung_collector_until_it_recovers(tmp_path: Path) -> None:
    stuck, other = Noted("stuck"), Noted("other")
    for each in (stuck, other):
        each.start(tmp_path, INTERVAL_NS)
    wait_until(lambda: bool(stuck.taken and other.taken))
    stuck.free.clear()
    wait_until(lambda: len(other.taken) >= 3)
    hung, seen = len(stuck.taken), len(other.taken)
    wait_until(lambda: len(other.taken) >= seen + 3)
    assert len(stuck.taken) <= hung + 1
    stuck.free.set()
    wait_until(lambda: len(stuck.taken) >= hung + 3)
    assert [each.stop().status for each in (stuck, other)] == [Status.OK, Status.OK]
