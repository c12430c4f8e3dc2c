# SPDX-License-Identifier: BSD-3-Clause
"""Test the testbed `vm-pair` without a machine: its file, image key, QEMU command and process file."""

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from run_helpers import Cli

from pollscope.base.errors import HostError
from pollscope.host.lock import HostLock, start_ticks
from pollscope.node.client import NodeFailed
from pollscope.node.requests import configure_request
from pollscope.plan.plan import make_plan
from pollscope.spec.load import load_file
from pollscope.spec.points import Point
from pollscope.testbeds import make_testbed
from pollscope.testbeds.pair import testbed as pair_testbed
from pollscope.testbeds.pair.boot_play import boot_modes
from pollscope.testbeds.pair.config import AtStart
from pollscope.testbeds.pair.inventory import load_inventory
from pollscope.testbeds.pair.knobs import PairKnobs
from pollscope.testbeds.pair.remote_host import RemoteHost
from pollscope.testbeds.pair.session import PairSession, split_request, wiring
from pollscope.testbeds.session import TrialRequest
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
    assert cli("testbed", "status", "vm-pair").returncode == 3
    done = cli("run", checkout / "experiments/sanity/pair.yaml", "--testbed", "vm-pair")
    assert done.returncode == 3
    assert "pollscope testbed up vm-pair" in done.stderr
    assert cli("testbed", "down", "vm-pair").returncode == 0


def test_machines_on_which_a_run_measures_are_not_taken_down(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "vm/vm-pair").mkdir(parents=True)
    with HostLock("run s-f5", tmp_path / "state/host-vm-pair.lock"):
        refused = cli("testbed", "down", "vm-pair")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (3, 1)
    assert "in use by pid" in refused.stderr and "(run s-f5, since" in refused.stderr
    assert (tmp_path / "vm/vm-pair").is_dir()
    assert cli("testbed", "down", "vm-pair").returncode == 0
    assert not (tmp_path / "vm/vm-pair").exists()


def test_plan_needs_no_machine(cli: Cli, checkout: Path) -> None:
    done = cli("plan", checkout / "experiments/intrahost/i-iommu.yaml", "--testbed", "vm-pair", "--json")
    assert done.returncode == 0, done.stderr
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
    done = cli("plan", checkout / "experiments/sanity", "--testbed", "vm-pair")
    assert done.returncode == 0, done.stderr
    assert "sanity-pair on vm-pair" in done.stdout
    assert "sanity-loopback" not in done.stdout
    assert re.search(r"^skipped: .*loopback.yaml: testbeds: is not meant for", done.stderr, re.MULTILINE)


def test_a_plan_says_that_no_machine_runs(cli: Cli) -> None:
    done = cli("plan", "S-F8", "--quick", "--testbed", "vm-pair")
    assert done.returncode == 0, done.stderr
    assert "not ready for a run: the machine dut does not run (pollscope testbed up vm-pair)" in done.stderr


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("factors.knob.governor=[performance]", "knob governor: known only while the machines run"),
        ("parameters.queues=2", "needs 2 RX queues"),
        ("parameters.notification=qwait", "notification=qwait is a feature of the virtual NIC"),
        ("parameters.notification=interrupt", "notification=interrupt is a feature of the virtual NIC"),
        ("parameters.notification=monitor-multi", "halting of its processor: known only while the machines run"),
    ],
)
def test_points_that_machines_cannot_host(cli: Cli, checkout: Path, setting: str, reason: str) -> None:
    done = cli("plan", checkout / "experiments/sanity/pair.yaml", "--testbed", "vm-pair", "--set", setting)
    assert done.returncode == 3
    assert reason in done.stdout + done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", ["release: buster", "cpus: 1", "hugepages: many", "colour: red"])
def test_bad_files(cli: Cli, text: str) -> None:
    path = cli.folder / "bad.yaml"
    path.write_text(f"kind: vm-pair\n{text}\n")
    done = cli("testbed", "status", path)
    assert done.returncode == 2
    assert text.partition(":")[0] in done.stderr


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


def test_niceness_and_kvm(tmp_path: Path) -> None:
    words = made(tmp_path).command(Shape(1, 1024, "kvm", nice=5))
    assert words[:3] == ["nice", "-n", "5"]
    assert words[words.index("-cpu") + 1] == "host"


def test_a_process_is_ours_only_with_its_start_time(tmp_path: Path) -> None:
    machine = made(tmp_path)
    assert machine.pid() is None
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        (tmp_path / "dut.process").write_text(json.dumps({"pid": other.pid, "start_ticks": 1}))
        assert machine.pid() is None
        machine.stop()
        assert other.poll() is None
        assert not (tmp_path / "dut.process").exists()
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}'])
def test_a_torn_process_file_names_no_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "dut.process").write_text(text)
    assert made(tmp_path).pid() is None


def test_stop_ends_what_start_started(tmp_path: Path) -> None:
    machine = made(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    owner = {"pid": process.pid, "start_ticks": start_ticks(process.pid)}
    (tmp_path / "dut.process").write_text(json.dumps(owner))
    assert machine.pid() == process.pid
    machine.stop()
    assert process.wait(10) is not None


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VmPairTestbed]:
    """Return machines that run according to their files; a sleeping process stands for QEMU."""
    monkeypatch.setenv(vm_pair.FOLDER_VARIABLE, str(tmp_path))
    testbed = make_testbed("vm-pair")
    assert isinstance(testbed, VmPairTestbed)
    testbed.folder.mkdir()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    owner = {"pid": process.pid, "start_ticks": start_ticks(process.pid)}
    for machine, port in zip(testbed.machines, (2201, 2202), strict=True):
        (testbed.folder / f"{machine.name}.port").write_text(f"{port}\n")
        (testbed.folder / f"{machine.name}.process").write_text(json.dumps(owner))
    testbed.inventory()
    yield testbed
    process.kill()
    process.wait()


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
    ],
)
def test_machines_that_do_not_run_are_not_asked(running: VmPairTestbed, levels: dict[str, Any], what: str) -> None:
    for machine in running.machines:
        machine._file("process").unlink()
    reason = running.refusal(point_of(**levels))
    assert reason == f"{what}: known only while the machines run (pollscope testbed up vm-pair)"
    assert running.refusal(point_of(feed="none", **{"knob.iommu": "off"})) is None


def test_the_inventory_of_the_machines_is_one_that_the_plays_take(tmp_path: Path) -> None:
    machines = made(tmp_path), Machine("generator", "dut", tmp_path)
    (tmp_path / "generator.port").write_text("2202\n")
    path = tmp_path / "inventory.yml"
    path.write_text(json.dumps(vm_pair.inventory_of(machines, 384)))
    inventory = load_inventory(path)
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


def test_the_file_that_is_shipped_loads() -> None:
    assert make_testbed("vm-pair").kind == "vm-pair"


def test_the_generator_gets_the_routes_of_the_dut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vm_pair.FOLDER_VARIABLE, str(tmp_path))
    testbed = make_testbed("vm-pair")
    assert isinstance(testbed, vm_pair.VmPairTestbed)
    spec = load_file(Path(__file__).resolve().parent.parent / "experiments/sanity/pair.yaml").spec
    params = make_plan(spec, testbed.refusal).trials[0].point.params
    dut, generator = split_request(configure_request(params, wiring(testbed._pair.config, params, [1])))
    assert dut["dut"]["routes"] == generator["gen"]["routes"] == 1024


def session_of(dut_emulated: bool = False, gen_emulated: bool = False) -> PairSession:
    """Return a session of hosts that an emulator makes, or not."""
    node: Any = SimpleNamespace(hello={"hugepages": True})
    ends = [SimpleNamespace(ssh="h", emulated=emulated) for emulated in (dut_emulated, gen_emulated)]
    config: Any = SimpleNamespace(dut=ends[0], generator=ends[1])
    corunners: Any = None
    return PairSession(config, node, node, (), corunners, {}, AtStart())


@pytest.mark.parametrize("emulated", [(True, False), (False, True)])
def test_emulation_is_reported_first(emulated: tuple[bool, bool]) -> None:
    assert session_of(*emulated).metadata[0].startswith("the machines are emulated: times, rates and caches")
    assert not any("emulated" in sentence for sentence in session_of().metadata)


class _LostOnce:
    """Stands for a node's client: the connection of the first one is lost before it says hello."""

    made = 0

    def __init__(self, _command: list[str], _log: Path, heartbeat_timeout_s: float, patience: int) -> None:
        assert heartbeat_timeout_s > 0 and patience > 0
        type(self).made += 1
        self.hello = {"number": self.made}

    def wait_hello(self, _limit_s: float) -> dict[str, Any]:
        if self.made == 1:
            raise HostError("the node did not start: the node ended with status 255")
        return self.hello


@pytest.mark.parametrize(("emulated", "starts"), [(True, 2), (False, 1)])
def test_a_login_that_an_emulated_machine_was_too_slow_for_is_tried_again(
    running: VmPairTestbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, emulated: bool, starts: int
) -> None:
    monkeypatch.setattr(_LostOnce, "made", 0)
    monkeypatch.setattr(pair_testbed, "NodeClient", _LostOnce)
    monkeypatch.setattr(pair_testbed, "OPEN_PAUSE_S", 0.0)
    host = running._pair.config.dut.model_copy(update={"emulated": emulated})
    log = tmp_path / "log"
    log.touch()
    if emulated:
        assert running._pair._start("dut", host, 1, AtStart(), log).hello == {"number": 2}
    else:
        with pytest.raises(HostError, match="status 255"):
            running._pair._start("dut", host, 1, AtStart(), log)
    assert _LostOnce.made == starts


class _Clock:
    """SYNTHETIC: stands for module time; time passes in sleep()."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s


@pytest.mark.parametrize(("login_s", "tries"), [(0.0, 38), (75.0, 3)])
def test_a_heartbeat_timeout_is_waited_for_by_time_not_by_tries(
    running: VmPairTestbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login_s: float, tries: int
) -> None:
    """A host that drops packets takes the whole limit of a login for each try: once 37 of them were made."""
    clock, made = _Clock(), list[float]()

    class Silent:
        def __init__(self, *_: object, **__: object) -> None:
            made.append(clock.now_s)

        def wait_hello(self, _limit_s: float) -> dict[str, Any]:
            clock.sleep(login_s)
            raise HostError("the node did not start: the node ended with status 255")

    monkeypatch.setattr(pair_testbed, "NodeClient", Silent)
    monkeypatch.setattr(pair_testbed, "time", clock)
    log = tmp_path / "log"
    log.touch()
    pair = running._pair
    assert pair.config.dut.ssh.heartbeat_timeout_s == 100
    pair._opened = frozenset({str(pair.config.dut.ssh)})  # this run had a node there before
    with pytest.raises(HostError, match="status 255"):
        pair._start("dut", pair.config.dut, 1, AtStart(), log)
    assert len(made) == tries


class _Slow:
    """SYNTHETIC: a node behind QEMU, which hands it no more than 4 of the frames of `wire` in each trial."""

    def __init__(self, wire: list[int], sends: int = 0) -> None:
        self._wire, self._sends, self.trials = wire, sends, list[str]()
        self._counted = {"ipackets": 0, "opackets": 0}

    def request(self, command: str, _limit_s: float, **fields: Any) -> dict[str, Any]:
        if command == "start":
            self.trials.append(fields["trial"])
            self._wire[0] += self._sends
            taken = 0 if self._sends else min(4, self._wire[0])
            self._counted = {"ipackets": taken, "opackets": self._sends}
            self._wire[0] -= taken
        return {"ports": {"p": {"stats": self._counted}}, "gen": {}, "window": {}}

    def wait_trial(self, _trial: str, _limit_s: float) -> dict[str, Any]:
        return {"event": "done"}


class _Agent:
    """SYNTHETIC: the agent of a host."""

    def __init__(self, holds_knobs: bool) -> None:
        self.connection, self.holds_knobs = 1, holds_knobs


class _LostAgent(_Slow):
    """SYNTHETIC: while a trial runs on this node, the host's agent is lost and comes back."""

    def __init__(self, host: _Agent) -> None:
        super().__init__([0])
        self._host = host

    def wait_trial(self, trial: str, limit_s: float) -> dict[str, Any]:
        self._host.connection += 1
        return super().wait_trial(trial, limit_s)


@pytest.mark.parametrize("with_generator", [True, False])
@pytest.mark.parametrize("holds_knobs", [True, False])
def test_a_trial_whose_knobs_were_restored_meanwhile_has_failed(with_generator: bool, holds_knobs: bool) -> None:
    host: Any = _Agent(holds_knobs)
    # Whoever is waited for: the generator, where there is one.
    dut: Any = _Slow([0]) if with_generator else _LostAgent(host)
    generator: Any = _LostAgent(host)
    end = SimpleNamespace(ssh="h", emulated=False)
    config: Any = SimpleNamespace(dut=end, generator=end)
    corunners: Any = None
    session = PairSession(config, dut, generator, [host], corunners, {}, AtStart())
    session._configured = {"gen": {"shape": "FB"}} if with_generator else {}
    request = TrialRequest("t", warmup_ns=10**9, window_ns=1, drain_max_ns=0, rate={"pps": 10})
    with pytest.raises(NodeFailed, match="its knobs were restored") if holds_knobs else nullcontext():
        session.measure(request)


@pytest.mark.parametrize(("emulated", "trials"), [(True, ["t1", *["left"] * 4, "t2"]), (False, ["t1", "t2"])])
def test_packets_left_between_emulated_machines_do_not_reach_the_next_trial(emulated: bool, trials: list[str]) -> None:
    wire = [0]
    dut: Any = _Slow(wire)
    generator: Any = _Slow(wire, sends=10)
    end = SimpleNamespace(ssh="h", emulated=emulated)
    config: Any = SimpleNamespace(dut=end, generator=end)
    corunners: Any = None
    session = PairSession(config, dut, generator, (), corunners, {}, AtStart())
    session._configured = {"gen": {"shape": "FB"}}
    for name in ("t1", "t2"):
        # The DUT starts first and must not receive the 10 frames that are sent then.
        session.measure(TrialRequest(name, warmup_ns=10**9, window_ns=1, drain_max_ns=0, rate={"pps": 10}))
    assert dut.trials == trials
    assert wire == [10 if emulated else 16]


@pytest.mark.parametrize(
    ("levels", "emulated", "warmup_s"),
    [
        ({"dut_core": "stress-ng", "corunner": "matrix-multiplication"}, True, 15),
        ({"corunner": "stress-ng"}, True, 15),
        ({"dut_core": "stress-ng", "corunner": "matrix-multiplication"}, False, 0),
        ({"corunner": "matrix-multiplication"}, True, 0),
    ],
)
def test_stress_ng_has_the_time_to_begin_on_emulated_machines(
    levels: dict[str, Any], emulated: bool, warmup_s: int
) -> None:
    """On a busy host stress-ng had written no numbers after 2 s of an emulated machine."""
    params = point_of(**levels).params
    assert session_of(emulated, emulated).least_warmup_ns(params) == warmup_s * 1_000_000_000


class _OldNode(_LostOnce):
    """Stands for a node of an older pollscope."""

    def wait_hello(self, _limit_s: float) -> dict[str, Any]:
        raise HostError("the node takes no heartbeat timeout: unknown command 'heartbeat_timeout'")


def test_a_node_of_another_version_is_reported_at_once(
    running: VmPairTestbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to be started three times, and the last line of EAL then stood for the reason."""
    monkeypatch.setattr(_LostOnce, "made", 0)
    monkeypatch.setattr(pair_testbed, "NodeClient", _OldNode)
    (tmp_path / "log").write_text("EAL: Using IOMMU type 1 (Type 1)\n")
    with pytest.raises(
        HostError, match=r"dut .*: the node takes no heartbeat timeout.*.*provision it again"
    ) as refused:
        running._pair._start("dut", running._pair.config.dut, 1, AtStart(), tmp_path / "log")
    assert "EAL" not in str(refused.value)
    assert _OldNode.made == 1


def test_a_dut_that_only_sends_is_not_calibrated() -> None:
    """Its node refuses: no trial of workload tx (S-F12, I-F4) was measured on a pair."""
    params = point_of().params
    costs = session_of().calibrate(params.model_copy(update={"workload": "tx"}))
    assert costs == {"absent": "the workload tx polls no RX queue"}
    with pytest.raises(AttributeError):  # the node is asked
        session_of().calibrate(params)
