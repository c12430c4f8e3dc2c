# SPDX-License-Identifier: BSD-3-Clause
"""Runs on the real node: from a spec to a complete run folder, also after SIGKILL, and without hugepages."""

import json
import random
import re
import signal
import time
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from run_helpers import Cli, last_attempts

from pollscope.store.results_table import current_table
from pollscope.store.run_folder import read_run

SHORT = """\
format: 1
name: short
row: S-F5
title: t
parameters: {generator_receives: false}
factors:
  queues: [1, 8]
  load_of_max: [0 %, 50 %, 100 %]
trial: {warmup: 10 ms, window: 50 ms, drain: 20 ms}
repeats: {count: 3}
maximum: {repeats: 2}
baseline: {point: {queues: 1, load_of_max: 50 %}, metric: useful_share, every: 9}
"""
NO_HUGEPAGES = "kind: loopback\nhugepages: never\n"


@pytest.fixture
def cli(tmp_path: Path, build_dir: Path) -> Cli:
    (tmp_path / "nodes").touch()
    return Cli(tmp_path, build_dir / "pollscope-node")


@pytest.mark.measure
def test_a_run_measures_what_the_spec_says(cli: Cli) -> None:
    planned = json.loads(cli("plan", cli.spec(SHORT), "--json").stdout)
    # Blocks that a change of the host state asks for are not planned.
    run = cli.ran(cli.spec(SHORT), "--set", "noise.extra_blocks=0")
    assert run.meta["plan"] == [trial["trial"] for trial in planned["trials"]]
    assert run.meta["node_hello"]["protocol"] == 3
    assert {cpu["cpu"] for cpu in run.meta["noise"]} >= {0} or len(run.meta["noise"]) == 2
    for record in last_attempts(run).values():
        lcore = record["result"]["dut"]["lcores"][0]
        window_s = record["result"]["window"]
        assert abs((window_s["end_tsc"] - window_s["start_tsc"]) / window_s["tsc_hz"] - 0.05) < 1e-3
        if record["kind"] == "measure":
            assert (lcore["rx_packets"] == 0) == (record["factors"]["load_of_max"] == 0)
        assert record["calibration"]["stamp_cycles"]["median"] > 0
        assert set(record["host"]) - {"swapped_pages", "throttle_events", "kernel_errors", "ran_instead"} == {
            "steal_ticks",
            "context_switches",
            "interrupts",
            "softirqs",
            "waits_ns",
        }
        assert set(record["host"]["waits_ns"]) == {"1", "2"}


LATENCY = """\
format: 1
name: latency
row: S-F9
title: t
parameters: {workload: io, load_pps: 50 kpps}
trial: {warmup: 10 ms, window: 200 ms, drain: 50 ms}
repeats: {count: 2}
"""


@pytest.mark.thorough
@pytest.mark.measure  # high percentiles want nearly all packets that were asked for
def test_stored_histograms_are_read_by_the_public_package(
    cli: Cli, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Counts and percentiles of the file, read without any code of ours, are those of the results table."""
    cli.ends(0, "run", cli.spec(LATENCY))
    (folder,) = cli.run_folders()
    table = current_table(read_run(folder)).set_index("trial")
    for line in (folder / "trials.jsonl").read_text().splitlines():
        record = json.loads(line)
        generator = record["result"]["gen"]["lcores"][0]
        for start, prefix in (("from_intended", "latency"), ("from_sent", "latency_sent")):
            stored = generator["latency_ns"][start]
            public = HdrHistogram.decode(stored["hdr"])
            assert public.get_total_count() == stored["total"] > 0
            for percent, name in ((50, "p50"), (90, "p90"), (99, "p99"), (99.9, "p999")):
                ours = table.loc[record["trial"], f"metric.{prefix}_{name}_ns"]
                assert ours == min(public.get_value_at_percentile(percent), stored["max"])
            assert table.loc[record["trial"], f"metric.{prefix}_mean_ns"] == stored["sum"] / stored["total"]
            assert 10 < table.loc[record["trial"], "metric.latency_floor_ns"] <= stored["max"]
            assert public.get_mean_value() == pytest.approx(stored["sum"] / stored["total"], rel=1e-3)
    # This is the documented way.
    (block,) = re.findall(r"```python\n(.*?)```", (checkout / "docs/internals/store-format.md").read_text(), re.DOTALL)
    monkeypatch.chdir(folder)
    capsys.readouterr()
    exec(block, {})
    count, percentile = map(int, capsys.readouterr().out.split())
    assert count > 0
    assert percentile > 100


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.thorough)])
def test_sigkill_at_any_moment_is_resumed(cli: Cli, seed: int) -> None:
    process = cli.start("run", cli.spec(SHORT))
    time.sleep(random.Random(seed).uniform(1.5, 4.5))
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    for folder in cli.run_folders():
        cli.ran("--resume", folder)


@pytest.mark.thorough
def test_ctrl_c_leaves_a_run_that_can_be_resumed(cli: Cli) -> None:
    spec = cli.spec(SHORT.replace("queues: [1, 8]", "queues: [1]"))
    process = cli.start("run", spec, "--set", "trial.window=200 ms", "--set", "repeats.count=1")
    while not any(path.stat().st_size for path in cli.folder.glob("results/*/*/trials.jsonl")):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.strip().splitlines()[-1].startswith("pollscope: interrupted")
    assert cli.only_run().meta["status"] == "interrupted"
    cli.ran("--resume", cli.run_folders()[0])
    lines = (cli.run_folders()[0] / "trials.jsonl").read_bytes()
    cli.ends(0, "run", "--resume", cli.run_folders()[0])
    assert (cli.run_folders()[0] / "trials.jsonl").read_bytes() == lines, "a finished run has nothing to resume"


def test_without_hugepages_it_runs_and_says_what_that_costs(cli: Cli) -> None:
    testbed = cli.folder / "small-pages.yaml"
    testbed.write_text(NO_HUGEPAGES)
    few = ("--set", "repeats.count=1", "--set", "factors.queues=[1]")
    run = cli.ran(cli.spec(SHORT), "--testbed", testbed, *few)
    assert run.meta["node_hello"]["hugepages"] is False
    assert any(warning.startswith("no hugepages: 4 KiB pages add TLB misses") for warning in run.meta["warnings"])


@pytest.mark.measure
def test_swap_and_infinite_feed_start_another_node(cli: Cli) -> None:
    text = SHORT.replace("load_of_max: [0 %, 50 %, 100 %]", "dma: [copy, swap]\n  feed: [wire, infinite]")
    text = text.replace("generator_receives: false", "generator_receives: false, saturate: true")
    text = "\n".join(line for line in text.splitlines() if not line.startswith("baseline"))
    cli.ends(0, "run", cli.spec(text), "--set", "repeats.count=1", "--set", "noise.extra_blocks=0")
    trials = last_attempts(cli.only_run()).values()
    assert len(trials) == 8
    assert all(record["result"]["dut"]["lcores"][0]["rx_packets"] > 0 for record in trials)


@pytest.mark.thorough
def test_poll_rate_covers_1_to_1024_queues(cli: Cli) -> None:
    short = ("trial.window=20 ms", "trial.warmup=5 ms", "repeats.count=1", "factors.queues=[1, 8, 512, 1024]")
    cli.ends(0, "run", "S-F8", "--quick", *[word for each in short for word in ("--set", each)])
    levels = [record["factors"] for record in cli.only_run().trials if record["kind"] == "measure"]
    assert {(level["queues"], level["rx_desc"]) for level in levels} == {
        (queues, descriptors) for queues in (1, 8, 512, 1024) for descriptors in (64, 512)
    }


@pytest.mark.thorough
def test_a_claim_that_does_not_hold_fails_the_sanity_run(cli: Cli) -> None:
    # A DUT that drops everything sends nothing back.
    wanted = ("parameters.workload=drop", "factors.load_pps=[20 kpps]", "repeats.count=2", "trial.window=100 ms")
    done = cli.ends(1, "run", "SANITY", *[word for each in wanted for word in ("--set", each)])
    assert "pollscope: SANITY.dut-sends: disagrees" in done.stderr
