#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure what accounting costs at saturation: l3fwd-lpm from one queue that is always full, 64 B, on one core.

The same loop forwards without accounting (mode `none`) and with each mode, in turns in one process. Time in which the
host or another thread had the CPU is removed from both sides; the node reports it for every mode.

Prints `ratio probe_effect_MODE MEDIAN LOW HIGH N`: packets per cycle with the mode over packets per cycle without. Goal
for `sampled`, the default mode: at least 0.99. Ends with 1 when it is missed.
"""

import sys
from typing import Any

from dut_node import DutNode, dut_node
from ratio import Goal, main_of

PAIRS = 25
WINDOW_S = 0.05
GOALS = {"probe_effect_sampled": Goal(least=0.99)}
MODES = ("sampled", "count", "full")


def packets_per_cycle(node: DutNode, mode: str) -> float:
    """Return the packets per cycle of one trial."""
    node.configure({"workload": "l3fwd-lpm", "accounting": mode}, generator=False)
    lcore: dict[str, Any] = node.trial(WINDOW_S)
    cycles: float = lcore["cycles"]["total"] - lcore["interruptions"]["cycles"]
    return float(lcore["tx_packets"] / cycles)


def measure() -> dict[str, list[float]]:
    """Return the ratios by mode; the bare loop runs before and after each mode, so that drift cancels."""
    ratios: dict[str, list[float]] = {f"probe_effect_{mode}": [] for mode in MODES}
    with dut_node(feed="infinite") as node:
        bare = packets_per_cycle(node, "none")
        for _ in range(PAIRS):
            for mode in MODES:
                probed = packets_per_cycle(node, mode)
                before, bare = bare, packets_per_cycle(node, "none")
                ratios[f"probe_effect_{mode}"].append(2 * probed / (before + bare))
        print(f"without accounting: {bare * node.tsc_hz / 1e6:.1f} Mpps", file=sys.stderr)
    return ratios


if __name__ == "__main__":
    main_of(__doc__, measure, GOALS)
