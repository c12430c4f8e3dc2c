#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare packets per second of net_crossover with those of DPDK's net_memif under stock dpdk-testpmd.

Two ports joined in one process, one forwarding core, mode io, `start tx_first`, 64-byte frames, one queue of each
driver's default size. The same core receives, sends and so copies every packet. Rounds alternate: dma=copy against
memif with copies, dma=swap against memif with zero-copy=yes. Both get the memory layout that memif's zero-copy mode
needs (--single-file-segments, hugepage files).

Prints `ratio crossover_copy_vs_memif MEDIAN LOW HIGH N` and `ratio crossover_swap_vs_memif_zero_copy MEDIAN LOW HIGH
N`: packets per second and port over memif's, with the 95 % interval of the median over N pairs. Goal: at least 1.5.
Ends with 1 when it is missed.
"""

import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from eal import plug_in, require_hugepages
from ratio import Goal, options, print_ratio, run_main
from testpmd import Testpmd

from pollscope.base.errors import HostError

PAIRS = 13
SETTLE_S, WINDOW_S = 0.1, 0.35
GOAL = Goal(least=1.5)
OPTIONS = ["--total-num-mbufs=8192", "--burst=32", "--txpkts=64"]


def crossover(dma: str, log: Path) -> Testpmd:
    """Start a testpmd with two joined ports of net_crossover."""
    eal = ["--single-file-segments", *plug_in("librte_net_crossover.so"), "--vdev", f"net_crossover0,dma={dma}"]
    return Testpmd(eal, OPTIONS, log)


def memif(zero_copy: str, log: Path) -> Testpmd:
    """Start a testpmd with two joined ports of net_memif."""
    same = f"id=0,socket={log.parent}/memif-{zero_copy}.sock,socket-abstract=no"
    eal = ["--single-file-segments", "--vdev", f"net_memif0,role=server,{same}"]
    eal += ["--vdev", f"net_memif1,role=client,{same},zero-copy={zero_copy}"]
    return Testpmd(eal, OPTIONS, log)


def forward_pps(testpmd: Testpmd) -> float:
    """Return the rate of one measurement."""
    return testpmd.forward_pps("start tx_first", SETTLE_S, WINDOW_S)


def measure_pairs(ours: Testpmd, theirs: Testpmd, name: str) -> list[float]:
    """Return our rate over theirs; the order changes from pair to pair.

    Raises:
        HostError: memif forwards nothing.
    """
    ratios: list[float] = []
    for pair in range(PAIRS + 1):
        order = (ours, theirs) if pair % 2 else (theirs, ours)
        pps = {testpmd: forward_pps(testpmd) for testpmd in order}
        print(f"{name}: {pps[ours] / 1e6:.1f} Mpps, memif {pps[theirs] / 1e6:.1f} Mpps", file=sys.stderr)
        if pps[theirs] == 0:
            raise HostError("net_memif forwards nothing here", name)
        if pair > 0:  # the first pair warms up
            ratios.append(pps[ours] / pps[theirs])
    return ratios


def compare(name: str, dma: str, zero_copy: str, log: Path) -> bool:
    """Print one figure and return whether it meets the goal."""
    with ExitStack() as stack:
        ours = stack.enter_context(crossover(dma, log))
        theirs = stack.enter_context(memif(zero_copy, log))
        ratios: Sequence[float] = measure_pairs(ours, theirs, name)
    return GOAL.is_met(print_ratio(name, ratios, GOAL).value)


def main() -> int:
    options(__doc__).parse_args()
    require_hugepages(256)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "stderr.log"
        reached = [
            compare("crossover_copy_vs_memif", "copy", "no", log),
            compare("crossover_swap_vs_memif_zero_copy", "swap", "yes", log),
        ]
    return 0 if all(reached) else 1


if __name__ == "__main__":
    run_main(main)
