# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of polling collectors: one thread for all, and none that waits for one that hangs."""

import itertools
import threading
import time
from collections.abc import Callable

import pytest

from pollscope.collectors import rounds as rounds_module
from pollscope.collectors.rounds import Rounds

INTERVAL_NS = 20_000_000


class Member:
    """Notes when it had a turn, and on which thread."""

    def __init__(self, once: bool = False) -> None:
        self.once, self.cpu_ns = once, 0
        self.fresh, self.leaving = True, False
        self.turns: list[tuple[int, int]] = []
        self.blocked = threading.Event()
        self.blocked.set()

    @property
    def pressing(self) -> bool:
        return self.fresh or self.leaving

    def turn(self) -> bool:
        self.fresh = False
        last = self.leaving
        self.blocked.wait(20)
        self.turns.append((time.monotonic_ns(), threading.get_ident()))
        return not last

    def threads(self) -> set[int]:
        return {thread for _, thread in self.turns}


def joined(*members: Member) -> Rounds:
    rounds = Rounds(INTERVAL_NS)
    for member in members:
        rounds.join(member)
    return rounds


def wait_until(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def dismissed(rounds: Rounds, *members: Member) -> None:
    for member in members:
        member.leaving = True
    rounds.press()
    wait_until(lambda: not rounds._crews)


def test_one_thread_serves_all_at_multiples_of_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds_module, "STUCK_S", 20.0)  # on a busy host the thread itself may wait for its CPU
    members = Member(), Member()
    rounds = joined(*members)
    wait_until(lambda: all(len(member.turns) >= 5 for member in members))
    dismissed(rounds, *members)
    assert len(members[0].threads() | members[1].threads()) == 1
    assert all(member.cpu_ns > 0 for member in members)
    between = [at_ns for at_ns, _ in members[0].turns[1:-1]]
    assert all(at_ns // INTERVAL_NS > before_ns // INTERVAL_NS for before_ns, at_ns in itertools.pairwise(between))


def test_settings_are_read_at_start_and_stop_only() -> None:
    settings, counters = Member(once=True), Member()
    rounds = joined(settings, counters)
    wait_until(lambda: len(counters.turns) >= 5)
    assert len(settings.turns) == 1
    dismissed(rounds, settings, counters)
    assert len(settings.turns) == 2


def test_the_others_go_on_without_one_that_hangs_and_it_comes_back() -> None:
    stuck, other = Member(), Member()
    rounds = joined(stuck, other)
    wait_until(lambda: bool(stuck.turns and other.turns))
    stuck.blocked.clear()
    wait_until(lambda: len(rounds._crews) == 2)
    seen, hung = len(other.turns), len(stuck.turns)
    wait_until(lambda: len(other.turns) >= seen + 3)
    assert len(stuck.turns) == hung
    stuck.blocked.set()
    wait_until(lambda: len(stuck.turns) >= hung + 3)
    assert stuck.turns[-1][1] != other.turns[-1][1]
    dismissed(rounds, stuck, other)


def test_no_thread_is_left_without_members_and_a_later_one_gets_a_new_one() -> None:
    before, first, second = threading.active_count(), Member(), Member()
    rounds = joined(first)
    dismissed(rounds, first)
    wait_until(lambda: threading.active_count() <= before)
    rounds.join(second)
    wait_until(lambda: len(second.turns) >= 3)
    dismissed(rounds, second)
