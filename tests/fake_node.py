#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A node that misbehaves on purpose: speaks the protocol, and shows the faults that a real node cannot be made to show.

FAKE_NODE holds a JSON object: the name of a trial, or of a request, -> `hang`, `die`, `garbage`, `refuse`, `give-up`,
`nonsense`; `hello` -> `die`, `garbage` or `old`. FAKE_NODE_LOG gets one line per process with its pid.
"""

import json
import os
import sys
import time

FAULTS = json.loads(os.environ.get("FAKE_NODE", "{}"))
TSC_HZ = 1_000_000_000


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def misbehave(fault):
    if fault == "hang":
        time.sleep(3600)
    elif fault == "die":
        os._exit(9)
    elif fault == "garbage":
        sys.stdout.write("EAL: this is no JSON\n")
        sys.stdout.flush()
        time.sleep(3600)


def result(trial, window_ns):
    lcore = {"lcore": 2, "cpu": 1, "rx_packets": window_ns // 1000, "tx_packets": window_ns // 1000}
    lcore |= {"os": {"voluntary_switches": 0, "involuntary_switches": 0, "minor_faults": 0}}
    port = {"stats": {"ipackets": 1000, "imissed": 500, "rx_nombuf": 0}}
    ports = {"net_crossover0_b": port}
    window = {"start_tsc": 0, "end_tsc": window_ns, "tsc_hz": TSC_HZ}
    return {"state": "done", "trial": trial, "window": window, "dut": {"lcores": [lcore]}, "ports": ports}


def main():
    with open(os.environ.get("FAKE_NODE_LOG", os.devnull), "a") as log:
        log.write(f"{os.getpid()}\n")
    misbehave(FAULTS.get("hello"))
    protocol = 99 if FAULTS.get("hello") == "old" else 1
    say(event="hello", protocol=protocol, version="fake", dpdk="fake", tsc_hz=TSC_HZ, ports=[], lcores=[], absent={})
    last = {}
    for line in sys.stdin:
        request = json.loads(line)
        command = request["cmd"]
        fault = FAULTS.get(request.get("trial", command), FAULTS.get(last.get("trial")) if command == "read" else None)
        misbehave(fault if fault != "garbage" or command != "start" else None)
        if fault == "refuse":
            say(id=request["id"], ok=False, error="refused on purpose", where="dut.burst")
        elif command == "start":
            last = request
            say(id=request["id"], ok=True)
            time.sleep((request["warmup_ns"] + request["window_ns"]) / 1e9)
            if fault == "give-up":
                say(event="failed", trial=request["trial"], error="gave up on purpose")
            else:
                say(event="done", trial=request["trial"])
        elif command == "read":
            answer = result(last["trial"], last["window_ns"])
            if fault == "nonsense":
                answer["window"]["tsc_hz"] = "fast"
            say(id=request["id"], ok=True, **answer)
        elif command == "noise":
            gaps = {"over_1us": 3, "over_10us": 2, "over_100us": 1, "longest_ns": 150_000}
            cpus = [
                {"lcore": each, "cpu": each, "duration_ns": request["duration_ns"], **gaps}
                for each in request["lcores"]
            ]
            say(id=request["id"], ok=True, noise=cpus)
        elif command == "calibrate":
            say(id=request["id"], ok=True, costs={"stamp_cycles": {"median": 20, "low": 19, "high": 21, "n": 9}})
        else:
            say(id=request["id"], ok=True)
            if command == "quit":
                return


main()
