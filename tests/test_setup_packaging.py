# SPDX-License-Identifier: BSD-3-Clause
"""Checkout, archive and wheel hold the same: code, specs, testbeds, data; none of them needs a link."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# Shows which files run, then runs a command of them.
CODE = "import pollscope, sys; from pollscope.cli import main; print(pollscope.__file__, flush=True); main()"

# One process for all: imports take longer than these commands.
EACH = """\
from pollscope.cli import main
for command in (
    "validate S-F5",
    "plan S-F5 --json",
    "claims run",
    "compare run --by queues",
    "report run --out report.html",
    "figures run --out figures",
):
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
    """Tracked files, and new ones that are not ignored."""
    return output("git", "ls-files", "-co", "--exclude-standard", "-z", cwd=checkout).rstrip("\0").split("\0")


@pytest.fixture(scope="module")
def archive(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in git, but links, unpacked where there is no git."""
    copy = tmp_path_factory.mktemp("archive")
    present = [name for name in files_in_git(checkout) if (checkout / name).is_file()]
    output(
        "cp", "-a", "--parents", *(name for name in present if not (checkout / name).is_symlink()), copy, cwd=checkout
    )
    assert not any(path.is_symlink() for path in copy.rglob("*"))
    return copy


@pytest.fixture(scope="module")
def wheel(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the archive, built as `pip wheel` does it."""
    out = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", str(out), "."]
    output(*pip, cwd=archive)
    return next(out.glob("pollscope-*.whl"))


def test_the_wheel_holds_every_file_of_the_package(checkout: Path, wheel: Path) -> None:
    tops = {"pollscope/": "", "experiments/": "pollscope/", "configs/": "pollscope/", "data/": "pollscope/"}
    tops |= dict.fromkeys(("apps/", "playbooks/", "ansible.cfg", "requirements.lock"), "pollscope/sources/")
    wanted = {
        place + name
        for name in files_in_git(checkout)
        for top, place in tops.items()
        if name.startswith(top) and (checkout / name).is_file()
    }
    assert wanted - set(zipfile.ZipFile(wheel).namelist()) == set()


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheel is installed."""
    site = tmp_path_factory.mktemp("site")
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
    output(*pip, cwd=site)
    return site


def test_the_installed_wheel_finds_its_specs(site: Path, tmp_path: Path) -> None:
    for command in (["--version"], ["validate", "S-F5"], ["schema"]):
        shown = output(sys.executable, "-c", CODE, *command, cwd=tmp_path, PYTHONPATH=str(site), PATH="/usr/bin:/bin")
        assert shown.startswith(str(site))


def test_the_installed_wheel_reads_a_copied_run(checkout: Path, site: Path, tmp_path: Path) -> None:
    shutil.copytree(checkout / "data/runs/s-f5-polling-tax", tmp_path / "run")
    (tmp_path / "ask.py").write_text(EACH)
    output(sys.executable, "ask.py", cwd=tmp_path, PYTHONPATH=str(site), PATH="/usr/bin:/bin")
    assert (tmp_path / "report.html").is_file() and (tmp_path / "figures/S-F5.pdf").is_file()


def test_an_archive_without_links_works(archive: Path, tmp_path: Path) -> None:
    for command in (["validate", "S-F5"], ["claims", str(archive / "data/runs/s-f5-polling-tax")], ["collect"]):
        shown = output(
            sys.executable, "-c", CODE, *command, cwd=tmp_path, PYTHONPATH=str(archive), PATH="/usr/bin:/bin"
        )
        assert shown.startswith(str(archive))


def test_the_links_at_the_top_lead_to_the_rooms(checkout: Path) -> None:
    for name in ("analysis", "collectors"):
        assert (checkout / name).is_symlink() and (checkout / name).resolve() == checkout / "pollscope" / name


def test_the_editable_install_is_this_checkout(checkout: Path, tmp_path: Path) -> None:
    code = "import pollscope.collectors, pollscope.analysis; print(pollscope.__file__, pollscope.analysis.__file__)"
    shown = output(sys.executable, "-c", code, cwd=tmp_path).split()
    assert shown == [str(checkout / "pollscope/__init__.py"), str(checkout / "pollscope/analysis/__init__.py")]
