# SPDX-License-Identifier: BSD-3-Clause
"""Test places that cannot be written, and a disk that fills during a run: one line, and a readable run folder."""

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from run_helpers import Cli, assert_complete

from pollscope.analysis.figures.files import Target, save
from pollscope.analysis.page import write_page
from pollscope.base.errors import HostError
from pollscope.base.replacing import written
from pollscope.collectors.sample import Kind, SourceSample, write_samples
from pollscope.store.run_folder import read_run

DISK_BYTES = 4 << 20
NO_SPACE = "No space left on device"
FULL = pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted, which needs root")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    (tmp_path / "file").touch()
    return Cli(tmp_path)


@pytest.fixture
def disk(cli: Cli) -> Iterator[Path]:
    """Mount a small disk where run folders are made."""
    folder = cli.folder / "results"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path, but_bytes: int) -> Path:
    path, usage = disk / "filler", os.statvfs(disk)
    path.write_bytes(bytes(max(0, usage.f_bavail * usage.f_frsize - but_bytes)))
    return path


@pytest.mark.one_in(3)
@pytest.mark.parametrize("place", ["file/results", "/proc/nowhere", "/dev/full"])
def test_a_run_folder_that_cannot_be_made_is_one_line(cli: Cli, place: str) -> None:
    done = cli.ends(3, "run", cli.spec(), "--out", place)
    assert len(done.stderr.splitlines()) == 1
    assert place in done.stderr


@pytest.mark.one_in(3)
@pytest.mark.parametrize("place", ["file/samples.csv", "/proc/samples.jsonl", "/proc/samples.parquet"])
def test_samples_that_cannot_be_written(cli: Cli, place: str) -> None:
    """The error comes before they are recorded."""
    done = cli.ends(3, "collect", "kernel-load", "--seconds", "3600", "--out", place)
    assert len(done.stderr.splitlines()) == 1
    assert "(choose another file with --out)" in done.stderr
    assert f"{place}: cannot be written: " in done.stderr


@pytest.mark.one_in(4)
@FULL
@pytest.mark.parametrize("kib", [0, 8, 262, 270, 285, 300])
def test_a_full_disk_ends_a_run_in_one_line_and_resume_completes_it(cli: Cli, disk: Path, kib: int) -> None:
    """Wherever it fills: before the folder is made, with it, between trials, with the last one."""
    filler = fill(disk, kib << 10)
    done = cli.ends(3, "run", cli.spec())
    assert NO_SPACE in done.stderr.splitlines()[-1]
    folders = list(disk.glob("*/*"))
    if not folders:
        return
    run = read_run(folders[0])
    assert run.meta["status"] in ("failed", "complete"), "it does not seem to run any more"
    assert not run.torn
    kept = len(run.trials)
    assert f"{kept} trial{'s are' if kept != 1 else ' is'} kept; `pollscope run --resume" in done.stderr
    assert cli.nodes_alive() == []
    filler.unlink()
    cli.ends(0, "run", "--resume", folders[0])
    assert_complete(read_run(folders[0]))
    assert (folders[0] / "results.parquet").exists()
    assert not list(folders[0].glob(".*"))


@pytest.mark.one_in(2)
@FULL
@pytest.mark.parametrize("kib", [330, 400])
def test_a_full_disk_under_collectors(cli: Cli, disk: Path, kib: int) -> None:
    filler = fill(disk, kib << 10)
    done = cli.ends(3, "run", cli.spec(), "--set", "collectors=[{name: kernel-load, interval: 10 ms}]")
    assert NO_SPACE in done.stderr.splitlines()[-1]
    (folder,) = disk.glob("*/*")
    assert json.loads((folder / "run.json").read_text())["status"] == "failed"
    filler.unlink()
    cli.ends(0, "run", "--resume", folder)
    assert_complete(read_run(folder))


@pytest.mark.thorough
@FULL
def test_collected_samples_survive_a_full_disk(cli: Cli, disk: Path) -> None:
    """Hours may be in it."""
    fill(disk, 0)
    words = "collect", "kernel-load", "--seconds", "0.5", "--interval", "0.1", "--out"
    done = cli.ends(3, *words, disk / "samples.csv")
    (line,) = done.stderr.splitlines()
    found = re.search(rf"{NO_SPACE} \(the recordings are kept: pollscope collect NAME --replay (.*)/NAME.raw", line)
    assert found, line
    raw = Path(found[1])
    cli.ends(0, *words, cli.folder / "samples.csv", "--replay", raw / "kernel-load.raw")
    assert "steal_ticks" in (cli.folder / "samples.csv").read_text()
    shutil.rmtree(raw)


@pytest.mark.thorough
@FULL
def test_a_table_that_cannot_be_stored_is_derived_from_the_records(cli: Cli, disk: Path) -> None:
    folder = cli.ran(cli.spec()).path
    (folder / "results.parquet").unlink()
    fill(disk, 0)
    assert cli.ends(0, "claims", folder).stderr == ""
    assert not list(folder.glob(".results*"))


@FULL
def test_no_part_of_a_page_or_of_a_figure_stays_on_a_full_disk(disk: Path) -> None:
    """A picture that is cut off looks like one in a listing."""
    (disk / "figure.svg").write_text("the old picture")
    samples = [SourceSample(n, "s", "u", "m", math.sin(n), "1", Kind.GAUGE, "") for n in range(3000)]
    fill(disk, 8192)
    with pytest.raises(HostError, match=r"r\.html: cannot be written: No space left on device \(choose another file"):
        write_page("x" * 100_000, disk / "r.html")
    with pytest.raises(HostError, match="cannot be written: No space left on device"):
        save(Figure(), "words", [{"a": 1}], Target(disk, "figure", ("svg",)))
    for suffix in ("csv", "jsonl", "parquet"):
        refusal = pytest.raises(HostError, match=rf"s\.{suffix}: cannot be written: No space left on device \(choose")
        with refusal, written(disk / f"s.{suffix}") as new:
            write_samples(new, samples)
    assert sorted(path.name for path in disk.iterdir()) == ["figure.csv", "figure.svg", "filler"]
    assert (disk / "figure.svg").read_text() == "the old picture"
