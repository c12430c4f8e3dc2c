# SPDX-License-Identifier: BSD-3-Clause
"""Hugepages are reserved with a journal and restored exactly (the Ansible module of the role `hugepages`)."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = "hugepages/hugepages-2048kB"


@pytest.fixture(scope="module")
def module(checkout: Path) -> ModuleType:
    path = checkout / "playbooks/roles/hugepages/library/hugepages_reservation.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class Tree:
    """A made-up /proc and /sys with plain files, and a journal beside them."""

    def __init__(self, root: Path, nodes: dict[str, int], memory_kb: int = 8 << 20) -> None:
        self.root, self.journal = root, root / "state/journal.json"
        for node, pages in nodes.items():
            self.set(node, pages)
            (self.folder(node) / "free_hugepages").write_text("1000000\n")
        (root / "proc/sys/kernel/random").mkdir(parents=True)
        self.boot("first")
        (root / "proc/meminfo").write_text(f"MemTotal: {memory_kb} kB\nMemFree: 1 kB\n")
        (root / "proc/mounts").write_text("hugetlbfs /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0\n")

    def folder(self, node: str) -> Path:
        return self.root / ("sys/kernel/mm" if node == "all" else f"sys/devices/system/node/{node}") / FOLDER

    def set(self, node: str, pages: int) -> None:
        self.folder(node).mkdir(parents=True, exist_ok=True)
        (self.folder(node) / "nr_hugepages").write_text(f"{pages}\n")

    def pages(self, node: str) -> int:
        return int((self.folder(node) / "nr_hugepages").read_text())

    def boot(self, name: str) -> None:
        (self.root / "proc/sys/kernel/random/boot_id").write_text(f"{name}\n")


def reserve(module: ModuleType, tree: Tree, wanted_pages: int = 1024, memory_share: float = 0.25) -> list[str]:
    parameters = {"wanted_pages": wanted_pages, "memory_share": memory_share, "mount_point": "/nowhere"}
    lines: list[str] = module.present(module.Host(tree.root), module.Journal(tree.journal), parameters)
    return lines


def restore(module: ModuleType, tree: Tree) -> list[str]:
    lines: list[str] = module.absent(module.Host(tree.root), module.Journal(tree.journal))
    return lines


@pytest.mark.parametrize(
    ("before", "memory_gib", "after"),
    [
        ({"node0": 0}, 8, {"node0": 1024}),
        ({"node0": 0}, 4, {"node0": 512}),  # at most a quarter of the memory
        ({"node0": 7, "node1": 8}, 64, {"node0": 512, "node1": 512}),
        ({"node0": 100, "node1": 0, "node2": 0}, 64, {"node0": 408, "node1": 308, "node2": 308}),
        ({"all": 3}, 64, {"all": 1024}),
    ],
)
def test_reserves_and_restores(
    module: ModuleType, tmp_path: Path, before: dict[str, int], memory_gib: int, after: dict[str, int]
) -> None:
    tree = Tree(tmp_path, before, memory_gib << 20)
    assert reserve(module, tree)
    assert {node: tree.pages(node) for node in before} == after
    assert reserve(module, tree) == []
    assert restore(module, tree)
    assert {node: tree.pages(node) for node in before} == before
    assert restore(module, tree) == []


def test_never_lowers_a_larger_reservation(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 2048})
    assert reserve(module, tree) == []
    assert tree.pages("node0") == 2048
    assert not tree.journal.exists()


def test_journal_is_on_disk_before_the_first_write(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 5})
    seen: list[dict[str, Any]] = []

    class Watched(module.Host):  # type: ignore[misc, name-defined]  # loaded while it runs
        def write(self, wanted: dict[str, int]) -> dict[str, int]:
            seen.append(json.loads(tree.journal.read_text()))
            written: dict[str, int] = super().write(wanted)
            return written

    module.raise_pages(Watched(tree.root), module.Journal(tree.journal), 10)
    assert [(entry["before"], entry["reserved"]) for entry in seen] == [({"node0": 5}, None)]


def test_restores_after_a_crash_between_write_and_read_back(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 5})
    reserve(module, tree, 100)
    entry = json.loads(tree.journal.read_text())
    tree.journal.write_text(json.dumps({**entry, "reserved": None}))
    tree.set("node0", 60)
    assert restore(module, tree)
    assert tree.pages("node0") == 5


def test_takes_what_a_short_kernel_gives(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 0})

    class Short(module.Host):  # type: ignore[misc, name-defined]  # loaded while it runs
        def write(self, wanted: dict[str, int]) -> dict[str, int]:
            tree.set("node0", min(wanted["node0"], 300))
            return {"node0": tree.pages("node0")}

    journal = module.Journal(tree.journal)
    assert "node0: 300" in module.raise_pages(Short(tree.root), journal, 1024)
    assert module.raise_pages(Short(tree.root), journal, 1024) == ""
    assert restore(module, tree)
    assert tree.pages("node0") == 0


def test_refuses_when_somebody_else_changed_the_pages(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 0})
    reserve(module, tree)
    tree.set("node0", 3000)
    with pytest.raises(module.Refused, match="3000"):
        restore(module, tree)
    assert tree.pages("node0") == 3000
    assert tree.journal.exists()


def test_does_not_raise_again_what_somebody_else_lowered(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 0})
    reserve(module, tree)
    tree.set("node0", 10)
    with pytest.raises(module.Refused, match="left as they are"):
        reserve(module, tree)


def test_refuses_while_pages_are_in_use(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 0})
    reserve(module, tree)
    (tree.folder("node0") / "free_hugepages").write_text("1000\n")
    with pytest.raises(module.Refused, match="in use"):
        restore(module, tree)
    assert tree.pages("node0") == 1024


def test_forgets_the_reservation_of_an_earlier_boot(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 4})
    reserve(module, tree)
    tree.boot("second")
    tree.set("node0", 9)
    assert restore(module, tree) == []
    assert tree.pages("node0") == 9
    assert not tree.journal.exists()


def test_a_host_that_forbids_writing_leaves_no_journal(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 0})
    (tree.folder("node0") / "nr_hugepages").unlink()
    (tree.folder("node0") / "nr_hugepages").symlink_to(tree.root / "proc/self-made/nowhere")
    with pytest.raises(module.Refused, match="cannot be written"):
        module.Host(tree.root).write({"node0": 1})

    class ReadOnly(module.Host):  # type: ignore[misc, name-defined]  # loaded while it runs
        def counts(self, name: str = "nr_hugepages") -> dict[str, int]:
            return {"node0": 0}

    with pytest.raises(module.Refused, match="cannot be written"):
        module.raise_pages(ReadOnly(tree.root), module.Journal(tree.journal), 10)
    assert not tree.journal.exists()


def test_a_kernel_without_hugepages_is_said(module: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(module.Refused, match="no 2 MB hugepages"):
        reserve(module, Tree(tmp_path, {}))


def test_a_mount_of_2_mb_pages_is_recognised(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 0})
    assert module.Host(tree.root).has_mount()
    (tmp_path / "proc/mounts").write_text("none /big hugetlbfs rw,pagesize=1024M 0 0\nproc /proc proc rw 0 0\n")
    assert not module.Host(tree.root).has_mount()


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_mounts_and_unmounts_on_the_real_kernel(checkout: Path, tmp_path: Path) -> None:
    """In a mount namespace of its own, without the hugetlbfs mounts that this host has; no page is reserved."""
    script = """
import pathlib, subprocess, sys
sys.path.insert(0, sys.argv[1])
import hugepages_reservation as module
journal, point = module.Journal(pathlib.Path(sys.argv[2], "journal.json")), pathlib.Path(sys.argv[2], "huge")
host = module.Host(pathlib.Path("/"))
for line in pathlib.Path("/proc/mounts").read_text().splitlines():
    if line.split()[2] == "hugetlbfs":
        subprocess.run(["umount", line.split()[1]], check=True)
if not host.folders:
    sys.exit("no hugepages")
parameters = {"wanted_pages": 0, "memory_share": 0.25, "mount_point": str(point)}
assert module.present(host, journal, parameters) == [f"hugetlbfs mounted at {point}"]
assert point.is_mount() and host.has_mount()
assert module.present(host, journal, parameters) == []
assert module.absent(host, journal)[0] == f"hugetlbfs unmounted from {point}"
assert not point.exists() and not journal.path.exists()
"""
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", script]
    library = checkout / "playbooks/roles/hugepages/library"
    done = subprocess.run([*command, library, tmp_path], capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "no hugepages" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr


def test_verify_compares_and_changes_nothing(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 100})
    parameters = {"wanted_pages": 101, "memory_share": 0.25}
    with pytest.raises(module.Refused, match="there are 100 hugepages of 2 MB, should be 101"):
        module.verify(module.Host(tree.root), parameters)
    assert module.verify(module.Host(tree.root), {**parameters, "wanted_pages": 100}) == []
    (tree.root / "proc/mounts").write_text("")
    with pytest.raises(module.Refused, match="not mounted"):
        module.verify(module.Host(tree.root), {**parameters, "wanted_pages": 100})
    assert tree.pages("node0") == 100
    assert not tree.journal.exists()
