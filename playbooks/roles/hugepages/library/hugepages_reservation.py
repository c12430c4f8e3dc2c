#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: reserve 2 MB hugepages with a journal, and restore them exactly.

The journal is flushed to disk before the first write, and every write is read back. States of the journal:

    no file                nothing of ours is on this host
    `reserved` is null     interrupted between journal and read-back: any number between before and wanted is ours
    `reserved` has counts  reserved; restoring is refused unless the host still shows exactly these counts
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: hugepages_reservation
short_description: Reserve 2 MB hugepages with a journal, and restore them exactly
description:
  - With C(present), raises the number of 2 MB pages to the wanted one, as far as the memory share and the kernel allow,
    and mounts hugetlbfs when there is no mount of that page size. A larger reservation is left alone.
  - With C(verified), fails when there are fewer pages or no mount; changes nothing.
  - With C(absent), puts back the counts of before and unmounts what was mounted.
  - A host that refuses hugepages is a warning, not a failure, because everything also runs without them.
options:
  state: {type: str, choices: [present, absent, verified], default: present, description: What to do with pages.}
  wanted_pages: {type: int, required: true, description: Pages of 2 MB in all.}
  memory_share: {type: float, required: true, description: Largest share of the memory to reserve.}
  mount_point: {type: path, required: true, description: Where hugetlbfs is mounted if it is not mounted yet.}
  journal: {type: path, required: true, description: File that keeps the previous state.}
author: [pollscope]
"""

PAGE_BYTES = 2 * 1024 * 1024
FOLDER = "hugepages/hugepages-2048kB"

Counts = dict[str, int]


class Refused(Exception):
    """The host is not as the journal says, or it does not let us; the message says what to do."""


class Host:
    """The kernel's view of 2 MB pages: `{node: pages}`; one entry `all` on a kernel without NUMA folders.

    `root` holds `proc` and `sys`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        nodes = sorted((root / "sys/devices/system/node").glob(f"node*/{FOLDER}"))
        self.folders = {folder.parents[1].name: folder for folder in nodes}
        whole = root / "sys/kernel/mm" / FOLDER
        if not self.folders and whole.is_dir():
            self.folders = {"all": whole}

    def counts(self, name: str = "nr_hugepages") -> Counts:
        """Pages per node in the kernel's file `name` (`nr_hugepages` or `free_hugepages`)."""
        return {node: int((folder / name).read_text()) for node, folder in self.folders.items()}

    def write(self, wanted: Counts) -> Counts:
        """Set the pages per node; returns what the kernel shows afterwards, which can be fewer.

        Raises:
            Refused: the kernel's files cannot be written here.
        """
        for node, pages in wanted.items():
            try:
                (self.folders[node] / "nr_hugepages").write_text(f"{pages}\n")
            except OSError as error:
                raise Refused(f"{self.folders[node]}/nr_hugepages cannot be written: {error.strerror}") from error
        return self.counts()

    def memory_bytes(self) -> int:
        """MemTotal of /proc/meminfo."""
        lines = (self.root / "proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))

    def boot_id(self) -> str:
        """Changes with every boot; a reservation does not outlive one."""
        return (self.root / "proc/sys/kernel/random/boot_id").read_text().strip()

    def has_mount(self) -> bool:
        """Whether a hugetlbfs of 2 MB pages is mounted."""
        mounts = [line.split() for line in (self.root / "proc/mounts").read_text().splitlines()]
        return any(kind == "hugetlbfs" and "pagesize=1024M" not in options for _, _, kind, options, *_ in mounts)


class Journal:
    """What was there before; written and flushed before anything is changed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Any] | None:
        """The entry, or None when there is no journal."""
        if not self.path.exists():
            return None
        entry: dict[str, Any] = json.loads(self.path.read_text())
        return entry

    def write(self, entry: dict[str, Any]) -> None:
        """Replace the entry; on disk (file and folder flushed) when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        with fresh.open("w") as stream:
            json.dump(entry, stream)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(self.path)
        self._flush_folder()

    def remove(self) -> None:
        """Forget the entry; on disk when this returns."""
        self.path.unlink()
        self._flush_folder()

    def _flush_folder(self) -> None:
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def target_counts(now: Counts, total_pages: int) -> Counts:
    """The counts per node that make `total_pages`: the missing ones spread evenly over the nodes, no node lowered."""
    missing = max(0, total_pages - sum(now.values()))
    share, rest = divmod(missing, len(now))
    return {node: pages + share + (index < rest) for index, (node, pages) in enumerate(sorted(now.items()))}


def current_entry(host: Host, journal: Journal) -> dict[str, Any] | None:
    """The journal of this boot; one of an earlier boot is removed, because its reservation is gone."""
    entry = journal.read()
    if entry is not None and entry["boot_id"] != host.boot_id():
        journal.remove()
        return None
    return entry


def raise_pages(host: Host, journal: Journal, total_pages: int) -> str:
    """Raise the reservation to `total_pages`; returns one line saying what was done, empty when nothing was.

    Raises:
        Refused: the kernel's files cannot be written, or somebody else changed the reservation meanwhile.
    """
    now = host.counts()
    entry = current_entry(host, journal)
    if sum(now.values()) >= total_pages:
        return ""
    if entry is not None and entry["reserved"] == now:
        return ""  # the kernel had no more to give when we asked
    if entry is not None and entry["reserved"] is not None:
        raise Refused(
            f"hugepages are left as they are: {shown(now)}, but {shown(entry['reserved'])} after our reservation"
        )
    entry = entry or {"boot_id": host.boot_id(), "before": now, "mounted": None, "created": None}
    wanted = target_counts(now, total_pages)
    journal.write({**entry, "wanted": wanted, "reserved": None})
    try:
        reserved = host.write(wanted)
    except Refused:
        journal.remove()
        raise
    journal.write({**entry, "wanted": wanted, "reserved": reserved})
    return f"hugepages of 2 MB reserved: {shown(reserved)} (before: {shown(entry['before'])})"


def is_as_we_left_it(now: Counts, entry: dict[str, Any]) -> bool:
    """Whether the counts are ours: as read back; between before and wanted when the read-back was interrupted."""
    if entry["reserved"] is not None:
        return bool(now == entry["reserved"])
    return all(entry["before"][node] <= now[node] <= entry["wanted"][node] for node in now)


def shown(counts: Counts | None) -> str:
    """Counts for a message: `node0: 12, node1: 0`."""
    return ", ".join(f"{node}: {pages}" for node, pages in counts.items()) if counts else "a number in between"


def lower_pages(host: Host, entry: dict[str, Any]) -> str:
    """Put back the counts of before.

    Raises:
        Refused: the counts are not those that we left, or the pages are in use.
    """
    now, before = host.counts(), entry["before"]
    if not is_as_we_left_it(now, entry):
        raise Refused(
            f"somebody else changed the hugepages: {shown(now)}, but {shown(entry['reserved'])} after our reservation"
            f" and {shown(before)} before it; set them yourself and remove the journal"
        )
    free = host.counts("free_hugepages")
    if any(now[node] - before[node] > free[node] for node in before):
        raise Refused(f"hugepages are in use (free are {shown(free)}): end the programs that use them and try again")
    found = host.write(before)
    if found != before:
        raise Refused(f"hugepages read {shown(found)} after {shown(before)} was written")
    return f"hugepages are as before ({shown(before)})"


def mount(host: Host, journal: Journal, mount_point: Path) -> str:
    """Mount hugetlbfs unless there is one; returns one line saying what was done, empty when nothing was.

    Raises:
        Refused: mount(8) failed.
    """
    if host.has_mount():
        return ""
    counts = host.counts()
    entry = current_entry(host, journal) or {
        "boot_id": host.boot_id(),
        "before": counts,
        "wanted": counts,
        "reserved": counts,
    }
    journal.write({**entry, "mounted": str(mount_point), "created": not mount_point.exists()})
    mount_point.mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "hugetlbfs", "-o", "pagesize=2M", "pollscope", str(mount_point))
    return f"hugetlbfs mounted at {mount_point}"


def unmount(entry: dict[str, Any]) -> str:
    """Unmount what `mount` mounted and remove the folder that it made.

    Raises:
        Refused: umount(8) failed, for instance because files there are open.
    """
    if not entry["mounted"]:
        return ""
    mount_point = Path(entry["mounted"])
    if mount_point.is_mount():
        run("umount", str(mount_point))
    if entry["created"] and mount_point.is_dir():
        mount_point.rmdir()
    return f"hugetlbfs unmounted from {mount_point}"


def run(*command: str) -> None:
    """Run a command.

    Raises:
        Refused: it failed; the message is its own.
    """
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"{' '.join(command)}: {done.stderr.strip()}")


def present(host: Host, journal: Journal, parameters: dict[str, Any]) -> list[str]:
    """Reserve and mount; returns the lines that say what was changed."""
    if not host.folders:
        raise Refused("this kernel shows no 2 MB hugepages")
    raised = raise_pages(host, journal, allowed_pages(host, parameters))
    return [line for line in (raised, mount(host, journal, Path(parameters["mount_point"]))) if line]


def allowed_pages(host: Host, parameters: dict[str, Any]) -> int:
    """The wanted pages, as far as the share of the memory allows."""
    most_pages = int(host.memory_bytes() * parameters["memory_share"]) // PAGE_BYTES
    return min(int(parameters["wanted_pages"]), most_pages)


def verify(host: Host, parameters: dict[str, Any]) -> list[str]:
    """Compares; there is nothing to say when it is as wanted.

    Raises:
        Refused: fewer pages than wanted, or no mount.
    """
    there, wanted = sum(host.counts().values()), allowed_pages(host, parameters)
    if there < wanted:
        raise Refused(f"there are {there} hugepages of 2 MB, should be {wanted}")
    if not host.has_mount():
        raise Refused("hugetlbfs is not mounted")
    return []


def absent(host: Host, journal: Journal) -> list[str]:
    """Unmount and restore; returns the lines that say what was changed."""
    entry = current_entry(host, journal)
    if entry is None:
        return []
    lines = [line for line in (unmount(entry), lower_pages(host, entry)) if line]
    journal.remove()
    return lines


def main() -> None:
    """Read the parameters, act, report."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent", "verified"], "default": "present"},
            "wanted_pages": {"type": "int", "required": True},
            "memory_share": {"type": "float", "required": True},
            "mount_point": {"type": "path", "required": True},
            "journal": {"type": "path", "required": True},
        }
    )
    host, journal = Host(Path("/")), Journal(Path(module.params["journal"]))
    state = module.params["state"]
    acts = {
        "present": lambda: present(host, journal, module.params),
        "absent": lambda: absent(host, journal),
        "verified": lambda: verify(host, module.params),
    }
    try:
        lines = acts[state]()
    except Refused as refused:
        if state != "present":
            module.fail_json(msg=str(refused))
        module.warn(str(refused))
        lines = []
    module.exit_json(changed=bool(lines), msg="; ".join(lines) or "nothing to change")


if __name__ == "__main__":
    main()
