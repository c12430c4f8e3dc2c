# SPDX-License-Identifier: BSD-3-Clause
"""Write a .tar.gz whose bytes depend only on the names and contents of its files."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pollscope.base.errors import UsageError
from pollscope.base.replacing import check_place, written
from pollscope.base.units import human_size

SUFFIX = ".tar.gz"
# Level 9 takes four times as long for 2 % less.
_LEVEL = 6


@dataclass(frozen=True)
class Member:
    """One file of an archive.

    Attributes:
        name: its path there.
        content: a file, or the bytes themselves.
        executable: whether it is a program.
    """

    name: str
    content: Path | bytes
    executable: bool = False

    @property
    def size_bytes(self) -> int:
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size

    def open(self) -> io.BufferedIOBase:
        """Open the content for reading."""
        return io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb")

    def sha256(self) -> str:
        """Return the digest of the content."""
        with self.open() as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()


def require_new(out: Path) -> None:
    """Check that an archive of this name can be written; called before long work.

    Raises:
        UsageError: it has another ending, or exists.
        HostError: the folder takes no file.
    """
    if not out.name.endswith(SUFFIX):
        raise UsageError("is not the name of an archive", str(out), f"name a file that ends in {SUFFIX}")
    if out.exists() or out.is_symlink():
        raise UsageError("exists already", str(out), "name another file, or remove this one")
    check_place(out)


def write_archive(out: Path, members: Sequence[Member], packed: Callable[[int], None]) -> None:
    """Write an archive; call `packed` with the number of bytes of each part that was packed.

    Raises:
        UsageError: two files have the same name.
        HostError: it cannot be written, for instance because the disk is full; then no part of it stays.
    """
    ordered = sorted(members, key=lambda member: member.name)
    for one, other in pairwise(ordered):
        if one.name == other.name:
            raise UsageError(f"two files would be {one.name}", str(out), "pack them into two archives")
    remedy = f"free at most {human_size(total_bytes(ordered))}, or name a file elsewhere"
    with (
        written(out, remedy) as new,
        new.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=raw, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w|") as tar,
    ):
        for member in ordered:
            info = tarfile.TarInfo(member.name)
            info.size, info.mode = member.size_bytes, 0o755 if member.executable else 0o644
            with member.open() as content:
                tar.addfile(info, _Counted(content, packed))  # type: ignore[arg-type]


def total_bytes(members: Iterable[Member]) -> int:
    """Return the size of the contents before compression."""
    return sum(member.size_bytes for member in members)


class _Counted:
    """Report how much of a file was read."""

    def __init__(self, stream: io.BufferedIOBase, count: Callable[[int], None]) -> None:
        self._stream, self._count = stream, count

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._count(len(data))
        return data
