# SPDX-License-Identifier: BSD-3-Clause
"""Check that shapes FB, PC, NC and SQ reach the RX queues that they name, for any RSS key and number of queues.

At a given rate queues keep the proportions of saturation: a poll of a hot queue takes `busy_poll_packets` packets, and
-ln(1 - background_probability) packets come to a cold queue between two of its polls.
"""

import math
from pathlib import Path
from typing import Any

import pytest
from gen_node import RECEIVES, Generator, running_generator

from pollscope.node.client import NodeRefused

pytestmark = pytest.mark.measure

COLD = -math.log(1 - 0.05) / 32  # of a cold queue, by default, where a hot one has 1


def queue_counts(generator: Generator, queues: int, **gen: Any) -> list[int]:
    """Return the packets per RX queue of the far end, received and missed."""
    generator.configure(queues=queues, **gen)
    gen_result, ports = generator.trial({"pps": 1e6}, window_s=0.15)
    counts = ports[RECEIVES]["rx_queue_packets"]
    assert sum(counts) == gen_result["total"]["sent"] == gen_result["total"]["rx_packets"] > 100_000
    assert len(counts) == queues
    return list(counts)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("queues", [1, 2, 7, 16])
def test_fully_balanced(generator: Generator, queues: int) -> None:
    counts = queue_counts(generator, queues, shape="FB")
    mean = sum(counts) / queues
    assert all(count == pytest.approx(mean, rel=0.05) for count in counts)


def test_single_queue(generator: Generator) -> None:
    counts = queue_counts(generator, 16, shape="SQ")
    assert sorted(counts)[:-1] == [0] * 15


@pytest.mark.parametrize(
    ("shape", "queues", "hot", "more"),
    [("PC", 20, 4, {"background_probability": 0.05}), ("NC", 16, 3, {"concentrated_queues": 3})],
)
def test_concentrated(generator: Generator, shape: str, queues: int, hot: int, more: dict[str, Any]) -> None:
    counts = sorted(queue_counts(generator, queues, shape=shape, **more))
    cold = counts[:-hot]
    assert sum(cold) / sum(counts) == pytest.approx(len(cold) * COLD / (hot + len(cold) * COLD), rel=0.2)
    assert counts[-hot] > 10 * cold[-1] and cold[0] > 0


@pytest.mark.thorough
def test_cold_queues_weigh_more_where_a_busy_poll_takes_less(generator: Generator) -> None:
    counts = sorted(queue_counts(generator, 20, shape="PC", background_probability=0.5, busy_poll_packets=1))
    weight = -math.log(0.5)
    assert sum(counts[16:]) / sum(counts) == pytest.approx(4 / (4 + 16 * weight), rel=0.02)


def test_share_without_background(generator: Generator) -> None:
    counts = queue_counts(generator, 20, shape="PC", concentrated_share=0.5, background_probability=0)
    assert sum(count > 0 for count in counts) == 10


@pytest.mark.thorough
def test_more_hot_queues_than_queues_is_balanced(generator: Generator) -> None:
    counts = queue_counts(generator, 8, shape="NC", concentrated_queues=100)
    assert min(counts) > 0.9 * max(counts)


@pytest.mark.thorough
def test_every_one_of_1024_queues_is_reached(build_dir: Path, tmp_path: Path) -> None:
    with running_generator(build_dir, tmp_path / "node.log") as generator:
        generator.configure(queues=1024, far={"rx_desc": 64}, flows=2048)
        _, counters = generator.trial({"pps": 500_000}, window_s=0.5)
        counts = counters[RECEIVES]["rx_queue_packets"]
        assert len(counts) == 1024
        assert min(counts) > 0.8 * max(counts)


def test_another_key_is_inverted_as_well(generator: Generator) -> None:
    key = bytes((i * 73 + 41) % 256 for i in range(40)).hex()
    generator.configure(queues=16, far={"rss": {"key": key, "reta": "round-robin"}})
    _, counters = generator.trial({"pps": 1e6})
    counts = counters[RECEIVES]["rx_queue_packets"]
    assert min(counts) > 0.9 * max(counts)


def test_key_that_hides_the_flow_is_refused(generator: Generator) -> None:
    with pytest.raises(NodeRefused, match="RSS key reaches only 0 of the bits") as refused:
        generator.configure(queues=16, far={"rss": {"key": "00" * 40, "reta": "round-robin"}})
    assert refused.value.where == "gen.target_port"


def test_fewer_flows_than_queues_is_refused(generator: Generator) -> None:
    with pytest.raises(NodeRefused, match="4 flows cannot reach the 8 queues") as refused:
        generator.configure(queues=8, flows=4)
    assert refused.value.where == "gen.flows"
    generator.configure(queues=8, flows=4, shape="SQ")


def test_port_without_reta_is_refused(build_dir: Path, tmp_path: Path) -> None:
    with running_generator(build_dir, tmp_path / "node.log", "net_ring0") as generator:
        ports = [{"name": "net_ring0", "rx_queues": 2, "tx_queues": 2}]
        gen = {"lcores": [1], "tx_port": "net_ring0", "rx_port": None, "target_port": "net_ring0"}
        with pytest.raises(NodeRefused, match="net_ring has no RETA") as refused:
            generator.client.request("configure", 30, ports=ports, gen=gen)
        assert refused.value.where == "gen.target_port"
