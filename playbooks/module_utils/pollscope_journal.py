# SPDX-License-Identifier: BSD-3-Clause
"""What a role changes on a host: old value into a journal, journal to the disk, set, read back; and given back exactly.

A journal is a file `/var/lib/pollscope/playbooks/NAME.json` on the host that is changed (in
`$POLLSCOPE_STATE_DIR/playbooks/` if that is set there):

    {"journal": 1, "entries": [{"kind": "file", "target": "/etc/x", "old": null, "new": {..}, "found": {..},
                                "boot_id": ".."}]}

An entry whose `found` is null was cut off between the journal and the read-back: whatever stands there, `old` is put
back. The file is removed with its last entry.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STATE_VARIABLE = "POLLSCOPE_STATE_DIR"  # as in pollscope/hostlock.py
FORMAT = 1


class Refused(Exception):
    """This host cannot do it, or is not as the journal says; the message is one line that says what to do."""


class Kind:
    """One kind of state: a file, a kernel module, ... A state is anything that JSON holds; None stands for absent.

    Attributes:
        volatile: whether a reboot takes the state back.
    """

    volatile = True

    def read(self, target: str) -> Any:
        """The present state.

        Raises:
            Refused: it cannot be read, or this host has no such thing.
        """
        raise NotImplementedError

    def write(self, target: str, state: Any) -> None:
        """Makes this the state; the caller reads it back.

        Raises:
            Refused, OSError: it was not taken.
        """
        raise NotImplementedError

    def same(self, found: Any, wanted: Any) -> bool:
        """Whether a state that was read is the wanted one."""
        return bool(found == wanted)

    def given_back(self, found: Any, old: Any) -> bool:
        """Whether a state that was read after giving back is good enough."""
        return bool(found == old)

    def show(self, state: Any) -> str:
        """A state for people."""
        return "absent" if state is None else str(state)


class Item:
    """One piece of state that is wanted."""

    def __init__(self, kind: str, target: str, wanted: Any) -> None:
        self.kind, self.target, self.wanted = kind, target, wanted


class Journal:
    """The entries of one journal; every change is on the disk (file and folder) when the method returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[dict[str, Any]] = self._load()

    def find(self, kind: str, target: str) -> dict[str, Any] | None:
        """The entry of a piece of state, or None."""
        return next((entry for entry in self.entries if (entry["kind"], entry["target"]) == (kind, target)), None)

    def put(self, entry: dict[str, Any]) -> None:
        """Adds an entry, or replaces the one of the same piece of state."""
        present = self.find(entry["kind"], entry["target"])
        if present is None:
            self.entries.append(entry)
        else:
            self.entries[self.entries.index(present)] = entry
        self._save()

    def drop(self, entry: dict[str, Any]) -> None:
        """Forgets an entry; the file goes with the last one."""
        self.entries.remove(entry)
        self._save()

    def _load(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        try:
            document = json.loads(self.path.read_text())
            entries: list[dict[str, Any]] = document["entries"]
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"{self.path} is no journal of pollscope ({error}); look at it and move it away") from error
        if document.get("journal") != FORMAT:
            raise Refused(f"{self.path} has format {document.get('journal')}, this version reads {FORMAT}")
        return entries

    def _save(self) -> None:
        try:
            if self.entries:
                write_through(
                    self.path, json.dumps({"journal": FORMAT, "entries": self.entries}, indent=1) + "\n", 0o644
                )
            elif self.path.exists():
                self.path.unlink()
                flush_folder(self.path.parent)
                self._remove_empty_folders()
        except OSError as error:
            raise Refused(f"{self.path}: the journal cannot be written: {error.strerror}") from error

    def _remove_empty_folders(self) -> None:
        for folder in list(self.path.parents)[:2]:
            if any(folder.iterdir()):
                return
            folder.rmdir()


class Ledger:
    """Brings pieces of state to what is wanted and back, with one journal."""

    def __init__(self, path: Path, kinds: Mapping[str, Kind], boot_id: str) -> None:
        self.journal, self.kinds, self.boot_id = Journal(path), kinds, boot_id

    def converge(self, items: Iterable[Item], dry: bool = False) -> list[str]:
        """Sets what is not as wanted, then gives back what is wanted no more; returns one line for each change.

        Raises:
            Refused: one was not taken; what this call had changed is as it was before the call.
        """
        items = list(items)
        wanted = {(item.kind, item.target) for item in items}
        stale = [entry for entry in self.journal.entries if (entry["kind"], entry["target"]) not in wanted]
        lines: list[str] = []
        done: list[tuple[Item, Any, dict[str, Any] | None]] = []
        try:
            for item in items:
                now = self._read(item)
                if self.kinds[item.kind].same(now, item.wanted):
                    continue
                lines.append(self._line(item, now))
                if not dry:
                    done.append((item, now, self._current_entry(item)))
                    self._set(item, now)
        except (Refused, OSError) as error:
            self._undo(done)
            raise Refused(one_line(error)) from error
        return lines + self._give_back(stale, dry)

    def differences(self, items: Iterable[Item]) -> list[str]:
        """One line for each piece of state that is not as wanted; nothing is changed."""
        found = [(item, self._read(item)) for item in items]
        return [
            f"{item.target} is {self._show(item, now)}, should be {self._show(item, item.wanted)}"
            for item, now in found
            if not self.kinds[item.kind].same(now, item.wanted)
        ]

    def give_back(self, dry: bool = False) -> list[str]:
        """Puts every old state back, the last change first; returns one line for each change.

        Raises:
            Refused: somebody else changed one meanwhile, or it was not taken; this entry stays in the journal, the
                others are given back.
        """
        return self._give_back(list(self.journal.entries), dry)

    def _give_back(self, entries: list[dict[str, Any]], dry: bool) -> list[str]:
        lines, refusals = [], []
        for entry in reversed(entries):
            try:
                lines += self._give_back_one(entry, dry)
            except (Refused, OSError) as error:
                refusals.append(one_line(error))
        if refusals:
            raise Refused("; ".join(refusals))
        return lines

    def _give_back_one(self, entry: dict[str, Any], dry: bool) -> list[str]:
        kind, target, old = self.kinds[entry["kind"]], entry["target"], entry["old"]
        lost = kind.volatile and entry["boot_id"] != self.boot_id
        now = old if lost else kind.read(target)
        if now == old:
            if not dry:
                self.journal.drop(entry)
            return []
        if entry["found"] is not None and now != entry["found"]:
            raise Refused(
                f"{target} was changed by someone else: it was {kind.show(old)}, we set {kind.show(entry['new'])}, "
                f"now it is {kind.show(now)}; put it as it should be and remove its entry from {self.journal.path}"
            )
        if not dry:
            kind.write(target, old)
            if not kind.given_back(kind.read(target), old):
                raise Refused(f"{target} reads {kind.show(kind.read(target))} after {kind.show(old)} was given back")
            self.journal.drop(entry)
        return [f"{target}: {kind.show(old)} again"]

    def _current_entry(self, item: Item) -> dict[str, Any] | None:
        entry = self.journal.find(item.kind, item.target)
        if entry is not None and self.kinds[item.kind].volatile and entry["boot_id"] != self.boot_id:
            self.journal.drop(entry)
            return None
        return dict(entry) if entry is not None else None

    def _set(self, item: Item, now: Any) -> None:
        kind, before = self.kinds[item.kind], self.journal.find(item.kind, item.target)
        entry = {
            "kind": item.kind,
            "target": item.target,
            "old": now if before is None else before["old"],
            "new": item.wanted,
            "found": None,
            "boot_id": self.boot_id,
        }
        self.journal.put(entry)
        kind.write(item.target, item.wanted)
        found = kind.read(item.target)
        if not kind.same(found, item.wanted):
            raise Refused(f"{item.target} reads {kind.show(found)} after {kind.show(item.wanted)} was written")
        self.journal.put({**entry, "found": found})

    def _undo(self, done: list[tuple[Item, Any, dict[str, Any] | None]]) -> None:
        for item, now, before in reversed(done):
            kind = self.kinds[item.kind]
            if kind.read(item.target) != now:
                kind.write(item.target, now)
            entry = self.journal.find(item.kind, item.target)
            if before is not None:
                self.journal.put(before)
            elif entry is not None:
                self.journal.drop(entry)

    def _read(self, item: Item) -> Any:
        return self.kinds[item.kind].read(item.target)

    def _show(self, item: Item, state: Any) -> str:
        return self.kinds[item.kind].show(state)

    def _line(self, item: Item, now: Any) -> str:
        return f"{item.target}: {self._show(item, now)} -> {self._show(item, item.wanted)}"


def write_through(path: Path, text: str, mode: int) -> None:
    """Replaces a file in one step; on the disk (file and folder) when this returns.

    Raises:
        OSError: for instance a full disk; then the file is what it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".pollscope-new")
    try:
        with fresh.open("w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.chmod(mode)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    flush_folder(path.parent)


def flush_folder(path: Path) -> None:
    """Puts the entries of a folder on the disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def one_line(error: Exception) -> str:
    """An error as one line; an error of the system with its file."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    return " ".join(str(error).split())


def boot_id() -> str:
    """The kernel's name for this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


STATE_ARGUMENTS: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent", "verified"], "default": "present"},
    "journal": {"type": "str", "required": True},
}


def run_state(module: Any, kinds: Mapping[str, Kind], items: Iterable[Item]) -> list[str]:
    """Does what the module's `state` says; returns the lines of what was changed.

    Raises:
        Refused: as `Ledger` says, and when `verified` finds a difference.
    """
    ledger = Ledger(journal_path(module.params["journal"]), kinds, boot_id())
    if module.params["state"] == "verified":
        differences = ledger.differences(items)
        if differences:
            raise Refused("; ".join(differences))
        return []
    with host_lock():
        if module.params["state"] == "absent":
            return ledger.give_back(dry=module.check_mode)
        return ledger.converge(items, dry=module.check_mode)


def report(module: Any, act: Callable[[], Sequence[str]]) -> None:
    """Acts and ends the module with the lines of what was changed, or with why it cannot be done."""
    try:
        lines = act()
    except (Refused, OSError) as refused:
        module.fail_json(msg=str(refused))
    module.exit_json(changed=bool(lines), msg="; ".join(lines) or "nothing to change")


def state_folder() -> Path | None:
    """The folder that takes the place of the system's ones, or None."""
    named = os.environ.get(STATE_VARIABLE)
    return Path(named) if named else None


def journal_path(name: str) -> Path:
    """Where the journal of a task is."""
    return (state_folder() or Path("/var/lib/pollscope")) / "playbooks" / f"{name}.json"


@contextmanager
def host_lock() -> Iterator[None]:
    """Keeps runs, `knob set` and other plays away meanwhile; the same lock as pollscope/hostlock.py takes.

    Raises:
        Refused: somebody has it.
    """
    folder = state_folder()
    path = folder / "host.lock" if folder else Path("/run/lock/pollscope.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (0 if path.exists() else os.O_CREAT), 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(descriptor, 4096, 0).decode(errors="replace")
        raise Refused(f"this host is in use: {' '.join(owner.split()) or 'another play'} (wait for it)") from error
    else:
        os.ftruncate(descriptor, 0)
        yield
    finally:
        os.close(descriptor)
