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
from ratio import Goal, options, print_ratio, run_main

PAIRS = 25
WINDOW_S = 0.05
GOALS = {"sampled": Goal(least=0.99)}
MODES = ("sampled", "count", "full")


def packets_per_cycle(node: DutNode, mode: str) -> float:
    """Return the packets per cycle of one trial."""
    node.configure({"workload": "l3fwd-lpm", "accounting": mode}, generator=False)
    lcore: dict[str, Any] = node.trial(WINDOW_S)
    cycles: float = lcore["cycles"]["total"] - lcore["interruptions"]["cycles"]
    return float(lcore["tx_packets"] / cycles)


def measure(node: DutNode) -> dict[str, list[float]]:
    """Return the ratios by mode; the bare loop runs before and after each mode, so that drift cancels."""
    ratios: dict[str, list[float]] = {mode: [] for mode in MODES}
    bare = packets_per_cycle(node, "none")
    for _ in range(PAIRS):
        for mode in MODES:
            probed = packets_per_cycle(node, mode)
            before, bare = bare, packets_per_cycle(node, "none")
            ratios[mode].append(2 * probed / (before + bare))
    return ratios


def main() -> int:
    options(__doc__).parse_args()
    with dut_node(feed="infinite") as node:
        ratios = measure(node)
        bare_pps = packets_per_cycle(node, "none") * node.tsc_hz
    print(f"without accounting: {bare_pps / 1e6:.1f} Mpps", file=sys.stderr)
    estimates = {mode: print_ratio(f"probe_effect_{mode}", values, GOALS.get(mode)) for mode, values in ratios.items()}
    return 0 if all(goal.is_met(estimates[mode].value) for mode, goal in GOALS.items()) else 1


if __name__ == "__main__":
    run_main(main)
