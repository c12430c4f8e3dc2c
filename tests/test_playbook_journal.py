# SPDX-License-Identifier: BSD-3-Clause
"""Check that roles restore state exactly: the journal is written first, values are read back, nothing is half set."""

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import playbook_modules
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollscope.host.lock import HostLock

journal = playbook_modules.load("pollscope_journal")
kinds = playbook_modules.load("pollscope_kinds")


class Memory(journal.Setting):  # type: ignore[misc, name-defined]  # loaded while it runs
    """State in a dict; writing has no effect on `broken` targets and raises for `refusing` ones."""

    def __init__(self, values: dict[str, Any], journal_file: Path | None = None) -> None:
        self.values, self.journal_file = dict(values), journal_file
        self.broken: set[str] = set()
        self.refusing: set[str] = set()
        self.seen: list[Any] = []

    def read(self, target: str) -> Any:
        return self.values[target]

    def write(self, target: str, state: Any) -> None:
        if self.journal_file is not None and self.journal_file.exists():
            entries = journal.load(self.journal_file).pending
            self.seen.append([(each.target, each.old, each.phase) for each in entries])
        if target in self.refusing and state not in (0, "old"):
            raise journal.HostError(f"{target} refuses")
        if target not in self.broken:
            self.values[target] = state


def ledger(path: Path, kind: Any, boot: str = "first") -> Any:
    return journal.Ledger(path / "state/playbooks/x.journal", {"memory": kind}, boot)


def items(**wanted: Any) -> list[Any]:
    return [journal.Item("memory", target, value) for target, value in wanted.items()]


def test_sets_once_and_restores(tmp_path: Path) -> None:
    kind = Memory({"a": 0, "b": 0})
    assert ledger(tmp_path, kind).converge(items(a=1, b=0)) == ["a: 0 -> 1"]
    assert ledger(tmp_path, kind).converge(items(a=1, b=0)) == []
    assert ledger(tmp_path, kind).differences(items(a=1)) == []
    assert ledger(tmp_path, kind).restore() == ["a: 0 again"]
    assert kind.values == {"a": 0, "b": 0}
    assert not (tmp_path / "state").exists(), "journal and its folders are gone"
    assert ledger(tmp_path, kind).restore() == []


def test_the_journal_is_on_the_disk_before_the_first_write(tmp_path: Path) -> None:
    kind = Memory({"a": 5}, tmp_path / "state/playbooks/x.journal")
    ledger(tmp_path, kind).converge(items(a=6))
    assert kind.seen == [[("a", 5, "writing")]]


def test_check_mode_changes_nothing(tmp_path: Path) -> None:
    kind = Memory({"a": 0})
    assert ledger(tmp_path, kind).converge(items(a=1), dry=True) == ["a: 0 -> 1"]
    assert kind.values == {"a": 0}
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("how", ["broken", "refusing"])
def test_an_interrupted_change_is_undone(tmp_path: Path, how: str) -> None:
    kind = Memory({"a": 0, "b": 0})
    getattr(kind, how).add("b")
    with pytest.raises(journal.HostError, match=r"^b\b"):
        ledger(tmp_path, kind).converge(items(a=1, b=1))
    assert kind.values == {"a": 0, "b": 0}
    assert not (tmp_path / "state").exists()


def test_a_failed_second_change_keeps_the_first_old_value(tmp_path: Path) -> None:
    kind = Memory({"a": 0, "b": 0})
    ledger(tmp_path, kind).converge(items(a=1))
    kind.refusing.add("b")
    with pytest.raises(journal.HostError):
        ledger(tmp_path, kind).converge(items(a=2, b=1))
    assert kind.values == {"a": 1, "b": 0}
    ledger(tmp_path, kind).restore()
    assert kind.values == {"a": 0, "b": 0}


def test_an_item_that_is_no_longer_wanted_is_restored(tmp_path: Path) -> None:
    kind = Memory({"a": 0, "b": 0})
    ledger(tmp_path, kind).converge(items(a=1, b=1))
    assert ledger(tmp_path, kind).converge(items(a=1)) == ["b: 0 again"]
    assert kind.values == {"a": 1, "b": 0}


def test_changes_of_others_stay_and_the_rest_is_restored(tmp_path: Path) -> None:
    kind = Memory({"a": 0, "b": 0})
    ledger(tmp_path, kind).converge(items(a=1, b=1))
    kind.values["a"] = 7
    with pytest.raises(journal.HostError, match="a: changed by someone else: was 0, we set 1, now 7"):
        ledger(tmp_path, kind).restore()
    assert kind.values == {"a": 7, "b": 0}
    kind.values["a"] = 1
    ledger(tmp_path, kind).restore()
    assert kind.values == {"a": 0, "b": 0}


def test_a_write_that_was_cut_off_is_restored_whatever_the_value(tmp_path: Path) -> None:
    kind = Memory({"a": 0})
    ledger(tmp_path, kind).converge(items(a=1))
    path = tmp_path / "state/playbooks/x.journal"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    kind.values["a"] = 99
    ledger(tmp_path, kind).restore()
    assert kind.values == {"a": 0}


@pytest.mark.parametrize("holder", ["kernel", "disk"])
def test_state_that_a_reboot_undid_is_not_restored(tmp_path: Path, holder: str) -> None:
    kind = Memory({"a": 0})
    kind.holder = holder
    ledger(tmp_path, kind).converge(items(a=1))
    kind.values["a"] = 1 if holder == "disk" else 5
    ledger(tmp_path, kind, boot="second").restore()
    assert kind.values == {"a": 0 if holder == "disk" else 5}


def test_after_a_reboot_the_old_value_is_read_again(tmp_path: Path) -> None:
    kind = Memory({"a": 0})
    ledger(tmp_path, kind).converge(items(a=1))
    kind.values["a"] = 4
    ledger(tmp_path, kind, boot="second").converge(items(a=1))
    ledger(tmp_path, kind, boot="second").restore()
    assert kind.values == {"a": 4}


@settings(deadline=None, max_examples=40)  # each step waits for the disk
@given(
    st.lists(
        st.one_of(
            st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), min_size=1),
            st.just("restore"),
            st.sampled_from("abc"),
        ),
        max_size=8,
    )
)
def test_any_sequence_ends_as_it_began(steps: list[Any]) -> None:
    """Converge, at times with a target that refuses, and restore in any order. The last restore restores everything."""
    with tempfile.TemporaryDirectory() as name:
        kind = Memory({"a": 0, "b": 0, "c": 0})
        for step in steps:
            kind.refusing = {step} if isinstance(step, str) and len(step) == 1 else set()
            wanted = step if isinstance(step, dict) else {"a": 2, "b": 3, "c": 1}
            before = dict(kind.values)
            try:
                if step == "restore":
                    ledger(Path(name), kind).restore()
                else:
                    ledger(Path(name), kind).converge(items(**wanted))
            except journal.HostError:
                assert kind.values == before
        kind.refusing = set()
        ledger(Path(name), kind).restore()
        assert kind.values == {"a": 0, "b": 0, "c": 0}
        assert not any(Path(name).iterdir())


@pytest.mark.parametrize("text", ["[]\n", "{}\n", '{"journal": 2, "entries": []}\n', '{"entries": 5, "journal": 1}x\n'])
def test_a_broken_journal_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.journal"
    path.write_text(text)
    with pytest.raises(journal.PollscopeError, match=r"x\.journal.*journal"):
        journal.Ledger(path, {}, "boot").restore()
    assert path.read_text() == text


def play(state: str, kind: Memory, *wanted: Any, check: bool = False) -> list[str]:
    module = SimpleNamespace(params={"state": state, "journal": "x"}, check_mode=check)
    found: list[str] = journal.run_state(module, {"memory": kind}, wanted)
    return found


def test_a_play_with_nothing_to_change_leaves_a_run_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path))
    kind = Memory({"a": 0, "b": 0})
    assert play("present", kind, *items(a=1))
    with HostLock("run S-F5"):
        assert play("present", kind, *items(a=1)) == []
        assert play("present", kind, *items(a=1, b=1), check=True) == ["b: 0 -> 1"]
        assert play("absent", kind, check=True) == ["a: 0 again"]
        for state, wanted in (("present", items(b=1)), ("present", []), ("absent", [])):
            with pytest.raises(journal.HostError, match=r"in use by .*run S-F5"):
                play(state, kind, *wanted)
        assert kind.values == {"a": 1, "b": 0}
    assert play("absent", kind) == ["a: 0 again"]
    with HostLock("run S-F5"):
        assert play("absent", kind) == []


def test_a_play_that_finishes_one_that_was_cut_off_takes_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path))
    kind = Memory({"a": 0})
    entries = journal.Journal.open_or_create(journal.journal_path("x"), journal.header(journal.boot_id()))
    entries.set("memory", "a", 0, 1, journal.boot_id())
    entries.close()
    kind.values["a"] = 0
    with HostLock("run S-F5"), pytest.raises(journal.HostError, match="in use by"):
        play("absent", kind)
    assert play("absent", kind) == []
    assert not journal.pending("x")


@settings(max_examples=40, deadline=None)
@given(
    before=st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3)),
    then=st.dictionaries(st.sampled_from("abcd"), st.integers(1, 3)),
)
def test_a_play_that_failed_keeps_changes_of_earlier_plays(before: dict[str, int], then: dict[str, int]) -> None:
    with tempfile.TemporaryDirectory() as name:
        kind = Memory(dict.fromkeys("abcd", 0))
        first = ledger(Path(name), kind)
        first.converge(items(**before))
        values, entries = dict(kind.values), journal.load(first.path).pending
        ledger(Path(name), kind).converge(items(**then))
        ledger(Path(name), kind).undo(entries)
        assert kind.values == values
        states = {each.target: (each.old, each.new) for each in journal.load(first.path).pending}
        assert states == {each.target: (each.old, each.new) for each in entries}
        ledger(Path(name), kind).restore()
        assert set(kind.values.values()) == {0}


def test_state_that_cannot_be_set_again_is_reported_and_the_rest_is_set(tmp_path: Path) -> None:
    kind = Memory({"a": 0, "b": 0})
    ledger(tmp_path, kind).converge(items(a=1, b=1))
    entries = journal.load(ledger(tmp_path, kind).path).pending
    ledger(tmp_path, kind).converge(items(a=2, b=2))
    kind.refusing.add("a")
    with pytest.raises(journal.HostError, match="a: a refuses"):
        ledger(tmp_path, kind).undo(entries)
    assert kind.values == {"a": 2, "b": 1}


def test_files_folders_and_links_are_restored(tmp_path: Path) -> None:
    old = tmp_path / "old.conf"
    old.write_text("before\n")
    old.chmod(0o640)
    (tmp_path / "link").symlink_to("a")
    wanted = [
        journal.Item("folder", str(tmp_path / "new"), True),
        journal.Item("file", str(tmp_path / "new/file"), {"text": "x", "mode": 0o600}),
        journal.Item("file", str(old), {"text": "after\n", "mode": 0o644}),
        journal.Item("link", str(tmp_path / "link"), "b"),
    ]
    path = tmp_path / "state/playbooks/x.journal"
    assert len(journal.Ledger(path, kinds.common_kinds(), "boot").converge(wanted)) == 4
    assert (old.read_text(), (tmp_path / "link").readlink()) == ("after\n", Path("b"))
    journal.Ledger(path, kinds.common_kinds(), "boot").restore()
    assert (old.read_text(), old.stat().st_mode & 0o777) == ("before\n", 0o640)
    assert (tmp_path / "link").readlink() == Path("a")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "old.conf"]


def test_a_folder_with_files_of_others_stays(tmp_path: Path) -> None:
    path, folder = tmp_path / "x.journal", tmp_path / "new"
    journal.Ledger(path, kinds.common_kinds(), "b").converge([journal.Item("folder", str(folder), True)])
    (folder / "theirs").write_text("")
    journal.Ledger(path, kinds.common_kinds(), "b").restore()
    assert (folder / "theirs").exists()
    assert not path.exists()


def test_idle_states_by_latency(tmp_path: Path) -> None:
    for cpu in ("cpu0", "cpu1"):
        for number, latency in enumerate((0, 2, 133)):
            folder = tmp_path / f"sys/devices/system/cpu/{cpu}/cpuidle/state{number}"
            folder.mkdir(parents=True)
            (folder / "latency").write_text(f"{latency}\n")
            (folder / "disable").write_text("0\n")
    (tmp_path / "sys/devices/system/cpu/cpu1/cpuidle/state1/disable").write_text("1\n")
    kind = kinds.CStateSwitches(tmp_path)
    before = kind.read("")
    lines = journal.Ledger(tmp_path / "x.journal", {"c": kind}, "b").converge([journal.Item("c", "idle", 2)])
    assert lines == ["idle: 1 of 6 off -> at most 2 us"]
    assert [name for name, value in kind.read("").items() if value == "1"] == ["cpu0/state2", "cpu1/state2"]
    journal.Ledger(tmp_path / "x.journal", {"c": kind}, "b").restore()
    assert kind.read("") == before
    with pytest.raises(journal.HostError, match="no idle states"):
        kinds.CStateSwitches(tmp_path / "empty").read("")


@given(st.sets(st.integers(0, 200)))
def test_lists_of_cpus_are_sets(cpus: set[int]) -> None:
    assert kinds.cpus_of(",".join(map(str, sorted(cpus)))) == cpus
    if cpus:
        assert kinds.cpus_of(f"{min(cpus)}-{max(cpus)}\n") == set(range(min(cpus), max(cpus) + 1))


@given(st.text(alphabet="0123456789,-x ", max_size=12))
def test_any_text_is_a_list_of_cpus_or_refused(text: str) -> None:
    try:
        found = kinds.cpus_of(text)
    except journal.HostError:
        return
    assert found <= set(range(kinds.MOST_CPUS + 1))
