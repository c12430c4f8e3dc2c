# SPDX-License-Identifier: BSD-3-Clause
"""Set the state that a role wants on a host, and restore it, with pollscope's own engine (pollscope/host/restore.py).

A journal is the file `/var/lib/pollscope/playbooks/NAME.journal` on the host that is changed. If POLLSCOPE_STATE_DIR
is set there, the journal is in `$POLLSCOPE_STATE_DIR/playbooks`. docs/internals/knob-journal.md describes its format.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.module_utils.pollscope import __version__
from ansible.module_utils.pollscope.base.errors import HostError, PollscopeError, reason_of
from ansible.module_utils.pollscope.host.journal import Entry, Journal, JournalHeader, Phase, load
from ansible.module_utils.pollscope.host.lock import HostLock, start_ticks, state_folder
from ansible.module_utils.pollscope.host.restore import Restorer, Setting, change, require_same_device


class Item:
    """A piece of state that is wanted.

    Args:
        kind: name of its setting.
        target: where it is, in the notation of the setting.
        wanted: the wanted value.
    """

    def __init__(self, kind: str, target: str, wanted: Any) -> None:
        self.kind, self.target, self.wanted = kind, target, wanted


UNDO_VARIABLE = "POLLSCOPE_UNDO"
Unreachable = Callable[[Entry], bool]


def _nothing(_entry: Entry) -> bool:
    return False


class Ledger:
    """Set pieces of state to what is wanted and restore them, with one journal.

    Args:
        path: the journal.
        settings: the settings by the names that items and journals use.
        boot: the kernel's identifier of this boot.
    """

    def __init__(self, path: Path, settings: Mapping[str, Setting], boot: str) -> None:
        self.path, self.settings, self.boot = path, settings, boot
        self._journal: Journal | None = None

    def converge(self, items: Iterable[Item], dry: bool = False, out_of_reach: Unreachable = _nothing) -> list[str]:
        """Set each item that differs, then restore what is no longer wanted; return one line per change.

        An entry that is out of reach now stays in the journal.

        Raises:
            HostError: the host refused a value; what this call had changed is restored.
        """
        items = list(items)
        lines: list[str] = []
        done: list[tuple[Item, Any, Entry | None]] = []
        try:
            for item in items:
                setting, now = self.settings[item.kind], self._read(item)
                if setting.same(now, item.wanted):
                    continue
                lines.append(f"{item.target}: {setting.show(now)} -> {setting.show(item.wanted)}")
                if not dry:
                    done.append((item, now, self._entry_of_this_boot(item)))
                    self._set(item, now)
        except (PollscopeError, OSError) as error:
            self._undo(done)
            raise HostError(reason_of(error)) from error
        finally:
            self._close()
        wanted = {(item.kind, item.target) for item in items}
        return lines + self.restore(
            dry, lambda entry: (entry.knob, entry.target) not in wanted and not out_of_reach(entry)
        )

    def lists_only(self, items: Iterable[Item], out_of_reach: Unreachable = _nothing) -> bool:
        """Return whether every entry of the journal is wanted and was read back, or is out of reach."""
        wanted = {(item.kind, item.target) for item in items}
        return all(
            out_of_reach(entry) or (entry.phase is Phase.SET and (entry.knob, entry.target) in wanted)
            for entry in load(self.path).pending
        )

    def differences(self, items: Iterable[Item]) -> list[str]:
        """Return one line per piece of state that is not as wanted; change nothing."""
        found = [(self.settings[item.kind], item, self._read(item)) for item in items]
        return [
            f"{item.target} is {setting.show(now)}, should be {setting.show(item.wanted)}"
            for setting, item, now in found
            if not setting.same(now, item.wanted)
        ]

    def restore(self, dry: bool = False, wanted: Callable[[Entry], bool] = lambda entry: True) -> list[str]:
        """Restore every old state, the last change first; return one line per change.

        Raises:
            HostError: another program changed a state, or the host refused the old one. Its entry stays in
                the journal; the others are restored.
        """
        results = Restorer(self.settings, self.boot, dry=dry).restore(self.path, wanted)
        refusals = [f"{each.target}: {each.text}" for each in results if not each.restored]
        if refusals:
            raise HostError("; ".join(refusals), remedy="put it right, then restore again")
        return [f"{each.target}: {each.text}" for each in results if each.written]

    def give_back(self, dry: bool = False) -> list[str]:
        """Restore as `restore` does; while a failed play is undone, restore only what that play changed.

        Raises:
            HostError: see `restore`.
        """
        return self.undo(marked(self.path.stem), dry) if is_undone() else self.restore(dry)

    def undo(self, before: Sequence[Entry], dry: bool = False) -> list[str]:
        """Set everything as it was when the journal listed `before`; return one line per change.

        Raises:
            HostError: the host refused a state; the others are set.
        """
        earlier = {(entry.knob, entry.target): entry for entry in before}
        new = [entry for entry in load(self.path).pending if (entry.knob, entry.target) not in earlier]
        changed = [entry for entry in before if self._differs(entry)]
        if dry or not (new or changed):
            return [f"{entry.target}: as before the play" for entry in [*reversed(new), *changed]]
        fresh = {(entry.knob, entry.target) for entry in new}
        try:
            lines = self.restore(wanted=lambda entry: (entry.knob, entry.target) in fresh) if new else []
        finally:
            refusals = [refusal for entry in changed if (refusal := self._set_again(entry))]
            self._close()
        if refusals:
            raise HostError("; ".join(refusals), remedy="put it right, then provision again")
        return lines + [f"{entry.target}: {self.settings[entry.knob].show(entry.new)} again" for entry in changed]

    def _differs(self, entry: Entry) -> bool:
        """Return whether a state that an earlier play set is gone; a reboot that undid it does not count."""
        setting = self.settings[entry.knob]
        if setting.holder == "kernel" and entry.boot_id != self.boot:
            return False
        return bool(setting.read(entry.target) != (entry.new if entry.found is None else entry.found))

    def _set_again(self, entry: Entry) -> str:
        """Set an earlier state again; return the reason why that failed, empty if it did not."""
        setting, state = self.settings[entry.knob], entry.new if entry.found is None else entry.found
        try:
            announced = self._open().set(entry.knob, entry.target, entry.old, entry.new, self.boot, entry.device)
            require_same_device(setting, entry)
            setting.write(entry.target, state)
            self._open().done(announced, setting.read(entry.target))
        except (PollscopeError, OSError) as error:
            return f"{entry.target}: {reason_of(error)}"
        return ""

    def _read(self, item: Item) -> Any:
        return self.settings[item.kind].read(item.target)

    def _open(self) -> Journal:
        self._journal = self._journal or Journal.open_or_create(self.path, header(self.boot))
        return self._journal

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.finish()
            self._journal = None

    def _entry_of_this_boot(self, item: Item) -> Entry | None:
        entry = self._open().find(item.kind, item.target)
        if entry and self.settings[item.kind].holder == "kernel" and entry.boot_id != self.boot:
            self._open().restored(entry, "reboot")
            return None
        return entry

    def _set(self, item: Item, now: Any) -> None:
        setting = self.settings[item.kind]
        require_same_device(setting, self._open().find(item.kind, item.target))
        entry = self._open().set(item.kind, item.target, now, item.wanted, self.boot, setting.device(item.target))
        change(self._open(), setting, entry)

    def _undo(self, done: list[tuple[Item, Any, Entry | None]]) -> None:
        restorer = Restorer(self.settings, self.boot)
        for item, now, before in reversed(done):
            journal, setting = self._open(), self.settings[item.kind]
            entry = journal.find(item.kind, item.target)
            if entry is None or entry == before:  # it was never announced
                continue
            if before is None:
                restorer.restore_one(journal, entry)
                continue
            entry = journal.set(item.kind, item.target, now, before.new)
            if setting.read(item.target) != now:
                setting.write(item.target, now)
            if before.phase is Phase.SET:
                journal.done(entry, before.found)


def header(boot: str) -> JournalHeader:
    """Return the header of a journal that this process makes."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return JournalHeader("a play", __version__, os.getpid(), start_ticks(os.getpid()) or 0, boot, now)


def boot_id() -> str:
    """Return the kernel's identifier of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


STATE_ARGUMENTS: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent", "verified"], "default": "present"},
    "journal": {"type": "str", "required": True},
}


def run_state(
    module: Any, settings: Mapping[str, Setting], items: Iterable[Item], out_of_reach: Unreachable = _nothing
) -> list[str]:
    """Act on the module's `state`; return one line per change.

    Raises:
        HostError: see `Ledger`; or `verified` found a difference.
    """
    ledger = Ledger(journal_path(module.params["journal"]), settings, boot_id())
    if module.params["state"] == "verified":
        differences = ledger.differences(items)
        if differences:
            raise HostError("; ".join(differences))
        return []
    items = list(items)

    def act(dry: bool) -> list[str]:
        if module.params["state"] == "absent":
            return ledger.give_back(dry)
        return ledger.converge(items, dry, out_of_reach)

    if module.check_mode:
        return act(dry=True)
    wanted = [] if module.params["state"] == "absent" else items
    if not act(dry=True) and (is_undone() or ledger.lists_only(wanted, out_of_reach)):
        return []  # reading needs no lock, so a run may continue
    with HostLock("a play"):
        return act(dry=False)


def report(module: Any, act: Callable[[], Sequence[str]]) -> None:
    """Call `act` and end the module with its lines, or with the reason why it failed.

    This also tells others on the host that the play is still alive (see SILENT_S in pollscope_journals).
    """
    with suppress(OSError):  # the play made no mark, because it only reads
        os.utime(mark_folder())
    try:
        lines = act()
    except (PollscopeError, OSError) as error:
        module.fail_json(msg=reason_of(error))
    module.exit_json(changed=bool(lines), msg="; ".join(lines) or "nothing to change")


def offline_folder() -> Path:
    """Return the folder of the packages of a host without a mirror.

    `current` in it holds `packages`, and `lists`, where APT keeps its lists of them.
    """
    return state_folder() / "offline"


def journal_path(name: str) -> Path:
    """Return the path of a task's journal."""
    return state_folder() / "playbooks" / f"{name}.journal"


def mark_folder() -> Path:
    """Return the folder that holds copies of the journals while a play is running."""
    return journal_path("any").parent / "before"


def marked(name: str) -> list[Entry]:
    """Return the entries that a task's journal had when the present play began."""
    return load(mark_folder() / f"{name}.journal").pending


def is_undone() -> bool:
    """Return whether the present play is being undone: only what it changed is restored."""
    return os.environ.get(UNDO_VARIABLE) == "1" and mark_folder().is_dir()


def pending(name: str) -> list[Entry]:
    """Return the entries of a task's journal."""
    return load(journal_path(name)).pending
