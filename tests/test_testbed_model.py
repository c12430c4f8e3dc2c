# SPDX-License-Identifier: BSD-3-Clause
"""Test the testbed `model`: specs run on it, its numbers are marked everywhere, unknown costs leave points out."""

import copy
import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from run_helpers import Cli, assert_complete

from pollscope.models import cold_queues, points
from pollscope.models.costs import Cost, Costs, SentCost
from pollscope.models.hyperplane import TASKS, Notification, Shape, chip, peak_pps
from pollscope.models.simulate import simulate
from pollscope.spec.model import Parameters
from pollscope.store.run_folder import read_run

CHECKOUT = Path(__file__).resolve().parent.parent
GIVEN: dict[str, Any] = {"origin": "assumed", "source": "a test"}


def cost(value: float) -> dict[str, Any]:
    return {"value": value, **GIVEN}


COSTS: dict[str, Any] = {
    "empty_poll_ns": {"by_queues": {"1": 8, "64": 4}, **GIVEN},
    "busy_poll_ns": cost(40),
    "packet_ns": cost(20),
    "path_ns": cost(500),
    "generator_pps": cost(60e6),
}
RINGS = {"dispatch_ns": 10, "empty_ring_poll_ns": 5, "ring_busy_poll_ns": 15, "ring_ns": 20, "ring_packet_ns": 2}
FILE: dict[str, Any] = {
    "kind": "model",
    "tsc_hz": 2_000_000_000,
    "workloads": {"io": COSTS},
    "holds_for": {"frame": 64},
}


def costing(**costs: Any) -> dict[str, Any]:
    """Return FILE with these costs besides COSTS: values, or whole entries."""
    own = {name: each if isinstance(each, dict) else cost(each) for name, each in costs.items()}
    return {**FILE, "workloads": {"io": {**COSTS, **own}}}


def spec_of(parameters: str, *factors: str) -> str:
    return f"""\
format: 1
name: modelled
row: S-F9
title: t
testbeds: [model]
parameters: {{workload: io, {parameters}}}
factors: {{{", ".join(factors)}}}
trial: {{warmup: 1 ms, window: 20 ms, drain: 0 ms}}
repeats: {{count: 3}}
"""


SPEC = spec_of("load_pps: 1 Mpps, arrivals: poisson", "queues: [1, 8, 64]")
THEORY = " predicted by cyclic polling (Takagi)"


def _pass_for_measured(folder: Path) -> Path:
    """Return the folder of a run whose trials no longer say that they were modelled."""
    lines = (folder / "trials.jsonl").read_text().replace('"modelled":true', '"modelled":false')
    # A node counts lost reservations, without which a mean busy poll is not known.
    (folder / "trials.jsonl").write_text(re.sub(r'"race_lost":\{[^}]*\}', '"race_lost":0', lines))
    (folder / "results.parquet").unlink()
    return folder


class ModelCli(Cli):
    """There is no node program; the file of the testbed is of the test."""

    def testbed(self, content: dict[str, Any]) -> Path:
        path = self.folder / "machine.yaml"
        path.write_text(json.dumps(content))
        return path

    def table(self, *settings: str, spec: str = SPEC, file: dict[str, Any] = FILE) -> pd.DataFrame:
        words = [word for setting in settings for word in ("--set", setting)]
        done = self("run", self.spec(spec), "--testbed", self.testbed(file), *words)
        assert done.returncode == 0, done.stderr
        run = self.only_run()
        assert_complete(run)
        return pd.read_parquet(run.path / "results.parquet")

    def calibrated(self, spec: str, **costs: Any) -> dict[str, Any]:
        """Return the file that `calibrate` writes of a run on the model whose trials pass for measured ones."""
        self.table(spec=spec, file=costing(**costs))
        done = self("calibrate", _pass_for_measured(self.run_folders()[0]), "--out", "again.yaml")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = YAML(typ="safe").load((self.folder / "again.yaml").read_text())
        return found


@pytest.fixture
def cli(tmp_path: Path) -> ModelCli:
    return ModelCli(tmp_path, node=tmp_path / "there-is-no-node")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModelCli, pd.DataFrame]:
    """Return a command line in whose folder SPEC ran with the costs of FILE, and the table of its results."""
    folder = tmp_path_factory.mktemp("ran")
    cli = ModelCli(folder, node=folder / "there-is-no-node")
    return cli, cli.table()


def test_results_follow_from_the_costs(ran: tuple[ModelCli, pd.DataFrame]) -> None:
    table = ran[1]
    assert table["modelled"].all()
    mean = table.groupby("factor.queues")["metric.latency_sent_mean_ns"].mean()
    # Half a sweep, a busy poll and a packet at light load; a sweep of 64 queues takes 256 ns. Queueing adds some ns.
    for queues, sweep_ns in ((1, 8), (8, 8 * 6), (64, 256)):
        assert mean[queues] == pytest.approx(500 + sweep_ns / 2 + 60, abs=0.1 * (sweep_ns / 2 + 60)), queues
    busy = table[table["factor.queues"] == 1]
    assert busy["metric.tax_share"].mean() == pytest.approx(1 - 0.06, abs=0.003)
    assert busy["metric.useful_share"].mean() == pytest.approx(0.06, abs=0.003)
    assert table["metric.rx_pps"].mean() == pytest.approx(1e6, rel=0.02)
    assert (table["metric.loss_share"] == 0).all()
    for absent in ("ipc", "reordered_share", "involuntary_switches", "iteration_cycles_p50", "steal_ticks"):
        assert table[f"metric.{absent}"].isna().all()


def test_sizes_without_costs_are_reported(cli: ModelCli) -> None:
    """`holds_for` refuses other sizes; without it 1518 B cost what 64 B do, and plan, run and report say so."""
    file = cli.testbed(FILE | {"holds_for": {}})
    said = "the costs in machine.yaml know no frame sizes: at 1518 B a packet costs what it costs at 64 B"
    spec, size = cli.spec(SPEC), ("--set", "parameters.frame=1518B")
    assert said in cli("plan", spec, "--testbed", file, *size).stderr
    assert "know no frame sizes" not in cli("plan", spec, "--testbed", file).stderr
    done = cli("run", spec, "--testbed", file, *size)
    assert done.returncode == 0, done.stderr
    assert [text for text in cli.only_run().meta["warnings"] if text == said]


def test_a_plan_of_many_trials_says_what_room_its_run_takes(cli: ModelCli) -> None:
    place = ("--testbed", cli.testbed(FILE))
    many = cli("plan", cli.spec(SPEC), *place, "--set", "repeats.count=1000", "--set", "factors.burst=[1, 2, 4, 8]")
    assert "12000 trials, " in many.stdout
    assert "room: about 263 MiB on the disk, and 1.56 GiB of memory to report on it" in many.stdout
    assert "room:" not in cli("plan", cli.spec(SPEC), *place).stdout


@pytest.mark.thorough
def test_the_same_trial_gives_the_same_bits(ran: tuple[ModelCli, pd.DataFrame]) -> None:
    cli, first = ran
    again = cli("run", cli.spec(SPEC), "--testbed", cli.testbed(FILE), "--out", "again")
    assert again.returncode == 0, again.stderr
    assert "(modelled, not measured)" in again.stdout
    second = pd.read_parquet(next((cli.folder / "again").glob("*/*")) / "results.parquet")
    metrics = [name for name in map(str, first) if name.startswith("metric.")]
    assert first[["trial", *metrics]].equals(second[["trial", *metrics]])
    assert first["metric.latency_mean_ns"].nunique() == 9  # each repeat is a sample of its own


def test_modelled_numbers_are_marked_wherever_they_are_shown(ran: tuple[ModelCli, pd.DataFrame]) -> None:
    cli, _ = ran
    (folder,) = cli.run_folders()
    assert cli("report", folder, "--out", "page.html").returncode == 0
    page = (cli.folder / "page.html").read_text()
    assert "computed by a simulation; nothing was measured in them" in page
    assert "MODELLED: computed by a simulation, not measured" in page
    assert cli("figures", folder, "--out", "drawn.svg").returncode == 0
    assert "MODELLED" in (cli.folder / "drawn.svg").read_text()
    drawn = pd.read_csv(cli.folder / "drawn.csv").set_index("queues")
    found, theory = (drawn[drawn["metric"] == f"latency_sent_mean_ns{by}"]["value"] for by in ("", THEORY))
    assert (theory - found).median() == pytest.approx(0, abs=1e-6)  # the fitted part of the latency
    for queues in (1, 8, 64):
        assert theory[queues] == pytest.approx(found[queues], abs=0.05 * (found[queues] - 500))
    verdicts = cli("claims", folder)
    assert "modelled: computed by a simulation; nothing was measured" in verdicts.stdout
    assert "AMD" not in verdicts.stdout
    plain = json.loads(cli("claims", folder, "--json").stdout)
    assert plain
    assert all(verdict["modelled"] for verdict in plain)
    assert "(modelled, not measured)" in cli("explain", folder).stdout
    assert json.loads(cli("explain", folder, "--json").stdout)[0]["modelled"] is True
    meta = cli.only_run().meta
    assert meta["testbed"]["model"]["workloads"]["io"]["busy_poll_ns"]["origin"] == "assumed"
    assert meta["host"] == {"absent": "nothing was measured on a host"}


@pytest.mark.thorough
def test_a_row_that_the_costs_come_from_is_consistent_by_construction(cli: ModelCli) -> None:
    made_from = {"runs": ["R"], "rows": {"S-F9": "R"}}
    cli.table(file={**FILE, "made_from": made_from})
    (folder,) = cli.run_folders()
    plain = json.loads(cli("claims", folder, "--json").stdout)
    kinds = {verdict["verdict"] for verdict in plain}
    assert "consistent by construction" in kinds
    assert "agrees" not in kinds
    assert cli("report", folder, "--out", "page.html").returncode == 0
    assert "consistent by construction" in (cli.folder / "page.html").read_text()


def test_saturation_and_shares_of_a_maximum(cli: ModelCli) -> None:
    spec = spec_of("generator_receives: false", "queues: [1]", "load_of_max: [0 %, 50 %, 100 %]")
    table = cli.table(spec=spec)
    rates = table[table["kind"] == "measure"].groupby("factor.load_of_max")["metric.rx_pps"].mean()
    most_pps = 32 / (40 + 32 * 20) * 1e9
    assert rates.to_dict() == pytest.approx({0.0: 0.0, 0.5: most_pps / 2, 1.0: most_pps}, rel=0.01)
    assert cli.only_run().meta["maxima"]["queues=1"]["generator_bound"] is False


@pytest.mark.thorough
def test_a_maximum_is_searched_for_in_a_model_too(cli: ModelCli) -> None:
    """A core takes bursts of 32 in 40 + 32 x 20 ns, 47.06 Mpps; just below that its queue may fill for a while."""
    spec = spec_of("load_of_max: 50 %, arrivals: poisson", "queues: [1]")
    search = "maximum: {method: mlrsearch, repeats: 1, loss_ratios: [0.5 %], width: 5 %, duration_sum: 60 ms}\n"
    table = cli.table(spec=spec + search)
    (found,) = [each for each in read_run(cli.run_folders()[0]).trials if each["kind"] == "maximum"]
    assert found["search"]["outcome"] == "found"
    assert found["search"]["goals"][0]["throughput_pps"] == pytest.approx(46e6, rel=0.06)
    measured = table[table["kind"] == "measure"]["metric.offered_pps"]
    assert measured.mean() == pytest.approx(found["search"]["goals"][0]["throughput_pps"] / 2, rel=0.02)


@pytest.mark.thorough
def test_dispatchers_and_a_shared_ring(cli: ModelCli) -> None:
    spec = spec_of(
        "cores: 4, dispatchers: 4, queues: 4, load_pps: 40 Mpps, arrivals: poisson",
        "organisation: [scale-out, scale-up]",
    )
    table = cli.table(spec=spec, file=costing(**RINGS))
    latency = table.groupby("factor.organisation")["metric.latency_mean_ns"].mean()
    assert latency["scale-out"] > 500
    assert latency["scale-up"] != latency["scale-out"]
    assert table["metric.ring_full_share"].notna().all()


def test_cores_at_one_queue_on_the_machine_of_corec(cli: ModelCli) -> None:
    """Table 2 as far as it was fitted, and where the NIC ends; its lost reservations are not given."""
    small = ("trial.window=2 ms", "trial.warmup=1 ms", "repeats.count=6", "factors.organisation=[scale-out, corec]")
    words = [word for setting in small for word in ("--set", setting)]
    done = cli("run", "C-T2", "--testbed", "model-xeon-4110", *words)
    assert done.returncode == 0, done.stderr
    table = pd.read_parquet(cli.only_run().path / "results.parquet")
    rates = table[table["factor.organisation"] == "corec"].groupby("factor.cores")["metric.tx_pps"].mean()
    assert rates.to_dict() == pytest.approx({1: 17.68e6, 2: 26.4e6, 3: 37.66e6, 4: 37.66e6}, rel=0.01)
    assert table[table["factor.cores"] > 1]["metric.claim_lost_fraction"].isna().all()
    verdicts = {
        each["claim"]: each["verdict"] for each in json.loads(cli("claims", cli.run_folders()[0], "--json").stdout)
    }
    assert verdicts["C-T2.two-cores-over-one"] == "consistent by construction"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("knobs={governor: performance}", "no host with knobs: governor"),
        ("parameters.workload=l3fwd-lpm", "machine.yaml has no costs of workload l3fwd-lpm"),
        ("parameters.frame=128 B", "the costs in machine.yaml hold for frame 64, not for 128"),
        ("parameters.organisation=trylock", "not the contention of trylock"),
        ("factors={organisation: [rebalanced]}", "does not move RETA entries"),
        ("parameters.notification=adaptive", "the model's cores poll (spin) or are notified (qwait), not adaptive"),
        ("parameters.rx_buffers=shared", "the model's buffers lie in descriptors (rx_buffers: posted)"),
        ("parameters={workload: io, load_pps: 1 Mpps, organisation: locked, cores: 2}", "no shared_empty_poll_ns"),
        ("parameters={workload: io, load_pps: 1 Mpps, frame: imix}", "machine.yaml hold for frame 64, not for imix"),
        ("parameters.organisation=scale-up", "the file has no dispatch_ns and no empty_ring_poll_ns"),
        (
            "parameters={workload: io, load_pps: 1 Mpps, organisation: corec, cores: 2}",
            "the file has no shared_packet_ns",
        ),
        ("parameters.spinning_cores=1", "no neighbour but one that only computes"),
        ("parameters.corunner=memory-stream", "no neighbour but one that only computes"),
        ("parameters.corunner=matmul", "the file has no useful_ipc and no polling_ipc and no issue_width"),
        ("parameters={workload: io, load_of_line: 10 %}", "the model has no line"),
        ("factors.queues=[128]", "empty_poll_ns is known for 1 to 64 queues per core, not for 128"),
        ("parameters={workload: tx, saturate: true}", "workload tx only sends"),
    ],
)
def test_points_without_costs_are_left_out(cli: ModelCli, setting: str, reason: str) -> None:
    done = cli("run", cli.spec(SPEC), "--testbed", cli.testbed(FILE), "--set", setting)
    assert done.returncode in (2, 3), done.stdout
    assert reason in done.stderr.splitlines()[-1]


def test_a_mix_of_frames_has_costs_of_its_own_or_none(cli: ModelCli) -> None:
    mixed = ("plan", cli.spec(SPEC), "--set", "parameters={workload: io, load_pps: 1 Mpps, frame: imix}", "--testbed")
    refused = cli(*mixed, cli.testbed({**FILE, "holds_for": {}}))
    assert "machine.yaml hold for one frame size, and imix is a mix" in refused.stdout + refused.stderr
    known = cli(*mixed, cli.testbed({**FILE, "holds_for": {"frame": [64, "imix"]}}))
    assert known.returncode == 0, known.stderr
    assert "left out" not in known.stdout
    both = cli("plan", cli.spec(SPEC), "--testbed", cli.testbed({**FILE, "holds_for": {"frame": [96, 128]}}))
    assert "hold for frame 96, 128, not for 64" in both.stdout + both.stderr


@pytest.mark.thorough
def test_without_what_the_path_takes_there_is_no_latency_but_all_else(cli: ModelCli) -> None:
    file = copy.deepcopy(FILE)
    del file["workloads"]["io"]["path_ns"]
    refused = cli("plan", cli.spec(SPEC), "--testbed", cli.testbed(file))
    assert "the file has no path_ns" in refused.stdout + refused.stderr
    table = cli.table("parameters.generator_receives=false", file=file)
    assert table["metric.tax_share"].notna().all()
    assert table["metric.latency_mean_ns"].isna().all()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"tsc_hz": 0}, "tsc_hz"),
        ({"workloads": {}}, "workloads"),
        ({"workloads": {"chess": COSTS}}, "chess is not a workload"),
        ({"holds_for": {"colour": 1}}, "colour is not a parameter of a spec"),
        (costing(busy_poll_ns={"value": -1, **GIVEN}), "workloads.io.busy_poll_ns.value"),
        (costing(busy_poll_ns={"value": 1, "origin": "guessed", "source": "x"}), "busy_poll_ns.origin"),
        (costing(busy_poll_ns={"value": 1, "origin": "stated"}), "workloads.io.busy_poll_ns: is missing"),
        (costing(busy_poll_ns=GIVEN), "needs either `value` or `by_queues`"),
        (costing(busy_poll_ns={**cost(1), "interval": [2, 1]}), "begins with its lower end"),
        (costing(busy_poll_ns={**cost(1), "intervals": {"1": [1, 2]}}), "interval goes with"),
        (costing(empty_poll_ns=0), "empty_poll_ns is 0"),
        ({"workloads": {"io": {"empty_poll_ns": cost(1), "busy_poll_ns": cost(1)}}}, "workloads.io: is missing"),
        ({"colour": "red"}, "colour: unknown key"),
    ],
)
def test_a_bad_file_is_one_line(cli: ModelCli, keys: dict[str, Any], said: str) -> None:
    done = cli("testbed", "status", cli.testbed({**FILE, **keys}))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "machine.yaml" in line
    assert said in line


known = st.dictionaries(st.integers(1, 1024), st.floats(0, 1e6), min_size=1, max_size=8)


@given(known, st.integers(1, 1024))
def test_a_cost_between_two_known_ones_lies_between_them(by_queues: dict[int, float], queues: int) -> None:
    found = Cost(by_queues=by_queues, origin="assumed", source="a test")
    if not min(by_queues) <= queues <= max(by_queues):
        with pytest.raises(ValueError, match="is known for"):
            found.at(queues)
        return
    below = by_queues[max(number for number in by_queues if number <= queues)]
    above = by_queues[min(number for number in by_queues if number >= queues)]
    slack = 1e-9 * max(below, above)
    assert min(below, above) - slack <= found.at(queues) <= max(below, above) + slack


@pytest.mark.thorough
def test_costs_come_from_a_measured_run(cli: ModelCli) -> None:
    measured = CHECKOUT / "data/runs/s-f5-polling-tax"
    done = cli("calibrate", measured, "--out", "here.yaml")
    assert done.returncode == 0, done.stderr
    file = YAML(typ="safe").load((cli.folder / "here.yaml").read_text())
    costs = file["workloads"]["l3fwd-lpm"]
    assert {each["origin"] for each in costs.values()} == {"measured"}
    assert set(costs["empty_poll_ns"]["by_queues"]) == {1, 8}
    for each in ("empty_poll_ns", "busy_poll_ns", "packet_ns"):
        for queues, (low, high) in costs[each]["intervals"].items():
            assert low <= costs[each]["by_queues"][queues] <= high
    # At full load on eight queues half of the due packets were not sent (docs/models.md).
    full_ns = costs["turn_ns"]["by_queues"][8] + 32 * costs["sent_ns"]["by_queues"][8]
    assert 32e9 / full_ns == pytest.approx(18.1e6, rel=0.01)
    assert 32e9 / full_ns < costs["generator_pps"]["by_queues"][8] / 2
    low, high = costs["busy_poll_ns"]["intervals"][1]
    assert high > low
    assert f"[{low:g} to {high:g}]" in done.stdout
    assert 1 < costs["empty_poll_ns"]["by_queues"][1] < 100
    assert set(file["made_from"]["rows"]) == {"S-F5"}
    # The model's error is the one that compare shows for both runs.
    small = ("factors.queues=[1, 8]", "factors.load_of_max=[0 %, 50 %]", "trial.window=5 ms", "repeats.count=2")
    sets = [word for setting in (*small, "factors.lookups=[1]") for word in ("--set", setting)]
    done = cli("run", "S-F5", "--quick", "--testbed", "here.yaml", *sets)
    assert done.returncode == 0, done.stderr
    compared = cli("compare", measured, cli.run_folders()[0], "--metric", "rx_pps")
    assert compared.returncode == 0, compared.stderr
    assert "B: MODELLED, computed by a simulation, not measured: ratios show the model's error" in compared.stdout


def test_costs_are_recovered_from_a_simulated_run(cli: ModelCli) -> None:
    """A model run that passes for a measured one: the costs that went in come out."""
    spec = spec_of("arrivals: poisson", "queues: [1, 64]", "load_pps: [0, 1 Mpps, 10 Mpps, 30 Mpps]")
    costs = cli.calibrated(spec)["workloads"]["io"]
    assert costs["empty_poll_ns"]["by_queues"] == pytest.approx({1: 8, 64: 4}, rel=1e-3)
    for queues in (1, 64):
        assert costs["busy_poll_ns"]["by_queues"][queues] == pytest.approx(40, rel=0.05)
        assert costs["packet_ns"]["by_queues"][queues] == pytest.approx(20, rel=0.05)
    assert costs["path_ns"]["value"] == pytest.approx(500, abs=3)
    assert costs["path_ns"]["origin"] == "fitted"
    # The given costs are inside the intervals of the recovered ones, or just outside a very narrow one.
    for name, true in (("busy_poll_ns", 40), ("packet_ns", 20)):
        for low, high in costs[name]["intervals"].values():
            assert low - 0.02 * true <= true <= high + 0.02 * true, name
    low, high = costs["path_ns"]["interval"]
    assert low - 3 <= 500 <= high + 3


@pytest.mark.one_in(2)
@pytest.mark.parametrize("organisation", ["corec", "locked"])
def test_costs_of_sharing_a_queue_are_recovered(cli: ModelCli, organisation: str) -> None:
    given = f"queues: 1, organisation: {organisation}, generator_receives: false, arrivals: poisson"
    spec = spec_of(given, "cores: [1, 2]", "load_pps: [0, 1 Mpps, 30 Mpps]")
    costs = cli.calibrated(spec, shared_packet_ns=25, shared_empty_poll_ns=90)["workloads"]["io"]
    assert costs["empty_poll_ns"]["by_queues"] == pytest.approx({1: 8}, rel=1e-3)
    assert costs["shared_packet_ns"]["by_queues"] == pytest.approx({1: 25}, rel=0.06)
    assert ("shared_empty_poll_ns" in costs) == (organisation == "locked")
    if organisation == "locked":
        assert costs["shared_empty_poll_ns"]["by_queues"] == pytest.approx({1: 90}, rel=1e-3)


@pytest.mark.thorough
def test_costs_of_rings_are_recovered(cli: ModelCli) -> None:
    factors = "dispatchers: [0, 1]", "organisation: [scale-out, scale-up]", "load_pps: [0, 1 Mpps, 10 Mpps, 35 Mpps]"
    spec = spec_of("arrivals: poisson", *factors)
    spec += "constraints: [{drop: organisation == 'scale-up' and dispatchers == 0, reason: no ring}]\n"
    file = cli.calibrated(spec, **RINGS)
    costs = file["workloads"]["io"]
    assert costs["empty_poll_ns"]["by_queues"] == pytest.approx({1: 8}, rel=1e-3)
    assert costs["empty_ring_poll_ns"]["by_queues"] == pytest.approx({1: 5}, rel=1e-3)
    for name, true, within in (("dispatch_ns", 10, 1.0), ("ring_busy_poll_ns", 15, 2.0), ("ring_ns", 20, 2.0)):
        assert costs[name]["by_queues"][1] == pytest.approx(true, abs=within), name
    assert costs["ring_packet_ns"]["by_queues"][1] == pytest.approx(2, abs=1)
    assert "ring_contended_ns" not in costs, "nobody waits with one core at each end"
    assert file["holds_for"]["organisation"] == ["scale-out", "scale-up"]
    # Another run takes the costs found.
    done = cli("run", "spec.yaml", "--testbed", "again.yaml", "--set", "factors.load_pps=[1 Mpps]")
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
def test_costs_of_rings_need_a_run_without_rings(cli: ModelCli) -> None:
    cli.table(spec=SPEC.replace("queues: [1, 8, 64]", "dispatchers: [1]"), file=costing(**RINGS))
    done = cli("calibrate", _pass_for_measured(cli.run_folders()[0]), "--out", "again.yaml")
    assert done.returncode == 2
    assert "costs of a ring need trials of cores that poll for themselves" in done.stderr


@pytest.mark.thorough
def test_hiccups_are_not_taken_for_the_cost_of_packets(cli: ModelCli) -> None:
    given = "hiccup_probability: 1 %, hiccup_delay: 1 us, arrivals: poisson"
    spec = spec_of(given, "queues: [1]", "load_pps: [0, 1 Mpps, 10 Mpps, 20 Mpps]")
    costs = cli.calibrated(spec)["workloads"]["io"]
    assert costs["packet_ns"]["by_queues"][1] == pytest.approx(20, rel=0.1)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"organisation": "corec", "cores": 2}, "the cost of sharing a queue needs trials of one core alone"),
        ({"notification": "qwait"}, "costs depend on notification, and the trials have"),
    ],
)
def test_costs_of_unlike_cores_are_not_put_together(
    cli: ModelCli, ran: tuple[ModelCli, pd.DataFrame], change: dict[str, Any], said: str
) -> None:
    folder = shutil.copytree(ran[0].run_folders()[0], cli.folder / "run")
    lines = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    for line in lines if "organisation" in change else lines[:1]:
        line["params"] |= change
    (folder / "trials.jsonl").write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines))
    done = cli("calibrate", _pass_for_measured(folder), "--out", "here.yaml")
    assert done.returncode == 2
    assert said in done.stderr


def test_costs_of_two_machines_are_not_put_together(cli: ModelCli) -> None:
    first, other = CHECKOUT / "data/runs/s-f5-polling-tax", cli.folder / "other"
    shutil.copytree(first, other)
    meta = json.loads((other / "run.json").read_text())
    meta["host"]["cpu_model"], meta["run_id"] = "another processor", "20261123T000000Z-000000"
    (other / "run.json").write_text(json.dumps(meta))
    done = cli("calibrate", first, other, "--out", "here.yaml")
    assert done.returncode == 2
    assert "20261123T000000Z-000000: was measured on another machine than " in done.stderr


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["RUN", "--at", "colour=red"], 2, "the run has no factor colour"),
        (["RUN", "--at", "queues"], 2, "write FACTOR=LEVEL"),
        (["RUN", "--at", "queues=3"], 2, "no trial is data"),
        (["RUN", "--at", "load_of_max=0.0"], 2, "costs of a busy poll and of its packets cannot be separated"),
        (["nowhere"], 2, "nowhere"),
        (["RUN", "--out", "taken.yaml"], 2, "the file exists"),
        (["RUN", "--out", "no/such/folder.yaml"], 3, "folder.yaml: cannot be written: No such file"),
        (["data/runs/s-f8-poll-rate", "RUN"], 2, "costs depend on "),
    ],
)
def test_runs_that_cannot_calibrate_are_refused_in_one_line(
    cli: ModelCli, words: list[str], code: int, said: str
) -> None:
    (cli.folder / "taken.yaml").touch()
    runs = {**{word: word for word in words}, "RUN": "data/runs/s-f5-polling-tax"}
    done = cli("calibrate", *(CHECKOUT / runs[word] if "data/runs" in runs[word] else runs[word] for word in words))
    assert done.returncode == code, done.stdout
    (line,) = done.stderr.splitlines()
    assert said in line


def test_a_model_is_no_source_of_costs(ran: tuple[ModelCli, pd.DataFrame]) -> None:
    cli, _ = ran
    done = cli("calibrate", cli.run_folders()[0], "--out", "here.yaml")
    assert done.returncode == 2
    assert "was modelled: costs of a model come from what was measured" in done.stderr


QWAIT = {"qwait_ns": 50, "notice_ns": 5, "per_ready_ns": 2}
NOTIFIED = "notification: qwait, burst: 1, arrivals: poisson"


def test_notified_cores_wait_for_no_sweep(cli: ModelCli) -> None:
    table = cli.table(spec=spec_of(f"load_pps: 1 Mpps, {NOTIFIED}", "queues: [1, 8, 64]"), file=costing(**QWAIT))
    mean = table.groupby("factor.queues")["metric.latency_sent_mean_ns"].mean()
    # A core with 110 ns per packet at 1 Mpps is busy for 11 %: M/D/1 waits 6.8 ns on average.
    for queues in (1, 8, 64):
        assert mean[queues] == pytest.approx(115 + 110 * 0.11 / (2 * 0.89), abs=3), queues
    assert table["metric.waiting_share"].mean() == pytest.approx(1 - 0.11, abs=0.01)
    assert table["metric.useful_share"].mean() == pytest.approx(0.06, abs=0.005)
    assert table["metric.rx_pps"].mean() == pytest.approx(1e6, rel=0.02)
    assert table["modelled"].all()


@pytest.mark.thorough
def test_a_searched_ready_set_costs_what_is_ready(cli: ModelCli) -> None:
    """Rings hold far more packets than arrive in the window: those that wait in them do not count as taken."""
    given = "saturate: true, feed: wire, rx_desc: 4096, notification: qwait, burst: 1"
    spec = spec_of(given, "queues: [64]", "ready_set: [hierarchical, linear]")
    table = cli.table(spec=spec, file=costing(**QWAIT))
    rate = table.groupby("factor.ready_set")["metric.rx_pps"].mean()
    assert rate["hierarchical"] == pytest.approx(1e9 / 110, rel=0.02)
    assert rate["linear"] == pytest.approx(1e9 / (110 + 64 * 2), rel=0.02)


@pytest.mark.thorough
def test_cold_queues_at_saturation_are_found_busy_as_often_as_they_should(cli: ModelCli) -> None:
    """13 hot queues give bursts, 51 cold ones a packet in 5 % of the polls; by hand from the costs."""
    given = "saturate: true, feed: wire, generator_receives: false, concentrated_queues: 13"
    table = cli.table("trial.warmup=3 ms", spec=spec_of(given, "queues: [64]", "shape: [PC, NC]"))
    arrive = -math.log(0.95)
    turn_ns = 13 * (40 + 32 * 20) + 51 * (0.05 * 40 + arrive * 20 + 0.95 * 4)
    for shape in ("PC", "NC"):
        of = table[table["factor.shape"] == shape]
        assert of["metric.rx_pps"].mean() == pytest.approx((13 * 32 + 51 * arrive) / turn_ns * 1e9, rel=0.01)
        assert of["metric.empty_poll_fraction"].mean() == pytest.approx(0.95 * 51 / 64, rel=0.01)


def test_cold_queues_of_several_readers_follow_each_readers_sweep() -> None:
    """Two cores of unlike many hot queues: each finds its cold queues busy in 5 % of its polls."""
    costs = Costs.model_validate({**COSTS, "empty_poll_ns": cost(8), "generator_pps": cost(200e6)}, strict=False)
    given = {"workload": "io", "cores": 2, "queues": 16, "shape": "NC", "concentrated_queues": 3, "saturate": True}
    params = Parameters.model_validate({**given, "generator_receives": False}, strict=False)
    assert points.refusal(params, costs, 2e9) is None
    hot = cold_queues.hot_queues(params)
    busy = [len([queue for queue in hot if queue % 2 == core]) for core in (0, 1)]
    assert busy[0] != busy[1], "choose another seed: the cores are alike"
    outcome = simulate(points.system(params, costs, 2e9, None), 20e6, 2e6)
    for core, number in zip(outcome.cores, busy, strict=True):
        busy_polls = core.empty_polls + core.partial_polls + core.full_polls
        assert core.empty_polls / busy_polls == pytest.approx(0.95 * (8 - number) / 8, rel=0.01)


def test_hot_queues_that_the_generator_cannot_fill_are_left_out() -> None:
    costs = Costs.model_validate({**COSTS, "generator_pps": cost(5e6)}, strict=False)
    given = {"workload": "io", "queues": 64, "shape": "PC", "saturate": True, "generator_receives": False}
    params = Parameters.model_validate(given, strict=False)
    said = points.refusal(params, costs, 2e9)
    assert said == "hot queues are not backlogged: 45.6 Mpps are taken, and the generator sends 5 Mpps"


@pytest.mark.thorough
def test_queues_that_cores_share_behind_a_lock_cost_what_the_file_says(cli: ModelCli) -> None:
    """At almost no load a packet waits until the first of two cores comes by: on average a third of a sweep."""
    given = "load_pps: 50 kpps, cores: 2, arrivals: poisson"
    spec = spec_of(given, "queues: [64]", "organisation: [scale-out, locked]")
    table = cli.table(spec=spec, file=costing(shared_empty_poll_ns=40))
    mean = table.groupby("factor.organisation")["metric.latency_sent_mean_ns"].mean() - 560
    assert 64 * 40 / 4 < mean["locked"] < 64 * 40 / 2
    assert mean["scale-out"] < 32 * 8 / 2 * 1.2
    assert table["metric.ipc"].isna().all()


@pytest.mark.thorough
def test_cores_that_sleep_are_woken(cli: ModelCli) -> None:
    spec = spec_of(f"load_pps: 20 kpps, {NOTIFIED}", "queues: [8]", "idle: [pause, sleep]")
    table = cli.table(spec=spec, file=costing(**QWAIT, wake_up_ns=500))
    mean = table.groupby("factor.idle")["metric.latency_sent_mean_ns"].mean()
    assert mean["sleep"] - mean["pause"] == pytest.approx(500, abs=5)


def test_a_generator_that_cannot_keep_its_schedule_leaves_packets_unsent(cli: ModelCli) -> None:
    table = cli.table(
        spec=spec_of("arrivals: poisson", "load_pps: [200 kpps, 1 Mpps]"), file=costing(turn_ns=0, sent_ns=2500)
    )
    for load, sent, unsent in ((2e5, 2e5, 0.0), (1e6, 4e5, 0.6)):
        rows = table[table["factor.load_pps"] == load]
        assert rows["metric.rx_pps"].mean() == pytest.approx(sent, rel=0.05)
        assert rows["metric.unsent_share"].mean() == pytest.approx(unsent, abs=1e-3)


@pytest.mark.thorough
def test_a_generator_sends_packets_due_in_its_last_iteration(cli: ModelCli) -> None:
    """n packets take 200 + 100 n ns, in which n are due: 2 at 5 Mpps, 8 at 8 Mpps, 32 from 9.4 Mpps on."""
    spec = spec_of("arrivals: constant", "load_pps: [5 Mpps, 8 Mpps, 20 Mpps]")
    table = cli.table(spec=spec, file=costing(busy_poll_ns=1, packet_ns=1, turn_ns=200, sent_ns=100))
    found = table.groupby("factor.load_pps")[["metric.burst_mean", "metric.rx_pps"]].mean()
    assert found["metric.burst_mean"].to_list() == pytest.approx([2, 8, 32], rel=0.05)
    assert found["metric.rx_pps"].to_list() == pytest.approx([5e6, 8e6, 32e9 / 3400], rel=0.01)
    alone = cli("plan", cli.spec(SPEC), "--testbed", cli.testbed(costing(turn_ns=200)))
    assert "turn_ns and sent_ns are known together or not at all" in alone.stderr


@pytest.mark.thorough
def test_no_line_is_drawn_from_a_generator_s_rate_to_one_queue(cli: ModelCli) -> None:
    """The rate falls in a step as soon as traffic goes to a second queue; plan and run say so."""
    takes = {"by_queues": {"1": 1e9 / 9e5, "64": 1e9 / 4e5}, **GIVEN}
    file = costing(turn_ns=0, sent_ns=takes)
    table = cli.table(spec=SPEC, file=file)
    sent = table.groupby("factor.queues")["metric.rx_pps"].mean()
    assert sent.to_list() == pytest.approx([9e5, 4e5, 4e5], rel=0.05)
    said = "machine.yaml has the generator's rate to one queue and to 64: between these it is that to 64"
    assert said in cli("plan", cli.spec(SPEC), "--testbed", cli.testbed(file)).stderr
    known = SPEC.replace("[1, 8, 64]", "[1, 64]")
    assert said not in cli("plan", cli.spec(known), "--testbed", cli.testbed(file)).stderr


def test_a_generator_s_rate_to_several_queues_lies_between_known_ones() -> None:
    rate = SentCost(by_queues={1: 56e6, 2: 30e6, 8: 20e6}, origin="assumed", source="a test")
    assert [rate.at(queues) for queues in (1, 2, 4, 8)] == pytest.approx([56e6, 30e6, 25e6, 20e6])


ACTIVITY = {"useful_ipc": 1.5, "polling_ipc": 2.6, "issue_width": 8, "corunner_ipc": 2}
ACTIVITY |= {"static_power_w": 0.162, "power_w_per_ipc": 0.3223, "halted_power_w": 0.3}


def test_a_sibling_has_what_the_core_leaves_and_power_follows_instructions(cli: ModelCli) -> None:
    given = "corunner: matmul, load_pps: 1 Mpps, arrivals: poisson"
    spec = spec_of(given, "queues: [8]", "corunner_place: [smt-sibling, other-core]")
    table = cli.table(spec=spec, file=costing(**ACTIVITY))
    ipc = 2.6 - 1.1 * table["metric.useful_share"]
    assert table["metric.ipc"].to_list() == pytest.approx(ipc.to_list())
    assert (table["metric.ipc_useful"] == 1.5).all() and (table["metric.ipc_polling"] == 2.6).all()
    assert table["metric.llc_loads_per_s"].isna().all()
    left = (1 - ipc / 8).where(table["factor.corunner_place"] == "smt-sibling", 1.0)
    assert table["metric.corunner_ipc"].to_list() == pytest.approx((2 * left).to_list())
    assert table["metric.ipc_with_corunner"].to_list() == pytest.approx((ipc + 2 * left).to_list())
    assert table["metric.package_power_w"].to_list() == pytest.approx((0.162 + 0.3223 * ipc).to_list())
    assert table["absent.corunner_rate_running_hz"].str.contains("IPC, not its progress").all()


@pytest.mark.thorough
def test_power_of_a_core_that_waits_is_the_chip_s(cli: ModelCli) -> None:
    """Without traffic a core in C1 has only its static power, a halted one more (section V-D: 16.2 %)."""
    spec = spec_of(f"load_pps: 0 pps, {NOTIFIED}", "queues: [8]", "idle: [pause, sleep]")
    table = cli.table(spec=spec, file=costing(**QWAIT, **ACTIVITY, wake_up_ns=500))
    assert (table["metric.ipc"] == 0).all(), "a core that waits executes nothing"
    drawn = table.groupby("factor.idle")["metric.package_power_w"].mean()
    spinning = 0.162 + 0.3223 * 2.6
    assert drawn["sleep"] / spinning == pytest.approx(chip()["power_static"], rel=1e-3)
    assert drawn["pause"] / spinning == pytest.approx(chip()["power_halted"], rel=1e-3)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", ["FB", "PC", "NC", "SQ"])
@pytest.mark.parametrize("how", ["spin", "qwait"])
def test_at_saturation_hyperplanes_file_does_what_its_chip_does(shape: Shape, how: Notification) -> None:
    """The testbed simulates the formula of the chip; two models of one machine must agree."""
    file = YAML(typ="safe").load(CHECKOUT / "configs/platforms/model-hyperplane.yaml")
    costs = Costs.model_validate(file["workloads"]["encap"], strict=False)
    given = {"workload": "encap", "queues": 500, "burst": 1, "rx_desc": 256, "generator_receives": False}
    params = Parameters.model_validate({**given, "saturate": True, "shape": shape, "notification": how}, strict=False)
    expected = peak_pps(chip(), "encap", shape, 500, how)
    if how == "qwait":
        result = simulate(points.notified_system(params, costs, file["tsc_hz"], None), 100e6, 60e6)
        assert (result.served or 0) / 0.1 == pytest.approx(expected, rel=0.01)
        return
    found = simulate(points.system(params, costs, file["tsc_hz"], None), 100e6, 60e6)
    assert sum(core.sent for core in found.cores) / 0.1 == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, "no qwait_ns"),
        ({"idle": "umwait"}, "idle pause or sleep only"),
        ({"idle": "sleep"}, "no wake_up_ns"),
        ({"burst": 32}, "one packet at a time"),
        ({"queues": 3, "cores": 2}, "the model divides queues equally"),
        ({"hiccup_probability": "10 %", "hiccup_delay": "1 us"}, "no hiccups"),
    ],
)
def test_points_beyond_the_model_of_notified_cores_are_left_out(change: dict[str, Any], reason: str) -> None:
    costs = Costs.model_validate(costing(**(QWAIT if change else {}))["workloads"]["io"], strict=False)
    given = {"notification": "qwait", "workload": "io", "burst": 1, "load_pps": 1e6, **change}
    assert reason in str(points.refusal(Parameters.model_validate(given, strict=False), costs, 2e9))


def test_hyperplanes_file_has_the_parameters_of_its_chip() -> None:
    machine, costs = chip(), YAML(typ="safe").load(CHECKOUT / "configs/platforms/model-hyperplane.yaml")["workloads"]
    assert set(costs) == set(TASKS)
    spun = (1 - machine["power_static"]) / machine["ipc_poll"]
    expected = {
        "qwait_ns": machine.qwait_ns,
        "notice_ns": machine.cycles_ns("lookup_cycles"),
        "per_ready_ns": machine["per_ready_ns"],
        "wake_up_ns": machine["wake_up_ns"],
        "useful_ipc": machine["ipc_task"],
        "polling_ipc": machine["ipc_poll"],
        "static_power_w": machine["power_static"],
        "halted_power_w": machine["power_halted"],
    }
    for task, found in costs.items():
        known = Costs.model_validate(found, strict=False)
        values = {name: getattr(known, name).value for name in expected}
        assert values == pytest.approx(expected, rel=1e-9)
        assert known.power_w_per_ipc is not None
        assert known.power_w_per_ipc.value == pytest.approx(spun, rel=1e-3)
        for queues in (1, 512, 1000):
            assert known.empty_poll_ns.at(queues) == pytest.approx(machine.poll_ns(queues), rel=1e-3)
            assert known.packet_ns.at(queues) == pytest.approx(machine.task_ns(task, queues))
        for queues in (200, 400, 1000):
            shared_ns = machine.poll_ns(queues) * machine["shared_poll_factor"]
            assert known.shared_empty_poll_ns is not None
            assert known.shared_empty_poll_ns.at(queues) == pytest.approx(shared_ns, rel=1e-3)
