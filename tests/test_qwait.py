# SPDX-License-Identifier: BSD-3-Clause
"""Check QWAIT in software (apps/qwait) by itself: a model checker, preempted threads, the example.

Its policies are tested in apps/tests/unit_qwait.c.

POLLSCOPE_QWAIT_ITEMS=100000000 in the environment is the long form of the stress test, with more schedules.
"""

import os
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

APPS = Path(__file__).parent.parent / "apps"
SHORT_ITEMS = 200_000
ITEMS = int(os.environ.get("POLLSCOPE_QWAIT_ITEMS", SHORT_ITEMS))
LONG = ITEMS > SHORT_ITEMS
LIMIT_S = 100_000 if LONG else 300
RELACY = Path("/usr/include/relacy/relacy.hpp")


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=LIMIT_S, check=False)


def relacy(folder: Path, *defines: str, optimise: str = "-O1") -> Path:
    """Compile the model check of a variant: optimised for long searches; for short ones compiling takes longest."""
    compiler = shutil.which("c++")
    if compiler is None or not RELACY.is_file():
        pytest.skip(f"needs a C++ compiler and {RELACY} (Debian: g++ and relacy-dev)")
    program, source = folder / "qwait-relacy", APPS / "tests/qwait_relacy.cc"
    done = run(compiler, "-std=gnu++11", optimise, "-w", *defines, "-o", program, source)
    assert done.returncode == 0, done.stderr[-3000:]
    return program


def test_no_schedule_loses_an_arrival(tmp_path: Path) -> None:
    """Explore two producers and a consumer: all schedules with two preemptions, and many random ones."""
    program = relacy(tmp_path)
    for search in (["preemptions", "4" if LONG else "2"], ["random", "1000000" if LONG else "50000"]):
        done = run(program, *search)
        assert done.returncode == 0 and "iterations: " in done.stdout, done.stdout[-3000:]


@pytest.mark.thorough
def test_no_schedule_gives_a_queue_to_two_consumers(tmp_path: Path) -> None:
    """Show that no two consumers race for data that is no atomic."""
    program = relacy(tmp_path, "-DCONSUMERS=2", *(() if LONG else ("-DARRIVALS=2", "-DTURNS=4")))
    done = run(program, "preemptions", "2")
    assert done.returncode == 0 and "iterations: " in done.stdout, done.stdout[-3000:]


@pytest.mark.thorough
def test_no_schedule_of_thieves_loses_an_arrival_or_gives_a_queue_to_two(tmp_path: Path) -> None:
    """Explore two consumers with one set each that steal from each other."""
    sizes = () if LONG else ("-DARRIVALS=2", "-DTURNS=4")
    done = run(relacy(tmp_path, "-DCONSUMERS=2", "-DSETS=2", *sizes), "preemptions", "2")
    assert done.returncode == 0 and "iterations: " in done.stdout, done.stdout[-3000:]


@pytest.mark.thorough
def test_a_waiter_checks_the_leaves_before_it_sleeps(tmp_path: Path) -> None:
    """Let a thief clear the summary for a moment beside two ready queues: the set's own waiter must not sleep."""
    world = ("-DPRODUCERS=1", "-DCONSUMERS=2", "-DSETS=2", "-DONE_SET", "-DARRIVALS=2", "-DTURNS=1")
    done = run(relacy(tmp_path, *world, optimise="-O0"), "preemptions", "3")
    assert done.returncode == 0 and "iterations: " in done.stdout, done.stdout[-3000:]
    done = run(relacy(tmp_path, *world, "-DQWAIT_SLEEP_BY_SUMMARY", optimise="-O0"), "preemptions", "3")
    assert done.returncode == 1 and "sleep beside a queue with items" in done.stdout, done.stdout[-3000:]


@pytest.mark.thorough
@pytest.mark.parametrize("variant", ["ONE_WAITER", "AT_ONCE", "LOOKS", "ONE_WAITER LOOKS LOWERS=false"])
def test_no_schedule_of_a_short_cut_loses_an_arrival(tmp_path: Path, variant: str) -> None:
    """Take all ready queues of a leaf at once, never clear the summary, or ring with acquire and release only."""
    sizes = () if LONG or "ONE_WAITER" in variant else ("-DARRIVALS=2", "-DTURNS=4")
    done = run(relacy(tmp_path, *(f"-D{each}" for each in variant.split()), *sizes), "preemptions", "2")
    assert done.returncode == 0 and "iterations: " in done.stdout, done.stdout[-3000:]


EVENTS = ("-DPRODUCERS=1", "-DONE_WAITER", "-DLOOKS", "-DEVENTS=2", "-DARRIVALS=3", "-DTURNS=5")


@pytest.mark.thorough
def test_no_schedule_of_events_loses_an_arrival(tmp_path: Path) -> None:
    """Use two slots for three arrivals, without any barrier."""
    done = run(relacy(tmp_path, *EVENTS, "-DLOWERS=false", "-DQWAIT_WEAK", optimise="-O0"), "preemptions", "1")
    assert done.returncode == 0 and "iterations: " in done.stdout, done.stdout[-3000:]


@pytest.mark.thorough
@pytest.mark.parametrize("variant", [("-DLOWERS=true",), ("-DLOWERS=false", "-DQWAIT_WEAK")])
def test_no_longer_schedule_of_events_loses_an_arrival(tmp_path: Path, variant: tuple[str, ...]) -> None:
    done = run(relacy(tmp_path, *EVENTS, *variant), "preemptions", "2")
    assert done.returncode == 0 and "iterations: " in done.stdout, done.stdout[-3000:]


@pytest.mark.thorough
@pytest.mark.parametrize("define", ["QWAIT_EVENTS_RELAXED", "QWAIT_EVENT_FIRST", "QWAIT_EVENTS_ONLY"])
def test_each_step_of_an_event_is_needed(tmp_path: Path, define: str) -> None:
    """Check the event's order after the item, in program and memory, and the ring for an event without a slot."""
    done = run(relacy(tmp_path, *EVENTS, "-DLOWERS=false", f"-D{define}", optimise="-O0"), "preemptions", "1")
    assert done.returncode == 1 and "its arrival is lost" in done.stdout, done.stdout[-3000:]


@pytest.mark.thorough
def test_ringing_at_once_needs_arming_by_exchange(tmp_path: Path) -> None:
    """Show that a store, which reads nothing from the producer, may miss the producer's earlier writes."""
    program = relacy(tmp_path, "-DAT_ONCE", "-DQWAIT_ARM_BY_STORE", optimise="-O0")
    done = run(program, "preemptions", "2")
    assert done.returncode == 1 and re.search("its arrival is lost", done.stdout), done.stdout[-3000:]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("define", "found"),
    [
        ("QWAIT_NO_VERIFY", "its arrival is lost"),
        pytest.param("QWAIT_NO_RECONSIDER", "its arrival is lost", marks=pytest.mark.thorough),
        pytest.param("QWAIT_NO_LOOK", "its arrival is lost", marks=pytest.mark.thorough),
        pytest.param("QWAIT_NO_SECOND_LOOK", "its arrival is lost", marks=pytest.mark.thorough),
        pytest.param("QWAIT_SLEEP_BLINDLY", "sleep beside a queue with items", marks=pytest.mark.thorough),
        pytest.param("QWAIT_WEAK", "its arrival is lost", marks=pytest.mark.thorough),
    ],
)
def test_each_step_of_the_protocol_is_needed(tmp_path: Path, define: str, found: str) -> None:
    """Leave out verify, reconsider, each look (after arming, after clearing, before sleep), or the barriers."""
    done = run(relacy(tmp_path, f"-D{define}", optimise="-O0"), "preemptions", "2")
    assert done.returncode == 1 and re.search(found, done.stdout), done.stdout[-3000:]


# One combination per sanitizer by default; all of them when all tests run.
CROSS_SECTION = {("stress-tsan", 0, 2), ("stress-asan", 1, 3)}
STALLED = [
    pytest.param(*each, marks=() if each[0] == "stress" or each in CROSS_SECTION else pytest.mark.thorough)
    for each in product(("stress", "stress-tsan", "stress-asan"), (0, 1), (2, 3))
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("build", "idle", "seed"), STALLED)  # seed 2 has a hierarchical set, 3 a linear one
def test_every_item_comes_once_in_order_under_stalls(build_dir: Path, build: str, idle: int, seed: int) -> None:
    """Ring, serve, disable, enable, remove and add at once: no item is lost, comes twice, or is served by two."""
    items = ITEMS if build == "stress" else ITEMS // 4
    done = run(build_dir / f"tests-qwait-{build}", items, 3, 2, 100, idle, seed)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.fullmatch(rf"{items} items, \d+ returned, \d+ spurious, \d+ sleeps, 0 stolen, 0 unposted\n", done.stdout)
    assert done.stderr == ""


@pytest.mark.parametrize("build", ["stress", "stress-tsan", pytest.param("stress-asan", marks=pytest.mark.thorough)])
def test_every_item_comes_once_in_order_by_events(build_dir: Path, build: str) -> None:
    """Run one producer and one waiter that pauses; now and then all events are unread."""
    items = ITEMS if build == "stress" else ITEMS // 4
    done = run(build_dir / f"tests-qwait-{build}", items, 1, 1, 1024, 0, 2)
    assert done.returncode == 0, done.stderr[-3000:]
    found = re.fullmatch(
        rf"{items} items, \d+ returned, \d+ spurious, 0 sleeps, 0 stolen, (\d+) unposted\n", done.stdout
    )
    assert found is not None and 0 < int(found[1]) < items, done.stdout
    assert done.stderr == ""


STOLEN = [
    pytest.param(*each, marks=() if each in {("stress", 0, 2), ("stress-tsan", 1, 3)} else pytest.mark.thorough)
    for each in product(("stress", "stress-tsan"), (0, 1), (2, 3))
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("build", "idle", "sets"), STOLEN)
def test_every_item_comes_once_in_order_from_stolen_queues(build_dir: Path, build: str, idle: int, sets: int) -> None:
    """Run three waiters on two sets, two of which share one, or on one set each."""
    items = ITEMS if build == "stress" else ITEMS // 4
    done = run(build_dir / f"tests-qwait-{build}", items, 3, 3, 100, idle, 2, sets)
    assert done.returncode == 0, done.stderr[-3000:]
    found = re.fullmatch(
        rf"{items} items, \d+ returned, \d+ spurious, \d+ sleeps, (\d+) stolen, 0 unposted\n", done.stdout
    )
    assert found is not None and int(found[1]) > 0, done.stdout
    assert done.stderr == ""


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


def test_arrivals_on_all_queues(build_dir: Path) -> None:
    """Use as many queues as a port can have, and one waiter."""
    done = run(build_dir / "tests-qwait-stress", ITEMS, 2, 1, 1024, 1, 2)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(
    "arguments",
    [
        ["0"],
        ["10", "0"],
        ["10", "2", "2", "1"],
        ["10", "1", "1", "1", "2"],
        ["-1"],
        ["10", "1", "2", "9", "0", "2", "3"],
    ],
)
def test_the_stress_test_refuses_invalid_arguments(build_dir: Path, arguments: list[str]) -> None:
    done = run(build_dir / "tests-qwait-stress", *arguments)
    assert done.returncode == 2 and done.stderr.startswith("usage: "), done


def test_the_example_runs_and_is_short(build_dir: Path) -> None:
    done = run(build_dir / "qwait-example")
    assert (done.returncode, done.stdout) == (0, "1000 items from 100 queues\n")
    lines = (APPS / "qwait/example.c").read_text().splitlines()
    assert sum(bool(line.strip()) and not line.startswith("/*") for line in lines) <= 40
