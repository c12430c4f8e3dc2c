# SPDX-License-Identifier: BSD-3-Clause
"""The errors that a user sees: one line that says what is wrong, where, and what to do about it.

PollscopeError
+-- UsageError       exit 2: bad usage, spec, devargs or result folder
|   +-- WrongTestbed   a spec is not meant for this kind of testbed
+-- HostError        exit 3: this host or testbed cannot do it
|   +-- DiskError      a disk takes no more
|   +-- CannotHost     it can host no point of a spec, or lacks a collector that the spec requires
+-- TrialError       exit 1: ran, but a trial failed
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every pollscope command (documented in docs/)."""

    DONE = 0
    TRIALS_FAILED = 1
    USAGE = 2
    HOST = 3
    UNSEEN = 4
    INTERRUPTED = 130


def one_line(text: str) -> str:
    """Return a text with line breaks and other unprintable characters escaped; names in files may contain any."""
    return text if text.isprintable() else "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def reason_of(error: Exception) -> str:
    """Return an error as one line; an OSError with its file."""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    return str(error)


class PollscopeError(Exception):
    """Base of all errors that end a command; never shown as a traceback.

    Args:
        what: what is wrong, in one line.
        where: file, key and line, or the device or path; empty when there is no place to point at.
        remedy: what the user can do about it.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.remedy = what, where, remedy

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" ({self.remedy})" if self.remedy else ""
        return one_line(f"{place}{self.what}{advice}")


class UsageError(PollscopeError):
    """Bad usage, or a file from the user that cannot be used."""

    exit_code = ExitCode.USAGE


class WrongTestbed(UsageError):
    """A spec is not meant for this kind of testbed; of a list of specs the others run."""


class HostError(PollscopeError):
    """This host or testbed cannot do what was asked."""

    exit_code = ExitCode.HOST


class CannotHost(HostError):
    """This testbed cannot host a spec; of a list of specs the others run."""


class DiskError(HostError):
    """A disk is full, read-only or broken; what was on it can still be read."""


class TrialError(PollscopeError):
    """A trial ran and failed; the run continues."""

    exit_code = ExitCode.TRIALS_FAILED
