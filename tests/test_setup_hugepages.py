# SPDX-License-Identifier: BSD-3-Clause
"""Check that the role `hugepages` reserves pages with a journal and restores them exactly."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import playbook_modules
import pytest

journal = playbook_modules.load("pollscope_journal")
from ansible.module_utils.pollscope.base.errors import HostError  # noqa: E402 - as the module names it

FOLDER = "hugepages/hugepages-2048kB"


@pytest.fixture(scope="module")
def module() -> ModuleType:
    return playbook_modules.load("hugepages_reservation")


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


class Tree:
    """A /proc and /sys of plain files."""

    def __init__(self, root: Path, nodes: dict[str, int], memory_kb: int = 8 << 20) -> None:
        self.root, self.boot = root, "first"
        self.journal = root / "state/playbooks/hugepages-pages.journal"
        for node, pages in nodes.items():
            self.set(node, pages)
            (self.folder(node) / "free_hugepages").write_text("1000000\n")
        (root / "proc").mkdir(parents=True)
        (root / "proc/meminfo").write_text(f"MemTotal: {memory_kb} kB\nMemFree: 1 kB\n")
        (root / "proc/mounts").write_text("hugetlbfs /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0\n")

    def folder(self, node: str) -> Path:
        return self.root / ("sys/kernel/mm" if node == "all" else f"sys/devices/system/node/{node}") / FOLDER

    def set(self, node: str, pages: int) -> None:
        self.folder(node).mkdir(parents=True, exist_ok=True)
        (self.folder(node) / "nr_hugepages").write_text(f"{pages}\n")

    def pages(self, node: str) -> int:
        return int((self.folder(node) / "nr_hugepages").read_text())


def of(module: ModuleType, tree: Tree) -> Any:
    return module.Reservation(tree.root, tree.boot, Path("/nowhere"))


def reserve(module: ModuleType, tree: Tree, wanted_pages: int = 1024, memory_share: float = 0.25) -> list[str]:
    reservation = of(module, tree)
    lines: list[str] = reservation.raise_to(reservation.pages.allowed(wanted_pages, memory_share))
    return lines


def on_node(tree: Tree, address: str, node: int) -> str:
    folder = tree.root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{node}\n")
    return address


@pytest.mark.parametrize(
    ("nodes", "after"),
    [([1], {"node0": 3, "node1": 100}), ([0, 1], {"node0": 52, "node1": 48}), ([-1], {"node0": 52, "node1": 48})],
    ids=["one", "both", "unknown"],
)
def test_pages_are_where_the_nics_are(
    module: ModuleType, tmp_path: Path, nodes: list[int], after: dict[str, int]
) -> None:
    tree = Tree(tmp_path, {"node0": 3, "node1": 0})
    devices = [on_node(tree, f"0000:{number:02x}:00.0", node) for number, node in enumerate(nodes)]

    def made() -> Any:
        return module.Reservation(tree.root, tree.boot, Path("/nowhere"), devices)

    assert made().raise_to(100)
    assert {node: tree.pages(node) for node in ("node0", "node1")} == after
    assert made().raise_to(100) == []
    made().verify(100)
    tree.set("node1", 0)
    with pytest.raises(HostError, match=r"there are \d+ hugepages of 2 MB on node"):
        made().verify(100)
    tree.set("node1", after["node1"])
    made().restore()
    assert (tree.pages("node0"), tree.pages("node1")) == (3, 0)


def restore(module: ModuleType, tree: Tree) -> list[str]:
    lines: list[str] = of(module, tree).restore()
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
    assert not tree.journal.exists()


def test_a_larger_reservation_is_never_lowered(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 2048})
    assert reserve(module, tree) == []
    assert tree.pages("node0") == 2048
    assert not tree.journal.exists()


def test_accepts_fewer_pages_if_the_kernel_has_no_more(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path, {"node0": 0})
    write = module.Pages.write
    monkeypatch.setattr(
        module.Pages, "write", lambda self, target, state: write(self, target, 300 if state == 1024 else state)
    )
    assert reserve(module, tree)
    assert tree.pages("node0") == 300
    assert reserve(module, tree) == []
    assert restore(module, tree)
    assert tree.pages("node0") == 0


def test_refuses_when_somebody_else_changed_the_pages(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 0})
    reserve(module, tree)
    tree.set("node0", 3000)
    with pytest.raises(HostError, match="changed by someone else: was node0: 0, we set 1024 in all, now node0: 3000"):
        restore(module, tree)
    assert tree.pages("node0") == 3000
    assert tree.journal.exists()


def test_a_number_lowered_by_others_is_not_raised(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 0})
    reserve(module, tree)
    tree.set("node0", 10)
    with pytest.raises(HostError, match="left alone: they are"):
        reserve(module, tree)


def test_refuses_while_pages_are_in_use(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 0})
    reserve(module, tree)
    (tree.folder("node0") / "free_hugepages").write_text("1000\n")
    with pytest.raises(HostError, match="in use"):
        restore(module, tree)
    assert tree.pages("node0") == 1024
    (tree.folder("node0") / "free_hugepages").write_text("1024\n")
    assert restore(module, tree)
    assert tree.pages("node0") == 0


def test_a_host_that_forbids_writing_leaves_no_journal(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path, {"node0": 0})
    monkeypatch.setattr(module.Pages, "read", lambda *_: {"node0": 0})
    monkeypatch.setattr(module.Pages, "_counts", lambda *_: {"node0": 0})
    (tree.folder("node0") / "nr_hugepages").unlink()
    (tree.folder("node0") / "nr_hugepages").symlink_to(tree.root / "proc/self-made/nowhere")
    with pytest.raises(HostError, match="cannot be written"):
        reserve(module, tree, 10)
    assert not tree.journal.exists()


def test_a_kernel_without_hugepages_is_reported(module: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(HostError, match="no 2 MB hugepages"):
        reserve(module, Tree(tmp_path, {}))


def test_refused_pages_are_a_warning_and_the_mount_is_made(module: ModuleType, tmp_path: Path) -> None:
    lines, refusals = module.act("present", of(module, Tree(tmp_path, {})), 10)
    assert (lines, refusals) == ([], ["this kernel shows no 2 MB hugepages"])


def test_check_mode_lists_the_pages_to_reserve(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 2})
    assert module.act("present", of(module, tree), 10, dry=True)[0] == ["hugepages of 2 MB: node0: 2 -> 10 in all"]
    reserve(module, tree, 10)
    assert module.act("present", of(module, tree), 10, dry=True)[0] == []
    assert "node0: 2" in " ".join(module.act("absent", of(module, tree), 10, dry=True)[0])
    assert tree.pages("node0") == 10
    restore(module, tree)
    assert tree.pages("node0") == 2


def test_a_mount_of_2_mb_pages_is_recognised(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 0})
    assert of(module, tree).mount() == []
    (tmp_path / "proc/mounts").write_text("none /big hugetlbfs rw,pagesize=1024M 0 0\nproc /proc proc rw 0 0\n")
    with pytest.raises(HostError, match="not mounted"):
        of(module, tree).verify(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_mounts_and_unmounts_on_the_real_kernel(checkout: Path, tmp_path: Path) -> None:
    """It runs in a mount namespace without this host's mounts of hugetlbfs, and reserves no page."""
    script = """
import pathlib, subprocess, sys
sys.path.insert(0, sys.argv[1])
import playbook_modules
module = playbook_modules.load("hugepages_reservation")
point = pathlib.Path(sys.argv[2], "huge")
for line in pathlib.Path("/proc/mounts").read_text().splitlines():
    if line.split()[2] == "hugetlbfs":
        subprocess.run(["umount", line.split()[1]], check=True)
if not pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB").is_dir():
    sys.exit("no hugepages")
made = lambda: module.Reservation(pathlib.Path("/"), module.boot_id(), point)
assert len(made().mount()) == 2
assert point.is_mount() and made().mount() == []
made().verify(0)
assert len(made().restore()) == 2
assert not point.exists() and not pathlib.Path(sys.argv[2], "state").exists()
"""
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", script]
    words = [*command, str(checkout / "tests"), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "no hugepages" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr


def test_verify_compares_and_changes_nothing(module: ModuleType, tmp_path: Path) -> None:
    tree = Tree(tmp_path, {"node0": 100})
    with pytest.raises(HostError, match="there are 100 hugepages of 2 MB, should be 101"):
        of(module, tree).verify(101)
    of(module, tree).verify(100)
    (tree.root / "proc/mounts").write_text("")
    with pytest.raises(HostError, match="not mounted"):
        of(module, tree).verify(100)
    assert tree.pages("node0") == 100
    assert not tree.journal.exists()
