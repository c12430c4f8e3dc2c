# SPDX-License-Identifier: BSD-3-Clause
"""Check generator and DUT in one node: every frame finds a route, comes back, or is counted where it was dropped."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from gen_node import LIMIT_S, Generator, running_client, running_generator

from pollscope.node.client import NodeClient

pytestmark = pytest.mark.measure

PORTS = {"net_crossover0_a": 1, "net_crossover0_b": 4, "net_crossover1_a": 1, "net_crossover1_b": 1}  # name: RX queues


def running_pair(build_dir: Path, log: Path, dma: str) -> AbstractContextManager[NodeClient]:
    return running_client(build_dir, log, "0@0,1@1,2@0", f"net_crossover0,dma={dma}", f"net_crossover1,dma={dma}")


def configure(client: NodeClient, frame_bytes: int, **gen: Any) -> None:
    mtu = max(1500, frame_bytes - 18)
    same = {"tx_queues": 1, "rx_desc": 2048, "mtu": mtu}
    ports = [{"name": name, "rx_queues": queues, **same} for name, queues in PORTS.items()]
    dut = {"lcores": [2], "rx_port": "net_crossover0_b", "tx_port": "net_crossover1_a", "workload": "l3fwd-lpm"}
    whole = {"lcores": [1], "tx_port": "net_crossover0_a", "rx_port": "net_crossover1_b", **gen}
    whole |= {"target_port": "net_crossover0_b", "frame": [{"bytes": frame_bytes}]}
    client.request("configure", LIMIT_S, ports=ports, dut=dut, gen=whole)


def run_trial(client: NodeClient, rate: dict[str, Any]) -> dict[str, Any]:
    times = {"warmup_ns": 20_000_000, "window_ns": 300_000_000, "drain_max_ns": 500_000_000}
    client.request("start", LIMIT_S, trial="t", rate=rate, **times)
    client.wait_trial("t", LIMIT_S)
    return client.request("read", LIMIT_S)


def check_accounts(result: dict[str, Any]) -> None:
    """Check that every frame came back or is in a counter of drops."""
    (gen,), (dut,) = result["gen"]["lcores"], result["dut"]["lcores"]
    missed = sum(port["stats"]["imissed"] for port in result["ports"].values())
    assert gen["total"]["sent"] > 1000
    assert gen["total"]["sent"] == gen["total"]["rx_packets"] + missed + dut["tx_dropped"]
    assert gen["sequence"]["lost"] == gen["total"]["sent"] - gen["total"]["rx_packets"]
    assert gen["sequence"]["duplicated"] == gen["sequence"]["reordered"] == 0
    assert gen["rx_foreign"] == gen["no_mbuf"] == 0
    assert dut["workload_dropped"] == 0


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dma", ["copy", "swap"])
def test_frames_are_forwarded_or_accounted_for(build_dir: Path, tmp_path: Path, dma: str) -> None:
    with running_pair(build_dir, tmp_path / "node.log", dma) as client:
        for frame_bytes in (64, 1518, 9000, 64):  # the generator's buffers are replaced on the way
            configure(client, frame_bytes)
            check_accounts(run_trial(client, {"pps": 20_000}))


@pytest.mark.thorough
def test_routes_beyond_the_table_are_dropped_by_the_workload(build_dir: Path, tmp_path: Path) -> None:
    with running_pair(build_dir, tmp_path / "node.log", "copy") as client:
        configure(client, 64, routes=32768)  # twice the DUT's table
        result = run_trial(client, {"pps": 20_000})
        (dut,) = result["dut"]["lcores"]
        assert dut["workload_dropped"] == pytest.approx(dut["rx_packets"] / 2, rel=0.1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("size", [64, 9000])
def test_buffers_that_change_hands_come_back(build_dir: Path, tmp_path: Path, size: int) -> None:
    """With dma=swap the generator's buffers wait in the receiver's rings; its pool must not run dry."""
    with running_generator(build_dir, tmp_path / "node.log", "net_crossover0,dma=swap") as one:
        generator: Generator = one
        for _ in range(3):
            generator.configure(queues=4, mtu=max(1500, size - 18), frame=[{"bytes": size}])
            gen, _ = generator.trial({"saturate": True}, window_s=0.1)
            assert gen["no_mbuf"] == 0
            assert gen["total"]["rx_packets"] > 0
