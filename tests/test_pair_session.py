# SPDX-License-Identifier: BSD-3-Clause
"""Test the session of a pair on stand-ins for its nodes: queue polls for cold queues, emulated hosts, lost knobs."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pollscope.host.lock import HostLock, InUse
from pollscope.node.client import NodeFailed
from pollscope.run.agent import Agent
from pollscope.spec.model import Parameters
from pollscope.testbeds.pair.config import AtStart
from pollscope.testbeds.pair.remote_host import _error
from pollscope.testbeds.pair.session import PairSession
from pollscope.testbeds.session import TrialRequest

TSC_HZ = 1_000_000_000
TIMES = {"warmup_ns": 20_000_000, "window_ns": 1_000_000, "drain_max_ns": 0}


def session_of(
    dut_emulated: bool = False, gen_emulated: bool = False, nodes: Any = None, hosts: Any = (), configured: Any = None
) -> PairSession:
    """Return a session of hosts that an emulator makes, or not; `nodes`: of DUT and generator."""
    node: Any = SimpleNamespace(hello={"hugepages": True})
    ends = [SimpleNamespace(ssh="h", emulated=emulated) for emulated in (dut_emulated, gen_emulated)]
    config: Any = SimpleNamespace(dut=ends[0], generator=ends[1])
    corunners: Any = None
    dut, generator = nodes or (node, node)
    session = PairSession(config, dut, generator, hosts, corunners, {}, AtStart())
    session._configured = configured or {}
    return session


@pytest.mark.parametrize("emulated", [(True, False), (False, True)])
def test_emulation_is_reported_first(emulated: tuple[bool, bool]) -> None:
    assert session_of(*emulated).metadata[0].startswith("the machines are emulated: times, rates and caches")
    assert not any("emulated" in sentence for sentence in session_of().metadata)


def test_a_host_that_another_conductor_holds_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner waits for such a host, see `pollscope run --wait`."""
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path))
    request = {"cmd": "knobs_open", "what": "run S-F5", "restore_first": False, "root": None, "emulated": False}
    with HostLock("run of another conductor"), Agent(tmp_path) as agent:
        error = _error(agent.answer(request)["failed"], "dut")
        assert isinstance(error, InUse) and "run of another conductor" in str(error)
        assert not isinstance(_error(agent.answer({"cmd": "knobs_snapshot"})["failed"], "dut"), InUse)


class FakeNode:
    """SYNTHETIC: a DUT of two lcores on 5 queues; at each reading, 10 ms later, it swept 100 and 50 times more."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.readings = 0

    def request(self, command: str, _limit_s: float, **fields: Any) -> dict[str, Any]:
        self.asked.append((command, fields))
        if command != "read":
            return {}
        self.readings += 1
        lcores = [
            {"source": "rx-queues", "iterations": 100 * self.readings, "queues": 3},
            {"source": "rx-queues", "iterations": 50 * self.readings, "queues": 2},
            {"source": "ring", "iterations": 10**9, "queues": 1},
        ]
        now = 7 * TSC_HZ + self.readings * TSC_HZ // 100
        return {"dut": {"lcores": lcores}, "now_tsc": now, "window": {"tsc_hz": TSC_HZ}}

    def wait_trial(self, _trial: str, _limit_s: float) -> dict[str, Any]:
        return {"event": "done"}


def run(queues: int = 5, rate: dict[str, Any] | None = None, **gen: Any) -> list[float]:
    """Return the requests to the generator in one trial."""
    nodes = FakeNode(), FakeNode()
    ports = [{"name": "dut/b", "rx_queues": queues}]
    gen = {"shape": "PC", "background_probability": 0.05, **gen}
    session = session_of(nodes=nodes, configured={"ports": ports, "dut": {"rx_port": "dut/b"}, "gen": gen})
    session._run(TrialRequest("t", **TIMES, rate=rate or {"saturate": True}))
    return [fields["per_s"] for command, fields in nodes[1].asked if command == "queue_polls"]


def test_queue_polls_are_counted_in_the_warm_up_by_the_duts_clock() -> None:
    # (100 x 3 + 50 x 2) / 5 polls of a queue in 10 ms; the rings' reader polls no queue
    assert run() == pytest.approx([8000, 8000])
    assert run(shape="NC") == pytest.approx([8000, 8000])


@pytest.mark.parametrize("other", [{"shape": "FB"}, {"shape": "SQ"}, {"background_probability": 0.0}, {"queues": 1}])
def test_queue_polls_are_not_requested_without_cold_queues(other: dict[str, Any]) -> None:
    assert run(**other) == []


def test_a_given_rate_needs_no_queue_polls() -> None:
    assert run(rate={"pps": 1000}) == []


class _Slow:
    """SYNTHETIC: a node behind QEMU, which hands it no more than 4 of the frames of `wire` in each trial."""

    def __init__(self, wire: list[int], sends: int = 0) -> None:
        self._wire, self._sends, self.trials = wire, sends, list[str]()
        self._counted = {"ipackets": 0, "opackets": 0}

    def request(self, command: str, _limit_s: float, **fields: Any) -> dict[str, Any]:
        if command == "start":
            self.trials.append(fields["trial"])
            self._wire[0] += self._sends
            taken = 0 if self._sends else min(4, self._wire[0])
            self._counted = {"ipackets": taken, "opackets": self._sends}
            self._wire[0] -= taken
        return {"ports": {"p": {"stats": self._counted}}, "gen": {}, "window": {}}

    def wait_trial(self, _trial: str, _limit_s: float) -> dict[str, Any]:
        return {"event": "done"}


class _Agent:
    """SYNTHETIC: the agent of a host."""

    def __init__(self, holds_knobs: bool) -> None:
        self.connection, self.holds_knobs = 1, holds_knobs


class _LostAgent(_Slow):
    """SYNTHETIC: while a trial runs on this node, the host's agent is lost and comes back."""

    def __init__(self, host: _Agent) -> None:
        super().__init__([0])
        self._host = host

    def wait_trial(self, trial: str, limit_s: float) -> dict[str, Any]:
        self._host.connection += 1
        return super().wait_trial(trial, limit_s)


@pytest.mark.parametrize("with_generator", [True, False])
@pytest.mark.parametrize("holds_knobs", [True, False])
def test_a_trial_whose_knobs_were_restored_meanwhile_has_failed(with_generator: bool, holds_knobs: bool) -> None:
    host = _Agent(holds_knobs)
    # The session waits for the first node: the generator, if there is one.
    nodes = _Slow([0]) if with_generator else _LostAgent(host), _LostAgent(host)
    session = session_of(nodes=nodes, hosts=[host], configured={"gen": {"shape": "FB"}} if with_generator else {})
    request = TrialRequest("t", warmup_ns=10**9, window_ns=1, drain_max_ns=0, rate={"pps": 10})
    with pytest.raises(NodeFailed, match="its knobs were restored") if holds_knobs else nullcontext():
        session.measure(request)


@pytest.mark.parametrize(("emulated", "trials"), [(True, ["t1", *["left"] * 4, "t2"]), (False, ["t1", "t2"])])
def test_packets_left_between_emulated_machines_do_not_reach_the_next_trial(emulated: bool, trials: list[str]) -> None:
    wire = [0]
    dut = _Slow(wire)
    session = session_of(emulated, emulated, nodes=(dut, _Slow(wire, sends=10)), configured={"gen": {"shape": "FB"}})
    for name in ("t1", "t2"):
        # The DUT starts first and must not receive the 10 frames that are sent then.
        session.measure(TrialRequest(name, warmup_ns=10**9, window_ns=1, drain_max_ns=0, rate={"pps": 10}))
    assert dut.trials == trials
    assert wire == [10 if emulated else 16]


@pytest.mark.parametrize(
    ("levels", "emulated", "warmup_s"),
    [
        ({"dut_core": "stress-ng", "corunner": "matrix-multiplication"}, True, 15),
        ({"corunner": "stress-ng"}, True, 15),
        ({"dut_core": "stress-ng", "corunner": "matrix-multiplication"}, False, 0),
        ({"corunner": "matrix-multiplication"}, True, 0),
    ],
)
def test_stress_ng_has_the_time_to_begin_on_emulated_machines(
    levels: dict[str, Any], emulated: bool, warmup_s: int
) -> None:
    """On a busy host stress-ng had written no numbers after 2 s of an emulated machine."""
    params = Parameters().model_copy(update=levels)
    assert session_of(emulated, emulated).least_warmup_ns(params) == warmup_s * 1_000_000_000


def test_a_dut_that_only_sends_is_not_calibrated() -> None:
    """Its node refuses: no trial of workload tx (S-F12, I-F4) was measured on a pair."""
    costs = session_of().calibrate(Parameters().model_copy(update={"workload": "tx"}))
    assert costs == {"absent": "the workload tx polls no RX queue"}
    with pytest.raises(AttributeError):  # the node is asked
        session_of().calibrate(Parameters())
