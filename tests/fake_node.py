#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Stand in for a node that misbehaves: it speaks the protocol and shows faults that a real node cannot be made to show.

Counts, cycles and histograms are those of a real node (recorded_trials.py), whatever the window.
FAKE_NODE holds a JSON object: the name of a trial, or of a request, -> `hang`, `hang-read`, `die`, `garbage`, `refuse`,
`give-up`, `hung`, `nonsense`, `noisy`; `hello` -> `die`, `garbage` or `old`; `tsc` -> what hello says of CPU 1's TSC;
`missed` -> `none`; `jitter` -> `on` (every trial receives more than the one before); `slower` -> share of packets that
are received with extra cycles; `capacity` -> packets a second
that the DUT forwards, with `generator` -> packets per second that the generator can send: counts then follow from the
offered rate; `host_states` -> cycles that a cache line takes back and forth in each host-state check, the last for all
further ones.
FAKE_NODE_LOG gets one line per process with its pid.
"""

import itertools
import json
import os
import sys
import time
from typing import Any

from recorded_trials import limit, record

FAULTS = json.loads(os.environ.get("FAKE_NODE", "{}"))
TSC_HZ = record(0.5)["result"]["window"]["tsc_hz"]
host_checks = itertools.count()
configured: dict[str, Any] = {}


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


def result(request: dict[str, Any], fault: object) -> dict[str, Any]:
    """Return what a real node reported after a trial of about this load."""
    rate = request.get("rate", {"saturate": True})
    load = None if "saturate" in rate else 0.5 if rate["pps"] else 0.0
    whole: dict[str, Any] = record(load)["result"] | {"trial": request["trial"]}
    if "jitter" in FAULTS:
        lcore = whole["dut"]["lcores"][0]
        lcore["rx_packets"] = lcore["rx_packets"] * (10 + int(request["trial"][1:])) // 10
    if configured.get("dut", {}).get("extra_cycles"):
        for lcore in whole["dut"]["lcores"]:
            lcore["rx_packets"] = int(lcore["rx_packets"] * FAULTS.get("slower", 1))
    if fault == "noisy":
        whole["gen"]["lcores"][0]["host_gaps"]["over_100us"] = 300
    if fault == "nonsense":
        whole["window"]["tsc_hz"] = "fast"
    if "missed" in FAULTS:
        whole["ports"]["net_crossover0_b"]["stats"]["imissed"] = 0
        whole["gen"]["lcores"][0]["sent"] = sum(lcore["rx_packets"] for lcore in whole["dut"]["lcores"])
    if "capacity" in FAULTS:
        limit(whole, request, "net_crossover0_b", FAULTS["capacity"], FAULTS["generator"])
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


def host_state(lcores: list[int], round_trip: int) -> dict[str, Any]:
    """Return the check of a quiet host of two CPUs, with this round trip of a cache line in cycles."""
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
        say(id=request["id"], ok=True, **result(last, fault))
    elif command == "links":
        say(id=request["id"], ok=True, links={})
    elif command == "noise":
        say(id=request["id"], ok=True, noise=noise(request))
    elif command == "host_state":
        trips = FAULTS.get("host_states", [300])
        say(
            id=request["id"],
            ok=True,
            host_state=host_state(request["lcores"], trips[min(next(host_checks), len(trips) - 1)]),
        )
    elif command == "calibrate":
        say(id=request["id"], ok=True, costs=record(0.5)["calibration"])
    else:
        if command == "configure":
            configured.update(request)
        say(id=request["id"], ok=True)


def main() -> None:
    with open(os.environ.get("FAKE_NODE_LOG", os.devnull), "a") as log:
        log.write(f"{os.getpid()}\n")
    misbehave(FAULTS.get("hello"))
    protocol = 99 if FAULTS.get("hello") == "old" else 3
    identity: dict[str, Any] = {"version": "fake", "dpdk": "fake", "pid": os.getpid(), "hugepages": True}
    if "tsc" in FAULTS:
        identity["tsc_offsets"] = {"reference_cpu": 0, "cpus": [{"cpu": 1, **FAULTS["tsc"]}]}
    say(event="hello", protocol=protocol, tsc_hz=TSC_HZ, ports=[], lcores=[], absent={}, **identity)
    last: dict[str, Any] = {}
    for line in filter(str.strip, sys.stdin):
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
