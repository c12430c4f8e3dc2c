# SPDX-License-Identifier: BSD-3-Clause
"""Test the generator driver pktgen-dpdk against a stand-in for its control socket, over a real sshd."""

import shlex
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pair_hosts import SPEC, pair_config, written
from run_helpers import Cli, assert_complete
from ssh_host import SshHost, free_port

from pollscope.testbeds.pair.pktgen import rate_percent

FAKE = Path(__file__).parent / "fake_pktgen.py"
LOADED = SPEC.replace("load_pps: 0", "flows: 16").replace("burst: [8, 32]", "load_pps: [0 pps, 1 Mpps]")


def pktgen_file(sshd: SshHost, folder: Path, fault: str = "") -> Path:
    port = free_port()
    values = {"PKTGEN_PORT": port, "PKTGEN_LOG": folder / "lua", "FAKE_PKTGEN": fault}
    words = [f"export {name}={shlex.quote(str(value))}" for name, value in values.items()]
    program = folder / "pktgen"
    command = f'exec {shlex.quote(sys.executable)} {shlex.quote(str(FAKE))} "$@"'
    program.write_text("\n".join(["#!/bin/sh", *words, command, ""]))
    program.chmod(0o755)
    pktgen = {"program": str(program), "line_gbps": 10, "control_port": port, "folder": str(folder)}
    return written(folder / "two.yaml", pair_config(sshd, folder, driver="pktgen-dpdk", pktgen=pktgen))


def test_rate_size_and_range_are_set_and_counters_become_metrics(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    spec = cli.spec(LOADED.replace("generator_receives: false", "generator_receives: true"))
    done = cli("run", spec, "--testbed", pktgen_file(sshd, tmp_path))
    assert done.returncode == 0, done.stderr
    run = cli.only_run()
    assert_complete(run)
    lua = (tmp_path / "lua").read_text()
    assert 'pktgen.set("0", "rate", 6.720000)' in lua  # 1 Mpps of 14.88 Mpps
    assert 'pktgen.set("0", "size", 64)' in lua
    assert 'pktgen.range.src_port("0", "max", 1039)' in lua
    assert 'pktgen.set_range("0", "on")' in lua
    table = pd.read_parquet(run.path / "results.parquet").set_index("point")
    loaded, idle = table.loc["load_pps=1000000.0"], table.loc["load_pps=0.0"]
    # The stand-in counts by the same clock, so the rate is exact except for the time of the request.
    assert 0.8e6 < loaded["metric.offered_pps"] < 1.2e6
    assert idle["metric.offered_pps"] == 0
    for metric, reason in {
        "latency_p99_ns": "no distribution, and nothing from the intended time",
        "loss_share": "do not tell how many packets were lost",
        "reordered_share": "numbers no packets",
        "generator_gaps_over_100us_per_s": "does not watch its core",
    }.items():
        assert pd.isna(loaded[f"metric.{metric}"])
        assert reason in loaded[f"absent.{metric}"], metric
    record = next(trial for trial in run.trials if trial["point"] == "load_pps=1000000.0")
    assert record["result"]["gen"]["lcores"][0]["pktgen_latency"] == {"avg_latency": 1500.0}
    assert not sshd.connections()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("flows: 16", "flows: 16, frame: imix"), "frames of one size"),
        (("flows: 16", "flows: 16, arrivals: poisson"), "constant rate only"),
        (("generator_receives: false", "workload: io, nic_timestamps: 10 ms"), "no NIC time stamps"),
        (("flows: 16", "flows: 100000"), "at most 64512 flows"),
    ],
)
def test_traffic_that_pktgen_cannot_generate_is_left_out(
    cli: Cli, sshd: SshHost, tmp_path: Path, change: tuple[str, str], reason: str
) -> None:
    done = cli("plan", cli.spec(LOADED.replace(*change)), "--testbed", pktgen_file(sshd, tmp_path))
    assert done.returncode == 3
    assert reason in done.stderr


def test_a_program_that_ends_is_one_line(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    done = cli("run", cli.spec(LOADED), "--testbed", pktgen_file(sshd, tmp_path, "die"))
    assert done.returncode == 3
    assert len([line for line in done.stderr.splitlines() if line.startswith("pollscope: ")]) == 1
    assert "pktgen-dpdk ended with status 1" in done.stderr


@pytest.mark.parametrize("other", [{"driver": "pktgen-dpdk"}, {"pktgen": {"line_gbps": 10}}, {"driver": "trex"}])
def test_bad_files(cli: Cli, sshd: SshHost, tmp_path: Path, other: dict[str, Any]) -> None:
    done = cli("testbed", "status", written(tmp_path / "two.yaml", pair_config(sshd, tmp_path, **other)))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("pps", "size", "gbps", "percent"),
    [(14_880_952, 64, 10, 100.0), (1e6, 64, 10, 6.72), (1e9, 64, 10, 100.0), (812_743, 1518, 10, 100.0), (0, 64, 1, 0)],
)
def test_rates_in_percent_of_the_line(pps: float, size: int, gbps: float, percent: float) -> None:
    assert rate_percent(pps, size, gbps) == pytest.approx(percent, rel=1e-4)
