# SPDX-License-Identifier: BSD-3-Clause
"""The testbed `vm-pair` without a machine: its file, image key, QEMU command, process file and knobs."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from run_helpers import Cli

from pollscope.analysis.host_facts import HostFacts
from pollscope.base.errors import HostError, UsageError
from pollscope.host.lock import HostLock, start_ticks
from pollscope.knobs import RestoreResult
from pollscope.node.requests import configure_request
from pollscope.plan.plan import make_plan
from pollscope.run.execution import knobs_after
from pollscope.spec.load import load_file
from pollscope.testbeds import make_testbed
from pollscope.testbeds.pair.inventory import load_inventory
from pollscope.testbeds.pair.session import split_request, wiring
from pollscope.testbeds.pair.ssh import Remote
from pollscope.testbeds.vm import image as vm_image
from pollscope.testbeds.vm import knobs as vm_knobs
from pollscope.testbeds.vm import testbed as vm_pair
from pollscope.testbeds.vm.image import Recipe, clear_leftovers, process_mark, tsc_khz
from pollscope.testbeds.vm.machine import Machine, Shape

SHAPE = Shape(cpus=2, memory_mib=2048, accelerator="tcg")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv(vm_pair.FOLDER_VARIABLE, str(tmp_path / "vm"))
    return Cli(tmp_path)


def made(folder: Path) -> Machine:
    """A machine with the files that a command line is made from."""
    machine = Machine("dut", "generator", folder)
    (folder / "dut.port").write_text("2201\n")
    return machine


def test_without_machines_nothing_runs(cli: Cli, checkout: Path) -> None:
    assert cli("testbed", "status", "vm-pair").returncode == 3
    done = cli("run", checkout / "experiments/sanity/pair.yaml", "--testbed", "vm-pair")
    assert done.returncode == 3
    assert "pollscope testbed up vm-pair" in done.stderr
    assert cli("testbed", "down", "vm-pair").returncode == 0


def test_plan_needs_no_machine(cli: Cli, checkout: Path) -> None:
    done = cli("plan", checkout / "experiments/intrahost/i-iommu.yaml", "--testbed", "vm-pair", "--json")
    assert done.returncode == 0, done.stderr
    modes = [trial["factors"]["knob.iommu"] for trial in json.loads(done.stdout)["trials"]]
    moves = sum(before != after for before, after in itertools.pairwise(modes))
    assert set(modes) == {"off", "passthrough", "strict"}
    # Three modes in three blocks: the mode changes within each block, and not between two of them.
    assert moves == 6


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("factors.knob.governor=[performance]", "no knob governor"),
        ("parameters.queues=2", "needs 2 RX queues"),
    ],
)
def test_points_that_machines_cannot_host(cli: Cli, checkout: Path, setting: str, reason: str) -> None:
    done = cli("plan", checkout / "experiments/sanity/pair.yaml", "--testbed", "vm-pair", "--set", setting)
    assert done.returncode == 3
    assert reason in done.stdout + done.stderr


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


def test_what_a_boot_need_not_wait_for_is_left_out(tmp_path: Path) -> None:
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


def test_facts_of_a_machine_without_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vm_pair.FOLDER_VARIABLE, str(tmp_path))
    testbed = make_testbed("vm-pair")
    assert isinstance(testbed, vm_pair.VmPairTestbed)
    testbed.folder.mkdir()
    for name in ("dut", "generator"):
        (testbed.folder / f"{name}.port").write_text("2201\n")
    monkeypatch.setattr(vm_pair, "run_there", lambda *_: ("6.12.1-amd64\n", ""))
    facts = HostFacts(testbed.machine() | {"testbed": testbed.describe()})
    assert facts.processor == "a processor that QEMU emulates, 2 CPUs"
    assert facts.machine == "virtual machine (QEMU without KVM)"
    assert facts.software == "Linux 6.12.1-amd64"
    assert facts.missing("governor") == "the machine has no pollscope of its own"
    monkeypatch.setattr(vm_pair, "run_there", lambda *_: ("", "no answer in 60 s"))
    assert testbed.machine()["host"]["kernel"] == {"absent": "no answer in 60 s"}


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


class Dut:
    """Answers the scripts of the knobs, and the play `iommu`, as a machine does."""

    def __init__(self) -> None:
        self.boot: str | None = None
        self.register, self.journal = 0x00, None
        self.reboots = 0
        self.lost = False

    def run(self, remote: Remote, command: list[str], limit_s: float, text: str = "") -> tuple[str, str]:
        if self.lost:
            return "", "Connection refused"
        if text.startswith("[ ! -e /etc/default"):
            return ("" if self.boot is None else "there\n"), ""
        if text == vm_knobs.script_for(vm_knobs.RESTORE_DDIO):
            if self.journal is None:
                return "", ""
            self.register, old, self.journal = self.journal, self.journal, None
            return f"{old:02x}\n", ""
        if "180.b=" in text:
            self.journal = self.register if self.journal is None else self.journal
            self.register = 0x80 if "180.b=80:80" in text else 0x00
        elif text == vm_knobs.script_for(vm_knobs.SHOW_DDIO):
            return f"{self.register:02x}\n", ""
        return "", ""

    def play(self, mode: str) -> None:
        if self.lost:
            raise HostError("Connection refused")
        self.reboots, self.register = self.reboots + 1, 0
        self.boot = None if mode == "default" else mode


@pytest.fixture
def dut(monkeypatch: pytest.MonkeyPatch) -> Dut:
    one = Dut()
    monkeypatch.setattr(vm_knobs, "run_there", one.run)
    return one


def knobs_of(dut: Dut, folder: Path) -> vm_knobs.VmKnobs:
    return vm_knobs.VmKnobs("test", HostLock("test", folder / "lock"), Remote(host="127.0.0.1"), dut.play)


def test_modes_that_stay_cost_no_reboot(dut: Dut, tmp_path: Path) -> None:
    with knobs_of(dut, tmp_path) as knobs:
        for mode in ("off", "off", "passthrough", "passthrough"):
            knobs.apply({"iommu": mode})
        assert dut.boot == "pt"
        assert dut.reboots == 2
    assert dut.boot is None
    assert dut.reboots == 3


def test_ddio_is_set_again_after_a_reboot_and_restored(dut: Dut, tmp_path: Path) -> None:
    with knobs_of(dut, tmp_path) as knobs:
        knobs.apply({"ddio": "on", "iommu": "strict"})
        assert dut.register == 0x80
        knobs.apply({"ddio": "on", "iommu": "off"})
        assert dut.register == 0x80
        assert knobs.snapshot()["ddio"] == {"root port (emulated)": "on"}
    assert dut.register == 0
    assert dut.journal is None


def test_ddio_is_set_again_after_the_machine_went_down(dut: Dut, tmp_path: Path) -> None:
    with knobs_of(dut, tmp_path) as knobs:
        knobs.apply({"ddio": "on"})
        dut.register = 0
        knobs.apply({"ddio": "on"})
        assert dut.register == 0x80
    assert dut.register == 0


def test_a_run_is_closed_when_its_machine_is_gone(dut: Dut, tmp_path: Path) -> None:
    knobs = knobs_of(dut, tmp_path)
    assert knobs_after(knobs)["ddio"] == {"root port (emulated)": "off"}
    dut.lost = True
    (reason,) = knobs_after(knobs)["all"].values()
    assert reason.startswith("absent: ")
    assert "Connection refused" in reason


def test_what_a_lost_connection_left_is_restored_by_the_next(dut: Dut, tmp_path: Path) -> None:
    knobs = knobs_of(dut, tmp_path).__enter__()
    knobs.apply({"ddio": "on", "iommu": "off"})
    dut.lost = True
    with pytest.raises(HostError, match="Connection refused"):
        knobs.__exit__(None, None, None)
    assert dut.boot is not None
    dut.lost = False
    with knobs_of(dut, tmp_path) as after:
        assert [outcome.knob for outcome in after.restored_first] == ["ddio", "iommu"]
        assert all(isinstance(outcome, RestoreResult) and outcome.restored for outcome in after.restored_first)
    assert dut.boot is None
    assert dut.journal is None


def test_a_mode_that_did_not_come_is_asked_for_again(dut: Dut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with knobs_of(dut, tmp_path) as knobs:
        dut.lost = True
        with pytest.raises(HostError, match="Connection refused"):
            knobs.apply({"iommu": "off"})
        dut.lost = False
        knobs.apply({"iommu": "off"})
        assert dut.boot == "off"


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


@pytest.mark.parametrize("settings", [{"governor": "x"}, {"iommu": "$(reboot)"}, {"ddio": "maybe"}])
def test_only_known_words_reach_a_script(dut: Dut, tmp_path: Path, settings: dict[str, str]) -> None:
    with knobs_of(dut, tmp_path) as knobs, pytest.raises(UsageError):
        knobs.apply(settings)


def test_two_runs_on_one_pair_keep_each_other_out(dut: Dut, tmp_path: Path) -> None:
    with knobs_of(dut, tmp_path), pytest.raises(HostError, match=str(os.getpid())), knobs_of(dut, tmp_path):
        pass


def test_the_file_that_is_shipped_loads() -> None:
    assert make_testbed("vm-pair").kind == "vm-pair"


def test_the_generator_is_told_the_routes_of_the_dut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vm_pair.FOLDER_VARIABLE, str(tmp_path))
    testbed = make_testbed("vm-pair")
    assert isinstance(testbed, vm_pair.VmPairTestbed)
    spec = load_file(Path(__file__).resolve().parent.parent / "experiments/sanity/pair.yaml").spec
    params = make_plan(spec, testbed.refusal).trials[0].point.params
    dut, generator = split_request(configure_request(params, wiring(testbed._pair.config, params)))
    assert dut["dut"]["routes"] == generator["gen"]["routes"] == 1024
