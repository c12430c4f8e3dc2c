#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure how long row C-F3 takes as a sweep of 100 points, each 99th percentile to an interval of 1 % to either side.

25 loads from 4 to 94 %, 4 and 8 cores, one shared queue and one queue per core. Prints the time, and
`ratio scale_up_sweep_over_60_s VALUE VALUE VALUE 1`: CPU time on two CPUs over the 60 s allowed. Goal: below 1. Ends
with 1 when it is missed.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from ratio import options

from pollscope.models.simulate import Arrivals, Service, SharedServers, simulate
from pollscope.stats.estimates import Estimate, mean_estimate

SERVICE_NS, PERCENT, WITHIN = 1000.0, 99.0, 0.01
LOADS = np.linspace(0.04, 0.94, 25)
CPUS, ALLOWED_S = 2, 60.0
# Parts of a simulation whose percentiles are samples: with 16 the t quantile is 9 % above the normal one.
PARTS = 16
# Packets of a part of the first pilot.
PILOT_PACKETS = 20_000
# A pilot determines a variance to within a third; the next simulation is longer than required by this factor.
PILOT_MARGIN = 1.3
# A simulation is at most this many times as long as its pilot, whose variance may be a bad guess.
LONGEST_STEP = 64.0


def simulate_until(
    system: SharedServers, percent: float, within: float, warmup_ns: float, seed: int
) -> tuple[Estimate, int]:
    """Simulate until a percentile's 95 % interval is at most `within` (a share) to either side.

    Each simulation is the pilot of the next, longer one and is then thrown away: an interval that ends because it was
    narrow would be so by luck too often (Stein 1945).

    Returns:
        The percentile, and the packets of the last simulation.
    """
    window_ns = PILOT_PACKETS / system.arrivals.rate_pps * 1e9
    while True:
        seeds = range(PARTS * seed, PARTS * (seed + 1))
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            found = list(pool.map(lambda part: simulate(system, window_ns, warmup_ns, part, 1, 1), seeds))  # noqa: B023
        interval = mean_estimate([float(each.times.percentile(percent)) for each in found])
        half = (interval.high - interval.low) / 2 / interval.value
        if half <= within:
            return interval, sum(each.arrived for each in found)
        window_ns *= min(LONGEST_STEP, max(2.0, PILOT_MARGIN * (half / within) ** 2))
        seed += 1


def point(cores: int, shared: bool, load: float, seed: int) -> int:
    """Simulate one point and return the packets of its last simulation."""
    servers = cores if shared else 1
    system = SharedServers(Arrivals(load * servers * 1e9 / SERVICE_NS), Service(SERVICE_NS, "exponential"), servers)
    # About 20 relaxation times of M/M/1, which no M/M/c exceeds.
    warmup_ns = 20 * SERVICE_NS / (1 - load) ** 2
    _, packets = simulate_until(system, PERCENT, WITHIN, warmup_ns, seed)
    return packets


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
