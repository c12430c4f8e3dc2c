# SPDX-License-Identifier: BSD-3-Clause
"""What a knob is: one piece of host state that can be read, set, verified and given back exactly.

Two notations are kept apart. A *value* is what people write ("off", "performance", "4 ways"); a *state* is the exact
text or register content that stood there, enough to put it back byte for byte.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pollscope.collectors.knobs.host import Host, read_text, writable_reason, write_text
from pollscope.errors import HostError, UsageError

HOST_TARGET = "host"


@dataclass(frozen=True)
class Availability:
    """Whether a knob works on this host, and if not, why; true when it does."""

    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason


class Refused(HostError):
    """The knob is not known to do this here; nothing was written."""


class NotStuck(HostError):
    """A write was accepted and another value was read back."""


class Knob(ABC):
    """One setting of a host. Reading never changes anything.

    Attributes:
        name: how specs and the command line call it.
        summary: one line on what it does.
        values: the values that `parse` takes, for help and error messages.
        holder: what loses the state: "kernel" at every reboot; "hardware" only at a reset (a kexec keeps it);
            "process" when the process that set it ends.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    values: ClassVar[str]
    holder: ClassVar[Literal["kernel", "hardware", "process"]] = "kernel"

    def __init__(self, host: Host) -> None:
        self.host = host

    @abstractmethod
    def available(self) -> Availability:
        """Whether this host has the knob and this user may turn it."""

    @abstractmethod
    def targets(self) -> list[str]:
        """Everything on this host that the knob could turn, in a stable order."""

    @abstractmethod
    def parse(self, value: object) -> str:
        """A value in its one canonical notation.

        Raises:
            UsageError: the value is not one of `values`.
        """

    @abstractmethod
    def read(self, target: str) -> str:
        """The exact state of a target.

        Raises:
            HostError: it cannot be read, or the target is gone.
        """

    @abstractmethod
    def show(self, state: str) -> str:
        """The value that a state stands for."""

    @abstractmethod
    def state_for(self, value: str, state: str, target: str) -> str:
        """The state that gives a canonical value and keeps everything else of the present state.

        Raises:
            Refused: the target is not known to take this value.
        """

    @abstractmethod
    def write(self, target: str, state: str) -> None:
        """Writes a state.

        Raises:
            HostError: the write was refused, or the target is gone.
        """

    def select(self, target: str | None, value: str | None = None) -> list[str]:
        """The targets that a user's word means, in the order in which to write them (None: all of the host).

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

    def verify(self, target: str, wanted: str) -> str:
        """Reads a state back after a write and returns it.

        Raises:
            NotStuck: it stands for another value than the wanted state.
        """
        found = self.read(target)
        if self.show(found) != self.show(wanted):
            asked, read = self.show(wanted), self.show(found)
            raise NotStuck(f"the write did not stick: asked for {asked}, reads {read}", f"{self.name} {target}")
        return found

    def release(self) -> None:  # noqa: B027 - most knobs hold nothing
        """Drops what lives only with this process; for knobs whose `holder` is "process"."""

    def bad_value(self, value: object) -> UsageError:
        """The error for a value that is not one of `values`."""
        return UsageError(f"{value!r} is no value of {self.name}", remedy=f"allowed: {self.values}")


def parse_choice(knob: Knob, value: object, choices: Sequence[str]) -> str:
    """One of a few words; booleans, which YAML 1.1 makes of on and off, count as these words."""
    word = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value).strip().lower()
    if word not in choices:
        raise knob.bad_value(value)
    return word


def parse_whole(knob: Knob, value: object, low: int, high: int) -> int:
    """A whole number within limits (both included), decimal or 0x."""
    try:
        number = int(str(value).strip(), 0)
    except ValueError:
        raise knob.bad_value(value) from None
    if isinstance(value, bool) or not low <= number <= high:
        raise knob.bad_value(value)
    return number


class SwitchFile(Knob):
    """A knob that is one file for the whole host, whose content is one of a few words.

    Attributes:
        words: value -> content of the file.
    """

    words: ClassVar[Mapping[str, str]]

    @abstractmethod
    def file(self) -> Path:
        """The file, which need not exist."""

    @abstractmethod
    def missing(self) -> str:
        """The reason why the host has no such file."""

    def available(self) -> Availability:
        path = self.file()
        return Availability(writable_reason(path) if path.exists() else self.missing())

    def targets(self) -> list[str]:
        return [HOST_TARGET] if self.file().exists() else []

    def parse(self, value: object) -> str:
        return parse_choice(self, value, list(self.words))

    def read(self, target: str) -> str:
        return read_text(self.file())

    def show(self, state: str) -> str:
        content = state.strip()
        return next((value for value, word in self.words.items() if word == content), content)

    def state_for(self, value: str, state: str, target: str) -> str:
        return self.words[value] + "\n"

    def write(self, target: str, state: str) -> None:
        write_text(self.file(), state)


def first_reason(*checks: Callable[[], str]) -> str:
    """The first reason that is not empty; later checks are not made."""
    return next((reason for check in checks if (reason := check())), "")
