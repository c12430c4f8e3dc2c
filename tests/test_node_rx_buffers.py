# SPDX-License-Identifier: BSD-3-Clause
"""Check RX buffers that are separate from descriptors: one buffer pool for all queues, or queues that lend.

The node has more lcores than the machine has CPUs: only counts and order are looked at.
"""

from typing import Any

import pytest
from accounted import check_conservation
from dut_node import DUT_RX, DUT_TX, Node, configuration

LCORES = "0@0,1@0,2@1,3@1,4@1"
WAYS = ("shared", "split")
SECOND_NS = 10**9


def request(buffers: str, queues: int = 2, buffer_pool: int = 256, rx_desc: int = 1024, **more: Any) -> dict[str, Any]:
    asked = configuration(**{"queues": queues, "rx_desc": rx_desc, "lcores": [2, 3, 4][:queues], **more})
    (port,) = (port for port in asked["ports"] if port["name"] == DUT_RX)
    port |= {"buffers": buffers, "buffer_pool": buffer_pool}
    return asked


def trial(node: Node, buffers: str, rate: dict[str, Any], **more: Any) -> dict[str, Any]:
    node.get("configure", **request(buffers, **more))
    return node.busy_trial(rate=rate)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("buffer_pool", [64, 1024])
@pytest.mark.parametrize("buffers", WAYS)
def test_undelivered_packets_count_as_missed(node: Node, buffers: str, buffer_pool: int) -> None:
    """Buffer pools run dry all the time and lose no buffer: trials use each buffer many times."""
    node.get("configure", **request(buffers, buffer_pool=buffer_pool, gen={"flows": 64}))
    delivered = 0
    for _ in range(50):
        result = node.trial(warmup_s=0.0, window_s=0.2, rate={"saturate": True}, drain_max_ns=3 * SECOND_NS)
        check_conservation(result, in_order=True)
        delivered += result["ports"][DUT_RX]["stats"]["ipackets"]
        if delivered > 20 * buffer_pool:
            break
    assert delivered > 20 * buffer_pool


@pytest.mark.one_in(2)
@pytest.mark.parametrize("buffers", WAYS)
def test_sizes_of_all_frames_come_as_they_were_sent(node: Node, buffers: str) -> None:
    frame = [{"bytes": size, "weight": 1} for size in (64, 65, 96, 594, 1518)]
    result = trial(node, buffers, {"pps": 10_000}, workload="l3fwd-lpm", gen={"frame": frame, "flows": 64})
    check_conservation(result, in_order=True)
    ports = result["ports"]
    assert ports[DUT_RX]["stats"]["ibytes"] == ports[DUT_TX]["stats"]["obytes"]


def test_the_footprint_is_that_of_the_posted_buffers(node: Node) -> None:
    posted = node.get("configure", **configuration(queues=2, rx_desc=1024, lcores=[2, 3]))["footprint_bytes"][DUT_RX]
    for buffers, buffer_pool, part in (("shared", 1024, 0.5), ("split", 256, 0.25), ("split", 1024, 1.0)):
        reply = node.get("configure", **request(buffers, buffer_pool=buffer_pool))
        assert reply["footprint_bytes"][DUT_RX] == part * posted
        result = node.trial(rate={"pps": 1000})
        assert result["ports"][DUT_RX]["posted_bytes"] == part * posted


@pytest.mark.measure
def test_a_queue_borrows_from_those_that_receive_nothing(node: Node) -> None:
    """All frames go to one queue with a slow core; its own buffer pool alone would hold 64."""
    hiccup = {"probability": 1, "delay": {"kind": "fixed", "ns": 300_000_000}}
    gen = {"shape": "SQ", "flows": 64}
    delivered = {}
    for buffers in WAYS:
        node.get("configure", **request(buffers, buffer_pool=64, burst=1, workload="drop", hiccup=hiccup, gen=gen))
        result = node.trial(window_s=0.4, warmup_s=0, rate={"pps": 20_000}, drain_max_ns=0)
        delivered[buffers] = result["ports"][DUT_RX]["stats"]["ipackets"]
    # Shared: 64 in circulation, and a few that its core took in time. Split: the other core replaces lent buffers.
    assert delivered["shared"] <= 64 + 8
    assert delivered["split"] > 128
