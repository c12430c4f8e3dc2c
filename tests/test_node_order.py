# SPDX-License-Identifier: BSD-3-Clause
"""Check packet order through the node: kept if each flow has one queue and one core, lost if workers share a ring."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gen_node import LIMIT_S, running_client

from pollscope.node.client import NodeClient

GENERATOR, DISPATCHER, WORKERS = 1, 2, [3, 4]
QUEUES, FLOWS = 4, 8
PORTS = {"net_crossover0_a": 1, "net_crossover0_b": QUEUES, "net_crossover1_a": 1, "net_crossover1_b": 1}


@pytest.fixture(scope="module")
def client(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeClient]:
    log = tmp_path_factory.mktemp("order") / "node.log"
    with running_client(build_dir, log, "0@0,1@1,2@0,3@0,4@1", "net_crossover0", "net_crossover1") as one:
        yield one


def order(client: NodeClient, dut: dict[str, Any]) -> dict[str, Any]:
    """Return the generator's report on the order of packets that two workers forward, some of them late."""
    same = {"tx_queues": 2, "rx_desc": 1024, "tx_desc": 1024}
    ports = [{"name": name, "rx_queues": queues, **same} for name, queues in PORTS.items()]
    hiccup = {"probability": 0.05, "delay": {"kind": "fixed", "ns": 200_000}, "seed": 1}
    whole = {"rx_port": "net_crossover0_b", "tx_port": "net_crossover1_a", "workload": "io", "burst": 1}
    gen = {"lcores": [GENERATOR], "tx_port": "net_crossover0_a", "rx_port": "net_crossover1_b", "flows": FLOWS}
    gen |= {"target_port": "net_crossover0_b"}
    client.request("configure", LIMIT_S, ports=ports, dut={**whole, "hiccup": hiccup, **dut}, gen=gen)
    times = {"warmup_ns": 10_000_000, "window_ns": 500_000_000, "drain_max_ns": 500_000_000}
    client.request("start", LIMIT_S, trial="t", rate={"pps": 20_000}, **times)
    client.wait_trial("t", LIMIT_S)
    (generator,) = client.request("read", LIMIT_S)["gen"]["lcores"]
    assert generator["total"]["rx_packets"] > 100
    assert generator["sequence"]["duplicated"] == 0
    sequence: dict[str, Any] = generator["sequence"]
    return sequence


def test_a_queue_and_a_core_for_each_flow_keep_its_order(client: NodeClient) -> None:
    found = order(client, {"organisation": "scale-out", "lcores": WORKERS})
    assert found["reordered"] == found["extent"]["total"] == found["flows"]["reordered"] == 0
    assert found["reordered_in_total"] > 0, "flows of different queues overtake one another"


@pytest.mark.thorough
def test_workers_behind_one_ring_reorder_flows(client: NodeClient) -> None:
    found = order(client, {"organisation": "scale-up", "dispatchers": [DISPATCHER], "lcores": WORKERS})
    extent, distance, degree = found["extent"], found["distance"], found["degree"]
    assert 0 < found["reordered"] <= found["reordered_in_total"]
    assert 0 < found["flows"]["reordered"] <= FLOWS
    assert extent["total"] + extent.get("refused", 0) == found["reordered"]
    assert extent["total"] == distance["total"] == degree["total"]
    assert degree["sum"] <= distance["sum"] <= extent["sum"], "none can exceed the next, packet by packet"
    assert distance["min"] >= 1
