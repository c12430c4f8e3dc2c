#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""net_crossover from core to core against the same cache lines moved between the same cores with nothing else.

Two cores, one sends 64-byte frames on one queue, the other receives, reads and frees them. The loop to compare with
(apps/bench/wire_bare.c) has the same ring, writes the same bytes into buffers at the same distances and posts them
again, but knows no mbufs, mempools, queues or counters. Windows take turns; one in which something else had more than a
tenth of a core is repeated.

Prints `ratio line_limit MEDIAN LOW HIGH N`: frames received over those of the bare loop, with the 95 % interval of the
median over N pairs of windows. Ends with 1 when the median is below 0.75.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path

from ratio import print_ratio
from wire_bench import Undisturbed, WireBench, two_cpus

from pollscope.base.errors import PollscopeError

PAIRS = 25
WANTED = 0.75
RECEIVER = 1


def measure_pairs(log: Path) -> list[float]:
    """Received frames over those of the bare loop; who goes first changes from pair to pair."""
    ratios: list[float] = []
    undisturbed = Undisturbed()
    with WireBench("line", two_cpus(), log) as bench:
        for pair in range(PAIRS):
            order = ("cross", "bare") if pair % 2 else ("bare", "cross")
            done = {loop: undisturbed(partial(bench.run, loop, "01")) for loop in order}
            pps = {loop: workers[RECEIVER].per_cpu_s for loop, workers in done.items()}
            print(f"net_crossover {pps['cross'] / 1e6:.1f} Mpps, bare {pps['bare'] / 1e6:.1f} Mpps", file=sys.stderr)
            ratios.append(pps["cross"] / pps["bare"])
    return ratios


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        ratios = measure_pairs(Path(folder) / "stderr.log")
    return 0 if print_ratio("line_limit", ratios).value >= WANTED else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"line_limit: {error}")
