# SPDX-License-Identifier: BSD-3-Clause
"""Check the request `oracle` of tests-oracle-node: a script of polls, the times of its passes, its timed intervals."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic
from dut_node import DUT_LCORE, DUT_RX, SECOND_DUT_LCORE, Node, configuration, running_node

from pollscope.metrics.accounting import Classes, classes

QUEUES = 4
# Polls of four queues in turn: 17 packets in 4 busy polls, 3 of which follow an empty poll.
SCRIPT = [0, 3, 0, 0, 8, 0, 5, 1] + [0] * 24
BUSY_POLLS, PACKETS = 4, 17


@pytest.fixture(scope="module")
def node(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_node(build_dir, tmp_path_factory.mktemp("node") / "log", program="tests-oracle-node") as running:
        yield running


@pytest.fixture
def ready(node: Node) -> Node:
    node.get("configure", **configuration(queues=QUEUES))
    return node


@pytest.mark.parametrize(
    ("request_", "where", "text"),
    [
        ({}, "burst", "must be an array of 1 to 1048576 numbers"),
        ({"burst": []}, "burst", "must be an array"),
        ({"burst": 5}, "burst", "must be an array"),
        ({"burst": [1, -1]}, "burst", "[1] must be 0 to 32"),
        ({"burst": [0, 0, 33]}, "burst", "[2] must be 0 to 32"),
        ({"burst": [0, 65537]}, "burst", "[1] must be 0 to 32"),
        ({"burst": ["1"]}, "burst", "[0] must be 0 to 32"),
        ({"burst": [0.5]}, "burst", "[0] must be 0 to 32"),
        ({"burst": [1], "passes": 0}, "passes", "1"),
        ({"burst": [1], "passes": 100_001}, "passes", "100000"),
        ({"burst": [1], "passes": "1"}, "passes", ""),
        ({"burst": [1], "work_cycles": 100_001}, "work_cycles", "100000"),
        ({"burst": [1], "work_cycles": -1}, "work_cycles", ""),
        ({"burst": [1], "queues": 0}, "queues", "1"),
        ({"burst": [1], "queues": QUEUES + 1}, "queues", str(QUEUES)),
        ({"burst": [1], "bursts": [1]}, "bursts", ""),
    ],
)
def test_bad_input_is_one_line(ready: Node, request_: dict[str, Any], where: str, text: str) -> None:
    reply = ready.ask("oracle", **request_)
    assert (reply["ok"], reply["where"]) == (False, where), reply
    assert text in reply["error"]
    assert "\n" not in reply["error"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "changes",
    [
        {"generator": False},
        {"workload": "drop", "tx_port": None},
        {"lcores": [DUT_LCORE, SECOND_DUT_LCORE], "organisation": "locked"},
        {"lcores": [DUT_LCORE], "dispatchers": [SECOND_DUT_LCORE], "organisation": "scale-up"},
        {"accounting": "count"},
    ],
    ids=["no generator", "sends nothing", "locked queues", "dispatcher", "not sampled"],
)
def test_a_configuration_without_its_ends_is_refused(node: Node, changes: dict[str, Any]) -> None:
    node.get("configure", **configuration(queues=QUEUES, **changes))
    reply = node.ask("oracle", burst=SCRIPT)
    assert reply["ok"] is False
    wanted = "needs a generator, and a DUT lcore (accounting sampled) that reads RX queues of its own and sends"
    assert reply["error"] == wanted


def test_a_script_is_refused_while_a_trial_runs(ready: Node) -> None:
    ready.get("start", trial="long", warmup_ns=0, window_ns=60 * 10**9, rate={"pps": 1000})
    assert ready.ask("oracle", burst=SCRIPT)["where"] == "cmd"
    ready.get("stop")
    assert ready.line()["event"] == "done"


def test_a_ring_that_is_too_small_for_a_pass_is_reported(node: Node) -> None:
    """Every poll asks one queue, whose ring has 64 slots."""
    node.get("configure", **configuration(queues=1, rx_desc=64))
    reply = node.ask("oracle", burst=[32] * 4)
    assert (reply["ok"], reply["where"]) == (False, "burst")
    assert "packets were lost: a ring or pool is too small" in reply["error"]
    assert node.get("oracle", burst=[32])["ok"] is True, "the node continues"


@pytest.mark.measure
@pytest.mark.one_in(2)
@pytest.mark.parametrize("work", [0, 2000])
def test_passes_get_what_the_script_says(ready: Node, work: int) -> None:
    passes = 20
    reply = ready.get("oracle", burst=SCRIPT, queues=QUEUES, passes=passes, work_cycles=work)
    chunks, lcore = reply["chunks"], reply["lcore"]
    assert chunks >= 1
    for kind in ("all", "busy", "empty"):
        assert len(reply["cycles"][kind]) == passes
        assert min(reply["cycles"][kind]) > 0
    assert lcore["rx_packets"] == lcore["tx_packets"] + lcore["tx_dropped"] == passes * chunks * PACKETS
    assert lcore["polls"]["partial"] == passes * chunks * BUSY_POLLS
    assert dict(lcore["histograms"]["burst"]["values"]) == pytest.approx(
        dict.fromkeys((3, 8, 5, 1), passes * chunks) | {0: lcore["polls"]["empty"]}
    )
    # The known work of the packets is a lower bound of the passes that receive them.
    for kind in ("all", "busy"):
        assert min(reply["cycles"][kind]) > 0.9 * work * PACKETS * chunks


@pytest.mark.measure
@pytest.mark.thorough
def test_work_lengthens_only_passes_with_packets(ready: Node) -> None:
    """Compare the shortest passes, because a busy host lengthens any of them."""
    light, heavy = (ready.get("oracle", burst=SCRIPT, queues=QUEUES, passes=50, work_cycles=work) for work in (0, 4000))
    more = {kind: min(heavy["cycles"][kind]) - min(light["cycles"][kind]) for kind in ("all", "busy", "empty")}
    known = 4000 * PACKETS * heavy["chunks"]
    assert more["all"] > 0.8 * known
    assert more["busy"] > 0.8 * known
    assert abs(more["empty"]) < 0.1 * known


@pytest.mark.measure
def test_timed_intervals_leave_the_sums_that_follow_from_them(ready: Node) -> None:
    """The node's sums of products equal those that Python computes from the same intervals."""
    reply = ready.get("oracle", burst=SCRIPT, queues=QUEUES, passes=400, work_cycles=0)
    timed_intervals, sums = reply["timed_intervals"], reply["lcore"]["timed_intervals"]
    assert len(timed_intervals) > 100
    assert sum(row[0] > 0 for row in sums["blocks"]) >= 6, "time is divided among the blocks"
    expected = synthetic.timed_intervals_part([[(*events, float(spent)) for *events, spent in timed_intervals]])
    for name in ("blocks", "quiet"):
        whole = [sum(column) for column in zip(*sums[name], strict=True)]
        assert whole == pytest.approx(expected[name][0], rel=1e-9)
    for polls, busy_polls, switches, packets, cycles in timed_intervals:
        assert polls >= busy_polls >= switches >= 0 < cycles
        assert busy_polls <= packets <= 8 * busy_polls
    assert any(busy_polls for _, busy_polls, *_ in timed_intervals)


@pytest.mark.measure
def test_a_script_without_packets_costs_empty_polls_only(ready: Node) -> None:
    reply = ready.get("oracle", burst=[0] * 4096, queues=QUEUES, passes=20)
    assert reply["lcore"]["rx_packets"] == 0
    found = classes(reply["lcore"])
    assert isinstance(found, Classes)
    assert found.packets.value == 0
    assert min(reply["cycles"]["all"]) == pytest.approx(min(reply["cycles"]["empty"]), rel=0.5)
    assert set(reply["cycles"]["busy"]) == {0}


def test_packets_of_a_script_are_not_seen_by_the_next_trial(ready: Node) -> None:
    ready.get("oracle", burst=SCRIPT, queues=QUEUES, passes=5)
    ready.get("configure", **configuration(queues=QUEUES))
    result = ready.trial(rate={"pps": 0})
    assert result["dut"]["lcores"][0]["rx_packets"] == 0
    assert result["ports"][DUT_RX]["stats"]["ipackets"] == 0
