# SPDX-License-Identifier: BSD-3-Clause
"""Check a target port of another node: the reply of that node's `configure` places flows as the port itself does."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gen_node import LIMIT_S, RECEIVES, SENDS, running_generator

from pollscope.node.client import NodeClient, NodeRefused

DUT = {"lcores": [1], "rx_port": RECEIVES, "workload": "drop"}
KEY = "6d5a56da255b0ec24167253d43a38fb0"
MAC = "02:00:00:00:00:07"


@pytest.fixture(scope="module")
def client(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeClient]:
    with running_generator(build_dir, tmp_path_factory.mktemp("target") / "node.log") as one:
        yield one.client


def ports(queues: int) -> list[dict[str, Any]]:
    return [{"name": SENDS}, {"name": RECEIVES, "rx_queues": queues}]


def read_target(client: NodeClient, queues: int) -> dict[str, Any]:
    return dict(client.request("configure", LIMIT_S, ports=ports(queues), dut=DUT)["target"])


def configure(client: NodeClient, queues: int, **gen: Any) -> dict[str, Any]:
    whole = {"lcores": [1], "tx_port": SENDS, "rx_port": RECEIVES, **gen}
    return client.request("configure", LIMIT_S, ports=ports(queues), gen=whole)


def queue_shares(client: NodeClient) -> list[float]:
    times = {"warmup_ns": 0, "window_ns": 50_000_000, "drain_max_ns": 100_000_000}
    client.request("start", LIMIT_S, trial="t", rate={"pps": 5e4}, **times)
    client.wait_trial("t", LIMIT_S)
    counts = client.request("read", LIMIT_S)["ports"][RECEIVES]["rx_queue_packets"]
    return [count / sum(counts) for count in counts]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("queues", [1, 2, 7, 16])
@pytest.mark.parametrize("shape", ["FB", "SQ", "NC"])
def test_data_places_flows_as_the_port_does(client: NodeClient, queues: int, shape: str) -> None:
    target = read_target(client, queues)
    assert target["queues"] == queues
    assert ("reta" in target) == (queues > 1)
    gen = {"late_max_ns": 3_000_000, "shape": shape, "concentrated_queues": 1, "background_probability": 0}
    configure(client, queues, target=target, **gen)
    by_data = queue_shares(client)
    configure(client, queues, target_port=RECEIVES, **gen)
    by_port = queue_shares(client)
    assert [share > 0 for share in by_data] == [share > 0 for share in by_port]
    assert by_data == pytest.approx(by_port, abs=0.05)
    assert sum(share > 0 for share in by_data) == (queues if shape == "FB" else 1)


def test_a_node_without_a_dut_names_no_target(client: NodeClient) -> None:
    assert "target" not in configure(client, 1)


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"mac": "02:00"}, "gen.target.mac"),
        ({"mac": None}, "gen.target.mac"),
        ({"queues": 0}, "gen.target.queues"),
        ({"queues": 4096}, "gen.target.queues"),
        ({"key": "00"}, "gen.target.key"),
        ({"key": KEY + "0"}, "gen.target.key"),
        ({"key": KEY[:-1] + "G"}, "gen.target.key"),
        ({"reta": []}, "gen.target.reta"),
        ({"reta": [0, 1, 0]}, "gen.target.reta"),
        ({"reta": [0, 2]}, "gen.target.reta"),
        ({"reta": [0, "1"]}, "gen.target.reta"),
        ({"reta": [0] * 8192}, "gen.target.reta"),
        ({"hashes_ports": 1}, "gen.target.hashes_ports"),
        ({"colour": "red"}, "gen.target.colour"),
        ({"key": "00" * 16}, "gen.target"),  # every packet would have the same hash
        *(({part: ...}, f"gen.target.{part}") for part in ("mac", "queues", "hashes_ports", "key", "reta")),
    ],
)
def test_bad_targets_are_refused(client: NodeClient, wrong: dict[str, Any], where: str) -> None:
    """An ellipsis stands for a part that is left out."""
    target = {"mac": MAC, "queues": 2, "hashes_ports": True, "key": KEY, "reta": [0, 1], **wrong}
    with pytest.raises(NodeRefused, match=where):
        configure(client, 2, target={part: value for part, value in target.items() if value is not ...})


def test_a_target_beside_a_target_port_is_refused(client: NodeClient) -> None:
    with pytest.raises(NodeRefused, match="one of the two"):
        configure(client, 1, target={"mac": MAC, "queues": 1}, target_port=RECEIVES)


def test_a_held_trial_goes_on_until_it_is_stopped(client: NodeClient) -> None:
    client.request("configure", LIMIT_S, ports=ports(1), dut=DUT)
    times = {"warmup_ns": 0, "window_ns": 50_000_000, "drain_max_ns": 100_000_000}
    client.request("start", LIMIT_S, trial="t", hold=True, **times)
    time.sleep(0.3)  # six times as long as the window
    assert client.request("read", LIMIT_S)["state"] == "running"
    client.request("stop", LIMIT_S)
    client.wait_trial("t", LIMIT_S)
    result = client.request("read", LIMIT_S)
    assert result["state"] == "done"
    (lcore,) = result["dut"]["lcores"]
    assert lcore["window"]["end_tsc"] - lcore["window"]["start_tsc"] > 0


@pytest.mark.parametrize("hold", [1, "yes", None])
def test_hold_is_a_boolean(client: NodeClient, hold: object) -> None:
    client.request("configure", LIMIT_S, ports=ports(1), dut=DUT)
    with pytest.raises(NodeRefused, match="hold"):
        client.request("start", LIMIT_S, trial="t", window_ns=1_000_000, hold=hold)


def test_packets_that_a_dut_elsewhere_holds_are_waited_for(client: NodeClient) -> None:
    """No DUT sends them back here, so the drain takes all of its time."""
    configure(client, 1, rx_port=SENDS)
    times = {"warmup_ns": 0, "window_ns": 10_000_000, "drain_max_ns": 1_000_000_000}
    began = time.monotonic()
    client.request("start", LIMIT_S, trial="t", rate={"pps": 1e3}, **times)
    client.wait_trial("t", LIMIT_S)
    assert time.monotonic() - began >= 1
