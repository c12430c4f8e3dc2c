# SPDX-License-Identifier: BSD-3-Clause
"""A note on a host that a run has changed its boot parameters: there before they change, gone when they are back.

The journal of knobs does not hold them: they are set from another host, by a play with a journal of its own.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

from pollscope.collectors.knobs.host import Host
from pollscope.errors import HostError


def boot_note(host: Host) -> str:
    """Who changed the boot parameters and did not say that they are back; empty when nobody did.

    Raises:
        HostError: the note cannot be read.
    """
    path = _path(host)
    try:
        return " ".join(path.read_text(errors="replace").split()) if path.exists() else ""
    except OSError as error:
        raise HostError(f"cannot be read: {error.strerror}", str(path)) from error


def write_boot_note(host: Host, what: str) -> None:
    """Leaves the note, on the disk when this returns; one that is there stays.

    Raises:
        HostError: it cannot be written; then there is none.
    """
    path = _path(host)
    if path.exists():
        return
    new = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new.open("w") as file:
            file.write(f"{what} of {datetime.now(UTC).isoformat(timespec='seconds')}\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise HostError(f"cannot be written: {error.strerror}", str(path), "nothing was changed") from error


def remove_boot_note(host: Host) -> None:
    """Takes the note away: the boot parameters are back."""
    _path(host).unlink(missing_ok=True)


def _path(host: Host) -> Path:
    return host.state_dir / "knobs" / "boot.note"
