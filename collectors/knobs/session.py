# SPDX-License-Identifier: BSD-3-Clause
"""Turning knobs and giving them back: every change passes through a session."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pollscope import __version__
from pollscope.collectors.knobs.base import Knob, Refused
from pollscope.collectors.knobs.giveback import Outcome, Policy, give_back
from pollscope.collectors.knobs.holding import Holding
from pollscope.collectors.knobs.host import Host
from pollscope.collectors.knobs.journal import Entry, Header, Journal, Phase, load
from pollscope.collectors.knobs.registry import knobs_of, pick, split_key
from pollscope.errors import HostError, UsageError
from pollscope.hostlock import HostLock, Owner


class LeftBehind(HostError):
    """An earlier run ended without giving back what it had set."""


class ChangedUnderUs(HostError):
    """Someone else changed a value since it was set."""


@dataclass(frozen=True)
class Change:
    """One target that was set: values before and after."""

    knob: str
    target: str
    before: str
    after: str


def run_journal(host: Host) -> Path:
    """The journal of what runs set."""
    return host.state_dir / "knobs" / "run.journal"


def hand_journal(host: Host) -> Path:
    """The journal of what `pollscope knob set` set and is to stay."""
    return host.state_dir / "knobs" / "hand.journal"


def left_behind(host: Host) -> str:
    """What an ended run did not give back, in one line; empty when nothing. Hold the host lock, or it may be running.

    What was set by hand on purpose does not count, unless its writing was cut off.
    """
    run = load(run_journal(host))
    pending = run.unsettled + [entry for entry in load(hand_journal(host)).unsettled if entry.phase is Phase.WRITING]
    if not pending:
        return ""
    names = ", ".join(sorted({entry.knob for entry in pending}))
    who = f"{run.header.what} of {run.header.at_utc}" if run.header and run.unsettled else "knob set"
    return f"{who} did not give back: {names}"


class KnobSession(Holding):
    """Sets knobs, and gives back at the end what was there, in reverse order.

    Holds the host lock from entering to leaving. The journal is made at the first change, so a run that turns no knob
    needs no right to write it.

    Args:
        what: who is at work, for the messages of others ("run S-F5").
        host: where; default: this host.
        restore_first: give back what an earlier run left behind, instead of refusing to start.
        by_hand: changes are to outlive the session (`pollscope knob set`); after an error they are given back.

    Raises (on entering):
        HostError: another run holds the host. LeftBehind: an earlier run left a journal behind.
    """

    remedy = "pollscope knob restore"

    def __init__(self, what: str, host: Host | None = None, restore_first: bool = False, by_hand: bool = False) -> None:
        base = host or Host()
        self.lock = HostLock(what, base.lock_path)
        self.host, self.what, self.restore_first, self.by_hand = base, what, restore_first, by_hand
        self.knobs: Mapping[str, Knob] = knobs_of(base)
        self.restored_first: list[Outcome] = []
        self._path = hand_journal(base) if by_hand else run_journal(base)
        self._journal: Journal | None = None
        self._touched: set[int] = set()

    def begin(self) -> None:
        """Settles the past; what the host then starts inherits the lock."""
        self.host = replace(self.host, inherited=(self.lock.descriptor,))
        self.knobs = knobs_of(self.host)
        self._settle_the_past()

    def end(self, error: BaseException | None) -> list[Outcome]:
        """Gives back, except what was set by hand without an error."""
        try:
            return [] if self.by_hand and error is None else self.give_back()
        finally:
            self._close()

    def set(self, name: str, target: str | None, value: object) -> list[Change]:
        """Sets a knob on one target, or on all that it has; what has the value already is not touched.

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
        plan = [self._plan(knob, each, wanted) for each in self._select(knob, target, wanted)]
        moving = [step for step in plan if knob.show(step[1]) != knob.show(step[2])]
        if moving and not (availability := knob.available()):
            raise Refused(availability.reason, name)
        return [self._set_one(knob, *step) for step in moving]

    def apply(self, settings: Mapping[str, object]) -> list[Change]:
        """Sets several knobs in the order given; a key is "NAME" or "NAME@TARGET". Errors as `set`."""
        changes = []
        for key, value in settings.items():
            name, target = split_key(key)
            changes += self.set(name, target, value)
        return changes

    def get(self, name: str, target: str | None = None) -> dict[str, str]:
        """Target -> value. Raises HostError when a target cannot be read."""
        return read_values(pick(self.knobs, name), target)

    def snapshot(self) -> dict[str, dict[str, str]]:
        """Every knob's values, or the reason why there are none (see `snapshot`)."""
        return snapshot(self.host)

    def give_back(self, policy: Policy = Policy.ASK) -> list[Outcome]:
        """Gives back everything that this session set; what could not be given back stays in the journal."""
        self._close()
        outcomes = give_back(self._path, self.host, self.knobs, policy, self._is_mine)
        self._touched.clear()
        return outcomes

    def _is_mine(self, entry: Entry) -> bool:
        # A run's journal holds nothing else; the one of settings by hand also holds those of earlier commands.
        return not self.by_hand or entry.number in self._touched

    def _settle_the_past(self) -> None:
        pending = left_behind(self.host)
        if pending and self.restore_first:
            self.restored_first = restore_all(self.host, self.knobs)
            pending = left_behind(self.host)
        if pending:
            raise LeftBehind(pending, remedy="pollscope knob restore, or start with --restore-first")

    def _select(self, knob: Knob, target: str | None, wanted: str) -> list[str]:
        if not knob.targets():
            raise Refused(knob.available().reason or "the host has nothing that it could turn", knob.name)
        return knob.select(target, wanted)

    def _plan(self, knob: Knob, target: str, wanted: str) -> tuple[str, str, str]:
        present = knob.read(target)
        return target, present, knob.state_for(wanted, present, target)

    def _set_one(self, knob: Knob, target: str, present: str, state: str) -> Change:
        journal = self._open_journal()
        self._refuse_changed(knob, journal.find(knob.name, target), present)
        entry = journal.set(knob.name, target, present, state)
        self._touched.add(entry.number)
        knob.write(target, state)
        journal.done(entry, knob.verify(target, state))
        return Change(knob.name, target, knob.show(present), knob.show(state))

    def _refuse_changed(self, knob: Knob, entry: Entry | None, present: str) -> None:
        if entry and entry.phase is Phase.SET and present != entry.found:
            raise ChangedUnderUs(
                f"changed by someone else: we set {knob.show(entry.new)}, now {knob.show(present)}",
                f"{knob.name} {entry.target}",
                "find out who, then pollscope knob restore",
            )

    def _open_journal(self) -> Journal:
        if self._journal is None:
            self._journal = self._reopened() or Journal.create(self._path, self._header())
        return self._journal

    def _reopened(self) -> Journal | None:
        content = load(self._path)
        if not content.unsettled:
            self._path.unlink(missing_ok=True)  # cut off while it was begun, or before it was removed
            return None
        if content.header and content.header.boot_id != self.host.boot_id():
            raise LeftBehind("the journal is from before the last reboot", str(self._path), "pollscope knob restore")
        return Journal.open(self._path)

    def _header(self) -> Header:
        owner = Owner.of_this_process(self.what)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return Header(self.what, __version__, owner.pid, owner.start_ticks, self.host.boot_id(), now)

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None


@contextmanager
def apply(
    settings: Mapping[str, object], what: str, host: Host | None = None, restore_first: bool = False
) -> Iterator[KnobSession]:
    """Sets knobs for the time of a `with` block; arguments as `KnobSession`, settings as `KnobSession.apply`."""
    with KnobSession(what, host, restore_first) as session:
        session.apply(settings)
        yield session


def restore_all(
    host: Host, knobs: Mapping[str, Knob], policy: Policy = Policy.ASK, name: str | None = None
) -> list[Outcome]:
    """Gives back what runs left behind, then what was set by hand; of one knob only, when named. Hold the lock."""

    def wanted(entry: Entry) -> bool:
        return name is None or entry.knob == name

    outcomes = give_back(run_journal(host), host, knobs, policy, wanted)
    return outcomes + give_back(hand_journal(host), host, knobs, policy, wanted)


def read_values(knob: Knob, target: str | None = None) -> dict[str, str]:
    """Target -> value.

    Raises:
        HostError: a target cannot be read, or the host has none.
    """
    if not knob.targets():
        raise Refused(knob.available().reason or "the host has nothing that it could turn", knob.name)
    return {each: knob.show(knob.read(each)) for each in knob.select(target)}


def snapshot(host: Host | None = None) -> dict[str, dict[str, str]]:
    """Knob -> {target: value}, or {"absent": reason}, for the record of a run."""
    return {name: _values_or_reason(knob) for name, knob in knobs_of(host or Host()).items()}


def _values_or_reason(knob: Knob) -> dict[str, str]:
    try:
        return read_values(knob)
    except HostError as error:
        return {"absent": str(error)}
