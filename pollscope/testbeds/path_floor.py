# SPDX-License-Identifier: BSD-3-Clause
"""The path's own floor: the latency that the generator measures when its frames come straight back, with no DUT.

Measured once for each kind of frame that a run sends and stored beside every trial with that frame, so that a reader
sees how much of a latency is the path and the instrument (docs/latency.md).
"""

import json
from typing import Any

from pollscope.base.errors import TrialError
from pollscope.spec.lcores import has_generator
from pollscope.spec.model import Parameters
from pollscope.testbeds.session import Session, TrialRequest

# 10000 packets, far enough apart that none waits for another: enough for a 99.9th percentile.
REQUEST = TrialRequest("floor", 20_000_000, 200_000_000, 50_000_000, {"pps": 50_000.0})
# What the floor depends on.
PARAMETERS = ("frame", "mtu", "rx_desc", "tx_desc", "dma")


class PathFloors:
    """The floors of a run, each measured when the first trial needs it."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}

    def of(self, session: Session, params: Parameters) -> dict[str, Any]:
        """The record's `floor` for these parameters; may leave the session configured without a DUT.

        Raises:
            NodeLost: the node hung or died.
        """
        if not (has_generator(params) and params.generator_receives):
            return {"absent": "the generator does not receive in this set-up"}
        key = json.dumps(params.only(PARAMETERS))
        if key not in self._found:
            self._found[key] = _measured(session, params)
        return self._found[key]


def _measured(session: Session, params: Parameters) -> dict[str, Any]:
    try:
        measured = session.floor(params, REQUEST)
    except TrialError as error:
        return {"absent": f"it could not be measured: {error}"}
    if isinstance(measured, str):
        return {"absent": measured}
    lcores = measured.get("gen", {}).get("lcores", [])
    latencies = [lcore["latency_ns"] for lcore in lcores if "latency_ns" in lcore]
    if not latencies:
        return {"absent": "the node reported no latency"}
    return {"rate": REQUEST.rate, **params.only(PARAMETERS), "latency_ns": latencies[0]}
