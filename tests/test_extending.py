# SPDX-License-Identifier: BSD-3-Clause
"""Follow docs/extending.md step by step in a copy of the tree, then use what was added.

A block of code belongs to the line before it: "`PATH`, new:" makes a file, "`PATH`, in `TABLE`:" adds lines at the head
of a table. The commands of ```console walk``` are run in the order of the page.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from run_helpers import FAKE_NODE

PAGE = Path(__file__).resolve().parent.parent / "docs" / "extending.md"
STEP = re.compile(r"^`([^`]+)`, (?:new|in `(\w+)`):\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```console walk\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOST_FILES = 3


@dataclass
class Walk:
    """Follow one section of the page in a copy of the tree."""

    text: str
    tree: Path
    node: Path = FAKE_NODE

    def follow(self) -> None:
        """Make the files and add the lines."""
        for path, table, code in STEP.findall(self.text):
            file = self.tree / path
            if table:
                add_to_table(file, table, code)
            else:
                assert not file.exists(), f"{path} is there already"
                file.parent.mkdir(exist_ok=True)
                file.write_text(code)

    def shell(self, command: str) -> str:
        """Return what a command prints; its exit code must be 0."""
        paths = [str(self.tree / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        done = subprocess.run(
            ["bash", "-euc", command],
            cwd=self.tree,
            env=os.environ
            | {
                "PATH": ":".join(paths),
                "PYTHONPATH": str(self.tree),
                "POLLSCOPE_NODE": str(self.node),
                "POLLSCOPE_STATE_DIR": str(self.tree / "state"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout[-3000:]}"
        return done.stdout

    def outputs(self) -> list[str]:
        """Return what the commands of the section print."""
        lines = [line for block in COMMANDS.findall(self.text) for line in block.splitlines()]
        return [self.shell(line.removeprefix("$ ")) for line in lines]

    def docs(self, page: str) -> str:
        """Return a page after its tables were generated again."""
        self.shell(f"python docs/tables.py {page}")
        return (self.tree / "docs" / page).read_text()


def add_to_table(file: Path, table: str, code: str) -> None:
    """Add lines at the head of a mapping of YAML, or of a table of Python, whose entries begin with a quote."""
    begin = rf"^({table}:\n)" if file.suffix == ".yaml" else rf"^({table}\b.*?[{{(\[]\n(?= +[\"']))"
    head, line, rest = re.split(begin, file.read_text(), maxsplit=1, flags=re.M | re.S)
    file.write_text(head + line + code + rest)


def sections() -> dict[str, str]:
    """Return the walks of the page by their titles: the sections that add something."""
    parts = re.split(r"^## (.*)\n", PAGE.read_text(), flags=re.MULTILINE)
    return {title: text for title, text in zip(parts[1::2], parts[2::2], strict=True) if STEP.search(text)}


def copied(checkout: Path, to: Path) -> Path:
    """Return a copy of the tree without build products, with `pollscope` from it."""
    anywhere = shutil.ignore_patterns(".git", ".venv", ".cache", "results", "out", "__pycache__", ".*_cache")
    at_top = shutil.ignore_patterns("build*")  # the package has modules of that name

    def left_out(folder: str, names: list[str]) -> set[str]:
        return anywhere(folder, names) | (at_top(folder, names) if Path(folder) == checkout else set())

    shutil.copytree(checkout, to, symlinks=True, ignore=left_out)
    (to / "bin").mkdir()
    program = to / "bin" / "pollscope"
    program.write_text(f"#!{sys.executable}\nfrom pollscope.cli import main\nmain()\n")
    program.chmod(0o755)
    return to


@pytest.fixture
def walk(request: pytest.FixtureRequest, checkout: Path, tmp_path: Path) -> Walk:
    walk = Walk(sections()[request.param], copied(checkout, tmp_path / "tree"))
    walk.follow()
    return walk


def of(title: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("walk", [title], indirect=True)


@pytest.mark.parametrize("title", sections())
def test_a_walk_takes_three_files_at_most(title: str) -> None:
    steps = STEP.findall(sections()[title])
    assert 1 <= len({path for path, _, _ in steps}) <= MOST_FILES
    lines = sum(line.count("\n") for path, table, line in steps if table and path.endswith(".py"))
    assert lines <= 1, "one line registers it"
    assert sections()[title].count("```") == 2 * (len(steps) + len(COMMANDS.findall(sections()[title])))


@pytest.mark.thorough
@of("A metric")
def test_a_new_metric_is_derived_and_answered(walk: Walk) -> None:
    _, answer = walk.outputs()
    assert re.search(r"^ +\d", answer, re.MULTILINE), answer
    assert "| `packets_per_poll` |" in walk.docs("reference-metrics.md")


@pytest.mark.thorough
@of("A collector")
def test_a_new_collector_is_listed_and_collects(walk: Walk) -> None:
    collected, replayed = walk.outputs()
    assert re.search(r"^softnet +cpu0 +processed +\S+ 1/s$", collected, re.MULTILINE), collected
    assert "softnet" in replayed
    assert re.search(r"^softnet +available", walk.shell("pollscope collect"), re.MULTILINE)
    assert "softnet: " in walk.shell("python tests/fuzz/fuzz_parsers.py softnet --seconds 1")
    assert "| `softnet` |" in walk.docs("reference-metrics.md")


@pytest.mark.thorough
@of("A knob")
def test_a_new_knob_is_set_and_restored(walk: Walk) -> None:
    _, turned, value, restored = walk.outputs()
    assert turned == "timer_migration host: on -> off\n"
    assert value == "host off\n"
    assert "timer_migration" in restored
    assert (walk.tree / "tree/proc/sys/kernel/timer_migration").read_text() == "1\n"
    assert "timer_migration" in walk.shell("pollscope knob --root tree list")
    spec = "pollscope validate S-F8 --set knobs.timer_migration="
    assert "ok" in walk.shell(spec + "off")
    assert "allowed: off, on" in walk.shell(f"! {spec}maybe")
    assert "| `timer_migration` |" in walk.docs("reference-metrics.md")


@pytest.mark.thorough
@of("A kind of testbed")
def test_a_new_kind_of_testbed_runs_a_spec(walk: Walk) -> None:
    walk.node = walk.tree / "no-node"
    status, run, _ = walk.outputs()
    assert status.startswith("fluid: ready")
    assert re.search(r"\b6 trials ok, 0 flagged, 0 failed\b", run), run
    assert re.search(r"10(\.0)? Mpps", run), "one core takes 2 GHz / 200 cycles"
    assert "modelled" in (walk.tree / "page.html").read_text()
    knob = "--set testbeds='[fluid]' --set must=null --set factors.knob.governor='[performance]'"
    assert "knobs could be turned" in walk.shell(f"pollscope plan SANITY-PAIR --testbed fluid {knob} || true")
    assert "| `fluid` |" in walk.docs("reference-spec.md")


@pytest.mark.thorough
@pytest.mark.timeout(1200)  # seconds: it compiles the node beside other tests
@of("A workload")
def test_a_new_workload_compiles_and_runs(walk: Walk, checkout: Path) -> None:
    walk.node = walk.tree / "build" / "pollscope-node"
    # The same path as build/ has: ccache knows all that the walk did not change.
    walk.shell(f"meson setup build apps -Ddriver_sdk={checkout}/apps/../.cache/driver-sdk/include")
    _, run = walk.outputs()
    assert re.search(r"\b0 failed\b", run), run
    (record,) = walk.tree.glob("out/*/*/trials.jsonl")
    trials = [json.loads(line) for line in record.read_text().splitlines()]
    sent = [lcore["tx_packets"] for trial in trials for lcore in trial["result"]["dut"]["lcores"]]
    assert {trial["params"]["workload"] for trial in trials} == {"macswap"}
    assert any(sent)  # not in each trial: beside other tests a core may be away for a whole window
    assert "| `macswap` |" in walk.docs("reference-spec.md")


@pytest.mark.thorough
@of("A figure with its claims")
def test_a_new_figure_is_drawn_and_its_claim_is_judged(walk: Walk) -> None:
    _, drawn, judged = walk.outputs()
    assert drawn.split() == [f"drawn/Q-SWEEP.{kind}" for kind in ("svg", "pdf", "png", "csv")]
    assert "Q-SWEEP.longer-with-queues" in judged
    # the fake node reports no sweeps; a recorded run does
    shutil.copytree(walk.tree / "data/runs/s-f8-poll-rate", walk.tree / "recorded")
    metadata = json.loads((walk.tree / "recorded/run.json").read_text())
    (walk.tree / "recorded/run.json").write_text(json.dumps(metadata | {"row": "Q-SWEEP", "rows": ["Q-SWEEP"]}))
    walk.shell("pollscope figures recorded --out drawn")
    assert "One sweep over all queues (ns)" in (walk.tree / "drawn/Q-SWEEP.svg").read_text()
    (verdict,) = json.loads(walk.shell("pollscope claims recorded --json"))
    assert (verdict["claim"], verdict["verdict"]) == ("Q-SWEEP.longer-with-queues", "agrees")


@pytest.mark.thorough
@of("A paper")
def test_a_new_paper_has_rows_and_claims(walk: Walk) -> None:
    valid, planned, _, judged = walk.outputs()
    assert valid.endswith("e-f1-throughput.yaml: ok\n")
    assert "queues=64" in planned
    assert "E-F1.falls-with-queues" in judged and "not stated in the paper" in judged
    assert "example|" in walk.shell("pollscope figures --help")
    assert '"example"' in walk.shell("pollscope schema")
    assert "| `example` | A. Author, B. Author: An Example of a Paper." in walk.docs("validity.md")
