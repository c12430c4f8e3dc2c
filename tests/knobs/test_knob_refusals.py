# SPDX-License-Identifier: BSD-3-Clause
"""Check that what a knob cannot be set to is refused in one line, before anything is written."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from knob_tree import ICELAKE, NIC, NIC_EXPRESS, PERFCTRLSTS_0, PORT, Tree

from pollscope.base.errors import HostError, PollscopeError, UsageError
from pollscope.base.knob_values import parse_setting
from pollscope.knobs import KnobSession, Refused, knobs_of
from pollscope.knobs.session import run_journal

needs_setpci = pytest.mark.skipif(shutil.which("setpci") is None, reason="setpci is not installed (pciutils)")
NO_MASK = "not a mask that is known to work"
NO_SPEED = "the processor has 800000-3700000 kHz, not"

# setting, value, kind, words of the reason
BAD = [
    ("nosuch", 1, UsageError, ""),
    ("governor", "warp", HostError, ""),
    ("governor", "../../x", UsageError, ""),
    ("governor@policy9", "performance", UsageError, ""),
    ("turbo", "maybe", UsageError, ""),
    ("turbo", 1, UsageError, ""),
    ("smt", "forceoff", UsageError, ""),
    ("uncore_freq", "2400000-1200000", UsageError, ""),
    ("uncore_freq", "fast", UsageError, ""),
    ("hugepages", -1, UsageError, ""),
    ("hugepages", 1.5, UsageError, ""),
    ("hugepages", "10; rm -rf /", UsageError, ""),
    ("irq_affinity", "0", UsageError, ""),
    ("irq_affinity@irq42", "3-1", UsageError, ""),
    ("irq_affinity@irq42", "0,3-1", UsageError, ""),
    ("irq_affinity@irq42", "0,,2", UsageError, ""),
    ("irq_affinity@irq42", "1_0", UsageError, ""),
    ("irq_affinity@irq42", "", UsageError, ""),
    ("irq_affinity@irq42", "9", HostError, ""),
    ("irq_affinity@irq1/../42", "1", UsageError, ""),
    ("mrrs@ens1f0", 333, UsageError, ""),
    ("mrrs", 512, UsageError, ""),
    ("mrrs@nosuch0", 512, HostError, ""),
    ("mrrs@../../x", 512, UsageError, ""),
    ("mrrs@0000:99:00.0", 512, HostError, ""),
    ("aspm@ens1f0", "l2", UsageError, ""),
    ("prefetchers", "l3", UsageError, ""),
    ("c_states", -5, UsageError, ""),
    ("iommu", "maybe", UsageError, ""),
    ("outstanding_wqes", "100", UsageError, ""),
    ("numa_balancing", None, UsageError, ""),
    ("ddio@", "off", UsageError, ""),
    ("core_freq", "500000-900000", Refused, f"{NO_SPEED} 500000-900000"),
    ("core_freq", 4000000, Refused, f"{NO_SPEED} 4000000-4000000"),
    ("epp", "greedy", Refused, "the driver offers default, performance, balance_power, power, not greedy"),
    *(("ddio_ways", mask, Refused, NO_MASK) for mask in ("12", "0x003", "0x5ff", "0xfff", "0x400")),
]


@pytest.mark.parametrize(("key", "value", "kind", "reason"), BAD)
def test_bad_input(tree: Tree, key: str, value: object, kind: type[PollscopeError], reason: str) -> None:
    assert_refused(tree, key, value, kind, reason)
    assert not run_journal(tree.host).exists()


def assert_refused(tree: Tree, key: str, value: object, kind: type[PollscopeError], reason: str) -> None:
    before = tree.picture()
    with KnobSession("test", tree.host) as session, pytest.raises(kind, match=reason or ".") as error:
        session.apply({key: value})
    assert len(str(error.value).splitlines()) == 1
    assert tree.picture() == before


# These are refused already where a spec is read, without a host.
BAD_VALUES: dict[str, list[object]] = {
    "core_freq": ["3000000-2000000", "2 GHz"],
    "epp": [256, True, "a b"],
    "epb": [16, True, "eco"],
    "vtd_latency": ["all", "", "iotlb,everything"],
    "mrrs": [100],
    "ddio_ways": [1, 0, -2, "", "many", True, "0x1000000", "2.5", None],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in BAD_VALUES.items() for value in values])
def test_bad_values_are_refused_where_the_spec_is_read(key: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"not a value of {key}"):
        parse_setting(key, value)


def no_extended_space(tree: Tree) -> None:
    with tree.config(PORT).open("r+b") as file:
        file.truncate(256)  # setpci would make the file longer


def header_in_the_way(tree: Tree) -> None:
    tree.poke(PORT, 0x148, PERFCTRLSTS_0 << 20 | 1 << 16 | 0x000D)
    tree.poke(PORT, PERFCTRLSTS_0, 0x1901000B)
    tree.poke(PORT, 0x190, 1 << 16 | 0x0019)


def chain_that_points_back(tree: Tree) -> None:
    tree.poke(PORT, 0x148, 0x100 << 20 | 1 << 16 | 0x000D)


def other_llc(tree: Tree) -> None:
    for cpu in range(4):
        tree.write(f"sys/devices/system/cpu/cpu{cpu}/cache/index3/ways_of_associativity", "12\n")


def governors_of_one_cpu(tree: Tree) -> None:
    tree.write("sys/devices/system/cpu/cpufreq/policy3/scaling_available_governors", "powersave\n")


# what was changed on the host, setting, value, kind, words of the reason
CHANGED = [
    (governors_of_one_cpu, "governor", "performance", Refused, ""),  # no policy is set if one refuses
    (other_llc, "ddio_ways", 4, Refused, "12 ways"),
    (lambda tree: (tree.root / "dev/cpu/0/msr").unlink(), "ddio_ways", 4, HostError, "MSR 0xc8b"),
    (lambda tree: tree.poke(NIC, NIC_EXPRESS + 0x0C, 2 << 10), "aspm@ens1f0", "l0s+l1", Refused, "offers l1, not l0s"),
]
CHANGED_PORTS = [
    (header_in_the_way, "ddio@ens1f0", "off", Refused, "0x180 is the header .* 0x000b"),
    (chain_that_points_back, "ddio@ens1f0", "off", HostError, "broken at 0x100"),
    (no_extended_space, "ddio@ens1f0", "off", HostError, "only 256 bytes"),
    (lambda tree: tree.write(f"sys/bus/pci/devices/{PORT}/class", "0x020000\n"), f"ddio@{PORT}", "off", HostError, ""),
]


@pytest.mark.parametrize(
    ("change", "key", "value", "kind", "reason"),
    [*CHANGED, *(pytest.param(*row, marks=needs_setpci) for row in CHANGED_PORTS)],
)
def test_hosts_that_cannot(
    tree: Tree, change: Callable[[Tree], object], key: str, value: object, kind: type[PollscopeError], reason: str
) -> None:
    change(tree)
    assert_refused(tree, key, value, kind, reason)


# processor, root port, knob, words of the reason, words of `available`
MACHINES = [
    pytest.param(ICELAKE, "8086:347a", "ddio", "8086:347a.*extended capability", "", marks=needs_setpci),
    pytest.param(143, "8086:352a", "ddio", "8086:352a.*generation", "", marks=needs_setpci),
    pytest.param(85, "1022:1483", "ddio", "", "", marks=needs_setpci),
    (ICELAKE, "8086:2030", "ddio_ways", "no effect on the hit rate", "Ice Lake"),
    (999, "8086:2030", "ddio_ways", "no platform table", ""),
]


@pytest.mark.parametrize(("model", "port_id", "name", "reason", "absent"), MACHINES)
def test_machines_without_the_knob(
    tmp_path: Path, model: int, port_id: str, name: str, reason: str, absent: str
) -> None:
    tree = Tree(tmp_path, model, port_id)
    tree.poke(PORT, PERFCTRLSTS_0, 0x1901000B)
    assert_refused(tree, name, {"ddio": "off", "ddio_ways": 4}[name], Refused, reason)
    knobs = knobs_of(tree.host)
    assert not knobs[name].available()
    assert absent in knobs[name].available().reason
    if model == ICELAKE:
        assert knobs["prefetchers"].available()
