# SPDX-License-Identifier: BSD-3-Clause
"""Test the testbed `pair` over real SSH: two node processes, joined by a memif socket, exchange real packets."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pair_hosts import memif, pair_config, real_node, written
from run_helpers import Cli, assert_complete, last_attempts
from ssh_host import SshHost, free_port

from pollscope.metrics.derive import derive_trial
from pollscope.store.run_folder import RunFolder

SPEC = """\
format: 1
name: pair-test
row: S-F5
title: t
testbeds: [pair]
parameters: {workload: io, rx_desc: 512, tx_desc: 512}
factors:
  load_pps: [0 pps, 2 kpps]
trial: {warmup: 500 ms, window: 200 ms, drain: 500 ms}
repeats: {count: 1}
order: {randomise: false}
"""


def pair_file(sshd: SshHost, build_dir: Path, folder: Path, **dut_ssh: Any) -> Path:
    """Write a pair whose two hosts are this one; the port of each node is an end of a memif connection."""
    no_agent = {"pollscope": "/nonexistent/pollscope"}
    config = pair_config(sshd, folder, *({**keys, **no_agent} for keys in memif(build_dir, folder)))
    config["dut"]["ssh"] |= dut_ssh
    return written(folder / f"two-nodes-{os.getpid()}.yaml", config)


def metrics(run: RunFolder, point: str) -> list[dict[str, float]]:
    return [derive_trial(trial)[0] for trial in last_attempts(run).values() if trial["point"] == point]


def test_trials_across_two_nodes(cli: Cli, sshd: SshHost, build_dir: Path) -> None:
    testbed = pair_file(sshd, build_dir, cli.folder)
    run = cli.ran(cli.spec(SPEC), "--testbed", testbed, "--set", "noise.extra_blocks=0")
    assert run.meta["testbed"]["shared_tsc"] is False
    loaded = metrics(run, "load_pps=2000.0")
    assert len(loaded) == 1
    for values in loaded:
        assert values["rx_pps"] > 0
        # Both nodes spin on one CPU: packets that wait longer than the drain count as lost.
        assert values["loss_share"] < 0.02
        assert values["latency_p50_ns"] > 0
    for values in metrics(run, "load_pps=0.0"):
        assert values["rx_pps"] == 0
        assert values["empty_poll_fraction"] == 1
    for trial in last_attempts(run).values():
        assert 0 < trial["result"]["clocks"]["start_skew_at_most_ns"] < trial["start"]["warmup_ns"]
        assert set(trial["result"]["ports"]) == {"dut/net_memif0", "gen/net_memif0"}
        assert "steal_ticks" not in derive_trial(trial)[0]
    assert not sshd.connections()


@pytest.fixture
def cable() -> Iterator[tuple[str, str]]:
    """Make the two ends of a veth pair, with packets from and to one queue per sender."""
    ends = ("pollscope-a", "pollscope-b")
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("a pair of virtual interfaces needs root and iproute2")
    subprocess.run(["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]], check=True)
    try:
        for end in ends:
            subprocess.run(["ip", "link", "set", end, "up"], check=True)
        yield ends
    finally:
        subprocess.run(["ip", "link", "del", ends[0]], check=True)


@pytest.mark.thorough
def test_every_cpu_of_the_generator_sends(cli: Cli, sshd: SshHost, build_dir: Path, cable: tuple[str, str]) -> None:
    """Two lcores on a port with two queues each way; memif has no such port where the other end has one."""
    testbed = pair_file(sshd, build_dir, cli.folder)
    config = json.loads(testbed.read_text())
    for role, end, queues in (("dut", cable[0], 1), ("generator", cable[1], 2)):
        config[role] |= real_node(build_dir, f"net_af_packet0,iface={end},qpairs={queues}")
    config["generator"]["cpus"] = [1, 0]
    testbed.write_text(json.dumps(config))
    text = SPEC.replace("[0 pps, 2 kpps]", "[2 kpps]")
    cli.ends(0, "run", cli.spec(text), "--testbed", testbed, "--set", "noise.extra_blocks=0")
    (trial,) = last_attempts(cli.only_run()).values()
    first, second = trial["result"]["gen"]["lcores"]
    assert (first["cpu"], second["cpu"]) == (1, 0)
    assert first["intended"] + second["intended"] == pytest.approx(400, abs=2)
    assert min(first["intended"], second["intended"]) > 100
    values = derive_trial(trial)[0]
    assert values["loss_share"] < 0.02
    assert values["latency_p50_ns"] > 0


@pytest.mark.thorough
def test_a_short_warmup_is_lengthened_where_there_is_a_generator(cli: Cli, sshd: SshHost, build_dir: Path) -> None:
    text = SPEC.replace("warmup: 500 ms", "warmup: 1 ms").replace("load_pps: [0 pps, 2 kpps]", "feed: [wire, none]")
    text = text.replace("tx_desc: 512", "tx_desc: 512, saturate: true")
    cli.ends(0, "run", cli.spec(text), "--testbed", pair_file(sshd, build_dir, cli.folder))
    trials = last_attempts(cli.only_run()).values()
    warmups_ns = {trial["factors"]["feed"]: trial["start"]["warmup_ns"] for trial in trials}
    assert warmups_ns["wire"] >= 500_000_000
    assert warmups_ns["none"] == 1_000_000


@pytest.mark.thorough
def test_a_lost_connection_fails_the_trial_and_the_run_is_resumable(cli: Cli, sshd: SshHost, build_dir: Path) -> None:
    testbed = pair_file(sshd, build_dir, cli.folder)
    spec = cli.spec(SPEC.replace("count: 1", "count: 2"))
    process = cli.start("run", spec, "--testbed", testbed, "--set", "failures.tries=1")
    trials = wait_for_trials(cli, 1)
    time.sleep(0.3)  # a run that loses the connection between two trials connects again and loses nothing
    for pid in sshd.connections():
        os.kill(pid, signal.SIGKILL)
    _, err = process.communicate(timeout=180)
    assert "Traceback" not in err
    assert process.returncode in (1, 3), err
    run = cli.only_run()
    failed = [trial for trial in run.trials if trial["status"] == "failed"]
    assert len(trials) <= len(run.trials)
    assert failed, run.trials
    assert "SSH connection was lost" in failed[0]["reason"]
    assert "127.0.0.1" in failed[0]["reason"]
    for _ in range(2):  # two nodes of a busy host may start too far apart, which fails a trial of one try
        done = cli("run", "--resume", run.path, "--testbed", run.meta["testbed"]["file"])
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    assert_complete(cli.only_run())


def wait_for_trials(cli: Cli, count: int) -> list[str]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        lines = [line for path in cli.folder.glob("results/*/*/trials.jsonl") for line in path.read_text().splitlines()]
        if len(lines) >= count:
            return lines
        time.sleep(0.05)
    raise AssertionError("no trial was made")


@pytest.mark.thorough
def test_nodes_end_with_their_connection(cli: Cli, sshd: SshHost, build_dir: Path) -> None:
    testbed = pair_file(sshd, build_dir, cli.folder)
    process = cli.start("run", cli.spec(SPEC), "--testbed", testbed)
    wait_for_trials(cli, 1)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 20
    while nodes_of(testbed) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not nodes_of(testbed)


def nodes_of(testbed: Path) -> list[str]:
    """Return processes whose file prefix names this testbed."""
    found = []
    for path in (process / "cmdline" for process in Path("/proc").glob("[0-9]*")):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.startswith(f"pollscope-{testbed.stem}-".encode()) for word in words):
            found.append(path.parent.name)
    return found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"port": None}, "Connection refused"),
        ({"known_hosts": "/dev/null"}, "Host key verification failed"),
        ({"key": "/nonexistent/key"}, "Permission denied"),
    ],
)
def test_a_host_that_cannot_be_entered_is_one_line(
    cli: Cli, sshd: SshHost, build_dir: Path, wrong: dict[str, Any], said: str
) -> None:
    other = {key: free_port() if value is None else value for key, value in wrong.items()}
    testbed = pair_file(sshd, build_dir, cli.folder, **other)
    commands: list[list[str | Path]] = [["run", cli.spec(SPEC), "--testbed", testbed], ["testbed", "status", testbed]]
    for command in commands:
        assert said in cli.ends(3, *command).said
    assert not nodes_of(testbed)


@pytest.mark.thorough
def test_status_of_a_pair(cli: Cli, sshd: SshHost, build_dir: Path) -> None:
    testbed = pair_file(sshd, build_dir, cli.folder)
    cli.ends(0, "testbed", "status", testbed)
    config = json.loads(testbed.read_text())
    config["dut"]["program"] = "/nonexistent/node"
    testbed.write_text(json.dumps(config))
    assert "there is no program /nonexistent/node" in cli.ends(3, "testbed", "status", testbed).stdout


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("parameters.organisation=scale-up", "needs 2 DUT cores"),
        ("parameters.queues=2", "needs 2 RX queues"),
        ("parameters.dma=swap", "a real NIC has a DMA engine"),
        ("parameters.organisation=corec", "organisation=corec is a feature of the virtual NIC"),
        ("parameters.notification=qwait", "notification=qwait is a feature of the virtual NIC"),
        ("parameters.notification=interrupt", "notification=interrupt is a feature of the virtual NIC"),
        ("factors.corunner=[matmul]", "programs beside the DUT: dut root@127.0.0.1"),
        ("factors.knob.governor=[performance]", "there is no program"),
    ],
)
def test_points_that_a_pair_cannot_host(cli: Cli, sshd: SshHost, build_dir: Path, setting: str, reason: str) -> None:
    testbed = pair_file(sshd, build_dir, cli.folder)
    assert reason in cli.ends(3, "plan", cli.spec(SPEC), "--testbed", testbed, "--set", setting).said


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"dut": {}}, "dut"),
        ({"colour": 1}, "colour"),
        ({"kind": "triple"}, "kind"),
        ({"generator": {"cpus": list(range(1, 10))}}, "generator.cpus: a generator has at most 8 lcores"),
        ({"driver": "pktgen-dpdk"}, "driver pktgen-dpdk and the key pktgen go together"),
        ({"driver": "trex"}, "driver trex and the key trex go together"),
        ({"trex": {"folder": "/opt/trex"}}, "driver trex and the key trex go together"),
        ({"pktgen": {"line_gbps": 10}}, "pktgen.line_gbps"),
    ],
)
def test_bad_testbed_files(cli: Cli, sshd: SshHost, build_dir: Path, change: dict[str, Any], key: str) -> None:
    testbed = pair_file(sshd, build_dir, cli.folder)
    config = json.loads(testbed.read_text())
    if "generator" in change:
        change = {"generator": config["generator"] | change["generator"]}
    (line,) = cli.ends(2, "testbed", "status", written(testbed, config | change)).stderr.splitlines()
    assert key in line


@pytest.mark.one_in(3)
@pytest.mark.parametrize("bad", ["-oProxyCommand=x", "a b", "", "$(id)", "a;b"])
def test_a_host_name_never_becomes_an_option_or_shell_text(cli: Cli, sshd: SshHost, build_dir: Path, bad: str) -> None:
    assert "host" in cli.ends(2, "testbed", "status", pair_file(sshd, build_dir, cli.folder, host=bad)).stderr
