# SPDX-License-Identifier: BSD-3-Clause
"""Test co-runners and feeds on a pair: the co-runner on the DUT's host, over a real sshd, and limits of a NIC."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pair_hosts import memif, pair_config, written
from run_helpers import Cli, last_attempts
from ssh_host import SshHost
from test_corunner_protocol import gone

from pollscope.host.corunner_placement import CorunnerCpus
from pollscope.spec import load_text
from pollscope.testbeds.pair.config import PairHost, Ports
from pollscope.testbeds.pair.placement import DutCorunners
from pollscope.testbeds.pair.remote_host import RemoteHost
from pollscope.testbeds.pair.ssh import Remote

ALONE = """\
format: 1
name: pair-corunner
row: S-F7a
title: t
testbeds: [pair]
parameters: {corunner: matmul, dut_core: idle, feed: none, saturate: true}
trial: {warmup: 1 ms, window: 30 ms}
repeats: {count: 2}
"""
BESIDE_THE_DUT = ALONE.replace("dut_core: idle, ", "").replace("count: 2", "count: 1")


def corunner_file(sshd: SshHost, folder: Path, build_dir: Path, before: str = "", **dut: Any) -> Path:
    """Write a pair whose DUT's host has this build's co-runner."""
    program = f"export POLLSCOPE_CORUNNER={build_dir / 'pollscope-corunner'}\n{before}"
    return written(folder / "two.yaml", pair_config(sshd, folder, {"before": program, **dut}))


@pytest.mark.thorough
def test_dut_and_corunner_have_one_window(cli: Cli, sshd: SshHost, build_dir: Path, tmp_path: Path) -> None:
    """Two real nodes, joined by memif; neither sends."""
    dut, generator = memif(build_dir, tmp_path)
    path = corunner_file(sshd, tmp_path, build_dir, **dut)
    config = json.loads(path.read_text())
    config["generator"] |= generator
    text = BESIDE_THE_DUT.replace("window: 30 ms", "window: 300 ms").replace("saturate", "rx_desc: 512, saturate")
    cli.ends(0, "run", cli.spec(text), "--testbed", written(path, config), "--set", "noise.extra_blocks=0")
    (trial,) = last_attempts(cli.only_run()).values()  # nodes of a busy host may start too far apart at first
    ours, nodes = trial["corunner"]["result"]["window"], trial["result"]["window"]
    assert (ours["start_tsc"], ours["end_tsc"]) == (nodes["start_tsc"], nodes["end_tsc"])
    table = pd.read_parquet(cli.only_run().path / "results.parquet")
    assert table["metric.corunner_rate_hz"][0] > 0
    assert table["metric.rx_pps"][0] == 0


@pytest.mark.thorough
def test_the_corunners_collector_gets_its_cpu_on_the_dut(
    cli: Cli, sshd: SshHost, build_dir: Path, tmp_path: Path
) -> None:
    tools, asked = tmp_path / "tools", tmp_path / "asked"
    tools.mkdir()
    (tools / "perf").write_text(f'#!/bin/sh\necho "$*" >>{asked}\nexec sleep 60\n')
    (tools / "perf").chmod(0o755)
    path = corunner_file(sshd, tmp_path, build_dir, before=f"export PATH={tools}:$PATH")
    collectors = "collectors:\n  - {name: perf-corunner, ends: [dut]}\n"
    cli.ends(0, "run", cli.spec(ALONE + collectors), "--testbed", path)
    assert set(cli.only_run().meta["collectors"]) == {"dut/perf-corunner"}
    assert f"-C {max(os.sched_getaffinity(0) - {1})}" in asked.read_text()


class Answering(RemoteHost):
    """The host of a DUT on CPU 1, whose agent gives a co-runner CPU 7."""

    def __init__(self) -> None:
        ports = Ports(rx="net_fake0", tx="net_fake0")
        super().__init__("dut", PairHost(ssh=Remote(host="127.0.0.1"), ports=ports, main_cpu=0, cpus=(1,)), "prefix")
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def ask(self, request: str, **fields: Any) -> dict[str, Any]:
        self.asked.append((request, fields))
        cpus = {"corunner": 7, "occupant": None, "spinning": [6]}
        return {"refusal": None, "cpus": cpus, "program": "/opt/x"} if request == "corunners" else {}


def test_the_agent_steps_aside_once_and_forgets_a_corunner_that_left() -> None:
    host = Answering()
    corunners, params = DutCorunners(host), load_text(ALONE, "spec.yaml").spec.parameters
    for _ in range(2):
        assert corunners.place(params) == CorunnerCpus(7, None, (6,))
    assert [request for request, _ in host.asked] == ["corunners", "aside"]
    assert host.asked[1][1] == {"cpus": [7, 6, 1]}
    assert host.options("perf-corunner") == {"cpus": [7]}
    assert host.options("kernel-load") == {}
    corunners.leave()
    assert host.options("perf-corunner") == {}


@pytest.mark.thorough
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_no_corunner_outlives_the_runner(
    cli: Cli, sshd: SshHost, build_dir: Path, tmp_path: Path, how: signal.Signals
) -> None:
    text = ALONE.replace("window: 30 ms", "window: 20 s")
    process = cli.start("run", cli.spec(text), "--testbed", corunner_file(sshd, tmp_path, build_dir))
    corunner = corunner_below(sshd)
    process.send_signal(how)
    process.communicate(timeout=120)
    assert process.returncode == (-how if how is signal.SIGKILL else 130)
    assert gone(corunner)


def corunner_below(sshd: SshHost, limit_s: float = 60) -> int:
    """Return the co-runner that a connection of this host started."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        for path in (process / "comm" for process in Path("/proc").glob("[0-9]*")):
            pid = int(path.parent.name)
            if _read(path).startswith("pollscope-corun") and sshd.process.pid in ancestors(pid):
                return pid
        time.sleep(0.02)
    raise AssertionError("no co-runner was started")


def ancestors(pid: int) -> list[int]:
    found = []
    while pid > 1 and (stat := _read(Path(f"/proc/{pid}/stat"))):
        pid = int(stat.rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("corunner: matmul", "spinning_cores: 400"), "needs 400 cores to spin on beside everything else"),
        (("feed: none", "feed: infinite"), "feed=infinite: only the virtual NIC fills its rings itself"),
        (("corunner: matmul", "corunner: matmul, corunner_footprint: 400 GiB"), "the co-runner needs 400 GiB"),
    ],
)
def test_points_that_the_hosts_cannot_run_are_left_out_with_the_reason(
    cli: Cli, sshd: SshHost, build_dir: Path, tmp_path: Path, change: tuple[str, str], reason: str
) -> None:
    path = corunner_file(sshd, tmp_path, build_dir)
    assert reason in cli.ends(3, "plan", cli.spec(ALONE.replace(*change)), "--testbed", path).said


def test_a_host_without_the_program_or_the_cpu_says_so(
    cli: Cli, sshd: SshHost, build_dir: Path, tmp_path: Path
) -> None:
    path = corunner_file(sshd, tmp_path, build_dir, before="export POLLSCOPE_CORUNNER=/nonexistent/corunner")
    assert "pollscope-corunner is not built" in cli("plan", cli.spec(ALONE), "--testbed", path).said
    path = corunner_file(sshd, tmp_path, build_dir, cpus=[4000])
    done = cli("plan", cli.spec(ALONE), "--testbed", path)
    assert "there is no CPU 4000 here, which the testbed's file names" in done.said
