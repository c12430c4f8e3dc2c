# SPDX-License-Identifier: BSD-3-Clause
"""Files that are there whole, or as they were: what a user asked for, and can make again after a power cut."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from pollscope.base.errors import HostError

ANOTHER = "choose another file with --out"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path`, of the same suffix, that takes its place at the end of the block, or goes if that fails.

    Raises:
        OSError: for instance a full disk; then `path` is what it was.
    """
    new = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield new
        new.replace(path)
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


@contextmanager
def written(path: Path, remedy: str = ANOTHER) -> Iterator[Path]:
    """As `replacing`, for a file that a command was told to write.

    Raises:
        HostError: it cannot be written.
    """
    with _refused(path, remedy), replacing(path) as new:
        yield new


def check_place(path: Path) -> None:
    """Whether there can be such a file: to be asked before what takes long, not behind it.

    Raises:
        HostError: its folder takes none.
    """
    with _refused(path, ANOTHER), TemporaryFile(dir=path.parent):
        pass


@contextmanager
def _refused(path: Path, remedy: str) -> Iterator[None]:
    """What the system refuses, in one line."""
    try:
        yield
    except OSError as error:
        # What pyarrow raises has a sentence of its own for strerror, with the name of the file beside this one.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise HostError(f"cannot be written: {reason}", str(path), remedy) from error
