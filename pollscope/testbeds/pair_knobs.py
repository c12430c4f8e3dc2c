# SPDX-License-Identifier: BSD-3-Clause
"""Knobs of the hosts of a pair: turned there by the agents, with the journal and under the lock of each host."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from pollscope.collectors.knobs import Outcome
from pollscope.errors import HostError
from pollscope.hostlock import HostLock
from pollscope.testbeds.ends import End

# The agent of a lost connection needs a moment to notice, to give back and to let go of the lock.
REOPEN_TRIES, REOPEN_PAUSE_S = 8, 2.0


class PairKnobs:
    """Holds both hosts from entering to leaving, turns the knobs of those that the testbed's file names.

    A host without an agent is held by nobody, and has no knobs. After a lost connection what was set is given back by
    the agent there, or from its journal; the next `apply` takes the host again and sets the same values.

    Args:
        what: who is at work, for the message that another one gets.
        lock: of the pair, on this host.
        ends: both hosts.
        turned: names of those whose knobs are turned.
        restore_first: see KnobSession.
    """

    def __init__(self, what: str, lock: HostLock, ends: Sequence[End], turned: Sequence[str], restore_first: bool):
        self._what, self._lock, self._ends, self._restore_first = what, lock, list(ends), restore_first
        self._turned = [end for end in ends if end.name in turned]
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
            undo.pop_all()
        return self

    def _take(self, end: End, restore_first: bool) -> list[Outcome]:
        reply = end.ask("knobs_open", what=self._what, restore_first=restore_first, root=end.host.knob_root)
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
            UsageError: no such knob or value. HostError: a host does not take it, or stays away.
        """
        for end in self._ends:
            if self._lost(end):
                self._retake(end)
        self._wanted |= settings
        for end in self._turned if settings else []:
            if reason := end.absence():
                raise HostError(f"its knobs cannot be turned: {reason}")
            end.holds_knobs = True
            end.ask("knobs_apply", settings=dict(settings))
        return []

    def _lost(self, end: End) -> bool:
        return end.name in self._open and end.connection != self._open[end.name]

    def _retake(self, end: End) -> list[Outcome]:
        for left in reversed(range(REOPEN_TRIES)):
            try:
                outcomes = self._take(end, restore_first=True)
                break
            except HostError:
                if not left:
                    raise
            time.sleep(REOPEN_PAUSE_S)
        if self._wanted and end in self._turned:
            end.ask("knobs_apply", settings=self._wanted)
        return outcomes

    def give_back(self) -> list[Outcome]:
        """Gives back what was set so far on both hosts."""
        self._wanted = {}
        for end in self._ends:
            end.holds_knobs = False
        return [outcome for end in self._ends if end.name in self._open for outcome in self._given_back(end)]

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
