#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare net_crossover from core to core with the same cache lines moved between the same cores and nothing else.

Two cores: one sends 64-byte frames on one queue, the other receives, reads and frees them. The bare loops
(apps/bench/wire_bare.c) have the same ring, write the same bytes into buffers at the same distances and post them
again, but have no mbufs, mempools, queues or counters. There are two of them: one sends and receives what it finds, one
only whole bursts. Which of them is quicker depends on the host, and the limit is the quicker one. It is measured before
and after each window of the driver. A pair whose limits differ by more than a tenth is measured again, because the host
moved the CPUs. So is a window in which other programs had more than a tenth of a core.

Prints `ratio line_limit MEDIAN LOW HIGH N`: frames received over those at the limit, with the 95 % interval of the
median over N pairs. Goal: 0.75 to 1; above 1 the bare loops would be no limit. Ends with 1 when it is missed.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path

from ratio import Goal, between, options, print_ratio, run_main
from wire_bench import Undisturbed, WireBench, two_cpus

from pollscope.base.errors import HostError

PAIRS, TRIES = 25, 100
STEADY = 0.1
GOAL = Goal(0.75, 1.0)
BARE = ("bare", "bare-whole")
RECEIVER = 1


def measure_pairs(log: Path) -> list[float]:
    """Return received frames over those at the limit, of each pair.

    Raises:
        HostError: the limit changed within nearly every pair.
    """
    undisturbed = Undisturbed()
    with WireBench(two_cpus(), log) as bench:

        def pps(loop: str) -> float:
            return undisturbed(partial(bench.run, loop, "01"))[RECEIVER].per_cpu_s

        def limit_pps() -> float:
            return max(pps(loop) for loop in BARE)

        ratios: list[float] = []
        for cross, before, after in between(TRIES, limit_pps, lambda _: pps("cross")):
            print(
                f"net_crossover {cross / 1e6:.1f}, limit {before / 1e6:.1f} and {after / 1e6:.1f} Mpps", file=sys.stderr
            )
            if is_steady(before, after):
                ratios.append(2 * cross / (before + after))
            if len(ratios) == PAIRS:
                return ratios
    raise HostError(
        f"the limit changed within {TRIES - len(ratios)} of {TRIES} pairs", "this host", "end what else runs on it"
    )


def is_steady(before: float, after: float) -> bool:
    """Return whether the limit was the same on both sides of a window."""
    return abs(before - after) <= STEADY * min(before, after)


def main() -> int:
    options(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ratios = measure_pairs(Path(folder) / "stderr.log")
    return 0 if GOAL.is_met(print_ratio("line_limit", ratios, GOAL).value) else 1


if __name__ == "__main__":
    run_main(main)
