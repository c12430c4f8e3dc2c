# SPDX-License-Identifier: BSD-3-Clause
"""What a role wants of a host, set and restored by pollscope's own engine (pollscope/host/restore.py).

A journal is a file `/var/lib/pollscope/playbooks/NAME.journal` on the host that is changed (in
`$POLLSCOPE_STATE_DIR/playbooks/` if that is set there), of the format of docs/knobs.md. One that plays of before left,
`NAME.json`, is written anew when it is found.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.module_utils.pollscope import __version__
from ansible.module_utils.pollscope.base.errors import HostError, PollscopeError, reason_of
from ansible.module_utils.pollscope.host.files import sync_folder
from ansible.module_utils.pollscope.host.journal import Entry, Journal, JournalHeader, Phase, load
from ansible.module_utils.pollscope.host.lock import HostLock, start_ticks, state_folder
from ansible.module_utils.pollscope.host.restore import Restorer, Setting, change, require_same_device


class Item:
    """One piece of state that is wanted; `kind` names a setting."""

    def __init__(self, kind: str, target: str, wanted: Any) -> None:
        self.kind, self.target, self.wanted = kind, target, wanted


UNDO_VARIABLE = "POLLSCOPE_UNDO"
Unreachable = Callable[[Entry], bool]


def _nothing(_entry: Entry) -> bool:
    return False


class Ledger:
    """Brings pieces of state to what is wanted and back, with one journal.

    Args:
        path: of the journal.
        settings: by the name that items and journals have for them.
        boot: the kernel's name for this boot.
    """

    def __init__(self, path: Path, settings: Mapping[str, Setting], boot: str) -> None:
        self.path, self.settings, self.boot = path, settings, boot
        take_over(path, boot)
        self._journal: Journal | None = None

    def converge(self, items: Iterable[Item], dry: bool = False, out_of_reach: Unreachable = _nothing) -> list[str]:
        """Sets what is not as wanted, then restores what is wanted no more; returns one line for each change.

        What is out of reach now stays in the journal.

        Raises:
            HostError: one was not taken; what this call had changed is as it was before the call.
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
        """Whether the journal has nothing but what is wanted, all of it read back, or out of reach."""
        wanted = {(item.kind, item.target) for item in items}
        return all(
            out_of_reach(entry) or (entry.phase is Phase.SET and (entry.knob, entry.target) in wanted)
            for entry in load(self.path).pending
        )

    def differences(self, items: Iterable[Item]) -> list[str]:
        """One line for each piece of state that is not as wanted; nothing is changed."""
        found = [(self.settings[item.kind], item, self._read(item)) for item in items]
        return [
            f"{item.target} is {setting.show(now)}, should be {setting.show(item.wanted)}"
            for setting, item, now in found
            if not setting.same(now, item.wanted)
        ]

    def restore(self, dry: bool = False, wanted: Callable[[Entry], bool] = lambda entry: True) -> list[str]:
        """Restores every old state, the last change first; returns one line for each change.

        Raises:
            HostError: somebody else changed one meanwhile, or it was not taken; this entry stays in the journal, the
                others are restored.
        """
        results = Restorer(self.settings, self.boot, dry=dry).restore(self.path, wanted)
        refusals = [f"{each.target}: {each.text}" for each in results if not each.restored]
        if refusals:
            raise HostError("; ".join(refusals), remedy="put it right, then restore again")
        return [f"{each.target}: {each.text}" for each in results if each.written]

    def give_back(self, dry: bool = False) -> list[str]:
        """As `restore`; where a play that failed is undone, only what that play changed.

        Raises:
            HostError: as `restore`.
        """
        return self.undo(marked(self.path.stem), dry) if is_undone() else self.restore(dry)

    def undo(self, before: Sequence[Entry], dry: bool = False) -> list[str]:
        """Sets everything as it was when the journal listed `before`; returns one line for each change.

        Raises:
            HostError: one was not taken; the others are.
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
        """Whether a state that an earlier play set is not there any more; what a reboot took was not this play's."""
        setting = self.settings[entry.knob]
        if setting.holder == "kernel" and entry.boot_id != self.boot:
            return False
        return bool(setting.read(entry.target) != (entry.new if entry.found is None else entry.found))

    def _set_again(self, entry: Entry) -> str:
        """Why an earlier state could not be set again; empty when it is there."""
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
    """Of a journal that this process makes."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return JournalHeader("a play", __version__, os.getpid(), start_ticks(os.getpid()) or 0, boot, now)


def take_over(path: Path, boot: str) -> None:
    """Writes a journal of before (`NAME.json`) anew, so that what it lists is restored, too.

    Raises:
        HostError: it is none.
    """
    old = path.with_suffix(".json")
    if not old.exists():
        return
    if not path.exists():
        try:
            document = json.loads(old.read_text())
            if document["journal"] != 1:
                raise ValueError(f"format {document['journal']}")
            write_anew(path, document["entries"], boot)
        except (ValueError, KeyError, TypeError) as error:
            raise HostError(f"is no journal of pollscope: {error}", str(old), "look at it and move it away") from error
    old.unlink()
    sync_folder(old.parent)


def write_anew(path: Path, entries: Iterable[Mapping[str, Any]], boot: str) -> None:
    """Makes a journal of entries with `kind`, `target`, `old`, `new`, `found` (None: not read back), `boot_id`."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    journal = Journal.create(fresh, header(boot))
    for each in entries:
        entry = journal.set(each["kind"], each["target"], each["old"], each["new"], each["boot_id"])
        if each["found"] is not None:
            journal.done(entry, each["found"])
    journal.close()
    fresh.replace(path)
    sync_folder(path.parent)


def boot_id() -> str:
    """The kernel's name for this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


STATE_ARGUMENTS: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "absent", "verified"], "default": "present"},
    "journal": {"type": "str", "required": True},
}


def run_state(
    module: Any, settings: Mapping[str, Setting], items: Iterable[Item], out_of_reach: Unreachable = _nothing
) -> list[str]:
    """Does what the module's `state` says; returns the lines of what was changed.

    Raises:
        HostError: as `Ledger` says, and when `verified` finds a difference.
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
        return []  # a host that is only looked at may be measured on meanwhile
    with HostLock("a play"):
        return act(dry=False)


def report(module: Any, act: Callable[[], Sequence[str]]) -> None:
    """Acts and ends the module with the lines of what was changed, or with why it cannot be done; the play goes on."""
    with suppress(OSError):  # no play goes on, or it looks only
        os.utime(mark_folder())
    try:
        lines = act()
    except (PollscopeError, OSError) as error:
        module.fail_json(msg=reason_of(error))
    module.exit_json(changed=bool(lines), msg="; ".join(lines) or "nothing to change")


def offline_folder() -> Path:
    """Where a host that reaches no mirror has packages; `current` in it holds `packages` and APT's `lists` of them."""
    return state_folder() / "offline"


def journal_path(name: str) -> Path:
    """Where the journal of a task is."""
    return state_folder() / "playbooks" / f"{name}.journal"


def mark_folder() -> Path:
    """Where the journals of before a play are while it goes on."""
    return journal_path("any").parent / "before"


def marked(name: str) -> list[Entry]:
    """What the journal of a task listed when the play that goes on began."""
    return load(mark_folder() / f"{name}.journal").pending


def is_undone() -> bool:
    """Whether the play is undone that goes on: what it changed is restored, what earlier ones set stays."""
    return os.environ.get(UNDO_VARIABLE) == "1" and mark_folder().is_dir()


def pending(name: str) -> list[Entry]:
    """What the journal of a task lists."""
    take_over(journal_path(name), boot_id())
    return load(journal_path(name)).pending
