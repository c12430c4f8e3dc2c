# SPDX-License-Identifier: BSD-3-Clause
import subprocess
import sys
from pathlib import Path

import pytest
from knob_tree import Command, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def knob(tmp_path: Path) -> Command:
    """Runs `pollscope knob` on the tree, as a user would."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = "from pollscope.cli import main; main()"
        command = [sys.executable, "-c", program, "knob", "--root", str(tmp_path), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    return run
