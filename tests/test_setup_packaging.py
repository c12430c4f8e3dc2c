# SPDX-License-Identifier: BSD-3-Clause
"""The editable install and the built wheel hold the same: code behind links, specs, testbeds, data."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


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
    """Tracked files, and new ones that are not ignored."""
    return output("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=checkout).rstrip("\0").split("\0")


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of what is in git, built as `pip wheel` does it."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    present = [name for name in files_in_git(checkout) if (checkout / name).exists()]
    output("cp", "-a", "--parents", *present, copy, cwd=checkout)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", str(out), "."]
    output(*pip, cwd=copy)
    return next(out.glob("pollscope-*.whl"))


def test_the_wheel_holds_every_file_of_the_package(checkout: Path, wheel: Path) -> None:
    tops = ("pollscope/", "analysis/", "collectors/", "experiments/", "configs/", "data/")
    wanted = {
        name if name.startswith("pollscope/") else f"pollscope/{name}"
        for name in files_in_git(checkout)
        if name.startswith(tops) and (checkout / name).is_file()
    }
    assert wanted - set(zipfile.ZipFile(wheel).namelist()) == set()


def test_the_installed_wheel_finds_its_specs(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(wheel),
    ]
    output(*pip, cwd=tmp_path)
    code = "import pollscope, sys; from pollscope.cli import main; print(pollscope.__file__); main(sys.argv[1:])"
    for command in (["--version"], ["validate", "S-F5"], ["schema"]):
        shown = output(sys.executable, "-c", code, *command, cwd=tmp_path, PYTHONPATH=str(site), PATH="/usr/bin:/bin")
        assert shown.startswith(str(site))


def test_the_editable_install_is_this_checkout(checkout: Path, tmp_path: Path) -> None:
    code = "import pollscope.collectors, pollscope.analysis; print(pollscope.__file__, pollscope.analysis.__file__)"
    shown = output(sys.executable, "-c", code, cwd=tmp_path).split()
    assert shown == [str(checkout / "pollscope/__init__.py"), str(checkout / "pollscope/analysis/__init__.py")]
