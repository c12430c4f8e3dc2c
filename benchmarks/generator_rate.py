#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure how well the generator keeps its rate: 0.1, 1 and 3 Mpps at constant distance, and 0.1 Mpps Poisson.

One lcore sends 64-byte frames into net_crossover0_a and receives them at net_crossover0_b. Rates alternate.

Prints, each with the 95 % interval of the median over N trials,
`ratio generator_rate_R MEDIAN LOW HIGH N`: packets that left in the window over R times the window, less the time
beyond the first 100 us (late_max_ns) of every gap in which the host took the CPU. Goal: 0.999 to 1.001;
`ratio generator_poisson MEDIAN LOW HIGH N`: Kolmogorov-Smirnov distance of 10000 inter-departure times from the
exponential distribution, over the distance that 1 in 100 truly exponential samples exceeds. Departures next to a gap of
the host (later than 1 us) are left out. Goal: at most 1. Ends with 1 when a goal is missed.
"""

import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from eal import LIMIT_S, memory, start_node, trial
from ratio import Goal, options, run_main
from scipy import stats

from pollscope.node.client import NodeClient
from pollscope.stats.estimates import median_estimate

TRIALS = 15
RATES_PPS = {"100kpps": 1e5, "1Mpps": 1e6, "3Mpps": 3e6}
RATE_GOAL, POISSON_GOAL = Goal(0.999, 1.001), Goal(most=1)
WINDOW_S = 0.4
LATE_MAX_S = 100e-6  # the default of late_max_ns
POISSON_PPS, SAMPLES, LATE_S = 1e5, 10_000, 1e-6


def sent_in_trial(client: NodeClient, pps: float, **gen: Any) -> dict[str, Any]:
    """Return the generator's counters of one trial."""
    send, receive = "net_crossover0_a", "net_crossover0_b"
    ports = [{"name": name, "rx_queues": 1, "tx_queues": 1} for name in (send, receive)]
    whole = {"lcores": [1], "tx_port": send, "rx_port": receive, "target_port": receive, **gen}
    client.request("configure", LIMIT_S, ports=ports, gen=whole)
    times = {"warmup_ns": 20_000_000, "window_ns": int(WINDOW_S * 1e9), "drain_max_ns": 10_000_000}
    lcore: dict[str, Any] = trial(client, {"pps": pps}, **times)["gen"]["lcores"][0]
    return lcore


def rate_ratio(client: NodeClient, pps: float) -> float:
    lcore = sent_in_trial(client, pps)
    gaps = lcore["host_gaps"]
    taken_s = gaps["in_over_100us_ns"] / 1e9 - gaps["over_100us"] * LATE_MAX_S
    print(f"{pps:g} pps: {lcore['sent']} sent, {lcore['unsent']} unsent, host took {taken_s:.6f} s", file=sys.stderr)
    return float(lcore["sent"] / (pps * (WINDOW_S - taken_s)))


def poisson_ratio(client: NodeClient, seed: int) -> float:
    departures = int(POISSON_PPS * WINDOW_S)
    lcore = sent_in_trial(client, POISSON_PPS, arrivals="poisson", seed=seed, departures=departures)
    sent, lateness = np.array(lcore["departures"], dtype=float).T / client.hello["tsc_hz"]
    on_time = lateness < LATE_S
    gaps = np.diff(sent)[on_time[1:] & on_time[:-1]][:SAMPLES]
    distance = stats.kstest(gaps, "expon", args=(0, 1 / POISSON_PPS)).statistic
    return float(distance / stats.kstwo.isf(0.01, len(gaps)))


def measure(client: NodeClient) -> dict[str, list[float]]:
    ratios: dict[str, list[float]] = {f"generator_rate_{name}": [] for name in RATES_PPS}
    ratios["generator_poisson"] = []
    for seed in range(TRIALS):
        for name, pps in RATES_PPS.items():
            ratios[f"generator_rate_{name}"].append(rate_ratio(client, pps))
        ratios["generator_poisson"].append(poisson_ratio(client, seed))
    return ratios


def main() -> int:
    options(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "stderr.log"
        with closing(start_node("0@0,1@1", ["net_crossover0"], memory(512, 512), log)) as client:
            ratios = measure(client)
    estimates = {name: median_estimate(values) for name, values in ratios.items()}
    met = []
    for name, estimate in estimates.items():
        goal = POISSON_GOAL if name == "generator_poisson" else RATE_GOAL
        print(f"ratio {name} {estimate.value:.6f} {estimate.low:.6f} {estimate.high:.6f} {estimate.n}", flush=True)
        print(f"  goal: {goal}", file=sys.stderr)
        met.append(goal.is_met(estimate.value))
    return 0 if all(met) else 1


if __name__ == "__main__":
    run_main(main)
