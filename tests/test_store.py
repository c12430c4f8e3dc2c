# SPDX-License-Identifier: BSD-3-Clause
import gzip
import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pollscope.base.errors import DiskError, HostError, UsageError
from pollscope.store import writer
from pollscope.store.results_table import last_attempts
from pollscope.store.run_folder import read_run
from pollscope.store.trial_record import TrialRecord
from pollscope.store.writer import RESERVE_BYTES, RunWriter, new_run_id

RUNS = Path(__file__).resolve().parent.parent
META = {"run_id": "r", "spec_name": "x", "row": "S-F5", "spec": {}, "testbed": {"name": "loopback"}}
RECORD = {
    "trial": "a",
    "point": "p",
    "repeat": 0,
    "kind": "measure",
    "status": "ok",
    "factors": {},
    "testbed": "loopback",
    "modelled": False,
}


def made(folder: Path, *names: str) -> Path:
    with RunWriter.create(folder, META) as writer:
        for name in names:
            writer.append({**RECORD, "trial": name})
    return folder


def test_stored_trials_are_read_back(tmp_path: Path) -> None:
    run = read_run(made(tmp_path / "run", "a", "b"))
    assert run.meta["format"] == 1
    assert [trial["trial"] for trial in run.trials] == ["a", "b"]
    assert not run.torn


def packed(folder: Path) -> Path:
    """Compress the trials of a run."""
    plain = folder / "trials.jsonl"
    plain.with_suffix(".jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    return folder


def test_compressed_trials_are_read_and_never_continued(tmp_path: Path) -> None:
    run, compressed = read_run(made(tmp_path / "run", "a", "b")), packed(made(tmp_path / "packed", "a", "b"))
    assert read_run(compressed).trials == run.trials
    with pytest.raises(UsageError, match=r"trials are compressed \(gunzip "):
        RunWriter.resume(compressed)
    assert not (compressed / "trials.jsonl").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda _: gzip.compress(bytes(10**8)), "expands to more than 100 times its size"),
        (lambda _: b"{}\n", "is not gzip data"),
    ],
)
def test_a_hostile_compressed_file_is_refused(tmp_path: Path, change: Callable[[bytes], bytes], reason: str) -> None:
    file = packed(made(tmp_path / "run", "a")) / "trials.jsonl.gz"
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(UsageError, match=reason):
        read_run(file.parent)


def test_compressed_trials_that_are_cut_off_end_like_a_torn_line(tmp_path: Path) -> None:
    file = packed(made(tmp_path / "run", *map(str, range(200)))) / "trials.jsonl.gz"
    file.write_bytes(file.read_bytes()[:-60])
    run = read_run(file.parent)
    assert run.torn and 0 < len(run.trials) < 200


@pytest.mark.parametrize("folder", [file.parent for file in RUNS.glob("data/runs/*/run.json")], ids=str)
def test_recorded_trials_lose_nothing_in_the_model(folder: Path) -> None:
    for line in read_run(folder).trials:
        assert json.loads(json.dumps(TrialRecord.from_json(line, str(folder)).to_json())) == line


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"kind": "other"}, "kind: "), ({"repeat": "0"}, "repeat: "), ({"status": "great"}, "status: ")],
)
def test_a_line_that_is_no_trial_is_refused_in_one_line(change: dict[str, object], reason: str) -> None:
    with pytest.raises(UsageError, match=f"^trials.jsonl: trial a: {reason}"):
        TrialRecord.from_json({**RECORD, "params": {}, **change}, "trials.jsonl")


def test_run_ids_are_dated_and_differ() -> None:
    assert re.fullmatch(r"\d{8}T\d{6}Z-[0-9a-f]{6}", new_run_id())
    assert len({new_run_id() for _ in range(20)}) == 20


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_set_up_that_fails_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "run", "a")

    def fails(_path: Path) -> None:
        raise DiskError("broken")

    monkeypatch.setattr(writer, "sync_folder", fails)
    before = open_files()
    with pytest.raises(DiskError, match="broken"):
        RunWriter.create(tmp_path / "new", META)
    with pytest.raises(DiskError, match="broken"):
        RunWriter.resume(tmp_path / "run")
    assert open_files() == before


def test_a_failed_attempt_does_not_replace_data() -> None:
    """A flagged trial is measured again, and the second time its node is lost."""
    flagged: dict[str, object] = {"trial": "a", "status": "flagged"}
    other: dict[str, object] = {"trial": "b", "status": "ok"}
    failed: dict[str, object] = {"trial": "a", "status": "failed"}
    assert last_attempts([flagged, failed, other]) == [flagged, other]
    assert last_attempts([failed, flagged]) == [flagged]
    assert last_attempts([failed, dict(failed, reason="again")]) == [dict(failed, reason="again")]


def test_a_folder_is_never_overwritten(tmp_path: Path) -> None:
    made(tmp_path / "run")
    with pytest.raises(UsageError, match="already there"):
        RunWriter.create(tmp_path / "run", META)


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_torn_last_line_is_dropped(tmp_path: Path, cut: int) -> None:
    folder = made(tmp_path / "run", "a", "b")
    path = folder / "trials.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    run = read_run(folder)
    assert run.torn
    with RunWriter.resume(folder) as writer:
        assert writer.torn
        writer.append({**RECORD, "trial": "c"})
    assert [trial["trial"] for trial in read_run(folder).trials] == ["a", "c"]


def test_a_whole_file_is_not_torn(tmp_path: Path) -> None:
    folder = made(tmp_path / "run", "a")
    with RunWriter.resume(folder) as writer:
        assert not writer.torn
    assert len(read_run(folder).trials) == 1


@pytest.mark.parametrize("level", ["many", "10", 10**400, [1], None])
def test_a_level_that_has_to_be_a_number_is_refused(tmp_path: Path, level: object) -> None:
    with RunWriter.create(tmp_path / "run", META) as writer:
        writer.append({**RECORD, "factors": {"frame": "imix", "load_pps": 1e6, "queues": level}})
    with pytest.raises(UsageError, match=r"line 1: factors: .* queues is .*, not a number"):
        read_run(tmp_path / "run")


def test_a_run_has_one_writer_at_a_time(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", META) as first:
        first.append(RECORD)
        writer = f"pid {os.getpid()} on {socket.gethostname()}, since 2"
        with pytest.raises(HostError, match=f"another process writes this run: {writer}"):
            RunWriter.resume(tmp_path / "run")
        assert (tmp_path / "run/.reserve").stat().st_size == RESERVE_BYTES
    RunWriter.resume(tmp_path / "run").close()
    assert len(read_run(tmp_path / "run").trials) == 1


def test_run_json_is_replaced_as_a_whole(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", META) as writer:
        before = (tmp_path / "run/run.json").stat().st_ino
        writer.update(status="complete")
    assert (tmp_path / "run/run.json").stat().st_ino != before
    assert json.loads((tmp_path / "run/run.json").read_text())["status"] == "complete"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["run.json", "trials.jsonl"]


def test_values_that_are_no_numbers_are_not_stored(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", META) as writer, pytest.raises(ValueError, match="JSON compliant"):
        writer.append({**RECORD, "value": float("nan")})
