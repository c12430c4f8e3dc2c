#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure what the probe costs the program that it measures.

A stock dpdk-testpmd forwards between two joined ports (mode io, one forwarding core, `start tx_first`) with 1 and with
64 queues per port. The packets are of one flow, so with 64 queues most polls are empty, and callbacks cost most there.
Measurements alternate between sessions with default settings and none, without stopping the forwarding.

Prints `ratio probe_attached_Q_queues MEDIAN LOW HIGH N` for Q of 1 and 64: packets per second attached over the mean of
unattached before and after, with the 95 % interval of the median over N rounds. Goal: at least 0.99. With --details
also `probe_watched_Q_queues`: with callbacks on all the time. Ends with 1 when a goal is missed.
"""

import json
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eal import plug_in
from ratio import Goal, between, options, print_ratio, run_main
from testpmd import Testpmd

from pollscope.host.eal_folders import runtime_folder

ROUNDS = 11
WINDOW_S = 1.0
GOAL = Goal(least=0.99)
MBUFS = 40_000  # twice the descriptors of 64 queues
DEFAULT, WATCHED = "", ",sample_us=60000000,period_us=60000000"


@contextmanager
def attached(testpmd: Testpmd, settings: str) -> Iterator[None]:
    """Hold a session with the probe."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(str(runtime_folder() / testpmd.prefix / "dpdk_telemetry.v2"))
        connection.recv(1024)

        def ask(command: str) -> dict[str, int]:
            connection.send(f"/pollscope/probe/{command}".encode())
            answer: dict[str, dict[str, int]] = json.loads(connection.recv(1 << 15))
            return next(iter(answer.values()))

        session = ask(f"start,heartbeat_ms=60000{settings}")["session"]
        yield
        ask(f"stop,{session}")


def measure(queues: int, settings: str, log: Path) -> list[float]:
    """Return the rate attached over unattached, round by round."""
    eal = [*plug_in("librte_net_crossover.so"), *plug_in("librte_pollscope_probe.so"), "--vdev", "net_crossover0"]
    arguments = [f"--rxq={queues}", f"--txq={queues}", "--rxd=128", "--txd=128", f"--total-num-mbufs={MBUFS}"]

    def attached_pps(_round: int) -> float:
        with attached(testpmd, settings):
            return testpmd.pps(WINDOW_S)

    with Testpmd(eal, arguments, log, telemetry=True) as testpmd:
        testpmd.ask("start tx_first")
        testpmd.pps(WINDOW_S)
        rounds = list(between(ROUNDS, lambda: testpmd.pps(WINDOW_S), attached_pps))
        testpmd.ask("stop")
    for found, before, after in rounds:
        print(f"  {queues} queues: {found / 1e6:.2f} of {(before + after) / 2e6:.2f} Mpps", file=sys.stderr)
    return [2 * found / (before + after) for found, before, after in rounds]


def main() -> int:
    arguments = options(__doc__, details=True).parse_args()
    reached = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "stderr.log"
        for queues in (1, 64):
            estimate = print_ratio(f"probe_attached_{queues}_queues", measure(queues, DEFAULT, log), GOAL)
            reached.append(GOAL.is_met(estimate.value))
            if arguments.details:
                print_ratio(f"probe_watched_{queues}_queues", measure(queues, WATCHED, log))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    run_main(main)
