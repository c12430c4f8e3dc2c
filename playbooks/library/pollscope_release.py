#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: unpacks an archive of playbooks/build-release beside earlier ones and makes it the one in use."""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope.base.errors import HostError, PollscopeError, reason_of
from ansible.module_utils.pollscope.host.journal import Entry
from ansible.module_utils.pollscope.host.restore import Setting
from ansible.module_utils.pollscope_journal import STATE_ARGUMENTS, Item, marked, offline_folder, run_state
from ansible.module_utils.pollscope_kinds import Folder, Link, Release, run

DOCUMENTATION = r"""
module: pollscope_release
short_description: Unpacks an archive of playbooks/build-release and makes it the one in use
description:
  - PREFIX/releases/DIGEST holds the archive's files, PREFIX/current points there. An archive for another release of the
    distribution, or whose program lacks a library, is refused and leaves nothing.
  - Without C(archive), only says in C(needs_archive) whether the digest is there already.
options:
  state: {type: str, choices: [present, absent, verified], default: present, description: Install, restore, compare.}
  journal: {type: str, required: true, description: Name of the journal.}
  prefix: {type: path, default: /opt/pollscope, description: Folder of the releases.}
  packages: {type: bool, default: false, description: "Only the archive's packages, to where pollscope_packages looks."}
  digest: {type: str, default: '', description: SHA-256 of the archive.}
  archive: {type: path, description: The archive on this host.}
  build: {type: list, elements: str, description: "The archive holds sources for meson, with these options."}
author: [pollscope]
"""


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks and looks whether it fits this host.

    Raises:
        HostError: it does not, or it is no such archive.
        OSError: for instance a full disk.
    """
    extract(archive, folder, "--anchored", "--exclude=packages")
    require_same_distribution(folder / "RELEASE")
    require_libraries(folder / "bin/pollscope-node")


def unpack_packages(archive: Path, folder: Path) -> None:
    """Unpacks the packages of an archive.

    Raises:
        HostError: it has none, or is for another release of the distribution.
        OSError: for instance a full disk.
    """
    extract(archive, folder, "--anchored", *(f"--exclude={name}" for name in ("bin", "lib", "python")))
    require_same_distribution(folder / "RELEASE")
    if not (folder / "packages/Packages").is_file():
        raise HostError(f"{archive} holds no packages: build it with playbooks/build-release --offline")
    (folder / "lists/partial").mkdir(parents=True)  # of APT, beside those that the host has


def build(archive: Path, final: Path, folder: Path, options: Sequence[str]) -> None:
    """Builds sources with meson, for the folder `final`, into `folder`.

    Raises:
        HostError: a step failed, with the last line that it wrote.
        OSError: for instance a full disk.
    """
    with tempfile.TemporaryDirectory(prefix="pollscope-build-", dir="/var/tmp") as name:
        work = Path(name)
        extract(archive, work / "source")
        tops = [path.parent for path in (work / "source").glob("**/meson.build")]
        if not tops:
            raise HostError(f"{archive} holds no meson.build")
        source = min(tops, key=lambda path: len(path.parts))
        defined = [f"-D{option}" for option in options]
        run(["meson", "setup", f"--prefix={final}", "--buildtype=release", *defined, str(work / "build"), str(source)])
        run(["env", f"DESTDIR={work / 'out'}", "meson", "install", "-C", str(work / "build")])
        shutil.copytree(work / "out" / str(final).lstrip("/"), folder, symlinks=True)
    (folder / "RELEASE").write_text(f"source {archive.name}\n")


def require_digest(archive: Path, digest: str) -> None:
    """Looks whether the archive on this host is the one that was meant: between its copying and now stands a disk.

    Raises:
        HostError: it is another one.
    """
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        raise HostError(f"{archive} has the SHA-256 {found[:16]}..., not {digest[:16]}...: it was not copied whole")


def extract(archive: Path, folder: Path, *options: str) -> None:
    """Unpacks an archive into a new folder.

    Raises:
        HostError: it is no archive, or the disk is full.
    """
    folder.mkdir(parents=True)
    command = ["tar", "--no-same-owner", *options, "-xf", str(archive), "-C", str(folder)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr.strip() or "tar failed").splitlines()[0].removeprefix("tar: ")
        # GNU tar says the one or the other about a full disk, as the last block was cut off or not.
        if "Wrote only" in done.stderr or "No space left" in done.stderr:
            said = f"No space left on device for {folder}"
        raise HostError(f"{archive} cannot be unpacked: {said}")


def require_same_distribution(path: Path) -> None:
    """Compares the archive's distribution with this host's.

    Raises:
        HostError: they differ.
    """
    if not path.is_file():
        raise HostError("the archive has no file RELEASE: it is none of playbooks/build-release")
    pairs = (line.partition(" ") for line in path.read_text().splitlines())
    made_on = {name: value for name, _, value in pairs}.get("distribution", "nothing")
    lines = (line.partition("=") for line in Path("/etc/os-release").read_text().splitlines())
    own = {name: value.strip('"') for name, _, value in lines}
    here = f"{own.get('ID', '')} {own.get('VERSION_ID', 'testing')}"
    if made_on != here:
        raise HostError(
            f"the archive was built on {made_on}, this host is {here}: build one with playbooks/build-release --suite"
        )


def require_libraries(program: Path) -> None:
    """Looks whether the dynamic linker finds all libraries of a program.

    Raises:
        HostError: it does not.
    """
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    missing = [line.split()[0] for line in done.stdout.splitlines() if line.endswith("not found")]
    if missing or done.returncode != 0:
        raise HostError(f"{program.name} lacks {', '.join(missing) or done.stderr.strip()}: the role dpdk installs it")


def items_for(prefix: Path, digest: str) -> list[Item]:
    """What has to be there, in this order."""
    release = prefix / "releases" / digest[:16]
    return [
        Item("folder", str(prefix), True),
        Item("folder", str(prefix / "releases"), True),
        Item("release", str(release), True),
        Item("link", str(prefix / "current"), f"releases/{release.name}"),
    ]


def act(module: AnsibleModule) -> dict[str, Any]:
    """Does what `state` says; returns the result's fields.

    Raises:
        HostError: see above.
    """
    prefix = offline_folder() if module.params["packages"] else Path(module.params["prefix"])
    digest, archive = module.params["digest"], module.params["archive"]
    final = prefix / "releases" / digest[:16]

    def fill(folder: Path) -> None:
        require_digest(Path(archive), digest)
        if module.params["build"] is not None:
            build(Path(archive), final, folder, module.params["build"])
        else:
            (unpack_packages if module.params["packages"] else unpack)(Path(archive), folder)

    kinds: dict[str, Setting] = {"folder": Folder(), "link": Link(), "release": Release(fill)}
    if module.params["state"] == "verified" and not digest:
        if not (prefix / "current/RELEASE").is_file():
            raise HostError(f"{prefix / 'current'} is not there")
        return {"changed": False, "msg": "nothing to change"}
    items = [] if module.params["state"] == "absent" else items_for(prefix, digest)
    needs = module.params["state"] == "present" and not all(kinds[i.kind].read(i.target) == i.wanted for i in items)
    if needs and archive is None:
        what = "the archive has to come" if digest else "the programs have to be built"
        return {"changed": module.check_mode, "needs_archive": not module.check_mode, "msg": what}
    earlier = {Path(each.target).parent / each.new for each in marked(module.params["journal"]) if each.knob == "link"}

    def may_be_needed(entry: Entry) -> bool:
        """The release of before a play that may yet fail; its end takes it away (pollscope_journals)."""
        return entry.knob == "release" and Path(entry.target) in earlier

    lines = run_state(module, kinds, items, may_be_needed)
    return {"changed": bool(lines), "needs_archive": False, "msg": "; ".join(lines) or "nothing to change"}


def main() -> None:
    """Read the parameters, act, report."""
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
