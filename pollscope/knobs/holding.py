# SPDX-License-Identifier: BSD-3-Clause
"""The frame of everything that turns knobs: takes the lock, restores what was left, and at the end what was set."""

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
    """A `with` block that keeps other runs from the host that measures, and restores its knobs in the end.

    As it stands here it is that of a testbed without a host: nothing can be turned, and nobody has to be kept out.

    Attributes:
        restored_first: what an ended run had left behind and was restored on entering.
    """

    restored_first: Sequence[RestoreResult] = ()

    def __enter__(self) -> Self:
        """Raise HostError when another run holds the host, or left something behind."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the knobs; raise HostError with those that could not be restored."""

    def apply(self, settings: Mapping[str, object]) -> Sequence[object]:
        """Set knobs, NAME[@TARGET] -> value; raise HostError when one does not take it, or a host is gone."""
        if settings:
            raise HostError(f"this testbed has no host whose knobs could be turned: {', '.join(settings)}")
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
        lock: of what is turned.
        place: where, in messages.
        remedy: what to do about what could not be restored.
    """

    lock: HostLock
    place: str = ""
    remedy: ClassVar[str]

    @abstractmethod
    def begin(self) -> None:
        """Restore what an earlier one left behind; after an error the lock is released."""

    @abstractmethod
    def end(self, error: BaseException | None) -> Sequence[RestoreResult]:
        """Restore what was set; the lock is released whatever happens."""

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
        # An error that is on its way says more; the journal stays and stops the next run.
        if problems and error is None:
            raise NotRestored("; ".join(problems), self.place, self.remedy)
