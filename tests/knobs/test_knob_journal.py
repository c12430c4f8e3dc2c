# SPDX-License-Identifier: BSD-3-Clause
"""Test the journal file: a file from a crash is read correctly or refused."""

import errno
import json
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollscope.base.errors import HostError, UsageError
from pollscope.host.journal import Content, Entry, Journal, JournalHeader, Phase, load, parse

HEADER = JournalHeader("run test", "0.1.0", 123, 456, "boot", "2026-01-01T00:00:00+00:00")
states = st.text(st.characters(max_codepoint=0xFF), max_size=12)
steps = st.lists(
    st.tuples(st.sampled_from(["set", "done", "restoring", "restored"]), st.sampled_from("abc"), states), max_size=12
)


def write(folder: Path, operations: list[tuple[str, str, str]]) -> tuple[bytes, list[tuple[Entry, ...]]]:
    """Write a journal; return the file and the entries after each line."""
    journal = Journal.create(folder / "run.journal", HEADER)
    model: dict[int, Entry] = {}
    history: list[tuple[Entry, ...]] = [()]
    for kind, target, state in operations:
        entry = journal.find("knob", target)
        if kind == "set":
            entry = journal.set("knob", target, "present " + state, state)
        elif entry is None:
            continue
        elif kind == "done":
            entry = journal.done(entry, state)
        elif kind == "restoring":
            entry = journal.restoring(entry)
        else:
            entry = journal.restored(entry, "written")
        model[entry.number] = entry
        history.append(tuple(model.values()))
    journal.close()
    return (folder / "run.journal").read_bytes(), history


@given(steps, st.data())
def test_any_cut_is_read_as_its_whole_lines(operations: list[tuple[str, str, str]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        content, history = write(Path(folder), operations)
    cut = data.draw(st.integers(0, len(content)))
    parsed = parse(content[:cut])
    lines = content[:cut].count(b"\n")
    assert parsed.entries == (history[lines - 1] if lines else ())
    assert parsed.header == (HEADER if lines else None)
    assert parsed.whole_bytes == content[:cut].rfind(b"\n") + 1


@given(steps)
def test_the_first_state_is_the_one_to_restore(operations: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        content, _ = write(Path(folder), operations)
    first: dict[str, str] = {}
    for line in content.splitlines()[1:]:
        record = json.loads(line)
        number = str(record["entry"])
        if record["event"] == "set":
            assert first.setdefault(number, record["old"]) == record["old"]
    assert {str(entry.number): entry.old for entry in parse(content).entries} == first


@given(st.binary(max_size=300))
def test_foreign_bytes_are_refused_or_hold_nothing(content: bytes) -> None:
    if b"\n" not in content:
        assert parse(content) == Content(None, (), 0)
        return
    with pytest.raises(UsageError) as error:
        parse(content, "file")
    assert str(error.value).startswith("file:")
    assert len(str(error.value).splitlines()) == 1


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["event", "entry", "knob", "target", "old", "new", "found", "how"]),
            st.one_of(
                st.sampled_from(["set", "done", "restoring", "restored"]), st.integers(-1, 3), st.none(), st.floats()
            ),
        ),
        max_size=5,
    )
)
def test_lines_of_wrong_shape_never_crash(records: list[dict[str, object]]) -> None:
    lines = [{"journal": 1, **vars(HEADER)}, *records]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    try:
        entries = parse(content).entries
    except UsageError:
        return
    for entry in entries:
        assert all(isinstance(text, str) for text in (entry.knob, entry.target))


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ('{"event":"done","entry":7,"found":"x"}', "7"),
        ('{"event":"set","entry":2,"knob":"k","target":"t","old":"a","new":"b"}', "out of order"),
        ('{"event":"set","entry":1,"knob":"k","target":5,"old":"a","new":"b"}', "target is int"),
        ('{"event":"dance","entry":1}', "unknown line"),
        ("[]", "unknown line"),
        ("\0\0\0", ""),
    ],
)
def test_a_broken_line_is_named(line: str, word: str) -> None:
    content = json.dumps({"journal": 1, **vars(HEADER)}) + "\n" + line + "\n"
    with pytest.raises(UsageError, match=f"run.journal:2: not a knob journal of format 1.*{word}"):
        parse(content.encode(), "run.journal")


def test_other_format_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown format"):
        parse(json.dumps({"journal": 2, **vars(HEADER)}).encode() + b"\n")


def test_a_torn_line_is_cut_off_before_more_is_added(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    journal = Journal.create(path, HEADER)
    entry = journal.set("k", "t", "old", "new")
    journal.close()
    path.write_bytes(path.read_bytes() + b'{"event":"done","ent')
    journal = Journal.open(path)
    journal.done(entry, "new")
    journal.close()
    assert [entry.phase for entry in load(path).entries] == [Phase.SET]


def test_each_line_is_on_the_disk_before_the_call_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    journal = Journal.create(tmp_path / "knobs" / "run.journal", HEADER)
    assert {str(tmp_path / "knobs" / "run.journal"), str(tmp_path / "knobs"), str(tmp_path)} <= set(synced)
    synced.clear()
    journal.set("k", "t", "old", "new")
    assert synced == [str(tmp_path / "knobs" / "run.journal")]
    journal.close()


def test_a_failed_fsync_leaves_the_journal_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of a change that was given up is in the file: the next one would have its number."""
    path = tmp_path / "run.journal"
    journal = Journal.create(path, HEADER)
    journal.set("knob", "a", "1", "2")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_with_eio)
        with pytest.raises(HostError, match="Input/output error"):
            journal.set("knob", "b", "3", "4")
    journal.set("knob", "c", "5", "6")
    journal.close()
    assert [(entry.target, entry.old) for entry in load(path).pending] == [("a", "1"), ("c", "5")]


def test_a_line_that_cannot_be_taken_back_ends_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.journal"
    journal = Journal.create(path, HEADER)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_with_eio)
        patch.setattr(os, "ftruncate", lambda _descriptor, _length: fail_with_eio(0))
        with pytest.raises(HostError, match="Input/output error"):
            journal.set("knob", "a", "1", "2")
    with pytest.raises(HostError, match="an incomplete line could not be removed"):
        journal.set("knob", "b", "3", "4")
    assert [entry.target for entry in load(path).pending] == ["a"]


def fail_with_eio(_descriptor: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))
