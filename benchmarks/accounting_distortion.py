#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure how much each accounting mode lengthens a poll when one poll in k finds a packet (the node's self-test).

Prints `ratio distortion_MODE_K MEDIAN LOW HIGH N`: cycles per poll with the mode over cycles per poll without
accounting. K is the distance between two packets in polls, or `never`. Without --details only the modes `sampled` and
`count` at K = 16 and `never` appear. Goal for `sampled`: at most 1.05. Ends with 1 when it is missed.
"""

import sys
from typing import Any

from dut_node import dut_node
from ratio import Goal, options, run_main

SHOWN = (16, None)
GOAL = Goal(most=1.05)


def bare_cycles(rows: list[dict[str, Any]]) -> dict[int | None, float]:
    """Return the cycles per poll without accounting, by distance."""
    return {row["every_k_polls"]: row["cycles_per_poll"] for row in rows if row["mode"] == "none"}


def main() -> int:
    details = options(__doc__, details=True).parse_args().details
    with dut_node(feed="wire") as node:
        rows = node.selftest()
    bare, met = bare_cycles(rows), True
    for row in rows:
        every, is_shown = row["every_k_polls"], row["every_k_polls"] in SHOWN and row["mode"] != "full"
        if row["mode"] == "none" or not (details or is_shown):
            continue
        ratios = [1 + row[key] / bare[every] for key in ("added_cycles_per_poll", "low", "high")]
        numbers = " ".join(f"{ratio:.4f}" for ratio in ratios)
        print(f"ratio distortion_{row['mode']}_{'never' if every is None else every} {numbers} {row['n']}")
        if is_shown and row["mode"] == "sampled":
            met = met and GOAL.is_met(ratios[0])
            print(f"  goal: {GOAL}", file=sys.stderr)
    return 0 if met else 1


if __name__ == "__main__":
    run_main(main)
