# SPDX-License-Identifier: BSD-3-Clause
"""Measure the path's own floor: the latency that the generator sees when its frames come straight back, with no DUT.

Each repeat of a run measures it once per kind of frame, placement and setting of the knobs. Each of these trials stores
it, so that a reader sees how much of a latency belongs to the path and the instrument (docs/validity.md).
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

# 10000 packets, far enough apart that none waits for another; enough for a 99.9th percentile.
_REQUEST = TrialRequest("floor", 20_000_000, 200_000_000, 50_000_000, {"pps": 50_000.0})
# Parameters on which the floor depends beside the knobs. The generator's CPU follows from the number and placement of
# cores and dispatchers; a sleeping generator has the DUT's CPU.
_OF_PATH = ("mtu", "rx_desc", "tx_desc", "dma", "placement", "cores", "page_size")
PARAMETERS = (*_OF_PATH, "generator_sleep", "generator", "node")


class PathFloors:
    """Measure the floors of a run, each when the first trial needs it."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], dict[str, Any]] = {}
        self._lost: dict[str, dict[str, Any]] = {}

    def of(
        self, session: Session, params: Parameters, knobs: Mapping[str, object] = MappingProxyType({}), repeat: int = 1
    ) -> dict[str, Any]:
        """Return the record's `floor` for these parameters; may leave the session configured without a DUT.

        Args:
            session: a session that suits the parameters.
            params: the point's.
            knobs: the settings of this point, which are in place.
            repeat: number of the floor: if all repeats shared one value, its interval would have width 0.

        Raises:
            NodeLost: the node hung or died; the floor is absent for the rest of the run.
        """
        if not (has_generator(params) and params.generator_receives):
            return {"absent": "the generator does not receive in this configuration"}
        frames = ("frame",) if params.trace is None else ("trace",)  # a trace replaces the parameter
        where = params.only(frames) | params.only(PARAMETERS) | {"dispatchers": dispatchers(params)}
        where |= {"knobs": dict(knobs)} if knobs else {}
        kind = json.dumps(where)
        if kind in self._lost:
            return self._lost[kind]
        if (kind, repeat) not in self._found:
            try:
                self._found[kind, repeat] = _measured(session, params, where)
            except NodeLost as error:
                self._lost[kind] = {"absent": not_measured(error)}
                raise
        return self._found[kind, repeat]


def not_measured(error: TrialError) -> str:
    """Return the reason for a missing floor after an error."""
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
