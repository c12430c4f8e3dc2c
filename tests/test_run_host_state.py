# SPDX-License-Identifier: BSD-3-Clause
"""Check host state in runs: checks around blocks, blocks made again after a change, and the messages about it."""

import json
from collections import Counter
from pathlib import Path

import pytest
from run_helpers import Cli, assert_complete

from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder, read_run
from pollscope.testbeds.loopback import LoopbackTestbed

# Two blocks of maxima, two of four points; each host-state check reads the node's next host state, the last one
# holds for all others.
BLOCKS = ["maximum 0", "maximum 1", "measure 0", "measure 1"]


def with_host_states(cli: Cli, *cycles: int) -> None:
    cli.faults = {"host_states": list(cycles)}


def extra_trials(run: RunFolder) -> list[str]:
    return [trial["trial"] for trial in run.trials if trial["kind"] == "measure" and trial["repeat"] >= 2]


def on_main(run: RunFolder) -> Counter[str]:
    table = current_table(run)
    rows = table[(table["kind"] == "measure") & ~table["other_host_state"]]
    assert rows["host_state"].nunique() == 1
    return Counter(rows["point"])


def test_a_host_check_stands_before_each_block_and_at_the_end(cli: Cli) -> None:
    done = cli.ends(0, "run", cli.spec())
    run = cli.only_run()
    assert_complete(run)
    assert [host_check["host_check"] for host_check in run.host_checks] == list(range(5))
    assert [host_check["why"] for host_check in run.host_checks] == ["start", "block", "block", "block", "end"]
    assert [host_check["block"] for host_check in run.host_checks] == [*BLOCKS, BLOCKS[-1]]
    assert [trial["host_state"] for trial in run.trials] == [0] * 2 + [1] * 2 + [2] * 4 + [3] * 4
    assert set(current_table(run)["host_state"]) == {"A"}
    assert "host_state" not in done.stdout


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("setting", "lines"), [("load_pps=0 pps", 0), ("load_pps=1 kpps", 1), ("feed=infinite", 0)])
def test_a_core_that_works_alone_is_judged_without_lines_between_cores(cli: Cli, setting: str, lines: int) -> None:
    """The latency between two cores says nothing of a trial in which only one of them works."""
    with_host_states(cli, 300, 301, 900, 901)
    factors = "parameters: {saturate: true}\nfactors: {queues: [1, 2]}\nrepeats: {count: 2}\n"
    load = ["--set", "parameters.saturate=null"] if "pps" in setting else []
    spec = cli.spec(f"format: 1\nname: alone\ntitle: t\n{factors}trial: {{warmup: 0 ms, window: 10 ms, drain: 0 ms}}\n")
    run = cli.ran(spec, "--set", f"parameters.{setting}", *load)
    assert {len(host["lines"]) for host_check in run.host_checks for host in host_check["hosts"]} == {lines}
    assert (set(current_table(run)["host_state"]) == {"A"}) == (lines == 0)


def test_blocks_are_made_again_on_the_same_host_state(cli: Cli) -> None:
    """The line changes before the second measured block: the block before lies between two host states."""
    with_host_states(cli, 300, 301, 302, 900, 901)
    done = cli.ends(0, "run", cli.spec())
    run = cli.only_run()
    assert_complete(run)
    assert run.host_checks[4]["why"] == "again", "a host-state check that differs is taken once more"
    assert len(extra_trials(run)) == 4
    assert "CPU 0 - CPU 1: 301 cycles in 3, 901 cycles in 3 of 6 host-state checks): extra block 1 of" in done.stderr
    assert on_main(run) == dict.fromkeys(on_main(run), 2)
    assert len(on_main(run)) == 4
    assert "warning: host_state: The host state changed during the run" in done.stdout
    assert run.meta["warnings"] == []
    assert run.meta["plan"][-4:] == extra_trials(run)


@pytest.mark.thorough
def test_extra_blocks_are_bounded_and_unreached_points_are_reported(cli: Cli) -> None:
    with_host_states(cli, *[300, 300, 900, 900] * 10)
    done = cli.ends(0, "run", cli.spec())
    run = cli.only_run()
    assert_complete(run)
    assert len(extra_trials(run)) == 8
    (warning,) = [text for text in run.meta["warnings"] if "host state" in text]
    assert "after 2 extra blocks 4 of 4 points" in warning
    assert not current_table(run)["other_host_state"].any()
    assert "all trials are pooled" in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("emulated", [False, True])
def test_no_extra_blocks_where_a_spec_forbids_them_or_on_emulated_machines(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, emulated: bool
) -> None:
    monkeypatch.setattr(LoopbackTestbed, "emulated", emulated)
    with_host_states(cli, 300, 301, 302, 900, 901)
    run = cli.ran(cli.spec(), "--set", f"noise.extra_blocks={2 if emulated else 0}")
    assert extra_trials(run) == []
    assert ["after 0 extra blocks" in text for text in run.meta["warnings"]] == ([] if emulated else [True])


@pytest.mark.thorough
@pytest.mark.parametrize(("fault", "reason"), [("refuse", "refused on purpose"), ("die", "ended with status 9")])
def test_a_host_check_that_fails_costs_no_trial(cli: Cli, fault: str, reason: str) -> None:
    cli.faults = {"host_state": fault}
    run = cli.ran(cli.spec())
    assert all(reason in host_check["absent"] for host_check in run.host_checks)
    assert set(current_table(run)["host_state"]) == {""}
    assert cli.nodes_alive() == []


def test_a_resumed_run_continues_the_host_checks(cli: Cli) -> None:
    with_host_states(cli, 300)
    cli.ends(0, "run", cli.spec())
    (folder,) = cli.run_folders()
    lines = (folder / "trials.jsonl").read_text().splitlines(keepends=True)
    (folder / "trials.jsonl").write_text("".join(lines[:-3]))
    whole = (folder / "host_states.jsonl").read_text()
    (folder / "host_states.jsonl").write_text(whole[: whole.rindex("hosts")])  # cut off in the last line
    with_host_states(cli, 900)
    done = cli.ends(0, "run", "--resume", folder)
    run = read_run(folder)
    assert_complete(run)
    assert [host_check["host_check"] for host_check in run.host_checks] == list(range(len(run.host_checks)))
    assert "extra block 1 of at most 2" in done.stderr
    before = (folder / "trials.jsonl").read_bytes(), (folder / "host_states.jsonl").read_bytes()
    cli.ends(0, "run", "--resume", folder)
    assert ((folder / "trials.jsonl").read_bytes(), (folder / "host_states.jsonl").read_bytes()) == before


@pytest.mark.thorough
def test_a_broken_host_check_is_named(cli: Cli) -> None:
    cli.ends(0, "run", cli.spec())
    (folder,) = cli.run_folders()
    text = (folder / "host_states.jsonl").read_text().splitlines()
    (folder / "host_states.jsonl").write_text("\n".join([text[0], "{}", *text[2:]]) + "\n")
    assert "host_states.jsonl: line 2: host_check: Field required" in cli.ends(2, "claims", folder).stderr


LOOPBACK = """\
format: 1
name: host-state-checks
row: S-F5
title: t
parameters: {generator_receives: false, load_pps: 100 kpps}
factors:
  queues: [1, 8]
trial: {warmup: 10 ms, window: 50 ms, drain: 20 ms}
repeats: {count: 3}
"""


@pytest.mark.thorough
@pytest.mark.measure
def test_a_run_on_the_real_node_records_host_checks(tmp_path: Path, build_dir: Path) -> None:
    (tmp_path / "nodes").touch()
    cli = Cli(tmp_path, build_dir / "pollscope-node")
    run = cli.ran(cli.spec(LOOPBACK))
    assert len(run.host_checks) >= 4
    # The minimum: a host that takes the CPU away makes any of them longer.
    assert min(host_check["hosts"][0]["took_ns"] for host_check in run.host_checks) < 100_000_000
    for host_check in run.host_checks:
        (host,) = host_check["hosts"]
        assert [core["cpu"] for core in host["cores"]] == host["lines"][0]["cpus"]
        assert len(host["lines"][0].get("cycles", range(32))) == 32
    assert all(trial["host_state"] in range(len(run.host_checks)) for trial in run.trials)
    table = current_table(run)
    assert set(table["host_state"]) <= {"between", *map(chr, range(ord("A"), ord("Z")))}
    page = tmp_path / "r.html"
    cli.ends(0, "report", run.path, "--out", page)
    assert "The host state during the run (it" in page.read_text()
    assert json.loads((run.path / "host_states.jsonl").read_text().splitlines()[0])["why"] == "start"
