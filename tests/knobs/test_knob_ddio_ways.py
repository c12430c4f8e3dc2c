# SPDX-License-Identifier: BSD-3-Clause
"""Test the knob `ddio_ways` end to end on MSR files."""

import pytest
from knob_tree import IIO_LLC_WAYS, Tree

from pollscope.knobs import KnobSession, NotRestored, knobs_of


@pytest.mark.parametrize(
    ("value", "mask"), [("4", 0x780), (4, 0x780), ("8 ways", 0x7F8), ("0x7f0", 0x7F0), (0x7FF, 0x7FF), (11, 0x7FF)]
)
def test_toggle_and_restore(tree: Tree, value: object, mask: int) -> None:
    before = tree.picture()
    with KnobSession("test", tree.host) as session:
        assert len(session.set("ddio_ways", None, value)) == 2
        assert [tree.msr(cpu, IIO_LLC_WAYS) for cpu in range(4)] == [mask, 0x600, mask, 0x600]  # one cpu a package
        assert session.get("ddio_ways") == {"package0": f"{mask:#x}", "package1": f"{mask:#x}"}
    assert tree.picture() == before


def test_one_package_and_upper_bits_stay(tree: Tree) -> None:
    tree.poke_msr(2, IIO_LLC_WAYS, 0xABCD_0000_0000_0600)
    before = tree.picture()
    with KnobSession("test", tree.host) as session:
        session.set("ddio_ways", "package1", 4)
        assert tree.msr(2, IIO_LLC_WAYS) == 0xABCD_0000_0000_0780
        assert tree.msr(0, IIO_LLC_WAYS) == 0x600
    assert tree.picture() == before


def test_package_goes_offline_meanwhile(tree: Tree) -> None:
    before = tree.picture()
    cpus = [tree.root / f"sys/devices/system/cpu/cpu{cpu}/topology" for cpu in (2, 3)]
    with pytest.raises(NotRestored, match="no processor online"), KnobSession("test", tree.host) as session:  # noqa: PT012 - the error comes when the session ends
        session.set("ddio_ways", None, 4)
        for path in cpus:
            path.rename(path.with_name("offline"))
    assert tree.msr(0, IIO_LLC_WAYS) == 0x600  # the other package is back
    for path in cpus:
        path.with_name("offline").rename(path)
    with KnobSession("test", tree.host, restore_first=True):
        assert tree.picture() == before


def test_a_register_that_cannot_be_read_is_the_reason(tree: Tree) -> None:
    msr = tree.root / "dev/cpu/0/msr"
    msr.write_bytes(b"")
    assert "0 bytes where 8" in knobs_of(tree.host)["ddio_ways"].available().reason
    msr.unlink()
    assert "modprobe msr" in knobs_of(tree.host)["ddio_ways"].available().reason
