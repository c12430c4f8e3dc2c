#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check the figures of `pollscope attach` against known ones, and measure what it costs the program.

Accuracy: the plug-in is in pollscope-node, whose own accounting counts before, during and after an attach. The DUT
(l3fwd-lpm) is on CPU 1; the generator (Poisson arrivals) and attach share CPU 0. Cost: stock dpdk-testpmd (mode io, one
flow) forwards between two joined ports. With 64 queues most polls are empty, and callbacks cost most there.

  ratio attach_tax_off_Q_queues     tax by attach minus the node's own, in points, at the worst of the loads 0, 25, 50,
                                    75 and 100 %. Goal: at most 2
  ratio attach_throughput_Q_queues  packets per second attached over unattached, in turns. Goal: at least 0.99
  ratio attach_loaded, _detached    testpmd with the plug-in, before and after it was attached, over testpmd without it,
                                    in turns, with 1 and 64 queues. Goal: 0.99 to 1.01
  ratio attach_saturation           the saturation rate by attach at 25 to 75 % load, over the rate at which loss begins
                                    in a ramp. Goal: 0.95 to 1.05
  ratio attach_start_s              1024 queues: from the search for the program to the first figures. Goal: at most 1
  ratio attach_longest_poll_ms      1024 queues: longest iteration of the node during an attach. Goal: at most 1
  ratio attach_cycles_lost_packets  packets that testpmd loses when it is attached and detached --cycles times. Goal: 0
  ratio attach_cycles_grown_mib     by how much its memory grows then. Goal: at most 1

Each line ends with the 95 % interval of the median and the number of values. With --details also the tax at every load
and the longest iteration without an attach. Ends with 1 when a goal is missed.
"""

import math
import os
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, median
from typing import Any

from attaching import attached, probe, watching
from dut_node import DUT_LCORE, PORTS, WARMUP_SHARE, DutNode, dut_node
from eal import plug_in
from ratio import Goal, options, print_ratio, run_main
from testpmd import Testpmd

from pollscope.attach.programs import find_program
from pollscope.attach.watch import LIVE_STEP_S, watch
from pollscope.host.telemetry_socket import TelemetrySocket
from pollscope.metrics.accounting import NoClasses, classes
from pollscope.metrics.probed import ProbedClasses, SampledValue
from pollscope.node.observation import CounterReading, shares
from pollscope.node.probe import Probe

QUEUES, LOADS, ATTACHED_LOADS = (1, 8, 64), (0.0, 0.25, 0.5, 0.75, 1.0), (0.25, 0.5, 0.75)
MANY_QUEUES = 1024
# So much work per packet that the generator, which shares its CPU, is faster. It leaves out what it cannot send in
# time, because a burst would overflow the ring.
EXTRA_CYCLES, LATE_NS = 300, 20_000
TRIAL_S, FULL_S, RAMP_S, PPS_S, SETTLE_S = 2.0, 0.8, 0.25, 0.8, 0.1
# The ramp, over the rate by attach. Loss begins where two neighbours lose this share, so that gaps of the host do not
# count.
RAMP, LOST_SHARE = [0.9 + 0.01 * step for step in range(26)], 0.005
OFTEN = ("sample_us=200", "period_us=1000")
MBUFS = 40_000  # twice the descriptors of 64 queues
TAX, ATTACHED, SAME, SATURATION = Goal(-2, 2), Goal(least=0.99), Goal(0.99, 1.01), Goal(0.95, 1.05)
Found = dict[str, list[float]]


def configure(node: DutNode, queues: int) -> float:
    """Configure the node and return its highest rate."""
    dut = {"workload": "l3fwd-lpm", "extra_cycles": EXTRA_CYCLES, "longest": 1}
    port = {"rx_queues": queues, "rx_desc": 512 if queues < MANY_QUEUES else 64}
    adds = {"flows": 4096, "arrivals": "poisson", "late_max_ns": LATE_NS}
    node.configure(dut, generator=True, rx_port=port, generator_adds=adds)
    rates = [received_pps(node.result(FULL_S, rate={"saturate": True})) for _ in range(3)]
    return rates[-1]


def dut_lcore(result: Mapping[str, Any]) -> Mapping[str, Any]:
    lcore: Mapping[str, Any] = result["dut"]["lcores"][0]
    return lcore


def received_pps(result: Mapping[str, Any]) -> float:
    lcore = dut_lcore(result)
    return float(lcore["rx_packets"] / lcore["cycles"]["total"] * result["window"]["tsc_hz"])


def own_tax(node: DutNode, rate: Mapping[str, Any], once_begun: Callable[[], object] = lambda: None) -> float | None:
    """Return the tax by the node's own accounting; None if it has none."""
    own = classes(dut_lcore(node.result(TRIAL_S, rate=rate, once_begun=once_begun)))
    if isinstance(own, NoClasses):
        print(f"  no tax: {own.reason}", file=sys.stderr)
        return None
    return 1 - own.packets.value / own.total


def observe(node: DutNode, rate: Mapping[str, Any]) -> tuple[list[float], ProbedClasses] | None:
    """Return the node's own tax before, during and after an attach, and what attach saw; None if it has no figure.

    The stamps of attach change the cost of empty polls, which makes the own tax during it uncertain.
    """
    readings: list[CounterReading] = []

    def look() -> None:
        time.sleep(TRIAL_S * WARMUP_SHARE)
        readings.extend(watch(observer, TRIAL_S - LIVE_STEP_S, lambda *_: None))

    own = [own_tax(node, rate)]
    with attached(node.pid, "heartbeat_ms=60000") as observer:
        own.append(own_tax(node, rate, look))
    own.append(own_tax(node, rate))
    (seen,) = [each.classes for each in shares(readings, observer.info) if each.counts.lcore == DUT_LCORE]
    known = [tax for tax in own if tax is not None]
    if not known or isinstance(seen, str):
        return None
    return known, seen


def ramp_pps(node: DutNode, expected_pps: float) -> float:
    """Return the rate at which loss begins; infinite if none does."""
    lossy_pps = math.inf
    for part in RAMP:
        stats = node.result(RAMP_S, pps=part * expected_pps)["ports"][PORTS[1]]["stats"]
        if stats["imissed"] <= LOST_SHARE * (stats["imissed"] + stats["ipackets"]):
            lossy_pps = math.inf
        elif lossy_pps < math.inf:
            return lossy_pps
        else:
            lossy_pps = part * expected_pps
    return lossy_pps


def measure_truth(rounds: int) -> tuple[dict[int, dict[float, list[float]]], list[float]]:
    """Return the differences of the tax in points, by queues and load, and saturation rates over those of ramps."""
    off: dict[int, dict[float, list[float]]] = {}
    saturation = []
    with dut_node("wire", eal=probe()) as node:
        for queues in QUEUES:
            full_pps, off[queues] = configure(node, queues), defaultdict(list)
            print(f"{queues} queues: 100 % is {full_pps / 1e6:.2f} Mpps", file=sys.stderr)
            for load in LOADS * rounds:
                both = observe(node, {"saturate": True} if load == 1 else {"pps": load * full_pps})
                if both is None:
                    continue
                own, seen = both
                off[queues][load].append(100 * (seen.tax.value - fmean(own)))
                taxes = ", ".join(f"{100 * tax:.2f}" for tax in own)
                print(
                    f"  {load:.0%}: own tax {taxes} %, by attach {100 * seen.tax.value:.2f} "
                    f"+-{100 * seen.tax.error:.2f} %, saturates at {seen.saturation_pps}",
                    file=sys.stderr,
                )
                if load in ATTACHED_LOADS and isinstance(seen.saturation_pps, SampledValue):
                    begins_pps = ramp_pps(node, seen.saturation_pps.value)
                    print(f"  loss begins at {begins_pps / 1e6:.2f} Mpps", file=sys.stderr)
                    saturation.append(seen.saturation_pps.value / begins_pps)
    return off, saturation


def longest_ms(result: Mapping[str, Any]) -> float:
    return float(1e3 * dut_lcore(result)["longest"][0]["cycles"] / result["window"]["tsc_hz"])


def measure_many_queues(rounds: int) -> Found:
    """Return the time until first figures, and the longest iterations with and without."""
    found: Found = defaultdict(list)
    with dut_node("wire", eal=probe()) as node:
        half_pps = configure(node, MANY_QUEUES) / 2
        for _ in range(rounds):

            def look() -> None:
                time.sleep(WARMUP_SHARE)
                begin_s = time.monotonic()
                with attached(node.pid) as observer:
                    while len(observer.read().queues) < MANY_QUEUES:
                        time.sleep(0.01)
                    found["start_s"].append(time.monotonic() - begin_s)

            found["longest_poll_ms"].append(longest_ms(node.result(1.0, pps=half_pps, once_begun=look)))
            found["longest_poll_unattached_ms"].append(longest_ms(node.result(1.0, pps=half_pps)))
    return found


def joined_testpmd(queues: int, log: Path, plugged: bool) -> Testpmd:
    arguments = [f"--rxq={queues}", f"--txq={queues}", "--rxd=128", "--txd=128", f"--total-num-mbufs={MBUFS}"]
    eal = [*plug_in("librte_net_crossover.so"), *(probe() if plugged else ()), "--vdev", "net_crossover0"]
    return Testpmd(eal, arguments, log, telemetry=True)


def measure_throughput(queues: int, rounds: int, log: Path) -> Found:
    """Return ratios of rates. Each round starts the programs again, because their memory lies elsewhere then."""
    found: Found = defaultdict(list)

    def pps(testpmd: Testpmd) -> float:
        return testpmd.forward_pps("start tx_first", SETTLE_S, PPS_S)

    for _ in range(rounds):
        with joined_testpmd(queues, log, False) as plain, joined_testpmd(queues, log, True) as probed:
            pps(plain)
            before, loaded, between = pps(plain), pps(probed), pps(plain)
            with attached(probed.pid) as observer, watching(observer):
                found["attached"].append(pps(probed))
            detached, after = pps(probed), pps(plain)
        found["attached"][-1] *= 2 / (loaded + detached)
        found["loaded"].append(2 * loaded / (before + between))
        found["detached"].append(2 * detached / (between + after))
        print(f"  {queues} queues: {before / 1e6:.2f} Mpps without the plug-in", file=sys.stderr)
    return found


def measure_cycles(cycles: int, log: Path) -> tuple[int, float]:
    """Return the packets lost by a testpmd that is attached and detached so often, and the MiB by which it grew."""
    with ExitStack() as stack:
        testpmd = stack.enter_context(joined_testpmd(4, log, True))
        connection = stack.enter_context(TelemetrySocket(find_program(str(testpmd.pid))))

        def info(key: str) -> int:
            return int(connection.value("/pollscope/probe/info")[key])

        def cycle() -> None:
            with Probe(connection, *OFTEN):
                before = info("windows")
                while info("windows") == before:
                    time.sleep(0.001)

        def mib() -> float:
            end_s = time.monotonic() + 1  # removed callbacks are freed within this time
            while info("callbacks") or time.monotonic() < end_s:
                time.sleep(0.01)
            status = Path(f"/proc/{testpmd.pid}/status").read_text()
            resident = re.search(r"VmRSS:\s+(\d+)", status)
            assert resident is not None
            return int(resident[1]) / 1024 + int(connection.value("/eal/heap_info,0")["Alloc_size"]) / (1 << 20)

        testpmd.ask("start tx_first")
        for _ in range(20):
            cycle()
        before_mib = mib()
        for _ in range(cycles):
            cycle()
        grown_mib = mib() - before_mib
        said = testpmd.ask("stop") + testpmd.ask("show port stats all")
        return sum(map(int, re.findall(r"(?:dropped|missed|errors): +(\d+)", said))), grown_mib


class Report:
    """Print figures; `missed` says whether one missed its goal."""

    missed = False

    def __call__(self, name: str, values: Sequence[float], goal: Goal | None = None) -> None:
        if values:
            value = print_ratio(f"attach_{name}", values, goal).value
            self.missed |= goal is not None and not goal.is_met(value)
        else:
            print(f"absent attach_{name}: the host did not let it be measured")
            self.missed = True


def main() -> int:
    parser = options(__doc__, details=True)
    parser.add_argument("--rounds", type=int, default=9, help="values of each figure (%(default)s)")
    parser.add_argument("--cycles", type=int, default=1000, help="attach and detach so often (%(default)s)")
    arguments = parser.parse_args()
    # Everything but the polling thread.
    os.sched_setaffinity(0, {0})
    report = Report()
    off, saturation = measure_truth(max(1, arguments.rounds // 3))
    for queues, by_load in off.items():
        for load, values in by_load.items():
            if arguments.details:
                report(f"tax_off_{queues}_queues_{load:.0%}".replace("%", ""), values)
        worst = max(by_load.values(), key=lambda values: abs(median(values)), default=())
        report(f"tax_off_{queues}_queues", worst, TAX)
    report("saturation", saturation, SATURATION)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "stderr.log"
        rates = {queues: measure_throughput(queues, arguments.rounds, log) for queues in (1, 64)}
        for queues, found in rates.items():
            report(f"throughput_{queues}_queues", found["attached"], ATTACHED)
        for name in ("loaded", "detached"):
            report(name, [ratio for found in rates.values() for ratio in found[name]], SAME)
        lost, grown_mib = measure_cycles(arguments.cycles, log)
    many = measure_many_queues(arguments.rounds)
    report("start_s", many["start_s"], Goal(most=1))
    report("longest_poll_ms", many["longest_poll_ms"], Goal(most=1))
    if arguments.details:
        report("longest_poll_unattached_ms", many["longest_poll_unattached_ms"])
    report("cycles_lost_packets", [lost], Goal(most=0))
    report("cycles_grown_mib", [grown_mib], Goal(most=1))
    return int(report.missed)


if __name__ == "__main__":
    run_main(main)
