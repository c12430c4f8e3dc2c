# SPDX-License-Identifier: BSD-3-Clause
"""Run one trial of TCP flows: the forwarding program, the server and the client, each in its namespace."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pollscope.base.errors import HostError, TrialError
from pollscope.host.eal_folders import new_file_prefix, remove_folder
from pollscope.spec.model import Parameters
from pollscope.testbeds.namespaces.inside import TCP_INFO
from pollscope.testbeds.namespaces.network import BUCKET_BYTES, SERVER_ADDRESS, Namespaces, last_words, running

PORT = 9000
# 16384 mbufs, rings and EAL's own (apps/bench/tcp_path.c).
MEMORY_MIB = 512
# Time limit: this multiple of the flows' time at the bottleneck, plus time for lost handshakes with exponential
# backoff.
LIMIT_TIMES, LIMIT_MORE_S = 20, 120
# Columns of the record, one value per flow.
COLUMNS = ("completion_ns", *TCP_INFO)
_RECORD = re.compile(r"^(pump|worker) received (\d+) dropped (\d+)$", re.MULTILINE)


def _path_command(program: Path, params: Parameters, cpus: Sequence[int], prefix: str) -> list[str]:
    """Return the forwarding program with its lcores, which the kernel may put on any of these CPUs."""
    shares = params.organisation == "corec"
    pair = f"net_crossover0,rx={'corec' if shares else 'standard'}"
    devices = ["net_af_packet0,iface=near", f"net_af_packet1,iface=far,qpairs={params.cores}", pair]
    lcores = f"(0-{params.cores + 1})@({','.join(map(str, cpus))})"
    eal = ["--lcores", lcores, "--no-huge", "-m", str(MEMORY_MIB), "--no-shconf", "--no-pci", "--no-telemetry"]
    vdevs = [word for device in devices for word in ("--vdev", device)]
    return [str(program), *eal, "--file-prefix", prefix, *vdevs, "--", *(["--share"] if shares else [])]


def measure(
    namespaces: Namespaces, program: Path, params: Parameters, cpus: Sequence[int], log: Path
) -> dict[str, Any]:
    """Run all flows of a point once; return `tcp` of a trial's result (docs/internals/store-format.md).

    Raises:
        TrialError: a program did not start, failed or hung, or a flow did not complete.
    """
    prefix = new_file_prefix()
    path_in_dut = namespaces.inside("dut", *_path_command(program, params, cpus, prefix))
    try:
        with running(path_in_dut, log) as path:
            sent = _send(namespaces, params, log)
            lcores = _lcores(last_words(path, program.name), 1 + params.cores)
    except HostError as error:
        raise TrialError(str(error)) from None
    finally:
        remove_folder(prefix)
    flows = sent["flows"]
    first_ns = min(flow["begun_ns"] for flow in flows)
    return {
        "flows": {name: [flow[name] for flow in flows] for name in COLUMNS},
        "duration_ns": max(flow["begun_ns"] + flow["completion_ns"] for flow in flows) - first_ns,
        "bottleneck": {"rate_bps": namespaces.rate_bps, "bucket_bytes": BUCKET_BYTES},
        "path": lcores,
        "kernel": sent["kernel"],
    }


def _send(namespaces: Namespaces, params: Parameters, log: Path) -> dict[str, Any]:
    size, flows = params.flow_size or 0, params.flows
    limit_s = LIMIT_MORE_S + LIMIT_TIMES * 8 * size * flows / namespaces.rate_bps
    words = [SERVER_ADDRESS, str(PORT), str(flows), str(size), f"{limit_s:.0f}"]
    with (
        running(namespaces.python("server", "serve", SERVER_ADDRESS, str(PORT)), log),
        subprocess.Popen(
            namespaces.python("client", "send", *words),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as client,
    ):
        assert client.stdin is not None and client.stdout is not None and client.stderr is not None
        try:
            said, complaint = client.stdout.read(), client.stderr.read()
        finally:
            client.stdin.close()  # the server ends with its input
    if client.returncode != 0:
        raise TrialError(f"the flows did not complete: {complaint.strip()[-300:]}")
    found: dict[str, Any] = json.loads(said)
    return found


def _lcores(said: str, count: int) -> list[dict[str, Any]]:
    """Return the record of each lcore of the path, the pump first.

    Raises:
        HostError: a record is missing.
    """
    records = _RECORD.findall(said)
    if len(records) != count:
        raise HostError(f"the forwarding program reported {len(records)} lcores, not {count}")
    return [{"role": role, "packets": int(received), "dropped": int(dropped)} for role, received, dropped in records]
