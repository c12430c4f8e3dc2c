#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Play back a real record as a node, or without arguments as a co-runner, with faults at given moments.

PLAYED is a folder with `record.json` (a line of a recorded trials.jsonl) and `settings.json`:
`host_state`, a recorded host-state check;
`faults`, number of a `start` request among all that were made in this folder -> `die`, `refuse`, `give-up`, `garbage`,
`nan`, `noisy`, or `SIGINT`, `SIGTERM`, `SIGKILL`, which the runner gets; `capacity_pps`, where there is any, what the
DUT forwards. Every process leaves its pid and arguments in `pids`, every request a line in `log`.
"""

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from recorded_trials import limit

PLACE = Path(os.environ["PLAYED"])
RECORD = json.loads((PLACE / "record.json").read_text())
SETTINGS = json.loads((PLACE / "settings.json").read_text())
CORUNNER = len(sys.argv) == 1
TSC_HZ = RECORD["result"]["window"]["tsc_hz"]


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def counted(request: dict[str, Any]) -> int:
    """Write a line to the log and return how many nodes were started, including this one."""
    with (PLACE / "log").open("a+") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        logged = {key: request.get(key) for key in ("cmd", "trial")}
        log.write(json.dumps({"corunner": CORUNNER, "t_ns": time.monotonic_ns(), **logged}) + "\n")
        log.flush()
        log.seek(0)
        lines = [json.loads(line) for line in log]
    return sum(line["cmd"] == "start" and not line["corunner"] for line in lines)


def misbehave(fault: str) -> None:
    if fault.startswith("SIG"):
        os.kill(os.getppid(), signal.Signals[fault])
        time.sleep(0.05 if fault == "SIGKILL" else 0)
    elif fault == "die":
        os._exit(9)
    elif fault == "garbage":
        sys.stdout.write("EAL: this is no JSON\n")
        sys.stdout.flush()


def result(start: dict[str, Any], config: dict[str, Any], fault: str) -> dict[str, Any]:
    """Return the recorded result; with a capacity, that of a DUT and a generator with limits."""
    whole = json.loads(json.dumps(RECORD["result"]))
    whole |= {"trial": start["trial"], "state": "done", "now_tsc": whole["window"]["end_tsc"]}
    statistics = whole["ports"].pop(RECORD["config"]["dut"]["rx_port"])
    whole["ports"] = {port["name"]: json.loads(json.dumps(statistics)) for port in config["ports"]}
    latencies = whole["dut"]["lcores"][0]["histograms"]["poll_gap_cycles"] | {"unit": "ns"}
    for lcore in whole["gen"]["lcores"]:
        lcore["latency_ns"] = {"from_intended": latencies, "from_sent": latencies}
        lcore["sequence"] = {"lost": 0, "duplicated": 0, "reordered": 0}
    if "capacity_pps" in SETTINGS:
        capacity_pps = SETTINGS["capacity_pps"]
        limit(whole, start, config.get("dut", {}).get("rx_port", ""), capacity_pps, 4 * capacity_pps)
    if fault == "nan":
        whole["dut"]["lcores"][0]["rx_packets"] = float("nan")
    elif fault == "noisy":
        whole["gen"]["lcores"][0]["host_gaps"]["over_100us"] = 1_000_000
    return dict(whole)


def answered(request: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return the reply without `ok`."""
    command = request["cmd"]
    if command == "configure" and CORUNNER:
        state["workers"] = [{**each, "unit": "iterations"} for each in request["workers"]]
        time.sleep(0.1)  # memory is filled: as long as a window
        return {"workers": state["workers"]}
    if command == "configure":
        state["config"] = request
    elif command == "links":
        return {"links": {}}
    elif command == "noise":
        gaps = {"over_1us": 3, "over_10us": 2, "over_100us": 1, "longest_ns": 150_000}
        own = {"duration_ns": request["duration_ns"], **gaps}
        return {"noise": [{"lcore": each, "cpu": each - 1, **own} for each in request["lcores"]]}
    elif command == "host_state":
        return {"host_state": SETTINGS["host_state"]}
    elif command == "calibrate":
        return {"costs": RECORD["calibration"]}
    elif command == "read" and CORUNNER:
        window = {"start_tsc": request.get("start_tsc", 0), "end_tsc": request.get("end_tsc", TSC_HZ), "tsc_hz": TSC_HZ}
        done = {"done": 1000, "waited_ns": 0, "longest_step_ns": 5000, "pmu": {"absent": "no PMU"}}
        return {"state": "done", "window": window, "workers": [{**each, **done} for each in state["workers"]]}
    elif command == "read":
        return result(state["start"], state["config"], state["fault"])
    return {}


def serve(request: dict[str, Any], state: dict[str, Any]) -> None:
    number = counted(request)
    if request["cmd"] == "start" and not CORUNNER:
        state |= {"start": request, "fault": SETTINGS["faults"].get(str(number), "")}
        misbehave(state["fault"])
        if state["fault"] == "refuse":
            say(id=request["id"], ok=False, error="refused on purpose", where="dut.burst")
            return
    say(id=request["id"], ok=True, **answered(request, state))
    if request["cmd"] == "start" and "window_ns" in request:
        time.sleep((request["warmup_ns"] + request["window_ns"]) / 1e9)
        gave_up = not CORUNNER and state["fault"] == "give-up"
        ending = {"event": "failed", "error": "gave up on purpose"} if gave_up else {"event": "done"}
        say(**ending, trial=request["trial"])


def main() -> None:
    with (PLACE / "pids").open("a") as pids:
        pids.write(f"{os.getpid()} {' '.join(sys.argv[1:])}\n")
    hello = {"protocol": 3, "version": "played", "dpdk": "played", "tsc_hz": TSC_HZ, "ports": [], "lcores": []}
    say(event="hello", pid=os.getpid(), hugepages=True, absent={}, **hello)
    state: dict[str, Any] = {}
    for line in filter(str.strip, sys.stdin):
        request = json.loads(line)
        serve(request, state)
        if request["cmd"] == "quit":
            return


main()
