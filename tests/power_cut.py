# SPDX-License-Identifier: BSD-3-Clause
"""Compute what a disk holds after a power cut: replay system calls on a disk that keeps only what it must.

The page cache shows every program what it wrote, whether or not it is on the disk. So the calls are recorded by strace,
and replayed on a model that keeps of a file what was there at its last fsync, and of a folder the names that it had at
its last fsync (fsync(2), notes; Pillai et al., OSDI '14, for disks that take more liberties than ext4 does).
"""

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

WRITES, SYNCS, CUTS = ("write", "pwrite64"), ("fsync", "fdatasync"), ("truncate", "ftruncate")
CALLS = (*WRITES, *SYNCS, *CUTS, "openat", "rename", "unlink", "mkdir", "rmdir")
_LINE = re.compile(r"(?P<pid>\d+) +(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+|\?)(?:<(?P<opened>.*)>)?")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_DESCRIPTOR = re.compile(r"(?P<number>\d+|AT_FDCWD)<(?P<path>(?:[^<>]|<[^<>]*>)*)>")

Disk = Mapping[str, bytes]  # path -> content


class Call(NamedTuple):
    """A system call that succeeded: `path` is what it acted on, `data` what it wrote, `target` the new name."""

    name: str
    path: str
    data: bytes = b""
    target: str = ""
    flags: str = ""
    length: int = 0


def needs_strace() -> None:
    """Skip the test if calls cannot be recorded."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed: system calls cannot be recorded")
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"system calls cannot be recorded here: {tried.stderr.strip()}")


def traced(command: Sequence[str | Path], log: Path, cwd: Path, environment: Mapping[str, str]) -> list[Call]:
    """Run a command, which has to succeed; return the calls that change files, its own and its children's, in order."""
    wanted = f"trace={','.join(CALLS)}"
    options: list[str | Path] = ["-f", "--seccomp-bpf", "-y", "-s", str(1 << 24), "-e", wanted, "-o", log]
    done = subprocess.run(
        ["strace", *options, "--", *command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return list(parse(log.read_text(encoding="ascii").splitlines(), cwd))


def parse(lines: Sequence[str], cwd: Path) -> Iterator[Call]:
    """Return the successful calls of a recording; an interrupted one counts where it returned."""
    begun: dict[str, str] = {}
    for line in lines:
        pid = line.split(maxsplit=1)[0]
        if line.endswith("<unfinished ...>"):
            begun[pid] = line.removesuffix("<unfinished ...>").rstrip()
            continue
        whole = line
        if resumed := re.match(r"\d+ +<\.\.\. \w+ resumed>(.*)", line):
            whole = begun.pop(pid) + resumed[1]
        match = _LINE.match(whole)
        if match and not match["result"].startswith(("-", "?")) and not whole.endswith("(INJECTED)"):
            yield _call(match["name"], match["arguments"], match["opened"] or "", cwd)


def _call(name: str, arguments: str, opened: str, cwd: Path) -> Call:
    texts = [ast.literal_eval(f'b"{text}"') for text in _TEXT.findall(arguments)]
    descriptor = _DESCRIPTOR.match(arguments)
    of_descriptor = descriptor["path"] if descriptor else ""
    if name == "openat":
        return Call(name, opened, flags=arguments.rsplit('"', 1)[1])
    if name in WRITES:
        return Call(name, of_descriptor, data=texts[0] if texts else b"")
    if name in SYNCS:
        return Call("fsync", of_descriptor)
    length = int(arguments.rsplit(",", 1)[1]) if name in CUTS else 0
    if name == "ftruncate":
        return Call("truncate", of_descriptor, length=length)
    paths = [os.path.normpath(cwd / os.fsdecode(text)) for text in texts]
    return Call(name, paths[0], target=paths[1] if name == "rename" else "", length=length)


@dataclass
class File:
    """A file or a folder; `synced` is the content of a file, or the entries of a folder, at its last fsync."""

    content: bytes = b""
    synced: bytes = b""
    synced_entries: dict[str, "File"] = field(default_factory=dict)


class LossyDisk:
    """Files below `root` that are made after it; those that were there before are not followed."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self._files: dict[str, File] = {self.root: File()}

    def apply(self, call: Call) -> None:
        """Replay one call; calls outside the folder change nothing here."""
        path = call.path
        if not path.startswith(self.root + "/") and path != self.root:
            return
        if call.name == "mkdir" or (call.name == "openat" and "O_CREAT" in call.flags and path not in self._files):
            self._files[path] = File()
        elif call.name == "openat" and "O_TRUNC" in call.flags and path in self._files:
            self._files[path].content = b""
        elif call.name == "rename":
            self._files[call.target] = self._files.pop(path)
        elif call.name in ("unlink", "rmdir"):
            self._files.pop(path, None)
        elif path in self._files:
            self._change(self._files[path], call)

    def _change(self, file: File, call: Call) -> None:
        if call.name in WRITES:
            file.content += call.data
        elif call.name == "truncate":
            file.content = file.content[: call.length]
        elif call.name == "fsync":
            file.synced = file.content
            file.synced_entries = {
                path: each for path, each in self._files.items() if path.rpartition("/")[0] == call.path
            }

    def survivors(self) -> tuple[Disk, Disk]:
        """Return what a power cut now leaves, with names as late and with names as early as a disk may write them."""
        late = dict(self._lasting(self._files[self.root]))
        return late, {path: file.synced for path, file in self._files.items()}

    def _lasting(self, folder: File) -> Iterator[tuple[str, bytes]]:
        for path, file in folder.synced_entries.items():
            yield path, file.synced
            yield from self._lasting(file)


Check = Callable[[Call, tuple[Disk, Disk]], None]


def replay(
    calls: Sequence[Call], root: Path, check: Check, lost: Callable[[Call], bool] = lambda _: False
) -> LossyDisk:
    """Cut the power before every call and call `check`; fsyncs for which `lost` holds do nothing."""
    disk = LossyDisk(root)
    for call in calls:
        check(call, disk.survivors())
        if not (call.name == "fsync" and lost(call)):
            disk.apply(call)
    return disk
