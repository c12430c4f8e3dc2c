# SPDX-License-Identifier: BSD-3-Clause
"""Provide the project as a checkout has it: its build and Ansible start from that."""

import shutil
import tempfile
from pathlib import Path

from pollscope.base.errors import HostError, reason_of
from pollscope.base.paths import CARRIED, CHECKOUT, INSTALLED, PACKAGE, cache_folder, files_below, package_digest

# Parts of the package in a wheel that a checkout has at its top (setup.py).
_AT_TOP = ("configs", "data", "experiments")


def source_tree() -> Path:
    """Return the checkout; for a wheel, make and return a copy in the cache, one per content.

    Raises:
        HostError: it cannot be written.
    """
    if not INSTALLED:
        return CHECKOUT
    tree = cache_folder() / "sources" / package_digest()
    if not tree.is_dir():
        try:
            _unpack(tree)
        except OSError as error:
            raise HostError(f"the sources cannot be unpacked: {reason_of(error)}", str(tree)) from error
    return tree


def _unpack(tree: Path) -> None:
    tree.parent.mkdir(parents=True, exist_ok=True)
    # Rename a complete copy: another process may look for it at any time.
    with tempfile.TemporaryDirectory(prefix="unpacking-", dir=tree.parent) as folder:
        work = Path(folder) / "tree"
        _copy(CARRIED, work)
        for name in _AT_TOP:
            _copy(PACKAGE / name, work / name)
        others = {path.name for path in PACKAGE.iterdir()} - {*_AT_TOP, CARRIED.name, "__pycache__"}
        for name in others:
            _copy(PACKAGE / name, work / "pollscope" / name)
        for path in files_below(work):
            with path.open("rb") as file:  # an installer need not keep the mode
                if file.read(2) == b"#!":
                    path.chmod(0o755)
        if not tree.is_dir():  # another process was first
            work.rename(tree)


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, to)
