# SPDX-License-Identifier: BSD-3-Clause
"""Run six fixed rounds of the fuzz target for run folders; `make fuzz` draws others for longer."""

import subprocess
import sys
from pathlib import Path

FUZZER = Path(__file__).parent / "fuzz" / "fuzz_runs.py"


def test_damaged_and_hostile_runs_do_no_harm() -> None:
    """In a process of its own, because the fuzzer's audit hook cannot be removed again."""
    command = [sys.executable, str(FUZZER), "--rounds", "6", "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "6 rounds, " in done.stdout
