# SPDX-License-Identifier: BSD-3-Clause
"""Check the request `host_state` of pollscope-node: its measurements on these CPUs, and its refusals."""

from statistics import median
from typing import Any

import pytest
from dut_node import DUT_LCORE, GENERATOR_LCORE, SECOND_DUT_LCORE, Node, configuration

pytestmark = pytest.mark.measure


def undisturbed(node: Node, lcores: list[int]) -> dict[str, Any]:
    """Return a check during which the host took no CPU away for milliseconds, or the fiftieth."""
    for _ in range(50):
        host_state: dict[str, Any] = node.ask("host_state", lcores=lcores)["host_state"]
        if not any("taken away" in line.get("absent", "") for line in host_state["lines"]):
            break
    return host_state


def test_line_chain_wide_and_stream(node: Node) -> None:
    host_state = undisturbed(node, [GENERATOR_LCORE, DUT_LCORE])
    (line,) = host_state["lines"]
    assert (line["lcores"], line["cpus"]) == ([GENERATOR_LCORE, DUT_LCORE], [0, 1])
    assert len(line["cycles"]) == 32
    assert 20 < median(line["cycles"]) / line["round_trips"] < 100_000
    for core, lcore in zip(host_state["cores"], (GENERATOR_LCORE, DUT_LCORE), strict=True):
        assert core["lcore"] == lcore
        step, wide = (median(core[part]["cycles"]) / core[part]["steps"] for part in ("chain", "wide"))
        assert 0.75 < step < 40
        assert wide < 3 * step
        assert core["stream"]["bytes"] >= 4 << 20
        assert 0.01 < core["stream"]["bytes"] / median(core["stream"]["cycles"]) < 256


def test_a_host_state_check_takes_some_milliseconds(node: Node) -> None:
    """A check precedes every block of trials; the median, because the host may take a core away from one."""
    took_ms = [
        node.ask("host_state", lcores=[GENERATOR_LCORE, DUT_LCORE])["host_state"]["took_ns"] / 1e6 for _ in range(9)
    ]
    assert median(took_ms) < 20


def test_lcores_of_one_cpu_have_no_line(node: Node) -> None:
    host_state = undisturbed(node, [DUT_LCORE, SECOND_DUT_LCORE, GENERATOR_LCORE])
    shared, apart = host_state["lines"]
    assert shared["cpus"] == [1, 1]
    assert shared["absent"] == "both lcores share CPU 1, so that no line moves"
    assert apart["cpus"] == [1, 0]
    assert "absent" not in apart
    steps = [median(core["chain"]["cycles"]) / core["chain"]["steps"] for core in host_state["cores"]]
    assert len(steps) == 3
    assert max(steps) < 2 * min(steps), "lcores of one CPU take turns and do not slow each other down"


@pytest.mark.parametrize(
    ("request_", "where"),
    [
        ({}, "lcores"),
        ({"lcores": []}, "lcores"),
        ({"lcores": 1}, "lcores"),
        ({"lcores": [0]}, "lcores"),
        ({"lcores": [99]}, "lcores"),
        ({"lcores": ["1"]}, "lcores"),
        ({"lcores": [1, 1]}, "lcores"),
        ({"lcores": [1], "duration_ns": 5}, "duration_ns"),
    ],
)
def test_bad_requests(node: Node, request_: dict[str, Any], where: str) -> None:
    reply = node.ask("host_state", **request_)
    assert reply["ok"] is False
    assert reply["where"] == where
    assert "\n" not in reply["error"]


def test_a_host_state_check_is_refused_while_pollers_run(node: Node) -> None:
    assert node.ask("configure", **configuration())["ok"]
    assert node.ask("start", trial="t", warmup_ns=0, window_ns=10**9, rate={"pps": 0})["ok"]
    refused = node.ask("host_state", lcores=[GENERATOR_LCORE])
    assert refused["ok"] is False
    node.ask("stop")
    assert node.line()["event"] == "done"
    assert node.ask("host_state", lcores=[GENERATOR_LCORE])["ok"]
