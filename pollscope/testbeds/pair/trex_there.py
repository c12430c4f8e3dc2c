# SPDX-License-Identifier: BSD-3-Clause
"""TRex in stateless mode, started and asked on its own host; the runner sends this file there (trex.py).

Usage: python3 -c SOURCE FOLDER CONFIGURATION CORES. It writes {"ready": true}, then for each line of its input, a trial
{"size": bytes without FCS, "flows": n, "first_port": n, "source": address, "destination": address, "port": n,
"rate": {"pps": n} or {"share": s}, "latency": bool,
"receiving": port, "warmup_s", "window_s", "drain_s"}, counters before and after the window. TRex ends with its input.
pollscope is not installed there, so this runs on any Python that TRex supports.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

START_LIMIT_S = 90
# After SIGTERM and after SIGKILL.
END_LIMITS_S = ((signal.SIGTERM, 8), (signal.SIGKILL, 3))
# Of requests, on all addresses. A server whose connection was lost needs some time to end.
PORT, FREE_LIMIT_S = 4501, 15
_LATENCY_PPS = 1000
_LATENCY_GROUP = 7
COUNTERS = ("opackets", "ipackets", "oerrors", "ierrors")


def refuse_another_server() -> None:
    """Refuse to start if a server answers already: the client would take over its ports."""
    deadline = time.time() + FREE_LIMIT_S
    while time.time() < deadline:
        try:
            socket.create_connection(("127.0.0.1", PORT), 1).close()
        except OSError:
            return
        time.sleep(0.5)
    refused = f"another server answers on port {PORT} of this host (end that TRex first)"
    print(json.dumps({"refused": refused}), flush=True)
    raise SystemExit(1)


def end_group(server: "subprocess.Popen[bytes]") -> None:
    """End t-rex-64, a shell script, with the server that it started and waits for."""
    for number, limit_s in END_LIMITS_S:
        deadline = time.time() + limit_s
        try:
            os.killpg(server.pid, number)
            while time.time() < deadline:
                server.poll()
                os.killpg(server.pid, 0)
                time.sleep(0.1)
        except ProcessLookupError:
            return


def connected(api: Any, server: "subprocess.Popen[bytes]") -> Any:
    """Return a client of the server, which takes a while to begin."""
    deadline = time.time() + START_LIMIT_S
    while True:
        client = api.STLClient(server="127.0.0.1")
        try:
            client.connect()
            return client
        except api.STLError as error:
            if server.poll() is not None:
                raise SystemExit(f"TRex ended with status {server.returncode}") from error
            if time.time() > deadline:
                raise SystemExit(f"TRex does not answer: {error}") from error
            time.sleep(1)


def packet(api: Any, trial: "dict[str, Any]") -> Any:
    """Make a UDP packet to one address, with one source port per flow; no checksum, as a port would change it."""
    head = api.Ether() / api.IP(src=trial["source"], dst=trial["destination"])
    head = head / api.UDP(sport=trial["first_port"], dport=trial["port"], chksum=0)
    padded = head / ("\0" * max(0, trial["size"] - len(head)))
    if trial["flows"] == 1:
        return api.STLPktBuilder(pkt=padded)
    last = trial["first_port"] + trial["flows"] - 1
    varied = api.STLVmFlowVar(name="sport", min_value=trial["first_port"], max_value=last, size=2, op="inc")
    program = api.STLScVmRaw([varied, api.STLVmWrFlowVar(fv_name="sport", pkt_offset="UDP.sport")])
    return api.STLPktBuilder(pkt=padded, vm=program)


def streams(api: Any, trial: "dict[str, Any]") -> "list[Any]":
    """Return a stream of the load, and one for TRex's latency measurement."""
    rate = trial["rate"]
    mode = api.STLTXCont(pps=rate["pps"]) if "pps" in rate else api.STLTXCont(percentage=100.0 * rate["share"])
    made = [api.STLStream(packet=packet(api, trial), mode=mode)]
    if trial["latency"]:
        stamped = dict(trial, flows=1, size=max(trial["size"], 64))  # its stamp needs 16 bytes after the header
        group = api.STLFlowLatencyStats(pg_id=_LATENCY_GROUP)
        slow = api.STLTXCont(pps=_LATENCY_PPS)
        made.append(api.STLStream(packet=packet(api, stamped), mode=slow, flow_stats=group))
    return made


def counts(client: Any, ports: "list[int]") -> "dict[str, Any]":
    """Return counters of the ports with the time at which they were read."""
    asked = time.time()
    stats = client.get_stats()
    found = {}
    for port in ports:
        for name in COUNTERS:
            found[f"{port}.{name}"] = stats[port][name]
    found["t_ns"] = 1e9 * (asked + time.time()) / 2
    return found


def run(api: Any, client: Any, trial: "dict[str, Any]") -> "dict[str, Any]":
    """Run a trial and return its counts."""
    ports = sorted({0, trial["receiving"]})
    client.reset(ports=ports)
    client.clear_stats()
    if trial["rate"].get("pps", 1) > 0:
        client.add_streams(streams(api, trial), ports=[0])
        client.start(ports=[0], mult="1", force=True)
    time.sleep(trial["warmup_s"])
    before = counts(client, ports)
    time.sleep(trial["window_s"])
    after = counts(client, ports)
    client.stop(ports=[0])
    time.sleep(trial["drain_s"])
    latency = client.get_stats().get("latency", {}).get(_LATENCY_GROUP, {})
    return {"before": before, "after": after, "latency": latency.get("latency", {})}


def main() -> None:
    """Start TRex, then a trial for each line."""
    folder, configuration, cores = sys.argv[1:4]
    sys.path.insert(0, folder + "/automation/trex_control_plane/interactive")
    from trex.stl import api  # type: ignore[import-not-found]

    # The end of the connection closes the input; a hang-up or a kill has to end TRex as well.
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: sys.exit(1))
    refuse_another_server()
    command = ["./t-rex-64", "-i", "--cfg", configuration, "-c", cores]
    server = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True)
    try:
        client = connected(api, server)
        client.acquire(force=True)
        print(json.dumps({"ready": True}), flush=True)
        for line in sys.stdin:
            print(json.dumps(run(api, client, json.loads(line))), flush=True)
        client.disconnect()
    finally:
        end_group(server)


if __name__ == "__main__":
    main()
