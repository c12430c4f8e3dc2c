#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare busy shares as other programs count them with ours, at 0, 10, 25, 50, 75 and 100 % load.

A generator (pollscope-node on CPU 0) sends 64-byte frames over net_memif into the port of another process. On CPU 1 our
node or stock `dpdk-testpmd` forwards them (both: io, bursts of 32), or Open vSwitch drops them. 100 % is the rate that
the slower of two reaches. Nothing receives the forwarded frames.

Definitions. *testpmd* (`--record-core-cycles`): a call of the forwarding function counts if it received packets, from
before the poll to after the send: a latency. Ours is what the loop spends on packets, `useful`. *Open vSwitch*
(`pmd-stats-show`): a whole iteration is busy if it received packets. *By counts*, our definition for a program that
only counts: the window without its empty polls (idle iterations), each at the cost of one without traffic, measured in
turns with the load. It also contains what a loop costs between two busy calls.

Prints at 50 % load, with the 95 % interval of the median over N rounds (--details: at every load):

  ratio testpmd_busy_share_LOAD     testpmd's own share over ours, at the same packets per second
  ratio testpmd_stamped_share_LOAD  testpmd's own share over ours by its definition (`tax_share_testpmd`)
  ratio testpmd_by_counts_LOAD      testpmd's own share over that by its counts of polls
  ratio ours_by_counts_LOAD         our useful share over that by our counts of polls
  ratio ovs_busy_share_LOAD         Open vSwitch's own share over that by its counts of iterations
  ratio PROGRAM_attach_off_LOAD     useful share by `pollscope attach` minus that by the counts of testpmd, or of Open
                                    vSwitch (ovs), over the same time, in points. Goal: at most 2

Goal: all shares are 0 at 0 % load. A look in which the polling thread or the generator waited for its CPU is repeated.
If that does not help, the round has no value for this load, so N shows how often the host allowed it. A program that is
not installed is `absent`, with the reason. Ends with 1 when a goal is missed, or when nothing could be observed.
"""

import os
import re
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from attaching import attached, probe
from eal import require_hugepages, start_node
from ovs import Ovs, ovs_is_missing
from ratio import Goal, options, print_ratio, run_main
from testpmd import Testpmd

from pollscope.attach.watch import watch
from pollscope.base.errors import HostError
from pollscope.metrics.accounting import NoClasses, classes
from pollscope.metrics.record import Part, timed_parts
from pollscope.node.observation import CounterReading, shares

LOADS, SHOWN = (0.1, 0.25, 0.5, 0.75, 1.0), "_50"
ROUNDS, TIME_LIMIT_S = 9, 150.0  # for each program
WARMUP_S, OBSERVE_S, ATTACHED_S = 0.03, 0.3, 2.0
ATTACH_OFF = Goal(-2, 2)
# Shares of the time observed. The generator's CPU does other work as well; a gap there only makes traffic uneven.
MOST_WAITED, MOST_WAITED_BY_GENERATOR, TRIES = 0.01, 0.05, 5
WORKER_1 = r"(rte-worker-|lcore-worker-|dpdk-worker)1"
LIMIT_S = 30.0
BURST = 32
ARGUMENTS = ["--in-memory", "--log-level", "lib.*:error"]
OURS, TESTPMD, OVS = 0, 1, 2  # numbers of the connections
NAMES = {TESTPMD: "testpmd", OVS: "ovs"}
# Open vSwitch has one TX queue per thread, and the other end needs as many RX queues.
RX_QUEUES = 4
Rate = Mapping[str, Any]


@dataclass(frozen=True)
class Seen:
    """Counters of a program over an interval of its own; with one queue, polls are iterations.

    `stamped_share`: the share of polls that returned packets, from stamp to stamp, if the program reports it.
    """

    pps: float
    busy_share: float
    polls: int
    empty_polls: int
    cycles: float
    stamped_share: float | None = None

    def share_by_counts(self, empty_poll_cycles: float) -> float:
        """Return the share that is left when every empty poll is subtracted at this cost."""
        return 1 - self.empty_polls * empty_poll_cycles / self.cycles


def short_wait() -> None:
    """Let a program count for OBSERVE_S."""
    time.sleep(OBSERVE_S)


class Disturbed(Exception):
    """The host did not allow a look."""


class Program(Protocol):
    """A program that takes the packets, and counts."""

    def pid(self) -> int:
        """Return the process."""

    def observe(self, wait: Callable[[], None] = short_wait) -> Seen:
        """Count until `wait` returns."""

    def waited_ns(self) -> int:
        """Return how long its polling thread has waited for its CPU so far."""


def waited_ns(pid: int, name: str) -> int:
    """Return the CPU wait of the threads with this name (schedstat of the kernel, second field)."""
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    named = [task for task in tasks if re.fullmatch(name, (task / "comm").read_text().strip())]
    return sum(int((task / "schedstat").read_text().split()[1]) for task in named)


def memif(number: int, role: str, folder: Path) -> str:
    """Return one end of a connection, for EAL's --vdev."""
    return f"net_memif{number},role={role},id={number},socket={folder}/memif{number}.sock,socket-abstract=no"


class Generator:
    """A generator that sends into one of the connections."""

    def __init__(self, folder: Path) -> None:
        servers = [memif(number, "server", folder) for number in (OURS, TESTPMD, OVS)]
        self._client, self._number = start_node("0@0,1@0", servers, ARGUMENTS, folder / "gen.log"), -1
        self.tsc_hz = float(self._client.hello["tsc_hz"])
        self.aim(OURS)

    def aim(self, number: int) -> None:
        """Choose the connection to send into; all of them stay up."""
        if number == self._number:
            return
        ports = [{"name": f"net_memif{each}", "rx_queues": RX_QUEUES} for each in (OURS, TESTPMD, OVS)]
        gen = {"lcores": [1], "tx_port": f"net_memif{number}", "rx_port": None, "target_port": None, "flows": 16}
        self._client.request("configure", LIMIT_S, ports=ports, gen=gen)
        self._number = number

    def wait_link(self, number: int) -> None:
        """Wait until the other end is there; raise HostError if it does not appear."""
        deadline = time.monotonic() + LIMIT_S
        while not self._client.request("links", LIMIT_S)["links"][f"net_memif{number}"]:
            if time.monotonic() > deadline:
                raise HostError("net_memif does not connect", f"net_memif{number}")
            time.sleep(0.05)

    @contextmanager
    def sending(self, number: int, rate: Rate) -> Iterator[None]:
        """Send while the block lasts."""
        self.aim(number)
        times = {"warmup_ns": 0, "window_ns": int(LIMIT_S * 1e9), "drain_max_ns": 0}
        self._client.request("start", LIMIT_S, trial="observed", rate=dict(rate), **times)
        time.sleep(WARMUP_S)
        try:
            yield
        finally:
            self._client.request("stop", LIMIT_S)
            self._client.wait_trial("observed", LIMIT_S)

    def waited_ns(self) -> int:
        """Return the CPU wait of its lcore."""
        return waited_ns(self._client.pid, WORKER_1)

    def close(self) -> None:
        self._client.close()


class OurNode:
    """Our DUT with its own accounting."""

    def __init__(self, folder: Path) -> None:
        self.client = start_node("0@0,1@1", [memif(OURS, "client", folder)], ARGUMENTS, folder / "dut.log")
        port = f"net_memif{OURS}"
        dut = {"lcores": [1], "rx_port": port, "tx_port": port, "workload": "io", "burst": BURST}
        self.client.request("configure", LIMIT_S, ports=[{"name": port}], dut=dut)

    def observe(self, wait: Callable[[], None] = short_wait) -> Seen:
        times = {"warmup_ns": 10_000_000, "window_ns": int(OBSERVE_S * 1e9), "drain_max_ns": 0}
        self.client.request("start", LIMIT_S, trial="observed", **times)
        wait()
        self.client.wait_trial("observed", LIMIT_S)
        return parse_result(self.client.request("read", LIMIT_S))

    def pid(self) -> int:
        return self.client.pid

    def waited_ns(self) -> int:
        return waited_ns(self.client.pid, WORKER_1)

    def close(self) -> None:
        self.client.close()


def parse_result(result: Mapping[str, Any]) -> Seen:
    """Read a result of pollscope-node with one lcore and one queue (docs/internals/node-protocol.md).

    Raises:
        Disturbed: the window has no polling tax.
    """
    (lcore,) = result["dut"]["lcores"]
    found = classes(lcore)
    if isinstance(found, NoClasses):
        raise Disturbed(found.reason)
    pps = lcore["rx_packets"] / found.total * result["window"]["tsc_hz"]
    stamped = sum(timed_parts(Part(lcore, "lcore")).values())
    return Seen(
        pps,
        found.packets.value / found.total,
        lcore["iterations"],
        lcore["polls"]["empty"],
        found.total,
        stamped / found.total,
    )


class StockTestpmd:
    """dpdk-testpmd at its prompt: it is asked for its counters while it forwards."""

    def __init__(self, tsc_hz: float, folder: Path) -> None:
        self._tsc_hz = tsc_hz
        options = ["--total-num-mbufs=8192", f"--burst={BURST}", "--port-topology=loop"]
        options += ["--record-core-cycles", "--record-burst-stats"]
        eal = ["--in-memory", *probe(), "--vdev", memif(TESTPMD, "client", folder)]
        self.prompt = Testpmd(eal, options, folder / "testpmd.log", telemetry=True)

    def observe(self, wait: Callable[[], None] = short_wait) -> Seen:
        self.prompt.ask("start")
        time.sleep(0.01)
        self.prompt.ask("clear fwd stats all")
        begin_s = time.monotonic()
        wait()
        said = self.prompt.ask("show fwd stats all")
        seconds = time.monotonic() - begin_s
        self.prompt.ask("stop")
        return parse_forwarding(said, seconds, self._tsc_hz)

    def pid(self) -> int:
        return self.prompt.pid

    def waited_ns(self) -> int:
        return waited_ns(self.prompt.pid, WORKER_1)

    def close(self) -> None:
        self.prompt.close()


def parse_forwarding(said: str, seconds: float, tsc_hz: float) -> Seen:
    """Read `show fwd stats all`; without packets testpmd omits what would be 0.

    Raises:
        HostError: testpmd was started without --record-burst-stats, or has another format.
    """
    polls, packets = _number(r"RX-bursts *: *(\d+)", said), _number(r"RX-packets: *(\d+)", said)
    # Each call that received sends once, so the bursts sent are the busy polls.
    busy = _number(r"TX-bursts *: *(\d+)", said, 0)
    cycles = _number(r"\((?:total|busy) cycles=(\d+)", said, 0)
    window = seconds * tsc_hz
    return Seen(packets / seconds, cycles / window, polls, polls - busy, window)


def _number(pattern: str, said: str, otherwise: int | None = None) -> int:
    found = re.search(pattern, said)
    if found is None and otherwise is None:
        raise HostError(f"testpmd does not tell {pattern.partition(' ')[0]}: {said[-200:]!r}", "show fwd stats all")
    return int(found[1]) if found else otherwise or 0


class Switch:
    """Open vSwitch, which polls its port as long as the port exists."""

    def __init__(self, tsc_hz: float, folder: Path) -> None:
        self._tsc_hz = tsc_hz
        (folder / "ovs").mkdir()
        self._ovs = Ovs(folder / "ovs", "p0", memif(OVS, "client", folder), "256", probe())

    def observe(self, wait: Callable[[], None] = short_wait) -> Seen:
        self._ovs.clear()
        wait()
        counts = self._ovs.counts()
        share = counts.busy_cycles / (counts.busy_cycles + counts.idle_cycles)
        pps = counts.rx_packets / counts.cycles * self._tsc_hz
        return Seen(pps, share, counts.iterations, counts.idle_iterations, counts.cycles)

    def pid(self) -> int:
        return self._ovs.pid

    def waited_ns(self) -> int:
        return waited_ns(self._ovs.pid, r"pmd-c01.*")

    def close(self) -> None:
        self._ovs.close()


@dataclass
class Ratios:
    """Ratios by printed name, and the shares that were not 0 without traffic."""

    found: dict[str, list[float]]
    wrong: list[str]

    def note(self, name: str, load: float, ratio: float) -> None:
        self.found[f"{name}_{round(100 * load)}"].append(ratio)


class Bench:
    """The generator and the programs, one at a time."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self.ratios = Ratios(defaultdict(list), [])
        self.disturbed = 0

    def maximum_pps(self, number: int, program: Program) -> float:
        """Return the highest rate that comes through; the first look warms up."""
        self._generator.wait_link(number)
        with self._generator.sending(number, {"saturate": True}):
            return median([program.observe().pps for _ in range(4)][1:])

    def look(self, number: int, program: Program, pps: float, wait: Callable[[], None] = short_wait) -> Seen:
        """Return what a program sees at a rate; raise Disturbed if it or the generator never had a CPU of its own."""
        with self._generator.sending(number, {"pps": pps}):
            for _ in range(TRIES):
                begin_s, before = time.monotonic(), (program.waited_ns(), self._generator.waited_ns())
                seen = program.observe(wait)
                waited_ns = program.waited_ns() - before[0], self._generator.waited_ns() - before[1]
                waited = [each / (time.monotonic() - begin_s) / 1e9 for each in waited_ns]
                if waited[0] <= MOST_WAITED and waited[1] <= MOST_WAITED_BY_GENERATOR:
                    return seen
        raise Disturbed(f"{waited[0]:.2%} of the look waited for CPU 1, {waited[1]:.2%} for CPU 0")

    def attach(self, number: int, program: Program, name: str, pps: float) -> float:
        """Return the useful share by `pollscope attach` minus that by counts, in points."""
        silent = self.look(number, program, 0)
        with attached(program.pid()) as observer:
            readings: list[CounterReading] = []

            def wait() -> None:
                readings[:] = watch(observer, ATTACHED_S, lambda *_: None)

            by_counts = self.look(number, program, pps, wait).share_by_counts(silent.cycles / silent.polls)
            (thread,) = shares(readings, observer.info)
        if isinstance(thread.classes, str):
            raise Disturbed(thread.classes)
        useful = thread.classes.useful
        print(
            f"{name}: useful {100 * useful.value:.2f} +-{100 * useful.error:.2f} % by attach, "
            f"{100 * by_counts:.2f} % by counts",
            file=sys.stderr,
        )
        return 100 * (useful.value - by_counts)

    def at(self, number: int, program: Program, name: str, pps: float) -> tuple[Seen, float]:
        """Return what a program sees, and its share by counts, at the cost of an empty poll measured just before."""
        silent = self.look(number, program, 0)
        if silent.busy_share != 0 or silent.pps != 0:
            self.ratios.wrong.append(f"{name}: {silent.busy_share:.4%} busy without traffic")
        seen, empty_poll_cycles = self.look(number, program, pps), silent.cycles / silent.polls
        by_counts, calls = seen.share_by_counts(empty_poll_cycles), max(1, seen.polls - seen.empty_polls)
        print(
            f"{name} {seen.pps / 1e6:.2f} Mpps: busy {seen.busy_share:.4f}, by counts {by_counts:.4f}, "
            f"{seen.empty_polls / seen.polls:.2%} of polls empty at {empty_poll_cycles:.1f} cycles, "
            f"{seen.busy_share * seen.cycles / calls:.0f} cycles per busy call",
            file=sys.stderr,
        )
        return seen, by_counts

    def compare_testpmd(self, ours: OurNode, theirs: StockTestpmd) -> None:
        """Compare both programs in turns at the same rates."""
        full = min(self.maximum_pps(OURS, ours), self.maximum_pps(TESTPMD, theirs))
        print(f"100 % is {full / 1e6:.2f} Mpps", file=sys.stderr)

        def compare(load: float) -> None:
            own, own_by_counts = self.at(OURS, ours, "ours", load * full)
            other, other_by_counts = self.at(TESTPMD, theirs, "testpmd", load * full)
            self.ratios.note("testpmd_busy_share", load, other.busy_share / own.busy_share)
            if own.stamped_share:
                self.ratios.note("testpmd_stamped_share", load, other.busy_share / own.stamped_share)
            self.ratios.note("testpmd_by_counts", load, other.busy_share / other_by_counts)
            self.ratios.note("ours_by_counts", load, own.busy_share / own_by_counts)
            self.ratios.note("testpmd_attach_off", load, self.attach(TESTPMD, theirs, "testpmd", load * full))

        self._each(compare)

    def compare_ovs(self, switch: Switch) -> None:
        """Compare two figures that the switch reports."""
        full = self.maximum_pps(OVS, switch)
        print(f"100 % is {full / 1e6:.2f} Mpps", file=sys.stderr)

        def compare(load: float) -> None:
            seen, by_counts = self.at(OVS, switch, "ovs", load * full)
            self.ratios.note("ovs_busy_share", load, seen.busy_share / by_counts)
            self.ratios.note("ovs_attach_off", load, self.attach(OVS, switch, "ovs", load * full))

        self._each(compare)

    def _each(self, compare: Callable[[float], None]) -> None:
        """Run all rounds; skip a load at which the host disturbed."""
        deadline = time.monotonic() + TIME_LIMIT_S
        for load in LOADS * ROUNDS:
            if time.monotonic() > deadline:
                return
            try:
                compare(load)
            except Disturbed as reason:
                print(f"given up at {load:.0%}: {reason}", file=sys.stderr)
                self.disturbed += 1


def missing_programs() -> dict[int, str]:
    """Return why a program cannot be compared, by its connection; empty if both are here."""
    reasons = {
        TESTPMD: None if shutil.which("dpdk-testpmd") else "dpdk-testpmd is not installed (apt-get install dpdk-dev)",
        OVS: ovs_is_missing(),
    }
    return {number: reason for number, reason in reasons.items() if reason is not None}


def observe_all(folder: Path, missing: Collection[int]) -> Ratios:
    """Observe all programs that are here, one after the other."""
    with ExitStack() as stack:
        generator = Generator(folder)
        stack.callback(generator.close)
        bench = Bench(generator)
        if TESTPMD not in missing:
            ours = OurNode(folder)
            stack.callback(ours.close)
            testpmd = StockTestpmd(generator.tsc_hz, folder)
            stack.callback(testpmd.close)
            bench.compare_testpmd(ours, testpmd)
        if OVS not in missing:
            switch = Switch(generator.tsc_hz, folder)
            stack.callback(switch.close)
            bench.compare_ovs(switch)
        print(f"{bench.disturbed} comparisons were given up: the host had the CPUs for others", file=sys.stderr)
        return bench.ratios


def main() -> int:
    details = options(__doc__, details=True).parse_args().details
    missing = missing_programs()
    for number, reason in missing.items():
        print(f"absent {NAMES[number]}_busy_share: {reason}")
    if len(missing) == len(NAMES):
        return 0
    require_hugepages(1024)
    # This process asks the programs from the CPU that does not poll.
    os.sched_setaffinity(0, {0})
    with tempfile.TemporaryDirectory() as folder:
        ratios = observe_all(Path(folder), missing)
    missed = False
    for name, values in ratios.found.items():
        if details or name.endswith(SHOWN):
            goal = ATTACH_OFF if "attach" in name else None
            found = print_ratio(name, values, goal)
            missed |= goal is not None and not goal.is_met(found.value)
    for wrong in ratios.wrong:
        print(f"at 0 %: {wrong}", file=sys.stderr)
    return 1 if missed or ratios.wrong or not ratios.found else 0


if __name__ == "__main__":
    run_main(main)
