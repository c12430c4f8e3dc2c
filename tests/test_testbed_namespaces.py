# SPDX-License-Identifier: BSD-3-Clause
"""Test TCP through cores that share a receive queue: the testbed `namespaces`, which vanishes after each run."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from run_helpers import Cli

from pollscope.base.errors import HostError, TrialError
from pollscope.metrics.derive import derive_trial
from pollscope.metrics.formulas.tcp import TCP
from pollscope.spec.model import Parameters
from pollscope.spec.points import Point
from pollscope.store.run_folder import read_run
from pollscope.testbeds import make_testbed
from pollscope.testbeds.namespaces import flows, network
from pollscope.testbeds.namespaces.flows import COLUMNS, measure
from pollscope.testbeds.namespaces.inside import TCP_INFO
from pollscope.testbeds.namespaces.network import Namespaces

MBIT = 10**6
SPEC = """\
format: 1
name: tcp
title: t
testbeds: [namespaces]
parameters: {workload: io, organisation: corec, flows: 4, flow_size: 20 kB}
factors:
  cores: [1, 2]
trial: {warmup: 0 ms, window: 10 ms, drain: 0 ms}
repeats: {count: 1}
"""
# Two cores share the CPUs of this host, whichever it has.
needs_two_cpus = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two cores need two CPUs")


def may_have_namespaces() -> bool:
    """Return whether this user may make a namespace, by making one."""
    if os.geteuid() != 0 or not all(shutil.which(tool) for tool in ("ip", "tc", "nsenter", "unshare")):
        return False
    return subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0


needs_namespaces = pytest.mark.skipif(not may_have_namespaces(), reason="no network namespaces for this user")


@pytest.fixture
def tcp_path(build_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = build_dir / "tcp-path"
    assert program.exists()
    monkeypatch.setenv("POLLSCOPE_TCP_PATH", str(program))
    return program


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    (tmp_path / "spec.yaml").write_text(SPEC)
    return Cli(tmp_path)


def network_namespaces() -> dict[int, str]:
    """Return those of all processes: inode -> a process in it."""
    found = {}
    for link in (process / "ns/net" for process in Path("/proc").glob("[0-9]*")):
        try:
            found[link.stat().st_ino] = link.parts[2]
        except OSError:  # it has ended
            continue
    return found


def offspring(pid: int) -> list[int]:
    """Return the processes that this one started, and those that they started."""
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [each for child in map(int, listed) for each in (child, *offspring(child))]


def own_namespaces(pid: int) -> set[int]:
    """Return the network namespaces of a run only: those of its offspring that are not the host's."""
    found = set()
    for child in offspring(pid):
        try:
            found.add(Path(f"/proc/{child}/ns/net").stat().st_ino)
        except OSError:
            continue
    return found - {Path("/proc/self/ns/net").stat().st_ino}


@pytest.mark.one_in(2)
@needs_namespaces
@needs_two_cpus
@pytest.mark.parametrize("organisation", ["corec", "scale-out"])
def test_all_flows_arrive_in_segments_of_one_mtu(tcp_path: Path, tmp_path: Path, organisation: str) -> None:
    """Without offloads there are at least so many frames as the payload needs; RSS gives each core some flows."""
    params = Parameters(cores=2, queues=2, organisation=organisation, workload="io", flows=32, flow_size="20 kB")  # type: ignore[arg-type]
    with Namespaces(100 * MBIT, 20) as three:
        found = measure(three, tcp_path, params, sorted(os.sched_getaffinity(0)), tmp_path / "log")
    columns = found["flows"]
    assert set(columns) == {"completion_ns", *TCP_INFO} and {len(each) for each in columns.values()} == {32}
    assert all(ns > 0 for ns in columns["completion_ns"]) and min(columns["reordering"]) >= 3
    assert all(segments >= 20_000 / 1448 for segments in columns["segments"])
    pump, *workers = (each["packets"] for each in found["path"])
    assert pump >= 32 * 20_000 / 1448  # fewer than were sent: the bottleneck drops
    assert sum(workers) == pump and len(workers) == 2
    assert organisation == "corec" or all(each > 0 for each in workers)


@needs_namespaces
def test_one_core_reorders_nothing(tcp_path: Path, tmp_path: Path) -> None:
    """The baseline: frames keep their order on whatever CPU its threads and the kernel's run."""
    params = Parameters(cores=1, organisation="corec", workload="io", flows=2, flow_size="3 MB")  # type: ignore[arg-type]
    with Namespaces(100 * MBIT, 20) as three:
        found = measure(three, tcp_path, params, sorted(os.sched_getaffinity(0)), tmp_path / "log")
    assert found["flows"]["reordering_events"] == [0, 0]
    assert found["kernel"]["tcp_reordering"] == "3"


@needs_namespaces
@needs_two_cpus
def test_a_run_keeps_each_flow(cli: Cli, tcp_path: Path) -> None:
    cli.ends(0, "run", cli.folder / "spec.yaml", "--testbed", "namespaces")
    run = read_run(next((cli.folder / "results").glob("*/*")))
    assert run.meta["testbed"]["rate_mbit"] == 200
    for trial in run.trials:
        assert len(trial["result"]["tcp"]["flows"]["completion_ns"]) == 4
        metrics, absences = derive_trial(trial)
        assert 0 < metrics["flow_completion_p50_ns"] <= metrics["flow_completion_max_ns"]
        assert absences["flow_completion_p90_ns"] == "4 flows are too few for p90 (at least 10)"
        assert "does not count cycles" in absences["tax_share"]
    assert any("by the ratio to one core" in text for text in run.meta["warnings"]) or len(os.sched_getaffinity(0)) > 4
    cli.ends(0, "report", run.path)
    explained = cli("explain", run.path).stdout
    assert "not known what limits it" in explained and "TCP chooses its own rate" in explained


class HostNamespace:
    """Run the program of each end in the namespace of this host."""

    rate_bps = 100 * MBIT

    def inside(self, _end: str, *command: str) -> list[str]:
        return list(command)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("kill -9 $$", "path was ended by SIGKILL"),
        ("exit 3", "path ended with status 3"),
        ("echo pump received 1 dropped 0", "reported 1 lcores, not 2"),
        ("exec sleep 60", "path did not end within 500 ms"),
    ],
)
def test_a_path_that_fails_at_its_end_fails_the_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, reason: str
) -> None:
    program = tmp_path / "path"
    program.write_text(f"#!/bin/sh\necho ready\ncat >{tmp_path}/input\n{end}\n")
    program.chmod(0o755)
    flow = {"begun_ns": 0, **dict.fromkeys(COLUMNS, 1)}
    monkeypatch.setattr(flows, "_send", lambda *_arguments: {"flows": [flow], "kernel": {}})
    monkeypatch.setattr(network, "END_LIMIT_S", 0.5)
    params = Parameters(cores=1, organisation="corec", workload="io", flows=1, flow_size="1 kB")  # type: ignore[arg-type]
    three: Any = HostNamespace()
    with pytest.raises(TrialError, match=reason):
        measure(three, program, params, [0], tmp_path / "log")


def test_a_program_that_stops_within_a_line_does_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "START_LIMIT_S", 0.5)
    command = ["sh", "-c", "printf EAL:; cat >/dev/null"]
    with pytest.raises(HostError, match="was not ready within 500 ms"), network.running(command):
        pass


def test_lines_before_ready_are_skipped_and_those_after_it_are_kept() -> None:
    with network.running(["sh", "-c", "printf 'EAL\nready\nlast\n'; cat >/dev/null"]) as program:
        assert network.last_words(program, "sh") == "last\n"


def started(cli: Cli) -> subprocess.Popen[str]:
    """Yield a run of an endless flow, once its client sends."""
    (cli.folder / "spec.yaml").write_text(SPEC.replace("20 kB", "50 GB"))
    running = cli.start("run", cli.folder / "spec.yaml", "--testbed", "namespaces")
    for _ in range(1200):
        assert running.poll() is None, running.communicate()
        if len(own_namespaces(running.pid)) == 3 and any(sends(child) for child in offspring(running.pid)):
            return running
        time.sleep(0.05)
    running.kill()
    raise AssertionError("no flow began within a minute")


def sends(pid: int) -> bool:
    try:
        return b"\0send\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def vanish(namespaces: set[int]) -> bool:
    """Return whether they vanish within a minute; kernel and processes of a busy host are slow."""
    for _ in range(1200):
        if not namespaces & network_namespaces().keys():
            return True
        time.sleep(0.05)
    return False


@needs_namespaces
@needs_two_cpus
@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(each, marks=pytest.mark.thorough) for each in (signal.SIGINT, signal.SIGTERM))],
)
def test_a_killed_run_leaves_nothing_behind(cli: Cli, tcp_path: Path, number: signal.Signals) -> None:
    """This holds after SIGKILL and without a next run: the process that holds the namespaces ends with the run."""
    running = started(cli)
    made = own_namespaces(running.pid)
    running.send_signal(number)
    _, said = running.communicate(timeout=120)
    assert running.returncode == (-9 if number is signal.SIGKILL else 130), said
    assert "Traceback" not in said
    assert len(made) == 3 and vanish(made)


@needs_namespaces
def test_the_hosts_own_namespace_is_unchanged(tmp_path: Path) -> None:
    listed = ["ip", "-json", "link", "show"]
    before = {each["ifname"] for each in json.loads(subprocess.run(listed, capture_output=True, check=True).stdout)}
    with Namespaces(100 * MBIT, 20) as three:
        now = {each["ifname"] for each in json.loads(subprocess.run(listed, capture_output=True, check=True).stdout)}
        inside = subprocess.run(three.inside("dut", *listed), capture_output=True, check=True, text=True).stdout
    assert {"near", "far"} <= {each["ifname"] for each in json.loads(inside)}
    assert not {"near", "far", "data", "back"} & (now - before)


@pytest.mark.thorough
def test_a_run_without_root_is_refused(cli: Cli, checkout: Path) -> None:
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("no way to be somebody else")
    become = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    asked = "from pollscope.testbeds import make_testbed; make_testbed('namespaces').check()"
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [*become, sys.executable, "-c", asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "HostError: network namespaces need root (run as root)" in done.stderr


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"flow_size": None, "load_pps": 1.0}, "so it needs flow_size"),
        ({"workload": "l3fwd-lpm"}, "workload io"),
        ({"organisation": "trylock"}, "not trylock"),
        ({"queues": 3}, "has 2 RX queues here, not 3"),
        ({"burst": 8}, "has no burst 8"),
        ({"hiccup_probability": "50 %"}, "has no hiccup_probability 0.5"),
        ({"cores": 17, "queues": 17}, "needs 17 CPUs"),
    ],
)
def test_points_that_the_testbed_cannot_host_are_left_out(changed: dict[str, Any], why: str) -> None:
    good: dict[str, Any] = {"cores": 2, "queues": 2, "workload": "io", "flow_size": "1 kB", "flows": 1}
    refusal = make_testbed("namespaces").refusal(Point("p", {}, Parameters(**{**good, **changed})))
    assert refusal is not None and why in refusal


def test_other_testbeds_refuse_tcp(cli: Cli) -> None:
    done = cli("plan", cli.folder / "spec.yaml", "--set", "testbeds=[loopback]")
    assert "TCP flows need a kernel at both ends" in done.said


@pytest.mark.parametrize("text", ["rate_mbit: 0", "rate_mbit: fast", "rate_mbit: 10\nqueue_ms: 0", "queue_ms: 5"])
def test_a_bad_file_is_refused(cli: Cli, text: str) -> None:
    (cli.folder / "bad.yaml").write_text(f"kind: namespaces\n{text}\n")
    done = cli("testbed", "status", cli.folder / "bad.yaml")
    assert done.returncode == 2 and "bad.yaml" in done.stderr


def flows_record(completion_ns: list[int], **columns: list[int]) -> dict[str, Any]:
    """Return a SYNTHETIC trial of flows of 1 MB through 100 Mbit/s in a second."""
    same = {name: [0] * len(completion_ns) for name in TCP_INFO}
    tcp = {
        "flows": {"completion_ns": completion_ns, **same, **columns},
        "duration_ns": 10**9,
        "bottleneck": {"rate_bps": 100 * MBIT, "bucket_bytes": 32768},
        "path": [
            {"role": "pump", "packets": 1000, "dropped": 0},
            {"role": "worker", "packets": 600, "dropped": 10},
            {"role": "worker", "packets": 390, "dropped": 0},
        ],
        "kernel": {},
    }
    return {"trial": "t", "status": "ok", "params": {"flow_size": 10**6}, "result": {"tcp": tcp}}


def test_metrics_of_flows() -> None:
    times = [(1 + each) * 10**6 for each in range(100)]
    seen = [0] * 90 + [2] * 10
    resent = [1] * 50 + [0] * 50
    metrics, _ = derive_trial(
        flows_record(times, segments=[10] * 100, retransmissions=resent, reordering_events=seen, reordering=[7] * 100)
    )
    assert metrics["flow_completion_mean_ns"] == pytest.approx(50.5e6)
    assert [metrics[f"flow_completion_{name}_ns"] for name in ("p50", "p90", "p99", "max")] == [5e7, 9e7, 9.9e7, 1e8]
    assert metrics["goodput_bps"] == pytest.approx(8e8)
    assert metrics["retransmissions_per_flow"] == 0.5 and metrics["retransmitted_share"] == 0.05
    assert metrics["reordering_seen_share"] == 0.1 and metrics["reordering_degree_max"] == 7
    assert metrics["reordering_events_per_flow"] == 0.2
    assert metrics["path_loss_share"] == pytest.approx(0.02)


def test_the_time_of_the_link_alone_is_measured() -> None:
    """10 MB are 6907 segments of 1448 bytes, each with 66 bytes of headers: 0.836 s at 100 Mbit/s, less the bucket."""
    metrics, _ = derive_trial(flows_record([10**9] * 10, segments=[691] * 10))
    assert metrics["bottleneck_share"] == pytest.approx((10**7 / 1448 * 1514 - 32768) * 8 / 1e8)
    record = flows_record([10**9])
    record["params"]["flow_size"] = 1000
    assert "passes them all at once" in derive_trial(record)[1]["bottleneck_share"]


def test_a_udp_trial_has_no_flows() -> None:
    record = {"trial": "t", "status": "ok", "params": {}, "result": {"window": {"absent": "none"}}}
    absences = derive_trial(record)[1]
    assert {absences[name] for name in TCP} == {"no TCP flows were sent (flow_size)"}
