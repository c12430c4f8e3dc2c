# SPDX-License-Identifier: BSD-3-Clause
"""Check what the journal of knobs leaves on a disk that loses power at any moment, whatever the page cache held.

Every check is made once more with one kind of fsync left out, and has to fail then: each of them is needed.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from knob_tree import Tree
from power_cut import WRITES, Call, Disk, needs_strace, replay, traced

from pollscope.host.journal import Phase, parse

Lost = Callable[[Call], bool]


@pytest.fixture(scope="module", autouse=True)
def _strace() -> None:
    needs_strace()


class Turned:
    """The calls of `pollscope knob set` and `restore` on a tree of files."""

    COMMANDS = (["set", "governor", "performance"], ["set", "ddio", "off"], ["restore"])
    PROGRAM = """\
import json, sys
from pollscope.cli import main
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as end:
        assert not end.code
"""

    def __init__(self, folder: Path) -> None:
        self.root = Tree(folder / "tree").root
        self.journal = str(self.root / "state/knobs/hand.journal")
        words = json.dumps([["knob", "--root", str(self.root), *command] for command in self.COMMANDS])
        self.calls = traced([sys.executable, "-c", self.PROGRAM, words], folder / "calls", folder, os.environ)

    def check(self, lost: Lost = lambda _: False) -> None:
        """Replay the commands; raise AssertionError if a power cut leaves a knob that cannot be restored."""
        written: list[str] = []
        disk = replay(self.calls, self.root, partial(self._check_call, written), lost)
        assert sorted(written) == sorted(["governor"] * 8 + ["ddio"] * 2), "set and restored"
        assert not any(self.journal in survivors for survivors in disk.survivors()), "restored, and pending"

    def _check_call(self, written: list[str], call: Call, survivors: tuple[Disk, Disk]) -> None:
        if call.name not in WRITES or not call.path.startswith(f"{self.root}/sys/"):
            return
        file = Path(call.path)
        knob = "ddio" if file.name == "config" else "governor"
        for disk in survivors:
            pending = [each for each in parse(disk[self.journal]).pending if each.target == file.parent.name]
            assert [(each.knob, each.phase) for each in pending] == [(knob, Phase.WRITING)]
            assert pending[0].old == {"governor": "powersave\n\0balance_performance\n", "ddio": "on"}[knob]
        written.append(knob)


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Turned:
    return Turned(tmp_path_factory.mktemp("knobs"))


def test_the_old_state_of_a_knob_is_on_the_disk_before_it_is_set_and_until_it_is_restored(turned: Turned) -> None:
    turned.check()


@pytest.mark.parametrize("name", ["tree", "state", "knobs", "hand.journal"])
def test_every_fsync_of_the_journal_is_needed(turned: Turned, name: str) -> None:
    assert any(call.name == "fsync" and Path(call.path).name == name for call in turned.calls), "nothing to lose"
    with pytest.raises((AssertionError, LookupError)):
        turned.check(lambda call: Path(call.path).name == name)
