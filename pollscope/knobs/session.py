# SPDX-License-Identifier: BSD-3-Clause
"""Set and restore knobs; all changes pass through a session."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from pollscope import __version__
from pollscope.base import names
from pollscope.base.errors import HostError, UsageError
from pollscope.base.knob_values import known_knob, split_key
from pollscope.base.names import KNOBS
from pollscope.host.boot_note import AFTER_MODE, CHANGES_MODE, boot_note
from pollscope.host.files import read_text
from pollscope.host.journal import Entry, Journal, JournalHeader, Phase, load
from pollscope.host.lock import HostLock, Owner
from pollscope.host.restore import Policy, Restorer, RestoreResult, change, require_same_device, signals_put_off
from pollscope.knobs.base import Knob, Refused
from pollscope.knobs.holding import Holding
from pollscope.knobs.host import KnobHost

Caller = Literal["user", "runner", "play"]


class LeftBehind(HostError):
    """An earlier run ended without restoring its changes."""


class ChangedUnderUs(HostError):
    """Another program changed a value since it was set."""


@dataclass(frozen=True)
class Change:
    """One target that was set: values before and after."""

    knob: str
    target: str
    before: str
    after: str


def knobs_of(host: KnobHost) -> Mapping[str, Knob]:
    """Return one object of each knob, for a host."""
    return MappingProxyType({name: names.load(KNOBS, name).on(host) for name in KNOBS})


def pick(knobs: Mapping[str, Knob], name: str) -> Knob:
    """Return a knob by name.

    Raises:
        UsageError: there is none.
    """
    return knobs[known_knob(name)]


def run_journal(host: KnobHost) -> Path:
    """Return the journal of the changes by runs."""
    return host.state_dir / "knobs" / "run.journal"


def hand_journal(host: KnobHost) -> Path:
    """Return the journal of the changes by `pollscope knob set`, which outlive the command."""
    return host.state_dir / "knobs" / "hand.journal"


def left_behind(host: KnobHost) -> str:
    """Return one line about the knobs that an ended run did not restore; empty if there are none.

    The caller holds the host lock; otherwise the run may still be running. Changes by `knob set` count only if their
    write was interrupted.
    """
    run = load(run_journal(host))
    pending = run.pending + [entry for entry in load(hand_journal(host)).pending if entry.phase is Phase.WRITING]
    if not pending:
        return ""
    names = ", ".join(sorted({entry.knob for entry in pending}))
    program = f"{run.header.what} of {run.header.at_utc}" if run.header and run.pending else "knob set"
    return f"{program} did not restore: {names}"


def require_nobody_between(host: KnobHost, caller: Caller = "user") -> None:
    """Check that no play is between two tasks and no run waits for a reboot; both continue without the lock.

    Raises:
        HostError: there is one, or an interrupted one.
    """
    # playbooks/provision.yml keeps this folder from its start, when it holds the lock, to its end.
    mark = host.state_dir / "playbooks/before"
    if caller != "play" and mark.is_dir():
        player = " ".join((read_text(mark / "player") or "").split())
        what = f"a play{player and f' of {player}'} that prepares this host has not ended"
        remedy = "wait for it; if it was interrupted: run pollscope play provision again, or restore"
        raise HostError(what, str(mark), remedy)
    if caller == "user" and (note := boot_note(host.state_dir)):
        raise HostError(f"{note} {CHANGES_MODE}", remedy=AFTER_MODE)


class KnobSession(Holding):
    """Set knobs, and restore the old values at the end in reverse order.

    A session holds the host lock. It makes the journal at the first change, so that a run that sets no knob needs no
    permission to write it.

    Args:
        what: the name of this session in messages of other processes ("run S-F5").
        host: the host whose knobs are set; default: this host.
        restore_first: restore the changes of an earlier run instead of refusing to start.
        by_hand: changes outlive the session (`pollscope knob set`), except after an error.
        caller: "user"; "play"; "runner", the remote runner, which knows whether a run changed the boot parameters.

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
        """Restore the changes of an earlier run; programs that the host then starts inherit the lock."""
        require_nobody_between(self.host, self._caller)
        self.host = replace(self.host, inherited=(self.lock.descriptor,))
        self.knobs = knobs_of(self.host)
        pending = left_behind(self.host)
        if pending and self.restore_first:
            self.restored_first = restore_all(self.host, self.knobs)
            pending = left_behind(self.host)
        if pending:
            raise LeftBehind(pending, remedy="pollscope knob restore, or start with --restore-first")

    def end(self, error: BaseException | None) -> list[RestoreResult]:
        """Restore all changes, except those made by hand without an error."""
        with signals_put_off():
            try:
                return [] if self.by_hand and error is None else self.restore()
            finally:
                self._close()

    def set(self, name: str, target: str | None, value: object) -> list[Change]:
        """Set a knob on one target or on all its targets; skip targets that have the value already.

        Refusals come before the first write. After any other error, the values set so far stay until the session ends.

        Raises:
            UsageError: no such knob, target or value. Refused: not known to work here; nothing was written.
            NotStuck: another value was read back. ChangedUnderUs: another program changed the knob since we set it.
            HostError: the device is gone, the write failed, or the journal cannot be written.
        """
        knob = pick(self.knobs, name)
        wanted = knob.parse(value)
        if self.by_hand and knob.holder == "process":
            raise UsageError(f"{name} lasts only as long as the process that sets it", remedy="use --hold, or a spec")
        return [self._set_one(knob, *step) for step in _moving(knob, target, wanted)]

    def apply(self, settings: Mapping[str, object]) -> list[Change]:
        """Set several knobs in the order given; a key is "NAME" or "NAME@TARGET". Raise as `set` does."""
        changes = []
        for key, value in settings.items():
            name, target = split_key(key)
            changes += self.set(name, target, value)
        return changes

    def get(self, name: str, target: str | None = None) -> dict[str, str]:
        """Return target -> value; raise HostError if a target cannot be read."""
        return read_values(pick(self.knobs, name), target)

    def snapshot(self) -> dict[str, dict[str, str]]:
        """Return the values of each knob, or the reason why it has none (see `snapshot`)."""
        return snapshot(self.host)

    def restore(self, policy: Policy = Policy.ASK) -> list[RestoreResult]:
        """Restore all changes of this session; failed ones stay in the journal."""
        self._close()
        results = Restorer(self.knobs, self.host.boot_id(), policy).restore(self._path, self._is_mine)
        self._touched.clear()
        return results

    def _is_mine(self, entry: Entry) -> bool:
        # A run's journal holds only its own changes; that of `knob set` also holds those of earlier commands.
        return not self.by_hand or entry.number in self._touched

    def _set_one(self, knob: Knob, target: str, present: str, state: str) -> Change:
        if self._journal is None:
            self._journal = Journal.open_or_create(self._path, self._header())
        journal = self._journal
        before = journal.find(knob.name, target)
        # An entry of an earlier boot is over, unless the hardware still holds the change.
        if before and before.boot_id != self.host.boot_id() and (knob.holder != "hardware" or present == before.old):
            journal.restored(before, "reboot")
            before = journal.find(knob.name, target)
        require_same_device(knob, before)
        if before and before.phase is Phase.SET and present != before.found:
            raise ChangedUnderUs(
                f"changed by someone else: we set {knob.show(before.new)}, now {knob.show(present)}",
                f"{knob.name} {target}",
                "find out who, then pollscope knob restore",
            )
        entry = journal.set(knob.name, target, present, state, self.host.boot_id(), knob.device(target))
        self._touched.add(entry.number)
        change(journal, knob, entry)
        return Change(knob.name, target, knob.show(present), knob.show(state))

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
    """Return target, present state and wanted state of each target that has another value.

    Raises:
        Refused, UsageError, HostError: not known to work here.
    """
    if not knob.targets():
        raise Refused(knob.available().reason or "this host has no such setting", knob.name)
    states = [(each, knob.read(each)) for each in knob.select(target, wanted)]
    plan = [(each, present, knob.state_for(wanted, present, each)) for each, present in states]
    moving = [step for step in plan if knob.show(step[1]) != knob.show(step[2])]
    if moving and not (availability := knob.available()):
        raise Refused(availability.reason, knob.name)
    return moving


def restore_all(
    host: KnobHost, knobs: Mapping[str, Knob], policy: Policy = Policy.ASK, name: str | None = None
) -> list[RestoreResult]:
    """Restore the changes of runs, then those by hand, of one or all knobs. The caller holds the lock."""

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
        raise Refused(knob.available().reason or "this host has no such setting", knob.name)
    return {each: knob.show(knob.read(each)) for each in knob.select(target)}


def snapshot(host: KnobHost | None = None) -> dict[str, dict[str, str]]:
    """Return knob -> {target: value}, or {"absent": reason}, for the record of a run."""
    return {name: _values_or_reason(knob) for name, knob in knobs_of(host or KnobHost()).items()}


def _values_or_reason(knob: Knob) -> dict[str, str]:
    try:
        return read_values(knob)
    except HostError as error:
        return {"absent": str(error)}
