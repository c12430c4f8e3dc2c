# SPDX-License-Identifier: BSD-3-Clause
"""Test the path's own floor: measured once for each kind of frame, absent with a reason if it cannot be."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import synthetic_run as synthetic

from pollscope.base.errors import TrialError
from pollscope.metrics.derive import derive_trial
from pollscope.node.client import NodeLost
from pollscope.node.requests import Wiring, floor_request
from pollscope.spec.model import Parameters
from pollscope.spec.points import Point
from pollscope.testbeds.loopback import LoopbackTestbed
from pollscope.testbeds.path_floor import PathFloors
from pollscope.testbeds.session import TrialRequest

LATENCY = {"from_intended": synthetic.histogram([200], "ns"), "from_sent": synthetic.histogram([150], "ns")}


class FloorSession:
    """The one method that is asked for; `answer` is returned, or raised."""

    def __init__(self, answer: dict[str, Any] | str | Exception) -> None:
        self.answer, self.asked = answer, 0

    def floor(self, _params: Parameters, _request: TrialRequest) -> dict[str, Any] | str:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def params(**changes: Any) -> Parameters:
    return Parameters().model_copy(update=changes)


def test_the_floor_is_measured_once_per_kind_of_frame() -> None:
    session: Any = FloorSession({"gen": {"lcores": [{"latency_ns": LATENCY}]}})
    floors = PathFloors()
    mix = [{"size": 64, "weight": 1}, {"size": 1518, "weight": 2}]
    for each in (params(), params(queues=8, load_pps=1e3), params(frame=128), params(frame=mix), params(frame=mix)):
        found = floors.of(session, each)
        assert found["latency_ns"] == LATENCY
        assert found["frame"] == each.frame
    assert session.asked == 3


OTHER_CPUS = ({"cores": 2}, {"placement": "smt-pairs"}, {"dispatchers": 1}, {"organisation": "scale-up"})


@pytest.mark.parametrize(
    "changes", [*OTHER_CPUS, {"generator_sleep": 1000}, {"generator": "agent"}, {"page_size": "4 KiB"}, {"rx_desc": 64}]
)
def test_another_place_of_the_generator_has_a_floor_of_its_own(changes: dict[str, Any]) -> None:
    session: Any = FloorSession({"gen": {"lcores": [{"latency_ns": LATENCY}]}})
    floors = PathFloors()
    for each in (params(), params(**changes), params(organisation="corec"), params(**changes)):
        floors.of(session, each)
    assert session.asked == 2
    floors.of(session, params(), {"governor": "powersave"})
    assert session.asked == 3


def test_frames_of_a_trace_have_a_floor_of_their_own() -> None:
    session: Any = FloorSession({"gen": {"lcores": [{"latency_ns": LATENCY}]}})
    floors = PathFloors()
    assert floors.of(session, params())["frame"] == 64
    for trace in ("one.pcap", "two.pcap", "one.pcap"):
        found = floors.of(session, params(trace=trace))
        assert found["trace"] == trace and "frame" not in found
    assert session.asked == 3


@pytest.mark.parametrize(
    ("answer", "changes", "reason"),
    [
        ({"gen": {"lcores": [{}]}}, {}, "no latency"),
        ("the ports are not joined", {}, "not joined"),
        (TrialError("refused on purpose"), {}, "refused on purpose"),
        (TrialError("never asked"), {"generator_receives": False}, "does not receive"),
        (TrialError("never asked"), {"feed": "infinite"}, "does not receive"),
        (TrialError("never asked"), {"workload": "tx"}, "does not receive"),
    ],
)
def test_an_absent_floor_has_a_reason(
    answer: dict[str, Any] | str | Exception, changes: dict[str, Any], reason: str
) -> None:
    session: Any = FloorSession(answer)
    floor = PathFloors().of(session, params(**changes))
    assert reason in floor["absent"]
    metrics, absences = derive_trial(synthetic.trial() | {"floor": floor})
    assert "latency_floor_ns" not in metrics
    assert reason in absences["latency_floor_ns"]


def test_the_floor_is_a_metric_of_every_trial() -> None:
    metrics, _ = derive_trial(synthetic.trial() | {"floor": synthetic.floor(range(100, 200))})
    assert metrics["latency_floor_ns"] == pytest.approx(149, abs=1)
    assert metrics["latency_floor_p99_ns"] == pytest.approx(198, abs=1)


def test_no_dut_takes_part() -> None:
    request = floor_request(params(queues=64, cores=4), Wiring((1,), (2, 3, 4, 5), "a", "b", "c", "d"))
    assert "dut" not in request
    assert [port["name"] for port in request["ports"]] == ["a", "b"]
    assert (request["gen"]["tx_port"], request["gen"]["rx_port"], request["gen"]["lcores"]) == ("a", "b", [1])
    replayed = floor_request(params(trace="/tmp/one.pcap"), Wiring((1,), (2,), "a", "b", "c", "d"))
    assert replayed["gen"]["trace"] == "/tmp/one.pcap" and "frame" not in replayed["gen"]


@pytest.mark.parametrize(("shared", "expected"), [(1, [1, 2, 2, 3]), (2, [1, 1, 1, 2])])
def test_repeats_measure_their_own_floor_and_their_own_calibration(shared: int, expected: list[int]) -> None:
    """One value copied into every repeat has an interval of width 0; many short repeats share a few of them."""
    session: Any = FloorSession({"gen": {"lcores": [{"latency_ns": LATENCY}]}})
    floors = PathFloors()
    for repeat in (1, 1, 2):
        floors.of(session, params(), repeat=repeat)
    assert session.asked == 2

    counter = itertools.count(1)
    session.configure = lambda _params: {}
    session.calibrate = lambda _params: {"stamp_cycles": {"median": float(next(counter))}}
    testbed = LoopbackTestbed.__new__(LoopbackTestbed)
    testbed._calibrations = {}
    testbed._repeats_per_cost = shared
    point = Point("queues=1", {"queues": 1}, params())
    found = [testbed._configured(session, trial(point, repeat))[1] for repeat in (0, 1, 1, 2)]
    assert [each["stamp_cycles"]["median"] for each in found] == expected


def trial(point: Point, repeat: int) -> Any:
    return SimpleNamespace(point=point, repeat=repeat)


def test_a_lost_floor_is_not_measured_again() -> None:
    session: Any = FloorSession(NodeLost("hung"))
    floors = PathFloors()
    with pytest.raises(NodeLost):
        floors.of(session, params())
    assert "hung" in floors.of(session, params(), repeat=2)["absent"]
    assert session.asked == 1
