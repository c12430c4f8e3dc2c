# SPDX-License-Identifier: BSD-3-Clause
"""How many DUT lcores a point has, and what they do: dispatchers poll RX queues, workers process packets."""

from collections.abc import Mapping
from typing import Any

from pollscope.base.names import RECEIVE_NOTHING, SHARED_QUEUES

Params = Mapping[str, Any]


def dispatchers(params: Params) -> int:
    """Lcores that only hand packets on; what the spec leaves open follows from the organisation."""
    given = params["dispatchers"]
    if given is not None:
        return int(given)
    return int(params["cores"]) if params["organisation"] == "scale-up" else 0


def pollers(params: Params) -> int:
    """Lcores that share the RX queues out among themselves; or one, where all of them poll every queue."""
    if params["workload"] in RECEIVE_NOTHING:
        return 0
    return dispatchers(params) or (1 if params["organisation"] in SHARED_QUEUES else int(params["cores"]))


def dut_lcores(params: Params) -> int:
    """Workers and dispatchers together."""
    return int(params["cores"]) + dispatchers(params)


def has_generator(params: Params) -> bool:
    """Whether a generator lcore is needed: not where the virtual NIC makes the packets, nor where the DUT does."""
    return bool(params["feed"] == "wire" and params["workload"] not in RECEIVE_NOTHING)
