# SPDX-License-Identifier: BSD-3-Clause
"""Find the shared libraries that programs need and a host with nothing but glibc lacks."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pollscope.base.errors import HostError

_NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]$", re.MULTILINE)
# A line of `ldconfig -p`: `libz.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1`.
_KNOWN = re.compile(r"^\s*(\S+) \(libc6,x86-64\) => (\S+)$", re.MULTILINE)
# glibc's own libraries belong to its dynamic linker: they are the host's.
_GLIBC = {
    *("ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libmvec.so.1", "libdl.so.2", "librt.so.1", "libpthread.so.0"),
    *("libutil.so.1", "libresolv.so.2", "libanl.so.1", "libnsl.so.1"),
}
# The driver folder that is compiled into EAL (eal_common_options.c, default_solib_dir).
_DRIVER_FOLDER = re.compile(rb"\0(/[^\0]*/dpdk/pmds-[\d.]+)\0")
_ELF = b"\x7fELF"
_FILES_PER_CALL = 500


@dataclass(frozen=True)
class Package:
    """The distribution's package of a library.

    Attributes:
        copyright: the file with its licence; None if the package has none.
    """

    name: str
    version: str
    copyright: Path | None


def libraries_of(files: Iterable[Path], beside: Path) -> tuple[dict[str, Path], list[str]]:
    """Return file name -> library of this host for all that ELF files need, and the names that this host lacks.

    Neither holds what is among the files themselves or belongs to glibc. A package for Python may have an optional
    part, whose library is then lacking here as well. The folder `beside` may hold libraries that the dynamic linker
    does not know.
    """
    # A name counts as in the first line about it, which the dynamic linker takes.
    known = {name: Path(path) for name, path in reversed(_KNOWN.findall(_output("ldconfig", "-p")))}
    own = [file for file in files if _is_elf(file)]
    given = {file.name for file in own}
    found: dict[str, Path] = {}
    lacking: set[str] = set()
    new = own
    while new:
        wanted = _needed(new) - _GLIBC - given - found.keys() - lacking
        places = {name: known.get(name, beside / name) for name in sorted(wanted)}
        there = {name: path for name, path in places.items() if path.is_file()}
        lacking |= wanted - there.keys()
        found |= there
        new = list(there.values())
    return found, sorted(lacking)


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_ELF)) == _ELF


def _needed(files: Sequence[Path]) -> set[str]:
    """Return the names in the NEEDED entries of ELF files."""
    names = set[str]()
    for first in range(0, len(files), _FILES_PER_CALL):
        some = map(str, files[first : first + _FILES_PER_CALL])
        names |= set(_NEEDED.findall(_output("readelf", "--dynamic", "--wide", *some)))
    return names


def _output(program: str, *words: str) -> str:
    # Users have no sbin in their PATH on Debian.
    path = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        raise HostError(f"{program} is not here, so the libraries of a bundle are unknown", remedy="install binutils")
    command = [path, *words]
    done = subprocess.run(command, env={"LC_ALL": "C"}, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise HostError(f"{program} failed: {' '.join(done.stderr.split())[:200]}")
    return done.stdout


def without_driver_folder(library: bytes) -> bytes:
    """Return librte_eal without the folder from which EAL loads all drivers.

    The host may have a DPDK of this release there. Its virtual-device bus, loaded beside the bundle's, hides all ports.
    """
    return _DRIVER_FOLDER.sub(lambda found: b"\0" * len(found[0]), library)


def packages_of(files: Iterable[Path]) -> dict[Path, Package]:
    """Return the packages that own files; none on a host without dpkg."""
    if shutil.which("dpkg-query") is None:
        return {}
    # Where /lib is a link, dpkg knows a library by /lib or by /usr/lib.
    paths = {path: file for file in files for path in (str(file), str(file.resolve()))}
    spellings = paths | {path.removeprefix("/usr"): file for path, file in paths.items()}
    done = subprocess.run(["dpkg-query", "--search", *spellings], capture_output=True, text=True, check=False)
    owners = {}
    for line in done.stdout.splitlines():
        package, _, path = line.partition(": ")
        if path in spellings:
            owners[spellings[path]] = package.partition(",")[0]
    if not owners:
        return {}
    shown = ["dpkg-query", "--show", "--showformat", "${binary:Package} ${Version}\n", *sorted(set(owners.values()))]
    listed = subprocess.run(shown, capture_output=True, text=True, check=False)
    versions = dict(line.split(" ", 1) for line in listed.stdout.splitlines())
    return {file: _package(name, versions.get(name, "")) for file, name in owners.items()}


def _package(qualified: str, version: str) -> Package:
    name = qualified.partition(":")[0]
    text = Path("/usr/share/doc") / name / "copyright"
    return Package(name, version, text if text.is_file() else None)
