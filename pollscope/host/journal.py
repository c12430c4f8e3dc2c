# SPDX-License-Identifier: BSD-3-Clause
"""Record changes of a host in a journal, which is on the disk before the host is changed.

Format: docs/internals/knob-journal.md.

Runs, `knob set` and the modules of the playbooks write it. The playbooks copy this file to hosts without pollscope, so
it imports only Python's standard library and modules that it names relatively.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from ..base.errors import HostError, UsageError
from .files import make_folder, open_plain, sync_folder

FORMAT = 1


class Phase(StrEnum):
    """The progress of a change.

    WRITING: being set or restored; after a crash it is unknown whether the write happened.
    SET: written and read back. RESTORED: the old value was restored, or the present one was accepted.
    """

    WRITING = "writing"
    SET = "set"
    RESTORED = "restored"


@dataclass(frozen=True)
class JournalHeader:
    """The process that made a journal; `boot_id` shows whether the host was rebooted since."""

    what: str
    pollscope: str
    pid: int
    start_ticks: int
    boot_id: str
    at_utc: str


@dataclass(frozen=True)
class Entry:
    """The change of one target of a knob.

    Attributes:
        number: counts from 1 in the order in which knobs were first set.
        old: exact state before the first change, to which it is restored.
        new: exact state that was last written.
        boot_id: the boot in which it was first set.
        found: exact state read back after that write; None while the phase is WRITING for the first time.
        device: identity of the target's PCI device (pollscope/host/pci_identity.py); empty for other targets.

    States are JSON values: texts for knobs.
    """

    number: int
    knob: str
    target: str
    old: Any
    new: Any
    boot_id: str
    found: Any = None
    phase: Phase = Phase.WRITING
    device: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Content:
    """A parsed journal. `whole_bytes` is the length of its complete lines; an incomplete line may follow."""

    header: JournalHeader | None
    entries: tuple[Entry, ...]
    whole_bytes: int

    @property
    def pending(self) -> list[Entry]:
        """Return the changes that are not restored, oldest first."""
        return [entry for entry in self.entries if entry.phase is not Phase.RESTORED]


def parse(content: bytes, where: str = "") -> Content:
    """Parse a journal without an incomplete last line, whose change was not yet made (or not yet confirmed).

    Raises:
        UsageError: another line is not of format 1; the message names file and line.
    """
    whole = content[: content.rfind(b"\n") + 1]
    header: JournalHeader | None = None
    entries: dict[int, Entry] = {}
    for number, line in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            record = json.loads(line)
            if number == 1:
                header = _header(record)
            else:
                _follow(entries, record, header.boot_id if header else "")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UsageError(
                f"not a knob journal of format {FORMAT}: {' '.join(str(error).split())[:120]}",
                f"{where}:{number}",
                "docs/reference-metrics.md says how to read it",
            ) from error
    return Content(header, tuple(entries.values()), len(whole))


def _header(record: Any) -> JournalHeader:
    fields = dict(record)
    if fields.pop("journal") != FORMAT:
        raise ValueError("unknown format")
    header = JournalHeader(**fields)
    _check_types(header)
    return header


def _check_types(record: JournalHeader | Entry) -> None:
    for name, kind in type(record).__annotations__.items():
        value = getattr(record, name)
        if kind in (str, int) and type(value) is not kind:
            raise TypeError(f"{name} is {type(value).__name__}, not {kind.__name__}")


def _follow(entries: dict[int, Entry], record: Any, boot_id: str) -> None:
    """Apply one line to the entries."""
    match record:
        case {"event": "set", "entry": int(number), "knob": knob, "target": target, "old": old, "new": new}:
            device = {str(name): str(value) for name, value in dict(record.get("device", {})).items()}
            boot_id = record.get("boot_id", boot_id)
            _follow_set(entries, Entry(number, knob, target, old, new, boot_id, device=device))
        case {"event": "done", "entry": int(number), "found": found}:
            entries[number] = replace(entries[number], found=found, phase=Phase.SET)
        case {"event": "restoring", "entry": int(number)}:
            entries[number] = replace(entries[number], phase=Phase.WRITING)
        case {"event": "restored", "entry": int(number), "how": str()}:
            entries[number] = replace(entries[number], phase=Phase.RESTORED)
        case _:
            raise ValueError("unknown line")


def _follow_set(entries: dict[int, Entry], entry: Entry) -> None:
    _check_types(entry)
    before = entries.get(entry.number)
    if before is None and entry.number != len(entries) + 1:
        raise ValueError(f"entry {entry.number} is out of order")
    if before and (before.knob, before.target, before.old) != (entry.knob, entry.target, entry.old):
        raise ValueError(f"entry {entry.number} contradicts itself")
    entries[entry.number] = entry


class Journal:
    """A journal open for writing; the caller holds the host lock.

    Methods that add a line flush it to the disk before they return. Only restoring continues if that fails.
    """

    def __init__(self, path: Path, descriptor: int, content: Content) -> None:
        self.path, self._descriptor = path, descriptor
        self._torn = False
        self.header = content.header
        self._entries = {entry.number: entry for entry in content.entries}

    @classmethod
    def create(cls, path: Path, header: JournalHeader) -> Self:
        """Make a new journal.

        Raises:
            HostError: the file exists or cannot be made.
        """
        try:
            make_folder(path.parent)
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise HostError(f"the journal cannot be created: {error.strerror}", str(path), "knobs need root") from error
        journal = cls(path, descriptor, Content(header, (), 0))
        journal._append({"journal": FORMAT, **vars(header)})
        _sync(path.parent)
        return journal

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an existing journal for appending; remove an incomplete last line.

        Raises:
            HostError: it cannot be opened. UsageError: it is not a journal.
        """
        content = load(path)
        try:
            descriptor = open_plain(path, os.O_WRONLY | os.O_APPEND)
            os.ftruncate(descriptor, content.whole_bytes)
        except OSError as error:
            raise HostError(f"the journal cannot be opened: {error.strerror}", str(path), "knobs need root") from error
        return cls(path, descriptor, content)

    @classmethod
    def open_or_create(cls, path: Path, header: JournalHeader) -> Self:
        """Open the existing journal, or make a new one.

        A journal without pending entries was interrupted while being made or removed, and is replaced.

        Raises:
            HostError, UsageError: see `open` and `create`.
        """
        if load(path).pending:
            return cls.open(path)
        path.unlink(missing_ok=True)
        return cls.create(path, header)

    @property
    def pending(self) -> list[Entry]:
        """Return the changes that are not restored, oldest first."""
        return [entry for entry in self._entries.values() if entry.phase is not Phase.RESTORED]

    def find(self, knob: str, target: str) -> Entry | None:
        """Return the pending change of a knob and target; None if there is none."""
        return next((entry for entry in self.pending if (entry.knob, entry.target) == (knob, target)), None)

    def set(
        self, knob: str, target: str, present: Any, new: Any, boot_id: str = "", device: Mapping[str, str] | None = None
    ) -> Entry:
        """Announce a write. The entry keeps the state before the first change of this knob and target.

        `boot_id` is that of this boot; default: the header's. `device` is the identity of the target's device.
        """
        header_boot_id = self.header.boot_id if self.header else ""
        entry = self.find(knob, target) or Entry(
            len(self._entries) + 1, knob, target, present, new, boot_id or header_boot_id, device=dict(device or {})
        )
        entry = replace(entry, new=new, found=None, phase=Phase.WRITING)
        record = {"event": "set", "entry": entry.number, "knob": knob, "target": target, "old": entry.old, "new": new}
        other_boot = {"boot_id": entry.boot_id} if entry.boot_id != header_boot_id else {}
        known = {"device": dict(entry.device)} if entry.device else {}
        return self._add(record | other_boot | known, entry)

    def done(self, entry: Entry, found: Any) -> Entry:
        """Confirm an announced write with the value that was read back."""
        record = {"event": "done", "entry": entry.number, "found": found}
        return self._add(record, replace(entry, found=found, phase=Phase.SET))

    def restoring(self, entry: Entry) -> Entry:
        """Announce that the old state is about to be written. Restoring continues even if the disk is full."""
        record = {"event": "restoring", "entry": entry.number}
        return self._add(record, replace(entry, phase=Phase.WRITING), needs_disk=False)

    def restored(self, entry: Entry, how: str) -> Entry:
        """Close an entry; `how` is for readers of the file.

        If the disk is full, the entry stays pending; the next restore finds the old value and closes it.
        """
        record = {"event": "restored", "entry": entry.number, "how": how}
        return self._add(record, replace(entry, phase=Phase.RESTORED), needs_disk=False)

    def close(self) -> None:
        """Close the file and leave it on the disk."""
        os.close(self._descriptor)

    def finish(self) -> None:
        """Close the file. If nothing is pending, delete it, and its two folders if they are empty."""
        self.close()
        if self.pending:
            return
        self.path.unlink()
        _sync(self.path.parent)
        with suppress(OSError):  # not empty, or of another user
            for folder in list(self.path.parents)[:2]:
                folder.rmdir()

    def _add(self, record: dict[str, Any], entry: Entry, needs_disk: bool = True) -> Entry:
        try:
            self._append(record)
        except HostError:
            if needs_disk:
                raise
        self._entries[entry.number] = entry
        return entry

    def _append(self, record: dict[str, Any]) -> None:
        if self._torn:
            raise HostError("the journal cannot be written: an incomplete line could not be removed", str(self.path))
        line = json.dumps(record).encode() + b"\n"
        before_bytes = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, line)
            os.fsync(self._descriptor)
        except OSError as error:
            self._take_back(before_bytes)
            raise HostError(f"the journal cannot be written: {error.strerror}", str(self.path)) from error
        if written != len(line):
            self._take_back(before_bytes)
            raise HostError("the journal cannot be written: the disk is full", str(self.path))

    def _take_back(self, length_bytes: int) -> None:
        """Remove a line that may not be on the disk; its change is not made, so later lines would contradict it."""
        try:
            os.ftruncate(self._descriptor, length_bytes)
        except OSError:
            self._torn = True


def load(path: Path) -> Content:
    """Read a journal file; a missing one is empty.

    Raises:
        HostError: it cannot be read, or another user can write it: what it lists is written to this host.
        UsageError: it is not a journal.
    """
    try:
        with open(open_plain(path, os.O_RDONLY), "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
                remedy = "check its content; if it is correct, chown and chmod go-w it"
                raise HostError("another user can write the journal, so it is ignored", str(path), remedy)
            return parse(file.read(), str(path))
    except FileNotFoundError:
        return Content(None, (), 0)
    except OSError as error:
        raise HostError(f"the journal cannot be read: {error.strerror}", str(path)) from error


def _sync(folder: Path) -> None:
    try:
        sync_folder(folder)
    except OSError as error:
        raise HostError(f"the journal's folder cannot be written: {error.strerror}", str(folder)) from error
