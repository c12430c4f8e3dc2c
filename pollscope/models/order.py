# SPDX-License-Identifier: BSD-3-Clause
"""Compute the order in which packets leave several cores that take them from one queue."""

from bisect import bisect_right
from heapq import heapreplace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from pollscope.base.errors import UsageError
from pollscope.models.checked import Count, checked, model
from pollscope.models.simulate import Service
from pollscope.stats.estimates import Estimate, mean_estimate

PARTS, PACKETS = 8, 20_000


@model
class OneQueue:
    """Cores at one receive queue that each take up to `burst` packets, work on them, and send them together.

    Attributes:
        cores: how many.
        service: of a packet.
        load: arrivals (single, at random) as a share of the cores' capacity; 1: packets always wait. burst: most
            packets that a core takes at once.
        flows: packets belong to so many flows, at random.
    """

    cores: Count
    service: Service
    load: Annotated[float, Field(gt=0, le=1)] = 1.0
    burst: Count = 1
    flows: Count = 1

    def __post_init__(self) -> None:
        if not self.service.mean_ns:
            raise UsageError("is 0, allowed is a number above 0", "OneQueue: service_ns")


def reordered_share(system: OneQueue, seed: int = 1) -> Estimate:
    """Simulate the share of packets that leave after a later one of their flow (RFC 4737), of 8 x 20,000 packets.

    Returns:
        Mean and 95 % interval of independent simulations.
    """
    parts = np.random.SeedSequence(seed).spawn(PARTS)
    return mean_estimate([_share(system, np.random.Generator(np.random.PCG64(part))) for part in parts])


def _share(system: OneQueue, random: np.random.Generator) -> float:
    flow = random.integers(system.flows, size=PACKETS)
    # Packets that leave together leave in their order; then flow by flow, each in the order of leaving.
    order = np.lexsort((np.arange(PACKETS), _departures_ns(system, random)))
    order = order[np.argsort(flow[order], kind="stable")]
    numbered = flow[order] * PACKETS + order
    return float(np.count_nonzero(numbered < np.maximum.accumulate(numbered))) / PACKETS


def _departures_ns(system: OneQueue, random: np.random.Generator) -> NDArray[np.float64]:
    """Return when each packet leaves; the core that becomes free first takes the next packets."""
    service_ns = _services_ns(system.service, random)
    done_ns = np.concatenate(([0.0], np.cumsum(service_ns)))
    arrives_ns, free_ns = np.zeros(PACKETS), np.zeros(system.cores)
    if system.load < 1:
        gap_ns = float(service_ns.mean()) / (system.load * system.cores)
        arrives_ns = np.cumsum(random.exponential(gap_ns, PACKETS))
    else:  # cores that began together would stay synchronised with fixed service times
        free_ns = random.random(system.cores) * system.service.mean_ns * system.burst
    free, arrives, left_ns, first = sorted(free_ns.tolist()), arrives_ns.tolist(), np.empty(PACKETS), 0
    while first < PACKETS:
        begins_ns = max(free[0], arrives[first])
        end = min(bisect_right(arrives, begins_ns, first), first + system.burst)
        leaves_ns = begins_ns + float(done_ns[end] - done_ns[first])
        heapreplace(free, leaves_ns)
        left_ns[first:end] = leaves_ns
        first = end
    return left_ns


def _services_ns(service: Service, random: np.random.Generator) -> NDArray[np.float64]:
    if service.kind == "exponential":
        return random.exponential(service.mean_ns, PACKETS)
    fixed = np.full(PACKETS, service.mean_ns)
    if service.kind == "two-lengths":
        fixed[random.random(PACKETS) < service.long_probability] = service.long_ns
    return fixed


@checked
def saturated_exponential(cores: Count) -> float:
    """Return the exact share for one backlogged flow, exponential service and one packet at a time.

    A packet begins when all other cores hold earlier ones. All are equally likely to end next: itself, an earlier one,
    whose core then takes a later one, or a later one, which overtakes it.
    """
    in_order = 1 / cores
    for later in range(cores - 2, -1, -1):
        in_order = (1 + (cores - 1 - later) * in_order) / cores
    return 1 - in_order
