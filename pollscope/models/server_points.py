# SPDX-License-Identifier: BSD-3-Clause
"""Translate a point of a spec into a queueing system: servers that begin as soon as they are free.

The service time of a packet is what the spec adds: extra cycles and hiccups. Polls, bursts and sending take no time.
"""

from pollscope.base.units import human_rate
from pollscope.models.points import hiccups, limit, mean_service_ns, service
from pollscope.models.simulate import Arrivals, SharedServers
from pollscope.spec.model import Parameters


def refusal(params: Parameters, tsc_hz: float) -> str | None:
    """Return why the theory does not apply to a point; None if it does."""
    if reason := limit("servers", params):
        return reason
    if mean_service_ns(params, tsc_hz) == 0:
        return "the service time is extra_cycles, which is 0"
    if params.load_of_max is not None and params.load_of_max >= 1:
        return f"at {params.load_of_max:.0%} of the servers' capacity, queues grow without bound"
    if params.load_pps == 0:
        return "servers without traffic do nothing"
    if params.load_pps is None or params.load_pps < (most := capacity_pps(params, tsc_hz)):
        return None
    return f"{human_rate(params.load_pps)} is not below the servers' capacity of {human_rate(most)}"


def capacity_pps(params: Parameters, tsc_hz: float) -> float:
    """Return the rates of servers that are never idle."""
    return params.cores * 1e9 / mean_service_ns(params, tsc_hz)


def system(params: Parameters, tsc_hz: float, offered_pps: float) -> tuple[SharedServers, int]:
    """Return the system that simulates a point that was not refused, and its number of independent parts.

    Of equal queues, one is simulated repeatedly. With corec all servers take the oldest packet of any queue, and the
    window is divided into as many parts.

    Args:
        params: of the point.
        tsc_hz: of the machine, for what a spec gives in cycles.
        offered_pps: offered load of all queues together.
    """
    servers = params.cores if params.organisation == "corec" else 1
    arrivals = Arrivals(offered_pps * servers / params.cores)
    return SharedServers(arrivals, service(params, tsc_hz), servers, hiccups(params)), params.cores
