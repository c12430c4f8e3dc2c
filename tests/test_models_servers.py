# SPDX-License-Identifier: BSD-3-Clause
"""Cores of queueing theory as a testbed: C-F3 and C-F4 against exact formulas; percentiles to a given precision."""

import importlib
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_helpers import Cli

from pollscope.models import queues
from pollscope.models.simulate import Arrivals, Service, SharedServers

SMALL = "factors.load_of_max=[50 %, 90 %]", "trial.window=100 ms", "trial.warmup=10 ms", "repeats={count: 5}"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path, node=tmp_path / "there-is-no-node")


@pytest.mark.parametrize("row", ["C-F3", pytest.param("C-F4", marks=pytest.mark.thorough)])
def test_rows_of_one_shared_queue_follow_queueing_theory(cli: Cli, row: str) -> None:
    done = cli("run", row, "--testbed", "servers", *(word for setting in SMALL for word in ("--set", setting)))
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(cli.run_folders()[0] / "results.parquet")
    table = table[table["kind"] == "measure"]
    wait_ns = queues.mmc_wait_ns if row == "C-F3" else queues.mdc_wait_ns
    for key, found in table.groupby(["factor.organisation", "factor.cores", "factor.load_of_max"]):
        levels: Any = key
        organisation, cores, load = levels
        values = found["metric.latency_sent_mean_ns"]
        error = values.std() / math.sqrt(len(values))
        servers = cores if organisation == "corec" else 1
        exact = 1000 + wait_ns(load * servers * 1e6, 1000.0, servers)  # a packet takes 1 us
        # Cosmetatos' formula, for constant service at several servers, is 1 % off.
        allowed = 4.6 * error + (0.01 * (exact - 1000) if row == "C-F4" else 0.0)
        assert values.mean() == pytest.approx(exact, abs=allowed), (organisation, cores, load)
        assert found["metric.tx_pps"].mean() == pytest.approx(load * cores * 1e6, rel=0.01)
    if row == "C-F3":
        one = table[(table["factor.organisation"] == "scale-out") & (table["factor.load_of_max"] == 0.5)]
        # The time in M/M/1 is exponential.
        assert one["metric.latency_sent_p99_ns"].mean() == pytest.approx(math.log(100) * 2000, rel=0.03)
    folder = cli.run_folders()[0]
    verdicts = json.loads(cli("claims", folder, "--json").stdout)
    assert {each["verdict"] for each in verdicts} == {"agrees"}
    assert all(each["modelled"] for each in verdicts)
    done = cli("figures", folder, "--out", f"{row}.svg")
    assert done.returncode == 0, done.stderr
    assert "MODELLED" in (cli.folder / f"{row}.svg").read_text()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("factors.load_of_max=[100 %]", "at 100% of the servers' capacity, queues grow without bound"),
        ("factors.organisation=[scale-up]", "one queue each (scale-out) or share one (corec)"),
        ("parameters.burst=32", "one at a time (burst: 1)"),
        ("parameters.arrivals=constant", "arrivals: poisson"),
        ("parameters.shape=SQ", "spread evenly"),
        ("parameters.extra_cycles=0", "the service time is extra_cycles, which is 0"),
        ("parameters.spinning_cores=1", "nothing that runs beside the DUT"),
        ("factors.queues=[4, 16]", "with scale-out each server has one queue"),
    ],
)
def test_points_beyond_queueing_theory_are_left_out(cli: Cli, setting: str, reason: str) -> None:
    done = cli("plan", "C-F3", "--testbed", "servers", "--set", setting)
    assert reason in done.stdout + done.stderr


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("rate", "allowed"), [("4 Mpps", False), ("3.9 Mpps", True), ("0", False)], ids=["all", "nearly all", "nothing"]
)
def test_a_load_without_a_steady_state_is_left_out(cli: Cli, rate: str, allowed: bool) -> None:
    spec = """\
format: 1
name: servers
title: t
testbeds: [model]
parameters: {workload: io, extra_cycles: 1000, arrivals: poisson, burst: 1, cores: 4, organisation: corec}
factors: {load_pps: [1 Mpps, RATE]}
trial: {warmup: 1 ms, window: 5 ms, drain: 0 ms}
repeats: {count: 2}
""".replace("RATE", rate)
    done = cli("plan", cli.spec(spec), "--testbed", "servers")
    assert done.returncode == 0, done.stderr
    assert ("left out" in done.stdout) is not allowed, done.stdout


def test_a_file_has_costs_or_servers(cli: Cli) -> None:
    for keys, said in (({}, "needs either `workloads` or `servers`"), ({"servers": False}, "servers")):
        path = cli.folder / "machine.yaml"
        path.write_text(json.dumps({"kind": "model", "tsc_hz": 10**9, **keys}))
        done = cli("testbed", "status", path)
        assert done.returncode == 2
        assert said in done.stderr


SYSTEMS: dict[str, tuple[SharedServers, float]] = {
    "M/M/1 at 50 %": (
        SharedServers(Arrivals(0.5e6), Service(1000.0, "exponential"), quantity="stay"),
        2000 * math.log(100),
    ),
    "M/M/4 waits at 80 %": (
        SharedServers(Arrivals(3.2e6), Service(1000.0, "exponential"), 4, quantity="wait"),
        queues.mmc_wait_percentile_ns(3.2e6, 1000.0, 4, 99),
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_percentile_has_the_requested_precision(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent / "benchmarks"))
    simulate_until = importlib.import_module("scale_up_sweep").simulate_until
    system, exact_ns = SYSTEMS[name]
    covered = 0
    for seed in range(8):
        found, _ = simulate_until(system, 99, 0.03, warmup_ns=2e5, seed=100 * seed)
        assert (found.high - found.low) / 2 <= 0.03 * found.value
        assert found.value == pytest.approx(exact_ns, rel=0.06)
        covered += found.low <= exact_ns <= found.high
    assert covered >= 5  # at 95 % fewer come by chance once in 2,600
