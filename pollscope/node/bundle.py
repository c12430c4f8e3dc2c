# SPDX-License-Identifier: BSD-3-Clause
"""Collect the files of a bundle, which runs on hosts with nothing but glibc.

A bundle is what a wheel installs, with the interpreter and the packages of this Python, the programs for two levels of
processors, and the libraries that all of these need:

    pollscope             starts the command line
    bin/python3           starts the interpreter; chooses the programs for the host's processor
    programs/LEVEL/       the programs
    lib/                  DPDK's and other libraries
    python/               the interpreter and its standard library
    site-packages/        pollscope and the packages that it needs
    licences/             of the libraries and the interpreter, where their packages have them
    manifest.json         versions
    SHA256SUMS            for `sha256sum --check`
"""

import hashlib
import json
import platform
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from pollscope import __version__
from pollscope.base.archive import Member
from pollscope.base.errors import HostError
from pollscope.base.paths import CHECKOUT, INSTALLED, PACKAGE, files_below
from pollscope.host.metadata import commit
from pollscope.node.build import PROGRAMS, build_programs
from pollscope.node.launcher import POLLSCOPE, SITE_CUSTOMIZE, python_launcher
from pollscope.node.libraries import Package, libraries_of, packages_of, without_driver_folder

# Levels of the x86-64 psABI, lowest first.
LEVELS = ("x86-64-v2", "x86-64-v3")
# Plays start on a controlling machine, which has a checkout or a wheel.
_NOT_IN_A_BUNDLE = "ansible-core"
_FROM_THE_BUILD = (*PROGRAMS, "limits.json", "meson-info/intro-buildoptions.json", "meson-info/intro-compilers.json")
# Parts of the standard library that pollscope does not use. They are large, or need libraries that nothing else needs.
_LEFT_OUT = ("test", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip", "site-packages", "dist-packages")
_LEFT_OUT_PREFIXES = (
    *("config-", "sitecustomize.", "_test", "_ctypes_test"),
    *("_tkinter.", "readline.", "nis.", "_curses", "_dbm.", "_gdbm.", "ossaudiodev."),
)


@dataclass(frozen=True)
class Bundle:
    """The content of a bundle.

    Attributes:
        name: the folder in the archive; another content has another name.
        members: the files, with their paths in the archive.
    """

    name: str
    members: Sequence[Member]


def make_bundle(say: Callable[[str], None]) -> Bundle:
    """Build the programs and collect all files.

    Args:
        say: gets a line before each long step.

    Raises:
        HostError: the programs cannot be built, a library of theirs is unknown, or pip did not install this pollscope.
    """
    if platform.machine() != "x86_64":
        raise HostError(f"a bundle is for x86-64, and this host is {platform.machine()}")
    packages = python_packages()
    programs = [each for level in LEVELS for each in _programs(level, build_programs(say, level))]
    say("collecting libraries and Python packages")
    python = [*_interpreter(), *_own_package(), *(each for package in packages for each in _files_of(package))]
    beside = Path(sys.base_prefix) / "lib"
    libraries, lacking = libraries_of(_paths(programs), beside)
    if lacking:
        remedy = "name their folder in /etc/ld.so.conf.d and run ldconfig"
        raise HostError(f"ldconfig does not know {', '.join(lacking)}, which the programs need", remedy=remedy)
    for_python, lacking = libraries_of(_paths(python), beside)
    libraries |= for_python
    owners = packages_of([*libraries.values(), Path(sys.executable).resolve()])
    members = [*programs, *python, *_libraries(libraries), *_licences(owners.values()), *_launchers()]
    manifest = {
        "pollscope": __version__,
        "commit": commit(),
        "glibc": _glibc(),
        "python": platform.python_version(),
        "levels": list(LEVELS),
        "packages": {each.metadata["Name"]: each.version for each in packages},
        "libraries": {name: _origin(owners.get(path)) for name, path in sorted(libraries.items())},
        "lacking": lacking,
    }
    members.append(Member("manifest.json", json.dumps(manifest, indent=1).encode() + b"\n"))
    sums = "".join(f"{each.sha256()}  {each.name}\n" for each in sorted(members, key=lambda member: member.name))
    members.append(Member("SHA256SUMS", sums.encode()))
    # Python takes a compiled file for up to date if time and size of its source agree, and all times are the same here.
    name = f"pollscope-{__version__}-{hashlib.sha256(sums.encode()).hexdigest()[:8]}"
    return Bundle(name, [Member(f"{name}/{each.name}", each.content, each.executable) for each in members])


def python_packages() -> list[metadata.Distribution]:
    """Return the installed packages that this pollscope needs, without itself.

    Raises:
        HostError: one of them, or the record of pollscope's own needs, is not here.
    """
    found: dict[str, metadata.Distribution] = {}
    seen = set[tuple[str, frozenset[str]]]()
    wanted = [Requirement("pollscope")]
    while wanted:
        one = wanted.pop()
        if (one.name, frozenset(one.extras)) in seen or one.name == _NOT_IN_A_BUNDLE:
            continue
        seen.add((one.name, frozenset(one.extras)))
        try:
            found[one.name] = metadata.distribution(one.name)
        except metadata.PackageNotFoundError:
            raise HostError(f"the package {one.name} was not installed by pip here", remedy="pip install it") from None
        needs = [Requirement(text) for text in found[one.name].requires or ()]
        extras = ("", *one.extras)
        wanted += [
            each for each in needs if not each.marker or any(each.marker.evaluate({"extra": name}) for name in extras)
        ]
    del found["pollscope"]
    return sorted(
        {each.metadata["Name"]: each for each in found.values()}.values(), key=lambda each: each.metadata["Name"]
    )


def _files_of(package: metadata.Distribution) -> Iterator[Member]:
    """Yield the files of an installed package, without what lies outside its folder (commands)."""
    if package.files is None:
        raise HostError(f"the package {package.metadata['Name']} has no list of its files", remedy="install it by pip")
    for path in package.files:
        place = Path(str(package.locate_file(path)))
        if ".." not in path.parts and "__pycache__" not in path.parts and place.is_file():
            yield Member(f"site-packages/{path}", place)


def _programs(level: str, folder: Path) -> Iterator[Member]:
    for name in _FROM_THE_BUILD:
        if (folder / name).is_file():
            yield Member(f"programs/{level}/{name}", folder / name, executable=name in PROGRAMS)


def _interpreter() -> Iterator[Member]:
    library = Path(sysconfig.get_path("stdlib"))
    yield Member(f"python/bin/{library.name}", Path(sys.executable).resolve(), executable=True)
    for path in files_below(library):
        parts = path.relative_to(library).parts
        if parts[0] not in _LEFT_OUT and not any(part.startswith(_LEFT_OUT_PREFIXES) for part in parts):
            yield Member(f"python/lib/{library.name}/{'/'.join(parts)}", path)


def _own_package() -> Iterator[Member]:
    """Yield pollscope as a wheel installs it (see setup.py and pyproject.toml)."""
    if INSTALLED:
        for path in files_below(PACKAGE):
            yield Member(f"site-packages/pollscope/{path.relative_to(PACKAGE)}", path)
        return
    settings = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["setuptools"]
    sources = {pattern.partition("/")[0] for pattern in settings["package-data"]["pollscope.sources"]}
    for name in _tracked():
        top, _, rest = name.partition("/")
        if top == "pollscope":
            inside = name
        elif f"pollscope.{top}" in settings["package-dir"] and not rest.startswith("runs/whole/"):
            inside = f"pollscope/{name}"
        elif top in sources:
            inside = f"pollscope/sources/{name}"
        else:
            continue
        yield Member(f"site-packages/{inside}", CHECKOUT / name)


def _tracked() -> Iterator[str]:
    """Yield the files of the checkout without those that git does not know: keys, inventories or results."""
    if not (CHECKOUT / ".git").exists():  # an archive
        yield from (str(path.relative_to(CHECKOUT)) for path in files_below(CHECKOUT))
        return
    done = subprocess.run(["git", "-C", str(CHECKOUT), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(f"git does not list the files: {' '.join(done.stderr.split())[:200]}", str(CHECKOUT))
    yield from (name for name in done.stdout.split("\0") if name and (CHECKOUT / name).is_file())


def _libraries(libraries: dict[str, Path]) -> Iterator[Member]:
    for name, path in libraries.items():
        content = without_driver_folder(path.read_bytes()) if name.startswith("librte_eal.") else path
        yield Member(f"lib/{name}", content)


def _licences(packages: Iterable[Package]) -> Iterator[Member]:
    for name, file in {each.name: each.copyright for each in packages}.items():
        if file is not None:
            yield Member(f"licences/{name}", file)


def _launchers() -> Iterator[Member]:
    version = Path(sysconfig.get_path("stdlib")).name
    yield Member("pollscope", POLLSCOPE.encode(), executable=True)
    yield Member("bin/python3", python_launcher(version, _glibc()).encode(), executable=True)
    yield Member(f"python/lib/{version}/sitecustomize.py", SITE_CUSTOMIZE.encode())


def _glibc() -> str:
    return platform.libc_ver()[1]


def _origin(package: Package | None) -> str | None:
    return None if package is None else f"{package.name} {package.version}"


def _paths(members: Iterable[Member]) -> Iterator[Path]:
    return (each.content for each in members if isinstance(each.content, Path))
