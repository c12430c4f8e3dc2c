# SPDX-License-Identifier: BSD-3-Clause
"""The path's own floor: the latency that the generator measures when its frames come straight back, with no DUT.

Measured once for each kind of frame, placement and setting of the knobs in a run and stored beside every trial that
shares them, so that a reader sees how much of a latency is the path and the instrument (docs/validity.md).
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pollscope.base.errors import TrialError
from pollscope.node.client import NodeLost
from pollscope.spec.lcores import dispatchers, has_generator
from pollscope.spec.model import Parameters
from pollscope.testbeds.session import Session, TrialRequest

# 10000 packets, far enough apart that none waits for another: enough for a 99.9th percentile.
_REQUEST = TrialRequest("floor", 20_000_000, 200_000_000, 50_000_000, {"pps": 50_000.0})
# What the floor depends on beside the knobs. The generator's CPU follows from the number of cores and dispatchers and
# their placement; a generator that sleeps has the DUT's.
PARAMETERS = ("mtu", "rx_desc", "tx_desc", "dma", "placement", "cores", "page_size", "generator_sleep")


class PathFloors:
    """The floors of a run, each measured when the first trial needs it."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}

    def of(
        self, session: Session, params: Parameters, knobs: Mapping[str, object] = MappingProxyType({})
    ) -> dict[str, Any]:
        """The record's `floor` for these parameters; may leave the session configured without a DUT.

        Args:
            session: that suits the parameters.
            params: of the point.
            knobs: their settings at this point, which are in place.

        Raises:
            NodeLost: the node hung or died; the floor is absent from then on.
        """
        if not (has_generator(params) and params.generator_receives):
            return {"absent": "the generator does not receive in this set-up"}
        where = _frames(params) | params.only(PARAMETERS) | {"dispatchers": dispatchers(params)}
        where |= {"knobs": dict(knobs)} if knobs else {}
        key = json.dumps(where)
        if key not in self._found:
            try:
                self._found[key] = _measured(session, params, where)
            except NodeLost as error:
                self._found[key] = {"absent": not_measured(error)}
                raise
        return self._found[key]


def _frames(params: Parameters) -> dict[str, Any]:
    """Which frames are sent: those of a trace take the place of the parameter's."""
    return params.only(("frame",) if params.trace is None else ("trace",))


def not_measured(error: TrialError) -> str:
    """Why there is none after an error."""
    return f"it could not be measured: {error}"


def _measured(session: Session, params: Parameters, where: Mapping[str, Any]) -> dict[str, Any]:
    try:
        measured = session.floor(params, _REQUEST)
    except NodeLost:
        raise
    except TrialError as error:
        return {"absent": not_measured(error)}
    if isinstance(measured, str):
        return {"absent": measured}
    lcores = measured.get("gen", {}).get("lcores", [])
    latencies = [lcore["latency_ns"] for lcore in lcores if "latency_ns" in lcore]
    if not latencies:
        return {"absent": "the node reported no latency"}
    return {"rate": _REQUEST.rate, **where, "latency_ns": latencies[0]}
