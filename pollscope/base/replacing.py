# SPDX-License-Identifier: BSD-3-Clause
"""Write files that are either whole or unchanged; nothing is synced, because a command can write them again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile, mkstemp

from pollscope.base.errors import HostError

ANOTHER = "choose another file with --out"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a new file beside `path`, with the same suffix, which replaces `path` at the end of the block.

    No other user can place a link there: the name is random, and mkstemp refuses a name that exists.

    Raises:
        OSError: for instance a full disk; then `path` is what it was.
    """
    descriptor, name = mkstemp(path.suffix, f".{path.stem}.", path.parent)
    new = Path(name)
    try:
        os.fchmod(descriptor, 0o666 & ~_umask())
        os.close(descriptor)
        yield new
        new.replace(path)
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def _umask() -> int:
    """Return the umask of this process without changing it (proc(5), Umask in /proc/self/status)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1], 8) for line in lines if line.startswith("Umask:")), 0o077)


@contextmanager
def written(path: Path, remedy: str = ANOTHER) -> Iterator[Path]:
    """Do as `replacing` does, for a file that the user named.

    Raises:
        HostError: it cannot be written.
    """
    with _refused(path, remedy), replacing(path) as new:
        yield new


def check_place(path: Path) -> None:
    """Check that a file can be written in its folder; called before long work.

    Raises:
        HostError: the folder takes no file.
    """
    with _refused(path, ANOTHER), TemporaryFile(dir=path.parent):
        pass


@contextmanager
def _refused(path: Path, remedy: str) -> Iterator[None]:
    """Report an operating-system error in one line."""
    try:
        yield
    except OSError as error:
        # strerror of pyarrow's errors is a sentence that names the temporary file.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise HostError(f"cannot be written: {reason}", str(path), remedy) from error
