# SPDX-License-Identifier: BSD-3-Clause
"""Check QWAIT in software (apps/qwait) by itself: a model checker, preempted threads, the example.

Its policies are tested in apps/tests/unit_qwait.c.

POLLSCOPE_QWAIT_ITEMS=100000000 in the environment is the long form of the stress test, with more schedules.
"""

import os
import re
from itertools import product
from pathlib import Path

import pytest
from model_check import APPS, explore, run

SHORT_ITEMS = 200_000
ITEMS = int(os.environ.get("POLLSCOPE_QWAIT_ITEMS", SHORT_ITEMS))
LONG = ITEMS > SHORT_ITEMS
pytestmark = pytest.mark.timeout(100_000 if LONG else 300)
MODEL = "qwait_relacy.cc"


def test_no_schedule_loses_an_arrival(tmp_path: Path) -> None:
    """Explore two producers and a consumer: all schedules with two preemptions, and many random ones."""
    searches = ("preemptions 4", "random 1000000") if LONG else ("preemptions 2", "random 50000")
    explore(MODEL, tmp_path, "", *searches)


SMALL = "" if LONG else "ARRIVALS=2 TURNS=4"
EVENTS = "PRODUCERS=1 ONE_WAITER LOOKS EVENTS=2 ARRIVALS=3 TURNS=5"  # two slots for three arrivals
THIEF = "PRODUCERS=1 CONSUMERS=2 SETS=2 ONE_SET ARRIVALS=2 TURNS=1"  # it clears the summary beside ready queues


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("defines", "preemptions"),
    [
        (f"CONSUMERS=2 {SMALL}", 2),  # no two race for data that is no atomic
        (f"CONSUMERS=2 SETS=2 {SMALL}", 2),  # two consumers with one set each steal from each other
        (THIEF, 3),
        ("ONE_WAITER", 2),
        (f"AT_ONCE {SMALL}", 2),
        (f"LOOKS {SMALL}", 2),
        ("ONE_WAITER LOOKS LOWERS=false", 2),
        (f"{EVENTS} LOWERS=true", 2),
        (f"{EVENTS} LOWERS=false QWAIT_WEAK", 2),  # without any barrier
    ],
)
def test_no_schedule_of_a_variant_loses_an_arrival(tmp_path: Path, defines: str, preemptions: int) -> None:
    """Explore the variants that apps/tests/qwait_relacy.cc describes."""
    explore(MODEL, tmp_path, defines, f"preemptions {preemptions}")


LOST, SLEEPS = "its arrival is lost", "sleep beside a queue with items"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("defines", "preemptions", "found"),
    [
        ("QWAIT_NO_VERIFY", 2, LOST),
        ("QWAIT_NO_RECONSIDER", 2, LOST),
        ("QWAIT_NO_LOOK", 2, LOST),  # after arming
        ("QWAIT_NO_SECOND_LOOK", 2, LOST),  # after clearing a bit of the summary
        ("QWAIT_SLEEP_BLINDLY", 2, SLEEPS),
        (f"{THIEF} QWAIT_SLEEP_BY_SUMMARY", 3, SLEEPS),
        ("QWAIT_WEAK", 2, LOST),  # no barriers
        ("AT_ONCE QWAIT_ARM_BY_STORE", 2, LOST),  # a store reads nothing from the producer
        (f"{EVENTS} LOWERS=false QWAIT_EVENTS_RELAXED", 1, LOST),  # not after the item, in memory ...
        (f"{EVENTS} LOWERS=false QWAIT_EVENT_FIRST", 1, LOST),  # ... or in the program
        (f"{EVENTS} LOWERS=false QWAIT_EVENTS_ONLY", 1, LOST),  # an event without a slot is not rung
    ],
)
def test_each_step_of_the_protocol_is_needed(tmp_path: Path, defines: str, preemptions: int, found: str) -> None:
    explore(MODEL, tmp_path, defines, f"preemptions {preemptions}", found=found, optimise="-O0")


# Program, producers, waiters, queues, idle state (1: sleeps), seed (odd: linear ready set), sets.
STALLED = product(("stress", "stress-tsan", "stress-asan"), (3,), (2,), (100,), (0, 1), (2, 3), (1,))
STOLEN = product(("stress", "stress-tsan"), (3,), (3,), (100,), (0, 1), (2,), (2, 3))
BY_EVENTS = product(("stress", "stress-tsan", "stress-asan"), (1,), (1,), (1024,), (0,), (2,), (1,))
AS_MANY_AS_A_PORT_HAS = ("stress", 2, 1, 1024, 1, 2, 1)
CROSS_SECTION = {
    ("stress", 3, 2, 100, 0, 2, 1),
    ("stress-tsan", 3, 2, 100, 0, 2, 1),
    ("stress", 3, 3, 100, 0, 2, 2),
    ("stress", 1, 1, 1024, 0, 2, 1),
    ("stress-tsan", 1, 1, 1024, 0, 2, 1),
    ("stress-asan", 3, 2, 100, 1, 3, 1),
    ("stress-tsan", 3, 3, 100, 1, 2, 3),
    AS_MANY_AS_A_PORT_HAS,
}


@pytest.mark.parametrize(
    "world",
    [
        pytest.param(each, id="-".join(map(str, each)), marks=() if each in CROSS_SECTION else pytest.mark.thorough)
        for each in (*STALLED, *STOLEN, *BY_EVENTS, AS_MANY_AS_A_PORT_HAS)
    ],
)
def test_every_item_comes_once_in_order(build_dir: Path, world: tuple[str, int, int, int, int, int, int]) -> None:
    """Ring, serve, disable, enable, remove and add at once: no item is lost, comes twice, or is served by two.

    The waiters of several sets steal. A single producer writes events for a single waiter; now and then all are unread.
    """
    build, producers, _, _, idle, _, sets = world
    items = ITEMS if build == "stress" else ITEMS // 4
    done = run(build_dir / f"tests-qwait-{build}", items, *world[1:])
    assert done.returncode == 0 and done.stderr == "", done.stderr[-3000:]
    said = rf"{items} items, \d+ returned, \d+ spurious, (\d+) sleeps, (\d+) stolen, (\d+) unposted\n"
    found = re.fullmatch(said, done.stdout)
    assert found is not None, done.stdout
    sleeps, stolen, unposted = map(int, found.groups())
    assert idle == 1 or sleeps == 0
    assert (stolen > 0) == (sets > 1)
    assert (0 < unposted < items) == (producers == 1) and (unposted == 0) == (producers > 1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [2, 3])  # a hierarchical set, a linear one
def test_an_item_ends_a_halt(build_dir: Path, seed: int) -> None:
    """Use UMONITOR and UMWAIT, or a signal handler on processors that lack them."""
    program = build_dir / "tests-qwait-stress-umwait"
    if not program.is_file():
        pytest.skip("UMWAIT is an instruction of x86")
    done = run(program, 2000, 1, 1, 100, 2, seed)
    found = re.fullmatch(r"2000 items, .*\n(\d+) halts, (\d+) of them ended by time\n", done.stdout)
    assert found is not None and done.returncode == 0, done
    halts, by_time = int(found[1]), int(found[2])
    assert halts > 1000 and by_time < halts / 20, done.stdout


def test_the_example_runs_and_is_short(build_dir: Path) -> None:
    done = run(build_dir / "qwait-example")
    assert (done.returncode, done.stdout) == (0, "1000 items from 100 queues\n")
    lines = (APPS / "qwait/example.c").read_text().splitlines()
    assert sum(bool(line.strip()) and not line.startswith("/*") for line in lines) <= 40
