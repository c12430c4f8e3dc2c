# SPDX-License-Identifier: BSD-3-Clause
"""Check trials of a real node: every packet, poll and cycle is accounted for, in each mode and workload."""

import json
import socket
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from accounted import MODES, check_cycles, is_absent
from dut_node import DUT_LCORE, DUT_RX, LIMIT_S, SECOND_DUT_LCORE, Node, configuration

from pollscope.metrics.accounting import Classes, MeasuredCycles

pytestmark = pytest.mark.measure

PPS = {"pps": 50_000}
ON_TIME_S = 0.02  # several time slices of the kernel


def lateness_s(lcore: dict[str, Any], window: dict[str, Any]) -> float:
    """Return how much later than requested the lcore cut its window, at the worse edge; never earlier."""
    late = [lcore["window"][edge] - window[edge] for edge in ("start_tsc", "end_tsc")]
    assert min(late) >= 0
    latest_s: float = max(late) / window["tsc_hz"]
    return latest_s


def test_an_lcore_cuts_its_window_on_time(node: Node) -> None:
    """Take the least of several trials, because a host that takes the CPU away only makes it later."""
    node.get("configure", **configuration())
    late: list[float] = []
    while not late or (min(late) > ON_TIME_S and len(late) < 20):
        result = node.trial(window_s=0.1, rate=PPS)
        late.append(lateness_s(result["dut"]["lcores"][0], result["window"]))
    assert min(late) <= ON_TIME_S


def test_known_cost_shows_in_useful(node: Node) -> None:
    """The useful cycles of a packet are the 20000 added ones and a few hundred of its own.

    The median of five trials: a busy host makes any of them longer.
    """
    node.get("configure", **configuration(extra_cycles=20_000))
    known: list[float] = []
    for _ in range(20):  # on a busy host some trials do not know the cost of an empty poll well enough, and say so
        lcore = node.trial(window_s=0.2, rate={"pps": 30_000})["dut"]["lcores"][0]
        found = check_cycles(lcore, "sampled")
        if isinstance(found, Classes):
            known.append(found.packets.value / lcore["rx_packets"])
        if len(known) == 5:
            break
    assert 19_500 < statistics.median(known) < 24_000


def test_without_traffic_all_time_is_tax(node: Node) -> None:
    node.get("configure", **configuration(queues=4))
    (lcore,) = node.trial(rate={"pps": 0})["dut"]["lcores"]
    found = check_cycles(lcore, "sampled")
    assert isinstance(found, Classes)
    assert isinstance(found.interaction, MeasuredCycles)
    assert found.packets.value == found.interaction.value == 0
    assert found.empty_poll.value > 0 < found.loop
    assert is_absent(lcore["timed"])
    assert lcore["transitions"] == 0
    assert lcore["idle_iterations"] == lcore["iterations"] > 1000
    assert lcore["polls"]["empty"] == 4 * lcore["iterations"]
    assert lcore["histograms"]["iteration_cycles"]["total"] > 0
    assert lcore["histograms"]["poll_gap_cycles"]["total"] > 0
    assert [entry["cycles"] for entry in lcore["longest"]] == sorted(
        (entry["cycles"] for entry in lcore["longest"]), reverse=True
    )


@pytest.mark.thorough
def test_waits_on_purpose_are_no_interruptions(node: Node) -> None:
    """200 us for every packet, so that a core waits most of the time and cannot be away meanwhile."""
    hiccup = {"probability": 1, "delay": {"kind": "fixed", "ns": 200_000}}
    node.get("configure", **configuration(rx_desc=4096, hiccup=hiccup))
    for _ in range(20):
        (lcore,) = node.trial(rate=PPS, drain_max_ns=0)["dut"]["lcores"]
        waited = lcore["hiccups"]["cycles"] / lcore["cycles"]["total"]
        assert waited + lcore["interruptions"]["cycles"] / lcore["cycles"]["total"] < 1.05
        if waited > 0.6:
            return
    pytest.skip("this host leaves the core less than 60 % of the time")


@pytest.mark.thorough
def test_reconfiguration_from_one_queue_to_1024_and_back(node: Node) -> None:
    for queues, rx_desc in ((1, 512), (1024, 64), (1, 512), (64, 256)):
        request = configuration(queues=queues, rx_desc=rx_desc, gen={"flows": 2 * queues})
        reply = node.get("configure", **request)
        assert reply["configured_ns"] > 0
        assert reply["footprint_bytes"][DUT_RX] >= queues * rx_desc * 2048
        reached: set[int] = set()
        for _ in range(20):  # on a busy host a trial has too few packets to reach each of 1024 queues
            result = node.trial(window_s=0.2, rate={"pps": 500_000})
            counts = result["ports"][DUT_RX]["rx_queue_packets"]
            reached |= {queue for queue, count in enumerate(counts) if count > 0}
            if len(reached) == queues:
                break
        assert reached == set(range(queues))
        assert result["dut"]["lcores"][0]["queues"] == queues


def test_same_configuration_again_disturbs_nothing(node: Node) -> None:
    node.get("configure", **configuration())
    node.trial(rate=PPS)
    # The minimum of several, because a busy host only makes each slower.
    assert min(node.get("configure", **configuration())["configured_ns"] for _ in range(5)) < 200e6
    assert node.ask("read")["ok"] is False  # results belong to the configuration


def test_two_lcores_share_the_queues(node: Node) -> None:
    lcores = [DUT_LCORE, SECOND_DUT_LCORE]
    node.get("configure", **configuration(queues=5, lcores=lcores))
    result = node.trial(window_s=0.3, rate={"pps": 20_000})
    first, second = result["dut"]["lcores"]
    assert (first["lcore"], second["lcore"]) == tuple(lcores)
    assert (first["queues"], second["queues"]) == (3, 2)
    assert first["rx_packets"] > 0
    assert second["rx_packets"] > 0
    for lcore in (first, second):
        assert sum(lcore["polls"].values()) == lcore["iterations"] * lcore["queues"]


def test_dut_alone(node: Node) -> None:
    node.get("configure", **configuration(generator=False))
    result = node.trial()
    assert "gen" not in result
    assert result["dut"]["lcores"][0]["rx_packets"] == 0


def test_calibration_orders_the_costs(node: Node) -> None:
    node.get("configure", **configuration(queues=16))
    costs = node.get("calibrate")["costs"]
    for cost in costs.values():
        assert 0 <= cost["low"] <= cost["median"] <= cost["high"]
        assert cost["n"] >= 11
    assert costs["tsc_read_serialised_cycles"]["median"] > costs["tsc_read_cycles"]["median"]
    assert costs["empty_poll_serialised_cycles"]["median"] > costs["empty_poll_overlapped_cycles"]["median"]
    sweep = 16 * costs["empty_poll_overlapped_cycles"]["median"]
    assert costs["sweep_cycles"]["median"] == pytest.approx(sweep, rel=0.01)
    fewer = node.get("calibrate", queues=2)["costs"]["sweep_cycles"]["median"]
    assert fewer < costs["sweep_cycles"]["median"]
    assert node.ask("calibrate", queues=17)["where"] == "queues"


def test_selftest_covers_modes_and_distances(node: Node) -> None:
    rows = node.get("selftest")["rows"]
    assert {(row["every_k_polls"], row["mode"]) for row in rows} == {
        (every, mode) for every in (None, 256, 64, 16, 8, 4, 2) for mode in MODES
    }
    for row in rows:
        assert row["low"] <= row["added_cycles_per_poll"] <= row["high"]
        assert (row["mode"] != "none") or row["added_cycles_per_poll"] == 0
    full, sampled = (
        next(row for row in rows if row["mode"] == mode and row["every_k_polls"] == 16) for mode in ("full", "sampled")
    )
    assert full["added_cycles_per_poll"] > 3 * sampled["added_cycles_per_poll"]


@pytest.mark.thorough
def test_selftest_program_prints_a_table(build_dir: Path) -> None:
    command = [str(build_dir / "pollscope-node"), "--lcores", "0@0,1@1", "--no-pci", "--no-huge", "-m", "128"]
    done = subprocess.run(
        [*command, "--no-shconf", "--", "--self-test"], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2 + 7 * len(MODES)
    assert lines[2].split()[:2] == ["never", "none"]


def telemetry(connection: socket.socket, command: str) -> Any:
    connection.send(command.encode())
    (answer,) = json.loads(connection.recv(1 << 16)).values()
    return answer


def test_telemetry_serves_live_counters(node: Node) -> None:
    node.get("configure", **configuration())
    arguments = Path(f"/proc/{node.process.pid}/cmdline").read_text().split("\0")
    path = f"/var/run/dpdk/{arguments[arguments.index('--file-prefix') + 1]}/dpdk_telemetry.v2"
    if not Path(path).exists():
        pytest.skip(f"no telemetry socket at {path}: not root, or EAL without telemetry")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(path)
        connection.recv(1 << 16)  # greeting
        assert telemetry(connection, "/pollscope/lcores") == [DUT_LCORE]
        node.get("start", trial="live", warmup_ns=0, window_ns=60 * 10**9, rate=PPS)
        first = telemetry(connection, f"/pollscope/lcore,{DUT_LCORE}")["iterations"]
        deadline = time.monotonic() + LIMIT_S
        while telemetry(connection, f"/pollscope/lcore,{DUT_LCORE}")["iterations"] <= first:
            assert time.monotonic() < deadline, "the counters stand still"
            time.sleep(0.01)
        assert telemetry(connection, "/pollscope/trial") == {"trial": "live", "state": "running"}
        assert telemetry(connection, "/pollscope/lcore,77") is None
        node.get("stop")
        assert node.line()["event"] == "done"
