# SPDX-License-Identifier: BSD-3-Clause
"""Set host state and restore it: write the journal, then the state, then read it back. Restore newest first.

Runs, `knob set` and the modules of the playbooks use this module. The playbooks copy it to hosts without pollscope, so
it imports only Python's standard library and modules that it names relatively.
"""

import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Literal

from ..base.errors import HostError, reason_of
from .journal import Entry, Journal, Phase
from .pci_identity import differences

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class NotStuck(HostError):
    """The kernel accepted a write, but reading it back gave another value."""


class Setting(ABC):
    """One kind of host state: a knob, a file, a kernel module, ... A state is a JSON value.

    Attributes:
        holder: what holds the state, so when it is lost: "kernel" at every reboot; "hardware" only at a reset (a
            kexec keeps it); "process" when the process that set it ends; "disk" never.
    """

    holder: ClassVar[Literal["kernel", "hardware", "process", "disk"]] = "kernel"

    @abstractmethod
    def read(self, target: str) -> Any:
        """Return the exact present state of a target.

        Raises:
            HostError: it cannot be read, or this host does not have it.
        """

    @abstractmethod
    def write(self, target: str, state: Any) -> None:
        """Write a state as it is; the caller reads it back.

        Raises:
            HostError, OSError: the device is gone, or the kernel refused the state.
        """

    def show(self, state: Any) -> str:
        """Return a state for people."""
        return "absent" if state is None else str(state)

    def place(self, target: str) -> str:
        """Return the name of a target in messages."""
        return target

    def that_has(self, target: str) -> "Setting":
        """Return the setting that reads and writes a target of a journal; hosts may implement a knob differently."""
        return self

    def device(self, target: str) -> Mapping[str, str]:
        """Return the identity of the card of a target (pollscope/host/pci_identity.py); empty if it is not a card."""
        return {}

    def same(self, found: Any, wanted: Any) -> bool:
        """Return whether a state that was read is the wanted one."""
        return bool(found == wanted)

    def restored(self, found: Any, old: Any) -> bool:
        """Return whether a state that was read after restoring is close enough to the old one."""
        return bool(found == old)

    def verify(self, target: str, wanted: Any) -> Any:
        """Read a state back after a write and return it.

        Raises:
            NotStuck: it is not the wanted one.
        """
        found = self.read(target)
        if not self.same(found, wanted):
            asked, read = self.show(wanted), self.show(found)
            raise NotStuck(f"the write did not stick: asked for {asked}, reads {read}", self.place(target))
        return found

    def drop(self) -> None:  # noqa: B027 - most settings hold nothing
        """Release state that lives only as long as this process (`holder` is "process")."""


class Policy(StrEnum):
    """The treatment of a value that another program changed meanwhile."""

    ASK = "ask"  # leave it and report it; the entry stays in the journal
    FORCE = "force"  # write the old state over it
    KEEP = "keep"  # accept the present value of each entry that cannot be restored


@dataclass(frozen=True)
class RestoreResult:
    """The outcome of restoring one entry.

    Attributes:
        restored: False when the entry is still in the journal.
        text: for people.
        written: whether restoring changed the host.
    """

    knob: str
    target: str
    restored: bool
    text: str
    written: bool = False

    def __str__(self) -> str:
        return f"{self.knob} {self.target}: {self.text}"


@dataclass(frozen=True)
class Restorer:
    """Restore the entries of journals.

    Attributes:
        settings: by their names in journals.
        boot_id: of this boot.
        dry: only report; change nothing.
    """

    settings: Mapping[str, Setting]
    boot_id: str
    policy: Policy = Policy.ASK
    dry: bool = False

    def restore(self, path: Path, wanted: Callable[[Entry], bool] = lambda entry: True) -> list[RestoreResult]:
        """Restore the pending entries of a journal; remove the journal when none is left.

        The caller holds the host lock. Signals that end a program are delayed until the end.

        Raises:
            HostError: the journal cannot be written. UsageError: it is broken.
        """
        if not path.exists():
            return []
        with signals_put_off():
            journal = Journal.open(path)
            results = [self.restore_one(journal, entry) for entry in reversed(journal.pending) if wanted(entry)]
            if self.dry:
                journal.close()
            else:
                journal.finish()
        return results

    def restore_one(self, journal: Journal, entry: Entry) -> RestoreResult:
        """Restore one entry of an open journal."""
        try:
            result = self._try(journal, entry)
        except Exception as error:  # an error of one knob must not prevent restoring the others
            result = _result(entry, False, f"cannot be restored ({reason_of(error)})")
        if not result.restored and self.policy is Policy.KEEP:
            journal.restored(entry, "kept")
            return _result(entry, True, f"left as it is: {result.text}")
        return result

    def _try(self, journal: Journal, entry: Entry) -> RestoreResult:
        setting = self.settings.get(entry.knob)
        if setting is None:
            return _result(entry, False, "this version of pollscope has no such knob")
        setting = setting.that_has(entry.target)
        if setting.holder == "process":
            setting.drop()
            return self._close(journal, entry, "process", "restored")
        if setting.holder == "kernel" and entry.boot_id != self.boot_id:
            return self._close(journal, entry, "reboot", "the host was rebooted since, which restored it")
        return self._write_old(journal, entry, setting)

    def _write_old(self, journal: Journal, entry: Entry, setting: Setting) -> RestoreResult:
        require_same_device(setting, entry)
        present, old = setting.read(entry.target), setting.show(entry.old)
        if present == entry.old:
            return self._close(journal, entry, "already", f"is {old}, as it was")
        # An interrupted write can leave any value. Only after a confirmed write does a different value mean that
        # someone else wrote it.
        if entry.phase is Phase.SET and present != entry.found and self.policy is not Policy.FORCE:
            ours, now = setting.show(entry.new), setting.show(present)
            return _result(
                entry, False, f"changed by someone else: was {old}, we set {ours}, now {now}; not overwritten"
            )
        if not self.dry:
            journal.restoring(entry)
            setting.write(entry.target, entry.old)
            found = setting.read(entry.target)
            if not setting.restored(found, entry.old):
                return _result(entry, False, f"the write did not stick: was {old}, reads {setting.show(found)}")
        return self._close(journal, entry, "written", f"{old} again")

    def _close(self, journal: Journal, entry: Entry, how: str, text: str) -> RestoreResult:
        if not self.dry:
            journal.restored(entry, how)
        return RestoreResult(entry.knob, entry.target, True, text, how == "written")


def require_same_device(setting: Setting, entry: Entry | None) -> None:
    """Check that the card of an entry is still at its address.

    Raises:
        HostError: another card is there now.
    """
    others = differences(entry.device, setting.device(entry.target)) if entry and entry.device else []
    if entry and others:
        what = f"another device is there now: {'; '.join(others)}"
        raise HostError(what, setting.place(entry.target), "put the old device back, or see docs/reference-metrics.md")


def change(journal: Journal, setting: Setting, entry: Entry) -> Entry:
    """Make the change that an entry announces, and confirm it by reading it back.

    Raises:
        NotStuck, HostError, OSError: the change failed; the entry stays pending.
    """
    setting.write(entry.target, entry.new)
    return journal.done(entry, setting.verify(entry.target, entry.new))


def _result(entry: Entry, restored: bool, text: str) -> RestoreResult:
    return RestoreResult(entry.knob, entry.target, restored, text)


@contextmanager
def signals_put_off() -> Iterator[None]:
    """Delay SIGINT, SIGTERM and SIGHUP until the block ends. Only the main thread can; others run unprotected."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before = {each: signal.signal(each, note) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        for number in came[:1]:
            signal.raise_signal(number)
