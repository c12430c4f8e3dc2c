# SPDX-License-Identifier: BSD-3-Clause
"""Gives back what a journal lists, newest change first, and says what happened to each entry."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import FrameType

from pollscope.collectors.knobs.base import Knob
from pollscope.collectors.knobs.host import Host
from pollscope.collectors.knobs.journal import Entry, Journal, Phase
from pollscope.errors import HostError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Policy(StrEnum):
    """What to do with a value that someone else changed meanwhile."""

    ASK = "ask"  # leave it and report it; the entry stays in the journal
    FORCE = "force"  # write the old state over it
    KEEP = "keep"  # accept whatever stands there, for every entry that cannot be given back


@dataclass(frozen=True)
class Outcome:
    """What became of one entry. `settled` is False when it is still in the journal; `text` is for people."""

    knob: str
    target: str
    settled: bool
    text: str

    def __str__(self) -> str:
        return f"{self.knob} {self.target}: {self.text}"


def give_back(
    path: Path,
    host: Host,
    knobs: Mapping[str, Knob],
    policy: Policy = Policy.ASK,
    wanted: Callable[[Entry], bool] = lambda entry: True,
) -> list[Outcome]:
    """Gives back the unsettled entries of a journal; the journal is removed when none is left.

    The caller holds the host lock. Signals that end a program are put off until the end.

    Raises:
        HostError: the journal cannot be written. UsageError: it is broken.
    """
    if not path.exists():
        return []
    with _signals_put_off():
        journal = Journal.open(path)
        rebooted = journal.header is not None and journal.header.boot_id != host.boot_id()
        entries = [entry for entry in reversed(journal.unsettled) if wanted(entry)]
        outcomes = [_give_back_one(journal, entry, knobs, policy, rebooted) for entry in entries]
        if journal.unsettled:
            journal.close()
        else:
            journal.remove()
    return outcomes


def _give_back_one(
    journal: Journal, entry: Entry, knobs: Mapping[str, Knob], policy: Policy, rebooted: bool
) -> Outcome:
    try:
        settled, text = _try(journal, entry, knobs, policy, rebooted)
    except HostError as error:
        settled, text = False, f"cannot be given back ({error})"
    if not settled and policy is Policy.KEEP:
        journal.restored(entry, "kept")
        settled, text = True, f"left as it is: {text}"
    return Outcome(entry.knob, entry.target, settled, text)


def _try(journal: Journal, entry: Entry, knobs: Mapping[str, Knob], policy: Policy, rebooted: bool) -> tuple[bool, str]:
    knob = knobs.get(entry.knob)
    if knob is None:
        return False, "this version of pollscope has no such knob"
    if knob.holder == "process":
        knob.release()
        journal.restored(entry, "process")
        return True, "taken back"
    if rebooted and knob.holder == "kernel":
        journal.restored(entry, "reboot")
        return True, "the host was rebooted since, which took it back"
    return _write_old(journal, entry, knob, policy)


def _write_old(journal: Journal, entry: Entry, knob: Knob, policy: Policy) -> tuple[bool, str]:
    present, old = knob.read(entry.target), knob.show(entry.old)
    if present == entry.old:
        journal.restored(entry, "already")
        return True, f"is {old}, as it was"
    # A write that was cut off can leave anything; only a confirmed one tells our value from someone else's.
    if entry.phase is Phase.SET and present != entry.found and policy is not Policy.FORCE:
        ours = knob.show(entry.new)
        return False, f"changed by someone else: was {old}, we set {ours}, now {knob.show(present)}; not overwritten"
    journal.restoring(entry)
    knob.write(entry.target, entry.old)
    found = knob.read(entry.target)
    if found != entry.old:
        return False, f"the write did not stick: was {old}, reads {knob.show(found)}"
    journal.restored(entry, "written")
    return True, f"{old} again"


@contextmanager
def _signals_put_off() -> Iterator[None]:
    """Delivers SIGINT, SIGTERM and SIGHUP after the block; only the main thread may do this, others run unprotected."""
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
