# SPDX-License-Identifier: BSD-3-Clause
"""Check the first step of the set-up, which needs no Ansible, and its messages when it has to stop."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROLES = ("common", "build_tools", "dpdk")


def packages(checkout: Path, *roles: str) -> list[str]:
    names: list[str] = []
    for role in roles:
        defaults = YAML(typ="safe").load(checkout / f"playbooks/roles/{role}/defaults/main.yml")
        names += defaults[f"{role}_packages"]
    return names


def bootstrap(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [folder / "playbooks/bootstrap", *arguments],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )


@pytest.fixture
def copy(checkout: Path, tmp_path: Path) -> Path:
    """Copy the inputs of the set-up into a folder without .venv and stamps."""
    folder = tmp_path / "copy"
    folder.mkdir()
    names = [
        "playbooks",
        "ansible.cfg",
        "apps/pmd/fetch-driver-sdk",
        "pyproject.toml",
        "requirements.lock",
        "requirements-dev.lock",
    ]
    subprocess.run(["cp", "-a", "--parents", *names, folder], cwd=checkout, check=True)
    return folder


@pytest.fixture
def stubs(tmp_path: Path) -> Path:
    """Write programs for PATH: the user is an ordinary one, sudo refuses, and no package is installed."""
    folder = tmp_path / "stubs"
    folder.mkdir()
    for name, line in {"id": "echo 1000", "sudo": "exit 1", "dpkg-query": "exit 1"}.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    return folder


def test_the_list_joins_the_lists_of_the_roles(checkout: Path) -> None:
    done = bootstrap(checkout, "--list")
    assert done.stdout.split() == packages(checkout, *ROLES)


def test_unknown_option_is_bad_usage(checkout: Path) -> None:
    done = bootstrap(checkout, "--fast")
    assert done.returncode == 2
    assert "--fast" in done.stderr


def test_a_second_call_changes_nothing(checkout: Path) -> None:
    """It takes 0.05 s on an idle machine. On a busy one the test can only check that nothing was done."""
    assert bootstrap(checkout, "--dev").returncode == 0
    stamps = {path: path.stat().st_mtime_ns for path in (checkout / ".cache/setup").iterdir() if path.name != "lock"}
    assert len(stamps) >= 3
    done = bootstrap(checkout, "--dev")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}


def test_hugepages_that_a_user_released_are_reserved_again(copy: Path) -> None:
    """The play, a stub here, runs again although boot and inputs are the same."""
    stamps, programs = copy / ".cache/setup", copy / ".venv/bin"
    for folder in (stamps, programs):
        folder.mkdir(parents=True)
    for name in ("pollscope", "ansible-playbook"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    inputs = b"".join((copy / name).read_bytes() for name in ("requirements.lock", "pyproject.toml"))
    (stamps / "venv-run").write_text(f"{copy}{hashlib.sha256(inputs).hexdigest()}\n")
    assert "running playbooks/local.yml" in bootstrap(copy, PACKAGES="present").stdout
    assert bootstrap(copy, PACKAGES="present").stdout == ""
    (stamps / "hugepages").write_text("1000000000\n")  # more than this host has now
    assert "running playbooks/local.yml" in bootstrap(copy, PACKAGES="present").stdout
    assert bootstrap(copy, PACKAGES="present").stdout == ""


@pytest.mark.thorough
@pytest.mark.parametrize("option", [(), ("--clean-host",)])
def test_the_venv_of_another_place_is_made_again(copy: Path, tmp_path: Path, option: tuple[str, ...]) -> None:
    """In a copied checkout Python works, and the scripts run the programs of the other place."""
    programs, called = copy / ".venv/bin", tmp_path / "called"
    programs.mkdir(parents=True)
    for name in ("python", "pollscope", "ansible-playbook"):
        (programs / name).write_text(f"#!/bin/sh\ntouch {called}\n")
        (programs / name).chmod(0o755)
    (programs / "pip").write_text("#!/opt/elsewhere/.venv/bin/python\n")
    (copy / "requirements.lock").write_text("nothing-of-this-name==1 --hash=sha256:0\n")
    done = bootstrap(copy, *option, PACKAGES="present", PIP_NO_INDEX="1")
    assert done.returncode == 3 and "cannot be installed" in done.stderr
    assert f"{copy}/.venv/bin/" in (programs / "pip").read_text()
    assert not called.exists()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("option", [(), ("--dev",), ("--clean-host",)])
def test_a_linked_venv_is_left_to_its_checkout(copy: Path, tmp_path: Path, option: tuple[str, ...]) -> None:
    other = tmp_path / "other/.venv"
    other.mkdir(parents=True)
    (copy / ".venv").symlink_to(other)
    done = bootstrap(copy, *option, PACKAGES="present")
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        f"set-up: {copy}/.venv is a symbolic link to {other}, whose checkout would then run this code (remove the link)"
    ]
    assert list(other.iterdir()) == []
    assert not (copy / ".cache").exists()


def test_without_root_the_missing_packages_are_listed(checkout: Path, copy: Path, stubs: Path) -> None:
    assert_listed(bootstrap(copy, PATH=f"{stubs}:{os.environ['PATH']}"), checkout, copy)


def assert_listed(done: subprocess.CompletedProcess[str], checkout: Path, copy: Path) -> None:
    """Check that one line lists the packages of all roles, and that nothing was made."""
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert all(name in done.stderr for name in packages(checkout, *ROLES))
    assert not (copy / ".venv").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="another /etc/os-release needs a mount namespace, which needs root")
def test_an_unknown_distribution_gets_the_list_of_needs(checkout: Path, copy: Path, tmp_path: Path) -> None:
    other = tmp_path / "os-release"
    other.write_text('ID=slackware\nVERSION_ID="15.0"\n')
    inside = 'mount --bind "$1" /etc/os-release && exec "$2"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, "sh"]
    done = subprocess.run(
        [*command, other, copy / "playbooks/bootstrap"], capture_output=True, text=True, check=False, timeout=60
    )
    if "unshare" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert_listed(done, checkout, copy)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("built_in", ["here", "elsewhere"])
def test_a_checkout_that_was_moved_is_built_again(checkout: Path, tmp_path: Path, built_in: str) -> None:
    """Meson's files name the folder in which they were made."""
    here = tmp_path / "here"
    (here / "build").mkdir(parents=True)
    (here / "build/build.ninja").write_text(f" COMMAND = meson regenerate {tmp_path / built_in}/apps\n")
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    for name in ("meson", "ninja"):
        (stubs / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (stubs / name).chmod(0o755)
    done = subprocess.run(
        ["make", "--silent", "--no-print-directory", "--file", checkout / "Makefile", "programs"],
        cwd=here,
        env=os.environ | {"PATH": f"{stubs}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    setup = ["meson setup build apps", "set-up: compiling (about a minute)"] if built_in == "elsewhere" else []
    assert done.stdout.splitlines() == [*setup, "ninja -C build --quiet"]
    assert (here / "build").exists() == (built_in == "here")
