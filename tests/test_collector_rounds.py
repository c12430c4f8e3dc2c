# SPDX-License-Identifier: BSD-3-Clause
"""Test rounds of polling collectors: one thread for all, which does not wait for a hung one."""

import itertools
import threading
import time
from collections.abc import Callable

import pytest

from pollscope.collectors import rounds as rounds_module
from pollscope.collectors.rounds import Rounds

INTERVAL_NS = 20_000_000


class Noted:
    """Notes when its snapshots were taken, and on which thread."""

    def __init__(self, once: bool = False) -> None:
        self.once, self.cpu_ns = once, 0
        self.fresh, self.leaving = True, False
        self.taken: list[tuple[int, int]] = []
        self.blocked = threading.Event()
        self.blocked.set()

    @property
    def pressing(self) -> bool:
        return self.fresh or self.leaving

    def take(self) -> bool:
        self.fresh = False
        last = self.leaving
        self.blocked.wait(20)
        self.taken.append((time.monotonic_ns(), threading.get_ident()))
        return not last

    def threads(self) -> set[int]:
        return {thread for _, thread in self.taken}


def joined(*collectors: Noted) -> Rounds:
    rounds = Rounds(INTERVAL_NS)
    for collector in collectors:
        rounds.join(collector)
    return rounds


def wait_until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def ended(rounds: Rounds, *collectors: Noted) -> None:
    for collector in collectors:
        collector.leaving = True
    rounds.press()
    wait_until(lambda: not rounds._threads)


def test_one_thread_takes_all_at_multiples_of_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_module, "STUCK_S", 20.0)  # on a busy host the thread itself may wait for its CPU
    collectors = Noted(), Noted()
    rounds = joined(*collectors)
    wait_until(lambda: all(len(each.taken) >= 5 for each in collectors))
    ended(rounds, *collectors)
    assert len(collectors[0].threads() | collectors[1].threads()) == 1
    assert all(each.cpu_ns > 0 for each in collectors)
    between = [at_ns for at_ns, _ in collectors[0].taken[1:-1]]
    assert all(at_ns // INTERVAL_NS > before_ns // INTERVAL_NS for before_ns, at_ns in itertools.pairwise(between))


def test_settings_are_read_at_start_and_stop_only() -> None:
    settings, counters = Noted(once=True), Noted()
    rounds = joined(settings, counters)
    wait_until(lambda: len(counters.taken) >= 5)
    assert len(settings.taken) == 1
    ended(rounds, settings, counters)
    assert len(settings.taken) == 2


def test_the_others_continue_without_a_hung_collector_until_it_recovers() -> None:
    stuck, other = Noted(), Noted()
    rounds = joined(stuck, other)
    wait_until(lambda: bool(stuck.taken and other.taken))
    stuck.blocked.clear()
    wait_until(lambda: len(rounds._threads) == 2)
    seen, hung = len(other.taken), len(stuck.taken)
    wait_until(lambda: len(other.taken) >= seen + 3)
    assert len(stuck.taken) == hung
    stuck.blocked.set()
    wait_until(lambda: len(stuck.taken) >= hung + 3)
    assert stuck.taken[-1][1] != other.taken[-1][1]
    ended(rounds, stuck, other)


def test_no_thread_is_left_without_collectors_and_a_later_one_gets_a_new_one() -> None:
    before, first, second = threading.active_count(), Noted(), Noted()
    rounds = joined(first)
    ended(rounds, first)
    wait_until(lambda: threading.active_count() <= before)
    rounds.join(second)
    wait_until(lambda: len(second.taken) >= 3)
    ended(rounds, second)
