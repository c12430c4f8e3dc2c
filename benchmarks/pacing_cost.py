#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure what a schedule costs the generator: TSC cycles per packet of constant and Poisson arrivals over saturated
sending.

`build/gen-cost` drives the generator's own loop on one core, without a NIC, with a full burst always due.

Prints `ratio pacing_cost_A MEDIAN LOW HIGH N` for both, with the 95 % interval of the median over N runs. Goals: at
most 2 (constant), 2.6 (Poisson). Ends with 1 when one is missed.
"""

import subprocess
import sys

from eal import built
from ratio import Goal, options, print_ratio, run_main

RUNS = 15
GOALS = {"constant": Goal(most=2.0), "poisson": Goal(most=2.6)}
LIMIT_S = 120.0


def cycles_per_packet() -> dict[str, float]:
    """Return cycles per packet by the kind of sending."""
    output = subprocess.run([built("gen-cost")], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    found = {name: float(cycles) for name, cycles in (line.split() for line in output.splitlines())}
    print("  ".join(f"{name} {cycles:.1f}" for name, cycles in found.items()), file=sys.stderr)
    return found


def main() -> int:
    options(__doc__).parse_args()
    runs = [cycles_per_packet() for _ in range(RUNS)]
    medians = {
        name: print_ratio(f"pacing_cost_{name}", [run[name] / run["saturated"] for run in runs], goal).value
        for name, goal in GOALS.items()
    }
    return 0 if all(goal.is_met(medians[name]) for name, goal in GOALS.items()) else 1


if __name__ == "__main__":
    run_main(main)
