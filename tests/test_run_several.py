# SPDX-License-Identifier: BSD-3-Clause
"""Test a list of specs: those that the testbed cannot host are skipped, and each gets a summary line."""

import signal
from pathlib import Path

import pytest
from run_helpers import SPEC, Cli, assert_complete

from pollscope.store.run_folder import read_run

SHORT = SPEC.replace("load_of_max: [0 %, 50 %]", "load_pps: [0]")
NEEDS_PCM = "collectors: [{name: pcm, required: true}]\n"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    (tmp_path / "specs").mkdir()
    return Cli(tmp_path)


def add(cli: Cli, name: str, more: str = "", text: str = SHORT) -> Path:
    return cli.spec(text.replace("name: faults", f"name: {name}") + more, f"specs/{name}.yaml")


def lines(stdout: str) -> dict[str, str]:
    """Return the summary at the end: name of the spec -> its outcome."""
    summary = f"\n{stdout}".rstrip().rpartition("\n\n")[2]
    return {name: text for name, _, text in (line.partition(" ") for line in summary.splitlines())}


def test_specs_that_cannot_be_hosted_are_skipped_and_the_rest_runs(cli: Cli) -> None:
    add(cli, "a-other", "testbeds: [pair]\n")
    add(cli, "b-good")
    add(cli, "c-needy", NEEDS_PCM)
    add(cli, "d-large", text=SHORT.replace("queues: [1, 2]", "queues: [1]\n  cores: [100]"))
    add(cli, "e-good")
    done = cli.ends(0, "run", "specs")
    printed = lines(done.stdout)
    assert list(printed) == ["a-other", "b-good", "c-needy", "d-large", "e-good"]
    assert (
        "skipped, because" in printed["a-other"] and "not meant for a testbed of kind 'loopback'" in printed["a-other"]
    )
    assert "skipped, because" in printed["c-needy"] and "required collector pcm cannot work here" in printed["c-needy"]
    assert "skipped, because" in printed["d-large"] and "100 polling lcores" in printed["d-large"]
    for name in ("b-good", "e-good"):
        (folder,) = (cli.folder / "results" / name).iterdir()
        assert f"done, 4 trials: results/{name}/{folder.name}" in printed[name]
        assert_complete(read_run(folder))


@pytest.mark.thorough
def test_the_exit_code_is_the_worst_of_what_ran(cli: Cli) -> None:
    cli.faults = {"t3": "refuse"}
    add(cli, "a-other", "testbeds: [pair]\n")
    add(cli, "b-bad")
    done = cli.ends(1, "run", "specs", "--set", "failures.tries=1")
    assert "1 of 4 trials failed: results/b-bad/" in lines(done.stdout)["b-bad"]


def test_a_run_that_ends_early_does_not_end_the_list(cli: Cli) -> None:
    """Each run loses node after node; a spec that cannot be hosted changes nothing."""
    cli.faults = {"configure": "die"}
    for name in ("a", "b"):
        add(cli, name, text=SPEC)
    add(cli, "c", "testbeds: [pair]\n")
    done = cli.ends(1, "run", "specs")
    printed = lines(done.stdout)
    for name in ("a", "b"):
        assert printed[name].strip().startswith("failed, because")
        assert "3 trials in a row failed for one reason: " in printed[name]
        assert f"`pollscope run --resume results/{name}/" in printed[name]
    assert "3 trials in a row failed for one reason: " in done.stderr


@pytest.mark.thorough
def test_a_node_that_does_not_start_is_no_skip(cli: Cli) -> None:
    cli.faults = {"hello": "die"}
    add(cli, "a")
    add(cli, "b")
    done = cli.ends(3, "run", "specs")
    printed = lines(done.stdout)
    assert list(printed) == ["a", "b"]
    assert all("failed, because" in text for text in printed.values())


def test_nothing_but_skipped_specs_is_an_error(cli: Cli) -> None:
    add(cli, "a", "testbeds: [pair]\n")
    add(cli, "b", NEEDS_PCM)
    done = cli.ends(2, "run", "specs")
    printed = lines(done.stdout)
    assert list(printed) == ["a", "b"]
    assert all("skipped" in text for text in printed.values())
    assert "is not meant for a testbed of kind 'loopback'" in done.stderr.splitlines()[-1]


def test_an_unknown_testbed_ends_the_list_at_once(cli: Cli) -> None:
    add(cli, "a")
    add(cli, "b")
    done = cli.ends(2, "run", "specs", "--testbed", "moon")
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.thorough
def test_ctrl_c_keeps_finished_runs_and_says_how_to_resume(cli: Cli) -> None:
    add(cli, "a-done")
    add(cli, "b-cut", text=SHORT.replace("window: 10 ms", "window: 2 s"))
    add(cli, "c-rest")
    process = cli.start("run", "specs", "--out", "there", "--set", "repeats.count=1")
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("b-cut: "):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip().splitlines()[-1] == "pollscope: interrupted"
    *_, a, b, c, rest = out.splitlines()
    assert "done, 2 trials" in a
    (cut,) = (cli.folder / "there" / "b-cut").iterdir()
    assert f"interrupted, `pollscope run --resume there/b-cut/{cut.name}` completes it" in b
    assert c.split(maxsplit=1) == ["c-rest", "not begun"]
    assert rest == "to run the rest: pollscope run specs/c-rest.yaml --out there --set repeats.count=1"
    cli.ends(0, "run", "--resume", cut)
    assert_complete(read_run(cut))
    cli.ends(0, *rest.partition("pollscope ")[2].split())
    assert len(list((cli.folder / "there").glob("*/*"))) == 3
