#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What measuring costs at saturation: l3fwd-lpm from one queue whose descriptors are always ready, 64 B, on one core.

The same loop forwards without instrumentation (accounting `none`) and with each accounting mode, in turns in one
process. Time in which the host or another thread had the CPU is taken out of both sides: the node reports it for every
mode.

Prints `ratio probe_effect_MODE MEDIAN LOW HIGH N`: packets per cycle with the mode over packets per cycle without. Exit
status 1 when the median of `sampled`, the mode that runs by default, is below 0.99.
"""

import sys
from typing import Any

from dut_node import DutNode, dut_node
from ratio import print_ratio

from pollscope.base.errors import PollscopeError

PAIRS = 25
WINDOW_S = 0.05
TARGET = 0.99
MODES = ("sampled", "count", "full")


def packets_per_cycle(node: DutNode, mode: str) -> float:
    """One trial."""
    node.configure({"workload": "l3fwd-lpm", "accounting": mode}, generator=False)
    lcore: dict[str, Any] = node.trial(WINDOW_S)
    cycles: float = lcore["cycles"]["total"] - lcore["interruptions"]["cycles"]
    return float(lcore["tx_packets"] / cycles)


def measure(node: DutNode) -> dict[str, list[float]]:
    """Ratios by mode; a round measures the bare loop before and after each mode, so that drift cancels."""
    ratios: dict[str, list[float]] = {mode: [] for mode in MODES}
    bare = packets_per_cycle(node, "none")
    for _ in range(PAIRS):
        for mode in MODES:
            probed = packets_per_cycle(node, mode)
            before, bare = bare, packets_per_cycle(node, "none")
            ratios[mode].append(2 * probed / (before + bare))
    return ratios


def main() -> int:
    with dut_node(feed="infinite") as node:
        ratios = measure(node)
        bare_pps = packets_per_cycle(node, "none") * node.tsc_hz
    print(f"uninstrumented: {bare_pps / 1e6:.1f} Mpps", file=sys.stderr)
    estimates = {mode: print_ratio(f"probe_effect_{mode}", values) for mode, values in ratios.items()}
    return 0 if estimates["sampled"].value >= TARGET else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"probe_effect: {error}")
