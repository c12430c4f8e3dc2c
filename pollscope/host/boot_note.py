# SPDX-License-Identifier: BSD-3-Clause
"""Leave a note on a host whose boot parameters a run changes: written before, removed after they are restored.

The journal of knobs does not contain them, because a play sets them from another host and has its own journal. The run
releases the host lock for that play, so the note also keeps other plays away. The modules of the playbooks carry this
file to hosts that have no pollscope yet: it names other modules relatively.
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
    """Return the identity of the process that writes a note, for `author_lives`."""
    return f"pid {os.getpid()}/{start_ticks(os.getpid())} on {socket.gethostname()}"


def author_lives(note: str) -> bool:
    """Return whether another running process of this host wrote a note; processes of other hosts are unknown."""
    found = _AUTHOR.search(note)
    if found is None or found[3] != socket.gethostname() or int(found[1]) == os.getpid():
        return False
    return start_ticks(int(found[1])) == int(found[2])


def boot_note(state: Path) -> str:
    """Return the run that changed the boot parameters and has not restored them; empty if there is none.

    Raises:
        HostError: the note cannot be read.
    """
    path = _path(state)
    try:
        return " ".join(path.read_text(errors="replace").split()) if path.exists() else ""
    except OSError as error:
        raise HostError(f"cannot be read: {error.strerror}", str(path)) from error


def write_boot_note(state: Path, what: str) -> None:
    """Write the note through to the disk, unless there is one.

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
    """Remove the note: the boot parameters are restored."""
    _path(state).unlink(missing_ok=True)


def _path(state: Path) -> Path:
    return state / "knobs" / "boot.note"
