# SPDX-License-Identifier: BSD-3-Clause
"""Check organisation `rebalanced` of a real node: RETA entries move from loaded to idle queues while packets flow.

The node has more lcores than the machine has CPUs: only counts are looked at.
"""

from typing import Any

import pytest
from accounted import check_conservation
from dut_node import Node, configuration

pytestmark = pytest.mark.measure

LCORES = "0@0,1@0,2@1,3@1,4@1"
SECOND_NS = 10**9
PERIOD_NS = 20_000_000


def request(queues: int = 2, period_ns: int = PERIOD_NS, **more: Any) -> dict[str, Any]:
    dut = {"organisation": "rebalanced", "lcores": [2, 3, 4][:queues], "rebalance_period_ns": period_ns}
    return configuration(**{"queues": queues, "rx_desc": 4096, **dut, **more})


def trial(node: Node, pps: int = 40_000, **more: Any) -> dict[str, Any]:
    """Run a trial whose warm-up has ten rounds; `sequence` and `total` count its packets as well."""
    node.get("configure", **request(**more))
    return node.trial(warmup_s=0.2, window_s=0.3, rate={"pps": pps}, drain_max_ns=3 * SECOND_NS)


def received(result: dict[str, Any]) -> list[int]:
    return [lcore["rx_packets"] for lcore in result["dut"]["lcores"]]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("queues", [2, 3])
def test_skewed_flows_are_spread_and_no_packet_is_lost_or_comes_twice(node: Node, queues: int) -> None:
    result = trial(node, queues=queues, gen={"shape": "SQ", "flows": 1024})
    check_conservation(result, in_order=False)
    rebalancing = result["dut"]["rebalancing"]
    # All packets came to one queue at first, so half or two thirds of its entries had to move.
    assert rebalancing["moved_before"] + rebalancing["moved"] > 0
    assert rebalancing["failed"] == 0
    assert rebalancing["entries"] == 512
    assert min(received(result)) > 0.2 * sum(received(result)) / queues


def test_the_next_trial_begins_with_the_reta_of_the_configuration(node: Node) -> None:
    """A trial shorter than the period moves nothing, so entries moved by the one before are back."""
    skewed = {"shape": "SQ", "flows": 1024}
    assert min(received(trial(node, gen=skewed))) > 0
    node.get("configure", **request(period_ns=10 * SECOND_NS, gen=skewed))
    for _ in range(2):
        result = node.trial(window_s=0.1, rate={"pps": 40_000})
        assert min(received(result)) == 0
        assert result["dut"]["rebalancing"]["rounds"] == 0
    reply = node.get("configure", **configuration(queues=2, lcores=[2, 3]))
    assert reply["target"]["reta"] == [0, 1] * 256
    assert "rebalancing" not in node.trial(rate={"pps": 1000})["dut"]


def test_a_port_with_other_queues_has_its_own_reta(node: Node) -> None:
    assert min(received(trial(node, gen={"shape": "SQ", "flows": 1024}))) > 0
    reply = node.get("configure", **configuration(queues=4, lcores=[2, 3]))
    assert reply["target"]["reta"] == [0, 1, 2, 3] * 128


def test_one_flow_stays_where_it_is_and_in_order(node: Node) -> None:
    result = trial(node, gen={"shape": "SQ", "flows": 1})
    (generator,) = result["gen"]["lcores"]
    assert min(received(result)) == 0
    assert result["dut"]["rebalancing"]["moved"] == result["dut"]["rebalancing"]["moved_before"] == 0
    assert generator["sequence"]["reordered"] == 0


@pytest.mark.thorough
def test_a_threshold_of_100_percent_moves_nothing(node: Node) -> None:
    """With two queues the fullest exceeds the mean by at most the mean itself, so flows keep their order."""
    result = trial(node, rebalance_threshold=1.0, gen={"shape": "SQ", "flows": 64})
    assert result["dut"]["rebalancing"]["moved_before"] + result["dut"]["rebalancing"]["moved"] == 0
    assert result["gen"]["lcores"][0]["sequence"]["reordered"] == 0


@pytest.mark.thorough
def test_one_queue_has_nowhere_to_move_to(node: Node) -> None:
    result = trial(node, queues=1)
    assert result["dut"]["rebalancing"]["moved"] == 0
    assert received(result)[0] > 0
