# SPDX-License-Identifier: BSD-3-Clause
"""Test several pairs that share a spec: two pairs of fake nodes over a real sshd, and their runs."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pair_hosts import SPEC, host_config, written
from ruamel.yaml import YAML
from run_helpers import Cli
from ssh_host import SshHost

from pollscope.plan.plan import plan_parts
from pollscope.spec import load_text
from pollscope.store.run_folder import RunFolder

SHARED = SPEC.replace("count: 1", "count: 4").replace("warmup: 1 s", "warmup: 600 ms")
BASELINE = "baseline: {point: {burst: 8}, metric: rx_pps, every: 2}\n"


def pairs_file(sshd: SshHost, folder: Path, faults: dict[str, dict[str, str]] | None = None) -> Path:
    """Write two pairs; `faults` of the DUTs' nodes by pair."""
    pairs: dict[str, Any] = {}
    for name in ("first", "second"):
        place, wrong = folder / name, (faults or {}).get(name)
        dut = host_config(sshd, place, "dut", faults=wrong)
        pairs[name] = {"dut": dut, "generator": host_config(sshd, place, "generator")}
    return written(folder / "both.yaml", {"kind": "pairs", "pairs": pairs})


@pytest.mark.thorough
def test_pairs_share_the_blocks_of_a_spec(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    testbed = pairs_file(sshd, tmp_path, {"second": {"jitter": "on"}})
    run = cli.ran(cli.spec(SHARED + BASELINE), "--testbed", testbed)
    check_side_by_side(run)
    measured = [trial for trial in run.trials if trial["kind"] == "measure"]
    assert Counter(trial["pair"] for trial in measured) == {"first": 4, "second": 4}
    assert {(trial["pair"], trial["repeat"] % 2) for trial in measured} == {("first", 0), ("second", 1)}
    assert {trial["pair"] for trial in run.trials if trial["kind"] == "baseline"} == {"first", "second"}
    table = pd.read_parquet(run.path / "results.parquet")
    assert set(table["factor.pair"]) == {"first", "second"}
    assert set(run.meta["pairs"]) == set(run.meta["node_hello"]["pairs"]) == {"first", "second"}
    shown = cli.ends(0, "compare", run.path, "--by", "pair", "--metric", "rx_pps")
    assert "pair first: 1 of its baseline" in shown.stdout
    assert "pair second:" in shown.stdout


def check_side_by_side(run: RunFolder) -> None:
    """Check that trials of the two pairs overlap in time, and those of one pair never do."""
    spans: dict[str, list[tuple[int, int]]] = {"first": [], "second": []}
    for trial in run.trials:
        begin_ns = trial["started_monotonic_ns"]
        spans[trial["pair"]].append((begin_ns, begin_ns + 700_000_000))
    for own in spans.values():
        assert all(before[1] <= after[0] for before, after in zip(sorted(own), sorted(own)[1:], strict=False))
    assert any(a[0] < b[1] and b[0] < a[1] for a in spans["first"] for b in spans["second"])


@pytest.mark.thorough
def test_pairs_share_the_budget_of_failures(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    """One failed try of each exceeds the budget of one; a pair then begins no further trial."""
    testbed = pairs_file(sshd, tmp_path, {"first": {"t1": "refuse"}, "second": {"t1": "refuse"}})
    done = cli.ends(1, "run", cli.spec(SHARED), "--testbed", testbed, "--set", "failures={tries: 1, at_most: 1}")
    assert "2 tries have failed, failures.at_most allows 1; the last one, " in done.stderr
    run = cli.only_run()
    assert len([trial for trial in run.trials if trial["kind"] == "measure"]) < len(run.meta["plan"])
    assert Counter(trial["status"] for trial in run.trials)["failed"] == 2


@pytest.mark.thorough
def test_an_absent_pair_ends_the_run_before_it_begins(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    testbed = pairs_file(sshd, tmp_path)
    config = json.loads(testbed.read_text())
    config["pairs"]["second"]["dut"]["ssh"]["key"] = "/nonexistent/key"
    testbed.write_text(json.dumps(config))
    done = cli.ends(3, "run", cli.spec(SHARED), "--testbed", testbed)
    assert len(done.stderr.splitlines()) == 1
    assert "Permission denied" in done.stderr
    assert not cli.run_folders()
    assert "second: DUT" in cli.ends(3, "testbed", "status", testbed).stdout


def test_every_pair_has_its_own_maxima_and_whole_blocks() -> None:
    text = SHARED.replace("load_pps: 0", "load_of_max: 50 %")
    spec = load_text(text, "x.yaml").spec
    plans = plan_parts(spec, [("first", lambda _: None), ("second", lambda _: None)])
    for plan, name in zip(plans, ("first", "second"), strict=True):
        assert all(trial.id.endswith(f"@{name}") and trial.pair == name for trial in plan.trials)
        assert sum(trial.kind == "maximum" for trial in plan.trials) == 2 * spec.maximum.repeats
        assert Counter(trial.repeat for trial in plan.trials if trial.kind == "measure") == (
            {0: 2, 2: 2} if name == "first" else {1: 2, 3: 2}
        )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("count: 4", "count: 1"), "1 repeats cannot be shared by 2 pairs"),
        (("{count: 4}", "{until: {metric: rx_pps, within: 5 %}}"), "share a fixed number of repeats"),
    ],
)
def test_hosts_and_files_that_pairs_cannot_share_are_refused(
    cli: Cli, sshd: SshHost, tmp_path: Path, change: tuple[str, str], reason: str
) -> None:
    done = cli.ends(2, "plan", cli.spec(SHARED.replace(*change)), "--testbed", pairs_file(sshd, tmp_path))
    assert reason in done.stderr


@pytest.mark.parametrize("other", ["first.dut", "second.generator"])
def test_a_host_that_a_run_would_wait_for_by_itself_is_refused(
    cli: Cli, sshd: SshHost, tmp_path: Path, other: str
) -> None:
    testbed = pairs_file(sshd, tmp_path)
    config = json.loads(testbed.read_text())
    pair, end = other.split(".")
    config["pairs"][pair][end]["pollscope"] = config["pairs"]["first"]["generator"]["pollscope"]
    done = cli("plan", cli.spec(SHARED), "--testbed", written(testbed, config))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert re.search(r"first\.\w+ and \w+\.generator are one host \(127\.0\.0\.1:\d+\), whose lock", done.stderr)
    config["pairs"][pair][end]["pollscope"] = None
    cli.ends(0, "plan", cli.spec(SHARED), "--testbed", written(testbed, config))


def test_the_example_of_several_pairs_is_a_testbed(cli: Cli) -> None:
    done = cli.ends(0, "plan", cli.spec(SHARED), "--testbed", "pairs.example")
    assert "@first" in done.stdout
    assert "@second" in done.stdout


def test_the_examples_of_testbeds_and_of_inventories_match(checkout: Path) -> None:
    """A user who fills in one of each need not translate between them."""
    folder = checkout / "configs/testbeds"
    load = YAML(typ="safe").load
    pairs = {"inventory-mlx5.yml": [load(folder / "pair.example.yaml")]}
    pairs["inventory-pairs.yml"] = list(load(folder / "pairs.example.yaml")["pairs"].values())
    for file, testbeds in pairs.items():
        inventory = load(folder / file)
        for role in ("dut", "generator"):
            hosts = inventory[role]["hosts"]
            for testbed in testbeds:
                variables = {**inventory["all"]["vars"], **hosts[testbed[role]["ssh"]["host"]]}
                assert testbed[role]["ssh"]["user"] == variables["ansible_user"]
                assert testbed[role]["ports"]["rx"] in variables["pollscope_nics"]
                assert variables.get("cpu_isolation_cpus") in (None, testbed[role]["cpus"])
    for name in ("intel", "mlx5", "pairs"):
        text = (folder / f"inventory-{name}.yml").read_text()
        assert "hugepages_per_node" in text and "hugepages_wanted_pages" not in text
