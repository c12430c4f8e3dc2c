# SPDX-License-Identifier: BSD-3-Clause
"""Test the knob `ddio` end to end, through the real setpci, on a tree of plain files."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from knob_tree import EMULATED_PORT, NIC, PERFCTRLSTS_0, PORT, REGISTER_RESET, Command, Tree

from pollscope.base.errors import HostError
from pollscope.knobs import ChangedUnderUs, KnobSession, NotRestored, NotStuck, Refused, knobs_of
from pollscope.knobs.session import run_journal

pytestmark = pytest.mark.skipif(shutil.which("setpci") is None, reason="setpci is not installed (pciutils)")


def swallow_writes(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str = "exit 0") -> None:
    """Put a setpci in front of the real one that answers reads but ignores writes."""
    script = folder / "bin/setpci"
    script.parent.mkdir()
    script.write_text(
        f'#!/bin/sh\nfor last; do :; done\ncase "$last" in *=*:*) {then};; esac\nexec {shutil.which("setpci")} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")


@pytest.mark.parametrize("target", [PORT, NIC, "17:00.1", "ens1f0", None])
def test_toggle_and_restore(tree: Tree, target: str | None) -> None:
    before = tree.picture()
    with KnobSession("test", tree.host) as session:
        assert session.get("ddio", target) == {PORT: "on"}
        [change] = session.set("ddio", target, "off")
        assert (change.target, change.before, change.after) == (PORT, "on", "off")
        assert tree.register(PORT, PERFCTRLSTS_0) == 0x00183011  # observed on a Skylake port
        session.set("ddio", target, "on")
        assert tree.register(PORT, PERFCTRLSTS_0) == REGISTER_RESET
        session.set("ddio", target, False)  # `off` in a YAML 1.1 file
    assert tree.picture() == before
    assert not run_journal(tree.host).exists()


def test_only_bit_7_is_restored(tree: Tree) -> None:
    with KnobSession("test", tree.host) as session:
        session.set("ddio", NIC, "off")
        tree.poke(PORT, PERFCTRLSTS_0, 0x00183019)  # someone sets bit 3 meanwhile
    assert tree.register(PORT, PERFCTRLSTS_0) == 0x00183099


def test_an_emulated_port_is_set_only_where_that_is_said(tmp_path: Path) -> None:
    tree = Tree(tmp_path, port_id=EMULATED_PORT)
    said = replace(tree.host, emulated=True)
    before = tree.picture()
    with KnobSession("test", tree.host) as session:
        assert session.get("ddio", NIC) == {PORT: "on"}
        with pytest.raises(Refused, match="no DDIO is behind it"):
            session.set("ddio", NIC, "off")
    assert tree.picture() == before
    assert not knobs_of(tree.host)["ddio"].available()
    assert knobs_of(said)["ddio"].available()
    with KnobSession("test", said) as session:
        session.set("ddio", NIC, "off")
        assert tree.register(PORT, PERFCTRLSTS_0) == 0x00183011
    assert tree.picture() == before


def test_an_emulated_port_is_restored_without_being_asked_again(tmp_path: Path, knob: Command) -> None:
    tree = Tree(tmp_path, port_id=EMULATED_PORT)
    before = tree.picture()
    refused = knob("set", "ddio", "off")
    assert refused.returncode == 3
    assert refused.stderr.count("\n") == 1
    assert "pollscope knob --emulated" in refused.stderr
    assert knob("--emulated", "set", "ddio", "off").stdout == f"ddio {PORT}: on -> off\n"
    assert knob("restore").stdout == f"ddio {PORT}: on again\n"
    assert tree.picture() == before


def test_write_that_does_not_stick(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swallow_writes(tmp_path, monkeypatch)
    with pytest.raises(NotStuck, match="asked for off, reads on"), KnobSession("test", tree.host) as session:
        session.set("ddio", NIC, "off")
    assert tree.register(PORT, PERFCTRLSTS_0) == REGISTER_RESET
    assert not run_journal(tree.host).exists()  # nothing to restore, and the next run may start


def test_device_gone_before_the_write(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swallow_writes(tmp_path, monkeypatch, then=f"rm -r {tree.config(PORT).parent}; exit 0")
    with pytest.raises(HostError, match="no such PCI device"), KnobSession("test", tree.host) as session:
        session.set("ddio", NIC, "off")
    assert run_journal(tree.host).exists()


def test_device_gone_before_the_restore(tree: Tree) -> None:
    folder = tree.config(PORT).parent
    away = tree.root / "away"
    with pytest.raises(NotRestored, match="no such PCI device"), KnobSession("test", tree.host) as session:  # noqa: PT012 - the error comes when the session ends
        session.set("ddio", NIC, "off")
        folder.rename(away)
    away.rename(folder)
    with KnobSession("test", tree.host, restore_first=True) as session:
        assert [str(outcome) for outcome in session.restored_first] == [f"ddio {PORT}: on again"]
    assert tree.register(PORT, PERFCTRLSTS_0) == REGISTER_RESET


def test_device_that_answers_all_ones(tree: Tree) -> None:
    with pytest.raises(NotRestored, match="all ones"), KnobSession("test", tree.host) as session:  # noqa: PT012 - the error comes when the session ends
        session.set("ddio", NIC, "off")
        tree.config(PORT).write_bytes(b"\xff" * 4096)
    assert tree.config(PORT).read_bytes() == b"\xff" * 4096


def test_changed_under_us_is_reported_and_not_overwritten(tree: Tree) -> None:
    with KnobSession("test", tree.host) as session:
        session.set("ddio", NIC, "off")
        tree.poke(PORT, PERFCTRLSTS_0, REGISTER_RESET)
        with pytest.raises(ChangedUnderUs, match="we set off, now on"):
            session.set("ddio", NIC, "off")


def test_command_line(tree: Tree, knob: Command) -> None:
    assert knob("get", "ddio").stdout == f"{PORT} on\n"
    done = knob("set", "ddio", "off", "--target", "ens1f0")
    assert (done.returncode, done.stdout) == (0, f"ddio {PORT}: on -> off\n")
    assert tree.register(PORT, PERFCTRLSTS_0) == 0x00183011
    assert f"{PORT} was on before pollscope" in knob("list").stdout
    done = knob("restore")
    assert (done.returncode, done.stdout) == (0, f"ddio {PORT}: on again\n")
    assert tree.register(PORT, PERFCTRLSTS_0) == REGISTER_RESET
