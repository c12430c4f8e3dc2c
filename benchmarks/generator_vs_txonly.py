#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare packets per second of the generator on one core with those of stock `dpdk-testpmd` in mode txonly on the same
port.

Both send 64-byte frames in bursts of 32 as fast as they can into net_crossover0_a (one queue, 512 descriptors), on the
same CPU, in turns. Nothing receives at the other end, so the sending core alone sets the pace. The generator writes a
sequence number, two time stamps, one of 1024 flows and both checksums into each frame; txonly writes the same headers
into all frames.

Prints `ratio generator_vs_txonly MEDIAN LOW HIGH N`: the generator's rate over testpmd's, with the 95 % interval of the
median over N pairs. Goal: at least 1. Ends with 1 when it is missed.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from eal import file_prefix
from ratio import Goal, options, print_ratio, run_main
from testpmd import Testpmd

from pollscope.base.errors import HostError
from pollscope.base.paths import node_program
from pollscope.host.memory import hugepages
from pollscope.node.client import NodeClient

PAIRS = 15
SETTLE_S, WINDOW_S = 0.05, 0.4
LIMIT_S = 30.0
BURST, DESCRIPTORS = 32, 512
NEEDED_BYTES = 512 << 20
GOAL = Goal(least=1)


def memory_arguments() -> list[str]:
    """Return the memory arguments of both programs: hugepages where enough are free."""
    huge = any(pages.free_bytes >= NEEDED_BYTES for pages in hugepages())
    return ["--in-memory"] if huge else ["--no-huge", "--no-shconf", "-m", "512"]


def eal_arguments() -> list[str]:
    """Return EAL's arguments: main lcore on CPU 0, the sender on CPU 1, as in benchmarks/testpmd.py."""
    arguments = ["--lcores", "0@0,1@1", "--main-lcore", "0", "--no-pci", "--vdev", "net_crossover0"]
    return [*arguments, *file_prefix(), *memory_arguments()]


class Generator:
    """A pollscope-node that sends as fast as it can."""

    def __init__(self, log: Path) -> None:
        self._client = NodeClient([str(node_program()), *eal_arguments()], log)
        self.tsc_hz = self._client.wait_hello()["tsc_hz"]
        same = {"rx_queues": 1, "tx_queues": 1, "rx_desc": DESCRIPTORS, "tx_desc": DESCRIPTORS}
        ports = [{"name": f"net_crossover0_{end}", **same} for end in "ab"]
        gen = {"lcores": [1], "tx_port": "net_crossover0_a", "target_port": "net_crossover0_b", "burst": BURST}
        self._client.request("configure", LIMIT_S, ports=ports, gen=gen)

    def packets_per_s(self) -> float:
        """Return the rate of one trial."""
        times = {"warmup_ns": 50_000_000, "window_ns": int(WINDOW_S * 1e9), "drain_max_ns": 1_000_000}
        self._client.request("start", LIMIT_S, trial="bench", rate={"saturate": True}, **times)
        self._client.wait_trial("bench", LIMIT_S)
        lcore: dict[str, Any] = self._client.request("read", LIMIT_S)["gen"]["lcores"][0]
        return float(lcore["sent"] * self.tsc_hz / lcore["duration_tsc"])

    def close(self) -> None:
        self._client.close()


def txonly(log: Path) -> Testpmd:
    """Start a dpdk-testpmd that sends as fast as it can."""
    plug_in = node_program().with_name("librte_net_crossover.so")
    if not plug_in.is_file():
        raise HostError("the plug-in is not built", str(plug_in), "make build")
    options = [f"--burst={BURST}", "--txpkts=60", f"--rxd={DESCRIPTORS}", f"--txd={DESCRIPTORS}"]
    testpmd = Testpmd(["-d", str(plug_in), "--vdev", "net_crossover0", *memory_arguments()], options, log)
    for line in ("set fwd txonly", "set portlist 0"):
        testpmd.ask(line)
    return testpmd


def txonly_pps(testpmd: Testpmd) -> float:
    """Return the rate that testpmd itself counts between two readings of its statistics."""
    return testpmd.forward_pps("start", SETTLE_S, WINDOW_S, counted="Tx")


def measure_pairs(generator: Generator, testpmd: Testpmd) -> list[float]:
    """Return the generator's rates over testpmd's; the order changes from pair to pair."""
    ratios: list[float] = []
    for pair in range(PAIRS + 1):
        if pair % 2:
            ours, theirs = generator.packets_per_s(), txonly_pps(testpmd)
        else:
            theirs, ours = txonly_pps(testpmd), generator.packets_per_s()
        print(f"generator {ours / 1e6:.2f} Mpps, txonly {theirs / 1e6:.2f} Mpps", file=sys.stderr)
        if pair > 0:  # the first pair warms up
            ratios.append(ours / theirs)
    return ratios


def main() -> int:
    options(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "stderr.log"
        generator, testpmd = Generator(log), None
        try:
            testpmd = txonly(log)
            estimate = print_ratio("generator_vs_txonly", measure_pairs(generator, testpmd), GOAL)
        finally:
            generator.close()
            if testpmd is not None:
                testpmd.close()
    return 0 if GOAL.is_met(estimate.value) else 1


if __name__ == "__main__":
    run_main(main)
