# SPDX-License-Identifier: BSD-3-Clause
"""Check that packages of plays start no services where they must not, and disturb no run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import playbook_modules
import pytest

from pollscope.host.journal import load
from pollscope.host.lock import HostLock

CONTROL = """\
Package: pollscope-offline-test
Version: 1
Architecture: all
Maintainer: nobody
Description: test
"""
REFUSAL = "#!/bin/sh\nexit 101\n"
CUT_OFF = """\
import os, signal, sys
sys.path.insert(0, {tests!r})
import playbook_modules
from pathlib import Path
packages = playbook_modules.load("pollscope_packages")
packages.POLICY = Path({policy!r})
with packages.services_off(True, Path({journal!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the module with its policy and journals below tmp_path."""
    module = playbook_modules.load("pollscope_packages")
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(module, "POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(module, "installed", lambda: {"mtr"})
    return module


def journal_of(module: ModuleType) -> Path:
    path: Path = module.journal_path("vm_tools-packages")
    return path


class Call:
    """The parameters that Ansible hands to the module."""

    check_mode = False

    def __init__(self, state: str, *names: str) -> None:
        self.params: dict[str, Any] = {
            "journal": "vm_tools-packages",
            "state": state,
            "names": list(names),
            "start_services": False,
        }


def test_services_do_not_start_during_the_installation_only(packages: ModuleType) -> None:
    with packages.services_off(True, journal_of(packages)):
        assert (packages.POLICY.read_text(), packages.POLICY.stat().st_mode & 0o777) == (REFUSAL, 0o755)
        journal = packages.policy_ledger(journal_of(packages)).path
        assert [(entry.target, entry.old) for entry in load(journal).pending] == [(str(packages.POLICY), None)]
    assert not packages.POLICY.exists()
    assert not journal.exists()


def test_a_policy_of_the_host_is_not_touched(packages: ModuleType) -> None:
    packages.POLICY.write_text("#!/bin/sh\nexit 0\n")
    with packages.services_off(True, journal_of(packages)):
        pass
    assert packages.POLICY.read_text() == "#!/bin/sh\nexit 0\n"


@pytest.mark.parametrize("state", ["absent", "present"])
def test_the_next_play_restores_the_policy_of_a_killed_one(
    packages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    text = CUT_OFF.format(
        tests=str(Path(__file__).parent), policy=str(packages.POLICY), journal=str(journal_of(packages))
    )
    subprocess.run([sys.executable, "-c", text], check=False, env=dict(os.environ))
    assert packages.POLICY.read_text() == REFUSAL
    monkeypatch.setattr(packages, "install", lambda _path, missing: sorted(missing))
    lines = packages.act(Call(state, "nginx"))
    assert lines == (["installed: nginx"] if state == "present" else [f"{packages.POLICY}: absent again"])
    assert not packages.POLICY.exists()
    assert not list((tmp_path / "state").rglob("*.journal"))


@pytest.mark.parametrize("state", ["absent", "present"])
def test_a_host_on_which_a_run_measures_is_left_alone(
    packages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(packages, "apt", lambda *_words: pytest.fail("apt-get was called"))
    with HostLock("run S-F5", tmp_path / "state/host.lock"):
        with pytest.raises(packages.HostError, match=r"in use by .*run S-F5"):
            packages.act(Call(state, "nginx"))
        assert packages.act(Call("present", "mtr")) == []


class Host:
    """The packages of a host, as APT and dpkg show them."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error
        self.packages = {"mtr"}
        self.meanwhile: set[str] = set()  # what somebody else installs while APT waits for the lock
        self.fails = False

    def apt(self, verb: str, *words: str) -> str:
        names = {word for word in words if not word.startswith("-")}
        self.packages |= self.meanwhile
        self.packages.symmetric_difference_update(names)
        assert (verb == "install") == (names <= self.packages)
        if verb == "install" and self.fails:
            raise self.error("apt-get install: E: Sub-process /usr/bin/dpkg returned an error code (1)")
        return ""

    def simulated(self, verb: str, *words: str) -> dict[str, set[str]]:
        names = {word for word in words if not word.startswith("-")}
        plan = {key: set[str]() for key in ("Inst", "Remv", "Purg")}
        return plan | {"Inst" if verb == "install" else "Purg": names}


@pytest.fixture
def host(packages: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Host:
    it = Host(packages.HostError)
    monkeypatch.setattr(packages, "installed", lambda: set(it.packages))
    monkeypatch.setattr(packages, "apt", it.apt)
    monkeypatch.setattr(packages, "refresh_lists", lambda: None)
    monkeypatch.setattr(packages, "simulated", it.simulated)
    return it


@pytest.mark.parametrize("fails", [False, True], ids=["installed", "failed"])
def test_packages_that_another_person_installed_meanwhile_stay(packages: ModuleType, host: Host, fails: bool) -> None:
    host.meanwhile, host.fails = {"postgresql"}, fails
    if fails:
        with pytest.raises(packages.HostError, match="returned an error code"):
            packages.act(Call("present", "gcc"))
    else:
        assert packages.act(Call("present", "gcc")) == ["installed: gcc"]
        assert packages.act(Call("absent")) == ["removed: gcc"]
    assert host.packages == {"mtr", "postgresql"}


def test_a_play_that_failed_purges_only_its_own_packages(packages: ModuleType, host: Host) -> None:
    journals = playbook_modules.load("pollscope_journals")
    packages.act(Call("present", "gcc"))
    journals.begin()
    packages.act(Call("present", "gcc", "perf"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POLLSCOPE_UNDO", "1")
        assert packages.act(Call("absent")) == ["removed: perf"]
    assert host.packages == {"mtr", "gcc"}
    journals.end()
    assert packages.act(Call("absent")) == ["removed: gcc"]
    assert host.packages == {"mtr"}


def test_on_an_offline_host_apt_sees_the_packages_of_the_archive_alone(packages: ModuleType, tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("dpkg-scanpackages") is None:
        pytest.skip("APT's lists need root, and the archive dpkg-dev")
    unpacked = tmp_path / "state/offline/current"
    for folder in (tmp_path / "deb/DEBIAN", unpacked / "packages", unpacked / "lists/partial"):
        folder.mkdir(parents=True)
    (tmp_path / "deb/DEBIAN/control").write_text(CONTROL)
    build = ["dpkg-deb", "--root-owner-group", "--build", str(tmp_path / "deb"), str(unpacked / "packages")]
    subprocess.run(build, check=True, capture_output=True)
    index = subprocess.run(["dpkg-scanpackages", "."], cwd=unpacked / "packages", check=True, capture_output=True)
    (unpacked / "packages/Packages").write_bytes(index.stdout)
    packages.refresh_lists()
    assert packages.simulated("install", "pollscope-offline-test")["Inst"] == {"pollscope-offline-test"}
    with pytest.raises(packages.HostError, match="Unable to locate package stress-ng"):
        packages.simulated("install", "stress-ng")
    shutil.rmtree(unpacked)
    with pytest.raises(packages.HostError, match="Unable to locate package pollscope-offline-test"):
        packages.simulated("install", "pollscope-offline-test")
