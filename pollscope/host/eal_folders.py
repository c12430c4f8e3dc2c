# SPDX-License-Identifier: BSD-3-Clause
"""The folders that EAL makes for a process and leaves behind: <runtime>/dpdk/<file prefix>."""

import os
import re
import shutil
import uuid
from pathlib import Path

from pollscope.host.lock import start_ticks

# Pid and start time of the process that starts the node: together they name it for good, pids alone are used again.
_PREFIX = re.compile(r"pollscope-(\d+)-(\d+)-[0-9a-f]{6}")


def runtime_folder() -> Path:
    """Where EAL puts them (eal_create_runtime_dir in lib/eal/unix/eal_filesystem.c)."""
    named = os.environ.get("RUNTIME_DIRECTORY")
    if named is None:
        named = "/var/run" if os.getuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/tmp")
    return Path(named) / "dpdk"


def new_file_prefix() -> str:
    """A file prefix that no other node has, and that names the process which starts the node."""
    return f"pollscope-{os.getpid()}-{start_ticks(os.getpid())}-{uuid.uuid4().hex[:6]}"


def remove_folder(prefix: str) -> None:
    """Takes away the folder of a node that has ended."""
    shutil.rmtree(runtime_folder() / prefix, ignore_errors=True)


def remove_stale_folders() -> None:
    """Takes away the folders of nodes whose runner was killed before it could."""
    for path in runtime_folder().glob("pollscope-*"):
        match = _PREFIX.fullmatch(path.name)
        if match and start_ticks(int(match[1])) != int(match[2]):
            remove_folder(path.name)
