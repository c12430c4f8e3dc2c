# SPDX-License-Identifier: BSD-3-Clause
"""Check that a pair's generator of cold queues learns how often the DUT polls its queues."""

from types import SimpleNamespace
from typing import Any

import pytest

from pollscope.testbeds.pair.config import AtStart
from pollscope.testbeds.pair.session import PairSession
from pollscope.testbeds.session import TrialRequest

TSC_HZ = 1_000_000_000
TIMES = {"warmup_ns": 20_000_000, "window_ns": 1_000_000, "drain_max_ns": 0}


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
    dut: Any = FakeNode()
    generator: Any = FakeNode()
    config: Any = SimpleNamespace(dut=SimpleNamespace(ssh="d"), generator=SimpleNamespace(ssh="g"))
    corunners: Any = None
    session = PairSession(config, dut, generator, (), corunners, {}, AtStart())
    session._configured = {
        "ports": [{"name": "dut/b", "rx_queues": queues}],
        "dut": {"rx_port": "dut/b"},
        "gen": {"shape": "PC", "background_probability": 0.05, **gen},
    }
    session._run(TrialRequest("t", **TIMES, rate=rate or {"saturate": True}))
    return [fields["per_s"] for command, fields in generator.asked if command == "queue_polls"]


def test_queue_polls_are_counted_in_the_warm_up_by_the_duts_clock() -> None:
    # (100 x 3 + 50 x 2) / 5 polls of a queue in 10 ms; the rings' reader polls no queue
    assert run() == pytest.approx([8000, 8000])
    assert run(shape="NC") == pytest.approx([8000, 8000])


@pytest.mark.parametrize("other", [{"shape": "FB"}, {"shape": "SQ"}, {"background_probability": 0.0}, {"queues": 1}])
def test_queue_polls_are_not_requested_without_cold_queues(other: dict[str, Any]) -> None:
    assert run(**other) == []


def test_a_given_rate_needs_no_queue_polls() -> None:
    assert run(rate={"pps": 1000}) == []
