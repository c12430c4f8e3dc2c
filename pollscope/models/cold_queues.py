# SPDX-License-Identifier: BSD-3-Clause
"""Compute the traffic at saturation with cold queues, in which a poll finds packets with a given probability.

The rate of cold queues depends on how often they are polled, and that in turn on the traffic
(docs/internals/node-protocol.md, `shape`). The duration of a sweep over all queues of a reader determines both.
"""

import math
from dataclasses import dataclass

import numpy as np

from pollscope.spec.model import Parameters


def hot_queues(params: Parameters) -> frozenset[int]:
    """Return the queues that are always busy at saturation, drawn as by the generator."""
    number = {
        "FB": params.queues,
        "PC": max(1, round(params.concentrated_share * params.queues)),
        "NC": min(params.queues, params.concentrated_queues),
        "SQ": 1,
    }[params.shape]
    if number == params.queues or (params.shape in ("PC", "NC") and params.background_probability == 1):
        return frozenset(range(params.queues))
    drawn = np.random.Generator(np.random.PCG64(params.shape_seed)).permutation(params.queues)[:number]
    return frozenset(drawn.tolist())


def has_cold_traffic(params: Parameters) -> bool:
    """Return whether some queues are cold and get packets."""
    partly = params.shape in ("PC", "NC") and 0 < params.background_probability < 1
    return partly and len(hot_queues(params)) < params.queues


def cold_packets(params: Parameters) -> float:
    """Return the mean number of arrivals between two polls at which a poll finds packets with the given probability."""
    return -math.log1p(-params.background_probability)


@dataclass(frozen=True)
class Reader:
    """Describe a core that polls queues in turn, or several cores that poll the same queues. Times in ns.

    Attributes:
        queues: queues that it polls.
        empty_poll_ns: cost of an empty poll; 0 for notified cores.
        busy_poll_ns: cost of a busy poll (or of a notification), without the packets.
        packet_ns: cost of a packet, including its processing.
        per_ready_ns: extra cost of a busy poll per ready queue.
        burst: maximum of packets per poll.
        cores: number of cores that poll all of these queues.
    """

    queues: range
    empty_poll_ns: float
    busy_poll_ns: float
    packet_ns: float
    per_ready_ns: float
    burst: int
    cores: int = 1

    def between_busy_polls_ns(self, hot: int, cold: int, cold_each: float, found: float) -> float:
        """Return the time between two polls of a queue: a sweep over all queues, divided by the cores.

        Args:
            hot: number of queues that have a full burst each.
            cold: number of the other queues.
            cold_each: packets that a poll of a cold queue takes on average.
            found: share of polls of cold queues that find packets.
        """
        busy_polls = hot + found * cold
        packets = hot * self.burst + cold_each * cold
        # A packet in a cold queue has waited for half a sweep on average when the queue is polled.
        ready = hot + cold_each / 2 * cold
        each_busy_poll_ns = self.busy_poll_ns + ready * self.per_ready_ns
        empty_ns = (1 - found) * cold * self.empty_poll_ns
        return (busy_polls * each_busy_poll_ns + packets * self.packet_ns + empty_ns) / self.cores


@dataclass(frozen=True)
class SaturatingTraffic:
    """Hold rates that keep hot queues backlogged and cold ones cold.

    Attributes:
        rate_pps: rate of all queues together.
        weights: weight of each queue.
        taken_pps: rate at which the readers take packets.
    """

    rate_pps: float
    weights: tuple[float, ...]
    taken_pps: float


def saturating_traffic(
    params: Parameters, readers: list[Reader], overload: float, generator_pps: float | None
) -> SaturatingTraffic:
    """Return the rates of the queues at saturation.

    Args:
        params: parameters of a point with cold traffic.
        readers: readers of all its queues.
        overload: rate of hot queues, as a multiple of the rate at which packets are taken from them.
        generator_pps: maximum rate of the generator; hot queues get the part that cold ones leave.
    """
    hot = hot_queues(params)
    cold_each = min(cold_packets(params), float(params.burst))
    found = min(1.0, params.background_probability if params.burst > 1 else cold_each)
    taken, rates = 0.0, [0.0] * params.queues
    for reader in readers:
        busy = len(hot.intersection(reader.queues))
        sweep_ns = reader.between_busy_polls_ns(busy, len(reader.queues) - busy, cold_each, found)
        for queue in reader.queues:
            each = reader.burst if queue in hot else cold_each
            rates[queue] = each / sweep_ns * 1e9
            taken += rates[queue]
    hot_pps = sum(rates[queue] for queue in hot)
    most_pps = math.inf if generator_pps is None else generator_pps - (taken - hot_pps)
    share = min(overload, max(0.0, most_pps / hot_pps))
    weights = tuple(rate * share if queue in hot else rate for queue, rate in enumerate(rates))
    return SaturatingTraffic(sum(weights), weights, taken)
