# SPDX-License-Identifier: BSD-3-Clause
"""A real node whose DUT is told by doorbells which queues have packets: none is lost, all cycles are accounted for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dut_node import DUT_RX, Node, configuration, running_node

from pollscope.metrics.accounting import Classes, classes

pytestmark = pytest.mark.measure

LCORES = "0@0,1@0,2@1,3@1"
WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"ready_set": "linear"},
    "strict": {"service_order": "strict"},
    "sleep": {"idle": "sleep"},
    "two-cores": {"lcores": [2, 3]},
    "delays": {"extra_cycles": 300},
}


@pytest.fixture(scope="module")
def node(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_node(build_dir, tmp_path_factory.mktemp("node") / "log", lcores=LCORES) as running:
        yield running


def trial(node: Node, pps: int, queues: int, gen: dict[str, Any] | None = None, **dut: Any) -> dict[str, Any]:
    node.get("configure", **configuration(queues=queues, rx_desc=4096, gen=gen, **{"notification": "qwait", **dut}))
    return node.trial(window_s=0.3, warmup_s=0.0, rate={"pps": pps}, drain_max_ns=3 * 10**9)


@pytest.mark.parametrize("queues", [2, 100])
@pytest.mark.parametrize("way", WAYS)
def test_every_packet_passes_once_and_in_order(node: Node, way: str, queues: int) -> None:
    result = trial(node, 20_000, queues, **WAYS[way])
    (generator,) = result["gen"]["lcores"]
    total, sequence = generator["total"], generator["sequence"]
    assert total["sent"] > 0
    dropped = sum(port["stats"]["imissed"] for port in result["ports"].values())
    assert total["rx_packets"] + dropped == total["sent"]
    assert (sequence["lost"], sequence["duplicated"], sequence["reordered"]) == (dropped, 0, 0)


def test_a_single_busy_queue_among_many(node: Node) -> None:
    """Its neighbours are looked at once, when the loop begins, and when they are rung."""
    result = trial(node, 20_000, 1000, gen={"shape": "SQ"})
    (lcore,) = result["dut"]["lcores"]
    visits = lcore["polls"]["partial"] + lcore["polls"]["full"]
    assert lcore["rx_packets"] > 0
    assert lcore["polls"]["empty"] <= visits + 1000


@pytest.mark.parametrize("pps", [0, 5_000, 200_000])
def test_classes_and_waiting_make_the_window(node: Node, pps: int) -> None:
    result = trial(node, pps, 50, workload="encap")
    (lcore,) = result["dut"]["lcores"]
    found = classes(lcore)
    if isinstance(found, str):  # a busy host timed too few turns
        assert "timed" in found or "known" in found or "exceeds" in found, found
        return
    assert isinstance(found, Classes)
    assert found.waiting == lcore["waiting"]["cycles"]
    assert lcore["waiting"]["count"] > 0 or pps > 0
    whole = found.waiting + found.empty_poll.value + found.loop + found.instrumentation + found.packets.value
    assert whole == pytest.approx(lcore["cycles"]["total"], rel=1e-9)
    assert lcore["idle_iterations"] == lcore["iterations"] - lcore["polls"]["partial"] - lcore["polls"]["full"]


def test_a_core_without_packets_sleeps(node: Node) -> None:
    """Up to 1 ms at a time."""
    result = trial(node, 0, 10, idle="sleep")
    (lcore,) = result["dut"]["lcores"]
    assert 0 < lcore["waiting"]["sleeps"] <= lcore["waiting"]["count"]
    assert lcore["polls"]["partial"] + lcore["polls"]["full"] == 0


def test_who_spins_rings_no_doorbell_afterwards(node: Node) -> None:
    trial(node, 1000, 10)
    result = trial(node, 20_000, 10, notification="spin")
    (lcore,) = result["dut"]["lcores"]
    assert "waiting" not in lcore and "notices" not in lcore
    assert result["ports"][DUT_RX]["stats"]["ipackets"] > 0


@pytest.mark.parametrize(
    ("dut", "where"),
    [
        ({"accounting": "full"}, "dut.accounting"),
        ({"organisation": "corec"}, "dut.notification"),
        ({"organisation": "scale-up", "lcores": [2], "dispatchers": [3]}, "dut.notification"),
        ({"notification": "spin", "ready_set": "linear"}, "dut.ready_set"),
        ({"notification": "spin", "service_order": "strict"}, "dut.service_order"),
        ({"notification": "spin", "idle": "sleep"}, "dut.idle"),
        ({"service_order": "weighted"}, "dut.service_order"),
        ({"idle": "nap"}, "dut.idle"),
    ],
)
def test_what_does_not_fit_is_refused(node: Node, dut: dict[str, Any], where: str) -> None:
    reply = node.ask("configure", **configuration(queues=8, **{"notification": "qwait", **dut}))
    assert (reply["ok"], reply["where"]) == (False, where), reply


def test_a_port_that_feeds_itself_is_refused(build_dir: Path, tmp_path: Path) -> None:
    pairs = ("net_crossover0,feed=infinite", "net_crossover1")
    with running_node(build_dir, tmp_path / "log", vdevs=pairs, lcores=LCORES) as fed:
        reply = fed.ask("configure", **configuration(queues=4, generator=False, notification="qwait"))
    assert reply["ok"] is False and "use feed=wire" in reply["error"], reply
