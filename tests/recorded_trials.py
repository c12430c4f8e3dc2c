# SPDX-License-Identifier: BSD-3-Clause
"""Read what a real node answered in the trials of a recorded run, for fakes that play it back."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

RUN = Path(__file__).parent.parent / "data/runs/s-f5-polling-tax"
_ANSWER = ("ok", "id", "clocks")  # keys of the protocol, and those that the runner adds


@cache
def _trials() -> list[dict[str, Any]]:
    lines = (RUN / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def record(load_of_max: float | None) -> dict[str, Any]:
    """Return an undisturbed trial of one queue at this share of the maximum; None: the maximum itself.

    It is the last of its kind: in some of the first ones the cost of an empty poll is known too loosely for a tax.
    """
    factors = {"queues": 1, "lookups": 1} | ({} if load_of_max is None else {"load_of_max": load_of_max})
    for found in reversed(_trials()):
        if found["factors"] == factors and found["status"] == "ok" and not found["flags"]:
            result = {key: value for key, value in found["result"].items() if key not in _ANSWER}
            return copy.deepcopy(found | {"result": result})
    raise LookupError(f"{RUN} has no undisturbed trial at {load_of_max}")


def host_state() -> dict[str, Any]:
    """Return a host-state check of the run."""
    with (RUN / "host_states.jsonl").open(encoding="utf-8") as host_checks:
        return dict(json.loads(next(host_checks))["hosts"][0])


def limit(result: dict[str, Any], start: dict[str, Any], dut_port: str, capacity_pps: float, most_pps: float) -> None:
    """Give a result the counts that follow from the offered rate; the ramp-up has the requested length.

    Args:
        result: is changed.
        start: the request.
        dut_port: where the DUT receives.
        capacity_pps: what the DUT forwards at most.
        most_pps: what the generator sends at most.
    """
    rate = start.get("rate", {"saturate": True})
    due = most_pps if "saturate" in rate else rate["pps"]
    offered = min(due, most_pps)
    taken = min(offered, capacity_pps)
    whole_s = (start["warmup_ns"] + start["window_ns"]) / 1e9
    sent = round(offered * whole_s)
    back = sent if taken == offered else int(taken * whole_s)
    window = result["window"]
    cycles = window["end_tsc"] - window["start_tsc"]
    seconds = cycles / window["tsc_hz"]
    for lcore in result["gen"]["lcores"]:
        lcore |= {"total": {"sent": sent, "rx_packets": back}, "duration_tsc": cycles}
        lcore |= {"intended": round(due * seconds), "sent": round(offered * seconds)}
        lcore["unsent"] = lcore["intended"] - lcore["sent"]
        lcore["sequence"] = {"lost": sent - back, "duplicated": 0, "reordered": 0}
        lcore["host_gaps"] |= {"in_over_100us_ns": 0}
    for name, port in result["ports"].items():
        port["stats"] |= {"ipackets": back, "imissed": sent - back if name == dut_port else 0, "rx_nombuf": 0}
    for lcore in result["dut"]["lcores"]:
        lcore["rx_packets"] = round(taken * seconds)
