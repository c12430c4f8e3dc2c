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
from contextlib import ExitStack, closing
from pathlib import Path

from eal import LIMIT_S, memory, plug_in, start_node, trial
from ratio import Goal, options, print_ratio, run_main
from testpmd import Testpmd

from pollscope.node.client import NodeClient

PAIRS = 15
SETTLE_S, WINDOW_S = 0.05, 0.4
BURST, DESCRIPTORS = 32, 512
GOAL = Goal(least=1)


def configure(client: NodeClient) -> None:
    """Make the node send in bursts; main lcore on CPU 0, the sender on CPU 1, as in benchmarks/testpmd.py."""
    same = {"rx_queues": 1, "tx_queues": 1, "rx_desc": DESCRIPTORS, "tx_desc": DESCRIPTORS}
    ports = [{"name": f"net_crossover0_{end}", **same} for end in "ab"]
    gen = {"lcores": [1], "tx_port": "net_crossover0_a", "target_port": "net_crossover0_b", "burst": BURST}
    client.request("configure", LIMIT_S, ports=ports, gen=gen)


def generator_pps(client: NodeClient) -> float:
    """Return the rate of one trial in which the node sends as fast as it can."""
    times = {"warmup_ns": 50_000_000, "window_ns": int(WINDOW_S * 1e9), "drain_max_ns": 1_000_000}
    (lcore,) = trial(client, {"saturate": True}, **times)["gen"]["lcores"]
    return float(lcore["sent"] * client.hello["tsc_hz"] / lcore["duration_tsc"])


def txonly(log: Path) -> Testpmd:
    """Start a dpdk-testpmd that sends as fast as it can."""
    options = [f"--burst={BURST}", "--txpkts=60", f"--rxd={DESCRIPTORS}", f"--txd={DESCRIPTORS}"]
    eal = [*plug_in("librte_net_crossover.so"), "--vdev", "net_crossover0", *memory(512, 512)]
    testpmd = Testpmd(eal, options, log)
    for line in ("set fwd txonly", "set portlist 0"):
        testpmd.ask(line)
    return testpmd


def txonly_pps(testpmd: Testpmd) -> float:
    """Return the rate that testpmd itself counts between two readings of its statistics."""
    return testpmd.forward_pps("start", SETTLE_S, WINDOW_S, counted="Tx")


def measure_pairs(client: NodeClient, testpmd: Testpmd) -> list[float]:
    """Return the generator's rates over testpmd's; the order changes from pair to pair."""
    ratios: list[float] = []
    for pair in range(PAIRS + 1):
        if pair % 2:
            ours, theirs = generator_pps(client), txonly_pps(testpmd)
        else:
            theirs, ours = txonly_pps(testpmd), generator_pps(client)
        print(f"generator {ours / 1e6:.2f} Mpps, txonly {theirs / 1e6:.2f} Mpps", file=sys.stderr)
        if pair > 0:  # the first pair warms up
            ratios.append(ours / theirs)
    return ratios


def main() -> int:
    options(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        log = Path(folder) / "stderr.log"
        client = stack.enter_context(closing(start_node("0@0,1@1", ["net_crossover0"], memory(512, 512), log)))
        configure(client)
        testpmd = stack.enter_context(txonly(log))
        estimate = print_ratio("generator_vs_txonly", measure_pairs(client, testpmd), GOAL)
    return 0 if GOAL.is_met(estimate.value) else 1


if __name__ == "__main__":
    run_main(main)
