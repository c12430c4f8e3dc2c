# SPDX-License-Identifier: BSD-3-Clause
"""Test the generator driver trex against a stand-in for TRex's server and its Python API, over a real sshd."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fake_trex import make_trex
from pair_hosts import pair_config, written
from run_helpers import Cli
from ssh_host import SshHost
from test_pktgen import LOADED

from pollscope.node.client import NodeLost
from pollscope.testbeds.pair import other_generator, trex, trex_there
from pollscope.testbeds.pair.ssh import Remote


def trex_file(sshd: SshHost, folder: Path, **more: Any) -> Path:
    own_network = more.pop("own_network", os.geteuid() == 0)
    trex: dict[str, Any] = {"folder": str(make_trex(folder / "trex")), "configuration": "/etc/lab.yaml", "cores": 2}
    trex["own_network"] = own_network
    return written(folder / "two.yaml", pair_config(sshd, folder, driver="trex", trex=trex, **more))


@pytest.mark.thorough
def test_streams_are_made_and_counters_become_metrics(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    spec = cli.spec(LOADED.replace("generator_receives: false", "generator_receives: true"))
    run = cli.ran(spec, "--testbed", trex_file(sshd, tmp_path))
    started, *streams = (tmp_path / "trex/calls").read_text().splitlines()
    assert (tmp_path / "trex/destination").read_text() == "10.0.0.1", "the first route of l3fwd-lpm (apps/lib/routes.h)"
    assert started == "-i --cfg /etc/lab.yaml -c 2"
    load, latency = (json.loads(line) for line in streams[:2])
    assert load == {"size": 60, "pps": 1e6, "share": None, "ports": [1024, 1039], "stamped": False}
    assert latency == {"size": 64, "pps": 1000, "share": None, "ports": None, "stamped": True}
    table = pd.read_parquet(run.path / "results.parquet").set_index("point")
    loaded, idle = table.loc["load_pps=1000000.0"], table.loc["load_pps=0.0"]
    # The stand-in counts by the same clock, so the rate is exact except for the time of the request.
    assert 0.8e6 < loaded["metric.offered_pps"] < 1.2e6
    assert idle["metric.offered_pps"] == 0
    for metric, reason in {
        "latency_p99_ns": "no latency from the intended time",
        "loss_share": "so the number of lost packets is unknown",
        "reordered_share": "only the packets of its latency stream",
        "generator_gaps_over_100us_per_s": "does not watch its cores",
    }.items():
        assert pd.isna(loaded[f"metric.{metric}"])
        assert reason in loaded[f"absent.{metric}"], metric
    record = next(trial for trial in run.trials if trial["point"] == "load_pps=1000000.0")
    assert record["result"]["gen"]["lcores"][0]["trex_latency"] == {"average": 12.5, "total_max": 40}
    assert not sshd.connections()
    assert not Path("/proc", (tmp_path / "trex/server").read_text().strip()).exists(), "the server ends with its script"
    if os.geteuid() == 0:  # TRex listens on all addresses, without a password: no other process reaches its ports
        assert (tmp_path / "trex/network").read_text().strip() != str(Path("/proc/self/ns/net").readlink())


def test_the_server_imports_nothing_from_the_folder_of_the_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: a user puts a Python file where the session of root begins."""
    started: list[list[str]] = []

    def root_command(_remote: Remote, words: list[str]) -> list[str]:
        started.append(words)
        return ["true"]

    monkeypatch.setattr(trex, "root_command", root_command)
    config = trex.TrexConfig(folder=str(tmp_path), configuration="/etc/lab.yaml", cores=1, own_network=False)
    trex.Trex(Remote(host="there"), config, ("a", "b"), tmp_path / "log").end()
    for name in ("json", "os", "signal", "socket", "subprocess", "time", "typing"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    subprocess.run([sys.executable, *started[0][1:3]], cwd=tmp_path, capture_output=True, check=False)
    assert not (tmp_path / "ran").exists()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("own_network", "noted"), [(False, True), (True, False)])
def test_check_says_when_the_ports_of_the_server_are_open(
    cli: Cli, sshd: SshHost, tmp_path: Path, own_network: bool, noted: bool
) -> None:
    done = cli("testbed", "check", trex_file(sshd, tmp_path, own_network=own_network), "--json")
    assert any(each["what"] == "TRex" and "4500" in each["text"] for each in json.loads(done.stdout)) is noted


def test_another_server_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_trex(tmp_path / "trex")
    monkeypatch.setattr(sys, "argv", ["-c", str(folder), "/etc/lab.yaml", "1"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(signal, "signal", lambda *_arguments: None)
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        monkeypatch.setattr(trex_there, "PORT", foreign.getsockname()[1])
        monkeypatch.setattr(trex_there, "FREE_LIMIT_S", 0.1)
        with pytest.raises(SystemExit):
            trex_there.main()
    assert "another server answers on port" in json.loads(capsys.readouterr().out)["refused"]
    assert not (folder / "calls").exists()


def test_a_program_that_only_closes_its_output_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_generator, "EPITAPH_LIMIT_S", 0.2, raising=False)
    program = other_generator.SentProgram(["sh", "-c", "exec >&-; read line"], tmp_path / "log", "TRex")
    with pytest.raises(NodeLost, match="TRex closed its output"):
        program.answer(10)
    program.end()


@pytest.mark.thorough
def test_a_server_that_ends_is_one_line(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    file = trex_file(sshd, tmp_path)
    (tmp_path / "trex/dies").touch()
    done = cli.ends(3, "run", cli.spec(LOADED), "--testbed", file)
    assert len([line for line in done.stderr.splitlines() if line.startswith("pollscope: ")]) == 1
    assert "TRex ended with status" in done.stderr


def test_traffic_that_trex_cannot_generate_is_left_out(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    spec = cli.spec(LOADED.replace("flows: 16", "flows: 16, arrivals: bursts"))
    done = cli.ends(3, "plan", spec, "--testbed", trex_file(sshd, tmp_path))
    assert "trex sends at a constant rate only" in done.stderr
