# SPDX-License-Identifier: BSD-3-Clause
"""Check that a run folder is this user's own before something is written into it.

A run folder may be untrusted: a link, a FIFO or a hard link in it could redirect a write to another file.
"""

import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from pollscope.base.errors import UsageError

_REMEDY = "if you trust the run, copy it without links (cp -rL --no-preserve=links) and resume the copy"


def belongs_to_this_user(folder: Path) -> bool:
    """Return whether this user owns a folder and no other user can put files into it."""
    found = folder.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & stat.S_IWOTH


def require_own(folder: Path) -> None:
    """Check that a run folder holds only folders and files of this user, without links.

    Raises:
        UsageError: it holds something else.
    """
    if folder.stat().st_mode & stat.S_IWOTH:
        raise UsageError("every user may write into the folder", str(folder), f"chmod o-w; {_REMEDY}")
    for path, found in _entries(folder):
        if what := _reason(found):
            raise UsageError(f"{what}, so the run is not resumed", str(path), _REMEDY)


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    yield folder, folder.stat()
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            yield path, path.lstat()


def _reason(found: os.stat_result) -> str:
    """Return why an entry is not written to; empty where it may be."""
    if stat.S_ISLNK(found.st_mode):
        return "is a link"
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        return "is neither a file nor a folder"
    if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
        return "has a second name (a hard link)"
    return f"belongs to {_user(found.st_uid)}" if found.st_uid != os.geteuid() else ""


def _user(number: int) -> str:
    try:
        return f"the user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
