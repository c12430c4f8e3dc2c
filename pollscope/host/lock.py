# SPDX-License-Identifier: BSD-3-Clause
"""One run at a time on a host: a lock that names its owner.

The lock is flock(2) on a file, so the kernel releases it when the owner dies, whatever killed it. The file's content
(pid and start time, see proc(5) field 22) is there for the message only. A child that inherited the descriptor keeps
the lock, so a register write that outlives its killed parent ends before another process takes the lock. The modules of
the playbooks carry this file to hosts that have no pollscope yet: it names other modules relatively.
"""

import contextlib
import fcntl
import grp
import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from ..base.errors import HostError
from .files import make_folder, open_plain

STATE_VARIABLE = "POLLSCOPE_STATE_DIR"
# In a folder that only root can make, so that no other user can have made the file first.
HOST_LOCK = Path("/run/pollscope/host.lock")
# Its members may hold the lock, like root.
GROUP = "pollscope"
_RETRY_S = 0.02
_ASK_EVERY_S = 0.5
_DYING_S = 12.0  # longer than the time limit of any tool that a knob starts
_OWNER_BYTES = 4096
_OWNER_CHARACTERS = 120


def state_folder() -> Path:
    """Return the folder of journals: $POLLSCOPE_STATE_DIR (containers, tests), or that of the system."""
    return Path(os.environ.get(STATE_VARIABLE) or "/var/lib/pollscope")


def default_lock_path() -> Path:
    """Return the lock of this host, or one in $POLLSCOPE_STATE_DIR; if root has never measured, a lock of this user.

    Raises:
        HostError: this user has no folder for it.
    """
    if os.environ.get(STATE_VARIABLE):
        return state_folder() / "host.lock"
    return HOST_LOCK if os.geteuid() == 0 or HOST_LOCK.parent.is_dir() else _of_user("")


def conductor_lock_path(name: str) -> Path:
    """Return the lock of this user's runs on the hosts called `name`; controlling other hosts needs no root."""
    shared = os.environ.get(STATE_VARIABLE) or os.geteuid() == 0
    return default_lock_path().with_name(f"host-{name}.lock") if shared else _of_user(f"-{name}")


def _of_user(name: str) -> Path:
    """Return a path at which, unlike in /tmp, no other user can create a file first."""
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / f"pollscope-{os.geteuid()}{name}.lock"
    try:
        home = Path.home()
    except RuntimeError as error:
        remedy = f"{STATE_VARIABLE} names one"
        raise HostError("this user has no folder for the host lock", remedy=remedy) from error
    # Several hosts may share the home.
    return home / ".local/state/pollscope" / f"{socket.gethostname()}{name}.lock"


def start_ticks(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot (proc(5), field 22); None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return int(stat.rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


@dataclass(frozen=True)
class Owner:
    """The process that holds, or last held, the lock."""

    pid: int
    start_ticks: int
    what: str
    since_utc: str

    @classmethod
    def of_this_process(cls, what: str) -> "Owner":
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(os.getpid(), start_ticks(os.getpid()) or 0, what, now)

    @property
    def alive(self) -> bool:
        """Return False if the process is gone, or its pid belongs to a younger process."""
        return start_ticks(self.pid) == self.start_ticks

    def __str__(self) -> str:
        ending = "" if self.alive else ", which died; a program that it started is still ending"
        return f"pid {self.pid} ({self.what}, since {self.since_utc}){ending}"


class InUse(HostError):
    """Another process holds the host; waiting helps."""


class HostLock:
    """A lock for everything that measures on this host or changes it.

    Use as a context manager, or call `acquire` and `release`.

    Args:
        what: what the owner does, for messages to other processes ("run S-F5").
        path: the lock file; default: this host's.
    """

    def __init__(self, what: str, path: Path | None = None) -> None:
        self.what, self.path = what, path or default_lock_path()
        self._descriptor: int | None = None

    @property
    def descriptor(self) -> int:
        """Return the descriptor that holds the lock; pass it to children that must not outlive the lock."""
        assert self._descriptor is not None, "BUG: the host lock is not held"
        return self._descriptor

    def acquire(self) -> Self:
        """Take the lock; wait up to 12 s until programs of a dead owner end, but never for a living owner.

        Raises:
            HostError: another process holds it (named with pid and start), or the file cannot be opened.
        """
        descriptor = _open(self.path)
        try:
            self._lock(descriptor)
            _write_owner(descriptor, Owner.of_this_process(self.what), self.path)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return self

    def wait(self, say: Callable[[str], None]) -> Self:
        """Do as `acquire` does, but wait for a living owner as well, and report it once.

        Raises:
            HostError: the file cannot be opened.
        """
        named = gone = None
        while True:
            try:
                return self.acquire()
            except HostError:
                holder = owner(self.path)
                # An owner that has just ended releases the lock; for programs of a dead owner, `acquire` has already
                # waited.
                if holder is None or (holder == gone and not holder.alive):
                    raise
                if not holder.alive:
                    gone = holder
                elif holder != named:
                    say(f"waiting for {holder}")
                    named = holder
            time.sleep(_ASK_EVERY_S)

    def release(self) -> None:
        """Release the lock; harmless when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + _DYING_S
        while not _try_lock(descriptor, self.path):
            holder = owner(self.path)
            if (holder and holder.alive) or time.monotonic() >= deadline:
                what = f"this host is in use by {holder or 'an unknown process'}"
                raise InUse(what, str(self.path), "--wait of `pollscope run` waits for it")
            time.sleep(_RETRY_S)

    def __enter__(self) -> Self:
        return self if self._descriptor is not None else self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def owner(path: Path | None = None) -> Owner | None:
    """Return the present or last owner that the lock file names; None if it names none or cannot be read."""
    try:
        fields = json.loads((path or default_lock_path()).read_bytes()[:_OWNER_BYTES])
        return Owner(
            int(fields["pid"]), int(fields["start_ticks"]), _cleaned(fields["what"]), _cleaned(fields["since_utc"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _cleaned(text: object) -> str:
    """Return a short line without terminal control characters; any user may have written the file."""
    return "".join(each if each.isprintable() else "?" for each in str(text))[:_OWNER_CHARACTERS]


def _try_lock(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise HostError(f"cannot be locked: {error.strerror}", str(path)) from error
    return True


def _open(path: Path) -> int:
    # An existing file is opened without O_CREAT: in a sticky directory the kernel refuses O_CREAT on a file of another
    # user (sysctl fs.protected_regular).
    try:
        make_folder(path.parent)  # the lock may be the first to need the folder of the journals
        try:
            descriptor = open_plain(path, os.O_RDWR)
        except FileNotFoundError:
            descriptor = open_plain(path, os.O_RDWR | os.O_CREAT, 0o600)
    except PermissionError as error:
        remedy = f"use sudo, or have root put you into the group {GROUP}"
        raise HostError(f"the host lock cannot be opened: {error.strerror}", str(path), remedy) from error
    except OSError as error:
        remedy = f"{STATE_VARIABLE} names another folder for it"
        raise HostError(f"the host lock cannot be opened: {error.strerror}", str(path), remedy) from error
    if os.fstat(descriptor).st_uid == os.geteuid():
        # Owner and group hold the lock, nobody else: a process that can open a file can keep it locked (flock(2)).
        with contextlib.suppress(KeyError, PermissionError):  # no such group, or none of this user's
            os.fchown(descriptor, -1, grp.getgrnam(GROUP).gr_gid)
        os.fchmod(descriptor, 0o660)
    return descriptor


def _write_owner(descriptor: int, holder: Owner, path: Path) -> None:
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(holder)).encode() + b"\n", 0)
    except OSError as error:
        raise HostError(
            f"the host lock cannot be written: {error.strerror}", str(path), "nothing was changed"
        ) from error
