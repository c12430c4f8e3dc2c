# SPDX-License-Identifier: BSD-3-Clause
"""Check that a restore continues, whatever one knob raises."""

from pathlib import Path
from typing import Any

import pytest

from pollscope.host.journal import Journal, JournalHeader
from pollscope.host.restore import Restorer, Setting


class Held(Setting):
    """A state in memory; one target raises an error of the program, not of the host."""

    def __init__(self) -> None:
        self.states = {"first": "new", "second": "new", "third": "new"}

    def read(self, target: str) -> Any:
        if target == "second":
            raise ValueError("invalid literal for int()")
        return self.states[target]

    def write(self, target: str, state: Any) -> None:
        self.states[target] = state


@pytest.mark.parametrize("dry", [False, True])
def test_an_unexpected_error_of_one_entry_leaves_the_others_restored(tmp_path: Path, dry: bool) -> None:
    path, held = tmp_path / "knobs.journal", Held()
    header = JournalHeader("run x", "0.1.0", 1, 1, "this boot", "2026-01-01T00:00:00Z")
    journal = Journal.create(path, header)
    for target in held.states:
        journal.done(journal.set("held", target, "old", "new"), "new")
    journal.close()
    results = {result.target: result for result in Restorer({"held": held}, "this boot", dry=dry).restore(path)}
    assert {target: result.restored for target, result in results.items()} == {
        "first": True,
        "second": False,
        "third": True,
    }
    assert "cannot be restored (invalid literal" in results["second"].text
    if not dry:
        assert held.states == {"first": "old", "second": "new", "third": "old"}
        assert [entry.target for entry in Journal.open(path).pending] == ["second"]
