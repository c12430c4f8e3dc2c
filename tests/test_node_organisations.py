# SPDX-License-Identifier: BSD-3-Clause
"""Check organisations of a real node's DUT: every packet passes exactly once or is counted where it was dropped.

The node has more lcores than the machine has CPUs, so that any machine runs these: only counts and order are looked at.
"""

import time
from pathlib import Path
from typing import Any

import pytest
from accounted import check_cycles
from dut_node import DUT_RX, Node, configuration, running_node

from pollscope.metrics.accounting import Classes

pytestmark = pytest.mark.measure

LCORES = "0@0,1@0,2@1,3@1,4@1,5@1,6@1"  # main, generator, and five for the DUT
QUEUES = 5
ONE_OF_EACH: dict[str, Any] = {"organisation": "scale-up", "lcores": [2], "dispatchers": [3]}


def whole_trial(node: Node, pps: int = 20_000, window_s: float = 0.05, **dut: Any) -> dict[str, Any]:
    """Run a trial whose window holds all of its traffic except the drain's."""
    node.get("configure", **configuration(**{"queues": QUEUES, "rx_desc": 4096, **dut}))
    return node.trial(window_s=window_s, warmup_s=0.0, rate={"pps": pps}, drain_max_ns=3 * 10**9)


def by_role(result: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    lcores = result["dut"]["lcores"]
    return [one for one in lcores if one["role"] == "worker"], [one for one in lcores if one["role"] == "dispatcher"]


def test_all_workers_of_a_shared_ring_work(node: Node) -> None:
    """Each worker takes its part if a switch on their one CPU takes longer than the work of a packet."""
    dut: dict[str, Any] = {"organisation": "scale-up", "lcores": [2, 3], "dispatchers": [4]}
    workers, _ = by_role(whole_trial(node, pps=5_000, window_s=0.4, burst=4, extra_cycles=400_000, **dut))
    assert all(worker["rx_packets"] > 0 for worker in workers)
    assert all(worker["service"]["count"] == worker["rx_packets"] for worker in workers)


def test_full_rings_are_counted(node: Node) -> None:
    """Workers are far too slow: packets that the ring refuses count as `ring_full`, and none is lost uncounted."""
    slow: dict[str, Any] = {"burst": 4, "ring_size": 8, "extra_cycles": 3_000_000}
    result = whole_trial(node, window_s=0.4, queues=2, **ONE_OF_EACH, **slow)
    (worker,), (dispatcher,) = by_role(result)
    assert dispatcher["ring_full"] > 0
    assert dispatcher["rx_packets"] == dispatcher["handed_packets"] + dispatcher["ring_full"]
    assert worker["rx_packets"] <= dispatcher["handed_packets"]
    # The lost packets are those that the ring refused, in the window and after it; no packet is left in a ring.
    (generator,) = result["gen"]["lcores"]
    assert generator["sequence"]["lost"] >= dispatcher["ring_full"]
    assert result["dut"]["rings"][0]["left"] == 0


@pytest.mark.thorough
def test_a_drain_that_is_too_short_leaves_packets_behind(node: Node) -> None:
    """They are counted and freed, and the next trial does not find them."""
    slow: dict[str, Any] = {"rx_desc": 4096, "burst": 1, "extra_cycles": 20_000_000}
    node.get("configure", **configuration(**ONE_OF_EACH, **slow))
    result = node.trial(window_s=0.2, warmup_s=0, rate={"pps": 2_000}, drain_max_ns=0)
    left, (generator,) = result["dut"]["rings"][0]["left"], result["gen"]["lcores"]
    assert left > 0
    still_queued = generator["total"]["sent"] - generator["total"]["rx_packets"] - left
    assert still_queued >= 0
    (worker,), (dispatcher,) = by_role(node.trial(window_s=0.05, warmup_s=0, rate={"pps": 0}, drain_max_ns=10**9))
    assert worker["rx_packets"] <= dispatcher["rx_packets"] <= still_queued


def test_the_drain_waits_for_the_slowest_packet(node: Node) -> None:
    """A delay is longer than all looks of the drain: the packet counts as on its way, not as lost."""
    for dut in (
        {"lcores": [2]},
        {"lcores": [2], "dispatchers": [3]},
        {"organisation": "locked", "lcores": [2, 3]},
    ):
        hiccup = {"probability": 1, "delay": {"kind": "fixed", "ns": 60_000_000}}
        late = {"late_max_ns": 3_000_000}
        node.get("configure", **configuration(queues=1, burst=1, hiccup=hiccup, gen=late, **dut))
        for _ in range(20):  # a busy host may keep all packets of a trial from leaving on time
            result = node.trial(window_s=0.1, warmup_s=0.0, rate={"pps": 60}, drain_max_ns=10**10)
            (generator,) = result["gen"]["lcores"]
            if generator["total"]["sent"]:
                break
        assert generator["total"]["sent"] >= 1
        assert generator["total"]["rx_packets"] == generator["total"]["sent"], dut


@pytest.mark.thorough
def test_locked_sweeps_begin_at_different_queues(build_dir: Path, tmp_path: Path) -> None:
    """Every queue has packets, and a worker waits for a second at its first one, which shows where it began."""
    for queues, workers, begins in ((5, [2, 3, 4], [0, 1, 3]), (4, [2, 3], [0, 2]), (2, [2, 3, 4], [0, 0, 1])):
        hiccup = {"probability": 1, "delay": {"kind": "fixed", "ns": 1_000_000_000}}
        vdevs = ("net_crossover0,feed=infinite", "net_crossover1")
        with running_node(build_dir, tmp_path / "log", vdevs, lcores=LCORES) as node:
            dut: dict[str, Any] = {"organisation": "locked", "lcores": workers, "workload": "drop", "hiccup": hiccup}
            node.get("configure", **configuration(queues=queues, generator=False, burst=1, **dut))
            node.get("start", trial="t", warmup_ns=0, window_ns=10**9)
            time.sleep(0.4)
            taken = node.get("read")["ports"][DUT_RX]["rx_queue_packets"]
        assert taken == [begins.count(queue) for queue in range(queues)]


def test_lock_waits_are_part_of_the_tax(node: Node) -> None:
    """Lcores that share one CPU meet a lock whose holder sleeps; their waits belong to `loop`."""
    dut: dict[str, Any] = {"organisation": "locked", "lcores": [2, 3, 4]}
    dut_lcores = whole_trial(node, queues=1, window_s=0.4, **dut)["dut"]["lcores"]
    for lcore in dut_lcores:
        assert 0 <= lcore["lock"]["cycles"] <= lcore["cycles"]["total"]
        assert lcore["lock"]["waits"] >= 0
        assert lcore["polls"]["refill_failed"]["absent"]
        found = check_cycles(lcore, "sampled")
        if isinstance(found, Classes):
            assert found.loop >= lcore["lock"]["cycles"]
    assert sum(lcore["lock"]["waits"] for lcore in dut_lcores) > 0
    assert "lock" not in whole_trial(node, lcores=[2])["dut"]["lcores"][0]


@pytest.mark.thorough
def test_a_ring_larger_than_the_ports_pools(node: Node) -> None:
    """The pools grow with the rings; otherwise the receiving port would run dry when one fills up."""
    slow: dict[str, Any] = {"burst": 1, "ring_size": 1 << 14, "extra_cycles": 2_000_000}
    node.get("configure", **configuration(**ONE_OF_EACH, **slow))
    result = node.trial(window_s=1, warmup_s=0, rate={"pps": 15_000}, drain_max_ns=0)
    (_,), (dispatcher,) = by_role(result)
    assert dispatcher["handed_packets"] > 0
    assert dispatcher["ring_full"] == 0
    assert result["ports"][DUT_RX]["stats"]["rx_nombuf"] == 0
    assert dispatcher["polls"]["refill_failed"] == 0


@pytest.mark.parametrize("organisation", ["corec", "trylock"])
def test_lost_polls_are_counted_apart(node: Node, organisation: str) -> None:
    """All workers poll one queue: a lost poll is not an empty poll."""
    result = whole_trial(node, queues=1, organisation=organisation, lcores=[2, 3, 4, 5], pps=100_000)
    workers, _ = by_role(result)
    for worker in workers:
        polls = worker["polls"]
        assert "several lcores poll each" in polls["refill_failed"]["absent"]
        outcomes = sum(polls[one] for one in ("empty", "partial", "full", "race_lost"))
        assert outcomes == pytest.approx(worker["iterations"] * worker["queues"], abs=1)
    if organisation == "corec":
        lost = result["ports"][DUT_RX]["xstats"].get("rx_race_lost", 0)
        assert sum(worker["polls"]["race_lost"] for worker in workers) <= lost
