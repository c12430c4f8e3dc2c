# SPDX-License-Identifier: BSD-3-Clause
"""Translate a point of a spec and the costs of a machine into a system for simulation, or say why it cannot be
simulated.
"""

import math
from collections.abc import Callable
from functools import cache

from ruamel.yaml import YAML

from pollscope.base.fields import weights_of
from pollscope.base.names import SHARED_QUEUES
from pollscope.base.paths import data_folder
from pollscope.base.units import human_rate
from pollscope.models.cold_queues import (
    Reader,
    SaturatingTraffic,
    cold_packets,
    has_cold_traffic,
    hot_queues,
    saturating_traffic,
)
from pollscope.models.costs import Cost, Costs
from pollscope.models.simulate import Arrivals, Hiccups, PollingCores, QwaitCores, Service
from pollscope.spec.expressions import Expression, parse
from pollscope.spec.lcores import dispatchers, pollers, share_queues
from pollscope.spec.model import Parameters

# Traffic without a limit is offered at this multiple of the cores' capacity: rings are full.
OVERLOAD = 1.5
_RING_COSTS = ("dispatch_ns", "empty_ring_poll_ns", "ring_busy_poll_ns")
_SHARED_RING_COSTS = ("ring_ns", "ring_packet_ns")
_CORUNNER_COSTS = ("useful_ipc", "polling_ipc", "issue_width", "corunner_ipc")


def refusal(params: Parameters, costs: Costs, tsc_hz: float) -> str | None:
    """Return why the model does not apply to a point; None if it does."""
    return limit("workloads", params) or _cost_missing(params, costs) or _too_few(params, costs, tsc_hz)


def limit(kind: str, params: Parameters) -> str | None:
    """Return why a kind of model does not apply to a point (configs/model-limits.yaml); None if it does."""
    values = {name: "none" if value is None else value for name, value in params}
    values |= {"pollers": pollers(params), "dispatching": dispatchers(params)}
    return next((say.format(**values) for when, say in _limits()[kind] if when(values)), None)


@cache
def _limits() -> dict[str, list[tuple[Expression, str]]]:
    tables = YAML(typ="safe").load(data_folder("configs") / "model-limits.yaml")
    return {kind: [(parse(each["when"]), each["say"]) for each in rows] for kind, rows in tables.items()}


def _cost_missing(params: Parameters, costs: Costs) -> str | None:
    rings = dispatchers(params) > 0
    needed = [*(_RING_COSTS if rings else ())]
    needed += _SHARED_RING_COSTS if rings and params.organisation == "scale-up" else ()
    needed += ["shared_packet_ns"] if params.organisation == "corec" and params.cores > 1 else []
    needed += ["shared_empty_poll_ns"] if params.organisation == "locked" and params.cores > 1 else []
    if params.notification == "qwait":
        needed += ["qwait_ns", *(["per_ready_ns"] if params.ready_set == "linear" else [])]
        needed += ["wake_up_ns"] if params.idle == "sleep" else []
    needed += _CORUNNER_COSTS if params.corunner != "none" else ()
    needed += ["path_ns"] if params.generator_receives else []
    needed += ["generator_pps"] if params.load_pps is None and params.feed == "wire" else []
    missing = [name for name in needed if getattr(costs, name) is None]
    if missing:
        return f"the file has no {' and no '.join(missing)}"
    number = queues_of_a_core(params)
    for name, cost in costs:
        if isinstance(cost, Cost) and not cost.reaches(number):
            return f"{name} is known for {cost.range} queues per core, not for {number}"
    return None


def _too_few(params: Parameters, costs: Costs, tsc_hz: float) -> str | None:
    """Return why the generator cannot keep hot queues backlogged, as the shape requires; None if it can."""
    if params.load_pps is not None or params.feed != "wire" or not has_cold_traffic(params):
        return None
    found = _with_cold_queues(params, costs, tsc_hz)
    if found.rate_pps > found.taken_pps:
        return None
    most = human_rate(costs.generator_pps.at(queues_of_a_core(params)) if costs.generator_pps else 0.0)
    return f"hot queues are not backlogged: {human_rate(found.taken_pps)} are taken, and the generator sends {most}"


def queues_of_a_core(params: Parameters) -> int:
    """Return the number of RX queues that a core polls; with unequal cores, the largest."""
    return math.ceil(params.queues / pollers(params))


def sent_on_schedule_pps(params: Parameters, costs: Costs, due_pps: float | None) -> float | None:
    """Return the rate that a generator sends of a load that is due; None where it has no schedule."""
    turn_ns, sent_ns = _generator_turn(params, costs)
    full_ns = turn_ns + params.generator_burst * sent_ns
    return due_pps if due_pps is None or not full_ns else min(due_pps, params.generator_burst * 1e9 / full_ns)


def _generator_turn(params: Parameters, costs: Costs) -> tuple[float, float]:
    """Return the time of an iteration of a generator with a schedule, and of each of its packets, in ns."""
    cost = _cost_of(params, costs)
    return cost("turn_ns"), cost("sent_ns")


def _cost_of(params: Parameters, costs: Costs) -> Callable[[str], float]:
    """Return a function that gives a cost by name at a core's number of queues; 0 if the file has none."""
    number = queues_of_a_core(params)

    def cost(name: str) -> float:
        found: Cost | None = getattr(costs, name)
        return 0.0 if found is None else found.at(number)

    return cost


def system(params: Parameters, costs: Costs, tsc_hz: float, offered_pps: float | None, batch: int = 1) -> PollingCores:
    """Return the system that simulates a point that was not refused.

    Args:
        params: of the point.
        costs: of the machine.
        tsc_hz: of the machine, for what a spec gives in cycles.
        offered_pps: offered load; None: as much as the feed gives.
        batch: packets that come together below saturation.
    """
    cost = _cost_of(params, costs)
    arrivals, weights = _offered(params, costs, tsc_hz, offered_pps, batch)
    return PollingCores(
        arrivals,
        service(params, tsc_hz),
        cores=params.cores,
        queues=params.queues,
        weights=weights,
        dispatchers=dispatchers(params),
        shared=params.organisation == "scale-up" or params.organisation in SHARED_QUEUES,
        burst=params.burst,
        rx_room=params.rx_desc,
        ring_room=params.ring_size - 1,
        empty_poll_ns=_empty_poll_ns(params, costs),
        busy_poll_ns=cost("busy_poll_ns"),
        packet_ns=cost("packet_ns") + (cost("shared_packet_ns") if share_queues(params) else 0.0),
        dispatch_ns=cost("dispatch_ns"),
        empty_ring_poll_ns=cost("empty_ring_poll_ns") or None,
        ring_busy_poll_ns=cost("ring_busy_poll_ns"),
        ring_ns=cost("ring_ns"),
        ring_packet_ns=cost("ring_packet_ns"),
        ring_contended_ns=cost("ring_contended_ns"),
        path_ns=cost("path_ns"),
        hiccups=hiccups(params),
    )


def _turns(params: Parameters) -> tuple[int, ...] | None:
    if params.queue_weights is None:
        return None
    weights = weights_of(params.queue_weights)
    return tuple(weights[queue % len(weights)] for queue in range(params.queues))


def notified_system(params: Parameters, costs: Costs, tsc_hz: float, offered_pps: float | None) -> QwaitCores:
    """Return the system of a point with notification qwait; times of packets exclude the path."""
    cost, extra = _cost_of(params, costs), service(params, tsc_hz)
    each_ns = cost("busy_poll_ns") + cost("packet_ns")
    long_ns = extra.long_ns + each_ns if extra.kind == "two-lengths" else 0.0
    arrivals, weights = _offered(params, costs, tsc_hz, offered_pps, batch=1, saturating_batch=1)
    return QwaitCores(
        arrivals,
        Service(extra.mean_ns + each_ns, extra.kind, long_ns, extra.long_probability),
        cores=params.cores,
        queues=params.queues,
        ready_sets=pollers(params),
        weights=weights,
        room=params.rx_desc,
        qwait_ns=cost("qwait_ns"),
        notice_ns=cost("notice_ns"),
        wake_up_ns=cost("wake_up_ns") if params.idle == "sleep" else 0.0,
        per_ready_ns=cost("per_ready_ns") if params.ready_set == "linear" else 0.0,
        order="strict" if params.service_order == "strict" else "round-robin",
        turns=_turns(params),
    )


def _offered(
    params: Parameters,
    costs: Costs,
    tsc_hz: float,
    offered_pps: float | None,
    batch: int,
    saturating_batch: int | None = None,
) -> tuple[Arrivals, tuple[float, ...] | None]:
    """Return the arrivals and the weight of each queue; by default batches are the generator's bursts."""
    if offered_pps is not None:
        turn_ns, sent_ns = _generator_turn(params, costs)
        random, most = params.arrivals == "poisson", params.generator_burst
        return Arrivals(offered_pps, random, batch, turn_ns, sent_ns, most), _weights(params)
    rate_pps = _everything_pps(params, costs)
    if rate_pps and has_cold_traffic(params):
        # One by one: a cold queue's packets must not come in bursts.
        found = _with_cold_queues(params, costs, tsc_hz)
        return Arrivals(found.rate_pps, random=False), found.weights
    together = (saturating_batch or params.generator_burst) if rate_pps else batch
    return Arrivals(rate_pps, random=False, batch=together), _weights(params)


def _empty_poll_ns(params: Parameters, costs: Costs) -> float:
    """Return the cost of an empty poll; the head of a shared RX queue is in the cache of the core that polled last."""
    shared = params.organisation == "locked" and params.cores > 1
    cost = costs.shared_empty_poll_ns if shared and costs.shared_empty_poll_ns else costs.empty_poll_ns
    return cost.at(queues_of_a_core(params))


def _with_cold_queues(params: Parameters, costs: Costs, tsc_hz: float) -> SaturatingTraffic:
    """Return the traffic that saturates a point with cold queues."""
    cost, groups = _cost_of(params, costs), pollers(params)
    packet_ns = cost("packet_ns") + mean_service_ns(params, tsc_hz)
    packet_ns += cost("shared_packet_ns") if share_queues(params) else 0.0
    notified = params.notification == "qwait"
    linear_ns = cost("per_ready_ns") if notified and params.ready_set == "linear" else 0.0
    readers = [
        Reader(
            _queues_of(params, group, groups),
            0.0 if notified else _empty_poll_ns(params, costs),
            cost("busy_poll_ns") + (cost("qwait_ns") if notified else 0.0),
            cost("dispatch_ns") if dispatchers(params) else packet_ns,
            linear_ns,
            params.burst,
            1 if dispatchers(params) else params.cores // groups,
        )
        for group in range(groups)
    ]
    limited = params.feed == "wire" and costs.generator_pps is not None
    return saturating_traffic(params, readers, OVERLOAD, cost("generator_pps") if limited else None)


def _queues_of(params: Parameters, group: int, groups: int) -> range:
    """Return the queues of a core: polling cores get them in rotation, notified cores adjacent ones."""
    if params.notification == "qwait":
        each = params.queues // groups
        return range(group * each, (group + 1) * each)
    return range(group, params.queues, groups)


def _everything_pps(params: Parameters, costs: Costs) -> float:
    if params.feed == "none":
        return 0.0
    if params.feed == "wire" and costs.generator_pps is not None:
        return costs.generator_pps.at(queues_of_a_core(params))
    number = queues_of_a_core(params)
    readers = dispatchers(params)
    packet_ns = costs.dispatch_ns.at(number) if readers and costs.dispatch_ns else costs.packet_ns.at(number)
    burst_ns = costs.busy_poll_ns.at(number) + params.burst * packet_ns
    return OVERLOAD * 1e9 * (readers or params.cores) * params.burst / max(burst_ns, 1.0)


def service(params: Parameters, tsc_hz: float) -> Service:
    """Return the time per packet beyond packet_ns: the spec's extra cycles."""
    extra_ns = params.extra_cycles / tsc_hz * 1e9
    if params.service_distribution == "exponential":
        return Service(extra_ns, "exponential")
    if params.service_distribution == "bimodal":
        long_ns = (params.service_long_cycles or 0) / tsc_hz * 1e9
        return Service(extra_ns, "two-lengths", long_ns, params.service_long_probability or 0.0)
    return Service(extra_ns)


def mean_service_ns(params: Parameters, tsc_hz: float) -> float:
    """Return the mean time per packet beyond packet_ns, hiccups included."""
    return service(params, tsc_hz).average_ns + hiccups(params).average_ns


def hiccups(params: Parameters) -> Hiccups:
    """Return the hiccups of the spec."""
    lengths = params.hiccup_delays if params.hiccup_distribution == "list" else (params.hiccup_delay or 0,)
    random = params.hiccup_distribution == "exponential"
    return Hiccups(params.hiccup_probability, tuple(float(each) for each in lengths or (0,)), random)


def _weights(params: Parameters) -> tuple[float, ...] | None:
    """Return the traffic weight of each RX queue below saturation (docs/internals/node-protocol.md, `shape`)."""
    hot = hot_queues(params)
    if len(hot) == params.queues:
        return None
    background = params.shape in ("PC", "NC")
    cold = cold_packets(params) / params.burst if background else 0.0
    return tuple(1.0 if queue in hot else cold for queue in range(params.queues))
