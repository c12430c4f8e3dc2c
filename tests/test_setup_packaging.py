# SPDX-License-Identifier: BSD-3-Clause
"""Check a checkout, and an archive of it without git and links. test_installed_wheel.py checks wheels."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# Prints the files that run, then runs commands in one process, as their imports take longest.
CODE = """
import pollscope, sys
from pollscope.cli import main
print(pollscope.__file__, flush=True)
for command in ("validate S-F5", f"claims {sys.argv[1]}", "collect"):
    try:
        main(command.split())
    except SystemExit as end:
        assert not end.code, (command, end.code)
"""


def output(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment or None,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout[-3000:]}"
    return done.stdout


def files_in_git(checkout: Path) -> list[str]:
    """Return tracked files, and new ones that are not ignored; no links, which an archive may have lost."""
    names = output("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=checkout).split("\0")
    return [name for name in names if (checkout / name).is_file() and not (checkout / name).is_symlink()]


@pytest.fixture(scope="module")
def archive(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the files of git, without links, to a folder without git."""
    copy = tmp_path_factory.mktemp("archive")
    output("cp", "-a", "--parents", *files_in_git(checkout), copy, cwd=checkout)
    assert not any(path.is_symlink() for path in copy.rglob("*"))
    return copy


@pytest.mark.thorough
def test_an_archive_without_links_works(archive: Path, tmp_path: Path) -> None:
    command = (sys.executable, "-c", CODE, archive / "data/runs/s-f5-polling-tax")
    shown = output(*command, cwd=tmp_path, PYTHONPATH=str(archive), PATH="/usr/bin:/bin")
    assert shown.startswith(str(archive))


def test_the_links_at_the_top_lead_to_the_rooms(checkout: Path) -> None:
    for name in ("analysis", "collectors"):
        assert (checkout / name).is_symlink() and (checkout / name).resolve() == checkout / "pollscope" / name


def test_the_editable_install_is_this_checkout(checkout: Path, tmp_path: Path) -> None:
    code = "import pollscope.collectors, pollscope.analysis; print(pollscope.__file__, pollscope.analysis.__file__)"
    shown = output(sys.executable, "-c", code, cwd=tmp_path).split()
    assert shown == [str(checkout / "pollscope/__init__.py"), str(checkout / "pollscope/analysis/__init__.py")]


@pytest.mark.thorough
def test_a_wheel_of_a_checkout_has_no_file_that_git_does_not_track(archive: Path, tmp_path: Path) -> None:
    tree = tmp_path / "checkout"
    shutil.copytree(archive, tree, ignore=shutil.ignore_patterns("tests", "docs", "notebooks", "__pycache__"))
    output("git", "init", "-q", cwd=tree)
    output("git", "add", "--all", "--force", cwd=tree)
    for name in ("configs/testbeds/key.pem", "data/runs/mine/run.json", "experiments/mine.yaml", "playbooks/hosts.yml"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("mine\n")
    pip = (sys.executable, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check")
    build = ("wheel", "--no-build-isolation", "--no-deps", "-w", str(tmp_path), str(tree))
    output(*pip, *build, cwd=tmp_path, PATH=os.environ["PATH"])
    names = zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist()
    assert not [name for name in names if "mine" in name or name.endswith(("key.pem", "hosts.yml"))]
    for kept in (
        "pollscope/configs/metrics.yaml",
        "pollscope/sources/setup.py",
        "pollscope/sources/playbooks/local.yml",
    ):
        assert kept in names
