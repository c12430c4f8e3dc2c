#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How much each accounting mode lengthens a poll when a packet comes every k polls: the node's self-test.

Prints `ratio distortion_MODE_K MEDIAN LOW HIGH N`: cycles per poll with the mode over cycles per poll without
instrumentation. K is the distance in polls between two packets, or `never`.
"""

import sys
from typing import Any

from dut_node import dut_node

from pollscope.base.errors import PollscopeError


def bare_cycles(rows: list[dict[str, Any]]) -> dict[int | None, float]:
    """Cycles per poll without instrumentation, by distance."""
    return {row["every_k_polls"]: row["cycles_per_poll"] for row in rows if row["mode"] == "none"}


def main() -> int:
    with dut_node(feed="wire") as node:
        rows = node.selftest()
    bare = bare_cycles(rows)
    for row in rows:
        if row["mode"] == "none":
            continue
        every = row["every_k_polls"]
        ratios = [1 + row[key] / bare[every] for key in ("added_cycles_per_poll", "low", "high")]
        numbers = " ".join(f"{ratio:.4f}" for ratio in ratios)
        print(f"ratio distortion_{row['mode']}_{'never' if every is None else every} {numbers} {row['n']}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"accounting_distortion: {error}")
