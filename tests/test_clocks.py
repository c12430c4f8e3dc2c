# SPDX-License-Identifier: BSD-3-Clause
"""Check that all CPUs share one TSC: the node's measurement, and the warning or refusal if they do not."""

from pathlib import Path
from typing import Any

import pytest
from dut_node import running_node
from run_helpers import Cli

from pollscope.metrics.formulas.distributions import DISTRIBUTIONS
from pollscope.metrics.judgement import clock_flags
from pollscope.metrics.record import NotMeasured, TrialObservations
from pollscope.node.clocks import clock_warnings, clocks

AHEAD = {"low_cycles": 9_900, "high_cycles": 10_100, "rounds": 2000}
BEHIND = {"low_cycles": -10_100, "high_cycles": -9_900, "rounds": 2000}
AGREES = {"low_cycles": -100, "high_cycles": 120, "rounds": 2000}
MOVES = {"low_cycles": 500, "high_cycles": -500, "rounds": 2000}
UNKNOWN = {"absent": "no answer within 50 ms: something else has the CPU"}


def hello(offset: dict[str, Any]) -> dict[str, Any]:
    return {"tsc_hz": 10**9, "tsc_offsets": {"reference_cpu": 0, "cpus": [{"cpu": 1, **offset}]}}


def test_the_node_compares_its_cpus(build_dir: Path, tmp_path: Path) -> None:
    with running_node(build_dir, tmp_path / "log") as node:
        found = node.hello["tsc_offsets"]
    assert found["reference_cpu"] == 0
    (other,) = found["cpus"]  # lcores 2 and 3 share CPU 1, and lcore 1 has the main lcore's
    assert other["cpu"] == 1
    assert 0 < other["rounds"] <= 2000
    assert other["low_cycles"] <= 0 <= other["high_cycles"], "or this host's TSCs differ"


@pytest.mark.parametrize(
    ("offset", "says"),
    [
        (AHEAD, "the TSC of CPU 1 is 10000 cycles ahead of that of CPU 0 (+-100,"),
        (BEHIND, "the TSC of CPU 1 is 10000 cycles behind that of CPU 0 (+-100,"),
        (MOVES, "does not keep its distance from that of CPU 0: it moved by at least 1000 cycles within 2000 messages"),
        (UNKNOWN, "could not be compared with that of CPU 0: no answer within 50 ms"),
    ],
)
def test_a_wrong_clock_is_reported_in_a_sentence(offset: dict[str, Any], says: str) -> None:
    (warning,) = clock_warnings(hello(offset))
    assert says in warning
    found = clocks(hello(offset), (0, 1))
    assert found["shared"] is False
    (flag,) = clock_flags({"result": {"clocks": found}})
    assert flag == {"name": "clock", "text": warning}


def test_agreeing_clocks_are_not_mentioned() -> None:
    assert clock_warnings(hello(AGREES)) == []
    assert clocks(hello(AGREES), (0, 1)) == {"shared": True}
    assert clocks(hello(AHEAD), (0,)) == {"shared": True}  # a CPU that takes no part
    assert clocks({}, (0, 1)) == {}  # a node that did not compare its clocks
    assert clock_flags({"result": {"clocks": {"shared": False, "start_skew_at_most_ns": 5}}}) == []  # two hosts


@pytest.mark.parametrize(("offset", "refused"), [(AHEAD, False), (MOVES, True)])
def test_latencies_are_refused_when_the_clock_moves(offset: dict[str, Any], refused: bool) -> None:
    histogram = {"unit": "ns", "lowest": 1, "highest": 10**6, "significant_digits": 3, "total": 2, "sum": 1000}
    histogram |= {"min": 500, "max": 500, "counts": [[500, 2]]}
    result = {"gen": {"lcores": [{"latency_ns": {"from_intended": histogram}}]}, "clocks": clocks(hello(offset), (1,))}
    config = {"dut": {"tx_port": "net_crossover1_a"}, "gen": {"rx_port": "net_crossover1_b"}}
    trial = TrialObservations({"result": {**result, "window": {"tsc_hz": 10**9}}, "config": config})
    if refused:
        with pytest.raises(NotMeasured, match="does not keep its distance"):
            DISTRIBUTIONS["latency_p50_ns"](trial)
    else:
        assert DISTRIBUTIONS["latency_p50_ns"](trial) == 500


def test_a_run_on_two_clocks_says_so(cli: Cli) -> None:
    cli.faults = {"tsc": AHEAD}
    assert cli("run", cli.spec()).returncode == 0
    run = cli.only_run()
    assert any("10000 cycles ahead" in warning for warning in run.meta["warnings"])
    assert all("clock" in [flag["name"] for flag in trial["flags"]] for trial in run.trials)
    assert {trial["status"] for trial in run.trials} == {"ok"}
