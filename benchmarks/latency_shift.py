#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check recorded latency: a DUT that adds 1, 10 or 100 us to each packet shifts the median by as much.

The DUT forwards (io) and waits on the TSC for a known number of cycles (`extra_cycles`) per packet. Trials with and
without the wait alternate. Packets are further apart than the wait, so none waits for another. The latency is that from
the actual departure. Medians move by some 50 ns between trials, so a short wait needs many trials.

Prints `ratio latency_shift_K MEDIAN LOW HIGH N`: (median with the wait - mean of the medians without it before and
after) over the wait. Goal: 0.98 to 1.02. Ends with 1 when it is missed.
"""

from typing import NamedTuple

from dut_node import DutNode, dut_node
from ratio import Goal, between, main_of

from pollscope.stats.histogram import parse_histogram

GOAL = Goal(0.98, 1.02)


class Wait(NamedTuple):
    """One length of wait, its traffic, and the number of trials with it."""

    ns: float
    pps: float
    window_s: float
    rounds: int


WAITS = {
    "1us": Wait(1e3, 40e3, 0.04, 400),
    "10us": Wait(10e3, 40e3, 0.04, 150),
    "100us": Wait(100e3, 5e3, 0.1, 50),
}


def median_ns(node: DutNode, wait: Wait, added_ns: float) -> float:
    """Return the median latency of one trial."""
    cycles = round(added_ns * node.tsc_hz / 1e9)
    node.configure({"workload": "io", "extra_cycles": cycles}, generator=True, receives=True)
    (generator,) = node.result(wait.window_s, wait.pps)["gen"]["lcores"]
    return parse_histogram(generator["latency_ns"]["from_sent"], "from_sent").percentile(50)


def shifts(node: DutNode, wait: Wait) -> list[float]:
    """Return the shift of the median over the wait, for every round."""
    trials = between(wait.rounds, lambda: median_ns(node, wait, 0), lambda _: median_ns(node, wait, wait.ns))
    return [(shifted - (before + after) / 2) / wait.ns for shifted, before, after in trials]


def measure() -> dict[str, list[float]]:
    """Return the ratios by wait."""
    with dut_node(feed="wire") as node:
        return {f"latency_shift_{name}": shifts(node, wait) for name, wait in WAITS.items()}


if __name__ == "__main__":
    main_of(__doc__, measure, GOAL)
