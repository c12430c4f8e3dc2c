# SPDX-License-Identifier: BSD-3-Clause
"""Load the probe into the distribution's testpmd, and drive it through DPDK's telemetry socket as an observer does."""

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from testpmd import Testpmd, port_stats, remove_leftovers, require_testpmd, running_testpmd, totals

from pollscope.host.eal_folders import runtime_folder
from pollscope.host.telemetry_socket import SOCKET_NAME, TelemetrySocket

PLUGIN, OTHER_SERIES = "librte_pollscope_probe.so", "libtests-probe-series.so"
QUEUES = 4
# Without flushing by the main lcore, only the forwarding lcore polls.
OPTIONS = ("--no-flush-rx", "--total-num-mbufs=8192", f"--rxq={QUEUES}", f"--txq={QUEUES}", "--record-burst-stats")
WATCHED = "sample_us=60000000,period_us=60000000"  # one window from the start to the end of the session
OFTEN = "sample_us=200,period_us=1000"
CLASSES = ("empty_empty", "empty_busy", "busy_empty", "busy_busy")
COUNT, CYCLES, SQUARES, INTERRUPTIONS, INTERRUPTED, LONGEST, BEFORE, NOW = range(8)  # of a class
THREAD, MOVES, POLLS, FULL, PACKETS, SIZES = range(6)  # of a queue
LIMIT_S = 20

_numbers = itertools.count()

pytestmark = pytest.mark.measure


class Probe:
    """Open the connection of one observer."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._socket = TelemetrySocket(runtime_folder() / prefix / SOCKET_NAME)

    def ask(self, command: str) -> Any:
        return self._socket.value(command)

    def __call__(self, command: str, *parameters: object) -> dict[str, Any]:
        answer = self.ask(",".join([f"/pollscope/probe/{command}", *map(str, parameters)]))
        assert isinstance(answer, dict) and "error" not in answer, answer
        return answer

    def start(self, *settings: str) -> int:
        return int(self("start", *settings)["session"])

    def queues(self, session: int) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        first: int | None = 0
        while first is not None:
            page = self("queues", session, first, 3)
            first = page.pop("next", None)
            found |= page
        return found

    def close(self) -> None:
        self._socket.close()


def new_prefix() -> str:
    return f"tests-{os.getpid()}-{next(_numbers)}"


@contextmanager
def probed_testpmd(build_dir: Path, plugin: str = PLUGIN) -> Iterator[tuple[Testpmd, Probe]]:
    """Yield a testpmd with the plug-in, and an observer; several may run at once."""
    require_testpmd()
    prefix = new_prefix()
    eal = ("--in-memory", f"--file-prefix={prefix}", "-d", str(build_dir / plugin))
    with running_testpmd(build_dir, "net_crossover0", OPTIONS, eal, telemetry=True) as testpmd:
        probe = Probe(prefix)
        yield testpmd, probe
        probe.close()
    remove_leftovers(prefix)


@pytest.fixture(scope="module")
def program(build_dir: Path) -> Iterator[tuple[Testpmd, Probe]]:
    with probed_testpmd(build_dir) as both:
        yield both


@pytest.fixture
def testpmd(program: tuple[Testpmd, Probe]) -> Testpmd:
    return program[0]


@pytest.fixture
def probe(program: tuple[Testpmd, Probe]) -> Probe:
    return program[1]


def wait_for(probe: Probe, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the state of the probe when `what` holds for it."""
    end = time.monotonic() + LIMIT_S
    while not what(info := probe("info")):
        assert time.monotonic() < end, info
        time.sleep(0.01)
    return info


def reached(windows: int) -> Callable[[dict[str, Any]], bool]:
    return lambda info: bool(info["windows"] >= windows)


def burst_counts(said: str, direction: str) -> list[int]:
    """Return the bursts of each queue that `stop` prints: of port 0 and 1 in turn, by queue."""
    return [int(count) for count in re.findall(rf"{direction}-bursts : (\d+)", said)]


def stream_packets(said: str) -> tuple[int, int]:
    """Return the packets that the forwarding lcore received, and those that it sent."""
    streams = re.findall(r"Forward Stats for RX Port.*\n +RX-packets: (\d+) +TX-packets: (\d+)", said)
    return sum(int(received) for received, _ in streams), sum(int(sent) for _, sent in streams)


def test_without_a_session_there_is_neither_a_thread_nor_a_callback(build_dir: Path) -> None:
    with probed_testpmd(build_dir) as (_, probe):
        info = probe("info")
        assert (info["version"], info["callbacks"], info["windows"], info["sessions"]) == (1, 0, 0, 0)

        def names() -> set[str]:
            return {path.read_text().strip() for path in Path(f"/proc/{info['pid']}/task").glob("*/comm")}

        assert "pollscope-probe" not in names()
        probe.start()
        assert "pollscope-probe" in names()


def test_counts_are_those_of_testpmd(testpmd: Testpmd, probe: Probe) -> None:
    session = probe.start("heartbeat_ms=60000", WATCHED)
    wait_for(probe, lambda info: info["callbacks"] == 4 * QUEUES)
    testpmd.tell("start")
    wait_for(probe, lambda info: info["threads"] == 1)
    testpmd.tell("stop")
    (index,) = probe("threads", session)
    thread, queues = probe("thread", session, index), probe.queues(session)
    said = testpmd.forward(0.2, "start tx_first")
    thread_after, queues_after = probe("thread", session, index), probe.queues(session)
    probe("stop", session)

    def counted(prefix: str, place: int) -> list[int]:
        """Return the increase of a count by queue; testpmd names port 0 and port 1 of each queue in turn."""
        names = [f"{prefix}_{port}_{queue}" for queue in range(QUEUES) for port in (0, 1)]
        return [queues_after[name][place] - queues[name][place] for name in names]

    sent_from = [port + 2 * queue for queue in range(QUEUES) for port in (1, 0)]  # of a stream: the other port
    assert counted("rx", POLLS) == burst_counts(said, "RX")
    assert [counted("tx", POLLS)[place] for place in sent_from] == burst_counts(said, "TX")
    received, sent = stream_packets(said)  # those of the ports include packets that wait in a ring
    assert sum(counted("rx", PACKETS)) == thread_after["packets"] - thread["packets"] == received > 0
    assert sum(counted("tx", PACKETS)) == thread_after["tx_packets"] - thread["tx_packets"] == sent
    assert sum(counted("tx", POLLS)) == thread_after["tx_bursts"] - thread["tx_bursts"]

    gaps = {name: [b - a for a, b in zip(thread[name], thread_after[name], strict=True)] for name in CLASSES}
    polls = sum(gap[COUNT] + gap[INTERRUPTIONS] for gap in gaps.values())
    assert polls == sum(burst_counts(said, "RX"))
    busy = sum(gap[COUNT] + gap[INTERRUPTIONS] for name, gap in gaps.items() if name.endswith("_busy"))
    assert busy == sum(sum(counted("rx", place)) for place in range(SIZES, SIZES + 10))
    assert all(queue[MOVES] == 0 and queue[THREAD] == int(index) + 1 for queue in queues_after.values() if queue[POLLS])
    for name in CLASSES:
        total = thread_after[name]
        assert sum(thread_after[f"{name}_gaps"]) == total[COUNT] + total[INTERRUPTIONS], name
        assert total[SQUARES] * total[COUNT] >= total[CYCLES] ** 2, name
        assert total[LONGEST] <= total[CYCLES] + total[INTERRUPTED], name


def test_watched_time_has_no_holes(testpmd: Testpmd, probe: Probe) -> None:
    """In one long window gaps follow each other without a break, so they add up to the time that passed."""
    tsc_hz = probe("info")["tsc_hz"]
    testpmd.tell("start")
    session = probe.start("heartbeat_ms=60000", WATCHED)
    wait_for(probe, lambda info: info["callbacks"] > 0)

    def sampled_s() -> float:
        thread = probe("thread", session, 0)
        return float(sum(thread[name][CYCLES] + thread[name][INTERRUPTED] for name in CLASSES) / tsc_hz)

    (outer, before, inner) = (time.monotonic(), sampled_s(), time.monotonic())
    time.sleep(0.5)
    shortest_s, after = time.monotonic() - inner, sampled_s()
    longest_s = time.monotonic() - outer
    interruption_s = probe("thread", session, 0)["empty_empty"][LONGEST] / tsc_hz
    probe("stop", session)
    testpmd.tell("stop")
    # The gap that was open at a reading is not counted yet.
    assert shortest_s - interruption_s - 0.05 <= after - before <= longest_s + interruption_s + 0.05


@pytest.mark.parametrize("cycles", [50, pytest.param(1000, marks=pytest.mark.thorough)])
def test_sessions_come_and_go_without_loss_or_leak(testpmd: Testpmd, probe: Probe, cycles: int) -> None:
    def allocations() -> int:
        return int(probe.ask("/eal/heap_info,0")["Alloc_count"])

    probe("stop", probe.start(OFTEN))  # the first one also registers for events of ports
    before = allocations()
    missed = [port_stats(testpmd, port)["RX-missed"] for port in (0, 1)]
    testpmd.tell("start tx_first")
    for _ in range(cycles):
        session = probe.start(OFTEN)
        wait_for(probe, reached(probe("info")["windows"] + 1))
        probe("stop", session)
    wait_for(probe, lambda info: info["callbacks"] == 0)
    end = time.monotonic() + LIMIT_S
    while allocations() > before:
        assert time.monotonic() < end, f"{allocations() - before} callbacks are not freed"
        time.sleep(0.05)
    said = testpmd.tell("stop")
    assert totals(said)["RX-dropped"] == totals(said)["TX-dropped"] == 0
    assert [port_stats(testpmd, port)["RX-missed"] for port in (0, 1)] == missed


def test_no_window_waits_for_callbacks_to_be_freed(testpmd: Testpmd, probe: Probe) -> None:
    """They wait for up to two grace periods of a second; the default settings have 20 windows per second."""
    testpmd.tell("start")
    before = probe("info")
    session = probe.start("heartbeat_ms=60000")
    after = wait_for(probe, reached(before["windows"] + 70))
    probe("stop", session)
    testpmd.tell("stop")
    assert after["skipped_windows"] == before["skipped_windows"]


def test_without_a_heartbeat_everything_comes_off(testpmd: Testpmd, probe: Probe) -> None:
    observer = "import sys, time; from test_probe_plugin import *; p = Probe(sys.argv[1])\n"
    observer += "n = p.start('heartbeat_ms=500', WATCHED)\n"
    observer += "while True: p('beat', n); print(n, flush=True); time.sleep(0.1)"
    testpmd.tell("start")
    command = [sys.executable, "-c", observer, probe.prefix]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parent, text=True) as process:
        assert process.stdout is not None
        session = int(process.stdout.readline())
        for _ in range(10):  # longer than the heartbeat timeout: beats keep it
            process.stdout.readline()
        assert probe("info")["callbacks"] == 4 * QUEUES
        process.kill()
    info = wait_for(probe, lambda info: info["callbacks"] == 0)
    assert info["sessions"] == 0
    assert f"there is no session {session} (start one)" in probe.ask(f"/pollscope/probe/beat,{session}")["error"]
    testpmd.tell("stop")


def test_two_observers_share_windows(testpmd: Testpmd, probe: Probe) -> None:
    other = Probe(probe.prefix)
    testpmd.tell("start")
    first, second = probe.start("sample_us=200,period_us=50000"), other.start("sample_us=100,period_us=2000")
    info = probe("info")
    assert (info["sessions"], info["sample_us"], info["period_us"]) == (2, 200, 2000)
    before = probe("thread", first, 0)["windows"]
    wait_for(probe, lambda now: now["windows"] > info["windows"] + 20)
    assert probe("thread", first, 0)["windows"] > before
    probe("stop", first)
    assert probe("info")["sessions"] == 1
    assert other("thread", second, 0)["windows"] > before
    windows = other("info")["windows"]
    wait_for(other, lambda now: now["windows"] > windows)
    other("stop", second)
    other.close()
    assert wait_for(probe, lambda now: now["callbacks"] == 0)["sessions"] == 0
    testpmd.tell("stop")


def test_sessions_are_limited(probe: Probe) -> None:
    sessions = [probe.start() for _ in range(probe("info")["max_sessions"])]
    assert "8 sessions are running" in probe.ask("/pollscope/probe/start")["error"]
    for session in sessions:
        probe("stop", session)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ("start,speed=1", "start: speed=1 is no setting"),
        ("start,sample_us=99", "start: sample_us=99 is no setting"),
        ("start,heartbeat_ms=60001", "start: heartbeat_ms=60001 is no setting"),
        ("start,period_us=1000x", "start: period_us=1000x is no setting"),
        ("start,sample_us=2000,period_us=1000", "start: sample_us 2000 is longer than period_us 1000"),
        ("beat", "/pollscope/probe/beat: wrong parameters (give the numbers SESSION)"),
        ("beat,0", "/pollscope/probe/beat: there is no session 0"),
        ("stop,1x", "/pollscope/probe/stop: wrong parameters (give the numbers SESSION)"),
        ("thread,-1,0", "/pollscope/probe/thread: wrong parameters (give the numbers SESSION,INDEX)"),
        ("thread,{session},128", "/pollscope/probe/thread: there is no thread 128"),
        ("queues,{session},0,33", "/pollscope/probe/queues: 33 queues do not fit in an answer"),
    ],
)
def test_wrong_requests_are_refused(probe: Probe, request_: str, error: str) -> None:
    session = probe.start()
    answer = probe.ask("/pollscope/probe/" + request_.format(session=session))
    probe("stop", session)
    assert answer["error"].startswith(error)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("settings", [OFTEN, WATCHED])
def test_ports_stop_and_change_their_queues_while_attached(build_dir: Path, settings: str) -> None:
    with probed_testpmd(build_dir) as (testpmd, probe):
        session = probe.start("heartbeat_ms=60000", settings)
        testpmd.forward(0.1, "start tx_first")
        for queues in (1, QUEUES):
            for command in ("port stop all", f"port config all rxq {queues}", f"port config all txq {queues}"):
                testpmd.tell(command)
            testpmd.tell("port start all")
            said = testpmd.forward(0.1, "start tx_first")
            assert totals(said)["RX-packets"] > 0
        packets = probe("thread", session, 0)["packets"]
        if settings == WATCHED:  # its window has seen no new queue; the next one does
            probe("stop", session)
            session = probe.start("heartbeat_ms=60000", settings)
        testpmd.tell("start tx_first")
        wait_for(probe, lambda _: probe("thread", session, 0)["packets"] > packets)
        testpmd.tell("stop")
        assert {f"rx_{port}_{queue}" for port in (0, 1) for queue in range(QUEUES)} <= set(probe.queues(session))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("settings", [OFTEN, WATCHED])
def test_ports_go_and_come_while_attached(build_dir: Path, settings: str) -> None:
    with probed_testpmd(build_dir) as (testpmd, probe):
        session = probe.start("heartbeat_ms=60000", settings)
        testpmd.forward(0.1, "start tx_first")
        testpmd.tell("port stop all")
        said = testpmd.tell("device detach net_crossover0")
        assert "detached" in said or "Done" in said, said
        wait_for(probe, lambda info: info["callbacks"] == 0)
        assert "Done" in testpmd.tell("port attach net_crossover5")
        testpmd.tell("port start all")
        probe("stop", session)
        session = probe.start("heartbeat_ms=60000", settings)
        packets = probe("thread", session, 0)["packets"]
        wait_for(probe, lambda info: info["callbacks"] > 0)
        testpmd.tell("start tx_first")
        wait_for(probe, lambda _: probe("thread", session, 0)["packets"] > packets)
        testpmd.tell("stop")


def test_threads_that_eal_does_not_know_are_told_apart(build_dir: Path) -> None:
    """Two of them share a queue: its counts are lower bounds then, and `moves` says so."""
    require_testpmd()
    prefix = new_prefix()
    command = [str(build_dir / "tests-pollers"), "--lcores=0", "--no-pci", "--in-memory", f"--file-prefix={prefix}"]
    command += ["--vdev=net_crossover0,feed=infinite", "-d", str(build_dir / PLUGIN)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        while process.stdout.readline() != "ready\n":
            assert process.poll() is None
        probe = Probe(prefix)
        session = probe.start("heartbeat_ms=60000", WATCHED)
        wait_for(probe, lambda info: info["threads"] == 3 and probe.queues(session)["rx_0_0"][MOVES] > 0)
        wait_for(probe, lambda _: all(probe("thread", session, index)["packets"] > 0 for index in range(3)))
        threads = probe("threads", session)
        queues = probe.queues(session)
        sums = {threads[index]["name"]: probe("thread", session, index) for index in threads}
        process.stdin.close()  # it ends while it is watched
        assert process.wait(LIMIT_S) == 0
        probe.close()
    remove_leftovers(prefix)
    assert set(sums) == {"poller-0", "poller-1", "poller-2"}
    assert {thread["lcore"] for thread in threads.values()} == {-1}
    assert len({thread["tid"] for thread in threads.values()}) == 3
    received = sum(queues[f"rx_0_{queue}"][PACKETS] for queue in range(2))
    assert sum(thread["packets"] for thread in sums.values()) >= received > 0
    assert queues["rx_0_1"][MOVES] == 0
    assert threads[str(queues["rx_0_1"][THREAD] - 1)]["name"] == "poller-2"


def test_a_program_of_another_series_is_refused_by_name(build_dir: Path) -> None:
    with probed_testpmd(build_dir, OTHER_SERIES) as (testpmd, probe):
        assert "pollscope probe: built for DPDK 19.11, loaded into DPDK " in testpmd.greeting
        assert probe.ask("/pollscope/probe/info") is None


def test_a_program_without_dpdk_is_refused_by_name(build_dir: Path) -> None:
    load = f"import ctypes; ctypes.CDLL({str(build_dir / PLUGIN)!r})"
    said = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=True).stderr
    assert "loaded into a program without DPDK's shared libraries; it stays off" in said
