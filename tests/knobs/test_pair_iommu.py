# SPDX-License-Identifier: BSD-3-Clause
"""Test the IOMMU mode as a factor of a pair of real hosts, set by the play of an inventory.

This machine must not reboot: a stand-in takes the place of `run_play`. It does to the DUT what the play does as far as
another host sees it: it takes the DUT's lock, sets the mode, and every connection to the DUT ends.
"""

import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import pollscope
from knob_tree import Tree
from pair_hosts import SPEC, host_config, written
from run_helpers import Cli, assert_complete
from ssh_host import SshHost, running_sshd

from pollscope.base.errors import HostError
from pollscope.host.lock import HostLock, start_ticks
from pollscope.knobs import RestoreResult
from pollscope.run.execution import NOT_RESTORED
from pollscope.store.run_folder import RunFolder, read_run
from pollscope.testbeds.pair import boot_mode
from pollscope.testbeds.pair import knobs as pair_knobs
from pollscope.testbeds.pair.inventory import Inventory
from pollscope.testbeds.pair.knobs import PairKnobs
from pollscope.testbeds.pair.plays import PlayFailed, PlayResult
from pollscope.testbeds.pair.remote_host import RemoteHost

TYPES = {"passthrough": "identity", "lazy": "DMA-FQ", "strict": "DMA"}
# A warm-up that outlasts the time between the two start requests on a busy host.
SWEEP = SPEC.replace("burst: [8, 32]", "knob.iommu: [passthrough, strict]")
OWN = "lazy"  # values of the inventory and of the tree


class Machine:
    """The DUT as the play leaves it.

    Attributes:
        modes: those that were asked for, in their order.
        refused: a mode that its kernel does not take; the play restores the old one.
        silent: it does not come back from its next reboot.
    """

    def __init__(self, name: str, sshd: SshHost, tree: Tree, state: Path) -> None:
        self.name, self._sshd, self._tree, self._state = name, sshd, tree, state
        self.modes: list[str] = []
        self.refused = ""
        self.silent = False

    def play(
        self, name: str, inventory: Inventory, variables: Mapping[str, str], *, options: Sequence[str], log: Path
    ) -> PlayResult:
        assert (name, list(options)) == ("iommu", ["--limit", self.name])
        mode = variables["mode"]
        try:
            with HostLock("play iommu", self._state / "host.lock"):
                self.modes.append(mode)
                self._reboot(OWN if mode in (self.refused, "default") else mode)
        except HostError as error:
            raise PlayFailed({self.name: str(error)}) from error
        if self.silent:
            raise PlayFailed({self.name: "Timed out waiting for last boot time check (timeout=600)"})
        if mode == self.refused:
            raise PlayFailed({self.name: f"the IOMMU mode is {OWN}, should be {mode}"})
        return PlayResult((), {})

    def _reboot(self, mode: str) -> None:
        self._tree.write("sys/kernel/iommu_groups/1/type", TYPES[mode] + "\n")
        if self.silent:
            self._sshd.stop()
        for pid in self._sshd.connections() if not self.silent else ():
            os.kill(pid, signal.SIGKILL)


class Bench:
    """A pair whose DUT is behind an sshd of its own, so that its reboot leaves the generator alone.

    Its hosts are `dutNAME.example` and `generatorNAME.example` in the inventory.
    """

    def __init__(self, folder: Path, dut: SshHost, generator: SshHost, name: str = "") -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.tree, self._dut = folder, Tree(folder / "tree"), dut
        hosts = {"dut": self._host("dut", dut), "generator": self._host("generator", generator)}
        self.config = {"kind": "pair", **hosts, "inventory": "inventory.yml"}
        self.testbed = written(folder / "two.yaml", self.config)
        self.groups = {
            group: {"hosts": {f"{group}{name}.example": self._reached(host)}}
            for group, host in (("dut", dut), ("generator", generator))
        }
        self.groups["dut"]["hosts"][f"dut{name}.example"]["iommu_mode"] = OWN
        self.inventory = written(folder / "inventory.yml", self.groups)
        self.machine = Machine(f"dut{name}.example", dut, self.tree, folder / "dut/state")

    def _host(self, name: str, sshd: SshHost) -> dict[str, Any]:
        root = {"knob_root": str(self.tree.root)} if name == "dut" else {}
        return host_config(sshd, self.folder, name, **root)

    @staticmethod
    def _reached(sshd: SshHost) -> dict[str, Any]:
        return {"ansible_host": "127.0.0.1", "ansible_port": sshd.port, "pollscope_nics": ["0000:17:00.0"]}

    def run(self, spec: str, *options: str) -> tuple[int, list[str]]:
        """Return exit code and lines on standard error."""
        path = self.folder / "spec.yaml"
        path.write_text(spec)
        return self._pollscope("run", path, "--testbed", self.testbed, *options)

    def resume(self, run: RunFolder, *options: str) -> tuple[int, list[str]]:
        """Return the same as `run`."""
        return self._pollscope("run", "--resume", run.path, "--testbed", self.testbed, *options)

    def _pollscope(self, *words: str | Path) -> tuple[int, list[str]]:
        done = pollscope(*words, cwd=self.folder)
        return done.returncode, done.stderr.splitlines()

    def restart(self) -> None:
        self._dut.restart()

    def runs(self) -> list[RunFolder]:
        return [read_run(path) for path in sorted((self.folder / "results").glob("*/*"))]

    @property
    def mode(self) -> str:
        return (self.tree.root / "sys/kernel/iommu_groups/1/type").read_text().strip()

    @property
    def note(self) -> Path:
        return self.tree.root / "state/knobs/boot.note"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    for name in ("ssh-dut", "ssh-generator"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path / "conductor"))
    monkeypatch.setattr(pair_knobs, "REOPEN_PAUSE_S", 0.1)
    monkeypatch.setattr(pair_knobs, "REOPEN_LIMIT_S", 0.8)
    with running_sshd(tmp_path / "ssh-dut") as dut, running_sshd(tmp_path / "ssh-generator") as generator:
        made = Bench(tmp_path, dut, generator)
        monkeypatch.setattr(boot_mode, "run_play", made.machine.play)
        yield made


def test_the_note_of_a_run_that_goes_on_is_not_taken_for_that_of_a_dead_one(bench: Bench) -> None:
    """Another pair with this DUT releases the host while its play reboots it."""
    other = os.getppid()
    bench.note.parent.mkdir(parents=True, exist_ok=True)
    bench.note.write_text(f"run other, pid {other}/{start_ticks(other)} on {socket.gethostname()}, of 2026-01-01\n")
    code, said = bench.run(SWEEP, "--restore-first")
    assert (code, "wait for it: it is still running" in said[-1]) == (3, True), said
    assert (bench.note.exists(), bench.machine.modes) == (True, [])


@pytest.mark.thorough
def test_modes_are_set_by_few_plays_and_restored(bench: Bench) -> None:
    before = bench.tree.picture()
    sweep = SWEEP.replace("strict]", "strict], knob.governor: [performance, powersave]")
    code, said = bench.run(sweep.replace("count: 1", "count: 2"))
    assert code == 0, said
    (run,) = bench.runs()
    assert_complete(run)
    # Two blocks of two modes, the second backwards: three plays for eight trials, and one that restores.
    assert sorted(bench.machine.modes[:2]) == ["passthrough", "strict"]
    assert bench.machine.modes[2:] == [bench.machine.modes[0], OWN]
    assert run.meta["knobs_before"] == run.meta["knobs_after"]
    assert run.meta["knobs_before"]["iommu"] == {"dut/host": OWN}
    assert bench.tree.picture() == before
    assert not bench.note.exists()


@pytest.mark.thorough
def test_other_knobs_are_restored_before_a_reboot_and_set_again_after_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    balancing = bench.tree.root / "proc/sys/kernel/numa_balancing"
    seen: list[str] = []

    def looking(*words: Any, **named: Any) -> PlayResult:
        seen.append(balancing.read_text())
        return bench.machine.play(*words, **named)

    monkeypatch.setattr(boot_mode, "run_play", looking)
    code, said = bench.run(SWEEP + "knobs: {numa_balancing: off}\n")
    assert code == 0, said
    assert seen == ["1\n"] * 3, "two modes, and the one that is restored"
    assert bench.runs()[0].meta["knobs_after"]["numa_balancing"] == {"dut/host": "on"}
    assert balancing.read_text() == "1\n"


@pytest.mark.thorough
def test_a_host_that_is_not_rebooted_has_no_note_left(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A knob that could not be restored keeps the host from its reboots; no mode was changed."""
    restored, asked = PairKnobs._restored, list[str]()

    def refused_twice(knobs: PairKnobs, host: RemoteHost) -> list[RestoreResult]:
        asked.append(host.name)
        results = restored(knobs, host)
        return [RestoreResult("turbo", "host", False, "changed by someone else")] if len(asked) <= 2 else results

    monkeypatch.setattr(PairKnobs, "_restored", refused_twice)
    code, said = bench.run(SWEEP)
    assert code == 1, said
    assert "not rebooted: turbo host: changed by someone else" in str(bench.runs()[0].trials)
    assert bench.mode == TYPES[OWN]
    assert not bench.note.exists()


@pytest.mark.thorough
def test_a_mode_that_the_kernel_does_not_take_is_tried_once(bench: Bench) -> None:
    bench.machine.refused = "strict"
    code, said = bench.run(SWEEP.replace("count: 1", "count: 3"))
    assert code == 1, said
    assert bench.machine.modes.count("strict") == 1
    failed = {trial["reason"] for trial in bench.runs()[0].trials if trial["status"] == "failed"}
    assert failed == {"its knobs could not be set: dut.example: the IOMMU mode is lazy, should be strict"}
    assert bench.mode == TYPES[OWN]
    assert not bench.note.exists()


@pytest.mark.thorough
def test_a_reboot_that_does_not_come_back_ends_the_run_and_the_next_one_restores(bench: Bench) -> None:
    bench.machine.silent = True
    code, said = bench.run(SWEEP)
    assert code == 3
    assert len([line for line in said if line.startswith("pollscope: ")]) == 1
    assert "Timed out waiting for last boot time check" in said[-1]
    assert "dut" in said[-1]
    bench.machine.silent = False
    bench.restart()
    code, said = bench.run(SPEC)
    assert (code, len(said)) == (3, 1)
    assert "did not restore: iommu" in said[0]
    (broken,) = bench.runs()
    assert any(text.startswith(NOT_RESTORED) for text in broken.meta["warnings"])
    code, said = bench.resume(broken, "--restore-first")
    assert code == 0, said
    (run,) = bench.runs()
    assert_complete(run)
    assert not any(text.startswith("knob not") for text in run.meta["warnings"]), run.meta["warnings"]
    assert bench.machine.modes[-1] == OWN
    assert bench.mode == TYPES[OWN]
    assert not bench.note.exists()


def test_without_the_inventory_modes_are_left_out(bench: Bench) -> None:
    written(bench.testbed, {key: value for key, value in bench.config.items() if key != "inventory"})
    cli = Cli(bench.folder)
    done = cli("plan", cli.spec(SWEEP), "--testbed", bench.testbed)
    assert done.returncode == 3
    assert "needs the boot parameter" in done.stdout + done.stderr


def test_an_inventory_of_other_hosts_is_refused(bench: Bench) -> None:
    groups = json.loads(bench.inventory.read_text())
    groups["dut"]["hosts"]["dut.example"]["ansible_port"] = 22
    written(bench.inventory, groups)
    code, said = bench.run(SWEEP)
    assert (code, len(said)) == (2, 1)
    assert "its host dut.example is 127.0.0.1:22, the testbed's is 127.0.0.1:" in said[0]
    assert not bench.machine.modes


@pytest.mark.thorough
def test_a_run_without_the_factor_never_plays(bench: Bench) -> None:
    assert bench.run(SPEC)[0] == 0
    assert not bench.machine.modes


@pytest.mark.thorough
def test_every_pair_of_several_has_its_own_modes(
    bench: Bench, sshd: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ssh-other").mkdir()
    with running_sshd(tmp_path / "ssh-other") as dut:
        other = Bench(tmp_path / "other", dut, sshd, "-other")
        both = {"first": bench, "second": other}
        pairs = {name: {end: each.config[end] for end in ("dut", "generator")} for name, each in both.items()}
        bench.testbed = written(
            tmp_path / "both.yaml", {"kind": "pairs", "pairs": pairs, "inventory": bench.inventory.name}
        )
        written(bench.inventory, _merged(both))
        machines = {each.machine.name: each.machine for each in both.values()}

        def play(*words: Any, options: Sequence[str], **named: Any) -> PlayResult:
            return machines[options[1]].play(*words, options=options, **named)

        monkeypatch.setattr(boot_mode, "run_play", play)
        before = [each.tree.picture() for each in both.values()]
        code, said = bench.run(SWEEP.replace("count: 1", "count: 4"))
        assert code == 0, said
        assert [each.tree.picture() for each in both.values()] == before
    (run,) = bench.runs()
    assert_complete(run)
    seen = {(trial["pair"], trial["factors"]["knob.iommu"]) for trial in run.trials}
    assert seen == {(pair, mode) for pair in both for mode in ("passthrough", "strict")}
    # Two blocks of two modes on each: three plays, and one that restores.
    assert all(len(each.machine.modes) == 4 and each.machine.modes[-1] == OWN for each in both.values())


def _merged(pairs: Mapping[str, Bench]) -> dict[str, Any]:
    """Return one inventory of the hosts of several pairs."""
    groups: dict[str, Any] = {"dut": {"hosts": {}}, "generator": {"hosts": {}}}
    for pair, each in pairs.items():
        for group, found in groups.items():
            found["hosts"] |= {
                host: {**variables, "pollscope_pair": pair} for host, variables in each.groups[group]["hosts"].items()
            }
    return groups
