# SPDX-License-Identifier: BSD-3-Clause
"""Check the archive that brings pollscope to other hosts (playbooks/build-release)."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import pollscope

CAPTURED: dict[str, Any] = {"capture_output": True, "text": True, "check": False}


def small_checkout(folder: Path) -> Path:
    """Make a checkout that holds only `playbooks/build-release`, with a git that tracks nothing yet."""
    home = folder / "home"
    (home / "playbooks").mkdir(parents=True)
    shutil.copy(Path(__file__).parent.parent / "playbooks/build-release", home / "playbooks")
    subprocess.run(["git", "-C", home, "init", "-q"], check=True)
    return home


def packed(home: Path, out: Path) -> dict[str, str]:
    """Return the files of `--sources` with the targets of links."""
    done = subprocess.run([home / "playbooks/build-release", "--sources", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with tarfile.open(out) as archive:
        return {entry.name.removeprefix("./"): entry.linkname for entry in archive.getmembers()}


def test_unpacked_sources_pack_to_the_same_files(checkout: Path, tmp_path: Path) -> None:
    """A host that builds has no git, and packs the unpacked files again."""
    first = packed(checkout, tmp_path / "first.tar")
    assert first["collectors"] == "pollscope/collectors"
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    subprocess.run(["tar", "-C", unpacked, "-xf", tmp_path / "first.tar"], check=True)
    assert packed(unpacked, tmp_path / "second.tar") == first


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ('ok\n\napps/meson.build:7:3: ERROR: Dependency "libdpdk" not found\n\nA full log is at x\n', "libdpdk"),
        ("a.c:1:2: fatal error: rte_eal.h: No such file or directory\nninja: build stopped\n", "rte_eal.h"),
        ("Illegal instruction\n", "Illegal instruction"),
    ],
)
def test_the_reason_for_a_failed_build_is_reported(checkout: Path, tmp_path: Path, said: str, reason: str) -> None:
    """The log itself is removed with the working folder."""
    (tmp_path / "said").write_text(said)
    (tmp_path / "meson").write_text(f"#!/bin/sh\ncat {tmp_path / 'said'}\nexit 1\n")
    (tmp_path / "meson").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DRIVER": "none"}
    command = [checkout / "playbooks/build-release", tmp_path / "out.tar.gz"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("build-release: the programs cannot be built: ") and reason in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_only_tracked_files_are_packed(tmp_path: Path) -> None:
    """The attack: a private key that lies in the checkout by chance travels to every host that builds."""
    home = small_checkout(tmp_path)
    (home / "playbooks/lab.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
    subprocess.run(["git", "-C", home, "add", "playbooks/build-release"], check=True)
    assert packed(home, tmp_path / "out.tar").keys() == {"playbooks/build-release"}


def test_a_git_that_lists_nothing_is_an_error(tmp_path: Path) -> None:
    """git does not trust the checkout of another user. All its files must not be packed instead."""
    home = small_checkout(tmp_path)
    (home / ".git/HEAD").unlink()
    done = subprocess.run([home / "playbooks/build-release", "--sources", tmp_path / "out.tar"], **CAPTURED)
    assert done.returncode == 3
    assert done.stderr.startswith(f"build-release: git does not list the files of {home}: fatal: ")
    assert not (tmp_path / "out.tar").exists()


def test_built_files_are_not_packed_without_git(tmp_path: Path) -> None:
    home = small_checkout(tmp_path)
    shutil.rmtree(home / ".git")
    for name in (".venv/bin/python", "build/pollscope-node", "results/run.json", ".mypy_cache/a"):
        (home / name).parent.mkdir(parents=True)
        (home / name).touch()
    assert packed(home, tmp_path / "out.tar").keys() == {"playbooks/build-release"}


def test_the_archive_is_not_written_through_a_link(checkout: Path, tmp_path: Path) -> None:
    """The attack: a user puts a link to a file of root where root is going to write an archive."""
    victim = tmp_path / "victim"
    victim.write_text("root's")
    for name in ("out.tar", "out.tar.new"):
        (tmp_path / name).symlink_to(victim)
    packed(checkout, tmp_path / "out.tar")
    assert victim.read_text() == "root's"
    assert (tmp_path / "out.tar").is_file() and not (tmp_path / "out.tar").is_symlink()


def test_no_other_user_can_write_to_packed_files(tmp_path: Path) -> None:
    """The checkout was made under a umask of 0."""
    home = small_checkout(tmp_path)
    (home / "playbooks").chmod(0o777)
    (home / "playbooks/build-release").chmod(0o777)
    shutil.rmtree(home / ".git")
    packed(home, tmp_path / "out.tar")
    with tarfile.open(tmp_path / "out.tar") as archive:
        assert [oct(entry.mode) for entry in archive] == ["0o755"]


WRAPPER = re.compile(r"bin/pollscope\" <<'END'\n(.*?)\nEND\n", re.DOTALL)


@pytest.mark.parametrize("start", [["knob", "list"], ["agent"]])
def test_the_program_imports_nothing_from_the_current_folder(checkout: Path, tmp_path: Path, start: list[str]) -> None:
    """The attack: root starts `bin/pollscope` of a release in a folder where another user has put `pollscope`."""
    text = (checkout / "playbooks/build-release").read_text()
    release, evil = tmp_path / "release", tmp_path / "evil"
    (release / "bin").mkdir(parents=True)
    (release / "python").symlink_to(Path(pollscope.__file__).parent.parent)
    program = release / "bin/pollscope"
    found = WRAPPER.search(text)
    assert found
    program.write_text(found[1].replace("/usr/bin/python3", sys.executable) + "\n")
    program.chmod(0o755)
    plant(evil / "pollscope", tmp_path / "ran")
    home = tmp_path / "home"
    site = home / f".local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    site.mkdir(parents=True)
    (site / "evil.pth").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run([program, *start], cwd=evil, env=environment, stdin=subprocess.DEVNULL, **CAPTURED)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


def test_the_build_imports_nothing_from_the_current_folder(checkout: Path, tmp_path: Path) -> None:
    """The attack: a folder `venv` where `build-release` is started. It may also be there by chance."""
    evil = tmp_path / "evil"
    plant(evil / "venv", tmp_path / "ran")
    stand_in = tmp_path / "bin"
    stand_in.mkdir()
    for name in ("meson", "ninja", "cp"):
        (stand_in / name).write_text("#!/bin/sh\n")
        (stand_in / name).chmod(0o755)
    (stand_in / "python3").write_text(
        '#!/bin/sh\nexec /usr/bin/python3 "$@" --without-pip\n'
    )  # pip takes long to install
    (stand_in / "python3").chmod(0o755)
    environment = os.environ | {"PATH": f"{stand_in}:{os.environ['PATH']}", "DRIVER": "none"}
    command = [checkout / "playbooks/build-release", tmp_path / "out.tar.gz"]
    done = subprocess.run(command, cwd=evil, env=environment, **CAPTURED)
    assert "the locked Python packages cannot be installed" in done.stderr
    assert not (tmp_path / "ran").exists()


def plant(package: Path, proof: Path) -> None:
    """Write a package that leaves a proof when it is imported or run."""
    package.mkdir(parents=True)
    for name in ("__init__.py", "__main__.py", "cli.py"):
        (package / name).write_text(f"from pathlib import Path\nPath({str(proof)!r}).touch()\nmain = print\n")
