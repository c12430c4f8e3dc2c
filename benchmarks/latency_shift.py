#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Recorded latency against an independent check: a DUT that adds 1, 10 or 100 us to each packet shifts the median.

The DUT forwards (io) and waits on the TSC for a known number of cycles (`extra_cycles`) with each packet; trials
without and with each of the three waits take turns. Packets are 200 us apart, so that none waits for another. The
latency is that from the actual departure.

Prints `ratio latency_shift_K MEDIAN LOW HIGH N`: (median with the wait - mean of the medians without it before and
after) over the wait. Exit status 1 when a median ratio is off by more than 2 %.
"""

import sys

from dut_node import DutNode, dut_node
from ratio import print_ratio

from pollscope.errors import PollscopeError
from pollscope.histogram import parse_histogram

ROUNDS = 25
WINDOW_S, PPS = 0.25, 5e3
TOLERANCE = 0.02
WAITS_NS = {"1us": 1e3, "10us": 1e4, "100us": 1e5}


def median_ns(node: DutNode, wait_ns: float) -> float:
    """Median latency of one trial."""
    cycles = round(wait_ns * node.tsc_hz / 1e9)
    node.configure({"workload": "io", "extra_cycles": cycles}, generator=True, receives=True)
    (generator,) = node.result(WINDOW_S, PPS)["gen"]["lcores"]
    return parse_histogram(generator["latency_ns"]["from_sent"], "from_sent").percentile(50)


def measure(node: DutNode) -> dict[str, list[float]]:
    """Ratios by wait; each wait stands between two trials without one, so that drift cancels."""
    ratios: dict[str, list[float]] = {name: [] for name in WAITS_NS}
    bare = median_ns(node, 0)
    for _ in range(ROUNDS):
        for name, wait_ns in WAITS_NS.items():
            shifted = median_ns(node, wait_ns)
            before, bare = bare, median_ns(node, 0)
            ratios[name].append((shifted - (before + bare) / 2) / wait_ns)
    return ratios


def main() -> int:
    with dut_node(feed="wire") as node:
        ratios = measure(node)
    estimates = [print_ratio(f"latency_shift_{name}", values) for name, values in ratios.items()]
    return 0 if all(abs(estimate.value - 1) <= TOLERANCE for estimate in estimates) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"latency_shift: {error}")
