# SPDX-License-Identifier: BSD-3-Clause
"""Play the roles over SSH in a Debian of its own, with its packages and its GRUB, and restore it.

/proc and /sys there are this machine's. So no role that writes to them runs here, and none that reboots.
"""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import debian
import pytest
from ssh_host import SshHost, running_sshd

from pollscope.testbeds.pair.inventory import load_inventory
from pollscope.testbeds.pair.plays import PlayFailed, PlayResult, run_play

pytestmark = [pytest.mark.chroot, pytest.mark.timeout(3600)]
PACKAGES = ["openssh-server", "python3", "grub2-common", "dpdk", "ca-certificates"]
SUITES = ["trixie"]
# GRUB finds no device for the disk of a chroot. Its scripts are the real ones.
GRUB_PROBE = """#!/bin/sh
case "$*" in *--target=device*) echo /dev/vda1 ;; *uuid*) exit 1 ;; *--target=fs*) echo ext2 ;; *) exit 1 ;; esac
"""
# Programs of the system write these files for any set of packages.
OWN = ["/var/log", "/var/cache", "/var/lib/apt", "/var/lib/dpkg", "/run", "/tmp", "/var/tmp", "/proc", "/sys", "/dev"]
OWN += ("/etc/ld.so.cache", "/root/.ansible", "/etc/machine-id")
# Debian's packages do not remove the system users that they made.
OWN += ("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid")


@dataclass(frozen=True)
class Bench:
    """A Debian that is reached by SSH."""

    host: SshHost
    folder: Path

    def play(self, name: str, roles: list[str], **variables: Any) -> PlayResult:
        common = {
            **self.host.ansible(user="root"),
            "pollscope_nics": ["0000:17:00.0"],
            "pollscope_roles": roles,
            "pollscope_apps_archive": "nowhere.tar.gz",
            "cpu_isolation_reboot": False,
            "iommu_reboot": False,
            "hugepages_reboot": False,
            **variables,
        }
        reboots = [name for name in common if name.endswith("_reboot") and common[name]]
        assert not reboots, "the reboot would be this machine's"
        path = self.folder / "inventory.yml"
        groups = {"all": {"vars": common}, "dut": {"hosts": {"there": {}}}, "generator": {"hosts": {"there": {}}}}
        path.write_text(json.dumps(groups))
        return run_play(name, load_inventory(path), log=self.folder / f"{name}.log")

    def run(self, script: str) -> str:
        """Run a script there over SSH and return its output. A second overlay on the same layer would be undefined."""
        remote = self.host.remote()
        options = ["-F", "none", "-i", remote["key"], "-o", f"UserKnownHostsFile={remote['known_hosts']}"]
        command = ["ssh", *options, "-p", str(remote["port"]), "root@127.0.0.1", script]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{script}: {done.stdout}{done.stderr}"
        return done.stdout

    def snapshot(self) -> dict[str, str]:
        """Return the packages, and mode and content of each file that does not belong to the package manager."""
        script = "find / -xdev ! -type d -printf '%p %m %s %l\\n' | sort; dpkg-query -W"
        lines = [
            line
            for line in self.run(script).splitlines()
            if not line.startswith(tuple(OWN)) and "__pycache__" not in line
        ]
        return {line.split()[0]: line for line in lines if line}


@pytest.fixture(scope="module", params=SUITES)
def bench(
    request: pytest.FixtureRequest, make_system: debian.MakeSystem, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("roles")
    (folder / "ssh").mkdir()
    with make_system(request.param, PACKAGES, "roles") as system:
        prepare(system)
        start = system.words(["sh", "-c", 'mkdir -p /run/sshd && exec "$@"', "sh"], {folder: str(folder)})
        with running_sshd(folder / "ssh", inside=start) as host:
            yield Bench(host, folder)


def prepare(system: debian.System) -> None:
    """Install a kernel to boot, and a GRUB that finds its disk."""
    script = f"""set -e
    cat >/usr/sbin/grub-probe <<'END'\n{GRUB_PROBE}END
    mkdir -p /boot/grub && touch /boot/vmlinuz-6.12.0-test && mkdir -p /etc/default
    echo 'GRUB_CMDLINE_LINUX_DEFAULT="quiet isolcpus=0"' >/etc/default/grub
    update-grub"""
    done = system.run(["sh", "-c", script])
    assert done.returncode == 0, done.stdout


def cycle(bench: Bench, *roles: str, **variables: Any) -> dict[str, str]:
    """Converge, converge again, verify and restore; return the snapshot taken in between."""
    before = bench.snapshot()
    assert bench.play("provision", list(roles), **variables).changes
    between = bench.snapshot()
    assert bench.play("provision", list(roles), **variables).changes == ()
    bench.play("restore", list(roles), **variables)
    assert bench.snapshot() == before
    return {path: line for path, line in between.items() if before.get(path) != line}


def test_packages_come_and_go(bench: Bench) -> None:
    changed = cycle(bench, "pcm", pcm_modules=[])
    assert "/usr/sbin/pcm" in changed


def menu(bench: Bench) -> str:
    return bench.run("cat /boot/grub/grub.cfg")


def test_boot_parameters_come_and_go(bench: Bench) -> None:
    before = menu(bench)
    changed = cycle(bench, "cpu_isolation", cpu_isolation_cpus="2-3", cpu_isolation_irq_cpus="0-1")
    assert "/etc/default/grub.d/zz-pollscope-cpu_isolation.cfg" in changed
    assert menu(bench) == before
    bench.play("provision", ["cpu_isolation"], cpu_isolation_cpus="2-3")
    line = next(line for line in menu(bench).splitlines() if "vmlinuz" in line and "linux" in line.split()[0])
    assert line.endswith("quiet isolcpus=0 isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3")
    with pytest.raises(PlayFailed, match=r"the running kernel does not have .*reboot"):
        bench.play("verify", ["cpu_isolation"], cpu_isolation_cpus="2-3")
    bench.play("restore", ["cpu_isolation"])
    assert menu(bench) == before


def test_pages_of_1_gb_at_boot_come_and_go(bench: Bench) -> None:
    """Set only boot parameters. The kernel is this host's, so no number of pages may change."""
    wanted = {"hugepages_boot_1g": 4, "hugepages_wanted_pages": 0}
    before = menu(bench)
    changed = cycle(bench, "hugepages", **wanted)
    assert "/etc/default/grub.d/zz-pollscope-hugepages.cfg" in changed
    assert menu(bench) == before
    bench.play("provision", ["hugepages"], **wanted)
    line = next(line for line in menu(bench).splitlines() if "vmlinuz" in line and "linux" in line.split()[0])
    assert line.endswith("hugepagesz=1G hugepages=4")
    bench.play("provision", ["hugepages"], **{**wanted, "hugepages_boot_1g": 0})
    assert menu(bench) == before
    bench.play("restore", ["hugepages"], **wanted)


def test_a_grub_that_fails_leaves_the_old_menu(bench: Bench) -> None:
    before = bench.snapshot()
    bench.run("mv /boot/vmlinuz-6.12.0-test /boot/away && update-grub")
    with pytest.raises(PlayFailed, match="boots without"):
        bench.play("provision", ["cpu_isolation"], cpu_isolation_cpus="1")
    bench.run("mv /boot/away /boot/vmlinuz-6.12.0-test && update-grub")
    assert bench.snapshot() == before


@pytest.mark.skipif(Path("/sys/firmware/acpi/tables/DMAR").exists(), reason="this machine has an IOMMU")
def test_without_an_iommu_the_mode_is_refused(bench: Bench) -> None:
    before = bench.snapshot()
    with pytest.raises(PlayFailed, match="the firmware describes no IOMMU"):
        bench.play("provision", ["iommu"], iommu_mode="strict")
    assert bench.snapshot() == before


def test_bad_cpus_never_reach_the_file_of_a_shell(bench: Bench) -> None:
    with pytest.raises(PlayFailed, match="is not a kernel parameter"):
        bench.play("provision", ["cpu_isolation"], cpu_isolation_cpus="$(reboot)")
    bench.run("test ! -e /etc/default/grub.d/zz-pollscope-cpu_isolation.cfg")
