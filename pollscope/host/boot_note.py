# SPDX-License-Identifier: BSD-3-Clause
"""A note on a host that a run has changed its boot parameters: there before they change, gone when they are back.

The journal of knobs does not hold them: they are set from another host, by a play with a journal of its own. For such
a play the run releases this host, so that the note is also what keeps other plays away. The modules of the playbooks
carry this file to hosts that have no pollscope yet: it names other modules relatively.
"""

import os
import re
import socket
from datetime import UTC, datetime
from pathlib import Path

from ..base.errors import HostError
from .files import write_through
from .lock import start_ticks

_AUTHOR = re.compile(r"pid (\d+)/(\d+) on ([^\s,]+)")
# The message to a run that a note keeps away, and its remedy.
CHANGES_MODE = "changes the mode of this host's IOMMU"
AFTER_MODE = "wait for it; after one that was killed: pollscope run --restore-first, or pollscope play restore"


def author() -> str:
    """Return which process writes a note, for `author_lives`."""
    return f"pid {os.getpid()}/{start_ticks(os.getpid())} on {socket.gethostname()}"


def author_lives(note: str) -> bool:
    """Return whether another process of this host, which still runs, wrote a note; of other hosts nothing is known."""
    found = _AUTHOR.search(note)
    if found is None or found[3] != socket.gethostname() or int(found[1]) == os.getpid():
        return False
    return start_ticks(int(found[1])) == int(found[2])


def boot_note(state: Path) -> str:
    """Return which run changed the boot parameters and has not restored them; empty if none did.

    Raises:
        HostError: the note cannot be read.
    """
    path = _path(state)
    try:
        return " ".join(path.read_text(errors="replace").split()) if path.exists() else ""
    except OSError as error:
        raise HostError(f"cannot be read: {error.strerror}", str(path)) from error


def write_boot_note(state: Path, what: str) -> None:
    """Leave the note, on the disk when this returns; one that is there stays.

    Raises:
        HostError: it cannot be written; then there is none.
    """
    path = _path(state)
    if path.exists():
        return
    try:
        write_through(path, f"{what} of {datetime.now(UTC).isoformat(timespec='seconds')}\n")
    except OSError as error:
        raise HostError(f"cannot be written: {error.strerror}", str(path), "nothing was changed") from error


def remove_boot_note(state: Path) -> None:
    """Remove the note: the boot parameters are back."""
    _path(state).unlink(missing_ok=True)


def _path(state: Path) -> Path:
    return state / "knobs" / "boot.note"
