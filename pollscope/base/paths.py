# SPDX-License-Identifier: BSD-3-Clause
"""Locate the project's own files, in a checkout and in a wheel, and the folders for builds, caches and logs.

setup.py lists the contents of a wheel. Nothing writes into an installed package: its builds, caches and logs go to the
user's folders (XDG base directories). Those of a checkout stay below the checkout.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pollscope.base.errors import HostError

_NODE_VARIABLE = "POLLSCOPE_NODE"
_CORUNNER_VARIABLE = "POLLSCOPE_CORUNNER"
_TCP_PATH_VARIABLE = "POLLSCOPE_TCP_PATH"
# Set by the launcher of a bundle.
_PROGRAMS_VARIABLE = "POLLSCOPE_PROGRAMS"
PACKAGE = Path(__file__).resolve().parent.parent
# A checkout or an archive of one: programs, playbooks and build files are beside the package.
CHECKOUT = PACKAGE.parent
# In a wheel: the files that a checkout has beside the package (C sources, playbooks, build files).
CARRIED = PACKAGE / "sources"
INSTALLED = CARRIED.is_dir()
# The command that builds the programs on this host.
BUILD_COMMAND = "pollscope build" if INSTALLED else "make build"


def data_folder(name: str) -> Path:
    """Return `experiments`, `configs` or `data`: inside the package in a wheel (see setup.py), else beside it."""
    inside = PACKAGE / name
    return inside if inside.is_dir() else CHECKOUT / name


def is_shipped(file: str | Path) -> bool:
    """Return whether a file is one of the configurations that come with pollscope."""
    return Path(file).resolve().is_relative_to(data_folder("configs").resolve())


def carried(name: str) -> Path:
    """Return a file or folder of the project outside its Python package, for reading: `apps`, `playbooks/roles`."""
    return (CARRIED if INSTALLED else CHECKOUT) / name


def cache_folder() -> Path:
    """Return the folder for images, builds and archives, which can be made again.

    It is .cache of the checkout; a wheel uses $XDG_CACHE_HOME/pollscope.

    Raises:
        HostError: the user has no home, and no variable names a folder.
    """
    return _of_user("XDG_CACHE_HOME", ".cache") if INSTALLED else CHECKOUT / ".cache"


def kept_folder() -> Path:
    """Return the folder for logs and virtual machines, which outlive the program.

    It is .cache of the checkout; a wheel uses $XDG_STATE_HOME/pollscope.

    Raises:
        HostError: as for `cache_folder`.
    """
    return _of_user("XDG_STATE_HOME", ".local/state") if INSTALLED else CHECKOUT / ".cache"


def _of_user(variable: str, below_home: str) -> Path:
    named = Path(os.environ.get(variable, ""))
    try:
        # The XDG base directory specification 0.8 says to ignore relative paths.
        folder = (named if named.is_absolute() else Path.home() / below_home) / "pollscope"
    except RuntimeError as error:
        raise HostError("this user has no home folder", remedy=f"name a folder in {variable}") from error
    _require_own(folder, variable)
    return folder


def _require_own(folder: Path, variable: str) -> None:
    """Check that no other user can change a folder, because its programs and plays are started.

    Raises:
        HostError: another user can. A root shell started by `su` keeps the user's variables.
    """
    for place in (folder, folder.parent):
        if place.exists():
            found = place.stat()
            if found.st_uid not in (0, os.geteuid()) or found.st_mode & stat.S_IWOTH:
                what = "another user can write to this folder, and programs in it would be started"
                raise HostError(what, str(place), f"unset {variable}, or name a folder of your own in it")


def build_folder() -> Path:
    """Return the folder of the programs.

    It is the one that a bundle's launcher chose, build of the checkout, or for a wheel a cache folder that is named
    after the wheel's content.
    """
    if named := os.environ.get(_PROGRAMS_VARIABLE):
        return Path(named)
    return cache_folder() / "builds" / package_digest() if INSTALLED else CHECKOUT / "build"


def level_folder(level: str) -> Path:
    """Return the folder for programs that a bundle takes to processors of this level."""
    return cache_folder() / "builds" / (f"{package_digest()}-{level}" if INSTALLED else level)


def files_below(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder in order, without compiled Python files."""
    found = (path for path in folder.rglob("*") if "__pycache__" not in path.parts)
    return (path for path in sorted(found) if path.is_file())


@cache
def package_digest() -> str:
    """Return the first 16 digits of a SHA-256 over the names and contents of all files of the package."""
    digest = hashlib.sha256()
    for path in files_below(PACKAGE):
        digest.update(f"{path.relative_to(PACKAGE)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def node_program(named: str | None = None) -> Path:
    """Return the built `pollscope-node`: the named one, $POLLSCOPE_NODE, or the one of `build_folder`.

    Raises:
        HostError: it is missing or cannot be executed.
    """
    return _program("pollscope-node", _NODE_VARIABLE) if named is None else _executable(Path(named), "node names it")


def corunner_program() -> Path:
    """Return the built `pollscope-corunner`: $POLLSCOPE_CORUNNER, or the one of `build_folder`.

    Raises:
        HostError: it is missing or cannot be executed.
    """
    return _program("pollscope-corunner", _CORUNNER_VARIABLE)


def tcp_path_program() -> Path:
    """Return the built `tcp-path`, which forwards TCP flows: $POLLSCOPE_TCP_PATH, or the one of `build_folder`.

    Raises:
        HostError: it is missing or cannot be executed.
    """
    return _program("tcp-path", _TCP_PATH_VARIABLE)


def _program(name: str, variable: str) -> Path:
    named = os.environ.get(variable)
    remedy = f"{variable} names it; unset it to take the one that is built here" if named else BUILD_COMMAND
    return _executable(Path(named) if named else build_folder() / name, remedy)


def _executable(path: Path, remedy: str) -> Path:
    if not os.access(path, os.X_OK) or not path.is_file():
        raise HostError(f"{path.name} is not built", str(path), remedy)
    return path.resolve()
