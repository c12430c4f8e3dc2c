# SPDX-License-Identifier: BSD-3-Clause
"""Traffic at saturation with cold queues: those of which a visit finds something with a given probability only.

How much traffic that is depends on how often the queues are visited, and that on the traffic (node-protocol.md,
`shape`). Here a turn over all queues of a reader tells both: what its hot queues take, what its cold ones do.
"""

import math
from dataclasses import dataclass

import numpy as np

from pollscope.spec.model import Parameters


def hot_queues(params: Parameters) -> frozenset[int]:
    """RX queues that are always busy at saturation, drawn as the generator does (node-protocol.md, `shape`)."""
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
    """Tell whether some queues are cold and get packets."""
    partly = params.shape in ("PC", "NC") and 0 < params.background_probability < 1
    return partly and len(hot_queues(params)) < params.queues


def cold_packets(params: Parameters) -> float:
    """Packets that come to a cold queue between two visits, so that one finds something with its probability."""
    return -math.log1p(-params.background_probability)


@dataclass(frozen=True)
class Reader:
    """A core that asks queues in turn, or several that ask the same ones. Times in ns.

    Attributes:
        queues: that it asks.
        empty_poll_ns: a poll that finds nothing; 0 where cores are told which queue has packets.
        busy_poll_ns: a poll that finds packets (or being told of them), beside the packets.
        packet_ns: a packet with all that is done with it.
        per_ready_ns: more of a visit for each queue that is ready.
        burst: packets of a visit at most.
        cores: that ask all of these queues.
    """

    queues: range
    empty_poll_ns: float
    busy_poll_ns: float
    packet_ns: float
    per_ready_ns: float
    burst: int
    cores: int = 1

    def between_busy_polls_ns(self, hot: int, cold: int, cold_each: float, found: float) -> float:
        """From one visit of a queue to the next: a turn over all of them, shared by the cores.

        Args:
            hot: queues that have a burst each.
            cold: the others.
            cold_each: packets that a visit of those takes on average.
            found: share of these visits that find something.
        """
        busy_polls = hot + found * cold
        packets = hot * self.burst + cold_each * cold
        # A cold queue's packet has waited for half a turn on average when it is visited.
        ready = hot + cold_each / 2 * cold
        each_busy_poll_ns = self.busy_poll_ns + ready * self.per_ready_ns
        empty_ns = (1 - found) * cold * self.empty_poll_ns
        return (busy_polls * each_busy_poll_ns + packets * self.packet_ns + empty_ns) / self.cores


@dataclass(frozen=True)
class SaturatingTraffic:
    """Choose rates that keep hot queues backlogged and cold ones cold.

    Attributes:
        rate_pps: of all queues.
        weights: of each queue.
        taken_pps: what readers take of it.
    """

    rate_pps: float
    weights: tuple[float, ...]
    taken_pps: float


def saturating_traffic(
    params: Parameters, readers: list[Reader], overload: float, generator_pps: float | None
) -> SaturatingTraffic:
    """Rates of the queues at saturation.

    Args:
        params: of a point with cold traffic.
        readers: of all its queues.
        overload: what hot queues get, as a multiple of what is taken from them.
        generator_pps: what the generator sends at most; hot queues get what cold ones leave of it.
    """
    hot = hot_queues(params)
    cold_each = min(cold_packets(params), float(params.burst))
    found = min(1.0, params.background_probability if params.burst > 1 else cold_each)
    taken, rates = 0.0, [0.0] * params.queues
    for reader in readers:
        busy = len(hot.intersection(reader.queues))
        turn_ns = reader.between_busy_polls_ns(busy, len(reader.queues) - busy, cold_each, found)
        for queue in reader.queues:
            each = reader.burst if queue in hot else cold_each
            rates[queue] = each / turn_ns * 1e9
            taken += rates[queue]
    hot_pps = sum(rates[queue] for queue in hot)
    most_pps = math.inf if generator_pps is None else generator_pps - (taken - hot_pps)
    share = min(overload, max(0.0, most_pps / hot_pps))
    weights = tuple(rate * share if queue in hot else rate for queue, rate in enumerate(rates))
    return SaturatingTraffic(sum(weights), weights, taken)
