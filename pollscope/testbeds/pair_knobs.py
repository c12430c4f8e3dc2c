# SPDX-License-Identifier: BSD-3-Clause
"""Knobs of the hosts of a pair: turned there by the agents, with the journal and under the lock of each host."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self

from pollscope.collectors.knobs import LeftBehind, Outcome
from pollscope.errors import HostError
from pollscope.hostlock import HostLock
from pollscope.testbeds import boot_mode
from pollscope.testbeds.base import HostAway
from pollscope.testbeds.boot_mode import BootMode
from pollscope.testbeds.ends import End

# The agent of a lost connection needs a moment to notice, to give back and to let go of the lock.
REOPEN_TRIES, REOPEN_PAUSE_S = 8, 2.0


class PairKnobs:
    """Holds both hosts from entering to leaving, turns the knobs of those that the testbed's file names.

    A host without an agent is held by nobody, and has no knobs. After a lost connection what was set is given back by
    the agent there, or from its journal; the next `apply` takes the host again and sets the same values. For the mode
    of the IOMMU the host is let go, because the play takes its lock and reboots it; a note there tells the next run.

    Args:
        what: who is at work, for the message that another one gets.
        lock: of the pair, on this host.
        ends: both hosts.
        turned: names of those whose knobs are turned.
        restore_first: see KnobSession.
        modes: name of a host -> how the mode of its IOMMU is set; without one it is a knob that can only be read.
    """

    def __init__(
        self,
        what: str,
        lock: HostLock,
        ends: Sequence[End],
        turned: Sequence[str],
        restore_first: bool,
        modes: Mapping[str, BootMode],
    ) -> None:
        self._what, self._lock, self._ends, self._restore_first = what, lock, list(ends), restore_first
        self._turned, self._modes = [end for end in ends if end.name in turned], modes
        self._wanted: dict[str, object] = {}
        self._open: dict[str, int] = {}  # host -> number of the connection that holds it
        self.restored_first: list[Outcome] = []

    def __enter__(self) -> Self:
        self._lock.acquire()
        with ExitStack() as undo:
            undo.callback(self._lock.release)
            undo.callback(self._close)
            for end in self._ends:
                if end.has_agent():
                    self.restored_first += self._take(end, self._restore_first)
                    self.restored_first += self._settle_mode(end)
            undo.pop_all()
        return self

    def _settle_mode(self, end: End) -> list[Outcome]:
        """Gives back the mode of the IOMMU that an ended run left, or refuses to start."""
        left = end.ask("boot_note")["note"]
        if not left:
            return []
        what = f"{left} did not give back: {boot_mode.KNOB}"
        if end.name not in self._modes:
            raise LeftBehind(what, str(end), "start with --restore-first and a testbed file that names the inventory")
        if not self._restore_first:
            raise LeftBehind(what, str(end), "start with --restore-first")
        outcome = self._give_back_mode(end)
        if not outcome.settled:
            raise LeftBehind(str(outcome), str(end))
        return [outcome]

    def _take(self, end: End, restore_first: bool) -> list[Outcome]:
        reply = end.ask("knobs_open", what=self._what, restore_first=restore_first, **end.host.knob_place())
        self._open[end.name] = end.connection
        return _outcomes(end, reply["restored"])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            outcomes = self.give_back()
        finally:
            self._close()
            self._lock.release()
        problems = [str(outcome) for outcome in outcomes if not outcome.settled]
        if problems and error is None:
            raise HostError("; ".join(problems), remedy="pollscope knob restore, on that host")

    def _close(self) -> None:
        for end in self._ends:
            end.close()
            end.holds_knobs = False
        self._open.clear()

    def apply(self, settings: Mapping[str, object]) -> list[object]:
        """Sets knobs on the hosts that the testbed's file names; takes a host anew whose connection was lost.

        Raises:
            UsageError: no such knob or value. HostError: a host does not take it. HostAway: it does not answer.
        """
        for end in self._ends:
            if self._lost(end):
                self._retake(end)
        played = {key: value for key, value in settings.items() if self._modes and key == boot_mode.KNOB}
        others = {key: value for key, value in settings.items() if key not in played}
        for value in played.values():
            self._set_modes(str(value))
        self._wanted |= others
        for end in self._turned if others else []:
            self._require_agent(end)
            end.holds_knobs = True
            end.ask("knobs_apply", settings=others)
        return []

    def _require_agent(self, end: End) -> None:
        if reason := end.absence():
            raise HostError(f"its knobs cannot be turned: {reason}")

    def _set_modes(self, value: str) -> None:
        """The mode of the IOMMU, on each host that has another one."""
        for end in self._turned:
            mode = self._modes[end.name]
            if not mode.needs_play(value):
                continue
            self._require_agent(end)
            end.ask("write_boot_note", what=self._what)
            try:
                self._play(end, partial(mode.set, value))
            except HostAway:
                raise
            except HostError as error:
                mode.refuse(value, error)
                raise

    def _play(self, end: End, play: Callable[[], None]) -> None:
        """Lets a host go for a play that reboots it, and takes it again.

        Raises:
            HostAway: it does not answer any more. HostError: the play failed, and the host is there.
        """
        failed: HostError | None = None
        self._let_go(end)
        try:
            play()
        except HostError as error:
            failed = error
        try:
            self._retake(end)
        except HostAway as away:
            raise HostAway(str(failed), str(end), away.what) if failed else away from failed
        if failed:
            raise failed

    def _let_go(self, end: End) -> None:
        problems = [str(each) for each in self._given_back(end) if not each.settled]
        if problems:
            raise HostError(f"not rebooted: {'; '.join(problems)}", str(end))
        end.close()
        end.holds_knobs = False
        del self._open[end.name]

    def _lost(self, end: End) -> bool:
        return end.name in self._open and end.connection != self._open[end.name]

    def _retake(self, end: End) -> list[Outcome]:
        for left in reversed(range(REOPEN_TRIES)):
            try:
                outcomes = self._take(end, restore_first=True)
                break
            except HostError as error:
                if not left:
                    self._open.pop(end.name, None)
                    raise HostAway(error.what, error.where, error.remedy) from error
            time.sleep(REOPEN_PAUSE_S)
        if self._wanted and end in self._turned:
            end.holds_knobs = True
            end.ask("knobs_apply", settings=self._wanted)
        return outcomes

    def give_back(self) -> list[Outcome]:
        """Gives back what was set so far on both hosts."""
        self._wanted = {}
        for end in self._ends:
            end.holds_knobs = False
        outcomes = [outcome for end in self._ends if end.name in self._open for outcome in self._given_back(end)]
        changed = [end for end in self._turned if end.name in self._modes and self._modes[end.name].changed]
        return outcomes + [self._give_back_mode(end) for end in changed]

    def _give_back_mode(self, end: End) -> Outcome:
        try:
            if end.name not in self._open:  # it did not answer, or the play was interrupted
                self._take(end, restore_first=True)
            self._play(end, self._modes[end.name].give_back)
            end.ask("remove_boot_note")
        except HostError as error:
            left = f"not given back, which the next run does with --restore-first: {error}"
            return Outcome(boot_mode.KNOB, end.name, False, left)
        return Outcome(boot_mode.KNOB, end.name, True, "as the inventory has it again")

    def _given_back(self, end: End) -> list[Outcome]:
        try:
            if self._lost(end):
                return self._retake(end)
            return _outcomes(end, end.ask("knobs_give_back")["outcomes"])
        except HostError as error:
            return [Outcome("all", end.name, False, f"not known to be given back: {error}")]

    def snapshot(self) -> dict[str, dict[str, str]]:
        """Knob -> HOST/TARGET -> value, of the hosts whose knobs are turned."""
        found: dict[str, dict[str, str]] = {}
        for end in self._turned:
            if end.name not in self._open or self._lost(end):
                found.setdefault("all", {})[end.name] = f"absent: {end.absence() or 'the connection was lost'}"
                continue
            for knob, values in end.ask("knobs_snapshot")["knobs"].items():
                found.setdefault(knob, {}).update({f"{end.name}/{target}": value for target, value in values.items()})
        return found


def _outcomes(end: End, found: Sequence[Mapping[str, object]]) -> list[Outcome]:
    return [
        Outcome(str(each["knob"]), f"{end.name}/{each['target']}", bool(each["settled"]), str(each["text"]))
        for each in found
    ]
