#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: unpack an archive of playbooks/build-release beside earlier ones and make it the one in use.

- PREFIX/releases/DIGEST holds the archive's files; PREFIX/current points there. An archive is refused and leaves
  nothing if it was built for another release of the distribution, or if its program lacks a library.
- `present` installs the archive, `absent` restores what was there before, `verified` compares.
- Without `archive`, the module only returns `needs_archive`: whether the host has no release of that digest.
- `prefix`: Folder of the releases.
- `packages`: Unpack only the packages, for pollscope_packages.
- `digest`: SHA-256 of the archive.
- `build`: Options of meson. With them the archive is built.
"""

import hashlib
import lzma
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope.base.errors import HostError, PollscopeError, reason_of
from ansible.module_utils.pollscope.host.journal import Entry
from ansible.module_utils.pollscope.host.restore import Setting
from ansible.module_utils.pollscope_journal import STATE_ARGUMENTS, Item, marked, offline_folder, run_state
from ansible.module_utils.pollscope_kinds import Folder, Link, Release, run


def unpack(archive: BufferedReader, folder: Path) -> None:
    """Unpack an archive and check that it fits this host.

    Raises:
        HostError: it does not, or the file is no archive of playbooks/build-release.
        OSError: for instance a full disk.
    """
    extract(archive, folder, leave_out=frozenset({"packages"}))
    require_same_distribution(folder / "RELEASE")
    require_libraries(folder / "bin/pollscope-node")


def unpack_packages(archive: BufferedReader, folder: Path) -> None:
    """Unpack only the packages of an archive.

    Raises:
        HostError: it has none, or it was built for another release of the distribution.
        OSError: for instance a full disk.
    """
    extract(archive, folder, leave_out=frozenset({"bin", "lib", "python"}))
    require_same_distribution(folder / "RELEASE")
    if not (folder / "packages/Packages").is_file():
        remedy = "build it with playbooks/build-release --offline"
        raise HostError("holds no packages", archive.name, remedy)
    (folder / "lists/partial").mkdir(parents=True)  # for APT, which keeps its own lists elsewhere


def build(archive: BufferedReader, final: Path, folder: Path, options: Sequence[str]) -> None:
    """Build sources with meson for the folder `final`, and write the result to `folder`.

    Raises:
        HostError: a step failed; the message is the last line that it wrote.
        OSError: for instance a full disk.
    """
    with tempfile.TemporaryDirectory(prefix="pollscope-build-", dir="/var/tmp") as name:
        work = Path(name)
        extract(archive, work / "source")
        tops = [path.parent for path in (work / "source").glob("**/meson.build")]
        if not tops:
            raise HostError("holds no meson.build", archive.name)
        source = min(tops, key=lambda path: len(path.parts))
        defined = [f"-D{option}" for option in options]
        run(["meson", "setup", f"--prefix={final}", "--buildtype=release", *defined, str(work / "build"), str(source)])
        run(["env", f"DESTDIR={work / 'out'}", "meson", "install", "-C", str(work / "build")])
        shutil.copytree(work / "out" / str(final).lstrip("/"), folder, symlinks=True)
    (folder / "RELEASE").write_text(f"source {Path(archive.name).name}\n")


def open_archive(path: Path) -> BufferedReader:
    """Open a file without following a link.

    Check and unpack what this function returns: no user can exchange it, because its name is not looked up again.

    Raises:
        HostError: the file is a link or cannot be read.
    """
    try:
        return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW))
    except OSError as error:
        raise HostError(f"cannot be opened: {error.strerror}", str(path)) from error


def require_archive(archive: BufferedReader, digest: str) -> None:
    """Check that the open file is the archive that was meant, and that no other user can write to it.

    Raises:
        HostError: it is not, or another user can.
    """
    status = os.fstat(archive.fileno())
    if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
        raise HostError(f"is not a regular file of user {os.geteuid()}", archive.name, "copy it as this user")
    found = hashlib.file_digest(archive, "sha256").hexdigest()
    if found != digest:
        what = f"has the SHA-256 {found[:16]}..., not {digest[:16]}...: it was not copied whole"
        raise HostError(what, archive.name, "copy it again")


def extract(archive: BufferedReader, folder: Path, leave_out: frozenset[str] = frozenset()) -> None:
    """Unpack an archive into a new folder, except the names at its top that are left out.

    Everything belongs to the user who unpacks, and no other user can write to it. Bits for setuid, setgid and writing
    by others are dropped.

    Raises:
        HostError: it is no archive, the disk is full, or a member is refused (see `place`).
    """
    folder.mkdir(parents=True)
    archive.seek(0)
    try:
        with tarfile.open(fileobj=archive) as packed:
            for member in packed:
                if not leave_out.intersection(PurePosixPath(member.name).parts[:1]):
                    place(packed, member, folder.resolve())
    except (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise HostError(f"cannot be unpacked: {reason_of(error)}", archive.name) from error


def place(packed: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write one member of an archive below a folder.

    Raises:
        TarError: the member is neither file, folder nor symbolic link, or it or its target lies outside the folder.
        OSError: it is there already, or for instance a full disk.
    """
    name, path = PurePosixPath(member.name), folder / member.name
    if name.is_absolute() or ".." in name.parts:
        raise tarfile.TarError(f"{member.name!r} lies outside the folder")
    path.parent.mkdir(0o755, parents=True, exist_ok=True)
    if not path.parent.resolve().is_relative_to(folder):
        raise tarfile.TarError(f"{member.name!r} lies behind a link that leaves the folder")
    if member.isdir():
        path.mkdir(0o755, exist_ok=True)
    elif member.issym():
        require_inside(member, path.parent.resolve(), folder)
        path.symlink_to(member.linkname)
    elif member.isreg():
        content = packed.extractfile(member)
        assert content is not None, f"BUG: {member.name} is a regular file"
        with path.open("xb") as file:  # x: never through a link of that name
            shutil.copyfileobj(content, file)
        path.chmod(0o755 if member.mode & 0o111 else 0o644)
    else:
        raise tarfile.TarError(f"{member.name!r} is a device, a FIFO or a hard link")


def require_inside(link: tarfile.TarInfo, parent: Path, folder: Path) -> None:
    """Check that a symbolic link in `parent` points into the folder.

    `..` is allowed at the beginning only: behind the name of another link it leads elsewhere than its text says.

    Raises:
        TarError: the link points elsewhere.
    """
    target = PurePosixPath(link.linkname)
    up = next((number for number, part in enumerate(target.parts) if part != ".."), len(target.parts))
    inside = Path(os.path.normpath(parent / target)).is_relative_to(folder)
    if target.is_absolute() or ".." in target.parts[up:] or not inside:
        raise tarfile.TarError(f"the link {link.name!r} points outside the folder, to {link.linkname!r}")


def require_same_distribution(path: Path) -> None:
    """Check that the archive was built for this host's distribution.

    Raises:
        HostError: it was built for another one, or the file is missing.
    """
    if not path.is_file():
        raise HostError("the archive has no file RELEASE", remedy="build it with playbooks/build-release")
    pairs = (line.partition(" ") for line in path.read_text().splitlines())
    made_on = {name: value for name, _, value in pairs}.get("distribution", "nothing")
    lines = (line.partition("=") for line in Path("/etc/os-release").read_text().splitlines())
    own = {name: value.strip('"') for name, _, value in lines}
    here = f"{own.get('ID', '')} {own.get('VERSION_ID', 'testing')}"
    if made_on != here:
        what = f"the archive was built on {made_on}, this host is {here}"
        raise HostError(what, remedy="build one with playbooks/build-release --suite")


def require_libraries(program: Path) -> None:
    """Check that the dynamic linker finds all libraries of a program.

    Raises:
        HostError: it does not.
    """
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    missing = [line.split()[0] for line in done.stdout.splitlines() if line.endswith("not found")]
    if missing or done.returncode != 0:
        raise HostError(
            f"lacks {', '.join(missing) or done.stderr.strip()}", program.name, "let the role dpdk install it"
        )


def require_own_folders(*folders: Path) -> None:
    """Check that no other user can write to the folders, because root runs the programs in them.

    Raises:
        HostError: another user can.
    """
    for folder in folders:
        if folder.is_dir():
            status = folder.stat()
            if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                what = "other users can write to this folder, and root would run the programs in it"
                raise HostError(what, str(folder), "chown it to root, and chmod go-w")


def items_for(prefix: Path, digest: str) -> list[Item]:
    """Return the items of a release, in the order in which they are set."""
    release = prefix / "releases" / digest[:16]
    return [
        Item("folder", str(prefix), True),
        Item("folder", str(prefix / "releases"), True),
        Item("release", str(release), True),
        Item("link", str(prefix / "current"), f"releases/{release.name}"),
    ]


def act(module: AnsibleModule) -> dict[str, Any]:
    """Act on the module's `state`; return the fields of its result.

    Raises:
        HostError: the archive does not fit this host, or there is none to compare with.
    """
    prefix = offline_folder() if module.params["packages"] else Path(module.params["prefix"])
    digest, archive = module.params["digest"], module.params["archive"]
    final = prefix / "releases" / digest[:16]

    def fill(folder: Path) -> None:
        require_own_folders(prefix, prefix / "releases")
        with open_archive(Path(archive)) as opened:
            require_archive(opened, digest)
            if module.params["build"] is not None:
                build(opened, final, folder, module.params["build"])
            else:
                (unpack_packages if module.params["packages"] else unpack)(opened, folder)

    kinds: dict[str, Setting] = {"folder": Folder(), "link": Link(), "release": Release(fill)}
    if module.params["state"] == "verified" and not digest:
        if not (prefix / "current/RELEASE").is_file():
            raise HostError("is not there", str(prefix / "current"), "pollscope play provision")
        return {"changed": False, "msg": "nothing to change"}
    items = [] if module.params["state"] == "absent" else items_for(prefix, digest)
    needs = module.params["state"] == "present" and not all(kinds[i.kind].read(i.target) == i.wanted for i in items)
    if needs and archive is None:
        what = "the archive has to come" if digest else "the programs have to be built"
        return {"changed": module.check_mode, "needs_archive": not module.check_mode, "msg": what}
    earlier = {Path(each.target).parent / each.new for each in marked(module.params["journal"]) if each.knob == "link"}

    def may_be_needed(entry: Entry) -> bool:
        """Return whether the entry is the release in use before this play, which may yet fail; its end removes it."""
        return entry.knob == "release" and Path(entry.target) in earlier

    lines = run_state(module, kinds, items, may_be_needed)
    return {"changed": bool(lines), "needs_archive": False, "msg": "; ".join(lines) or "nothing to change"}


def main() -> None:
    """Read the parameters, act, report."""
    os.umask(0o022)  # the host's own may let a group write
    module = AnsibleModule(
        argument_spec={
            **STATE_ARGUMENTS,
            "prefix": {"type": "path", "default": "/opt/pollscope"},
            "digest": {"type": "str", "default": ""},
            "archive": {"type": "path"},
            "build": {"type": "list", "elements": "str"},
            "packages": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        result = act(module)
    except (PollscopeError, OSError) as error:
        module.fail_json(msg=reason_of(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
