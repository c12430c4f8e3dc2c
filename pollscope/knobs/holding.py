# SPDX-License-Identifier: BSD-3-Clause
"""Base class of everything that sets knobs: take the lock, restore leftovers, and finally restore what was set."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import ClassVar, Self

from pollscope.base.errors import HostError
from pollscope.host.lock import HostLock
from pollscope.host.restore import RestoreResult


class NotRestored(HostError):
    """At the end some values could not be restored; they stay in the journal."""


class Knobs:
    """A `with` block that keeps other runs off the measuring host, and restores its knobs at the end.

    The default is for a testbed without a host: no knob can be set, and no run has to be kept out.

    Attributes:
        restored_first: what an ended run had left behind and was restored on entering.
    """

    restored_first: Sequence[RestoreResult] = ()

    def __enter__(self) -> Self:
        """Raise HostError if another run holds the host or left changes behind."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the knobs; raise HostError with those that could not be restored."""

    def apply(self, settings: Mapping[str, object]) -> Sequence[object]:
        """Set knobs, NAME[@TARGET] -> value; raise HostError if one refuses its value, or a host is gone."""
        if settings:
            raise HostError(f"this testbed has no host with knobs: {', '.join(settings)}")
        return ()

    def restore(self) -> Sequence[RestoreResult]:
        """Restore what was set so far."""
        return ()

    def snapshot(self) -> Mapping[str, Mapping[str, str]]:
        """Return knob -> target -> value, as it is now."""
        return {}


class Holding(Knobs, ABC):
    """Knobs under a lock that is held from entering to leaving.

    Attributes:
        lock: of the host. place: name of the host in messages.
        remedy: what to do about what could not be restored.
    """

    lock: HostLock
    place: str = ""
    remedy: ClassVar[str]

    @abstractmethod
    def begin(self) -> None:
        """Restore changes that an earlier run left behind; release the lock after an error."""

    @abstractmethod
    def end(self, error: BaseException | None) -> Sequence[RestoreResult]:
        """Restore what was set; release the lock in any case."""

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
            results = self.end(error)
        finally:
            self.lock.release()
        problems = [str(each) for each in results if not each.restored]
        # The pending exception is more informative; the journal stays and stops the next run.
        if problems and error is None:
            raise NotRestored("; ".join(problems), self.place, self.remedy)
