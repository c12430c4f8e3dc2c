#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure how long row C-F3 takes as a sweep of 100 points, each 99th percentile to an interval of 1 % to either side.

25 loads from 4 to 94 %, 4 and 8 cores, one shared queue and one queue per core. Prints the time, and
`ratio scale_up_sweep_over_60_s VALUE VALUE VALUE 1`: CPU time on two CPUs over the 60 s allowed. Goal: below 1. Ends
with 1 when it is missed.
"""

import sys
import time

import numpy as np
from ratio import options

from pollscope.models.simulate import Arrivals, Service, SharedServers, simulate_until

SERVICE_NS, PERCENT, WITHIN = 1000.0, 99.0, 0.01
LOADS = np.linspace(0.04, 0.94, 25)
CPUS, ALLOWED_S = 2, 60.0


def point(cores: int, shared: bool, load: float, seed: int) -> int:
    """Simulate one point and return the packets of its last simulation."""
    servers = cores if shared else 1
    system = SharedServers(Arrivals(load * servers * 1e9 / SERVICE_NS), Service(SERVICE_NS, "exponential"), servers)
    # About 20 relaxation times of M/M/1, which no M/M/c exceeds.
    warmup_ns = 20 * SERVICE_NS / (1 - load) ** 2
    found = simulate_until(system, PERCENT, WITHIN, warmup_ns, seed)
    assert (found.percentile_ns.high - found.percentile_ns.low) / 2 <= WITHIN * found.percentile_ns.value
    return found.outcome.arrived


def main() -> int:
    options(__doc__).parse_args()
    point(4, True, 0.5, 1)  # compiles
    began, began_cpu = time.perf_counter(), time.process_time()
    points = [(cores, shared, float(load)) for cores in (4, 8) for shared in (False, True) for load in LOADS]
    packets = sum(point(*each, seed=100 * place) for place, each in enumerate(points))
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    print(f"# {len(points)} points, {packets / 1e6:.0f} M packets in their last simulations", file=sys.stderr)
    print(f"# {wall_s:.1f} s, {cpu_s:.1f} s of CPU time", file=sys.stderr)
    share = cpu_s / CPUS / ALLOWED_S
    print(f"ratio scale_up_sweep_over_60_s {share:.3f} {share:.3f} {share:.3f} 1")
    print("  goal: below 1", file=sys.stderr)
    return 0 if share < 1 else 1


if __name__ == "__main__":
    sys.exit(main())
