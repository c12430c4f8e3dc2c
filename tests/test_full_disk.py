# SPDX-License-Identifier: BSD-3-Clause
"""A disk that takes no more: one line, exit code 3, what is kept is said, and the run goes on when there is room.

A limit on the size of files stands for the full disk: the kernel refuses the write in the middle in the same way.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from run_helpers import Cli, assert_complete

from pollscope.store.run_folder import read_run

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


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Bytes of the files of a run with room for all."""
    cli = Cli(tmp_path_factory.mktemp("whole"))
    assert cli("run", cli.spec()).returncode == 0
    return {path.name: path.stat().st_size for path in cli.run_folders()[0].iterdir()}


@pytest.mark.parametrize("share", [0.05, 0.3, 0.9])
def test_a_full_disk_ends_in_one_line_and_the_run_goes_on(tmp_path: Path, whole: dict[str, int], share: float) -> None:
    cli = Cli(tmp_path)
    spec = cli.spec()
    done = limited(cli, int(share * whole["trials.jsonl"]), "run", spec)
    assert "Traceback" not in done.stderr
    assert done.returncode == 3, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("pollscope: ")
    assert "File too large" in last
    folders = [folder for folder in cli.run_folders() if (folder / "run.json").exists()]
    if not folders:
        assert "nothing was measured yet" in last
        return
    kept = len(read_run(folders[0]).trials)
    assert f"{kept} trial{'s are' if kept != 1 else ' is'} kept; " in last
    assert f"`pollscope run --resume {folders[0].relative_to(tmp_path)}` goes on" in last
    assert not read_run(folders[0]).torn
    assert cli("run", "--resume", folders[0]).returncode == 0
    assert_complete(read_run(folders[0]))


def test_a_table_that_cannot_be_stored_is_read_from_the_facts(tmp_path: Path) -> None:
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
