# SPDX-License-Identifier: BSD-3-Clause
"""Give the result of a simulation with the keys of a node's result (docs/internals/node-protocol.md).

Values that a model does not give are absent with the reason.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pollscope.base.fields import FCS_BYTES
from pollscope.base.names import SEND_NOTHING
from pollscope.models.costs import Cost, Costs
from pollscope.models.points import OVERLOAD
from pollscope.models.simulate import Core, Outcome, PollingCores, QwaitCores
from pollscope.spec.lcores import has_generator, share_queues
from pollscope.spec.model import Parameters
from pollscope.stats.histogram import Histogram

RX_PORT, TX_PORT, BACK_PORT = "model_rx", "model_tx", "model_back"
_NO_CACHES = ("l1d_loads", "l1d_misses", "l2_misses", "llc_loads", "llc_misses")


def config_of(params: Parameters) -> dict[str, Any]:
    """Return the ports and roles of a modelled point, as far as metrics need them."""
    config: dict[str, Any] = {
        "ports": [{"name": RX_PORT, "rx_queues": params.queues}],
        "dut": {"rx_port": RX_PORT, "tx_port": TX_PORT, "workload": params.workload},
    }
    if has_generator(params):
        config["gen"] = {"rx_port": BACK_PORT if params.generator_receives else None}
    return config


class Ipc(NamedTuple):
    """Instructions per cycle of a polling core: while it receives, processes and sends, and otherwise."""

    useful: float
    polling: float


class CoreActivity(NamedTuple):
    """Means over the DUT's cores: instructions per cycle, and the share of time in which they wait without polling."""

    ipc: float
    halted_share: float


def activity(result: Mapping[str, Any], ipc: Ipc) -> CoreActivity:
    """Return how busy the cores of a result were; of one that waits, only its useful work is known."""
    lcores = result["dut"]["lcores"]
    parts = [each["cycles"] for each in lcores]
    total = sum(part["total"] for part in parts)
    useful = sum(part["useful"] for part in parts)
    waiting = sum(each["waiting"]["cycles"] for each in lcores if "waiting" in each)
    if not any("waiting" in each for each in lcores):
        return CoreActivity((useful * ipc.useful + (total - useful) * ipc.polling) / total, 0.0)
    return CoreActivity((total - waiting) * ipc.useful / total, waiting / total)


def beside(params: Parameters, costs: Costs, found: CoreActivity, cycles: float) -> dict[str, Any]:
    """Return the record's `corunner`: its IPC is the issue width that the DUT leaves to its SMT sibling.

    Source: the width is shared instruction by instruction (HyperPlane, section V-D, states the direction only).
    """
    alone = _value(costs.corunner_ipc)
    left = 1 - found.ipc / _value(costs.issue_width) if params.corunner_place == "smt-sibling" else 1.0
    unknown = {"absent": "the model gives a co-runner's IPC, not its progress"}
    pmu = {"instructions": max(0.0, left) * alone * cycles, "cycles": cycles}
    worker = {"name": "corunner", "unit": "iterations", "done": unknown, "waited_ns": unknown, "pmu": pmu}
    return {"result": {"workers": [worker]}}


def power_w(params: Parameters, costs: Costs, found: CoreActivity) -> float | dict[str, str]:
    """Return the power of the DUT's cores: static and dynamic; a waiting core draws less in C1 (idle: sleep)."""
    if costs.static_power_w is None or costs.power_w_per_ipc is None:
        return {"absent": "the model's file has no static_power_w and power_w_per_ipc"}
    static, per_ipc = _value(costs.static_power_w), _value(costs.power_w_per_ipc)
    halted = 0.0 if params.idle == "sleep" or costs.halted_power_w is None else _value(costs.halted_power_w) - static
    return params.cores * (static + per_ipc * found.ipc + found.halted_share * halted)


def _value(cost: Cost | None) -> float:
    return 0.0 if cost is None or cost.value is None else cost.value


def result_of(
    params: Parameters, system: PollingCores, outcome: Outcome, tsc_hz: int, ipc: Ipc | None = None
) -> dict[str, Any]:
    """Return the result of one trial.

    Args:
        params: of the point.
        system: the simulated system.
        outcome: of the simulation.
        tsc_hz: cycles per second of the modelled machine.
        ipc: of its cores; None: not known.
    """
    window = _window(outcome.window_ns, tsc_hz)
    lcores = [_lcore(params, system, number, core, window, ipc) for number, core in enumerate(outcome.cores)]
    result = _result(window, lcores, outcome.arrived - outcome.refused, outcome.refused)
    if not has_generator(params):
        return result
    dropped = outcome.refused + sum(core.ring_full for core in outcome.cores)
    return result | _generator(params, outcome.arrived, dropped, _histogram(outcome.times), window)


def _window(window_ns: float, tsc_hz: int) -> dict[str, int]:
    return {"start_tsc": 0, "end_tsc": round(window_ns / 1e9 * tsc_hz), "tsc_hz": tsc_hz}


def _result(window: dict[str, int], lcores: list[dict[str, Any]], received: int, missed: int) -> dict[str, Any]:
    """Return the result without the generator's part."""
    stats = {"ipackets": received, "imissed": missed, "rx_nombuf": 0}
    return {"state": "done", "window": window, "dut": {"lcores": lcores}, "ports": {RX_PORT: {"stats": stats}}}


def servers_result(
    params: Parameters, window_ns: float, tsc_hz: int, *, outcome: Outcome | None = None, taken: float = 0.0
) -> dict[str, Any]:
    """Return the result of a trial of servers that do not poll.

    Args:
        params: of the point.
        window_ns: of the trial.
        tsc_hz: cycles per second of the modelled machine.
        outcome: of the simulation.
        taken: for saturated servers, without simulation: packets that they take in the window, of OVERLOAD times as
            many.
    """
    received = round(taken) if outcome is None else outcome.arrived
    offered = round(taken * OVERLOAD) if outcome is None else outcome.arrived
    window = _window(window_ns, tsc_hz)
    shares = [received * (core + 1) // params.cores - received * core // params.cores for core in range(params.cores)]
    lcores = [
        {"lcore": 1 + core, "cpu": core, "role": "worker", "rx_packets": share, "tx_packets": share}
        for core, share in enumerate(shares)
    ]
    times = _histogram(outcome.times) if outcome else {"absent": "saturated servers have no steady state"}
    dropped = offered - received
    return _result(window, lcores, received, dropped) | _generator(params, offered, dropped, times, window)


def sent_late(result: dict[str, Any], due_pps: float | None, sent_pps: float | None) -> dict[str, Any]:
    """Return the result of a generator that sent less than was due, so that part of it was not sent in time."""
    if due_pps and sent_pps and sent_pps < due_pps:
        for generator in result["gen"]["lcores"]:
            generator["intended"] = round(generator["sent"] * due_pps / sent_pps)
            generator["unsent"] = generator["intended"] - generator["sent"]
    return result


def notified_result(
    params: Parameters, system: QwaitCores, outcome: Outcome, tsc_hz: int, ipc: Ipc | None = None
) -> dict[str, Any]:
    """Return the result of a trial of notified cores.

    Args:
        params: of the point.
        system: the simulated system.
        outcome: of the simulation.
        tsc_hz: cycles per second of the modelled machine.
        ipc: of its cores, which do nothing while they wait; None: not known.
    """
    window = _window(outcome.window_ns, tsc_hz)
    # Packets in a queue were not taken yet: at saturation the queues fill for longer than a short window.
    taken, cycles = outcome.served or 0, float(window["end_tsc"])
    shares = [taken * (core + 1) // system.cores - taken * core // system.cores for core in range(system.cores)]
    busy = min(1.0, outcome.busy_share or 0.0) * cycles
    sends = params.workload not in SEND_NOTHING
    lcores = []
    for core, share in enumerate(shares):
        qwait = min(busy, share * system.qwait_ns / 1e9 * tsc_hz)
        parts = {"total": cycles, "useful": busy - qwait, "empty_poll": 0.0, "loop": qwait, "instrumentation": 0.0}
        lcores.append(
            {
                "lcore": 1 + core,
                "cpu": core,
                "role": "worker",
                "accounting": "model",
                "cycles": parts,
                "waiting": {"cycles": cycles - busy},
                "interruptions": {"count": 0, "cycles": 0},
                "pmu": _counters({"total": cycles, "useful": busy, "waiting": cycles - busy}, ipc),
                "rx_packets": share,
                "rx_bytes": _bytes(params, share),
                "tx_packets": share if sends else 0,
                "tx_bytes": _bytes(params, share if sends else 0),
                "tx_dropped": 0,
                "workload_dropped": 0 if sends else share,
            }
        )
    sent = _generator(params, outcome.arrived, outcome.refused, _histogram(outcome.times), window)
    return _result(window, lcores, taken, outcome.refused) | sent


def _lcore(
    params: Parameters, system: PollingCores, number: int, core: Core, window: dict[str, int], ipc: Ipc | None
) -> dict[str, Any]:
    dispatcher = number >= system.cores
    reads_ring = system.dispatchers > 0 and not dispatcher
    sends = not dispatcher and params.workload not in SEND_NOTHING
    polls = {"empty": core.empty_polls, "partial": core.partial_polls, "full": core.full_polls}
    queues = 1 if reads_ring else _queues_of(system, number - system.cores if dispatcher else number)
    cycles = _cycles(core, window)
    races = {"absent": "the model does not give lost reservations"} if share_queues(params) else 0
    found: dict[str, Any] = {
        "lcore": 1 + number,
        "cpu": number,
        "role": "dispatcher" if dispatcher else "worker",
        "source": "ring" if reads_ring else "rx-queues",
        "queues": queues,
        "accounting": "model",
        "cycles": cycles,
        "interruptions": {"count": 0, "cycles": 0},
        "polls": {**polls, "race_lost": races, "refill_failed": 0},
        "iterations": sum(polls.values()) // queues,
        "idle_iterations": {"absent": "a model does not follow sweeps one by one"},
        "rx_packets": core.taken,
        "rx_bytes": _bytes(params, core.taken),
        "pmu": _counters(cycles, ipc),
        "os": {"absent": "a model has no operating system"},
    }
    if dispatcher:
        return found | {"handed_packets": core.taken - core.ring_full, "ring_full": core.ring_full}
    sent = core.sent if sends else 0
    return found | {
        "tx_packets": sent,
        "tx_bytes": _bytes(params, sent),
        "tx_dropped": 0,
        "workload_dropped": core.sent - sent,
    }


def _queues_of(system: PollingCores, reader: int) -> int:
    if system.shared and not system.dispatchers:
        return system.queues
    return len(range(reader, system.queues, system.dispatchers or system.cores))


def _cycles(core: Core, window: dict[str, int]) -> dict[str, Any]:
    """Count waits for a ring as loop overhead (docs/validity.md)."""
    per_ns = window["tsc_hz"] / 1e9
    empty, loop = core.idle_ns * per_ns, core.waits_ns * per_ns
    parts = {"absent": "the model does not separate receiving, processing and sending"}
    return {
        "total": window["end_tsc"],
        "useful": max(0.0, window["end_tsc"] - empty - loop),
        "empty_poll": empty,
        "loop": loop,
        "instrumentation": 0,
        **dict.fromkeys(("receive", "process", "transmit"), parts),
    }


def _counters(cycles: Mapping[str, Any], ipc: Ipc | None) -> dict[str, Any]:
    """Return instructions and core cycles if the file has IPCs; a core cycle is a TSC cycle."""
    if ipc is None:
        return {"absent": "a model has no processor counters, and its file no useful_ipc and polling_ipc"}
    useful = cycles["useful"]
    polling = cycles["total"] - useful - cycles.get("waiting", 0.0)
    scopes = {
        "useful": (useful * ipc.useful, useful),
        "polling": (polling * ipc.polling, polling),
        "window": (useful * ipc.useful + polling * ipc.polling, cycles["total"]),
    }
    others = {name: {"absent": "a model has no caches whose events could be counted"} for name in _NO_CACHES}
    counted = {name: {"instructions": count, "cycles": of, **others} for name, (count, of) in scopes.items()}
    return {**counted, "multiplexed_share": 0.0}


def _bytes(params: Parameters, packets: int) -> int | dict[str, str]:
    if isinstance(params.frame, int):
        return packets * (params.frame - FCS_BYTES)
    return {"absent": "the model does not draw frame sizes"}


def _generator(
    params: Parameters, sent: int, dropped: int, times: dict[str, Any], window: dict[str, int]
) -> dict[str, Any]:
    """Return the result's `gen`: it sends on time as much as it can, and finally receives all packets that were not
    dropped.
    """
    order = {"absent": "the model does not follow the order of packets"}
    found: dict[str, Any] = {
        "lcore": 0,
        "cpu": -1,
        "intended": sent,
        "sent": sent,
        "unsent": 0,
        "duration_tsc": window["end_tsc"],
        "total": {"sent": sent, "rx_packets": max(0, sent - dropped)},
        "sequence": {"duplicated": 0, "reordered": order, "flows": order},
        "host_gaps": {"absent": "a model has no host"},
        "nic_stamps": {"absent": "a model has no NIC"},
        "lateness_ns": {"absent": "a model's generator sends everything on time"},
    }
    if params.generator_receives and params.workload not in SEND_NOTHING:
        found["latency_ns"] = {"from_intended": times, "from_sent": times}
    return {"gen": {"lcores": [found]}}


def _histogram(times: Histogram) -> dict[str, Any]:
    found: dict[str, Any] = {
        "unit": times.unit,
        "lowest": times.layout.lowest,
        "highest": times.layout.highest,
        "significant_digits": times.layout.significant_digits,
        "total": times.samples - times.refused,
        "sum": times.total_value,
        "counts": [list(each) for each in times.pairs()],
    }
    found |= {"min": times.smallest, "max": times.largest} if found["total"] else {}
    return found | ({"refused": times.refused} if times.refused else {})
