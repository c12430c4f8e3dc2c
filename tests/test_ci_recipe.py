# SPDX-License-Identifier: BSD-3-Clause
"""Test configs/ci: what the gate runs in which order, how it ends, and that both workflows call it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

# Keeps a log of its calls. `make` makes a checkout's program; the program's `--fail-if` ends with the code in `worse`.
STAND_IN = """#!/bin/sh
echo "$0 $*" >>"$LOG"
case $0 in
*/make)
    [ "$1" != -C ] || cd "$2"
    mkdir -p .venv/bin
    cp "$0" .venv/bin/pollscope ;;
*) case "$*" in *--fail-if*) exit "$(cat worse)" ;; esac ;;
esac
"""


@pytest.fixture
def fork(checkout: Path, tmp_path: Path) -> Path:
    """Return a repository of two commits with the recipe in it."""
    folder = tmp_path / "fork"
    shutil.copytree(checkout / "configs/ci", folder / "configs/ci")
    (folder / "worse").write_text("0")
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-qm", "base"],
        ["commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *own, *words], cwd=folder, check=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/make").write_text(STAND_IN)
    (tmp_path / "bin/make").chmod(0o755)
    return folder


def gate(fork: Path, *words: str) -> tuple[int, list[str]]:
    """Return the exit code of the gate, and what it called, without the folder of `make`."""
    log, tools = fork.parent / "log", fork.parent / "bin"
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "LOG": str(log)}
    done = subprocess.run(["configs/ci/gate", *words], cwd=fork, env=environment, capture_output=True, text=True)
    return done.returncode, log.read_text().replace(f"{tools}/", "").splitlines() if log.exists() else []


BUILT = ["make build", "make -C gate/base build", ".venv/bin/pollscope run SANITY --out gate/sanity"]


def test_both_commits_are_built_and_measured_by_turns(fork: Path) -> None:
    code, calls = gate(fork, "HEAD~1", "TAX", "--quick")
    nodes = "factors.node=[gate/base/build/pollscope-node, build/pollscope-node]"
    decided = "--by node --until-decided 3m --fail-if cycles_per_packet_useful > 5 % --out gate/turns"
    assert (code, calls) == (0, [*BUILT, f".venv/bin/pollscope run TAX --quick --set {nodes} {decided}"])
    heads = [subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=each) for each in (fork, fork / "gate/base")]
    assert heads[0] != heads[1]


def test_nodes_of_two_protocols_are_measured_by_their_own_commits(fork: Path) -> None:
    (fork / "gate/baseline/spec/run-a").mkdir(parents=True)
    (fork / "gate/candidate/spec/run-b").mkdir(parents=True)
    (fork / "docs/internals").mkdir(parents=True)
    (fork / "docs/internals/node-protocol.md").write_text("another one")
    subprocess.run(["git", "add", "docs"], cwd=fork, check=True)
    code, calls = gate(fork, "HEAD~1", "TAX", "--quick")
    assert code == 0
    compared = "compare gate/baseline/spec/run-a gate/candidate/spec/run-b --fail-if cycles_per_packet_useful > 5 %"
    assert calls == [
        *BUILT,
        "gate/base/.venv/bin/pollscope run TAX --quick --out gate/baseline",
        ".venv/bin/pollscope run TAX --quick --out gate/candidate",
        f".venv/bin/pollscope {compared} --out gate",
    ]


def test_it_fails_when_the_comparison_does_and_without_a_base(fork: Path) -> None:
    (fork / "worse").write_text("1")
    assert gate(fork, "HEAD~1")[0] == 1
    assert gate(fork)[0] == 2


def test_both_workflows_call_it_and_keep_the_runs(checkout: Path) -> None:
    folder = checkout / "configs/ci"
    github = YAML(typ="safe").load(folder / "github.yml")["jobs"]["gate"]
    gitlab = YAML(typ="safe").load(folder / "gitlab.yml")["gate"]
    steps = [step.get("run", "") for step in github["steps"]]
    for commands in (steps, gitlab["before_script"] + gitlab["script"]):
        assert [command for command in commands if re.search(r"^configs/ci/gate \"", command, re.MULTILINE)]
        # The packages of the README, and certificates for what they fetch.
        installed = next(re.search(r"install --yes (.*)", each) for each in commands if "apt-get install" in each)
        assert installed is not None
        assert {"git", "make", "python3"} <= set(installed[1].split())
    kept = github["steps"][-1]["with"]["path"].split()
    assert "::warning::the runs are too noisy" in steps[-2]
    assert gitlab["allow_failure"]["exit_codes"] == 4
    assert kept == gitlab["artifacts"]["paths"] == ["gate/sanity", "gate/turns", "gate/baseline", "gate/candidate"]
