# SPDX-License-Identifier: BSD-3-Clause
"""Play over a real SSH connection to this machine: converge, converge again, verify, restore, and fail.

Only roles whose whole effect lies below a folder of the test are run here; the others run in tests/chroot.
"""

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from ssh_host import SshHost, free_port, running_sshd

from pollscope.base.errors import HostError
from pollscope.host.lock import HostLock
from pollscope.testbeds.pair.build import BUILD_LIMIT_S
from pollscope.testbeds.pair.inventory import Inventory, load_inventory
from pollscope.testbeds.pair.plays import PlayFailed, PlayResult, run_play

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the roles need root on the host, which is this one"),
    pytest.mark.timeout(900),
]
# These roles would reboot this machine.
REBOOTING = {"cpu_isolation", "iommu"}


@dataclass(frozen=True)
class Bench:
    """A host whose files all lie in `folder`."""

    folder: Path
    host: SshHost

    def inventory(self, hosts: Mapping[str, Mapping[str, Any]] = {"here": {}}, **variables: Any) -> Inventory:
        """Return an inventory in which the host is DUT and generator under each of the names."""
        common = {
            **self.host.ansible(),
            "pollscope_nics": ["0000:17:00.0"],
            "pollscope_roles": ["pollscope_apps"],
            "pollscope_apps_archive": str(self.folder / "release.tar.gz"),
            "pollscope_apps_prefix": str(self.folder / "opt/pollscope"),
            **variables,
        }
        assert not REBOOTING & set(common["pollscope_roles"]), "a test must not reboot this machine"
        path = self.folder / "inventory.yml"
        named = {name: {"pollscope_pair": name, **own} for name, own in hosts.items()}
        groups = {"all": {"vars": common}, "dut": {"hosts": named}, "generator": {"hosts": named}}
        path.write_text(json.dumps(groups))
        return load_inventory(path)

    def play(self, name: str, *options: str, **variables: Any) -> PlayResult:
        return run_play(name, self.inventory(**variables), options=options, log=self.folder / f"{name}.log")

    def snapshot(self) -> dict[str, str]:
        """Return every file, link and folder below `opt` and of the journals."""
        found = {}
        for top in (self.folder / "opt", self.folder / "state/playbooks"):
            for path in sorted(top.rglob("*")):
                content = str(path.readlink()) if path.is_symlink() else _digest(path)
                found[str(path)] = f"{path.lstat().st_mode:o} {content}"
        return found


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"


def make_archive(path: Path, distribution: str | None = None, program: bytes = Path("/bin/true").read_bytes()) -> None:
    """Write an archive like those of playbooks/build-release, with another program in the place of the node."""
    own = dict(line.partition("=")[::2] for line in Path("/etc/os-release").read_text().splitlines())
    here = f"{own['ID']} {own.get('VERSION_ID', 'testing')}".replace('"', "")
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {
            "RELEASE": f"distribution {distribution or here}\n".encode(),
            "bin/pollscope-node": program,
            "python/big": os.urandom(3 << 20),
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))


@pytest.fixture(scope="module")
def module_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    (folder / "opt").mkdir()
    (folder / "ssh").mkdir()
    make_archive(folder / "release.tar.gz")
    with running_sshd(folder / "ssh", {"POLLSCOPE_STATE_DIR": str(folder / "state")}) as host:
        yield Bench(folder, host)


@pytest.fixture
def bench(module_bench: Bench) -> Bench:
    assert module_bench.snapshot() == {}, "the test before left something"
    return module_bench


def fails(bench: Bench, message: str, name: str = "provision", **variables: Any) -> None:
    with pytest.raises(PlayFailed) as caught:
        bench.play(name, **variables)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert bench.snapshot() == {}, "nothing may stay half-set"


@pytest.mark.thorough
def test_converge_again_restore(bench: Bench) -> None:
    assert bench.play("provision").changes
    assert (bench.folder / "opt/pollscope/current/bin/pollscope-node").stat().st_size > 1000
    after = bench.snapshot()
    assert bench.play("provision").changes == ()
    assert bench.snapshot() == after
    assert bench.play("restore").changes
    assert bench.snapshot() == {}


@pytest.mark.thorough
def test_correct_state_is_left_alone(bench: Bench) -> None:
    unbuilt = {"pollscope_apps_archive": "", "pollscope_apps_cache": str(bench.folder / "cache")}
    would = bench.play("provision", "--check", **unbuilt).changes
    assert any("the programs have to be built" in change for change in would)
    assert bench.snapshot() == {}
    bench.play("provision")
    for play, options in (("provision", ["--check"]), ("verify", [])):
        assert bench.play(play, *options).changes == ()
    bench.play("restore")
    assert bench.play("restore").changes == ()
    fails(bench, "is not there", name="verify")


@pytest.mark.thorough
def test_a_failed_provision_keeps_the_earlier_one_and_a_good_one_replaces_it(bench: Bench, tmp_path: Path) -> None:
    bench.play("provision")
    before = bench.snapshot()
    newer, pktgen = bench.folder / "newer.tar.gz", tmp_path / "pktgen-23.06.1.tar.gz"
    make_archive(newer)
    pktgen.write_bytes(b"no archive")
    roles = ["pollscope_apps", "pktgen"]
    given = {"pollscope_apps_archive": str(newer), "pktgen_archive": str(pktgen), "pktgen_sha256": "0" * 64}
    with pytest.raises(PlayFailed, match=r"is not pktgen-dpdk"):
        bench.play("provision", pollscope_roles=roles, **given)
    after = bench.snapshot()
    journals = {path for path in before if path.endswith(".journal")}
    assert {path: before[path] for path in before if path not in journals} == {
        path: after[path] for path in after if path not in journals
    }
    assert bench.play("provision").changes == ()
    assert bench.play("verify").changes == ()
    bench.play("provision", pollscope_apps_archive=str(newer))
    releases = [path.name for path in (bench.folder / "opt/pollscope/releases").iterdir()]
    assert releases == [hashlib.sha256(newer.read_bytes()).hexdigest()[:16]]
    bench.play("restore")
    assert bench.snapshot() == {}


@pytest.mark.thorough
def test_an_archive_for_another_release_is_refused(bench: Bench) -> None:
    foreign = bench.folder / "foreign.tar.gz"
    make_archive(foreign, distribution="debian 4")
    fails(bench, "the archive was built on debian 4, this host is", pollscope_apps_archive=str(foreign))


@pytest.mark.thorough
def test_a_full_disk_leaves_nothing(bench: Bench) -> None:
    small = bench.folder / "opt/small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", small], check=True)
    try:
        with pytest.raises(PlayFailed, match="No space left on device"):
            bench.play("provision", pollscope_apps_prefix=str(small / "pollscope"))
        assert [str(path) for path in small.rglob("*")] == []
    finally:
        subprocess.run(["umount", small], check=True)
        small.rmdir()


@pytest.mark.thorough
def test_a_run_on_the_host_keeps_the_play_away(bench: Bench) -> None:
    with HostLock("run S-F5", bench.folder / "state/host.lock"):
        fails(bench, "this host is in use")
        for name, given in (("restore", {}), ("ddio", {"state": "off"})):
            with pytest.raises(PlayFailed, match="this host is in use") as refused:
                run_play(name, bench.inventory(), given, log=bench.folder / "log")
            assert str(refused.value).count("in use") == 1


@pytest.mark.thorough
def test_the_output_of_a_program_is_the_reason(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible itself only reports that the task failed."""
    monkeypatch.setattr("pollscope.testbeds.pair.plays.cache_folder", lambda: Path("/dev/null/cache"))
    with pytest.raises(PlayFailed, match="mkdir: cannot create directory"):
        bench.play("provision", pollscope_apps_archive="")


@pytest.mark.thorough
def test_somebody_elses_play_keeps_ours_away(bench: Bench) -> None:
    """Between its tasks a play does not hold the host's lock, and a build may take long. This holds for restore too."""
    mark = bench.folder / "state/playbooks/before"
    mark.mkdir(parents=True)
    (mark / "player").write_text("ada@elsewhere")
    long_ago_s = time.time() - 0.9 * BUILD_LIMIT_S
    os.utime(mark, (long_ago_s, long_ago_s))
    before = bench.snapshot()
    for name in ("provision", "restore"):
        with pytest.raises(PlayFailed, match=r"in use by a play of ada@elsewhere \(wait for it; if it was cut off"):
            bench.play(name)
        assert bench.snapshot() == before
    bench.play("restore", "-e", "pollscope_take_over=true")
    assert bench.snapshot() == {}


@pytest.mark.thorough
def test_a_host_without_apt_is_refused_before_anything(bench: Bench, tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    release.write_text('NAME="Rocky Linux"\nID="rocky"\nVERSION_ID="9.4"\nID_LIKE="rhel centos fedora"\n')
    with pytest.raises(PlayFailed, match=r"this host is rocky 9.4: the plays know Debian 12.*Other distributions"):
        run_play("provision", bench.inventory(), {"provision_os_release": str(release)}, log=bench.folder / "log")
    assert bench.snapshot() == {}


@pytest.mark.thorough
def test_ubuntu_has_perf_for_its_kernel(bench: Bench, tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    release.write_text('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n')
    inventory = bench.inventory(pollscope_roles=["perf"])
    given = {"perf_os_release": str(release), "provision_os_release": str(release)}
    changes = run_play("provision", inventory, given, options=["--check"], log=bench.folder / "log").changes
    assert any(f"to install: linux-tools-{os.uname().release}" in change for change in changes)
    assert bench.snapshot() == {}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("nodes", "word"),
    [
        ({"17": 1}, "hugepages=1:1"),
        ({"17": 0, "3b": 1}, "hugepages=0:1,1:1"),
        ({"17": -1}, "hugepages=1"),
    ],
)
def test_pages_of_1_gb_are_reserved_where_the_nics_are(
    bench: Bench, tmp_path: Path, nodes: dict[str, int], word: str
) -> None:
    for bus, node in nodes.items():
        (tmp_path / f"0000:{bus}:00.0").mkdir()
        (tmp_path / f"0000:{bus}:00.0/numa_node").write_text(f"{node}\n")
    wanted: dict[str, Any] = {"hugepages_boot_1g": 1, "hugepages_wanted_pages": 0, "hugepages_reboot": False}
    nics = [f"0000:{bus}:00.0" for bus in nodes]
    inventory = bench.inventory(
        pollscope_roles=["hugepages"], pollscope_nics=nics, hugepages_pci_devices=str(tmp_path), **wanted
    )
    changes = run_play("provision", inventory, options=["--check"], log=bench.folder / "log").changes
    assert any(
        f'hugepagesz=1G {word}"' in change or f"hugepagesz=1G {word}" in change.split("'") for change in changes
    ), changes
    assert bench.snapshot() == {}


@pytest.mark.thorough
def test_a_host_keeps_memory_to_boot_with(bench: Bench) -> None:
    """The kernel would take all memory, and no user could log in to change that."""
    inventory = bench.inventory(pollscope_roles=["hugepages"], hugepages_boot_1g=100_000, hugepages_reboot=False)
    with pytest.raises(PlayFailed, match=r"would take 100000 of \d+ GiB while the host boots, .* Nothing was changed"):
        run_play("provision", inventory, options=["--check"], log=bench.folder / "log")
    assert bench.snapshot() == {}


@pytest.mark.thorough
def test_each_host_that_cannot_be_used_has_its_reason(bench: Bench) -> None:
    """One play covers all hosts, because starting Ansible takes longest."""
    missing = bench.folder / "sudo"
    other = "-F none -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no"
    hosts: dict[str, dict[str, Any]] = {
        "unreachable": {"ansible_port": free_port()},
        "wrong-key": {"ansible_ssh_private_key_file": str(bench.host.folder / "host")},
        "unknown-host-key": {"ansible_ssh_common_args": other},
        "no-sudo": {"ansible_become_user": "nobody", "ansible_become_exe": str(missing)},
    }
    with pytest.raises(PlayFailed) as caught:
        bench.play("provision", hosts=hosts)
    said = {
        "unreachable": "Connection refused",
        "wrong-key": "Permission denied (publickey",
        "unknown-host-key": "Host key verification failed",
        "no-sudo": f"{missing}: not found",
    }
    assert caught.value.reasons.keys() == said.keys()
    for host, reason in caught.value.reasons.items():
        assert said[host] in reason
        assert "\n" not in reason
    assert "\n" not in str(caught.value)
    assert bench.snapshot() == {}, "nothing may stay half-set"


# Always with --check: a test must not reboot this machine, even if the code under test is broken.
def iommu_off(bench: Bench, roles: Sequence[str], **variables: Any) -> str:
    """Return the reason why the play for `mode=off` fails on this host."""
    nics = [path.name for path in sorted(Path("/sys/bus/pci/devices").glob("*"))[:1]]
    if not nics:
        pytest.skip("no PCI device here")
    inventory = bench.inventory(pollscope_roles=list(roles), pollscope_nics=nics)
    given = {"mode": "off", **variables}
    try:
        run_play("iommu", inventory, given, options=["--check"], log=bench.folder / "iommu.log")
    except HostError as error:
        return str(error)
    return ""


@pytest.mark.thorough
def test_without_consent_the_mode_off_is_refused_where_nics_are_bound(bench: Bench) -> None:
    assert "give -e vfio_no_iommu_consent=true if you mean it; nothing was changed" in iommu_off(bench, ["vfio"])
    assert bench.snapshot() == {}


@pytest.mark.thorough
@pytest.mark.parametrize(("roles", "variables"), [(["vfio"], {"vfio_no_iommu_consent": "true"}), ([], {})])
def test_with_consent_or_without_bound_nics_the_mode_is_set(
    bench: Bench, roles: list[str], variables: dict[str, str]
) -> None:
    assert "vfio_no_iommu_consent" not in iommu_off(bench, roles, **variables)
    assert bench.snapshot() == {}


@pytest.mark.thorough
def test_bad_arguments_of_a_role(bench: Bench) -> None:
    inventory = bench.inventory()
    text = json.loads(inventory.path.read_text())
    text["all"]["vars"]["pollscope_apps_state"] = "maybe"
    inventory.path.write_text(json.dumps(text))
    with pytest.raises(PlayFailed, match=r"value of pollscope_apps_state must be one of: present, absent, verified"):
        run_play("provision", replace(inventory), log=bench.folder / "log")


@pytest.mark.thorough
def test_the_program_writes_one_line_and_ends_with_3(bench: Bench, checkout: Path, tmp_path: Path) -> None:
    """It uses the environment of this test, because a checkout need not have one."""
    (tmp_path / "playbooks").mkdir()
    program = shutil.copy(checkout / "playbooks/play", tmp_path / "playbooks")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    inventory = bench.inventory(ansible_port=free_port())
    command = [str(program), "provision", "-i", str(inventory.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=checkout)
    assert done.returncode == 3
    assert done.stderr.startswith("pollscope: here: ssh: connect to host 127.0.0.1 port")
    assert len(done.stderr.splitlines()) == 1
    done = subprocess.run([*command[:-1], "nowhere.yml"], capture_output=True, text=True, check=False, cwd=checkout)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def _dpdk_version() -> str:
    """Return year and month of this host's DPDK, for example 22.11."""
    command = ["dpkg-query", "--show", "--showformat=${Version}", "libdpdk-dev"]
    return ".".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(".")[:2])


MESON = """project('pktgen', 'c')
executable('pktgen', 'main.c', install: get_option('enable_lua'))
"""


@pytest.mark.thorough
def test_pktgen_is_built_from_the_pinned_archive(bench: Bench, tmp_path: Path) -> None:
    """A small program stands for pktgen-dpdk; test_pktgen_real.py builds the real one."""
    source = tmp_path / "pktgen-23.06.1"
    source.mkdir()
    (source / "meson.build").write_text(MESON)
    (source / "meson_options.txt").write_text("option('enable_lua', type: 'boolean', value: false)\n")
    (source / "main.c").write_text("int main(void) { return 0; }\n")
    path = tmp_path / "pktgen-23.06.1.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(source, source.name)
    given: dict[str, Any] = {
        "pollscope_roles": ["pktgen"],
        "pktgen_archive": str(path),
        "pktgen_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "pktgen_prefix": str(bench.folder / "opt/pktgen"),
        "pktgen_packages": ["gcc", "meson"],
        "pktgen_versions": {_dpdk_version(): "23.06.1"},
    }
    fails(bench, "is not pktgen-dpdk 23.06.1, which fits DPDK", **{**given, "pktgen_sha256": "0" * 64})
    fails(bench, "is not pktgen-dpdk 24.10.3", **{**given, "pktgen_version": "24.10.3"})
    unknown = {**given, "pktgen_versions": {"20.11": "20.11.3"}}
    fails(bench, f"no version of pktgen-dpdk is known to fit DPDK {_dpdk_version()} of this host", **unknown)
    assert bench.play("provision", **given).changes
    subprocess.run([bench.folder / "opt/pktgen/current/bin/pktgen"], check=True)
    assert bench.play("provision", **given).changes == ()
    bench.play("restore", **given)
    assert bench.snapshot() == {}
