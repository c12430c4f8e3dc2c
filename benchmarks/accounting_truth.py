#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Cycle accounting against a known truth.

The DUT spends 2000 cycles on each packet, so that u * tsc_hz / 2000 packets per second keep it busy for the share u of
the time; what the packets cost by themselves comes on top. For each accounting mode that classifies cycles and u = 25,
50, 75 % two trials at the same rate run in turns: with the 2000 cycles, and without to learn the packet's own cost.

    ratio useful_MODE_U     measured useful cycles over known cycles plus the packets' own
    ratio whole_MODE_U      useful and tax over the window's TSC cycles

Exit status 1 when a median useful share lies below the known share, or above what known and own cost explain, by more
than 2 % of the window, or when the classes miss the window by more than 0.5 %.
"""

import sys
from typing import Any, NamedTuple

from dut_node import DutNode, dut_node
from ratio import print_ratio

from pollscope.analysis.statistics import median_estimate
from pollscope.errors import PollscopeError

ROUNDS = 11
WINDOW_S = 0.15
EXTRA_CYCLES = 2000
MODES = ("sampled", "transition", "full")
UTILISATIONS = (0.25, 0.50, 0.75)
USEFUL_TOLERANCE, WHOLE_TOLERANCE = 0.02, 0.005


class Round(NamedTuple):
    """Shares of the window."""

    useful: float
    known: float
    own: float
    whole: float


def measure(node: DutNode, mode: str, utilisation: float, extra_cycles: int) -> dict[str, Any]:
    """One trial at the rate that makes this utilisation of EXTRA_CYCLES a packet."""
    node.configure({"workload": "io", "accounting": mode, "extra_cycles": extra_cycles}, generator=True)
    return node.trial(WINDOW_S, pps=utilisation * node.tsc_hz / EXTRA_CYCLES)


def one_round(node: DutNode, mode: str, utilisation: float) -> Round:
    bare = measure(node, mode, utilisation, 0)
    loaded = measure(node, mode, utilisation, EXTRA_CYCLES)
    cycles, packets = loaded["cycles"], loaded["rx_packets"]
    own_per_packet = bare["cycles"]["useful"] / bare["rx_packets"]
    tax = cycles["empty_poll"] + cycles["loop"] + cycles["instrumentation"]
    total = cycles["total"]
    return Round(
        cycles["useful"] / total,
        packets * EXTRA_CYCLES / total,
        packets * own_per_packet / total,
        (cycles["useful"] + tax) / total,
    )


def judge(mode: str, utilisation: float, rounds: list[Round]) -> bool:
    """Prints the figures of a mode and utilisation; True when they are within the tolerances."""
    name = f"{mode}_{utilisation * 100:.0f}"
    print_ratio(f"useful_{name}", [one.useful / (one.known + one.own) for one in rounds])
    whole = print_ratio(f"whole_{name}", [one.whole for one in rounds])
    above_known = median_estimate([one.useful - one.known for one in rounds]).value
    above_own = median_estimate([one.useful - one.known - one.own for one in rounds]).value
    known = median_estimate([one.known for one in rounds]).value
    print(f"{name}: known {known:.4f}, useful {above_known:+.4f}, of that not own {above_own:+.4f}", file=sys.stderr)
    explained = above_known >= -USEFUL_TOLERANCE and above_own <= USEFUL_TOLERANCE
    return explained and abs(whole.value - 1) <= WHOLE_TOLERANCE


def main() -> int:
    rounds: dict[tuple[str, float], list[Round]] = {(mode, u): [] for mode in MODES for u in UTILISATIONS}
    with dut_node(feed="wire") as node:
        for _ in range(ROUNDS):
            for (mode, utilisation), done in rounds.items():
                done.append(one_round(node, mode, utilisation))
    verdicts = [judge(mode, utilisation, done) for (mode, utilisation), done in rounds.items()]
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"accounting_truth: {error}")
