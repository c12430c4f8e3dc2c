# SPDX-License-Identifier: BSD-3-Clause
"""Read small files of /proc and /sys (None where a file is absent), and write files that survive a power cut.

The modules of the playbooks carry this file to hosts that have no pollscope yet: it imports only Python's own library.
"""

import errno
import os
import stat
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

PROC, SYS = Path("/proc"), Path("/sys")
# The most CPUs that an x86-64 kernel supports. A list may come from another host or from an untrusted file.
_MOST_NUMBERS = 8192


def read_text(path: Path) -> str | None:
    """Return the content of a file without surrounding white space; None if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def read_int(path: Path) -> int | None:
    """Return the content of a file as an integer; None if it cannot be read or is not an integer."""
    text = read_text(path)
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def cpuinfo(proc: Path = PROC) -> dict[str, str]:
    """Return the fields of the first processor in /proc/cpuinfo; empty if it cannot be read."""
    first = (read_text(proc / "cpuinfo") or "").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def parse_list(text: str) -> list[int]:
    """Parse a kernel CPU or node list: `0-3,8` is [0, 1, 2, 3, 8]; see cpuset(7), list format.

    Raises:
        ValueError: not such a list, or more numbers than a kernel can have.
    """
    numbers: list[int] = []
    for part in text.split(","):
        if part.strip():
            first, dash, last = part.partition("-")
            numbers.extend(islice(range(int(first), int(last if dash else first) + 1), _MOST_NUMBERS + 1))
        if len(numbers) > _MOST_NUMBERS:
            raise ValueError(f"a list of more than {_MOST_NUMBERS} numbers")
    return numbers


def format_list(numbers: Iterable[int]) -> str:
    """Format numbers as the kernel lists them: `0-3,8` for 0, 1, 2, 3, 8."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    return ",".join(f"{each[0]}-{each[-1]}" if len(each) > 1 else str(each[0]) for each in spans)


def open_plain(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a regular file and return its descriptor; refuse links, FIFOs, devices, and for writing also hard links.

    Raises:
        OSError: also where the file is one of these.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "is a link", str(path)) from None
        raise
    found = os.fstat(descriptor)
    what = "" if stat.S_ISREG(found.st_mode) else "is not a regular file"
    if not what and found.st_nlink > 1 and flags & (os.O_WRONLY | os.O_RDWR):
        what = "has a second name (a hard link)"
    if what:
        os.close(descriptor)
        raise OSError(errno.EPERM, what, str(path))
    return descriptor


def read_plain(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        OSError: also where it is a link, a FIFO or a device, or does not fit into half of the memory: a sparse file can
            be of any size.
    """
    with open(open_plain(path, os.O_RDONLY), "rb") as file:
        if os.fstat(file.fileno()).st_size > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2:
            raise OSError(errno.EFBIG, "is larger than half of the memory", str(path))
        try:
            return file.read()
        except MemoryError:
            raise OSError(errno.ENOMEM, "does not fit into the memory", str(path)) from None


def write_through(path: Path, text: str, mode: int = 0o644) -> None:
    """Replace a file in one step and flush it and its folder to the disk.

    Raises:
        OSError: for instance a full disk; then the file is what it was.
    """
    make_folder(path.parent)
    fresh = path.with_name(path.name + ".pollscope-new")
    try:
        # The name is predictable, so a link there is removed, and O_EXCL refuses one that reappears.
        fresh.unlink(missing_ok=True)
        descriptor = open_plain(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_folder(path: Path, exist_ok: bool = True) -> None:
    """Make a folder and its missing parents, and flush their names to the disk.

    Raises:
        OSError: it cannot be made; FileExistsError if it exists and must not.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=exist_ok)
    for folder in missing:
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Flush the entries of a folder to the disk; otherwise a crash may undo a rename (fsync(2), notes)."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
