# SPDX-License-Identifier: BSD-3-Clause
"""Make pairs whose two hosts are this one behind a real sshd: fake nodes, and agents with a journal and a lock each."""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from run_helpers import FAKE_NODE
from ssh_host import SshHost, agent_program

SPEC = """\
format: 1
name: pair-ends
row: S-F5
title: t
testbeds: [pair]
parameters: {generator_receives: false, load_pps: 0}
factors: {burst: [8, 32]}
trial: {warmup: 1 s, window: 100 ms, drain: 0 ms}
repeats: {count: 1}
"""


def fake_node(path: Path, faults: Mapping[str, str] | None = None) -> Path:
    """Return the fake node as a program that needs no environment."""
    values = {"FAKE_NODE": json.dumps(dict(faults or {})), "FAKE_NODE_LOG": str(path.with_name("nodes"))}
    words = [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
    command = f"exec {shlex.quote(sys.executable)} {shlex.quote(str(FAKE_NODE))}"
    path.write_text("\n".join(["#!/bin/sh", *words, command, ""]))
    path.chmod(0o755)
    return path


def host_config(sshd: SshHost, folder: Path, name: str, **other: Any) -> dict[str, Any]:
    """Return one host of a testbed file; its programs and its state are in `folder/name`."""
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    program = fake_node(place / "node", other.pop("faults", None))
    agent = agent_program(place / "pollscope", place / "state", other.pop("before", ""))
    ports = {"rx": "net_fake0", "tx": "net_fake0", "queues": 1}
    whole = {"ssh": sshd.remote(), "ports": ports, "main_cpu": 0, "cpus": [1], "memory_mib": 1024}
    return {**whole, "program": str(program), "pollscope": str(agent), **other}


def real_node(build_dir: Path, vdev: str) -> dict[str, Any]:
    """Return the keys of a host whose node is this build's, with a virtual device as its port."""
    port = vdev.partition(",")[0]
    ports = {"rx": port, "tx": port, "queues": 1}
    return {"program": str(build_dir / "pollscope-node"), "vdevs": [vdev], "ports": ports}


def memif(build_dir: Path, folder: Path) -> list[dict[str, Any]]:
    """Return the keys of two real nodes that a memif socket joins."""
    socket = f"socket={folder}/memif.sock,socket-abstract=no,rsize=9"
    return [real_node(build_dir, f"net_memif0,role={role},{socket}") for role in ("server", "client")]


def pair_config(
    sshd: SshHost, folder: Path, dut: Mapping[str, Any] = {}, generator: Mapping[str, Any] = {}, **top: Any
) -> dict[str, Any]:
    """Return the content of the file of a pair."""
    hosts = {"dut": dut, "generator": generator}
    return {"kind": "pair", **{name: host_config(sshd, folder, name, **keys) for name, keys in hosts.items()}, **top}


def written(path: Path, config: Mapping[str, Any]) -> Path:
    """Write the file of a testbed; JSON is YAML as well."""
    path.write_text(json.dumps(config))
    return path
