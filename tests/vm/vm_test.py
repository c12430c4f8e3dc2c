#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""From nothing to measured on a pair of virtual machines, and back to nothing: what `make vm-test` runs.

Brings the testbed vm-pair up, runs the sanity spec of a pair across it, pulls the plug of the DUT in a run and
completes that run, compares IOMMU modes and DDIO, and takes everything down; then looks whether a process or a file is
left. Each step is a command that a user would give. usage: tests/vm/vm_test.py [POLLSCOPE]
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(CHECKOUT))

from pollscope.run_folder import RunFolder, read_run  # noqa: E402
from pollscope.testbeds import make_testbed  # noqa: E402
from pollscope.testbeds.inventory import Inventory  # noqa: E402
from pollscope.testbeds.plays import PlayResult, run_play  # noqa: E402
from pollscope.testbeds.vm_machine import run_there  # noqa: E402
from pollscope.testbeds.vm_pair import VmPairTestbed  # noqa: E402

POLLSCOPE = sys.argv[1] if len(sys.argv) > 1 else str(CHECKOUT / ".venv/bin/pollscope")
FIRST_TRIAL_LIMIT_S = 600.0
SNAPSHOT_LIMIT_S = 120.0
# State that the roles of the machines set, and their journals; names of modules without their use counts.
SNAPSHOT = """\
device=/sys/bus/pci/devices/0000:01:00.0
echo driver $(basename "$(readlink $device/driver)") override $(cat $device/driver_override)
echo pages $(cat /sys/kernel/mm/hugepages/hugepages-*/nr_hugepages)
echo interfaces $(ls /sys/class/net)
echo modules $(lsmod | grep -o '^vfio[a-z0-9_]*' | sort)
grep hugetlbfs /proc/mounts
cat /proc/cmdline /etc/default/grub.d/* 2>/dev/null
cksum /boot/grub/grub.cfg
find /var/lib/pollscope -type f 2>/dev/null | sort
"""
passed: list[str] = []


@contextmanager
def step(what: str) -> Iterator[None]:
    """One thing that has to work; its time is printed."""
    print(f"== {what}", flush=True)
    begin = time.monotonic()
    yield
    passed.append(what)
    print(f"-- {what}: {time.monotonic() - begin:.0f} s", flush=True)


def pollscope(*words: str | Path, code: int = 0) -> str:
    """Runs a command and returns what it printed; ends the test when its exit code is another one."""
    command = [POLLSCOPE, *map(str, words)]
    print("$", *command, flush=True)
    done = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    assert done.returncode == code, f"exit code {done.returncode}, expected {code}"
    return done.stdout


def run(spec: str, *options: str) -> Path:
    """Runs a spec on the machines; returns the run folder, which is the last line."""
    said = pollscope("run", CHECKOUT / "experiments" / spec, "--testbed", "vm-pair", *options)
    return CHECKOUT / said.strip().splitlines()[-1]


def complete(folder: Path) -> RunFolder:
    """The run, which has every planned trial as data."""
    found = read_run(folder)
    assert found.meta["status"] == "complete", found.meta["status"]
    good = {trial["trial"] for trial in found.trials if trial["status"] != "failed"}
    assert good == set(found.meta["plan"])
    return found


def pull_the_plug(testbed: VmPairTestbed) -> None:
    """Kills the DUT in a trial; the run says so, and is completed after `up`."""
    results = CHECKOUT / "results/sanity-pair"
    before = set(results.glob("*"))
    command = [POLLSCOPE, "run", "experiments/sanity/pair.yaml", "--testbed", "vm-pair"]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + FIRST_TRIAL_LIMIT_S
    while not any(path.stat().st_size for new in set(results.glob("*")) - before for path in new.glob("trials.jsonl")):
        assert time.monotonic() < deadline, "no trial was made"
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.5)
    pid = testbed.machines[0].pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    _, said = process.communicate(timeout=FIRST_TRIAL_LIMIT_S)
    print(said, end="", flush=True)
    assert process.returncode in (1, 3), process.returncode
    (folder,) = set(results.glob("*")) - before
    failed = [trial for trial in read_run(folder).trials if trial["status"] == "failed"]
    assert failed, "no trial failed"
    assert "DUT" in failed[0]["reason"], failed[0]["reason"]
    pollscope("testbed", "status", "vm-pair", code=3)
    pollscope("testbed", "up", "vm-pair")
    pollscope("run", "--resume", folder)
    complete(folder)


def play(name: str, inventory: Inventory, *options: str) -> PlayResult:
    """Runs a play on both machines."""
    begin = time.monotonic()
    result = run_play(name, inventory, options=options)
    print(
        f"$ playbooks/play {name} {' '.join(options)}: {len(result.changes)} changes, {time.monotonic() - begin:.0f} s"
    )
    return result


def snapshot(testbed: VmPairTestbed) -> list[str]:
    """What the plays touch, on each machine."""
    found = []
    for machine in testbed.machines:
        text, reason = run_there(machine.remote, ["sh", "-s"], SNAPSHOT_LIMIT_S, SNAPSHOT)
        assert not reason, f"{machine.name}: {reason}"
        found.append(text)
    return found


def provisioning(testbed: VmPairTestbed) -> None:
    """Check mode, converge, again, verify and revert: what was there before is there after."""
    inventory = testbed.inventory()
    play("revert", inventory)
    bare = snapshot(testbed)
    assert all("driver e1000e" in each and "pages 0" in each for each in bare), bare
    assert play("provision", inventory, "--check").changes
    assert snapshot(testbed) == bare, "check mode changed something"
    assert play("provision", inventory).changes
    assert snapshot(testbed) != bare
    assert not play("provision", inventory).changes, "the second run changed something"
    assert not play("verify", inventory).changes
    assert play("revert", inventory).changes
    after = snapshot(testbed)
    assert after == bare, f"not as before:\n{bare}\n{after}"
    play("provision", inventory)


def nothing_left(testbed: VmPairTestbed) -> None:
    """No process, file or mount of the machines is there."""
    assert not testbed.folder.exists()
    here = str(testbed.folder).encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert here not in path.read_bytes() or path.parent.name == str(os.getpid()), path
        except OSError:
            continue
    assert str(testbed.folder) not in Path("/proc/mounts").read_text()


def main() -> None:
    testbed = make_testbed("vm-pair")
    assert isinstance(testbed, VmPairTestbed)
    assert not testbed.folder.exists(), f"{testbed.folder} is there: pollscope testbed down vm-pair"
    try:
        with step("up"):
            pollscope("testbed", "up", "vm-pair")
        with step("a second `up` changes nothing"):
            pids = [machine.pid() for machine in testbed.machines]
            pollscope("testbed", "up", "vm-pair")
            assert pids == [machine.pid() for machine in testbed.machines]
        with step("provisioning"):
            provisioning(testbed)
        with step("sanity across the pair"):
            complete(run("sanity/pair.yaml"))
        with step("the plug of the DUT is pulled in a trial"):
            pull_the_plug(testbed)
        with step("IOMMU off, passing through, strict"):
            folder = run("intrahost/i-iommu.yaml", "--quick")
            complete(folder)
            pollscope("compare", folder, "--by", "iommu")
        with step("DDIO's bit on and off"):
            folder = run("intrahost/i-f7-ddio.yaml", "--quick")
            found = complete(folder)
            assert found.meta["knobs_before"] == found.meta["knobs_after"]
            pollscope("compare", folder, "--by", "ddio")
    finally:
        pollscope("testbed", "down", "vm-pair")
    with step("nothing is left"):
        nothing_left(testbed)
    print(f"{len(passed)} passed, 0 failed")


if __name__ == "__main__":
    main()
