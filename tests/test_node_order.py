# SPDX-License-Identifier: BSD-3-Clause
"""Check packet order through the node: kept if each flow has one queue and one core, lost if workers share a ring."""

from typing import Any

import pytest
from dut_node import Node, configuration

LCORES = "0@0,1@1,2@0,3@0,4@1"
DISPATCHER, WORKERS = 2, [3, 4]
QUEUES, FLOWS = 4, 8


def order(node: Node, **dut: Any) -> dict[str, Any]:
    """Return the generator's report on the order of packets that two workers forward, some of them late."""
    hiccup = {"probability": 0.05, "delay": {"kind": "fixed", "ns": 200_000}, "seed": 1}
    whole: dict[str, Any] = {"queues": QUEUES, "rx_desc": 1024, "burst": 1, "hiccup": hiccup, "gen": {"flows": FLOWS}}
    node.get("configure", **configuration(**whole, lcores=WORKERS, **dut))
    result = node.trial(window_s=0.5, rate={"pps": 20_000}, drain_max_ns=500_000_000)
    (generator,) = result["gen"]["lcores"]
    assert generator["total"]["rx_packets"] > 100
    assert generator["sequence"]["duplicated"] == 0
    sequence: dict[str, Any] = generator["sequence"]
    return sequence


def test_a_queue_and_a_core_for_each_flow_keep_its_order(node: Node) -> None:
    found = order(node, organisation="scale-out")
    assert found["reordered"] == found["extent"]["total"] == found["flows"]["reordered"] == 0
    assert found["reordered_in_total"] > 0, "flows of different queues overtake one another"


@pytest.mark.thorough
def test_workers_behind_one_ring_reorder_flows(node: Node) -> None:
    found = order(node, organisation="scale-up", dispatchers=[DISPATCHER])
    extent, distance, degree = found["extent"], found["distance"], found["degree"]
    assert 0 < found["reordered"] <= found["reordered_in_total"]
    assert 0 < found["flows"]["reordered"] <= FLOWS
    assert extent["total"] + extent.get("refused", 0) == found["reordered"]
    assert extent["total"] == distance["total"] == degree["total"]
    assert degree["sum"] <= distance["sum"] <= extent["sum"], "none can exceed the next, packet by packet"
    assert distance["min"] >= 1
