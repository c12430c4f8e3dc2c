# SPDX-License-Identifier: BSD-3-Clause
"""Check what a run leaves on a disk that loses power at any moment, whatever the page cache still held.

Every check is made once more with one kind of fsync left out, and has to fail then: each of them is needed.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from power_cut import Call, Disk, LossyDisk, needs_strace, parse, replay, traced
from run_helpers import COMMAND, Cli

SPEC = """\
format: 1
name: power
row: S-F5
title: t
parameters: {generator_receives: false}
factors:
  queues: [1, 2]
  load_of_max: [0 %]
trial: {warmup: 0 ms, window: 10 ms, drain: 0 ms}
repeats: {count: 2}
maximum: {repeats: 1}
collectors: [kernel-load]
"""
Lost = Callable[[Call], bool]


@pytest.fixture(scope="module", autouse=True)
def _strace() -> None:
    needs_strace()


class Recorded:
    """The calls of a whole run, and where it wrote."""

    def __init__(self, folder: Path) -> None:
        cli = Cli(folder)
        self.root = folder / "disk"
        self.root.mkdir()
        command: list[str | Path] = [*COMMAND, "run", cli.spec(SPEC), "--out", self.root / "results"]
        self.calls = traced(command, folder / "calls", folder, cli.environment)
        (self.run,) = (self.root / "results").glob("*/*")

    def check(self, lost: Lost = lambda _: False) -> None:
        """Replay the run; raise AssertionError if a power cut loses data that has to last."""
        begun: list[str] = []
        disk = replay(self.calls, self.root, partial(self._check_call, begun), lost)
        assert len(begun) == 4
        self._check_end(disk)

    def _check_call(self, begun: list[str], call: Call, survivors: tuple[Disk, Disk]) -> None:
        for disk in survivors:
            if str(self.run / "run.json") in disk:
                assert json.loads(disk[str(self.run / "run.json")])["run_id"] == self.run.name
        if call.name != "write" or b'"cmd":"start"' not in call.data:
            return
        for disk in survivors:
            lines = disk[str(self.run / "trials.jsonl")].splitlines()
            assert len([json.loads(line) for line in lines]) == len(begun), "a trial starts while another is not kept"
            assert json.loads(disk[str(self.run / "run.json")])["plan"]
            assert json.loads(disk[str(self.run / "host_states.jsonl")].splitlines()[0])["host_check"] == 0
        begun.append(json.loads(call.data)["trial"])

    def _check_end(self, disk: LossyDisk) -> None:
        lasting = [*self.run.glob("*.json*"), *(self.run / "samples").iterdir()]
        assert {"run.json", "trials.jsonl", "host_states.jsonl"} < {path.name for path in lasting}
        for survivors in disk.survivors():
            for path in lasting:
                assert survivors.get(str(path)) == path.read_bytes(), path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("run"))


def test_a_trial_is_on_the_disk_before_the_next_one_starts(recorded: Recorded) -> None:
    recorded.check()


RUN_JSON, SAMPLES = "run.json.pollscope-new", ".new.parquet"  # before they replace the old files


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "place", ["disk", "results", "power", "RUN", "trials.jsonl", RUN_JSON, "host_states.jsonl", "samples", SAMPLES]
)
def test_every_fsync_of_a_run_is_needed(recorded: Recorded, place: str) -> None:
    def meant(call: Call) -> bool:
        name = Path(call.path).name
        return name.endswith(SAMPLES) if place == SAMPLES else name == (recorded.run.name if place == "RUN" else place)

    assert any(call.name == "fsync" and meant(call) for call in recorded.calls), "nothing to lose"
    with pytest.raises((AssertionError, LookupError, ValueError)):
        recorded.check(meant)


def test_a_call_that_others_interrupted_is_read() -> None:
    """Read two threads, one of which waits, a failed call, one without effect, and every byte of a text."""
    lines = [
        r'7  openat(AT_FDCWD</t>, "a", O_WRONLY|O_CREAT, 0666) = 3</t/a>',
        r'7  write(3</t/a>, "a\"\\\n\0\3770", 7 <unfinished ...>',
        r'8  rename("x", "/t/y") = -1 ENOENT (No such file or directory)',
        r"7  <... write resumed>) = 7",
        r'8  write(5<pipe:[12]>, "{}\n", 3) = 3',
        r"8  fsync(3</t/a>) = 0 (INJECTED)",
        r"8  exit_group(0) = ?",
        r"7  ftruncate(3</t/a>, 2) = 0",
        r'7  rename("a", "../t/b") = 0',
    ]
    assert list(parse(lines, Path("/t"))) == [
        Call("openat", "/t/a", flags=", O_WRONLY|O_CREAT, 0666"),
        Call("write", "/t/a", data=b'a"\\\n\0\xff0'),
        Call("write", "pipe:[12]", data=b"{}\n"),
        Call("truncate", "/t/a", length=2),
        Call("rename", "/t/a", target="/t/b"),
    ]
