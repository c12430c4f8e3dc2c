# SPDX-License-Identifier: BSD-3-Clause
"""Test collectors inside runs: those of any Linux, played recordings, and tools that die during a trial."""

import html
import os
from pathlib import Path

import pandas as pd
import pytest
from run_helpers import Cli

from pollscope.analysis.collected import deliveries, doubts, means_tables
from pollscope.analysis.report import report_html
from pollscope.base.errors import HostError
from pollscope.collectors.interface import Collector, CollectorOutcome
from pollscope.collectors.polling import PollingCollector
from pollscope.collectors.sources.host import KernelLoad
from pollscope.spec.model import CollectorUse
from pollscope.store.run_folder import read_run
from pollscope.testbeds.collecting import Collection, file_stem

SPEC = """\
format: 1
name: collected
row: S-F5
title: t
parameters: {generator_receives: false, load_pps: 0}
factors: {queues: [1, 2]}
trial: {warmup: 100 ms, window: 500 ms, drain: 0 ms}
repeats: {count: 1}
collectors:
"""
HOST = "  - {name: kernel-load, interval: 100 ms, required: true}\n  - cpu-settings\n  - kernel-log\n"
HEAD = "Socket,Name,Part,IB write,IB read,OB read,OB write,IOTLB Lookup,IOTLB Miss\n"
# Six samples of one part, the tool's own layout; 0.1 s apart when played.
WRITES = range(1000, 7000, 1000)
PCM = "".join(f"{HEAD}Socket0,IIO Stack 1 - PCIe1,Part0,{writes},2,3,4,50,6\n" for writes in WRITES)
COUNTER = '{"interval": 0.1, "cpu": "0", "counter-value": "5.0", "unit": "", "event": "page-faults"}'
SHEBANG = "#!/bin/sh"
DYING_PERF = f"""\
{SHEBANG}
for _ in 1 2 3; do echo '{COUNTER}'; done
echo "perf: the counters are gone" >&2
exit 1
"""


def test_collectors_stop_if_the_other_host_gets_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, for one; here its name is too long."""
    use = CollectorUse.model_validate({"name": "kernel-load", "interval": "100 ms"})
    stopped, first, second = list[Collector](), KernelLoad(), KernelLoad()

    def stop(collector: KernelLoad) -> CollectorOutcome:
        stopped.append(collector)
        return PollingCollector.stop(collector)

    monkeypatch.setattr(KernelLoad, "stop", stop)
    collection = Collection({"dut": [(first, use)], "x" * 300: [(second, use)]}, tmp_path, "trial")
    with pytest.raises(HostError, match="cannot create the folder of recordings: File name too long"):
        collection.start()
    assert stopped == [first]


def test_samples_marks_and_raw_files_are_kept(cli: Cli) -> None:
    run = cli.ran(cli.spec(SPEC + HOST))
    assert run.meta["collectors"]["kernel-load"]["available"] is True
    for trial in run.trials:
        start, window, drain = (phase["t_ns"] for phase in trial["phases"])
        assert (window - start, drain - window) == (100_000_000, 500_000_000)
        table = pd.read_parquet(run.path / trial["samples"])
        assert set(table["source"]) == {"kernel-load", "cpu-settings"}
        load = trial["collectors"]["kernel-load"]
        inside = table[(table["source"] == "kernel-load") & table["t_ns"].between(window, drain - 1)]
        assert load["samples_in_window"] == len(inside)
        # Three files per snapshot, five snapshots in half a second; a busy host may be late for some.
        assert 6 <= inside["t_ns"].nunique() <= 18
        assert 0 < load["cpu_share"] < 1
        assert load["means"]["context_switches"]["value"] > 0
        raw = run.path / "collectors" / file_stem(trial["trial"], 0)
        assert {path.name for path in raw.glob("kernel-load.*")} == {"kernel-load.raw", "kernel-load.pace"}
        assert trial["collectors"]["kernel-log"]["status"] == "ok"


@pytest.mark.thorough
def test_a_spec_without_collectors_stores_none(cli: Cli) -> None:
    run = cli.ran(cli.spec(SPEC.replace("collectors:\n", "")))
    assert "collectors" not in run.meta
    assert not {"collectors", "samples", "phases", "plausibility"} & set(run.trials[0])
    files = {"run.json", "trials.jsonl", "node.log", "results.parquet", "host_states.jsonl"}
    assert {path.name for path in run.path.iterdir()} == files


def test_a_recording_is_played_through_store_rules_and_report(cli: Cli) -> None:
    (cli.folder / "pcm.csv").write_text(PCM)
    played = "  - {name: pcm-iio, interval: 100 ms, replay: pcm.csv, required: true}\n"
    run = cli.ran(cli.spec(SPEC + played))
    for trial in run.trials:
        means = trial["collectors"]["pcm-iio"]["means"]
        # Played from 0 ms on: the samples at 100 to 500 ms are in the window, except one that a busy host may move.
        assert 3000 <= means["dma_write"]["value"] <= 5000
        assert means["dma_write"]["units"] == 1
        table = pd.read_parquet(run.path / trial["samples"])
        assert list(table[table["metric"] == "dma_write"]["value"]) == list(WRITES)
        assert trial["collectors"]["pcm-iio"]["reason"] == "replayed from pcm.csv"
    results = pd.read_parquet(run.path / "results.parquet")
    assert results["metric.pcie_dma_write_bytes_per_s"].between(3000, 5000).all()
    assert list(results["metric.iotlb_miss_share"]) == [6 / 50, 6 / 50]
    assert results["metric.dram_read_bytes_per_s"].isna().all()
    assert results["absent.dram_read_bytes_per_s"].str.contains("no collector of this trial counts it").all()
    page = report_html([run])
    assert "pcm-iio was not read from this host: a recording was played (pcm.csv)." in page
    assert "pcm-iio: means by point" in page


@pytest.mark.thorough
def test_collectors_take_turns_over_the_repeats(cli: Cli) -> None:
    (cli.folder / "pcm.csv").write_text(PCM)
    turns = "{always: [kernel-load], rotate: [{name: pcm-iio, interval: 100 ms, replay: pcm.csv}, cpu-settings]}"
    text = SPEC.replace("collectors:\n", f"collectors: {turns}\n").replace("count: 1", "count: 4")
    run = cli.ran(cli.spec(text))
    assert set(run.meta["collectors"]) == {"kernel-load", "pcm-iio", "cpu-settings"}
    names = {trial["repeat"]: set(trial["collectors"]) for trial in run.trials}
    assert names == {
        0: {"kernel-load", "pcm-iio"},
        1: {"kernel-load", "cpu-settings"},
        2: {"kernel-load", "pcm-iio"},
        3: {"kernel-load", "cpu-settings"},
    }
    results = pd.read_parquet(run.path / "results.parquet")
    counted = results[results["metric.pcie_dma_write_bytes_per_s"].notna()]
    assert sorted(counted["repeat"]) == [0, 0, 2, 2]
    assert {each.name: each.status for each in deliveries(run)}["pcm-iio"] == "ok in 4 trials"


@pytest.mark.thorough
def test_lines_that_were_not_understood_are_in_the_report(cli: Cli) -> None:
    (cli.folder / "pcm.csv").write_text(PCM + "a line of a later version\n")
    run = cli.ran(cli.spec(SPEC + "  - {name: pcm-iio, interval: 100 ms, replay: pcm.csv}\n"))
    assert [trial["collectors"]["pcm-iio"]["left_out"]["count"] for trial in run.trials] == [1, 1]
    said = "pcm-iio printed 2 lines that were left out, first pcm-iio.raw:13: neither header nor row"
    assert said in html.unescape(report_html([run]))


@pytest.mark.thorough
def test_implausible_values_are_stored_and_come_first_in_the_report(cli: Cli) -> None:
    (cli.folder / "pcm.csv").write_text(PCM.replace("50,6\n", "50,600\n"))
    cli("run", cli.spec(SPEC + "  - {name: pcm-iio, interval: 100 ms, replay: pcm.csv}\n"))
    run = cli.only_run()
    findings = [finding for trial in run.trials for finding in trial["plausibility"] if finding["rule"] == "iotlb"]
    assert len(findings) == 2
    assert findings[0]["verdict"] == "impossible"
    assert findings[0]["numbers"]["misses"] == 12 * findings[0]["numbers"]["lookups"]
    assert [(each.rule, each.trials) for each in doubts(run) if each.rule == "iotlb"] == [("iotlb", 2)]
    page = report_html([run])
    assert page.index("Read this first") < page.index("counters: impossible") < page.index(">Verdicts</h2>")


@pytest.fixture
def dying_perf(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    program = cli.folder / "bin" / "perf"
    program.parent.mkdir()
    program.write_text(DYING_PERF)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("required", [True, pytest.param(False, marks=pytest.mark.thorough)])
@pytest.mark.usefixtures("dying_perf")
def test_a_collector_that_dies_fails_a_trial_that_requires_it(cli: Cli, required: bool) -> None:
    perf = "  - {name: perf, required: true}\n" if required else "  - perf\n"
    cli.ends(int(required), "run", cli.spec(SPEC + HOST + perf))
    run = cli.only_run()
    for trial in run.trials:
        assert trial["status"] == ("failed" if required else "ok")
        if required:
            assert trial["reason"].startswith("required collector perf failed: perf ended with status 1")
        assert trial["collectors"]["perf"]["status"] == "failed"
        assert "the counters are gone" in trial["collectors"]["perf"]["reason"]
        assert trial["collectors"]["kernel-load"]["status"] == "ok"
        stem = file_stem(trial["trial"], trial["attempt"])
        assert (run.path / "collectors" / stem / "perf.raw").stat().st_size > 0
    if not required:
        delivery = next(each for each in deliveries(run) if each.name == "perf")
        assert delivery.status == "failed in 2 trials"
        assert "collector failed" in report_html([run])


def test_a_required_collector_that_is_not_there_stops_the_run_at_once(cli: Cli) -> None:
    text = SPEC + "  - {name: pcm-memory, replay: nowhere.csv, required: true}\n"
    done = cli.ends(3, "run", cli.spec(text))
    assert "the required collector pcm-memory cannot work here: no file nowhere.csv" in done.stderr
    assert cli.only_run().trials == []
    assert cli.nodes_alive() == []


@pytest.mark.thorough
def test_an_absent_collector_is_absent_with_its_reason(cli: Cli) -> None:
    run = cli.ran(cli.spec(SPEC + HOST + "  - {name: pcm, replay: nowhere.csv}\n"))
    assert all(trial["collectors"]["pcm"]["status"] == "absent" for trial in run.trials)
    assert "pcm is absent: no file nowhere.csv." in report_html([run])
    assert "pcm" not in [table.collector for table in means_tables(run)]


@pytest.mark.thorough
def test_an_interval_beyond_the_window_is_reported_as_useless(cli: Cli) -> None:
    (cli.folder / "pcm.csv").write_text(PCM)
    cli("run", cli.spec(SPEC + "  - {name: pcm-iio, interval: 1 min, replay: pcm.csv}\n"))
    for trial in cli.only_run().trials:
        assert trial["collectors"]["pcm-iio"]["status"] == "failed"
        assert trial["collectors"]["pcm-iio"]["reason"] == "gave no sample inside the measurement window"


@pytest.mark.thorough
def test_a_lost_node_leaves_no_collector_behind(cli: Cli) -> None:
    cli.faults = {"t1": "die"}
    cli.ends(1, "run", cli.spec(SPEC + HOST), "--set", "failures.tries=1")
    lost, good = cli.only_run().trials
    assert (lost["status"], good["status"]) == ("failed", "ok")
    # The samples until then are kept and marked: no means, no verdicts, and the phase says where it ended.
    assert lost["phases"][-1]["phase"] == "lost"
    assert "drain" not in {phase["phase"] for phase in lost["phases"]}
    assert lost["collectors"]["kernel-load"]["samples"] > 0
    assert lost["collectors"]["kernel-load"]["means"] == {}
    assert "plausibility" not in lost
    table = pd.read_parquet(cli.only_run().path / lost["samples"])
    assert "kernel-load" in set(table["source"])
    assert table["t_ns"].max() <= lost["phases"][-1]["t_ns"]


@pytest.mark.thorough
@pytest.mark.measure
def test_collectors_beside_the_real_node(tmp_path: Path, build_dir: Path) -> None:
    (tmp_path / "pcm.csv").write_text(PCM)
    cli = Cli(tmp_path, build_dir / "pollscope-node")
    text = SPEC.replace("load_pps: 0", "load_pps: 100 kpps") + HOST
    text += "  - {name: dpdk-telemetry, interval: 100 ms}\n  - {name: pcm-iio, interval: 100 ms, replay: pcm.csv}\n"
    cli.ends(0, "run", cli.spec(text))
    run = read_run(cli.run_folders()[0])
    for trial in run.trials:
        names = ["kernel-load", "cpu-settings", "kernel-log", "dpdk-telemetry", "pcm-iio"]
        assert {name: each["status"] for name, each in trial["collectors"].items()} == dict.fromkeys(names, "ok")
        # All ports are counted: the DUT receives and sends the generator's packets; no core receives them there.
        telemetry = trial["collectors"]["dpdk-telemetry"]["means"]
        sent_pps = trial["result"]["gen"]["lcores"][0]["sent"] / 0.5
        assert telemetry["nic.rx_packets"]["value"] == pytest.approx(sent_pps, rel=0.3)
        assert telemetry["nic.tx_packets"]["value"] == pytest.approx(2 * sent_pps, rel=0.3)
