# SPDX-License-Identifier: BSD-3-Clause
"""Write a run folder (docs/internals/store-format.md); `pollscope.store.run_folder` reads it.

Each trial is on the disk before the next one starts. `run.json` is always replaced as a whole, so that a reader never
sees an incomplete file, even if the writer is killed.
"""

import errno
import fcntl
import json
import os
import secrets
import shlex
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pollscope.base.clock import utc_now
from pollscope.base.errors import DiskError, HostError, UsageError, one_line
from pollscope.host.files import make_folder, open_plain, read_plain, sync_folder, write_through
from pollscope.stats.histogram import stored_form
from pollscope.store.own_folder import require_own
from pollscope.store.run_folder import FORMAT, read_meta, trials_file

META_FILE, TRIALS_FILE, HOST_STATES_FILE, LOG_FILE = "run.json", "trials.jsonl", "host_states.jsonl", "node.log"
# Enough for a second run.json, which exists while one replaces the other.
RESERVE_FILE, RESERVE_BYTES = ".reserve", 1 << 18
_NAME_BYTES = 200
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT


def new_run_id() -> str:
    """Return a run id: start in UTC and six random hexadecimal digits, as in `20261120T162617Z-1a2b3c`."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


class RunWriter:
    """Append to one run folder. `create` and `resume` make a writer; only one can be open per folder.

    An open writer reserves disk space, so that a run can still be closed if the disk fills up. Each method raises
    DiskError if the disk is full or the folder is gone; the file is then unchanged.

    Attributes:
        folder: the run folder.
        meta: the present content of run.json.
        torn: `resume` dropped an incomplete last line.
    """

    def __init__(self, folder: Path, meta: Mapping[str, Any], lock: int, torn: bool) -> None:
        self.folder, self.meta, self.torn = folder, dict(meta), torn
        self._lock: int | None = lock
        sync_folder(folder)
        self._host_checks = _lines(folder / HOST_STATES_FILE)
        self._one = threading.Lock()  # several pairs append to one file

    @classmethod
    def create(cls, folder: Path, meta: Mapping[str, Any]) -> Self:
        """Make the folder with its run.json.

        Raises:
            UsageError: the folder exists.
            DiskError: it cannot be made.
        """
        whole = {"format": FORMAT, **meta}
        try:
            make_folder(folder, exist_ok=False)
        except FileExistsError as error:
            raise UsageError("the run folder is already there", str(folder), "results are never overwritten") from error
        except OSError as error:
            remedy = "choose another folder with --out"
            raise DiskError(f"the run folder cannot be made: {error.strerror}", str(folder), remedy) from error
        try:
            lock = _locked(folder)
        except HostError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        try:
            _reserve(folder)
            _replace(folder / META_FILE, whole)
            return cls(folder, whole, lock, torn=False)
        except BaseException as error:
            os.close(lock)
            if isinstance(error, HostError):
                shutil.rmtree(folder, ignore_errors=True)
            raise

    @classmethod
    def resume(cls, folder: Path) -> Self:
        """Open a folder, and drop an incomplete last line.

        Raises:
            UsageError: see `read_meta` and `require_own`.
            HostError: another process writes the folder; nothing was changed.
        """
        read_meta(folder)
        require_own(folder)
        if (packed := trials_file(folder)).suffix == ".gz":
            raise UsageError("the trials are compressed", str(packed), f"gunzip {shlex.quote(str(packed))}")
        lock = _locked(folder)
        try:
            _reserve(folder)
            with _writing(folder):
                _drop_torn_line(folder / HOST_STATES_FILE)  # nothing depends on a lost host-state check
                return cls(folder, read_meta(folder), lock, _drop_torn_line(folder / TRIALS_FILE))
        except BaseException:
            os.close(lock)
            raise

    @property
    def log(self) -> Path:
        """Return the file for the standard error of nodes."""
        return self.folder / LOG_FILE

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one line to trials.jsonl, with histograms in their stored form, and flush it to the disk."""
        with self._one:
            _append(self.folder / TRIALS_FILE, stored_form(record))

    def append_host_check(self, host_check: Mapping[str, Any]) -> dict[str, Any]:
        """Add one line to host_states.jsonl; return it with its number, `host_check`."""
        with self._one:
            numbered = {"host_check": self._host_checks, **host_check}
            _append(self.folder / HOST_STATES_FILE, numbered)
            if self._host_checks == 0:
                sync_folder(self.folder)
            self._host_checks += 1
        return numbered

    def update(self, **changes: Any) -> None:
        """Replace keys of run.json, atomically."""
        self.meta.update(changes)
        _replace(self.folder / META_FILE, self.meta)

    def finish(self, **changes: Any) -> None:
        """Write the last entries of a run to run.json; use the reserve if the disk is full."""
        try:
            self.update(**changes)
        except DiskError:
            self._free_reserve()
            self.update()

    def close(self) -> None:
        """Free the reserve, and unlock the folder for the next writer."""
        if self._lock is not None:
            self._free_reserve()
            os.close(self._lock)
            self._lock = None

    def _free_reserve(self) -> None:
        (self.folder / RESERVE_FILE).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turn an OSError into a DiskError with one line."""
    try:
        yield
    except OSError as error:
        remedy = "free disk space, then pollscope run --resume" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise DiskError(f"cannot be written: {error.strerror}", str(path), remedy) from error


def _locked(folder: Path) -> int:
    """Lock the folder against other writers, also those on hosts that share it; return the descriptor.

    Raises:
        HostError: another process writes the run; the message names it.
    """
    path = folder / TRIALS_FILE
    with _writing(path):
        descriptor = open_plain(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise HostError(f"another process writes this run: {_writer_of(folder)}", str(folder), "wait for it") from error
    except OSError:  # some file systems cannot lock
        pass
    return descriptor


def _writer_of(folder: Path) -> str:
    """Return the process that writes the run, from the first line of the reserve."""
    try:
        with open(open_plain(folder / RESERVE_FILE, os.O_RDONLY), "rb") as file:
            return one_line(file.readline(_NAME_BYTES).decode(errors="replace").strip()) or "it is just ending"
    except OSError:
        return "it is just ending"


def _reserve(folder: Path) -> None:
    path = folder / RESERVE_FILE
    with _writing(path), open(open_plain(path, os.O_WRONLY | os.O_CREAT), "wb", buffering=0) as file:
        file.truncate(0)
        file.write(f"pid {os.getpid()} on {socket.gethostname()}, since {utc_now()}\n".encode())
        try:
            os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:  # some file systems do not support it; then there is no reserve
                raise


def _append(path: Path, content: Mapping[str, Any]) -> None:
    line = memoryview(json.dumps(content, separators=(",", ":"), allow_nan=False).encode() + b"\n")
    with _writing(path), open(open_plain(path, _APPEND), "ab", buffering=0) as file:
        whole_bytes = file.seek(0, os.SEEK_END)
        try:
            while line:
                line = line[file.write(line) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(whole_bytes)
            raise


def _drop_torn_line(path: Path) -> bool:
    """Remove an incomplete last line of a file; return whether there was one."""
    content = read_plain(path) if path.exists() else b""
    whole_bytes = content.rfind(b"\n") + 1
    if torn := whole_bytes != len(content):
        with open(open_plain(path, os.O_RDWR), "r+b") as file:
            file.truncate(whole_bytes)
    return torn


def _lines(path: Path) -> int:
    return read_plain(path).count(b"\n") if path.exists() else 0


def _replace(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    with _writing(path):
        write_through(path, text)
