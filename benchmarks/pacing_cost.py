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
from ratio import Goal, main_of

RUNS = 15
GOALS = {"pacing_cost_constant": Goal(most=2.0), "pacing_cost_poisson": Goal(most=2.6)}
LIMIT_S = 120.0


def cycles_per_packet() -> dict[str, float]:
    """Return cycles per packet by the kind of sending."""
    output = subprocess.run([built("gen-cost")], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout
    found = {name: float(cycles) for name, cycles in (line.split() for line in output.splitlines())}
    print("  ".join(f"{name} {cycles:.1f}" for name, cycles in found.items()), file=sys.stderr)
    return found


def measure() -> dict[str, list[float]]:
    runs = [cycles_per_packet() for _ in range(RUNS)]
    kinds = ("constant", "poisson")
    return {f"pacing_cost_{kind}": [run[kind] / run["saturated"] for run in runs] for kind in kinds}


if __name__ == "__main__":
    main_of(__doc__, measure, GOALS)
