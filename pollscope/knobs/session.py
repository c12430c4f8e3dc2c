# SPDX-License-Identifier: BSD-3-Clause
"""Turning knobs and restoring them: every change passes through a session."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pollscope import __version__
from pollscope.base.errors import HostError, UsageError
from pollscope.base.knob_values import split_key
from pollscope.host.boot_note import AFTER_MODE, CHANGES_MODE, boot_note
from pollscope.host.files import read_text
from pollscope.host.journal import Entry, Journal, JournalHeader, Phase, load
from pollscope.host.lock import HostLock, Owner
from pollscope.host.restore import Policy, Restorer, RestoreResult, change, require_same_device, signals_put_off
from pollscope.knobs.base import Knob, Refused
from pollscope.knobs.holding import Holding
from pollscope.knobs.host import KnobHost
from pollscope.knobs.registry import knobs_of, pick

Caller = Literal["user", "runner", "play"]


class LeftBehind(HostError):
    """An earlier run ended without restoring what it had set."""


class ChangedUnderUs(HostError):
    """Someone else changed a value since it was set."""


@dataclass(frozen=True)
class Change:
    """One target that was set: values before and after."""

    knob: str
    target: str
    before: str
    after: str


def run_journal(host: KnobHost) -> Path:
    """Return the journal of what runs set."""
    return host.state_dir / "knobs" / "run.journal"


def hand_journal(host: KnobHost) -> Path:
    """Return the journal of what `pollscope knob set` set and is to stay."""
    return host.state_dir / "knobs" / "hand.journal"


def left_behind(host: KnobHost) -> str:
    """Say in one line what an ended run did not restore, if anything. Hold the host lock, or it may be running.

    What was set by hand on purpose does not count, unless its writing was cut off.
    """
    run = load(run_journal(host))
    pending = run.pending + [entry for entry in load(hand_journal(host)).pending if entry.phase is Phase.WRITING]
    if not pending:
        return ""
    names = ", ".join(sorted({entry.knob for entry in pending}))
    program = f"{run.header.what} of {run.header.at_utc}" if run.header and run.pending else "knob set"
    return f"{program} did not restore: {names}"


def require_nobody_between(host: KnobHost, caller: Caller = "user") -> None:
    """Look for those who go on without the lock: a play between two tasks, a run whose play reboots the host.

    Raises:
        HostError: there is one, or one that was cut off.
    """
    # Kept by playbooks/provision.yml from its beginning, at which it holds the lock, to its end.
    mark = host.state_dir / "playbooks/before"
    if caller != "play" and mark.is_dir():
        player = " ".join((read_text(mark / "player") or "").split())
        what = f"a play{player and f' of {player}'} that makes this host ready has not ended"
        remedy = "wait for it; after one that was cut off: pollscope play provision again, or restore"
        raise HostError(what, str(mark), remedy)
    if caller == "user" and (note := boot_note(host.state_dir)):
        raise HostError(f"{note} {CHANGES_MODE}", remedy=AFTER_MODE)


class KnobSession(Holding):
    """Sets knobs, and restores at the end what was there, in reverse order.

    Holds the host lock from entering to leaving. The journal is made at the first change, so a run that turns no knob
    needs no right to write it.

    Args:
        what: the name of this work in the messages of others ("run S-F5").
        host: where; default: this host.
        restore_first: restore what an earlier run left behind, instead of refusing to start.
        by_hand: changes are to outlive the session (`pollscope knob set`); after an error they are restored.
        caller: "user"; "runner" elsewhere, which knows whether a run has changed the boot parameters; "play".

    Raises (on entering):
        HostError: another run or play holds the host. LeftBehind: an earlier run left a journal behind.
    """

    remedy = "pollscope knob restore"

    def __init__(
        self,
        what: str,
        host: KnobHost | None = None,
        restore_first: bool = False,
        by_hand: bool = False,
        caller: Caller = "user",
    ) -> None:
        base = host or KnobHost()
        self.lock = HostLock(what, base.lock_path)
        self.host, self.what, self.restore_first, self.by_hand = base, what, restore_first, by_hand
        self._caller = caller
        self.knobs: Mapping[str, Knob] = knobs_of(base)
        self.restored_first: list[RestoreResult] = []
        self._path = hand_journal(base) if by_hand else run_journal(base)
        self._journal: Journal | None = None
        self._touched: set[int] = set()

    def begin(self) -> None:
        """Restore what an earlier run left; what the host then starts inherits the lock."""
        require_nobody_between(self.host, self._caller)
        self.host = replace(self.host, inherited=(self.lock.descriptor,))
        self.knobs = knobs_of(self.host)
        self._restore_left_behind()

    def end(self, error: BaseException | None) -> list[RestoreResult]:
        """Restores, except what was set by hand without an error."""
        with signals_put_off():
            try:
                return [] if self.by_hand and error is None else self.restore()
            finally:
                self._close()

    def set(self, name: str, target: str | None, value: object) -> list[Change]:
        """Set a knob on one target, or on all that it has; what has the value already is not touched.

        Refusals come before the first write. After any other error the values set so far stay until the session ends.

        Raises:
            UsageError: no such knob, target or value. Refused: not known to work here; nothing was written.
            NotStuck: another value was read back. ChangedUnderUs: someone else turned the knob since we did.
            HostError: the device is gone, the write failed, or the journal cannot be written.
        """
        knob = pick(self.knobs, name)
        wanted = knob.parse(value)
        if self.by_hand and knob.holder == "process":
            raise UsageError(f"{name} lasts only as long as the process that sets it", remedy="use --hold, or a spec")
        return [self._set_one(knob, *step) for step in _moving(knob, target, wanted)]

    def apply(self, settings: Mapping[str, object]) -> list[Change]:
        """Set several knobs in the order given; a key is "NAME" or "NAME@TARGET". Errors as `set`."""
        changes = []
        for key, value in settings.items():
            name, target = split_key(key)
            changes += self.set(name, target, value)
        return changes

    def get(self, name: str, target: str | None = None) -> dict[str, str]:
        """Return target -> value. Raises HostError when a target cannot be read."""
        return read_values(pick(self.knobs, name), target)

    def snapshot(self) -> dict[str, dict[str, str]]:
        """Return every knob's values, or the reason why there are none (see `snapshot`)."""
        return snapshot(self.host)

    def restore(self, policy: Policy = Policy.ASK) -> list[RestoreResult]:
        """Restore everything that this session set; what could not be restored stays in the journal."""
        self._close()
        results = Restorer(self.knobs, self.host.boot_id(), policy).restore(self._path, self._is_mine)
        self._touched.clear()
        return results

    def _is_mine(self, entry: Entry) -> bool:
        # A run's journal holds nothing else; the one of settings by hand also holds those of earlier commands.
        return not self.by_hand or entry.number in self._touched

    def _restore_left_behind(self) -> None:
        pending = left_behind(self.host)
        if pending and self.restore_first:
            self.restored_first = restore_all(self.host, self.knobs)
            pending = left_behind(self.host)
        if pending:
            raise LeftBehind(pending, remedy="pollscope knob restore, or start with --restore-first")

    def _set_one(self, knob: Knob, target: str, present: str, state: str) -> Change:
        journal = self._open_journal()
        self._close_restored_by_reboot(journal, knob, target, present)
        before = journal.find(knob.name, target)
        require_same_device(knob, before)
        self._refuse_changed(knob, before, present)
        entry = journal.set(knob.name, target, present, state, self.host.boot_id(), knob.device(target))
        self._touched.add(entry.number)
        change(journal, knob, entry)
        return Change(knob.name, target, knob.show(present), knob.show(state))

    def _close_restored_by_reboot(self, journal: Journal, knob: Knob, target: str, present: str) -> None:
        """Close an entry of an earlier boot; what the hardware still holds stays, with its first state."""
        entry = journal.find(knob.name, target)
        if entry and entry.boot_id != self.host.boot_id() and (knob.holder != "hardware" or present == entry.old):
            journal.restored(entry, "reboot")

    def _refuse_changed(self, knob: Knob, entry: Entry | None, present: str) -> None:
        if entry and entry.phase is Phase.SET and present != entry.found:
            raise ChangedUnderUs(
                f"changed by someone else: we set {knob.show(entry.new)}, now {knob.show(present)}",
                f"{knob.name} {entry.target}",
                "find out who, then pollscope knob restore",
            )

    def _open_journal(self) -> Journal:
        if self._journal is None:
            self._journal = Journal.open_or_create(self._path, self._header())
        return self._journal

    def _header(self) -> JournalHeader:
        owner = Owner.of_this_process(self.what)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return JournalHeader(self.what, __version__, owner.pid, owner.start_ticks, self.host.boot_id(), now)

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None


def would_change(host: KnobHost, name: str, target: str | None, value: object) -> list[Change]:
    """Return what `KnobSession.set` would change now; nothing is written, and the lock is not taken.

    Raises:
        UsageError, Refused, HostError: as `KnobSession.set`, before its first write.
    """
    knob = pick(knobs_of(host), name)
    moving = _moving(knob, target, knob.parse(value))
    return [Change(name, each, knob.show(present), knob.show(state)) for each, present, state in moving]


def _moving(knob: Knob, target: str | None, wanted: str) -> list[tuple[str, str, str]]:
    """Target, present and wanted state of each target that has another value.

    Raises:
        Refused, UsageError, HostError: not known to work here.
    """
    if not knob.targets():
        raise Refused(knob.available().reason or "the host has nothing that it could turn", knob.name)
    states = [(each, knob.read(each)) for each in knob.select(target, wanted)]
    plan = [(each, present, knob.state_for(wanted, present, each)) for each, present in states]
    moving = [step for step in plan if knob.show(step[1]) != knob.show(step[2])]
    if moving and not (availability := knob.available()):
        raise Refused(availability.reason, knob.name)
    return moving


@contextmanager
def apply(
    settings: Mapping[str, object], what: str, host: KnobHost | None = None, restore_first: bool = False
) -> Iterator[KnobSession]:
    """Set knobs for the time of a `with` block; arguments as `KnobSession`, settings as `KnobSession.apply`."""
    with KnobSession(what, host, restore_first) as session:
        session.apply(settings)
        yield session


def restore_all(
    host: KnobHost, knobs: Mapping[str, Knob], policy: Policy = Policy.ASK, name: str | None = None
) -> list[RestoreResult]:
    """Restore what runs left behind, then what was set by hand; of one knob only, when named. Hold the lock."""

    def wanted(entry: Entry) -> bool:
        return name is None or entry.knob == name

    restorer = Restorer(knobs, host.boot_id(), policy)
    return restorer.restore(run_journal(host), wanted) + restorer.restore(hand_journal(host), wanted)


def read_values(knob: Knob, target: str | None = None) -> dict[str, str]:
    """Return target -> value.

    Raises:
        HostError: a target cannot be read, or the host has none.
    """
    if not knob.targets():
        raise Refused(knob.available().reason or "the host has nothing that it could turn", knob.name)
    return {each: knob.show(knob.read(each)) for each in knob.select(target)}


def snapshot(host: KnobHost | None = None) -> dict[str, dict[str, str]]:
    """Return knob -> {target: value}, or {"absent": reason}, for the record of a run."""
    return {name: _values_or_reason(knob) for name, knob in knobs_of(host or KnobHost()).items()}


def _values_or_reason(knob: Knob) -> dict[str, str]:
    try:
        return read_values(knob)
    except HostError as error:
        return {"absent": str(error)}
