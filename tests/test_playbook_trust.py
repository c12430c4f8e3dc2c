# SPDX-License-Identifier: BSD-3-Clause
"""Attack plays: from one host on another, as a user of a host, and by the environment of the controller."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ssh_host import running_sshd
from test_playbook_ssh import Bench, make_archive

from pollscope.host.boot_note import write_boot_note
from pollscope.host.journal import Journal, JournalHeader
from pollscope.testbeds.pair.plays import PlayFailed, run_play

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the roles need root on the host, which is this one"),
    pytest.mark.timeout(900),
]
CHECKOUT = Path(__file__).resolve().parent.parent
GOOD, EVIL = Path("/bin/true").read_bytes(), Path("/bin/false").read_bytes()
# Stands for the compilation: a host returns the archive that its environment names.
BUILD_RELEASE = """#!/bin/sh
set -eu
[ "$1" != --sources ] || exec tar -C "$(dirname "$0")/.." -cf "$2" playbooks/build-release
cp "$BUILT" "$1"
"""
NOBODY = 65534


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run plays from a copy of the playbooks with another build-release."""
    tree = tmp_path / "tree"
    shutil.copytree(CHECKOUT / "playbooks", tree / "playbooks", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "ansible.cfg", tree)
    (tree / "pollscope").symlink_to(CHECKOUT / "pollscope")
    (tree / "playbooks/build-release").write_text(BUILD_RELEASE)
    monkeypatch.setattr("pollscope.testbeds.pair.plays.source_tree", lambda: tree)
    return tree


@contextmanager
def bench(folder: Path, name: str, program: bytes = GOOD, **more: Any) -> Iterator[Bench]:
    """Start a host that builds an archive with this program."""
    here = folder / name
    (here / "ssh").mkdir(parents=True)
    (here / "opt").mkdir()
    make_archive(here / "release.tar.gz", program=program)
    environment = {"POLLSCOPE_STATE_DIR": str(here / "state"), "BUILT": str(here / "release.tar.gz")}
    with running_sshd(here / "ssh", environment, **more) as host:
        yield Bench(here, host)


def build_folders() -> set[Path]:
    return set(Path("/var/tmp").glob("pollscope-build-*"))


@pytest.mark.thorough
def test_a_host_does_not_install_what_another_host_built(tree: Path, tmp_path: Path) -> None:
    """The attack: a compromised host returns its own archive, and the next host installs it."""
    cache, before = tmp_path / "cache", build_folders()
    given = {"pollscope_apps_archive": "", "pollscope_apps_cache": str(cache)}
    with bench(tmp_path, "evil", EVIL) as evil, bench(tmp_path, "victim") as victim:
        evil.play("provision", **given)
        would = victim.play("provision", "--check", **given).changes
    assert (evil.folder / "opt/pollscope/current/bin/pollscope-node").read_bytes() == EVIL
    assert any("the programs have to be built" in change for change in would), would
    assert build_folders() == before, "a builder keeps the sources"


@pytest.mark.thorough
def test_a_host_installs_what_the_builder_of_its_inventory_built(tree: Path, tmp_path: Path) -> None:
    given = {"pollscope_apps_archive": "", "pollscope_apps_cache": str(tmp_path / "cache")}
    with bench(tmp_path, "builder") as builder, bench(tmp_path, "other", EVIL) as other:
        remote = other.host.remote()
        named = f"-F none -o UserKnownHostsFile={remote['known_hosts']}"
        own = {"ansible_port": remote["port"], "ansible_ssh_private_key_file": remote["key"]}
        prefix = {"pollscope_apps_prefix": str(other.folder / "opt/pollscope"), "pollscope_apps_builder": "first"}
        hosts = {"first": {}, "second": {**own, **prefix, "ansible_ssh_common_args": named}}
        played = builder.play("provision", hosts=hosts, **given)
    assert sum("Run build-release" in change for change in played.changes) == 1, "each host builds for itself"
    assert (other.folder / "opt/pollscope/current/bin/pollscope-node").read_bytes() == GOOD


def test_a_host_names_no_file_of_the_controller(tree: Path, tmp_path: Path) -> None:
    """The attack: VERSION_ID leads out of the cache, and the controller writes the host's archive there."""
    release = tmp_path / "os-release"
    release.write_text('ID=debian\nVERSION_ID="12/../../../escaped"\n')
    mount = ["unshare", "-m", "sh", "-c", f'mount --bind {release} /etc/os-release && exec "$@"', "sh"]
    given = {"pollscope_apps_archive": "", "pollscope_apps_cache": str(tmp_path / "deep/cache")}
    with bench(tmp_path, "evil", EVIL, inside=mount) as evil:
        with pytest.raises(PlayFailed) as caught:
            evil.play("provision", **given)
        assert evil.snapshot() == {}
    assert "is not a known distribution" in str(caught.value)
    assert [path.name for path in tmp_path.rglob("*escaped*")] == []


def test_a_user_of_the_host_brings_no_archive_and_no_module(tmp_path: Path) -> None:
    """Two attacks on one play.

    A user knows the name of the archive's copy beforehand and makes the file first. Where the session of root begins,
    there are Python files with the names that Ansible imports.
    """
    evil, ran = tmp_path / "evil", tmp_path / "ran"
    evil.mkdir()
    for name in sys.stdlib_module_names - set(sys.builtin_module_names):
        (evil / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write({name!r})\n")
    there = f'ForceCommand cd {evil} && exec sh -c "$SSH_ORIGINAL_COMMAND"\n'
    shared = tmp_path / "var-tmp"  # of this host alone: other tests provision hosts at the same time
    shared.mkdir()
    shared.chmod(0o1777)
    mount = ["unshare", "-m", "sh", "-c", f'mount --bind {shared} /var/tmp && exec "$@"', "sh"]
    with bench(tmp_path, "host", inside=mount, settings=there) as host:
        digest = hashlib.sha256((host.folder / "release.tar.gz").read_bytes()).hexdigest()
        known = shared / f"pollscope-archive-{digest}.tar.gz"
        known.touch()
        os.chown(known, NOBODY, NOBODY)
        host.play("provision")
        assert (known.stat().st_uid, known.stat().st_size) == (NOBODY, 0), "root used a file of another user"
    assert list(shared.iterdir()) == [known]
    assert not ran.exists(), ran.read_text()


def test_a_terminal_gets_no_control_characters_of_a_host(tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    release.write_text('ID="\033]0;owned\007\033[2J"\n')
    mount = ["unshare", "-m", "sh", "-c", f'mount --bind {release} /etc/os-release && exec "$@"', "sh"]
    with bench(tmp_path, "evil", inside=mount) as evil, pytest.raises(PlayFailed) as caught:
        evil.play("provision")
    (reason,) = caught.value.reasons.values()
    assert "owned" in reason and reason.isprintable()


UNCHECKED = "-F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ANSIBLE_SSH_HOST_KEY_CHECKING", "False"),
        pytest.param("ANSIBLE_SSH_ARGS", UNCHECKED, marks=pytest.mark.thorough),
        pytest.param("ANSIBLE_SSH_EXTRA_ARGS", UNCHECKED, marks=pytest.mark.thorough),
        pytest.param("inventory", UNCHECKED, marks=pytest.mark.thorough),
    ],
)
def test_nothing_switches_the_check_of_host_keys_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    unknown = "-F none -o UserKnownHostsFile=/dev/null -o GlobalKnownHostsFile=/dev/null"
    given: dict[str, Any] = {"pollscope_roles": [], "ansible_ssh_common_args": unknown}
    if name == "inventory":
        given |= {"ansible_ssh_common_args": value}
    else:
        monkeypatch.setenv(name, value)
    with bench(tmp_path, "unknown") as host, pytest.raises(PlayFailed, match="Host key verification failed"):
        host.play("verify", **given)


@contextmanager
def ssh_agent(socket: Path) -> Iterator[None]:
    with subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.DEVNULL) as process:
        try:
            while not socket.exists():
                assert process.poll() is None
            yield
        finally:
            process.terminate()


def test_the_agent_is_not_forwarded_and_no_local_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: a host uses the keys of a user whose ssh settings forward the agent."""
    seen, ran, config, socket = (tmp_path / name for name in ("seen", "ran", "config", "agent"))
    config.write_text(f"Host *\nForwardAgent yes\nForwardX11 yes\nPermitLocalCommand yes\nLocalCommand touch {ran}\n")
    log = f'ForceCommand env >>{seen}; exec sh -c "$SSH_ORIGINAL_COMMAND"\nX11Forwarding yes\nX11UseLocalhost yes\n'
    monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
    with ssh_agent(socket), bench(tmp_path, "host", settings=log) as host:
        remote = host.host.remote()
        options = f"-F {config} -o UserKnownHostsFile={remote['known_hosts']}"
        host.play("verify", pollscope_roles=[], ansible_ssh_common_args=options)
    names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert "SSH_CONNECTION" in names
    assert not names & {"SSH_AUTH_SOCK", "DISPLAY"}
    assert not ran.exists()


# Stands for a role that reboots: it begins a run, as another user could between two tasks of the play.
BEGINS = """---
- name: Begin a run
  ansible.builtin.command:
    cmd: {python} -P {script}
  changed_when: true
"""
RUN = """import sys
sys.path.insert(0, {checkout!r})
from pollscope.base.errors import HostError
from pollscope.knobs.session import KnobSession
try:
    with KnobSession("run S-F5", caller="runner"):
        print("began", file=open({log!r}, "a"))
except HostError as error:
    print(error, file=open({log!r}, "a"))
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "variables"), [("iommu", {"mode": "strict"}), ("restore", {})])
def test_no_run_begins_between_the_tasks_of_a_play_that_reboots(
    tree: Path, tmp_path: Path, name: str, variables: dict[str, str]
) -> None:
    """The reboot is a task of its own that holds no lock. It would kill the run."""
    script, log = tmp_path / "run.py", tmp_path / "log"
    script.write_text(RUN.format(checkout=str(CHECKOUT), log=str(log)))
    tasks = tree / "playbooks/roles/iommu/tasks"
    (tasks / "main.yml").write_text(BEGINS.format(python=sys.executable, script=script))
    with bench(tmp_path, "host") as host:
        state = host.folder / "state"
        journal = Journal.create(state / "playbooks/iommu.journal", JournalHeader("a play", "1", 1, 1, "boot", "now"))
        journal.done(journal.set("boot", "/etc/default/grub.d/none", None, None), None)
        journal.close()
        run_play(name, host.inventory(), variables, log=tmp_path / "ansible")
        assert "that prepares this host has not ended" in log.read_text()
        assert not (state / "playbooks/before").exists()
        subprocess.run([sys.executable, "-P", script], env=os.environ | {"POLLSCOPE_STATE_DIR": str(state)}, check=True)
        assert log.read_text().splitlines()[1:] == ["began"]


@pytest.mark.thorough
def test_a_run_that_sets_a_mode_keeps_other_plays_away(tree: Path, tmp_path: Path) -> None:
    (tree / "playbooks/roles/iommu/tasks/main.yml").write_text("---\n[]\n")
    with bench(tmp_path, "host") as host:
        write_boot_note(host.folder / "state", "run I-IOMMU by ada@one")
        inventory, mode = host.inventory(), {"mode": "strict"}
        with pytest.raises(PlayFailed, match=r"run I-IOMMU by ada@one of 2.* changes the mode .*\(wait for it"):
            run_play("iommu", inventory, mode, log=tmp_path / "log")
        run_play("iommu", inventory, mode | {"pollscope_of_run": "true"}, log=tmp_path / "log")
