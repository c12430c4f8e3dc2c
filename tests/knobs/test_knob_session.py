# SPDX-License-Identifier: BSD-3-Clause
"""Test sessions: order, refusals, conflicts, signals, and every knob that is a file."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import playbook_modules
import pytest
from knob_tree import NIC, NIC2, NIC_EXPRESS, PORT, PORT_EXPRESS, PREFETCH, Command, Tree

from pollscope.base.errors import HostError, PollscopeError
from pollscope.base.knob_values import parse_setting
from pollscope.base.names import KNOBS
from pollscope.host.boot_note import remove_boot_note, write_boot_note
from pollscope.host.journal import load
from pollscope.host.lock import HostLock
from pollscope.knobs import (
    KnobSession,
    LeftBehind,
    NotRestored,
    Policy,
    Refused,
    RestoreResult,
    knobs_of,
    restore_all,
    snapshot,
)
from pollscope.knobs.host import KnobHost
from pollscope.knobs.session import hand_journal, run_journal

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"

# setting, value, file, its content while set
FILES = [
    ("governor@policy1", "performance", f"{CPU}/cpufreq/policy1/scaling_governor", "performance\n"),
    ("turbo", "off", f"{CPU}/intel_pstate/no_turbo", "1\n"),
    ("smt", False, f"{CPU}/smt/control", "off\n"),
    ("uncore_freq", 1800000, f"{CPU}/intel_uncore_frequency/package_01_die_00/min_freq_khz", "1800000\n"),
    ("uncore_freq", "2500000-2600000", f"{CPU}/intel_uncore_frequency/package_00_die_00/max_freq_khz", "2600000\n"),
    ("core_freq", 2100000, f"{CPU}/cpufreq/policy3/scaling_min_freq", "2100000\n"),
    ("core_freq@policy0", "800000-2100000", f"{CPU}/cpufreq/policy0/scaling_max_freq", "2100000\n"),
    ("epp", "power", f"{CPU}/cpufreq/policy2/energy_performance_preference", "power\n"),
    ("epp@policy1", 128, f"{CPU}/cpufreq/policy1/energy_performance_preference", "128\n"),
    ("epb", "balance_power", f"{CPU}/cpu3/power/energy_perf_bias", "8\n"),
    ("epb@cpu2", 0, f"{CPU}/cpu2/power/energy_perf_bias", "0\n"),
    ("hugepages", 1024, f"{NODE}/node1/hugepages/hugepages-2048kB/nr_hugepages", "1024\n"),
    ("hugepages@node0/1048576kB", "2", f"{NODE}/node0/hugepages/hugepages-1048576kB/nr_hugepages", "2\n"),
    ("irq_affinity@irq43", "0,1,3", "proc/irq/43/smp_affinity_list", "0-1,3\n"),
    ("irq_affinity@irq43", "0-3,2", "proc/irq/43/smp_affinity_list", "0-3\n"),
    ("irq_affinity@ens1f0", "2", "proc/irq/42/smp_affinity_list", "2\n"),
    ("numa_balancing", "off", "proc/sys/kernel/numa_balancing", "0\n"),
    ("nmi_watchdog", False, "proc/sys/kernel/nmi_watchdog", "0\n"),
]


@pytest.mark.parametrize(("key", "value", "file", "content"), FILES)
def test_file_knobs(tree: Tree, key: str, value: object, file: str, content: str) -> None:
    before = tree.picture()
    with KnobSession("test", tree.host) as session:
        session.apply({key: value})
        assert (tree.root / file).read_text() == content
    assert tree.picture() == before


def test_odd_contents_come_back_byte_for_byte(tree: Tree) -> None:
    tree.write("proc/sys/kernel/numa_balancing", "  1")
    tree.write(f"{CPU}/cpufreq/policy2/scaling_governor", "powersave")
    before = tree.picture()
    with KnobSession("test", tree.host) as session:
        session.apply({"numa_balancing": "off", "governor": "performance"})
        assert tree.picture() != before
    assert tree.picture() == before


def test_governor_restores_the_preference_that_moved_with_it(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree.picture()
    preference = f"{CPU}/cpufreq/policy0/energy_performance_preference"
    with KnobSession("test", tree.host) as session:
        write = session.knobs["governor"].write

        def as_a_driver_does(target: str, state: str) -> None:
            write(target, state)
            if state.startswith("performance"):
                tree.write(preference, "performance\n")

        monkeypatch.setattr(session.knobs["governor"], "write", as_a_driver_does)
        session.set("governor", "policy0", "performance")
    assert tree.picture() == before


def test_interrupts_stay_where_they_are_beside_irqbalance(tree: Tree) -> None:
    tree.write("proc/1/comm", "systemd\n")
    with KnobSession("test", tree.host) as session:
        session.set("irq_affinity", "irq42", "1")
        tree.write("proc/77/comm", "irqbalance\n")
        before = tree.picture()
        with pytest.raises(Refused, match=r"irqbalance \(pid 77\) would move the interrupts again"):
            session.set("irq_affinity", "irq43", "1")
        assert tree.picture() == before
        assert session.get("irq_affinity", "irq43") == {"irq43": "0-3"}
    assert (tree.root / "proc/irq/42/smp_affinity_list").read_text() == "0-3\n"


def test_the_governor_performance_fixes_the_preference(tree: Tree) -> None:
    with KnobSession("test", tree.host) as session:
        session.set("governor", "policy0", "performance")
        with pytest.raises(Refused, match="the governor performance fixes the preference"):
            session.set("epp", "policy0", "power")


def test_mrrs(tree: Tree) -> None:
    before = tree.picture()
    with KnobSession("test", tree.host) as session:
        session.set("mrrs", "ens1f0", 4096)
        assert tree.register(NIC, NIC_EXPRESS + 8, 2) == 5 << 12 | 1 << 5
        assert session.get("mrrs") == {NIC: "4096", NIC2: "512"}
    assert tree.picture() == before


def test_aspm_sets_both_ends(tree: Tree) -> None:
    before = tree.picture()
    with KnobSession("test", tree.host) as session:
        session.set("aspm", "17:00.0", "off")
        ends = ((NIC, NIC_EXPRESS), (NIC2, NIC_EXPRESS), (PORT, PORT_EXPRESS))
        assert [tree.register(address, express + 0x10, 2) for address, express in ends] == [0x40] * 3
        lines = run_journal(tree.host).read_text().splitlines()
        assert [line.split('"target": ')[1][1:13] for line in lines if '"set"' in line] == [NIC, NIC2, PORT]
        session.set("aspm", NIC, "l0s+l1")
        assert [tree.register(address, express + 0x10, 2) for address, express in ends] == [0x43] * 3
    assert tree.picture() == before


def test_prefetchers(tree: Tree) -> None:
    before = tree.picture()
    with KnobSession("test", tree.host) as session:
        session.set("prefetchers", None, "off")
        assert [tree.msr(cpu, PREFETCH) for cpu in range(4)] == [0x2F] * 4
        session.set("prefetchers", "cpu1", "dcu_ip, l2_stream")
        assert tree.msr(1, PREFETCH) == 0x26
        assert session.get("prefetchers", "cpu1") == {"cpu1": "l2_stream,dcu_ip"}
    assert tree.picture() == before


@pytest.mark.parametrize(
    ("kind", "mode"), [("identity", "passthrough"), ("DMA", "strict"), ("DMA-FQ", "lazy"), ("unmanaged", "unknown")]
)
def test_iommu_is_read_and_never_set(tree: Tree, kind: str, mode: str) -> None:
    tree.write("sys/kernel/iommu_groups/1/type", f"{kind}\n")
    with KnobSession("test", tree.host) as session:
        assert session.get("iommu") == {"host": mode}
        if mode != "unknown":
            assert session.set("iommu", None, mode) == []  # is so already
        other = "strict" if mode != "strict" else "lazy"
        with pytest.raises(Refused, match=r"boot parameter 'intel_iommu=on .*' and a reboot"):
            session.set("iommu", None, other)


MLXCONFIG = """#!/bin/sh
test "$*" = "-d {nic} -e query LOG_MAX_OUTSTANDING_WQE" || exit 9
echo "Device #1:"
echo "Configurations:                                      Default         Current         Next Boot"
echo "*        LOG_MAX_OUTSTANDING_WQE                     7               {now}               9"
"""


def test_outstanding_wqes_are_read_and_never_set(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The present value counts, not the next boot's; a NIC of another vendor has none."""
    with KnobSession("test", tree.host) as session:
        assert session.get("outstanding_wqes") == {"host": "none"}
        assert session.set("outstanding_wqes", None, "none") == []
        with pytest.raises(Refused, match="the host has no NVIDIA NIC"):
            session.set("outstanding_wqes", None, "128")
    vendor = tree.config(NIC).with_name("vendor")
    vendor.write_text("0x15b3\n")
    tool = tree.write("bin/mlxconfig", MLXCONFIG.format(nic=NIC, now=6))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    with KnobSession("test", tree.host) as session:
        assert session.get("outstanding_wqes") == {"host": "64"}
        assert session.set("outstanding_wqes", None, "64") == []
        for value, complaint in (
            ("128", f"has 64; 128 needs 'mlxconfig -d {NIC} set LOG_MAX_OUTSTANDING_WQE=7'"),
            ("none", "the host has an NVIDIA NIC"),
        ):
            with pytest.raises(Refused, match=complaint):
                session.set("outstanding_wqes", None, value)
        tool.write_text("#!/bin/sh\necho '-E- Unknown parameter'\n")
        with pytest.raises(HostError, match="does not print its LOG_MAX_OUTSTANDING_WQE"):
            session.get("outstanding_wqes")


def test_iommu_off_without_an_iommu_whatever_the_groups_say(tree: Tree) -> None:
    (tree.root / "sys/class/iommu/dmar0/intel-iommu/version").unlink()
    for folder in ("dmar0/intel-iommu", "dmar0"):
        (tree.root / "sys/class/iommu" / folder).rmdir()
    assert snapshot(tree.host)["iommu"] == {"host": "off"}


@pytest.mark.parametrize("name", sorted(set(KNOBS) - {"iommu"}))
def test_every_knob_says_why_it_is_absent(tmp_path: Path, name: str) -> None:
    knob = knobs_of(KnobHost.at(tmp_path))[name]
    assert not knob.available()
    assert len(knob.available().reason) > 10
    with KnobSession("test", KnobHost.at(tmp_path)) as session, pytest.raises(PollscopeError):
        session.set(
            name, None, {"hugepages": "1", "mrrs": "512", "governor": "x", "irq_affinity": "0"}.get(name, "off")
        )


def test_reading_changes_nothing(tree: Tree) -> None:
    before = tree.picture()
    first = snapshot(tree.host)
    assert {name for name, values in first.items() if "absent" in values} == {"c_states", "vtd_latency", "probe"}
    assert tree.picture() == before


def test_restores_in_reverse_order_and_nothing_else(tree: Tree) -> None:
    with KnobSession("test", tree.host) as session:
        session.apply({"turbo": "off", "numa_balancing": "off", "nmi_watchdog": "off"})
        session.set("turbo", None, "on")
        session.set("turbo", None, "off")
        tree.write("proc/irq/43/smp_affinity_list", "1\n")  # not ours
        outcomes = session.restore()
    assert [outcome.knob for outcome in outcomes] == ["nmi_watchdog", "numa_balancing", "turbo"]
    assert (tree.root / "proc/irq/43/smp_affinity_list").read_text() == "1\n"


def test_an_error_in_the_block_still_restores(tree: Tree) -> None:
    before = tree.picture()
    with pytest.raises(ZeroDivisionError), KnobSession("test", tree.host) as session:  # noqa: PT012 - the error comes when the session ends
        session.set("turbo", None, "off")
        raise ZeroDivisionError
    assert tree.picture() == before


def test_a_foreign_change_is_kept_until_the_user_decides(tree: Tree, knob: Command) -> None:
    file = tree.root / "proc/sys/kernel/numa_balancing"
    message = "was on, we set off, now tiering; not overwritten"
    with pytest.raises(NotRestored, match=message), KnobSession("test", tree.host) as session:  # noqa: PT012 - the error comes when the session ends
        session.set("numa_balancing", None, "off")
        session.set("turbo", None, "off")
        file.write_text("2\n")
    assert file.read_text() == "2\n"
    assert (tree.root / f"{CPU}/intel_pstate/no_turbo").read_text() == "0\n"
    with pytest.raises(LeftBehind, match="numa_balancing"):
        KnobSession("next", tree.host, restore_first=True).__enter__()
    done = knob("restore")
    assert done.returncode == 3
    assert "1 of 1 values were not restored" in done.stderr
    assert knob("restore", "--force", "--keep").returncode == 2
    assert knob("restore", "--force").stdout == "numa_balancing host: on again\n"
    assert file.read_text() == "1\n"


def test_a_knob_set_by_hand_survives_a_run(tree: Tree, knob: Command) -> None:
    before = tree.picture()
    assert knob("set", "turbo", "off").stdout == "turbo host: on -> off\n"
    assert knob("set", "turbo", "off").stdout == "turbo: has this value already, nothing was written\n"
    with KnobSession("a run", tree.host) as session:
        session.set("turbo", None, "on")
        session.set("smt", None, "off")
    assert snapshot(tree.host)["turbo"] == {"host": "off"}
    assert knob("set", "numa_balancing", "off").returncode == 0
    assert knob("restore", "turbo").stdout == "turbo host: on again\n"
    assert knob("restore").stdout == "numa_balancing host: on again\n"
    assert knob("restore").stdout == "nothing to restore\n"
    assert tree.picture() == before
    assert not hand_journal(tree.host).exists()


def test_two_sessions_at_once_are_refused(tree: Tree, knob: Command) -> None:
    with KnobSession("the first", tree.host), pytest.raises(HostError) as refusal:
        KnobSession("the second", tree.host).__enter__()
    assert f"in use by pid {os.getpid()} (the first, since " in str(refusal.value)
    with HostLock("run S-F5", tree.host.lock_path):
        done = knob("set", "turbo", "off")
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)


@pytest.fixture
def journals(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module with the journals of the tree."""
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tree.host.state_dir))
    return playbook_modules.load("pollscope_journals")


def test_no_session_begins_between_the_tasks_of_a_play(
    tree: Tree, journals: ModuleType, monkeypatch: pytest.MonkeyPatch, knob: Command
) -> None:
    journals.begin("ada@one (17)")
    for caller in ("user", "runner"):
        with pytest.raises(HostError, match=r"a play of ada@one \(17\) that prepares this host has not ended"):
            KnobSession("run S-F5", tree.host, caller=caller).__enter__()
    with monkeypatch.context() as of_play:
        of_play.setenv("POLLSCOPE_CALLER", "play")
        assert knob("set", "turbo", "off").returncode == 0, "roles turn knobs"
    turned = tree.picture()
    assert_refused(tree, knob, "a play of ada@one")
    assert tree.picture() == turned
    journals.end()
    assert knob("restore").returncode == 0
    with KnobSession("run S-F5", tree.host):
        pass


def test_no_knob_is_set_between_the_reboots_of_a_run(tree: Tree, knob: Command) -> None:
    """The run releases the host for them; the runner itself knows the note, and takes the host again."""
    before = tree.picture()
    assert knob("set", "turbo", "off").returncode == 0
    turned = tree.picture()
    write_boot_note(tree.host.state_dir, "run I-IOMMU by ada@one")
    assert_refused(tree, knob, "run I-IOMMU by ada@one of 2")
    with pytest.raises(HostError, match=r"the mode of this host.s IOMMU \(wait for it; after one that was killed"):
        KnobSession("run S-F5", tree.host, restore_first=True).__enter__()
    assert left_by_a_dead_run(tree) == tree.picture()
    assert tree.picture() != turned
    assert knob("restore").returncode == 0, "what a dead run has left is restored"
    remove_boot_note(tree.host.state_dir)
    assert tree.picture() == before


def assert_refused(tree: Tree, knob: Command, holder: str) -> None:
    before = tree.picture()
    for words in (("set", "numa_balancing", "off"), ("set", "--hold", "numa_balancing", "off"), ("restore",)):
        done = knob(*words)
        assert (done.returncode, len(done.stderr.splitlines())) == (3, 1), words
        assert holder in done.stderr
    assert tree.picture() == before


def left_by_a_dead_run(tree: Tree) -> dict[str, bytes]:
    session = KnobSession("run S-F5", tree.host, caller="runner").__enter__()
    session.set("smt", None, "off")
    session.lock.release()
    return tree.picture()


def test_programs_stay_where_a_dead_run_has_left_knobs(tree: Tree, journals: ModuleType) -> None:
    left_by_a_dead_run(tree)
    with pytest.raises(journals.HostError, match=r"run S-F5 of 2.* did not restore: smt \(pollscope knob restore on"):
        journals.refuse_left_knobs()
    restore_all(tree.host, knobs_of(tree.host))
    journals.refuse_left_knobs()


def test_no_play_begins_while_a_run_has_the_host_reboot(tree: Tree, journals: ModuleType) -> None:
    """For its play the run releases the host; after one that was killed, `restore` clears the way."""
    write_boot_note(tree.host.state_dir, "run I-IOMMU")
    for action in (journals.begin, journals.refuse_others):
        with pytest.raises(journals.HostError, match=r"run I-IOMMU of .* changes the mode .* \(wait for it"):
            action()
    journals.refuse_others(of_run=True)
    with HostLock("run S-F5", tree.host.lock_path), pytest.raises(journals.HostError, match="in use by pid"):
        journals.refuse_others(of_run=True)
    with HostLock("it is free", tree.host.lock_path):
        pass
    journals.restored()
    journals.begin()
    journals.end()


def test_a_second_play_keeps_the_state_from_before_the_first(tree: Tree, journals: ModuleType) -> None:
    """Otherwise the first one, if it fails, also restores changes of earlier plays."""
    earlier, mark = journals.journal_path("iommu"), journals.mark_folder()
    earlier.parent.mkdir(parents=True)
    earlier.write_text("legacy")
    journals.begin("ada@one")
    earlier.write_text("by now")
    for action in (journals.begin, journals.refuse_other_player):
        with pytest.raises(journals.HostError, match=r"in use by a play of ada@one \(wait for it; if it was cut off"):
            action("ada@two", False)
        with pytest.raises(journals.HostError, match="in use by a play of ada@one"):
            action("", False)
    journals.refuse_other_player("ada@two", True)
    assert (mark / "iommu.journal").read_text() == "legacy"
    os.utime(mark, (0, time.time() - journals.SILENT_S - 1))
    journals.refuse_other_player("ada@two", False)  # it was cut off
    os.utime(mark)
    journals.begin("ada@one")  # whoever was cut off tries again
    assert (mark / "iommu.journal").read_text() == "by now"
    earlier.unlink()
    journals.end()


def test_a_module_that_acts_says_that_its_play_goes_on(tree: Tree, journals: ModuleType) -> None:
    class Done:
        @staticmethod
        def exit_json(**_said: object) -> None: ...

    ledger = playbook_modules.load("pollscope_journal")
    journals.begin("ada@one")
    os.utime(journals.mark_folder(), (0, 0))
    ledger.report(Done, list)
    with pytest.raises(journals.HostError, match="a play of ada@one"):
        journals.begin("ada@two")
    journals.end()
    ledger.report(Done, list)  # without a play
    assert not journals.mark_folder().exists()


@pytest.mark.parametrize("content", ["", "{}", "null", "[1]", '{"pid": "x"}', "\0" * 50])
def test_a_damaged_lock_file_does_not_matter(tree: Tree, content: str) -> None:
    tree.host.lock_path.parent.mkdir(parents=True, exist_ok=True)
    tree.host.lock_path.write_text(content)
    with HostLock("test", tree.host.lock_path):
        pass


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("run \x1b]0;title\x07\x1b[2J\nroot: all is well", "run ?]0;title??[2J?root: all is well, since"),
        ("x" * 3000, f" ({'x' * 120}, since"),
        ("\u202eevil", "(?evil, since"),
        (7, "(7, since"),
    ],
)
def test_foreign_text_of_the_lock_file_is_made_printable(tree: Tree, what: object, said: str) -> None:
    with HostLock("test", tree.host.lock_path):
        owner = json.loads(tree.host.lock_path.read_text())
        tree.host.lock_path.write_text(json.dumps({**owner, "what": what, "since_utc": "t\x1b[1m"}))
        with pytest.raises(HostError) as refusal:
            KnobSession("the second", tree.host).__enter__()
    assert said in str(refusal.value)
    assert "since t?[1m)" in str(refusal.value)
    assert str(refusal.value).isprintable()


def test_a_reboot_restored_kernel_values_but_not_registers(tree: Tree) -> None:
    session = KnobSession("test", tree.host).__enter__()
    session.apply({"ddio@ens1f0": "off", "turbo": "off"})
    session.lock.release()  # leave it like a killed run
    tree.write("proc/sys/kernel/random/boot_id", "0b7f3c52-0000-4000-8000-000000000002\n")
    texts = [str(outcome) for outcome in restore_all(tree.host, knobs_of(tree.host))]
    assert texts == ["turbo host: the host was rebooted since, which restored it", f"ddio {PORT}: on again"]
    assert (tree.root / f"{CPU}/intel_pstate/no_turbo").read_text() == "1\n"


NEXT_BOOT = "0b7f3c52-0000-4000-8000-000000000002\n"


def test_after_a_reboot_a_knob_set_by_hand_can_be_set_again(tree: Tree) -> None:
    """Values that the reboot restored are closed; others are restored to their first state."""
    governor = tree.root / f"{CPU}/cpufreq/policy1/scaling_governor"
    before = tree.picture()
    with KnobSession("knob set", tree.host, by_hand=True) as session:
        session.apply({"governor@policy1": "performance", "ddio@ens1f0": "off"})
    governor.write_text("powersave\n")
    tree.write("proc/sys/kernel/random/boot_id", NEXT_BOOT)
    with KnobSession("knob set", tree.host, by_hand=True) as session:
        session.apply({"governor@policy1": "performance", "turbo": "off"})
    assert governor.read_text() == "performance\n"
    entries = {(entry.knob, entry.old, entry.boot_id) for entry in load(hand_journal(tree.host)).pending}
    assert {knob: boot for knob, _, boot in entries if knob != "ddio"} == dict.fromkeys(
        ("governor", "turbo"), NEXT_BOOT.strip()
    )
    assert all(outcome.restored for outcome in restore_all(tree.host, knobs_of(tree.host)))
    tree.write("proc/sys/kernel/random/boot_id", NEXT_BOOT.replace("2\n", "1\n"))
    assert tree.picture() == before


def test_after_a_reboot_a_register_that_is_as_it_was_can_be_set_again(tree: Tree) -> None:
    with KnobSession("knob set", tree.host, by_hand=True) as session:
        session.apply({"ddio@ens1f0": "off"})
        (entry,) = load(hand_journal(tree.host)).pending
        session.knobs["ddio"].write(entry.target, entry.old)
    tree.write("proc/sys/kernel/random/boot_id", NEXT_BOOT)
    with KnobSession("knob set", tree.host, by_hand=True) as session:
        session.apply({"ddio@ens1f0": "off"})
    assert [entry.boot_id for entry in load(hand_journal(tree.host)).pending] == [NEXT_BOOT.strip()]


def test_a_journal_that_cannot_be_written_means_no_change(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = tree.picture()
    with KnobSession("test", tree.host) as session:
        with monkeypatch.context() as patch, pytest.raises(HostError, match=r"journal cannot be \w+: No space"):  # noqa: PT012 - the error comes when the session ends
            patch.setattr(os, "fsync", fail)
            session.set("turbo", None, "off")
        assert tree.picture() == before
    assert tree.picture() == before


def test_lockdown_is_the_reason(tree: Tree) -> None:
    tree.write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    for name in ("ddio", "ddio_ways", "mrrs", "aspm", "prefetchers"):
        assert "locked down (integrity)" in knobs_of(tree.host)[name].available().reason


def test_ctrl_c_during_the_restore_waits_for_its_end(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree.picture()
    with pytest.raises(KeyboardInterrupt), KnobSession("test", tree.host) as session:  # noqa: PT012 - the error comes when the session ends
        session.apply({"turbo": "off", "numa_balancing": "off"})
        write = session.knobs["numa_balancing"].write

        def interrupted(target: str, state: str) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            write(target, state)

        monkeypatch.setattr(session.knobs["numa_balancing"], "write", interrupted)
    assert tree.picture() == before
    assert not run_journal(tree.host).exists()


def test_ctrl_c_just_before_the_restore_does_not_skip_it(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree.picture()
    with pytest.raises(KeyboardInterrupt), KnobSession("test", tree.host) as session:  # noqa: PT012 - the error comes when the session ends
        session.apply({"turbo": "off"})
        restore = session.restore

        def interrupted(policy: Policy = Policy.ASK) -> list[RestoreResult]:
            os.kill(os.getpid(), signal.SIGINT)
            return restore(policy)

        monkeypatch.setattr(session, "restore", interrupted)
    assert tree.picture() == before


LOGOUT = (signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT)


@pytest.mark.parametrize("numbers", [(signal.SIGINT,), (signal.SIGTERM,), (signal.SIGHUP,), LOGOUT])
def test_hold_restores_at_a_signal(tree: Tree, numbers: tuple[signal.Signals, ...]) -> None:
    """A login that ends sends two at once: the second must not cut off the restore that the first one starts."""
    if numbers == (signal.SIGHUP,) and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        pytest.skip("SIGHUP is ignored here (nohup), and a command leaves that so")
    before = tree.picture()
    program = "from pollscope.cli import main; main()"
    command = [sys.executable, "-c", program, "knob", "--root", str(tree.root), "set", "turbo", "off", "--hold"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "held until Ctrl-C\n"
        assert tree.picture() != before
        for number in numbers:
            process.send_signal(number)
        try:
            assert process.wait(20) == 0
        finally:
            process.kill()
    assert tree.picture() == before


def test_specs_are_checked_without_the_host() -> None:
    assert parse_setting("ddio@ens1f0", True) == "on"
    assert parse_setting("ddio_ways", 0x600) == "0x600"


def test_list_as_json(tree: Tree, knob: Command) -> None:
    rows = {row["knob"]: row for row in json.loads(knob("list", "--json").stdout)}
    assert set(rows) == set(KNOBS)
    assert rows["governor"]["available"]
    assert rows["governor"]["values"] == {f"policy{number}": "powersave" for number in range(4)}
    assert not rows["c_states"]["available"]
