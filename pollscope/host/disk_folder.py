# SPDX-License-Identifier: BSD-3-Clause
"""A folder for temporary files that are written while something is measured."""

import os
import tempfile
from pathlib import Path

_IN_DRAM = ("tmpfs", "ramfs")
_MOUNTS = Path("/proc/self/mounts")


def folder_on_disk(mounts: Path = _MOUNTS, others: tuple[str, ...] = ("/var/tmp", "/var/lib")) -> Path:
    """Return the usual folder for temporary files, or one on a disk if the usual one is in DRAM."""
    usual = Path(tempfile.gettempdir())
    if os.environ.get("TMPDIR"):
        return usual
    choices = (usual, *map(Path, others))
    on_disk = (each for each in choices if os.access(each, os.W_OK) and filesystem_of(each, mounts) not in _IN_DRAM)
    return next(on_disk, usual)


def filesystem_of(folder: Path, mounts: Path = _MOUNTS) -> str:
    """Return the file system type of a folder ("ext4", "tmpfs"); empty if the kernel does not list it."""
    try:
        lines = [line.split() for line in mounts.read_text(errors="replace").splitlines()]
    except OSError:
        return ""
    where, found = folder.resolve(), ""
    longest = -1
    for _, point, kind, *_ in (line for line in lines if len(line) > 2):
        path = Path(point.replace("\\040", " "))
        # the later of two mounts on one point hides the earlier
        if where.is_relative_to(path) and len(path.parts) >= longest:
            longest, found = len(path.parts), kind
    return found
