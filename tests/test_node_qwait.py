# SPDX-License-Identifier: BSD-3-Clause
"""Check a real node whose DUT is notified or waits: no packet is lost, all cycles are accounted for."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from accounted import check_conservation, check_cycles
from dut_node import DUT_RX, Node, configuration, running_node

from pollscope.host.metadata import cpu_flags
from pollscope.metrics.accounting import NoClasses
from pollscope.spec.model import Parameters
from pollscope.testbeds.halting import halt_refusal

pytestmark = pytest.mark.measure

LCORES = "0@0,1@0,2@1,3@1"


def trial(
    node: Node, pps: int, queues: int, gen: dict[str, Any] | None = None, window_s: float = 0.05, **dut: Any
) -> dict[str, Any]:
    rx_desc = 64 if queues > 100 else 512
    node.get("configure", **configuration(queues, rx_desc, gen=gen, **{"notification": "qwait", **dut}))
    return node.trial(window_s=window_s, warmup_s=0.0, rate={"pps": pps}, drain_max_ns=3 * 10**9)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("pps", [0, 5_000, 200_000])
@pytest.mark.parametrize("way", ["qwait", "interrupt", "adaptive", "sleep-ramp", "pause"])
def test_time_without_polls_counts_as_waiting(node: Node, way: str, pps: int) -> None:
    result = trial(node, pps, 50, window_s=0.3, workload="encap", notification=way)
    (lcore,) = result["dut"]["lcores"]
    assert lcore["waiting"]["sleeps"] <= lcore["waiting"]["count"]
    if way == "qwait":
        assert lcore["idle_iterations"] == lcore["iterations"] - lcore["polls"]["partial"] - lcore["polls"]["full"]
    found = check_cycles(lcore, "sampled")
    if isinstance(found, NoClasses):  # a busy host: too few timed intervals, or a cost that changed
        assert any(word in found.reason for word in ("known", "exceed", "calibrated", "timed")), found
        return
    if pps == 0:
        assert found.waiting > 0
        shortest = min(entry["cycles"] for entry in lcore["longest"]) / node.hello["tsc_hz"]
        by_time = ("qwait", "sleep-ramp", "pause")
        assert way in by_time or shortest < 5e-4, "a wait of a millisecond is no iteration of the loop"


@pytest.mark.parametrize("way", [{"notification": "adaptive"}, {"idle": "sleep"}])
def test_a_core_that_looks_longer_sleeps_less_often(node: Node, way: dict[str, Any]) -> None:
    """Packets come every 200 us: a core that looks for a second never sleeps, one that does not look does."""
    waits = []
    for wait_after_ns in (10**9, 0):
        (lcore,) = trial(node, 5_000, 2, wait_after_ns=wait_after_ns, **way)["dut"]["lcores"]
        waits.append(lcore["waiting"])
    assert waits[0]["sleeps"] == 0 < waits[1]["sleeps"]
    assert way != {"notification": "adaptive"} or not any(waits[0].values())


def test_a_single_busy_queue_among_many(node: Node) -> None:
    """The other queues are polled once, when the loop begins, and when they are rung."""
    result = trial(node, 20_000, 1000, gen={"shape": "SQ"})
    (lcore,) = result["dut"]["lcores"]
    busy_polls = lcore["polls"]["partial"] + lcore["polls"]["full"]
    assert lcore["rx_packets"] > 0
    assert lcore["polls"]["empty"] <= busy_polls + 1000


@pytest.mark.one_in(3)
@pytest.mark.parametrize("weights", [[3, 1], [2, 2], [1, 3]])
def test_weights_share_a_core(node: Node, weights: list[int]) -> None:
    """The order of service decides how many packets come from each of two rings that are never empty."""
    ring, posted = 4096, 32
    qwait: dict[str, Any] = {"notification": "qwait", "service_order": "weighted", "queue_weights": weights}
    node.get("configure", **configuration(queues=2, rx_desc=ring, burst=1, extra_cycles=20_000, **qwait))
    result = node.trial(window_s=0.3, rate={"saturate": True}, drain_max_ns=3 * 10**9)
    first, second = (entered - ring for entered in result["ports"][DUT_RX]["rx_queue_packets"])
    assert first + second > 10 * posted * sum(weights)
    # Room is made for this many at a time, so each ring may be off by one such step.
    assert abs(first * weights[1] - second * weights[0]) <= 2 * posted * sum(weights)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("sharing", "queues"), [("own", [500, 500]), ("shared", [1000, 1000]), ("stealing", [500, 500])]
)
def test_an_idle_core_steals_if_it_may(node: Node, sharing: str, queues: list[int]) -> None:
    """All packets go to the queues of one core, in every trial; the other core serves some only if it may steal."""
    result = trial(node, 50_000, 1000, gen={"shape": "SQ"}, lcores=[2, 3], ready_set_sharing=sharing)
    lcores = result["dut"]["lcores"]
    assert [lcore["queues"] for lcore in lcores] == queues
    assert all(lcore["sharing"]["vain_wakes"] <= lcore["waiting"]["count"] for lcore in lcores)
    stolen = [lcore["sharing"]["stolen"] for lcore in lcores]
    assert all((taken > 0) <= (sharing == "stealing") for taken in stolen), stolen
    served = [lcore["rx_packets"] for lcore in lcores]
    if sharing == "own":
        assert min(served) == 0 < max(served)
    else:  # lcores take turns on one CPU: each finds the queue ready at some time
        assert min(served) > 0, served
    (generator,) = result["gen"]["lcores"]
    assert (generator["sequence"]["duplicated"], generator["sequence"]["reordered"]) == (0, 0)


def test_a_core_without_packets_sleeps(node: Node) -> None:
    """Up to 1 ms at a time."""
    result = trial(node, 0, 10, idle="sleep")
    (lcore,) = result["dut"]["lcores"]
    assert 0 < lcore["waiting"]["sleeps"] <= lcore["waiting"]["count"]
    assert lcore["polls"]["partial"] + lcore["polls"]["full"] == 0


def test_no_doorbell_is_rung_after_a_change_to_spin(node: Node) -> None:
    trial(node, 1000, 10)
    result = trial(node, 20_000, 10, notification="spin")
    (lcore,) = result["dut"]["lcores"]
    assert "waiting" not in lcore and "notices" not in lcore
    assert result["ports"][DUT_RX]["stats"]["ipackets"] > 0


@pytest.mark.parametrize(
    ("where", "level", "without"),
    [("notification", "monitor", "mwaitx"), ("notification", "monitor-multi", "rtm"), ("idle", "umwait", "waitpkg")],
)
def test_a_halt_is_refused_where_no_processor_can_do_it(node: Node, where: str, level: str, without: str) -> None:
    """Both the plan and the node refuse it."""
    params = Parameters.model_validate({"notification": "qwait", where: level})
    assert halt_refusal(params, lambda: dict.fromkeys(("waitpkg", "mwaitx", "rtm"), True)) is None
    assert "needs a processor" in str(halt_refusal(params, lambda: {"waitpkg": False, without: False}))
    dut: dict[str, Any] = {"notification": "qwait", where: level}
    reply = node.ask("configure", **configuration(queues=8, **dut))
    if halt_refusal(params, cpu_flags):
        assert (reply["ok"], reply["where"]) == (False, f"dut.{where}") and "WAITPKG" in reply["error"], reply


@pytest.fixture(scope="module")
def halts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file that counts the halts ended by a write, and those ended by time."""
    counters = tmp_path_factory.mktemp("halts") / "counters"
    counters.write_bytes(bytes(16))
    return counters


@pytest.fixture(scope="module")
def halting_node(build_dir: Path, halts: Path) -> Iterator[Node]:
    """Run a node on a processor that can halt on lines, emulated in software."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLLSCOPE_HALTS", str(halts))
        preload = build_dir / "tests-halts.so"
        with running_node(build_dir, halts.with_name("log"), lcores=LCORES, preload=preload) as running:
            yield running


@pytest.mark.one_in(3)
@pytest.mark.parametrize("queues", [2, 100])
@pytest.mark.parametrize("notification", ["monitor", "monitor-multi"])
def test_a_packet_ends_a_halt(halting_node: Node, halts: Path, notification: str, queues: int) -> None:
    """No packet is lost, and none waits for the millisecond after which a halt ends by itself."""
    before = struct.unpack("QQ", halts.read_bytes())
    result = trial(halting_node, 5_000, queues, window_s=0.3, notification=notification)
    (lcore,) = result["dut"]["lcores"]
    check_conservation(result, in_order=True)
    assert lcore["waiting"]["sleeps"] > 0
    by_write, by_time = (now - then for now, then in zip(struct.unpack("QQ", halts.read_bytes()), before, strict=True))
    assert by_write > 0, f"{by_time} halts ended by time, none by a packet, of which each millisecond has five"
