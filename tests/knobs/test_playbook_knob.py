# SPDX-License-Identifier: BSD-3-Clause
"""Test the module with which the roles `cpu_power` and `ddio` set knobs: pollscope itself, on a tree of plain files."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import playbook_modules
import pytest
from command_line import pollscope
from knob_tree import EMULATED_PORT, NIC, PERFCTRLSTS_0, PORT, Tree

knob_module = playbook_modules.load("pollscope_knob")


@pytest.fixture
def program(tree: Tree, tmp_path: Path) -> str:
    return program_for(tree, tmp_path)


def program_for(tree: Tree, tmp_path: Path) -> str:
    """Return a `pollscope` whose host is the tree."""
    real = Path(sys.executable).with_name("pollscope")
    path = tmp_path / "pollscope"
    path.write_text(f'#!/bin/sh\nshift\nexec {real} knob --root {tree.root} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def in_process(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the module call `pollscope knob` in this process: starting a program takes longer than its work."""

    def run(words: list[str], *, env: dict[str, str], **_given: Any) -> SimpleNamespace:
        with patch.dict(os.environ, env):
            done = pollscope("knob", "--root", tree.root, *words[2:], cwd=tmp_path)
        return SimpleNamespace(returncode=done.returncode, stdout=done.stdout, stderr=done.stderr)

    monkeypatch.setattr(knob_module, "subprocess", SimpleNamespace(run=run, DEVNULL=subprocess.DEVNULL))


def act(program: str, state: str = "present", check: bool = False, consent: bool = False, **knobs: Any) -> list[str]:
    names = ["governor", "turbo", "uncore_freq", "ddio"]
    parameters = {"state": state, "knobs": knobs, "names": names, "program": program, "emulated_consent": consent}
    lines: list[str] = knob_module.act(SimpleNamespace(params=parameters, check_mode=check))
    return lines


@pytest.mark.usefixtures("in_process")
def test_sets_once_verifies_and_restores(tree: Tree, program: str) -> None:
    before = tree.picture()
    wanted: dict[str, Any] = {"governor": "performance", "turbo": False}
    said = act(program, check=True, **wanted)
    assert len(said) == 5
    assert tree.picture() == before
    assert act(program, **wanted) == said
    assert act(program, check=True, **wanted) == []
    assert act(program, **wanted) == []
    assert act(program, state="verified", **wanted) == []
    assert act(program, state="absent")
    assert tree.picture() == before
    assert act(program, state="absent") == []
    with pytest.raises(knob_module.HostError, match="turbo is on, should be off"):
        act(program, state="verified", turbo=False)


@pytest.mark.thorough
def test_an_emulated_port_on_consent_only(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "tree", port_id=EMULATED_PORT)
    program, before = program_for(tree, tmp_path), tree.picture()
    knobs: dict[str, Any] = {f"ddio@{NIC}": "off"}
    for check in (True, False):
        with pytest.raises(knob_module.HostError, match="the root port is emulated"):
            act(program, check=check, **knobs)
        assert tree.picture() == before
    assert act(program, check=True, consent=True, **knobs) == [f"ddio {PORT}: on -> off"]
    assert tree.picture() == before
    assert act(program, consent=True, **knobs)
    assert tree.register(PORT, PERFCTRLSTS_0) & 0x80 == 0
    assert act(program, state="verified", **knobs) == []
    assert act(program, state="absent", check=True) == ["ddio would be restored"]
    assert act(program, state="absent")  # values that were set are restored without consent
    assert tree.picture() == before


def test_check_mode_refuses_what_the_real_run_refuses(tmp_path: Path) -> None:
    """Ice Lake's ports have another register there."""
    tree = Tree(tmp_path / "tree", port_id="8086:347a")
    program, said = program_for(tree, tmp_path), list[str]()
    knobs: dict[str, Any] = {f"ddio@{NIC}": "off"}
    for check in (True, False):
        with pytest.raises(knob_module.HostError) as refusal:
            act(program, check=check, **knobs)
        said.append(str(refusal.value))
    assert said[0] == said[1]
    assert "8086:347a" in said[0]


@pytest.mark.thorough
def test_a_refused_knob_restores_those_before(tree: Tree, program: str) -> None:
    before = tree.picture()
    with pytest.raises(knob_module.HostError, match="governor"):
        act(program, turbo="off", governor="warp")
    assert tree.picture() == before


def test_without_the_program_the_role_that_brings_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = str(tmp_path / "pollscope")
    with pytest.raises(knob_module.HostError, match="let the role pollscope_apps install it"):
        act(nowhere, turbo="off")
    # In check mode that role has brought nothing.
    assert act(nowhere, check=True, turbo="off") == ["turbo: -> off, if this host can do it"]
    monkeypatch.setattr(knob_module, "POLICIES", tmp_path / "cpufreq")
    with pytest.raises(knob_module.HostError, match="the kernel sets no frequency on this host"):
        act(nowhere, check=True, governor="performance")
    (tmp_path / "cpufreq/policy0").mkdir(parents=True)
    assert act(nowhere, check=True, governor="performance") == ["governor: -> performance, if this host can do it"]
    monkeypatch.setattr(knob_module, "JOURNAL", tmp_path / "hand.journal")
    assert act(nowhere, state="absent") == []
    (tmp_path / "hand.journal").write_text("")
    with pytest.raises(knob_module.HostError):
        act(nowhere, state="absent")
