# SPDX-License-Identifier: BSD-3-Clause
from functools import partial
from pathlib import Path

import pytest
from command_line import pollscope
from knob_tree import Command, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def knob(tmp_path: Path) -> Command:
    """Run `pollscope knob` on the tree, as a user would."""

    return partial(pollscope, "knob", "--root", tmp_path, cwd=tmp_path)
