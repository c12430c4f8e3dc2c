#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A node that misbehaves on purpose: speaks the protocol, and shows the faults that a real node cannot be made to show.

FAKE_NODE holds a JSON object: the name of a trial, or of a request, -> `hang`, `hang-read`, `die`, `garbage`, `refuse`,
`give-up`, `hung`, `nonsense`, `noisy`; `hello` -> `die`, `garbage` or `old`; `tsc` -> what hello says of CPU 1's TSC;
`missed` -> `none`; `jitter` -> `on` (every trial receives more than the one before); `capacity` -> packets a second
that the DUT forwards, with `generator` -> packets a second that the generator can send: counts then follow from the
offered rate; `grounds` -> cycles that a cache line takes to and fro in each canary, the last for all further ones.
FAKE_NODE_LOG gets one line per process with its pid.
"""

import itertools
import json
import os
import sys
import time
from typing import Any

FAULTS = json.loads(os.environ.get("FAKE_NODE", "{}"))
TSC_HZ = 1_000_000_000
canaries = itertools.count()


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def misbehave(fault: object) -> None:
    if fault == "hang":
        time.sleep(3600)
    elif fault == "die":
        os._exit(9)
    elif fault == "garbage":
        sys.stdout.write("EAL: this is no JSON\n")
        sys.stdout.flush()
        time.sleep(3600)


def result(trial: str, window_ns: int, fault: object) -> dict[str, Any]:
    packets = window_ns // 1000
    if "jitter" in FAULTS:
        packets = packets * (10 + int(trial[1:])) // 10
    lcore: dict[str, Any] = {"lcore": 2, "cpu": 1, "rx_packets": packets, "tx_packets": packets}
    lcore |= {"os": {"voluntary_switches": 0, "involuntary_switches": 0, "minor_faults": 0}}
    gaps = {"over_1us": 9, "over_10us": 8, "over_100us": 7 if fault == "noisy" else 0, "longest_ns": 200_000}
    generator: dict[str, Any] = {"lcore": 1, "cpu": 0, "duration_tsc": window_ns, "host_gaps": gaps}
    port = {"stats": {"ipackets": 1000, "imissed": 0 if "missed" in FAULTS else 500, "rx_nombuf": 0}}
    return {
        "state": "done",
        "trial": trial,
        "window": {"start_tsc": 0, "end_tsc": window_ns, "tsc_hz": "fast" if fault == "nonsense" else TSC_HZ},
        "dut": {"lcores": [lcore]},
        "gen": {"lcores": [generator]},
        "ports": {"net_crossover0_b": port},
    }


def limited(whole: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """Turns a result into that of a DUT and a generator with limits; ramp-up is as long as it is asked for."""
    rate = request["rate"]
    due = FAULTS["generator"] if "saturate" in rate else rate["pps"]
    offered = min(due, FAULTS["generator"])
    taken = min(offered, FAULTS["capacity"])
    whole_s, window_s = (request["warmup_ns"] + request["window_ns"]) / 1e9, request["window_ns"] / 1e9
    sent = round(offered * whole_s)
    back = sent if taken == offered else int(taken * whole_s)
    generator = whole["gen"]["lcores"][0]
    generator |= {"intended": round(due * window_s), "sent": round(offered * window_s)}
    generator |= {"unsent": generator["intended"] - generator["sent"], "total": {"sent": sent, "rx_packets": back}}
    generator |= {"sequence": {"lost": sent - back, "duplicated": 0, "reordered": 0}}
    generator["host_gaps"]["in_over_100us_ns"] = 0
    whole["dut"]["lcores"][0]["rx_packets"] = round(taken * window_s)
    whole["ports"]["net_crossover0_b"] = {"stats": {"ipackets": back, "imissed": sent - back, "rx_nombuf": 0}}
    whole["ports"]["net_crossover1_b"] = {"stats": {"ipackets": back, "imissed": 0, "rx_nombuf": 0}}
    return whole


def start(request: dict[str, Any], fault: object) -> None:
    say(id=request["id"], ok=True)
    time.sleep((request["warmup_ns"] + request["window_ns"]) / 1e9)
    if fault == "give-up":
        say(event="failed", trial=request["trial"], error="gave up on purpose")
    elif fault == "hung":
        say(event="failed", trial=request["trial"], error="lcores that hang: 2 (CPU 1)", hung=[2])
    else:
        say(event="done", trial=request["trial"])


def noise(request: dict[str, Any]) -> list[dict[str, Any]]:
    gaps = {"over_1us": 3, "over_10us": 2, "over_100us": 1, "longest_ns": 150_000}
    return [{"lcore": each, "cpu": each, "duration_ns": request["duration_ns"], **gaps} for each in request["lcores"]]


def ground(lcores: list[int], round_trip: int) -> dict[str, Any]:
    """What a quiet host of two CPUs would say, with a line that takes so many cycles to and fro."""
    cores = [
        {"lcore": each, "cpu": each - 1, "stream": {"bytes": 1 << 22, "cycles": [200_000] * 8}}
        | {part: {"steps": 4096, "cycles": [8600 + i % 3 for i in range(16)]} for part in ("chain", "wide")}
        for each in lcores
    ]
    lines = [
        {
            "lcores": [a, b],
            "cpus": [a - 1, b - 1],
            "round_trips": 32,
            "cycles": [32 * round_trip + i for i in range(32)],
        }
        for a, b in itertools.pairwise(lcores)
    ]
    return {"tsc_hz": TSC_HZ, "took_ns": 2_000_000, "lines": lines, "cores": cores}


def answer(request: dict[str, Any], last: dict[str, Any], fault: object) -> None:
    command = request["cmd"]
    if fault == "refuse":
        say(id=request["id"], ok=False, error="refused on purpose", where="dut.burst")
    elif command == "start":
        start(request, fault)
    elif command == "read":
        whole = result(last["trial"], last["window_ns"], fault)
        say(id=request["id"], ok=True, **(limited(whole, last) if "capacity" in FAULTS else whole))
    elif command == "links":
        say(id=request["id"], ok=True, links={})
    elif command == "noise":
        say(id=request["id"], ok=True, noise=noise(request))
    elif command == "ground":
        trips = FAULTS.get("grounds", [300])
        say(id=request["id"], ok=True, ground=ground(request["lcores"], trips[min(next(canaries), len(trips) - 1)]))
    elif command == "calibrate":
        say(id=request["id"], ok=True, costs={"stamp_cycles": {"median": 20, "low": 19, "high": 21, "n": 9}})
    else:
        say(id=request["id"], ok=True)


def main() -> None:
    with open(os.environ.get("FAKE_NODE_LOG", os.devnull), "a") as log:
        log.write(f"{os.getpid()}\n")
    misbehave(FAULTS.get("hello"))
    protocol = 99 if FAULTS.get("hello") == "old" else 2
    identity: dict[str, Any] = {"version": "fake", "dpdk": "fake", "pid": os.getpid(), "hugepages": True}
    if "tsc" in FAULTS:
        identity["tsc_offsets"] = {"reference_cpu": 0, "cpus": [{"cpu": 1, **FAULTS["tsc"]}]}
    say(event="hello", protocol=protocol, tsc_hz=TSC_HZ, ports=[], lcores=[], absent={}, **identity)
    last: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["cmd"] == "start":
            last = request
        during_trial = request["cmd"] in ("start", "read")
        fault = FAULTS.get(last["trial"] if during_trial else request["cmd"])
        if request["cmd"] == "read" and fault == "hang-read":
            fault = "hang"
        misbehave(fault)
        answer(request, last, fault)
        if request["cmd"] == "quit":
            return


main()
