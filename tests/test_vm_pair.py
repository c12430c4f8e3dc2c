# SPDX-License-Identifier: BSD-3-Clause
"""Test the testbed `vm-pair` without a machine: its file, image key, QEMU command and process file."""

import itertools
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_helpers import Cli

from pollscope.base.errors import HostError
from pollscope.host.lock import HostLock, start_ticks
from pollscope.host.metadata import machine_id
from pollscope.node.requests import configure_request
from pollscope.plan.plan import make_plan
from pollscope.spec.load import load_file
from pollscope.spec.points import Point
from pollscope.testbeds import make_testbed
from pollscope.testbeds.pair import testbed as pair_testbed
from pollscope.testbeds.pair.boot_mode import boot_modes
from pollscope.testbeds.pair.config import AtStart
from pollscope.testbeds.pair.knobs import PairKnobs
from pollscope.testbeds.pair.remote_host import RemoteHost
from pollscope.testbeds.pair.session import split_request, wiring
from pollscope.testbeds.vm import image as vm_image
from pollscope.testbeds.vm import testbed as vm_pair
from pollscope.testbeds.vm.image import Recipe, clear_leftovers, process_mark, tsc_khz
from pollscope.testbeds.vm.machine import Machine, Shape
from pollscope.testbeds.vm.testbed import VmPairTestbed

SHAPE = Shape(cpus=2, memory_mib=2048, accelerator="tcg")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv(vm_pair.FOLDER_VARIABLE, str(tmp_path / "vm"))
    return Cli(tmp_path)


def made(folder: Path) -> Machine:
    """Return a machine with the files that a command line is made from."""
    machine = Machine("dut", "generator", folder)
    (folder / "dut.port").write_text("2201\n")
    return machine


def test_without_machines_nothing_runs(cli: Cli, checkout: Path) -> None:
    cli.ends(3, "testbed", "status", "vm-pair")
    done = cli.ends(3, "run", checkout / "experiments/sanity/pair.yaml", "--testbed", "vm-pair")
    assert "pollscope testbed up vm-pair" in done.stderr
    cli.ends(0, "testbed", "down", "vm-pair")


def test_machines_on_which_a_run_measures_are_not_taken_down(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "vm/vm-pair").mkdir(parents=True)
    with HostLock("run s-f5", tmp_path / "state/host-vm-pair.lock"):
        refused = cli("testbed", "down", "vm-pair")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (3, 1)
    assert "in use by pid" in refused.stderr and "(run s-f5, since" in refused.stderr
    assert (tmp_path / "vm/vm-pair").is_dir()
    cli.ends(0, "testbed", "down", "vm-pair")
    assert not (tmp_path / "vm/vm-pair").exists()


def test_plan_needs_no_machine(cli: Cli, checkout: Path) -> None:
    done = cli.ends(0, "plan", checkout / "experiments/intrahost/i-iommu.yaml", "--testbed", "vm-pair", "--json")
    modes = [trial["factors"]["knob.iommu"] for trial in json.loads(done.stdout)["trials"]]
    moves = sum(before != after for before, after in itertools.pairwise(modes))
    assert set(modes) == {"off", "passthrough", "strict"}
    # Three modes in three blocks: the mode changes within each block, and not between two of them.
    assert moves == 6


def test_plan_and_run_refuse_the_same_specs(cli: Cli) -> None:
    planned, run = (cli(command, "H-F9", "--testbed", "vm-pair") for command in ("plan", "run"))
    assert (planned.returncode, run.returncode) == (2, 2)
    assert planned.stdout == ""
    assert planned.stderr == run.stderr
    assert "is not meant for a testbed of kind 'vm-pair'" in planned.stderr


def test_a_plan_of_a_folder_says_what_a_run_would_skip(cli: Cli, checkout: Path) -> None:
    done = cli.ends(0, "plan", checkout / "experiments/sanity", "--testbed", "vm-pair")
    assert "sanity-pair on vm-pair" in done.stdout
    assert "sanity-loopback" not in done.stdout
    assert re.search(r"^skipped: .*loopback.yaml: testbeds: is not meant for", done.stderr, re.MULTILINE)


def test_a_plan_says_that_no_machine_runs(cli: Cli) -> None:
    done = cli.ends(0, "plan", "S-F8", "--quick", "--testbed", "vm-pair")
    assert "not ready for a run: the machine dut does not run (pollscope testbed up vm-pair)" in done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", ["release: buster", "cpus: 1", "hugepages: many", "colour: red"])
def test_bad_files(cli: Cli, text: str) -> None:
    path = cli.folder / "bad.yaml"
    path.write_text(f"kind: vm-pair\n{text}\n")
    assert text.partition(":")[0] in cli.ends(2, "testbed", "status", path).stderr


def test_image_key_follows_from_its_inputs(tmp_path: Path) -> None:
    one, same, other = Recipe("trixie", tmp_path), Recipe("trixie", tmp_path), Recipe("bookworm", tmp_path)
    assert one.disk == same.disk
    assert one.disk != other.disk
    assert one.system.parent == tmp_path


def test_an_image_keeps_the_key_of_the_sources_that_it_was_begun_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = ["as they were"]

    def build_release(*command: object, **_: object) -> str:
        if "--suite" in command:
            sources[0] = "edited while it is built"
        return ""

    monkeypatch.setattr(vm_image, "_sources", lambda: list(sources))
    monkeypatch.setattr(vm_image, "_run", build_release)
    monkeypatch.setattr(vm_image, "_require_tools", lambda: None)
    monkeypatch.setattr(vm_image, "tsc_khz", lambda: 2_000_000)
    for step in ("_put_release", "_configure"):
        monkeypatch.setattr(vm_image, step, lambda *_: None)
    monkeypatch.setattr(vm_image, "_make_disk", lambda _, work: (work / "disk.img").touch())
    recipe = Recipe("trixie", tmp_path)
    recipe.system.touch()
    begun = recipe.disk
    assert vm_image.provide_image(recipe, lambda _: None) == begun
    assert begun.exists()
    assert recipe.disk != begun


def test_a_checkout_without_a_build_begins_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm_image, "_require_tools", lambda: None)
    monkeypatch.setattr(vm_image, "node_program", lambda: tmp_path / "pollscope-node")
    said: list[str] = []
    with pytest.raises(HostError):
        vm_image.provide_image(Recipe("trixie", tmp_path / "cache"), said.append)
    assert said == []
    assert not (tmp_path / "cache").exists()


def test_services_that_a_boot_need_not_wait_for_are_disabled(tmp_path: Path) -> None:
    generators = tmp_path / "usr/lib/systemd/system-generators"
    units, scripts = tmp_path / "etc/systemd/system", tmp_path / "etc/grub.d"
    for folder in (generators, units, scripts):
        folder.mkdir(parents=True)
    (generators / "systemd-getty-generator").touch()
    (generators / "systemd-tpm2-generator").touch()
    for name in ("10_linux", "30_os-prober"):
        (scripts / name).touch(0o755)
    vm_image._shorten_boot(tmp_path)
    assert [path.name for path in (tmp_path / "etc/systemd/system-generators").iterdir()] == ["systemd-tpm2-generator"]
    assert (units / "man-db.timer").readlink() == Path("/dev/null")
    assert os.access(scripts / "10_linux", os.X_OK)
    assert (scripts / "30_os-prober").stat().st_mode & 0o111 == 0


def test_qemu_takes_each_part_from_the_machine(tmp_path: Path) -> None:
    words = made(tmp_path).command(SHAPE)
    text = " ".join(words)
    assert words[0] == "qemu-system-x86_64"
    assert "hostfwd=tcp:127.0.0.1:2201-:22" in text
    assert "restrict=on" in text
    assert "intel-iommu,intremap=on,caching-mode=on" in words
    assert f"local.path={tmp_path}/dut.link" in text
    assert f"remote.path={tmp_path}/generator.link" in text
    assert "tcg,thread=multi" in words
    assert Machine("generator", "dut", tmp_path)._file("link") == tmp_path / "generator.link"
    words = made(tmp_path).command(Shape(1, 1024, "kvm", nice=5))
    assert words[:3] == ["nice", "-n", "5"]
    assert words[words.index("-cpu") + 1] == "host"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process that stands for QEMU."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def own(folder: Path, name: str, pid: int, ticks: int | None = None) -> None:
    """Write that a process is the machine's QEMU."""
    owner = {"pid": pid, "start_ticks": start_ticks(pid) if ticks is None else ticks}
    (folder / f"{name}.process").write_text(json.dumps(owner))


def test_a_process_is_ours_only_with_its_start_time(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    machine = made(tmp_path)
    assert machine.pid() is None
    own(tmp_path, "dut", sleeper.pid, ticks=1)
    assert machine.pid() is None
    machine.stop()
    assert sleeper.poll() is None
    assert not (tmp_path / "dut.process").exists()
    for torn in ("", "{", "[]", '{"pid": "x"}'):
        (tmp_path / "dut.process").write_text(torn)
        assert machine.pid() is None


def test_stop_ends_what_start_started(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    machine = made(tmp_path)
    own(tmp_path, "dut", sleeper.pid)
    assert machine.pid() == sleeper.pid
    machine.stop()
    assert sleeper.wait(10) is not None


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sleeper: subprocess.Popen[bytes]) -> VmPairTestbed:
    """Return machines that run according to their files; a sleeping process stands for QEMU."""
    monkeypatch.setenv(vm_pair.FOLDER_VARIABLE, str(tmp_path))
    testbed = make_testbed("vm-pair")
    assert isinstance(testbed, VmPairTestbed)
    testbed.folder.mkdir()
    for machine, port in zip(testbed.machines, (2201, 2202), strict=True):
        (testbed.folder / f"{machine.name}.port").write_text(f"{port}\n")
        own(testbed.folder, machine.name, sleeper.pid)
    testbed.inventory()
    return testbed


def point_of(**levels: Any) -> Point:
    """Return a point of the sanity spec with other parameters, and the factors whose names have a dot."""
    spec = load_file(Path(__file__).resolve().parent.parent / "experiments/sanity/pair.yaml").spec
    point = make_plan(spec, lambda _: None).trials[0].point
    factors = {name: level for name, level in levels.items() if "." in name}
    others = {name: level for name, level in levels.items() if "." not in name}
    return replace(point, factors=factors, params=point.params.model_copy(update=others))


def test_the_machines_are_a_pair_with_agents_and_an_inventory(running: VmPairTestbed) -> None:
    pair = running._pair
    assert [host.config.pollscope for host in pair.hosts] == ["/opt/pollscope/current/bin/pollscope"] * 2
    assert {host.config.program for host in pair.hosts} == {"/opt/pollscope/current/bin/pollscope-node"}
    assert all(host.config.knob_place() == {"root": None, "emulated": True} for host in pair.hosts)
    assert set(boot_modes(pair.config, pair.file, pair.name)) == {"dut"}
    assert running.describe()["emulated"] is True
    assert running.emulated
    assert pair.emulated


def test_machines_that_are_made_again_are_the_same_for_a_resumed_run(
    running: VmPairTestbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_again = {"host": {"machine_id": "of a new disk", "kernel": "6.1"}, "build": {}}
    monkeypatch.setattr(pair_testbed, "_machine_of", lambda _host: made_again)
    found = running.machine()
    for host in (found["host"], found["generator"]["host"]):
        assert host == {"kernel": "6.1", "hostname": platform.node(), "machine_id": machine_id()}


def test_leftovers_of_an_ended_run_are_restored_unasked(running: VmPairTestbed) -> None:
    knobs = running.own_knobs("test", restore_first=False)
    assert isinstance(knobs, PairKnobs)
    assert knobs._restore_first


def test_the_hosts_are_asked_while_they_run(running: VmPairTestbed, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def ask(host: RemoteHost, request: str, **_fields: Any) -> dict[str, Any]:
        asked.append(f"{host.name} {request}")
        return {"refusal": f"{request} says no"}

    monkeypatch.setattr(RemoteHost, "ask", ask)
    assert running.refusal(point_of()) is None
    assert running.refusal(point_of(**{"knob.iommu": "off"})) is None  # the play sets it
    assert not asked
    assert "knobs_refusal says no" in str(running.refusal(point_of(**{"knob.ddio": "on"})))
    assert running.refusal(point_of(corunner="matmul")) == "corunners says no"
    assert running.refusal(point_of(placement="smt-pairs")) == "placement says no"
    assert asked == ["dut knobs_refusal", "dut corunners", "dut placement"]


@pytest.mark.parametrize(
    ("levels", "reason"),
    [
        ({"knob.iommu": "lazy"}, "under a virtual IOMMU the kernel is always strict"),
        ({"feed": "infinite"}, "only the virtual NIC fills its rings itself"),
        ({"queues": 2}, "needs 2 RX queues"),
        ({"notification": "qwait"}, "notification=qwait is a feature of the virtual NIC"),
    ],
)
def test_points_that_no_machine_can_host(running: VmPairTestbed, levels: dict[str, Any], reason: str) -> None:
    assert reason in str(running.refusal(point_of(**levels)))


@pytest.mark.parametrize(
    ("levels", "what"),
    [
        ({"knob.governor": "performance"}, "knob governor"),
        ({"corunner": "matmul"}, "programs beside the DUT"),
        ({"placement": "smt-pairs"}, "placement smt-pairs"),
        ({"notification": "monitor-multi"}, "halting of its processor"),
    ],
)
def test_machines_that_do_not_run_are_not_asked(running: VmPairTestbed, levels: dict[str, Any], what: str) -> None:
    for machine in running.machines:
        machine._file("process").unlink()
    reason = running.refusal(point_of(**levels))
    assert reason == f"{what}: known only while the machines run (pollscope testbed up vm-pair)"
    assert running.refusal(point_of(feed="none", **{"knob.iommu": "off"})) is None


def test_the_inventory_of_the_machines_is_one_that_the_plays_take(running: VmPairTestbed) -> None:
    inventory = running.inventory()
    assert inventory.hosts["vm-dut"]["ansible_port"] == 2201
    assert inventory.hosts["vm-generator"]["ansible_port"] == 2202
    assert inventory.pairs[0].dut == "vm-dut"


def test_folders_of_ended_builds_are_removed_and_those_of_others_stay(tmp_path: Path) -> None:
    mine = tmp_path / f"making-{process_mark(os.getpid())}-abc"
    ended = [tmp_path / name for name in (f"making-{os.getpid()}-1-abc", "making-k3jx0")]
    for folder in (mine, *ended):
        (folder / "root").mkdir(parents=True)
    said: list[str] = []
    clear_leftovers(tmp_path, said.append)
    assert list(tmp_path.iterdir()) == [mine]
    assert len(said) == 2


def test_the_last_line_of_a_console_without_its_colours(tmp_path: Path) -> None:
    machine = made(tmp_path)
    assert machine.last_words() == ""
    machine.console.write_bytes(b"one\n[\x1b[0;32m  OK  \x1b[0m] Reached \xe2\x80\xa6 target.\r\n\r\n")
    assert machine.last_words() == "[  OK  ] Reached  target."


def test_the_tsc_is_as_fast_as_the_kernel_says() -> None:
    said = re.search(r"^cpu MHz\s*: ([\d.]+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    found = [tsc_khz() for _ in range(3)]
    assert max(found) - min(found) < max(found) / 1000
    assert said is None or 0.1 < found[0] / (float(said[1]) * 1000) < 10


def test_the_generator_gets_the_routes_of_the_dut(running: VmPairTestbed) -> None:
    params = point_of().params
    dut, generator = split_request(configure_request(params, wiring(running._pair.config, params, [1])))
    assert dut["dut"]["routes"] == generator["gen"]["routes"] == 1024


class _Clock:
    """SYNTHETIC: stands for module time; time passes in sleep()."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s


LOST = HostError("the node did not start: the node ended with status 255")
OLD = HostError("the node takes no heartbeat timeout: unknown command 'heartbeat_timeout'")


@pytest.mark.parametrize(
    ("emulated", "again", "login_s", "errors", "starts", "said"),
    [
        pytest.param(True, False, 0, [LOST], 2, "", id="a login for which an emulated machine was too slow"),
        pytest.param(False, False, 0, [LOST], 1, "the reason in the log", id="a host that is away stays away"),
        # A host that drops packets takes the whole limit of a login for each try: once 37 of them were made.
        pytest.param(True, True, 0, [LOST] * 99, 38, "the reason in the log", id="a node before had 100 s to notice"),
        pytest.param(True, True, 75, [LOST] * 99, 3, "the reason in the log", id="waited for by time, not by tries"),
        # It used to be started three times, and the last line of EAL then stood for the reason.
        pytest.param(True, False, 0, [OLD], 1, "takes no heartbeat timeout.*provision it again", id="an old node"),
    ],
)
def test_a_node_is_started_again_only_where_that_may_help(
    running: VmPairTestbed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    emulated: bool,
    again: bool,
    login_s: float,
    errors: list[HostError],
    starts: int,
    said: str,
) -> None:
    clock, log, made = _Clock(), tmp_path / "log", list[float]()

    class Node:
        def __init__(self, _command: list[str], log: Path, heartbeat_timeout_s: float, patience: int) -> None:
            assert heartbeat_timeout_s == 100 and patience > 0
            made.append(clock.now_s)
            log.write_text("EAL: Using IOMMU type 1 (Type 1)\nthe reason in the log\n")

        def wait_hello(self, _limit_s: float) -> None:
            clock.sleep(login_s)
            if len(made) <= len(errors):
                raise errors[len(made) - 1]

    monkeypatch.setattr(pair_testbed, "NodeClient", Node)
    monkeypatch.setattr(pair_testbed, "time", clock)
    pair, host = running._pair, running._pair.config.dut.model_copy(update={"emulated": emulated})
    pair._opened = frozenset({str(host.ssh)} if again else ())
    with pytest.raises(HostError, match=said) if said else nullcontext() as refused:
        pair._start("dut", host, 1, AtStart(), log)
    assert len(made) == starts
    assert refused is None or "EAL" not in str(refused.value)
