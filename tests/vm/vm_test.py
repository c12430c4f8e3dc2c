#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Go from nothing to a measured pair of virtual machines and back, for `make vm-test`.

Brings the testbed vm-pair up, provisions it by the plays, runs the sanity spec of a pair across it, compares IOMMU
modes and DDIO, loses the SSH of the DUT in a sweep of a knob, pulls its plug in a trial and completes both runs,
restores the plays and takes everything down; then looks whether a process, a file or a mount is left. With --roles, all
other roles of the playbooks come and go on the DUT instead (`make vm-roles-test`). Each step is a command that a user
would give. On a busy host all of it takes hours: with --steps, machines that are up and provisioned go through these
steps alone, and stay up. usage: tests/vm/vm_test.py [--roles | --steps NAME,...] [POLLSCOPE]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(CHECKOUT))

from pollscope.collectors.sources.qemu_vtd import Monitor  # noqa: E402
from pollscope.store.run_folder import RunFolder, read_run  # noqa: E402
from pollscope.testbeds import make_testbed  # noqa: E402
from pollscope.testbeds.pair.inventory import Inventory, load_inventory  # noqa: E402
from pollscope.testbeds.pair.plays import PlayResult, run_play  # noqa: E402
from pollscope.testbeds.pair.ssh import run_there  # noqa: E402
from pollscope.testbeds.vm.testbed import VmPairTestbed, vm_folder  # noqa: E402

# Time after which a step is given up; the machines are emulated, perhaps on a busy host.
STEP_LIMIT_S, SCRIPT_LIMIT_S = 1200.0, 240.0
# The bit of DDIO of the emulated root port, and whether a session of the testbed has set it.
REGISTER = """\
port=$(basename "$(dirname "$(readlink -f /sys/bus/pci/devices/0000:01:00.0)")")
echo register $(setpci -s $port 180.b)
"""
# State that the roles and the testbed's knobs set, and their journals; names of modules without their use counts, and
# of the boot menu, which the image has by hand and update-grub writes again, what it boots.
SNAPSHOT = (
    """\
device=/sys/bus/pci/devices/0000:01:00.0
echo driver $(basename "$(readlink $device/driver)") override $(cat $device/driver_override)
echo pages $(cat /sys/kernel/mm/hugepages/hugepages-*/nr_hugepages)
echo interfaces $(ls /sys/class/net)
echo modules $(lsmod | grep -o '^vfio[a-z0-9_]*' | sort)
grep hugetlbfs /proc/mounts
cat /proc/cmdline /etc/default/grub.d/* 2>/dev/null
awk '$1 == "linux" { $1 = $1; print }' /boot/grub/grub.cfg
find /var/lib/pollscope -type f 2>/dev/null | sort
"""
    + REGISTER
)
# Beside that, every file that no program of the system writes by itself, the packages, and what the roles perf and nic
# set.
OWN = "/(proc|sys|dev|run|tmp|var/(log|tmp|cache|lib/(apt|dpkg|systemd))|root/.ansible|boot/grub/grub)"
# Packages leave the system users that they made.
OWN_FILES = "/etc/(ld.so.cache|machine-id|passwd|group|shadow|gshadow|subuid|subgid)-?"
EVERYTHING = (
    SNAPSHOT
    + f"""\
find / -xdev ! -type d -printf '%p %m %s %l\\n' | grep -vE '^({OWN}|{OWN_FILES} )|__pycache__' | sort
dpkg-query -W
cat /proc/sys/kernel/perf_event_paranoid
ethtool -g $(basename $device/net/*)
"""
)
# The roles whose restore the rest of this test does not show; ddio on consent, for the port is QEMU's. (There is no
# governor to set, no NIC of Mellanox, and no archive of pktgen-dpdk: cpu_power, telemetry and pktgen have nothing to do
# here.)
ROLES = ["common", "build_tools", "dpdk", "pollscope_apps", "cpu_isolation", "iommu"]
ROLES += ("pcm", "perf", "stress_ng", "telemetry", "cpu_power", "nic", "ddio", "pktgen")
passed: dict[str, float] = {}


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="vm_test.py")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--roles", action="store_true")
    what.add_argument("--steps", type=lambda text: text.split(","), metavar=f"{'|'.join(STEPS)},...", default=[])
    parser.add_argument("pollscope", nargs="?", default=str(CHECKOUT / ".venv/bin/pollscope"))
    found = parser.parse_args()
    if unknown := set(found.steps) - set(STEPS):
        parser.error(f"no step: {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
    return found


@contextmanager
def step(what: str) -> Iterator[None]:
    """Time one step that has to work, and print its time."""
    print(f"== {what}", flush=True)
    begin = time.monotonic()
    yield
    passed[what] = time.monotonic() - begin
    print(f"-- {what}: {passed[what]:.0f} s", flush=True)


def pollscope(*words: str | Path, codes: Container[int] = (0,)) -> str:
    """Run a command and return its output; end the test if its exit code is none of these."""
    command = [chosen.pollscope, *map(str, words)]
    print("$", *command, flush=True)
    done = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    assert done.returncode in codes, f"exit code {done.returncode}, expected {codes}"
    return done.stdout


def run(spec: str, *options: str) -> Path:
    """Run a spec on the machines; return the run folder, which is the last line."""
    said = pollscope("run", CHECKOUT / "experiments" / spec, "--testbed", "vm-pair", *options, codes=(0, 1))
    return CHECKOUT / said.strip().splitlines()[-1]


def complete(folder: Path) -> RunFolder:
    """Return the run after checking that it has every planned trial as data."""
    found = read_run(folder)
    assert found.meta["status"] == "complete", found.meta["status"]
    good = {trial["trial"] for trial in found.trials if trial["status"] != "failed"}
    assert good == set(found.meta["plan"])
    assert as_any_boot_has_them(found.meta["knobs_before"]) == as_any_boot_has_them(found.meta["knobs_after"])
    return found


def as_any_boot_has_them(knobs: Mapping[str, Mapping[str, str]]) -> dict[str, object]:
    """Return knobs without the numbers of interrupts, which change order from boot to boot."""
    return {name: sorted(found.values()) if name == "irq_affinity" else found for name, found in knobs.items()}


def sane(folder: Path) -> None:
    """Check that every trial of the sanity spec is data, and that its claims hold.

    Emulated machines are disturbed by all that runs on their host: one that gets no CPU keeps what came, and a claim
    may be left open. There most trials must have lost nothing.
    """
    run = complete(folder)
    claims = {each["claim"]: each for each in json.loads(pollscope("claims", folder, "--json"))}
    counts = claims["SANITY-PAIR.dut-receives"]["numbers"]
    assert counts and all(number["value"] > 0 for number in counts), counts
    if run.meta["testbed"]["accelerator"] == "tcg":
        lost = [sent - received for sent, received in sent_and_received(run.trials) if sent]
        assert lost.count(0) > len(lost) / 2, lost
        assert {each["verdict"] for each in claims.values()} <= {"agrees", "inconclusive"}, claims
    else:
        assert {each["verdict"] for each in claims.values()} == {"agrees"}, claims


def sent_and_received(trials: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Return the packets that each generator lcore sent and got back in a trial, until the end of its drain."""
    lcores = [lcore["total"] for trial in trials if "result" in trial for lcore in trial["result"]["gen"]["lcores"]]
    return [(total["sent"], total["rx_packets"]) for total in lcores]


def wait_until(there: Callable[[], bool], process: subprocess.Popen[str], what: str) -> None:
    """Wait for an effect of a running command."""
    deadline = time.monotonic() + STEP_LIMIT_S
    while not there():
        assert time.monotonic() < deadline, f"not seen: {what}"
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.5)


@contextmanager
def broken_run(results: str, spec: str, *options: str) -> Iterator[tuple[subprocess.Popen[str], list[Path]]]:
    """Start a run that the body breaks; yield the process and, once it has ended, the folder of the run."""
    parent, folders = CHECKOUT / "results" / results, list[Path]()
    before = set(parent.glob("*"))
    command = [chosen.pollscope, "run", f"experiments/{spec}", "--testbed", "vm-pair", *options]
    print("$", *command, "&", flush=True)
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield process, folders
        _, said = process.communicate(timeout=STEP_LIMIT_S)
    finally:
        process.kill()
        process.wait()
    print(said, end="", flush=True)
    assert process.returncode in (1, 3), process.returncode
    folders += set(parent.glob("*")) - before
    assert len(folders) == 1, folders


def first_failure(folder: Path) -> str:
    """Return why the first failed trial of a broken run failed."""
    found = read_run(folder)
    assert found.meta["status"] == "failed", found.meta["status"]
    reasons = [trial["reason"] for trial in found.trials if trial["status"] == "failed"]
    assert reasons, "no trial failed"
    return str(reasons[0])


def recorded(folders: Iterable[Path]) -> tuple[int, int]:
    """Return trials and host-state checks. A check comes before a trial and not in it: there no trial would fail."""
    trials, looks = (
        sum(len(path.read_bytes().splitlines()) for folder in folders for path in folder.glob(name))
        for name in ("trials.jsonl", "host_states.jsonl")
    )
    return trials, looks


def pull_the_plug(testbed: VmPairTestbed) -> None:
    """Kill the DUT during a trial; check that the run reports it and is completed after `up`."""
    results, (dut, generator) = CHECKOUT / "results/sanity-pair", testbed.machines
    before, generator_pid = set(results.glob("*")), generator.pid()

    def a_further_trial_begins() -> bool:
        trials, looks = recorded(set(results.glob("*")) - before)
        return trials > 0 and looks > 1

    with broken_run("sanity-pair", "sanity/pair.yaml") as (process, folders):
        wait_until(a_further_trial_begins, process, "a trial after the first one")
        pid = dut.pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    assert "DUT" in first_failure(folders[0])
    pollscope("testbed", "status", "vm-pair", codes=(3,))
    pollscope("testbed", "up", "vm-pair")
    assert generator.pid() == generator_pid, "`up` started a machine that ran"
    pollscope("run", "--resume", folders[0], codes=(0, 1))
    sane(folders[0])


def set_cable(testbed: VmPairTestbed, plugged: bool) -> None:
    """Connect or cut the network through which the DUT is managed."""
    monitor = Monitor(testbed.machines[0].monitor)
    monitor.tell(f"set_link management {'on' if plugged else 'off'}")
    monitor.close()


def lose_ssh(testbed: VmPairTestbed) -> Path:
    """Cut the DUT off during a sweep of a knob; check that every knob is restored later and the run continues."""
    before, dut = snapshot(testbed), testbed.machines[0].remote
    results = CHECKOUT / "results/i-f7-ddio"
    earlier = set(results.glob("*"))

    def bit_is_set() -> bool:
        return "register 80" in run_there(dut, ["sh", "-s"], SCRIPT_LIMIT_S, REGISTER)[0]

    def a_trial_has_the_bit() -> bool:
        there = bit_is_set()
        trials, looks = recorded(set(results.glob("*")) - earlier)
        return there and looks > trials

    assert not bit_is_set()
    # Windows that are long compared with the time to see the bit, so that the cut falls into a trial.
    options = ("--quick", "--set", "trial.window=15 s")
    with broken_run("i-f7-ddio", "intrahost/i-f7-ddio.yaml", *options) as (process, folders):
        wait_until(a_trial_has_the_bit, process, "the bit of DDIO set in a trial")
        set_cable(testbed, False)
    assert "DUT" in first_failure(folders[0])
    set_cable(testbed, True)
    pollscope("testbed", "up", "vm-pair")
    after = snapshot(testbed)
    assert after == before, f"not as before:\n{before}\n{after}"
    pollscope("run", "--resume", folders[0])
    complete(folders[0])
    assert snapshot(testbed) == before
    return folders[0]


def play(name: str, inventory: Inventory, *options: str) -> PlayResult:
    """Run a play on both machines."""
    begin = time.monotonic()
    result = run_play(name, inventory, options=options)
    took_s = time.monotonic() - begin
    print(f"$ playbooks/play {name} {' '.join(options)}: {len(result.changes)} changes, {took_s:.0f} s", flush=True)
    return result


def snapshot(testbed: VmPairTestbed) -> list[str]:
    """Return what the plays and the knobs touch, on each machine."""
    found = []
    for machine in testbed.machines:
        text, reason = run_there(machine.remote, ["sh", "-s"], SCRIPT_LIMIT_S, SNAPSHOT)
        assert not reason, f"{machine.name}: {reason}"
        found.append(text)
    return found


def bare_machines(testbed: VmPairTestbed) -> list[str]:
    """Return what there is on machines that no play has changed."""
    found = snapshot(testbed)
    assert all("driver e1000e" in each and "pages 0" in each for each in found), found
    return found


def provisioning(testbed: VmPairTestbed) -> list[str]:
    """Run revert, check mode and converge; return the state before converging."""
    inventory = testbed.inventory()
    play("restore", inventory)
    bare = bare_machines(testbed)
    assert play("provision", inventory, "--check").changes
    assert snapshot(testbed) == bare, "check mode changed something"
    assert play("provision", inventory).changes
    assert snapshot(testbed) != bare
    return bare


def again(testbed: VmPairTestbed) -> None:
    """Check that provisioned machines are left unchanged."""
    inventory = testbed.inventory()
    assert not play("provision", inventory).changes, "the second run changed something"
    assert not play("verify", inventory).changes


def restoring(testbed: VmPairTestbed) -> None:
    """Restore after the plays and all runs."""
    assert play("restore", testbed.inventory()).changes
    bare_machines(testbed)


def every_role(testbed: VmPairTestbed) -> None:
    """Converge, again, verify and restore the roles on the DUT; check that the state before them is back after them."""
    with tempfile.TemporaryDirectory(dir=CHECKOUT / ".cache") as folder:
        archive = Path(folder) / "release.tar.gz"
        build: list[str | Path] = [CHECKOUT / "playbooks/build-release", "--suite", testbed.config.release, archive]
        subprocess.run(build, check=True, env=os.environ | {"DRIVER": "none"})
        inventory = inventory_of_roles(testbed, Path(folder) / "inventory.yml", archive)
        before = everything(testbed)
        changes = play("provision", inventory, "--limit", "dut").changes
        print(*changes, sep="\n", flush=True)
        between = everything(testbed)
        for sign in (
            "isolcpus",
            "/opt/pollscope/current",
            "linux-perf",
            "/usr/sbin/pcm-iio",
            "stress-ng",
            "/usr/bin/git",
            "register 80",
        ):
            assert any(sign in line for line in between - before), f"no role brought {sign}"
        assert not play("provision", inventory, "--limit", "dut").changes, "the second run changed something"
        assert not play("verify", inventory, "--limit", "dut").changes
        assert play("restore", inventory, "--limit", "dut").changes
        after = everything(testbed)
        assert after == before, "\n".join(["not as before:", *sorted(after ^ before)])


def inventory_of_roles(testbed: VmPairTestbed, path: Path, archive: Path) -> Inventory:
    """Return the testbed's inventory with the other roles."""
    content = json.loads(testbed.inventory().path.read_text())
    del content["dut"]["vars"]
    content["all"]["vars"] |= {
        "pollscope_roles": ROLES,
        "pollscope_apps_archive": str(archive),
        "cpu_isolation_cpus": "1",
        "iommu_reboot_timeout_s": int(STEP_LIMIT_S),
        "nic_rings": {"rx": 512, "tx": 512},
        "ddio_value": "on",
        "ddio_emulated_consent": True,
    }
    path.write_text(json.dumps(content))
    return load_inventory(path)


def everything(testbed: VmPairTestbed) -> set[str]:
    """Return what there is on the DUT, one line each."""
    text, reason = run_there(testbed.machines[0].remote, ["sh", "-s"], STEP_LIMIT_S, EVERYTHING)
    assert not reason, reason
    return set(text.splitlines())


def compare_modes(testbed: VmPairTestbed) -> None:
    """Compare three IOMMU modes, each by boot parameter and reboot; check that the machine gets its own mode back."""
    before = snapshot(testbed)
    folder = run("intrahost/i-iommu.yaml", "--quick")
    complete(folder)
    pollscope("compare", folder, "--by", "iommu", "--out", CHECKOUT / "out")
    after = snapshot(testbed)
    assert after == before, f"not as before:\n{before}\n{after}"


def nothing_left(testbed: VmPairTestbed) -> None:
    """Check that no process, file or mount of the machines is left except images and the answer about KVM."""
    assert not testbed.folder.exists()
    others = [path.name for path in vm_folder().iterdir() if path.suffix not in (".img", ".tar", ".json")]
    assert not others, others
    here = str(testbed.folder).encode()
    for path in (process / "cmdline" for process in Path("/proc").glob("[0-9]*")):
        try:
            assert here not in path.read_bytes() or path.parent.name == str(os.getpid()), path
        except OSError:
            continue
    assert str(vm_folder()) not in Path("/proc/mounts").read_text()


def sanity(_testbed: VmPairTestbed) -> None:
    """Run the sanity spec of a pair."""
    sane(run("sanity/pair.yaml"))


def compare_ddio(testbed: VmPairTestbed) -> None:
    """Compare DDIO on and off, although SSH was lost in between."""
    pollscope("compare", lose_ssh(testbed), "--by", "ddio", "--out", CHECKOUT / "out")


# Steps of provisioned machines, in this order.
STEPS: dict[str, tuple[str, Callable[[VmPairTestbed], None]]] = {
    "again": ("provisioned again, and read back", again),
    "sanity": ("sanity across the pair", sanity),
    "iommu": ("IOMMU off, passing through, strict", compare_modes),
    "ddio": ("DDIO's bit on and off, and SSH is lost in between", compare_ddio),
    "plug": ("the plug of the DUT is pulled in a trial", pull_the_plug),
    "restore": ("restore", restoring),
}


def go_through(testbed: VmPairTestbed, names: Iterable[str]) -> None:
    """Run these steps."""
    for name in names:
        what, go = STEPS[name]
        with step(what):
            go(testbed)


def measured(testbed: VmPairTestbed) -> None:
    """Go from bare machines to runs and their faults, and back to bare machines."""
    with step("provisioning"):
        bare = provisioning(testbed)
    go_through(testbed, STEPS)
    after = snapshot(testbed)
    assert after == bare, f"not as before:\n{bare}\n{after}"


def roles(testbed: VmPairTestbed) -> None:
    """Run the other roles, on a machine that has nothing from the plays."""
    with step("restore"):
        assert play("restore", testbed.inventory()).changes
    with step("every other role comes and goes"):
        every_role(testbed)


def from_nothing(testbed: VmPairTestbed) -> None:
    """Make machines for this and remove them afterwards."""
    assert not testbed.folder.exists(), f"{testbed.folder} is there: pollscope testbed down vm-pair"
    try:
        with step("up"):
            pollscope("testbed", "up", "vm-pair")
        if chosen.roles:
            roles(testbed)
        else:
            measured(testbed)
    finally:
        pollscope("testbed", "down", "vm-pair")
    with step("nothing is left"):
        nothing_left(testbed)


def main() -> None:
    begin = time.monotonic()
    testbed = make_testbed("vm-pair")
    assert isinstance(testbed, VmPairTestbed)
    if chosen.steps:
        pollscope("testbed", "status", "vm-pair")
        go_through(testbed, chosen.steps)
    else:
        from_nothing(testbed)
    for what, took_s in passed.items():
        print(f"{took_s:6.0f} s  {what}")
    print(f"{len(passed)} passed, 0 failed, {(time.monotonic() - begin) / 60:.1f} min")


if __name__ == "__main__":
    chosen = arguments()
    main()
