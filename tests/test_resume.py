# SPDX-License-Identifier: BSD-3-Clause
"""Check the last lines of a run, and that a run ends well if its table cannot be stored."""

import subprocess
import sys
from pathlib import Path

import pytest
from run_helpers import Cli

LIMITED = """\
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, {bytes}))
from pollscope.cli import main
main(sys.argv[1:])
"""


def limited(cli: Cli, limit_bytes: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LIMITED.format(bytes=limit_bytes), *map(str, arguments)]
    return subprocess.run(
        command, cwd=cli.folder, env=cli.environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.thorough
def test_a_table_that_cannot_be_stored_is_derived_from_the_records(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    assert cli("run", cli.spec()).returncode == 0
    (folder,) = cli.run_folders()
    (folder / "results.parquet").unlink()
    done = limited(cli, 100, "claims", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(folder.glob(".results*"))


def test_a_complete_run_says_so_and_measures_nothing(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    first = cli("run", cli.spec())
    assert first.stderr.strip().splitlines()[-1].startswith("next: pollscope report results/faults/")
    before = cli.only_run()
    done = cli("run", "--resume", "latest")
    assert done.returncode == 0
    assert "is complete; nothing is left to measure" in done.stderr
    assert cli.only_run().trials == before.trials
