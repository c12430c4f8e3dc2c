# SPDX-License-Identifier: BSD-3-Clause
"""Test knobs whose files read differently from what is written: resctrl's io_alloc and the IOMMU's latency counters."""

import re
import shutil
from pathlib import Path

import pytest
from knob_tree import Command, Tree

from pollscope.base.errors import HostError
from pollscope.knobs import KnobSession, NotStuck, Refused, host, knobs_of, llc_ways, restore_all, sysfs

INFO = "sys/fs/resctrl/info/L3"
LATENCY = "sys/kernel/debug/iommu/intel/dmar_perf_latency"


class Resctrl:
    """Answers as Linux 6.19 does: 1 and 0 switch, one cache a write, masks in as many digits as the LLC needs."""

    def __init__(self, tree: Tree, state: str = "disabled") -> None:
        self.tree, self.masks, self.writes = tree, {0: 0xFFFF, 1: 0xFFFF}, list[str]()
        tree.write("sys/fs/resctrl/schemata", "    MB:0=4096;1=4096\n    L3:0=ffff;1=ffff\n")
        tree.write(f"{INFO}/cbm_mask", "ffff\n")
        tree.write("sys/fs/resctrl/info/last_cmd_status", "ok\n")
        self.show(state)

    def show(self, state: str) -> None:
        masks = ";".join(f"{cache}={mask:04x}" for cache, mask in self.masks.items())
        self.tree.write(f"{INFO}/io_alloc", f"{state}\n")
        self.tree.write(f"{INFO}/io_alloc_cbm", f"{masks}\n" if state == "enabled" else "")

    def take(self, path: Path, text: str) -> None:
        self.writes.append(text.strip())
        if path.name == "io_alloc":
            self.masks = dict.fromkeys(self.masks, 0xFFFF) if text.strip() == "1" else self.masks
            self.show("enabled" if text.strip() == "1" else "disabled")
        else:
            cache, _, mask = text.strip().partition("=")
            self.masks[int(cache)] = int(mask, 16)
            self.show("enabled")


@pytest.fixture
def resctrl(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> Resctrl:
    found = Resctrl(tree)
    monkeypatch.setattr(llc_ways, "write_text", found.take)
    return found


@pytest.mark.parametrize(("value", "mask"), [("4 ways", 0xF000), (2, 0xC000), ("0x00f", 0xF), (16, 0xFFFF)])
def test_io_alloc_is_switched_on_and_off_again(tree: Tree, resctrl: Resctrl, value: object, mask: int) -> None:
    before = tree.picture()
    with KnobSession("test", tree.host) as session:
        assert session.get("ddio_ways") == {"host": "disabled"}
        session.set("ddio_ways", None, value)
        assert resctrl.masks == {0: mask, 1: mask}
        assert session.get("ddio_ways") == {"host": f"{mask:#x}"}
    assert resctrl.writes[-1] == "0"
    assert tree.picture() == before


def test_earlier_masks_are_restored(tree: Tree, resctrl: Resctrl) -> None:
    resctrl.masks = {0: 0x000F, 1: 0x00FF}
    resctrl.show("enabled")
    before = tree.picture()
    with KnobSession("test", tree.host) as session:
        assert session.get("ddio_ways") == {"host": "0xf, 0xff"}
        session.set("ddio_ways", None, 3)
        assert resctrl.masks == {0: 0xE000, 1: 0xE000}
    assert resctrl.masks == {0: 0x000F, 1: 0x00FF}
    assert tree.picture() == before


def test_ways_that_the_llc_lacks_are_refused(tree: Tree, resctrl: Resctrl) -> None:
    with KnobSession("test", tree.host) as session, pytest.raises(Refused, match="the LLC has 16 ways"):
        session.set("ddio_ways", None, "17 ways")
    assert resctrl.writes == []


def test_the_kernels_reason_is_reported_and_the_state_restored(
    tree: Tree, resctrl: Resctrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, text: str) -> None:
        if path.name == "io_alloc_cbm":
            tree.write("sys/fs/resctrl/info/last_cmd_status", "Mask f000 overlaps with exclusive group\n")
            raise HostError("the kernel refused it: Invalid argument", str(path))
        resctrl.take(path, text)

    monkeypatch.setattr(llc_ways, "write_text", refuse)
    with KnobSession("test", tree.host) as session, pytest.raises(HostError, match="overlaps with exclusive group"):
        session.set("ddio_ways", None, 4)
    assert (tree.root / f"{INFO}/io_alloc").read_text() == "disabled\n"


@pytest.mark.parametrize("state", ["not supported", ""])
def test_without_io_alloc_the_register_is_the_knob(tree: Tree, state: str) -> None:
    tree.write(f"{INFO}/io_alloc", f"{state}\n")
    assert knobs_of(tree.host)["ddio_ways"].targets() == ["package0", "package1"]


@pytest.mark.parametrize(("boot", "said"), [("same", "cannot be restored .*io_alloc"), ("next", "rebooted since")])
def test_io_alloc_is_restored_as_what_it_was_when_resctrl_is_gone(
    tree: Tree, resctrl: Resctrl, knob: Command, boot: str, said: str
) -> None:
    """Nobody mounts resctrl at boot; the register that is the knob then knows nothing of the caches' masks."""
    with KnobSession("knob set", tree.host, by_hand=True) as session:
        session.set("ddio_ways", None, 4)
        session.set("turbo", None, "off")
    shutil.rmtree(tree.root / "sys/fs/resctrl")
    if boot == "next":
        tree.write("proc/sys/kernel/random/boot_id", "0b7f3c52-0000-4000-8000-000000000002\n")
    assert "host was disabled before pollscope" in knob("list").stdout
    ways, turbo = restore_all(tree.host, knobs_of(tree.host))[::-1]
    assert re.search(said, ways.text) and turbo.restored
    assert ways.restored == (boot == "next")


HEADER = "                <0.1us   0.1us-1us    1us-10us  10us-100us   100us-1ms    1ms-10ms      >=10ms     min(us)"
NAMES = {"1": "   inv_iotlb", "2": "  inv_devtlb", "3": "     inv_iec"}


@pytest.fixture
def latency(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Answer as the kernel does: a number switches one kind on, 0 all off; one row per active kind."""
    switched: list[str] = []

    def show() -> None:
        rows = "".join(f"{NAMES[each]}           0         286         123\n" for each in sorted(switched))
        text = f"IOMMU: dmar0 Register Base Address: d0000000\n{HEADER}\n{rows}\n"
        tree.write(LATENCY, text * 2)

    def take(path: Path, text: str) -> None:
        if text.strip() not in ("0", *NAMES):
            raise HostError(f"the kernel refused {text.strip()!r}: Invalid argument", str(path))
        switched[:] = [] if text.strip() == "0" else sorted({*switched, text.strip()})
        show()

    show()
    monkeypatch.setattr(sysfs, "write_text", take)
    return switched


def test_latency_counters_are_switched_on_and_off_again(tree: Tree, latency: list[str]) -> None:
    with KnobSession("test", tree.host) as session:
        assert session.get("vtd_latency") == {"host": "off"}
        session.set("vtd_latency", None, "iec, iotlb")
        assert (session.get("vtd_latency"), latency) == ({"host": "iotlb,iec"}, ["1", "3"])
    assert latency == []


def test_latency_counters_that_were_on_are_on_again(tree: Tree, latency: list[str]) -> None:
    latency[:] = ["2"]
    host.write_text(tree.root / LATENCY, f"IOMMU: dmar0\n{HEADER}\n{NAMES['2']}  1 2 3\n")
    with KnobSession("test", tree.host) as session:
        session.set("vtd_latency", None, "off")
        assert latency == []
    assert latency == ["2"]


def test_a_kind_that_the_kernel_does_not_time_is_given_back(tree: Tree, latency: list[str]) -> None:
    with KnobSession("test", tree.host) as session, pytest.raises(HostError, match="the kernel refused '4'"):
        session.set("vtd_latency", None, "iotlb,svm_prq")
    assert latency == []


def test_a_kernel_that_ignores_a_kind_is_seen(tree: Tree, latency: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysfs, "write_text", lambda _path, _text: None)
    with KnobSession("test", tree.host) as session, pytest.raises(NotStuck, match="asked for iotlb, reads off"):
        session.set("vtd_latency", None, "iotlb")
    assert latency == []
