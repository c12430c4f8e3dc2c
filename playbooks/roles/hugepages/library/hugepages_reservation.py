#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ansible module: reserve 2 MB hugepages with a journal, and restore them exactly.

Pages and mount each have a journal (see pollscope_journal), so that a host that forbids the mount keeps its pages.

- `present` raises the number of 2 MB pages to the wanted one, as far as the memory share and the kernel allow, and
  mounts hugetlbfs if no mount has that page size. A larger reservation is left alone.
- `verified` fails if there are fewer pages or no mount, and changes nothing.
- `absent` restores the former numbers and unmounts what was mounted.
- If the host refuses hugepages, the module warns and does not fail, because everything also runs without them.
- `wanted_pages`: Pages of 2 MB in all.
- `memory_share`: Largest share of the memory to reserve.
- `mount_point`: Where to mount hugetlbfs if it is not mounted.
- `devices`: PCI addresses. The wanted pages are on their NUMA nodes, as far as these are known.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.pollscope.base.errors import HostError, PollscopeError, reason_of
from ansible.module_utils.pollscope.host.journal import Phase, load
from ansible.module_utils.pollscope.host.lock import HostLock
from ansible.module_utils.pollscope.host.restore import Setting
from ansible.module_utils.pollscope_journal import Item, Ledger, boot_id, journal_path
from ansible.module_utils.pollscope_kinds import Folder, Mount

PAGE_BYTES = 2 * 1024 * 1024
FOLDER = "hugepages/hugepages-2048kB"
TARGET = "hugepages of 2 MB"
MOUNTED = {"type": "hugetlbfs", "options": "pagesize=2M"}

Counts = dict[str, int]


class Pages(Setting):
    """Pages of 2 MB: `{node: pages}`, with the single entry `all` on a kernel without NUMA folders.

    The wanted value is the number of pages on the nodes of the devices.

    Args:
        root: folder that holds `proc` and `sys`.
        devices: PCI addresses. Without any, or if no node is known, all nodes count.
    """

    def __init__(self, root: Path = Path("/"), devices: Sequence[str] = ()) -> None:
        self.root, self.devices = root, devices

    def read(self, target: str) -> Counts:
        return self._counts("nr_hugepages")

    def write(self, target: str, state: Any) -> None:
        now = self._counts("nr_hugepages")
        wanted = state if isinstance(state, dict) else now | spread(self.near(now), int(state))
        free = self._counts("free_hugepages")
        if any(now[node] - wanted[node] > free[node] for node in wanted):
            raise HostError(
                f"they are in use; free are {shown(free)}", remedy="end the programs that use them and try again"
            )
        for node, folder in self._folders().items():
            try:
                (folder / "nr_hugepages").write_text(f"{wanted[node]}\n")
            except OSError as error:
                raise HostError(f"cannot be written: {error.strerror}", f"{folder}/nr_hugepages") from error

    def verify(self, target: str, wanted: Any) -> Counts:
        return self.read(target)  # the kernel may have fewer to give

    def same(self, found: Counts, wanted: Any) -> bool:
        return sum(self.near(found).values()) >= wanted

    def near(self, counts: Counts) -> Counts:
        """Return the numbers of the devices' nodes, or all if no node is known."""
        places = [self.root / "sys/bus/pci/devices" / each / "numa_node" for each in self.devices]
        nodes = {f"node{path.read_text().strip()}" for path in places if path.exists()}
        return {node: pages for node, pages in counts.items() if node in nodes} or counts

    def show(self, state: Any) -> str:
        return shown(state) if isinstance(state, dict) else f"{state} in all"

    def allowed(self, wanted_pages: int, memory_share: float) -> int:
        """Return the wanted pages, as far as the share of the memory allows."""
        lines = (self.root / "proc/meminfo").read_text().splitlines()
        memory_bytes = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemTotal:"))
        return min(wanted_pages, int(memory_bytes * memory_share) // PAGE_BYTES)

    def _counts(self, name: str) -> Counts:
        return {node: int((folder / name).read_text()) for node, folder in self._folders().items()}

    def _folders(self) -> dict[str, Path]:
        nodes = sorted((self.root / "sys/devices/system/node").glob(f"node*/{FOLDER}"))
        whole = self.root / "sys/kernel/mm" / FOLDER
        folders = {folder.parents[1].name: folder for folder in nodes} or ({"all": whole} if whole.is_dir() else {})
        if not folders:
            raise HostError("this kernel shows no 2 MB hugepages")
        return folders


def spread(now: Counts, total_pages: int) -> Counts:
    """Return numbers per node with `total_pages` in all; missing pages are spread evenly, and no node is lowered."""
    missing = max(0, total_pages - sum(now.values()))
    share, rest = divmod(missing, len(now))
    return {node: pages + share + (index < rest) for index, (node, pages) in enumerate(sorted(now.items()))}


def shown(counts: Counts) -> str:
    """Return numbers for a message: `node0: 12, node1: 0`."""
    return ", ".join(f"{node}: {pages}" for node, pages in counts.items())


class Reservation:
    """The pages and the mount of this host.

    Args:
        root: folder that holds `proc` and `sys`.
        boot: the kernel's identifier of this boot.
        mount_point: where to mount hugetlbfs if it is not mounted.
        devices: see Pages.
    """

    def __init__(self, root: Path, boot: str, mount_point: Path, devices: Sequence[str] = ()) -> None:
        self.root, self.mount_point, self._boot = root, mount_point, boot
        self.pages = Pages(root, devices)
        self._paths = {name: journal_path(f"hugepages-{name}") for name in ("pages", "mount")}

    def raise_to(self, pages: int, dry: bool = False) -> list[str]:
        """Reserve pages; leave a larger reservation alone.

        Raises:
            HostError: the kernel's files cannot be written, or another program lowered the reservation.
        """
        now = self.pages.read(TARGET)
        for entry in load(self._paths["pages"]).pending:
            if entry.boot_id == self._boot and entry.phase is Phase.SET and not self.pages.same(now, pages):
                if entry.found != now:
                    raise HostError(
                        f"left alone: they are {shown(now)}, after our change they were {shown(entry.found)}", TARGET
                    )
                pages = sum(self.pages.near(now).values())  # the kernel had no more to give before
        return self._ledger("pages").converge([Item("pages", TARGET, pages)], dry)

    def mount(self, dry: bool = False) -> list[str]:
        """Mount hugetlbfs unless it is mounted.

        Raises:
            HostError: mount(8) failed.
        """
        here = str(self.mount_point)
        items = [Item("folder", here, True), Item("mount", here, MOUNTED)]
        mounts = self._mounts()
        return self._ledger("mount").converge(items if here in mounts or not mounts else [], dry)

    def restore(self, dry: bool = False) -> list[str]:
        """Unmount hugetlbfs and restore the former numbers of pages.

        Raises:
            HostError: pages are in use, or another program changed their number.
        """
        return self._ledger("mount").give_back(dry) + self._ledger("pages").give_back(dry)

    def is_settled(self, pages: int) -> bool:
        """Return whether nothing has to be changed, restored or finished."""
        entries = [entry for path in self._paths.values() for entry in load(path).pending]
        try:
            self.verify(pages)
        except HostError:
            return False
        return all(entry.phase is Phase.SET for entry in entries) and (
            str(self.mount_point) in self._mounts() or not load(self._paths["mount"]).pending
        )

    def verify(self, pages: int) -> None:
        """Check that pages and mount are there.

        Raises:
            HostError: there are fewer pages than wanted, or there is no mount.
        """
        found = self.pages.near(self.pages.read(TARGET))
        there = sum(found.values())
        if there < pages:
            where = f" on {' and '.join(found)}" if self.pages.devices else ""
            raise HostError(f"there are {there} hugepages of 2 MB{where}, should be {pages}")
        if not self._mounts():
            raise HostError("hugetlbfs is not mounted")

    def _mounts(self) -> set[str]:
        """Return where hugetlbfs of 2 MB pages is mounted."""
        mounts = [line.split() for line in (self.root / "proc/mounts").read_text().splitlines()]
        return {
            place
            for _, place, kind, options, *_ in mounts
            if kind == "hugetlbfs" and "pagesize=1024M" not in options.split(",")
        }

    def _ledger(self, name: str) -> Ledger:
        settings = {"pages": self.pages, "folder": Folder(), "mount": Mount(root=self.root)}
        return Ledger(self._paths[name], settings, self._boot)


def act(state: str, reservation: Reservation, pages: int, dry: bool = False) -> tuple[list[str], list[str]]:
    """Act on `state`; return one line per change (with `dry`, per change that it would make), and the refusals.

    Raises:
        HostError: something was refused. With `present` a refusal is a warning only, so it is returned.
    """
    if state == "verified":
        reservation.verify(pages)
        return [], []
    if state == "absent":
        return reservation.restore(dry), []
    lines: list[str] = []
    refusals: list[str] = []
    for step in (lambda: reservation.raise_to(pages, dry), lambda: reservation.mount(dry)):
        try:
            lines += step()
        except (PollscopeError, OSError) as error:
            refusals.append(reason_of(error))
    return lines, refusals


def main() -> None:
    """Read the parameters, act, report."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent", "verified"], "default": "present"},
            "wanted_pages": {"type": "int", "required": True},
            "memory_share": {"type": "float", "required": True},
            "mount_point": {"type": "path", "required": True},
            "devices": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    state = module.params["state"]
    try:
        mount_point, devices = Path(module.params["mount_point"]), module.params["devices"]
        reservation = Reservation(Path("/"), boot_id(), mount_point, devices)
        pages = reservation.pages.allowed(module.params["wanted_pages"], module.params["memory_share"])
        # Reading needs no lock, so a run may continue.
        looks = module.check_mode or state == "verified" or (state == "present" and reservation.is_settled(pages))
        with nullcontext() if looks else HostLock("a play"):
            lines, refusals = act(state, reservation, pages, module.check_mode)
    except (PollscopeError, OSError) as error:
        if state != "present":
            module.fail_json(msg=reason_of(error))
        lines, refusals = [], [reason_of(error)]
    for refusal in refusals:
        module.warn(refusal)
    module.exit_json(changed=bool(lines), msg="; ".join(lines) or "nothing to change")


if __name__ == "__main__":
    main()
