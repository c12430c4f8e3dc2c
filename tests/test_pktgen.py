# SPDX-License-Identifier: BSD-3-Clause
"""Test the generator driver pktgen-dpdk against a stand-in that answers as the real program did, over a real sshd."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pytest
from pair_hosts import SPEC, pair_config, written
from run_helpers import Cli
from ssh_host import SshHost

from pollscope.testbeds.pair.other_generator import destinations
from pollscope.testbeds.pair.pktgen import rate_percent
from pollscope.testbeds.pair.pktgen_there import is_pktgen

FAKE = Path(__file__).parent / "fake_pktgen.py"
ROUTES_H = Path(__file__).parent.parent / "apps/lib/routes.h"
LOADED = SPEC.replace("load_pps: 0", "flows: 16").replace("burst: [8, 32]", "load_pps: [0 pps, 1 Mpps]")


def pktgen_file(sshd: SshHost, folder: Path, fault: str = "", **generator: Any) -> Path:
    values = {"PKTGEN_LOG": folder / "lua", "FAKE_PKTGEN": fault}
    words = [f"export {name}={shlex.quote(str(value))}" for name, value in values.items()]
    program = folder / "pktgen"
    command = f'exec {shlex.quote(sys.executable)} {shlex.quote(str(FAKE))} "$@"'
    program.write_text("\n".join(["#!/bin/sh", *words, command, ""]))
    program.chmod(0o755)
    own: dict[str, Any] = {"driver": "pktgen-dpdk", "pktgen": {"program": str(program)}}
    return written(folder / "two.yaml", pair_config(sshd, folder, generator=generator, **own))


def test_rate_size_and_range_are_set_and_counters_become_metrics(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    spec = cli.spec(LOADED.replace("generator_receives: false", "generator_receives: true"))
    run = cli.ran(spec, "--testbed", pktgen_file(sshd, tmp_path))
    lua = (tmp_path / "lua").read_text()
    assert "-P -m [1:1].0 -f " in lua
    assert " -G" not in lua, "its socket takes Lua from every address"
    assert 'pktgen.set("0", "rate", 0.672000)' in lua  # 1 Mpps of 148.8 Mpps
    assert 'pktgen.set("0", "size", 64)' in lua
    assert 'pktgen.range.src_port("0", "max", 1039)' in lua
    assert 'pktgen.range.dst_ip("0", "start", "10.' in lua
    assert 'pktgen.set_range("0", "on")' in lua
    table = pd.read_parquet(run.path / "results.parquet").set_index("point")
    loaded, idle = table.loc["load_pps=1000000.0"], table.loc["load_pps=0.0"]
    assert idle["metric.offered_pps"] == 0
    for metric, reason in {
        "latency_p99_ns": "no distribution, and no latency from the intended time",
        "loss_share": "so the number of lost packets is unknown",
        "reordered_share": "numbers no packets",
        "generator_gaps_over_100us_per_s": "does not watch its core",
    }.items():
        assert pd.isna(loaded[f"metric.{metric}"])
        assert reason in loaded[f"absent.{metric}"], metric
    record = next(trial for trial in run.trials if trial["point"] == "load_pps=1000000.0")
    lcore = record["result"]["gen"]["lcores"][0]
    # Between two reads of its counters the stand-in sends for 0.1 s.
    assert (lcore["sent"], lcore["rx_packets"]) == (100_000, 90_000)
    assert lcore["pktgen_latency"] == {"absent": "none of its stamped packets came back"}
    assert not sshd.connections()
    scripts = set(re.findall(r"-f (\S+)", lua))
    assert scripts and not [script for script in scripts if Path(script).parent.exists()], "files end with the run"


@pytest.mark.thorough
def test_two_ports_have_an_lcore_each(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    ports = {"tx": "net_fake0", "rx": "net_fake1", "queues": 1}
    file = pktgen_file(sshd, tmp_path, ports=ports, cpus=[1, 2])
    spec = cli.spec(LOADED.replace("generator_receives: false", "generator_receives: true"))
    cli.ends(0, "run", spec, "--testbed", file)
    found = cli.only_run().trials[-1]["result"]["gen"]["lcores"][0]["pktgen_latency"]
    assert found == {"num_pkts": 116, "min_us": 3.5473469387755, "avg_us": 6081.2220408163, "max_us": 22848.77755102}
    started = (tmp_path / "lua").read_text().splitlines()[0]
    assert "--lcores 0@0,1@1,2@2" in started
    assert "-m [1:1].0,[2:2].1" in started
    done = cli.ends(2, "run", cli.spec(LOADED), "--testbed", pktgen_file(sshd, tmp_path, ports=ports, cpus=[1]))
    assert "pktgen-dpdk needs one for each of its two ports" in done.stderr


@contextmanager
def another_pktgen(folder: Path, *words: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process of a program with that name: a shell that waits for input."""
    (folder / "other").mkdir()
    program = shutil.copy("/bin/sh", folder / "other/pktgen")
    with subprocess.Popen([program, "-c", "read line", *words], stdin=subprocess.PIPE, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def test_only_pktgen_itself_is_a_second_instance(tmp_path: Path) -> None:
    """The attack: any user calls a process so, and the message asks root to kill it."""
    with subprocess.Popen(["pktgen", "600"], executable=shutil.which("sleep")) as named:
        try:
            assert not is_pktgen(Path(f"/proc/{named.pid}"))
        finally:
            named.kill()
    with another_pktgen(tmp_path) as own:
        assert is_pktgen(Path(f"/proc/{own.pid}"))


def test_a_pktgen_of_another_user_is_no_second_instance() -> None:
    if os.geteuid() != 0:
        pytest.skip("another user's process needs root")
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with another_pktgen(Path(folder), user=65534) as foreign:
            assert not is_pktgen(Path(f"/proc/{foreign.pid}"))


@pytest.mark.thorough
def test_a_second_instance_is_refused_by_name(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    with another_pktgen(tmp_path, "--vdev", "net_held0,iface=a") as held:
        done = cli("run", cli.spec(LOADED), "--testbed", pktgen_file(sshd, tmp_path, vdevs=["net_held0,iface=b"]))
    assert done.returncode == 3
    assert f"process {held.pid} is another pktgen-dpdk, which holds net_held0 (end it: kill {held.pid})" in done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("flows: 16", "flows: 16, frame: imix"), "frames of one size"),
        (("flows: 16", "flows: 16, arrivals: poisson"), "constant rate only"),
        (("generator_receives: false", "workload: io, nic_timestamps: 10 ms"), "does not support NIC time stamps"),
        (("flows: 16", "flows: 100000"), "at most 24576 flows"),
    ],
)
def test_traffic_that_pktgen_cannot_generate_is_left_out(
    cli: Cli, sshd: SshHost, tmp_path: Path, change: tuple[str, str], reason: str
) -> None:
    done = cli.ends(3, "plan", cli.spec(LOADED.replace(*change)), "--testbed", pktgen_file(sshd, tmp_path))
    assert reason in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fault", "shown"),
    [("die", "Did not find any ports to use"), ("memory", "it takes 1.3 GiB per port: reserve as many hugepages")],
)
def test_a_program_that_ends_is_one_line(cli: Cli, sshd: SshHost, tmp_path: Path, fault: str, shown: str) -> None:
    done = cli.ends(3, "run", cli.spec(LOADED), "--testbed", pktgen_file(sshd, tmp_path, fault))
    lines = [line for line in done.stderr.splitlines() if line.startswith("pollscope: ")]
    assert len(lines) == 1
    assert "pktgen-dpdk ended: !PANIC!:" in lines[0]
    assert shown in lines[0]


@pytest.mark.parametrize(
    ("pps", "size", "mbps", "percent"),
    [(14_880_952, 64, 1e4, 100), (1e6, 64, 1e4, 6.72), (1e9, 64, 1e4, 100), (812_743, 1518, 1e4, 100), (0, 64, 1e3, 0)],
)
def test_rates_in_percent_of_the_line(pps: float, size: int, mbps: float, percent: float) -> None:
    assert rate_percent(pps, size, mbps) == pytest.approx(percent, rel=1e-4)


@pytest.mark.parametrize("routes", [1, 2, 1000, 16384, 65536])
@pytest.mark.parametrize("flows", [1, 16, 1000, 24_576])
def test_destinations_are_routes_of_the_router(routes: int, flows: int) -> None:
    """The table is that of apps/lib/routes.h, read here from its source."""
    source = ROUTES_H.read_text()
    found = re.search(r"return \((\d+)u << 24\) \| \(\(\(i \* (\d+)u\) & 0xffffu\) << 8\);", source)
    assert found is not None
    covered = {(int(found[1]) << 16) | (i * int(found[2]) & 0xFFFF) for i in range(routes)}
    to = destinations(routes, flows)
    step = int(to.step)
    made = list(range(int(to.first), int(to.last) + 1, step)) if step else [int(to.first)]
    assert IPv4Address(made[-1]) == to.last
    assert {address >> 8 for address in made} <= covered
    assert flows % len(made) == 0
    assert len(made) > 1 or routes == 1 or flows == 1
