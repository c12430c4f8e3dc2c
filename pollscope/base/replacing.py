# SPDX-License-Identifier: BSD-3-Clause
"""Files that are there whole, or as they were: what a user asked for, and can make again after a power cut."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
