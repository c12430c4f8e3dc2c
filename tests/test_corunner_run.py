# SPDX-License-Identifier: BSD-3-Clause
"""Check co-runners of the DUT: their CPUs, the record of runs with one, and that none stays behind."""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_helpers import Cli, assert_complete
from test_corunner_protocol import children, gone

from pollscope.base.errors import HostError
from pollscope.host.corunner_placement import CorunnerCpus, place_corunners
from pollscope.host.cpus import Cpu
from pollscope.spec.model import Parameters
from pollscope.testbeds import corunner as beside

# Two packages of four cores with two threads each; threads of core n are CPUs n and n + 8.
# One last-level cache per package.
SERVER = sorted(
    Cpu(core // 4, core // 4, core % 4, core + 8 * thread, llc=core // 4) for core in range(8) for thread in range(2)
)
SMALL = [Cpu(0, 0, 0, 0), Cpu(0, 0, 1, 1)]
ALONE = """\
format: 1
name: corunner
row: S-F7a
title: t
parameters: {corunner: matmul, dut_core: idle, feed: none, saturate: true}
trial: {warmup: 1 ms, window: 30 ms}
repeats: {count: 3}
"""


def wanted(**levels: Any) -> Parameters:
    return Parameters(corunner="matmul").model_copy(update=levels)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ({}, CorunnerCpus(corunner=14)),  # highest number on the DUT's node, not on the core of DUT or generator
        ({"corunner_place": "smt-sibling"}, CorunnerCpus(corunner=15)),
        ({"corunner_place": "same-llc"}, CorunnerCpus(corunner=13)),
        ({"corunner_place": "dut-cpu"}, CorunnerCpus(corunner=7)),
        ({"dut_core": "stress-ng"}, CorunnerCpus(corunner=13, occupant=7)),
        ({"corunner": "none", "spinning_cores": 1}, CorunnerCpus(spinning=(13,))),
        ({"spinning_cores": 3}, CorunnerCpus(corunner=13, spinning=(12, 11, 10))),
        ({"spinning_cores": 3, "dut_core": "idle"}, CorunnerCpus(corunner=13, spinning=(15, 12, 11))),
    ],
)
def test_places_on_a_server(levels: dict[str, Any], expected: CorunnerCpus) -> None:
    others = [] if not levels else [6]
    assert place_corunners(SERVER, wanted(**levels), [7], others) == expected


@pytest.mark.parametrize(
    ("levels", "others", "reason"),
    [
        ({"corunner_place": "smt-sibling"}, [], "needs an SMT sibling of the DUT core: that of CPU 1 does not exist"),
        ({}, [0], "needs a core of its own beside 1 for the DUT and 1 for the generator"),
        ({"spinning_cores": 1}, [], "needs 1 cores to spin on beside everything else; this host has 0 to give"),
    ],
)
def test_points_that_two_cpus_cannot_host_are_left_out(levels: dict[str, Any], others: list[int], reason: str) -> None:
    with pytest.raises(HostError, match=reason):
        place_corunners(SMALL, wanted(**levels), [1], others)


def test_two_cpus_host_dut_and_corunner_without_a_generator() -> None:
    assert place_corunners(SMALL, wanted(), [1], []) == CorunnerCpus(corunner=0)
    assert place_corunners(SMALL, wanted(dut_core="idle", spinning_cores=1), [1], []) == CorunnerCpus(0, None, (1,))


@pytest.fixture
def cli(tmp_path: Path, build_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv("POLLSCOPE_CORUNNER", str(build_dir / "pollscope-corunner"))
    return Cli(tmp_path)


def corunner_of(runner: int, limit_s: float = 60) -> int:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        for pid in children(runner):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # another child, and it has ended
                if Path(f"/proc/{pid}/comm").read_text().startswith("pollscope-corun"):
                    return pid
        time.sleep(0.02)
    raise AssertionError("no co-runner was started")


def test_a_corunner_alone_is_measured_over_its_own_window(cli: Cli) -> None:
    done = cli("run", cli.spec(ALONE))
    assert done.returncode == 0, done.stderr + done.stdout
    run = cli.only_run()
    assert_complete(run)
    table = pd.read_parquet(run.path / "results.parquet")
    assert (table["metric.corunner_rate_hz"] > 0).all()
    assert (table["metric.corunner_rate_running_hz"] >= table["metric.corunner_rate_hz"]).all()
    assert table["metric.rx_pps"].isna().all()
    assert run.trials[0]["calibration"] == {"absent": "dut_core is idle: the DUT did not run"}


def test_a_lost_corunner_fails_its_trial_in_one_line_and_the_next_gets_another(cli: Cli) -> None:
    spec = cli.spec(ALONE.replace("window: 30 ms", "window: 1 s"))
    process = cli.start("run", spec, "--set", "failures.tries=1", "--set", "repeats.count=2")
    first = corunner_of(process.pid)
    time.sleep(0.3)
    os.kill(first, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1, out + err
    trials = cli.only_run().trials
    failed = [trial for trial in trials if trial["status"] == "failed"]
    assert [trial["reason"] for trial in failed] == ["the co-runner was ended by SIGKILL"]
    assert len(trials) == 2


@pytest.mark.parametrize(
    "how",
    [signal.SIGKILL, *(pytest.param(each, marks=pytest.mark.thorough) for each in (signal.SIGINT, signal.SIGTERM))],
)
def test_no_corunner_outlives_the_runner(cli: Cli, how: signal.Signals) -> None:
    process = cli.start("run", cli.spec(ALONE.replace("window: 30 ms", "window: 20 s")))
    corunner = corunner_of(process.pid)
    process.send_signal(how)
    process.communicate(timeout=120)
    assert process.returncode == (-how if how is signal.SIGKILL else 130)
    assert gone(corunner)


@pytest.mark.parametrize(
    ("autogroup", "levels", "reason"),
    [
        ("0", {}, None),
        ("1", {}, "this kernel divides a CPU among sessions first"),
        ("1", {"corunner_place": "other-core"}, None),
        (None, {}, None),  # a kernel without them
        ("0", {"corunner": "stress-ng"}, "stress-ng does not wait until a CPU is idle"),
    ],
)
def test_work_while_the_dut_sleeps_needs_a_scheduler_that_sees_both(
    autogroup: str | None, levels: dict[str, str], reason: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(beside, "AUTOGROUP", tmp_path / "autogroup")
    monkeypatch.setattr(beside, "corunner_program", lambda: tmp_path)
    if autogroup is not None:
        (tmp_path / "autogroup").write_text(f"{autogroup}\n")
    params = wanted(**{"corunner_place": "dut-cpu", **levels})
    cpus = place_corunners(SMALL, params, [1], [])
    refusal = beside.corunner_refusal(params, lambda: cpus)
    assert refusal is None if reason is None else reason in str(refusal)
    (worker,) = beside.workers(params, cpus)
    assert (worker["cpu"], worker.get("scheduling")) == ((0, None) if "other-core" in levels.values() else (1, "idle"))


def test_points_that_do_not_fit_are_left_out_with_the_reason(cli: Cli) -> None:
    text = ALONE.replace("repeats", "factors: {spinning_cores: [0, 400]}\nrepeats")
    done = cli("plan", cli.spec(text))
    assert done.returncode == 0, done.stderr
    assert "left out  spinning_cores=400: needs 400 cores to spin on beside everything else" in done.stdout


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("saturate: true", "load_pps: 0"), "feed: none offers no packet, so it needs `saturate: true`"),
        (("feed: none, saturate: true", "load_of_max: 50 %"), "without the DUT there is no maximum"),
        (("matmul", "matmult"), "did you mean 'matmul'?"),
        (("dut_core: idle", "corunner_footprint: 32"), "corunner_footprint"),
        (("dut_core: idle", "corunner_place: beside"), "allowed: smt-sibling, other-core, same-llc, dut-cpu"),
    ],
)
def test_bad_corunner_is_refused_with_line_and_key(cli: Cli, change: tuple[str, str], error: str) -> None:
    done = cli("validate", cli.spec(ALONE.replace(*change)))
    assert done.returncode == 2
    assert "spec.yaml:5" in done.stderr
    assert error in done.stderr


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_dut_and_corunner_are_measured_over_one_window(cli: Cli, build_dir: Path) -> None:
    cli.node = build_dir / "pollscope-node"
    text = ALONE.replace("dut_core: idle, feed: none", "feed: infinite").replace("count: 3", "count: 1")
    done = cli("run", cli.spec(text), "--set", "noise.extra_blocks=0")
    assert done.returncode == 0, done.stderr + done.stdout
    trial = cli.only_run().trials[-1]  # noise may have asked for more
    ours, nodes = trial["corunner"]["result"]["window"], trial["result"]["window"]
    assert (ours["start_tsc"], ours["end_tsc"]) == (nodes["start_tsc"], nodes["end_tsc"])
    assert ours["tsc_hz"] == pytest.approx(nodes["tsc_hz"], rel=1e-3)
    table = pd.read_parquet(cli.only_run().path / "results.parquet")
    assert table["metric.rx_pps"][0] > 0
    assert table["metric.corunner_rate_hz"][0] > 0
