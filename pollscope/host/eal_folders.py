# SPDX-License-Identifier: BSD-3-Clause
"""Name and remove what EAL makes for a process and leaves behind: <runtime>/dpdk/<file prefix>, files of hugepages."""

import os
import re
import shutil
import socket
import time
import uuid
from contextlib import suppress
from pathlib import Path

from pollscope.host.lock import start_ticks
from pollscope.host.memory import HUGEPAGE_BYTES, hugetlbfs_folder

# Pid and start time of the process that starts the node. The pair is unique, whereas pids are used again.
_PREFIX = re.compile(r"pollscope-(\d+)-(\d+)-[0-9a-f]{6}")
_STARTING_S = 60.0


def runtime_folder() -> Path:
    """Return the folder in which EAL makes them (eal_create_runtime_dir in lib/eal/unix/eal_filesystem.c)."""
    named = os.environ.get("RUNTIME_DIRECTORY")
    if named is None:
        named = "/var/run" if os.getuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/tmp")
    return Path(named) / "dpdk"


def new_file_prefix() -> str:
    """Return a file prefix that no other node has and that names the process which starts the node."""
    return f"pollscope-{os.getpid()}-{start_ticks(os.getpid())}-{uuid.uuid4().hex[:6]}"


def remove_folder(prefix: str) -> None:
    """Remove the folder of a node or program that has ended, and its files of hugepages, which hold the memory."""
    shutil.rmtree(runtime_folder() / prefix, ignore_errors=True)
    for folder in map(hugetlbfs_folder, HUGEPAGE_BYTES):
        for path in Path(folder).glob(f"{prefix}map_*") if folder else ():
            with suppress(OSError):  # another user's
                path.unlink()


def remove_stale_folders() -> None:
    """Remove the folders of nodes whose runner was killed before it could.

    The folder of a node that another host started names no process of this one. It is stale if its telemetry socket
    refuses connections.
    """
    for path in runtime_folder().glob("pollscope-*"):
        match = _PREFIX.fullmatch(path.name)
        if start_ticks(int(match[1])) != int(match[2]) if match else _has_ended(path):
            remove_folder(path.name)


def _has_ended(folder: Path) -> bool:
    sockets = list(folder.glob("dpdk_telemetry.v2*"))
    return bool(sockets) and all(_is_old(path) and _refuses(path) for path in sockets)


def _is_old(path: Path) -> bool:
    """Return whether a socket is older than the time that a starting node takes between bind(2) and listen(2)."""
    try:
        return time.time() - path.stat().st_mtime > _STARTING_S
    except OSError:
        return False


def _refuses(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:  # for example a full backlog
            return False
    return False
