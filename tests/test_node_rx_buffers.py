# SPDX-License-Identifier: BSD-3-Clause
"""Check RX buffers that are separate from descriptors: one buffer pool for all queues, or queues that lend.

The node has more lcores than the machine has CPUs: only counts and order are looked at.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dut_node import DUT_RX, DUT_TX, Node, configuration, running_node

pytestmark = pytest.mark.measure

LCORES = "0@0,1@0,2@1,3@1,4@1"
WAYS = ("shared", "split")
SECOND_NS = 10**9


@pytest.fixture(scope="module")
def node(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_node(build_dir, tmp_path_factory.mktemp("node") / "log", lcores=LCORES) as running:
        yield running


def request(buffers: str, queues: int = 2, buffer_pool: int = 256, rx_desc: int = 1024, **more: Any) -> dict[str, Any]:
    asked = configuration(**{"queues": queues, "rx_desc": rx_desc, "lcores": [2, 3, 4][:queues], **more})
    (port,) = (port for port in asked["ports"] if port["name"] == DUT_RX)
    port |= {"buffers": buffers, "buffer_pool": buffer_pool}
    return asked


def trial(node: Node, buffers: str, rate: dict[str, Any], **more: Any) -> dict[str, Any]:
    node.get("configure", **request(buffers, **more))
    return node.trial(warmup_s=0.02, window_s=0.05, rate=rate, drain_max_ns=3 * SECOND_NS)


def check_counts(result: dict[str, Any], reordered: int | None = 0) -> None:
    """Check that every packet passes once and unchanged, or is counted where it was dropped."""
    (generator,) = result["gen"]["lcores"]
    stats = {name: port["stats"] for name, port in result["ports"].items()}
    total, sequence = generator["total"], generator["sequence"]
    assert total["sent"] > 0
    assert stats[DUT_RX]["ipackets"] + stats[DUT_RX]["imissed"] == total["sent"]
    tx_dropped = sum(lcore["tx_dropped"] for lcore in result["dut"]["lcores"])
    missed = sum(port["imissed"] for port in stats.values())
    assert total["rx_packets"] + missed + tx_dropped == total["sent"]
    assert (sequence["duplicated"], generator["rx_foreign"]) == (0, 0)
    assert stats[DUT_TX]["opackets"] == stats[DUT_RX]["ipackets"]
    if reordered is not None:
        assert sequence["reordered"] == reordered


@pytest.mark.parametrize("shape", ["FB", "SQ"])
@pytest.mark.parametrize("queues", [1, 2, 3])
@pytest.mark.parametrize("buffers", WAYS)
def test_every_packet_passes_once_and_in_order(node: Node, buffers: str, queues: int, shape: str) -> None:
    gen = {"shape": shape, "flows": 64}
    check_counts(trial(node, buffers, {"pps": 20_000}, queues=queues, buffer_pool=1024, gen=gen))


@pytest.mark.parametrize("buffer_pool", [64, 1024])
@pytest.mark.parametrize("buffers", WAYS)
def test_undelivered_packets_count_as_missed(node: Node, buffers: str, buffer_pool: int) -> None:
    """Buffer pools run dry all the time and lose no buffer: trials use each buffer many times."""
    node.get("configure", **request(buffers, buffer_pool=buffer_pool, gen={"flows": 64}))
    delivered = 0
    for _ in range(50):
        result = node.trial(warmup_s=0.0, window_s=0.2, rate={"saturate": True}, drain_max_ns=3 * SECOND_NS)
        check_counts(result)
        delivered += result["ports"][DUT_RX]["stats"]["ipackets"]
        if delivered > 20 * buffer_pool:
            break
    assert delivered > 20 * buffer_pool


@pytest.mark.parametrize("buffers", WAYS)
def test_sizes_of_all_frames_come_as_they_were_sent(node: Node, buffers: str) -> None:
    frame = [{"bytes": size, "weight": 1} for size in (64, 65, 96, 594, 1518)]
    result = trial(node, buffers, {"pps": 10_000}, workload="l3fwd-lpm", gen={"frame": frame, "flows": 64})
    check_counts(result)
    ports = result["ports"]
    assert ports[DUT_RX]["stats"]["ibytes"] == ports[DUT_TX]["stats"]["obytes"]


def test_the_footprint_is_that_of_the_posted_buffers(node: Node) -> None:
    posted = node.get("configure", **configuration(queues=2, rx_desc=1024, lcores=[2, 3]))["footprint_bytes"][DUT_RX]
    for buffers, buffer_pool, part in (("shared", 1024, 0.5), ("split", 256, 0.25), ("split", 1024, 1.0)):
        reply = node.get("configure", **request(buffers, buffer_pool=buffer_pool))
        assert reply["footprint_bytes"][DUT_RX] == part * posted
        result = node.trial(rate={"pps": 1000})
        assert result["ports"][DUT_RX]["posted_bytes"] == part * posted


def test_a_queue_borrows_from_those_that_receive_nothing(node: Node) -> None:
    """All frames go to one queue with a slow core; its own buffer pool alone would hold 64."""
    hiccup = {"probability": 1, "delay": {"kind": "fixed", "ns": 300_000_000}}
    gen = {"shape": "SQ", "flows": 64}
    delivered = {}
    for buffers in WAYS:
        node.get("configure", **request(buffers, buffer_pool=64, burst=1, workload="drop", hiccup=hiccup, gen=gen))
        node.get("start", trial="t", warmup_ns=0, window_ns=400_000_000, rate={"pps": 20_000}, drain_max_ns=0)
        assert node.line()["event"] == "done"
        delivered[buffers] = node.get("read")["ports"][DUT_RX]["stats"]["ipackets"]
    # Shared: 64 in circulation, and a few that its core took in time. Split: the other core replaces lent buffers.
    assert delivered["shared"] <= 64 + 8
    assert delivered["split"] > 128


def test_buffer_modes_can_follow_each_other_without_losing_buffers(node: Node) -> None:
    for buffers in ("shared", "split", "shared"):
        check_counts(trial(node, buffers, {"pps": 5_000}))
        node.get("configure", **configuration(queues=2, rx_desc=1024, lcores=[2, 3], organisation="corec"))
        check_counts(node.trial(rate={"pps": 5_000}, drain_max_ns=SECOND_NS), reordered=None)
        node.get("configure", **configuration(queues=2, rx_desc=1024, lcores=[2, 3]))
        check_counts(node.trial(rate={"pps": 5_000}, drain_max_ns=SECOND_NS))


@pytest.mark.parametrize("organisation", ["locked", "trylock", "rebalanced"])
def test_buffer_pools_work_with_other_organisations(node: Node, organisation: str) -> None:
    for buffers in WAYS:
        check_counts(trial(node, buffers, {"pps": 10_000}, organisation=organisation, buffer_pool=1024), reordered=None)


@pytest.mark.parametrize(
    ("asked", "where", "words"),
    [
        (request("heap"), "ports[1].buffers", "split"),
        (request("shared", buffer_pool=63), "ports[1].buffer_pool", "64"),
        (request("split", buffer_pool=1025), "ports[1].buffer_pool", "1024"),
        (request("posted"), "ports[1].buffer_pool", "leave it out with posted"),
        (request("shared", organisation="corec"), "dut.organisation", "posted buffers"),
        (request("split", notification="interrupt"), "dut.notification", "posted buffers"),
    ],
)
def test_bad_combinations_are_refused(node: Node, asked: dict[str, Any], where: str, words: str) -> None:
    reply = node.ask("configure", **asked)
    assert (reply["ok"], reply["where"]) == (False, where), reply
    assert words in reply["error"]


@pytest.mark.parametrize("argument", ["dma=swap", "feed=infinite"])
def test_a_pair_that_swaps_or_feeds_itself_is_refused(build_dir: Path, tmp_path: Path, argument: str) -> None:
    vdevs = (f"net_crossover0,{argument}", "net_crossover1")
    with running_node(build_dir, tmp_path / "log", vdevs, lcores=LCORES) as node:
        reply = node.ask("configure", **request("shared", generator=False))
    assert reply["ok"] is False
    assert "dma=swap" in reply["error"]
