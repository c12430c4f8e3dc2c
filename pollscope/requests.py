# SPDX-License-Identifier: BSD-3-Clause
"""From the parameters of a point to the requests of the node protocol (docs/node-protocol.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pollscope.spec.fields import frame_mix

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Wiring:
    """Lcores and port names of a testbed: the generator sends on `gen_tx`, the DUT receives on `dut_rx`, and back."""

    generator_lcore: int
    dut_lcores: Sequence[int]
    gen_tx: str
    dut_rx: str
    dut_tx: str
    gen_rx: str


def has_generator(params: Params) -> bool:
    """Whether a generator lcore sends; with `feed: infinite` the virtual NIC itself makes the packets."""
    return bool(params["feed"] == "wire")


def configure_request(params: Params, wiring: Wiring) -> dict[str, Any]:
    """The `configure` request of a point, without `cmd`."""
    request = {"ports": _ports(params, wiring), "dut": _dut(params, wiring)}
    return {**request, "gen": _generator(params, wiring)} if has_generator(params) else request


def _ports(params: Params, wiring: Wiring) -> list[dict[str, Any]]:
    both = {"rx_desc": params["rx_desc"], "tx_desc": params["tx_desc"], "mtu": params["mtu"]}
    queues = {
        wiring.gen_tx: (1, 1),
        wiring.dut_rx: (params["queues"], 1),
        wiring.dut_tx: (1, params["cores"]),
        wiring.gen_rx: (1, 1),
    }
    return [{"name": name, "rx_queues": rx, "tx_queues": tx, **both} for name, (rx, tx) in queues.items()]


def _dut(params: Params, wiring: Wiring) -> dict[str, Any]:
    same = (
        "organisation",
        "notification",
        "workload",
        "extra_cycles",
        "burst",
        "accounting",
        "sample_every",
        "longest",
    )
    routes = {"routes": params["routes"]} if params["workload"] == "l3fwd-lpm" else {}
    lcores = list(wiring.dut_lcores[: params["cores"]])
    ports = {"rx_port": wiring.dut_rx, "tx_port": wiring.dut_tx}
    return {"lcores": lcores, **ports, **{name: params[name] for name in same}, **routes}


def _generator(params: Params, wiring: Wiring) -> dict[str, Any]:
    same = ("flows", "shape", "shape_seed", "concentrated_share", "concentrated_queues", "background_probability")
    return {
        "lcore": wiring.generator_lcore,
        "tx_port": wiring.gen_tx,
        "rx_port": wiring.gen_rx if params["generator_receives"] else None,
        "target_port": wiring.dut_rx,
        "frame": frame_mix(params["frame"]),
        **{name: params[name] for name in same},
        "arrivals": params["arrivals"],
        "seed": params["arrivals_seed"],
        "burst": params["generator_burst"],
    }


def rate_request(params: Params, maximum_pps: float | None) -> dict[str, Any]:
    """The `rate` of a `start` request.

    Args:
        params: the point's parameters.
        maximum_pps: what `load_of_max` refers to; needed only when that is above 0.
    """
    if params["saturate"]:
        return {"saturate": True}
    if params["load_of_line"] is not None:
        return {"line_share": params["load_of_line"]}
    if params["load_pps"] is not None:
        return {"pps": params["load_pps"]}
    share = params["load_of_max"]
    assert share == 0 or maximum_pps is not None, "BUG: load_of_max before its maximum was measured"
    return {"pps": share * (maximum_pps or 0.0)}
