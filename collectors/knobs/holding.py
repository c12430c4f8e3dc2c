# SPDX-License-Identifier: BSD-3-Clause
"""The frame of everything that turns knobs: take the lock, settle the past, at the end give back and let go."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import ClassVar, Self

from pollscope.collectors.knobs.giveback import Outcome
from pollscope.errors import HostError
from pollscope.hostlock import HostLock


class NotGivenBack(HostError):
    """At the end some values could not be given back; they stay in the journal."""


class Holding(ABC):
    """A `with` block that holds a lock from entering to leaving.

    Attributes:
        lock: of what is turned.
        place: where, in messages.
        remedy: what to do about what could not be given back.
    """

    lock: HostLock
    place: str = ""
    remedy: ClassVar[str]

    @abstractmethod
    def begin(self) -> None:
        """Settles what an earlier one left behind; after an error the lock is released."""

    @abstractmethod
    def end(self, error: BaseException | None) -> Sequence[Outcome]:
        """Gives back what was set; the lock is released whatever happens."""

    def __enter__(self) -> Self:
        self.lock.acquire()
        try:
            self.begin()
        except BaseException:
            self.lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            outcomes = self.end(error)
        finally:
            self.lock.release()
        problems = [str(outcome) for outcome in outcomes if not outcome.settled]
        # An error that is on its way says more; the journal stays and stops the next run.
        if problems and error is None:
            raise NotGivenBack("; ".join(problems), self.place, self.remedy)
