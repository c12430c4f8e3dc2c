# SPDX-License-Identifier: BSD-3-Clause
"""From the parameters of a point to the requests of the node protocol (docs/internals/node-protocol.md)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pollscope.base.fields import delays_ns, frame_mix, weights_of
from pollscope.base.names import WORKLOADS
from pollscope.spec import lcores
from pollscope.spec.model import Parameters

# Seeds of all random choices in the DUT.
DUT_SEEDS = ("service_seed", "hiccup_seed")
QWAIT = ("service_order", "ready_set", "ready_set_sharing", "idle")
SHAPE = ("shape", "shape_seed", "concentrated_share", "concentrated_queues", "background_probability")


@dataclass(frozen=True)
class Wiring:
    """Lcores and port names of a testbed: the generator sends on `gen_tx`, the DUT receives on `dut_rx`, and back.

    There may be more lcores than a point needs: the first ones are taken.
    """

    generator_lcores: Sequence[int]
    dut_lcores: Sequence[int]
    gen_tx: str
    dut_rx: str
    dut_tx: str
    gen_rx: str
    dispatcher_lcores: Sequence[int] = ()


def configure_request(params: Parameters, wiring: Wiring) -> dict[str, Any]:
    """Return the `configure` request of a point, without `cmd`."""
    request = {"ports": _ports(params, wiring), "dut": _dut(params, wiring)}
    if lcores.has_generator(params):
        return {**request, "gen": _generator(params, wiring)}
    if params.feed == "infinite":
        feed = {"port": wiring.dut_rx, **params.only(SHAPE), "seed": params.arrivals_seed}
        return {**request, "feed": feed}
    return request


def generator_request(params: Parameters, wiring: Wiring) -> dict[str, Any]:
    """Return the `configure` request for a generator beside a program that is the DUT, without `cmd`."""
    own = (wiring.gen_tx, wiring.gen_rx)
    ports = [port for port in _ports(params, wiring) if port["name"] in own]
    return {"ports": ports, "gen": _generator(params, wiring)}


def with_seeds_of(params: Parameters, repeat: int) -> Parameters:
    """Return the parameters with other random streams for each repeat, so that repeats are not copies of each other."""
    return params.model_copy(update={name: seed + repeat for name, seed in params.only(DUT_SEEDS).items()})


def _ports(params: Parameters, wiring: Wiring) -> list[dict[str, Any]]:
    both = {"rx_desc": params.rx_desc, "tx_desc": params.tx_desc, "mtu": params.mtu}
    senders = len(_senders(params, wiring))
    wanted = [
        (wiring.gen_tx, 1, senders),
        (wiring.dut_rx, params.queues, 1),
        (wiring.dut_tx, 1, params.cores),
        (wiring.gen_rx, senders, 1),
    ]
    if lcores.has_agent(params):  # it is the other end of the DUT's ports
        wanted = wanted[1:3]
    queues: dict[str, tuple[int, int]] = {}
    for name, rx, tx in wanted:  # one port may have two of these tasks
        before = queues.get(name, (0, 0))
        queues[name] = (max(rx, before[0]), max(tx, before[1]))
    return [
        {"name": name, "rx_queues": rx, "tx_queues": tx, **both, **(_buffers(params) if name == wiring.dut_rx else {})}
        for name, (rx, tx) in queues.items()
    ]


def _buffers(params: Parameters) -> dict[str, Any]:
    if params.rx_buffers == "posted":
        return {}
    return {"buffers": params.rx_buffers, "buffer_pool": params.rx_buffer_pool}


def _dut(params: Parameters, wiring: Wiring) -> dict[str, Any]:
    same = ("organisation", "notification", "workload", "burst", "accounting", "sample_every", "longest")
    return {
        "lcores": list(wiring.dut_lcores[: params.cores]),
        **_dut_ports(params, wiring),
        **params.only(same),
        **(_qwait(params) if params.notification == "qwait" else {}),
        **({"wait_after_ns": params.wait_after} if params.waits_after else {}),
        **_rebalancing(params),
        **_rings(params, wiring),
        **_service(params),
        **_hiccup(params),
    }


def _qwait(params: Parameters) -> dict[str, Any]:
    weights = params.queue_weights
    return {**params.only(QWAIT), **({"queue_weights": list(weights_of(weights))} if weights else {})}


def _dut_ports(params: Parameters, wiring: Wiring) -> dict[str, Any]:
    """Return where the DUT receives and sends, and what a workload needs for it."""
    workload = WORKLOADS[params.workload]
    own = params.only(workload.parameters)
    if workload.receives:
        return {"rx_port": wiring.dut_rx, "tx_port": wiring.dut_tx, **own}
    made = {"frame": frame_mix(params.frame), "flows": params.flows, "routes": params.routes}
    return {"tx_port": wiring.dut_tx, **made, **own}


def _rings(params: Parameters, wiring: Wiring) -> dict[str, Any]:
    count = lcores.dispatchers(params)
    if not count:
        return {}
    # Other rings than that of scale-up have one producer and one consumer: nothing to choose.
    names = ("ring_size", "ring_sync") if params.organisation == "scale-up" else ("ring_size",)
    return {"dispatchers": list(wiring.dispatcher_lcores[:count]), **params.only(names)}


def _rebalancing(params: Parameters) -> dict[str, Any]:
    if params.organisation != "rebalanced":
        return {}
    return {"rebalance_period_ns": params.rebalance_period, "rebalance_threshold": params.rebalance_threshold}


def _service(params: Parameters) -> dict[str, Any]:
    """Return the extra cycles of each packet; `extra_cycles` is the short form of a fixed number."""
    cycles = params.extra_cycles
    kinds: dict[str, dict[str, object]] = {
        "exponential": {"mean_cycles": cycles},
        "bimodal": {
            "short_cycles": cycles,
            "long_cycles": params.service_long_cycles,
            "long_probability": params.service_long_probability,
        },
    }
    kind = params.service_distribution
    if kind == "fixed":
        return {"extra_cycles": cycles}
    return {"service": {"kind": kind, **kinds[kind], "seed": params.service_seed}}


def _hiccup(params: Parameters) -> dict[str, Any]:
    if not params.hiccup_probability:
        return {}
    kind = params.hiccup_distribution
    length = delays_ns(params.hiccup_delays or "") if kind == "list" else params.hiccup_delay
    delay = {"kind": kind, "mean_ns" if kind == "exponential" else "ns": length}
    return {"hiccup": {"probability": params.hiccup_probability, "delay": delay, "seed": params.hiccup_seed}}


def _senders(params: Parameters, wiring: Wiring) -> list[int]:
    """Return the generator's lcores: each has at least one of the flows, and a sleeping generator has one lcore."""
    most = 1 if params.generator_sleep or lcores.has_agent(params) else len(wiring.generator_lcores)
    return list(wiring.generator_lcores[: most if params.trace is not None else min(most, params.flows)])


def _generator(params: Parameters, wiring: Wiring) -> dict[str, Any]:
    return {
        "lcores": _senders(params, wiring),
        **_ends(params, wiring),
        "target_port": wiring.dut_rx,
        "routes": params.routes,  # destinations outside the DUT's table would be dropped there
        **_packets(params),
        **params.only(SHAPE),
        "busy_poll_packets": params.burst,
        "arrivals": params.arrivals,
        **_pattern(params),
        "seed": params.arrivals_seed,
        "burst": params.generator_burst,
        **({"sleep_ns": params.generator_sleep} if params.generator_sleep else {}),
        **({"nic_stamps_ns": params.nic_timestamps} if params.nic_timestamps else {}),
    }


def _ends(params: Parameters, wiring: Wiring) -> dict[str, Any]:
    """Return the ports of a generator; an agent empties the DUT's transmit rings even if it does not look at frames."""
    if not lcores.has_agent(params):
        return {"tx_port": wiring.gen_tx, "rx_port": wiring.gen_rx if params.generator_receives else None}
    rx_port = wiring.dut_tx if params.generator_receives else None
    return {"generator": "agent", "rx_port": rx_port, "reads_port": wiring.dut_tx}


def _pattern(params: Parameters) -> dict[str, Any]:
    kinds = {
        "bursts": {"burst_packets": params.burst_packets},
        "on-off": {"on_ns": params.on_time, "off_ns": params.off_time},
    }
    return kinds.get(params.arrivals, {})


def _packets(params: Parameters) -> dict[str, Any]:
    """Return sizes and flows, generated or from a trace; relative paths start at pollscope's working directory."""
    if params.trace is not None:
        return {"trace": str(Path(params.trace).absolute())}
    return {"frame": frame_mix(params.frame), "flows": params.flows}


def floor_request(params: Parameters, wiring: Wiring) -> dict[str, Any]:
    """Return the `configure` request for the path's own floor, without `cmd`.

    No DUT: the generator itself takes its frames from the far end of the pair that it sends on.
    """
    same = params.only(("rx_desc", "tx_desc", "mtu"))
    ports = [{"name": name, "rx_queues": 1, "tx_queues": 1, **same} for name in (wiring.gen_tx, wiring.dut_rx)]
    ends = {"tx_port": wiring.gen_tx, "rx_port": wiring.dut_rx, "target_port": wiring.dut_rx}
    frames = {"frame": frame_mix(params.frame)} if params.trace is None else _packets(params)
    return {"ports": ports, "gen": {"lcores": list(wiring.generator_lcores[:1]), **ends, **frames}}


def rate_request(params: Parameters, maximum_pps: float | None) -> dict[str, Any]:
    """Return the `rate` of a `start` request.

    Args:
        params: the point's parameters.
        maximum_pps: what `load_of_max` refers to; needed only when that is above 0.
    """
    if params.saturate:
        return {"saturate": True}
    if params.load_of_line is not None:
        return {"line_share": params.load_of_line}
    if params.load_of_trace is not None:
        return {"trace_share": params.load_of_trace}
    if params.load_pps is not None:
        return {"pps": params.load_pps}
    share = params.load_of_max or 0.0
    assert share == 0 or maximum_pps is not None, "BUG: load_of_max before its maximum was measured"
    return {"pps": share * (maximum_pps or 0.0)}
