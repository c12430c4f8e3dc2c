#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare the speed of the simulation with SimPy and Ciw: customers per second of CPU time, on one core, in turns.

The same models with random numbers drawn in the loop: M/M/1 and M/M/16 at utilisation 0.8. Prints both rates, then
`ratio model_mm1_over_simpy MEDIAN LOW HIGH N` and `ratio model_mm16_over_ciw MEDIAN LOW HIGH N`. Goal: at least 250.
Compilation is left out; it happens once per machine. Ends with 1 when a goal is missed.
"""

import random
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

import ciw
import simpy
from ratio import Goal, between, main_of

from pollscope.models.simulate import Arrivals, Service, SharedServers, simulate

GOAL = Goal(least=250)
ROUNDS = 8
UTILISATION = 0.8
SERVICE_NS = 1000.0
OURS = 4_000_000
THEIRS = {"simpy": 60_000, "ciw": 20_000}


def rate_pps(servers: int) -> float:
    return UTILISATION * servers * 1e9 / SERVICE_NS


def ours(servers: int) -> float:
    """Return customers per second of CPU time."""
    system = SharedServers(Arrivals(rate_pps(servers)), Service(SERVICE_NS, "exponential"), servers, quantity="wait")
    began = time.process_time()
    outcome = simulate(system, window_ns=OURS / rate_pps(servers) * 1e9, workers=1)
    return outcome.arrived / (time.process_time() - began)


def with_simpy() -> float:
    """Run M/M/1 in SimPy 4: one process per customer, waits summed up."""
    environment = simpy.Environment()
    server = simpy.Resource(environment, 1)
    waits = 0.0

    def customer() -> Generator[Any, Any, None]:
        nonlocal waits
        came = environment.now
        with server.request() as turn:
            yield turn
            waits += environment.now - came
            yield environment.timeout(random.expovariate(1.0))

    def source() -> Generator[Any, Any, None]:
        for _ in range(THEIRS["simpy"]):
            yield environment.timeout(random.expovariate(UTILISATION))
            environment.process(customer())

    environment.process(source())
    began = time.process_time()
    environment.run()
    return THEIRS["simpy"] / (time.process_time() - began)


def with_ciw() -> float:
    """Run M/M/16 in Ciw 3."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(16 * UTILISATION)],
        service_distributions=[ciw.dists.Exponential(1.0)],
        number_of_servers=[16],
    )
    simulation = ciw.Simulation(network)
    began = time.process_time()
    simulation.simulate_until_max_customers(THEIRS["ciw"])
    return THEIRS["ciw"] / (time.process_time() - began)


def compared(servers: int, theirs: Callable[[], float]) -> list[float]:
    ours(servers)  # compiled, and caches warm
    found = []
    for other, before, after in between(ROUNDS, lambda: ours(servers), lambda _: theirs()):
        mine = (before + after) / 2
        print(f"# {mine / 1e6:.1f} M/s, {other / 1e6:.4f} M/s", file=sys.stderr)
        found.append(mine / other)
    return found


def measure() -> dict[str, list[float]]:
    return {"model_mm1_over_simpy": compared(1, with_simpy), "model_mm16_over_ciw": compared(16, with_ciw)}


if __name__ == "__main__":
    main_of(__doc__, measure, GOAL)
