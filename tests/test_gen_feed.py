# SPDX-License-Identifier: BSD-3-Clause
"""Check that hot queues are backlogged and polls of cold ones find random packets, for both feeds."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gen_node import LIMIT_S, running_client

from pollscope.metrics.record import TrialObservations
from pollscope.metrics.shapes import polls_of_shape, shape_flags
from pollscope.node.client import NodeClient, NodeRefused
from pollscope.spec.model import Parameters

pytestmark = pytest.mark.measure

A, B, C, D = "net_crossover0_a", "net_crossover0_b", "net_crossover1_a", "net_crossover1_b"
WINDOW_S = 0.2
# Above this limit the host took a core away for too long to judge the generator by the counts.
MOST_GAPS_NS, MOST_TAKEN, TRIES = 1_000_000, 0.1, 8


# The generator is on CPU 0 beside the main lcore, which sleeps; the DUT on CPU 1.
LCORES = "0@0,1@0,2@1"


@pytest.fixture(scope="module")
def fed(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeClient]:
    log = tmp_path_factory.mktemp("fed") / "node.log"
    with running_client(build_dir, log, LCORES, "net_crossover0,feed=infinite,flows=1024", "net_crossover1") as client:
        yield client


@pytest.fixture(scope="module")
def wired(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeClient]:
    log = tmp_path_factory.mktemp("wired") / "node.log"
    with running_client(build_dir, log, LCORES, "net_crossover0", "net_crossover1") as client:
        yield client


def configured(queues: int, **roles: Any) -> dict[str, Any]:
    ports: list[dict[str, Any]] = [{"name": name} for name in (A, C, D)]
    ports.append({"name": B, "rx_queues": queues, "rx_desc": 128})
    dut = {"lcores": [2], "rx_port": B, "tx_port": C, "workload": "io", "extra_cycles": 100}
    return {"ports": ports, "dut": dut, **roles}


def trial(client: NodeClient, config: dict[str, Any], shape: str) -> dict[str, Any]:
    """Run a saturated trial and return it as a record."""
    client.request("configure", LIMIT_S, **config)
    times = {"warmup_ns": 50_000_000, "window_ns": int(WINDOW_S * 1e9), "drain_max_ns": 10_000_000}
    client.request("start", LIMIT_S, trial="t", rate={"saturate": True}, **times)
    assert client.wait_event(("done", "failed"), LIMIT_S)["event"] == "done"
    params = Parameters().model_dump() | {"shape": shape, "queues": config["ports"][-1]["rx_queues"]}
    return {"params": params, "config": config, "result": client.request("read", LIMIT_S)}


def quiet_trial(client: NodeClient, config: dict[str, Any], shape: str) -> dict[str, Any]:
    """Return a trial in which the host left generator and DUT their cores; skip the test if there is none."""
    for _ in range(TRIES):
        record = trial(client, config, shape)
        result = record["result"]
        gaps_ns = result["gen"]["lcores"][0]["host_gaps"]["in_over_100us_ns"]
        taken_share = result["dut"]["lcores"][0]["interruptions"]["cycles"] / result["window"]["tsc_hz"] / WINDOW_S
        if gaps_ns < MOST_GAPS_NS and taken_share < MOST_TAKEN:
            return record
    pytest.skip(f"in {TRIES} trials the host took the generator's core or the DUT's away for too long")


def by_queue(record: dict[str, Any], hot: list[int]) -> tuple[list[int], list[int]]:
    """Return the packets of the whole trial for hot and for cold queues."""
    counts = record["result"]["ports"][B]["rx_queue_packets"]
    return [counts[queue] for queue in hot], [count for queue, count in enumerate(counts) if queue not in hot]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("shape", "queues"), [("FB", 100), ("PC", 100), ("PC", 500), ("NC", 250), ("SQ", 100)])
def test_a_fed_port_has_the_shape_to_the_poll(fed: NodeClient, shape: str, queues: int) -> None:
    record = trial(fed, configured(queues, feed={"port": B, "shape": shape}), shape)
    found = polls_of_shape(TrialObservations(record))
    assert abs(found.off) < 0.002
    assert shape_flags(TrialObservations(record)) == []
    hot, cold = by_queue(record, record["result"]["feed"]["hot"])
    assert len(hot) == {"FB": queues, "PC": queues // 5, "NC": 100, "SQ": 1}[shape]
    assert max(hot) - min(hot) <= 2 * 32  # each busy poll takes 32, and the lcore stops within a sweep
    if shape == "SQ":
        assert not any(cold)
    elif cold:
        queue_polls = hot[0] / 32
        assert sum(cold) / (len(cold) * queue_polls) == pytest.approx(0.05, rel=0.1)


@pytest.mark.thorough
def test_the_same_seed_makes_the_same_queues_hot(fed: NodeClient, wired: NodeClient) -> None:
    shape = {"shape": "PC", "shape_seed": 9}
    first = trial(fed, configured(50, feed={"port": B, **shape}), "PC")["result"]["feed"]["hot"]
    gen = {"lcores": [1], "tx_port": A, "rx_port": None, "target_port": B, **shape}
    record = trial(wired, configured(50, gen=gen), "PC")
    assert record["result"]["gen"]["lcores"][0]["shape"]["hot"] == first
    assert len(first) == 10


def test_without_a_shape_all_queues_are_hot_again(fed: NodeClient) -> None:
    trial(fed, configured(20, feed={"port": B, "shape": "SQ"}), "SQ")
    result = trial(fed, configured(20), "FB")["result"]
    assert "feed" not in result
    assert min(result["ports"][B]["rx_queue_packets"]) > 0
    assert result["dut"]["lcores"][0]["polls"]["empty"] == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("shape", "queues"), [("PC", 100), ("NC", 250)])
def test_a_wire_brings_cold_packets_at_the_pace_of_the_queue_polls(wired: NodeClient, shape: str, queues: int) -> None:
    gen = {"lcores": [1], "tx_port": A, "rx_port": None, "target_port": B, "shape": shape}
    record = quiet_trial(wired, configured(queues, gen=gen), shape)
    (lcore,), (dut,) = record["result"]["gen"]["lcores"], record["result"]["dut"]["lcores"]
    reported = lcore["shape"]
    assert reported["queue_polls"] == pytest.approx(dut["iterations"], rel=0.1)
    assert reported["hot_sent"] + reported["cold_sent"] == lcore["sent"]
    cold = reported["cold"]
    assert reported["cold_asked"] == pytest.approx(cold * reported["queue_polls"] * -math.log(0.95))
    # The estimate is up to 64 polls old; a generator whose core is taken away gives up slots, and reports them.
    assert reported["cold_sent"] + reported["cold_unsent"] == pytest.approx(reported["cold_asked"], rel=0.25)
    hot, cold_counts = by_queue(record, reported["hot"])
    assert min(hot) > 5 * max(cold_counts) and min(cold_counts) > 0
    # A packet that finds a full ring is a hot queue's, except while the DUT's core was taken away.
    xstats = record["result"]["ports"][B]["xstats"]
    missed = {queue: xstats.get(f"rx_q{queue}_missed", 0) for queue in range(queues)}
    hot_missed = sum(missed[queue] for queue in reported["hot"])
    assert sum(missed.values()) - hot_missed <= 1e-3 * hot_missed
    # Either the polls had the shape, or the run says why not.
    found = TrialObservations(record)
    assert abs(polls_of_shape(found).off) <= 0.05 or "hot queues" in shape_flags(found)[0]["text"]


@pytest.mark.thorough
def test_a_slow_dut_is_given_its_shape_by_the_wire(wired: NodeClient) -> None:
    """At 2000 cycles per packet the generator is quick enough."""
    gen = {"lcores": [1], "tx_port": A, "rx_port": None, "target_port": B, "shape": "PC"}
    config = configured(100, gen=gen)
    config["dut"]["extra_cycles"] = 2000
    record = quiet_trial(wired, config, "PC")
    assert abs(polls_of_shape(TrialObservations(record)).off) < 0.02
    assert shape_flags(TrialObservations(record)) == []
    reported = record["result"]["gen"]["lcores"][0]["shape"]
    assert reported["hot_sent"] > reported["hot_asked"]


def test_queue_polls_of_a_dut_elsewhere_come_by_request(wired: NodeClient) -> None:
    """No lcore polls here: the generator uses the requested rate, and sends nothing to cold queues before."""
    target = wired.request("configure", LIMIT_S, **configured(50))["target"]
    config = configured(50, gen={"lcores": [1], "tx_port": A, "rx_port": None, "target": target, "shape": "PC"})
    config["dut"] |= {"rx_port": D, "tx_port": C}
    silent = trial(wired, config, "PC")["result"]["gen"]["lcores"][0]["shape"]
    assert silent["cold_sent"] == 0
    assert "the rate of the DUT's polls is unknown" in silent["queue_polls"]["absent"]
    wired.request("queue_polls", LIMIT_S, per_s=10_000)
    assert wired.request("read", LIMIT_S)["trial"] == "t"
    times = {"warmup_ns": 10_000_000, "window_ns": int(WINDOW_S * 1e9), "drain_max_ns": 10_000_000}
    wired.request("start", LIMIT_S, trial="reported", rate={"saturate": True}, **times)
    assert wired.wait_event(("done", "failed"), LIMIT_S)["event"] == "done"
    reported = wired.request("read", LIMIT_S)["gen"]["lcores"][0]["shape"]
    assert reported["queue_polls"] == pytest.approx(10_000 * WINDOW_S, rel=0.05)
    assert reported["cold_sent"] + reported["cold_unsent"] == pytest.approx(reported["cold_asked"], rel=0.1)
    assert reported["cold_asked"] == pytest.approx(40 * -math.log(0.95) * reported["queue_polls"])


def test_bad_queue_polls_are_refused(fed: NodeClient, wired: NodeClient) -> None:
    fed.request("configure", LIMIT_S, **configured(4, feed={"port": B}))
    with pytest.raises(NodeRefused, match="no generator"):
        fed.request("queue_polls", LIMIT_S, per_s=1)
    gen = {"lcores": [1], "tx_port": A, "rx_port": None, "target_port": B}
    wired.request("configure", LIMIT_S, **configured(4, gen=gen))
    with pytest.raises(NodeRefused, match="counts the polls itself"):
        wired.request("queue_polls", LIMIT_S, per_s=1)
    target = wired.request("configure", LIMIT_S, **configured(4))["target"]
    wired.request("configure", LIMIT_S, **configured(4, gen={"lcores": [1], "tx_port": A, "target": target}))
    for bad in ({}, {"per_s": -1}, {"per_s": "fast"}, {"per_s": 1e10}, {"per_s": 1, "hz": 1}):
        with pytest.raises(NodeRefused):
            wired.request("queue_polls", LIMIT_S, **bad)
