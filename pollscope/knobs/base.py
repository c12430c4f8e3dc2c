# SPDX-License-Identifier: BSD-3-Clause
"""Define a knob: one piece of host state that can be read, set, verified and restored exactly.

Two notations are kept apart. A *value* is what people write ("off", "performance", "4 ways"); a *state* is the exact
text or register content, so that it can be restored byte for byte.
"""

import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pollscope.base.errors import HostError, UsageError
from pollscope.host.restore import Setting
from pollscope.knobs.host import KnobHost, read_text, writable_reason, write_text

HOST_TARGET = "host"


@dataclass(frozen=True)
class Availability:
    """Say whether a knob works on this host, and if not, why; true if it does."""

    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason


class Refused(HostError):
    """The knob is not known to support this here; nothing was written."""


class Knob(Setting):
    """One setting of a host. Reading never changes anything.

    Attributes:
        name: how specs and the command line call it.
        summary: one line on what it does.
        values: the values that `parse` takes, for help and error messages.
        aims: its targets in words, and the default (docs/reference-metrics.md). where: the file or register behind it
            (docs/reference-metrics.md).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    values: ClassVar[str]
    aims: ClassVar[str] = HOST_TARGET
    where: ClassVar[str]

    def __init__(self, host: KnobHost) -> None:
        self.host = host

    @classmethod
    def on(cls, host: KnobHost) -> "Knob":
        """Return the knob of a host; a class may delegate to another one that suits the host better."""
        return cls(host)

    @abstractmethod
    def available(self) -> Availability:
        """Return whether this host has the knob and this user may set it."""

    @abstractmethod
    def targets(self) -> list[str]:
        """Return all targets of this knob on this host in a stable order."""

    @classmethod
    @abstractmethod
    def parse(cls, value: object) -> str:
        """Parse a value into its one canonical notation.

        Raises:
            UsageError: the value is not one of `values`.
        """

    @abstractmethod
    def read(self, target: str) -> str:
        """Return the exact state of a target.

        Raises:
            HostError: it cannot be read, or the target is gone.
        """

    def show(self, state: str) -> str:
        """Return the value of a state; default: they are the same."""
        return state

    @abstractmethod
    def state_for(self, value: str, state: str, target: str) -> str:
        """Return the state that gives a canonical value and keeps everything else of the present state.

        Raises:
            Refused: the target is not known to take this value.
        """

    def select(self, target: str | None, value: str | None = None) -> list[str]:
        """Return the targets that a user named, in the order in which to write them (None: all of the host).

        Raises:
            UsageError: no such target.
            HostError: the host has none.
        """
        everything = self.targets()
        if target is None:
            return everything
        if target not in everything:
            raise UsageError(f"{self.name} has no target {target}", remedy=f"it has {', '.join(everything) or 'none'}")
        return [target]

    def place(self, target: str) -> str:
        """Return knob and target."""
        return f"{self.name} {target}"

    def same(self, found: Any, wanted: Any) -> bool:
        """Return whether two states mean the same value."""
        return self.show(found) == self.show(wanted)

    @classmethod
    def bad_value(cls, value: object) -> UsageError:
        """Return the error for a value that is not one of `values`."""
        return UsageError(f"{value!r} is not a value of {cls.name}", remedy=f"allowed: {cls.values}")


def in_order(names: Iterable[str]) -> list[str]:
    """Return the names of targets by the numbers in them: cpu2 before cpu10."""
    return sorted(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def parse_choice(knob: type[Knob], value: object, choices: Sequence[str]) -> str:
    """Parse one of a few words; booleans, which YAML 1.1 makes of on and off, count as these words."""
    word = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value).strip().lower()
    if word not in choices:
        raise knob.bad_value(value)
    return word


def parse_whole(knob: type[Knob], value: object, low: int, high: int) -> int:
    """Parse a whole number within limits (both included), decimal or 0x."""
    try:
        number = int(str(value).strip(), 0)
    except ValueError:
        raise knob.bad_value(value) from None
    if isinstance(value, bool) or not low <= number <= high:
        raise knob.bad_value(value)
    return number


class FileKnob(Knob):
    """A knob whose targets are files; a state is a file's content, and its first line the value."""

    @abstractmethod
    def file(self, target: str) -> Path:
        """Return the file of a target, which need not exist."""

    @abstractmethod
    def missing(self) -> str:
        """Return the reason why the host has no target."""

    def available(self) -> Availability:
        targets = self.targets()
        return Availability(writable_reason(self.file(targets[0])) if targets else self.missing())

    def show(self, state: str) -> str:
        return state.strip()

    def state_for(self, value: str, state: str, target: str) -> str:
        return f"{value}\n"

    def read(self, target: str) -> str:
        return read_text(self.file(target))

    def write(self, target: str, state: str) -> None:
        write_text(self.file(target), state)
