# SPDX-License-Identifier: BSD-3-Clause
"""Install the probe plug-in into a driver folder, and remove it, as a knob that the journal restores."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import pollscope

from pollscope.cli import probe
from pollscope.host.journal import load
from pollscope.knobs import KnobHost
from pollscope.knobs import probe as knob
from pollscope.knobs.session import hand_journal

PLUGIN = knob.PLUGIN
FOLDERS = ("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0", "usr/local/lib/dpdk/pmds-23.0", "usr/lib64/dpdk/pmds-25.0")
Cli = Callable[..., str]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnobHost:
    """Return a host with three driver folders, two of which have the series of the built plug-in."""
    for folder in FOLDERS:
        (tmp_path / folder).mkdir(parents=True)
    built = tmp_path / "build"
    built.mkdir()
    (built / PLUGIN).write_bytes(b"\x7fELF ... librte_eal.so.23\0 ...")
    monkeypatch.setattr(knob, "build_folder", lambda: built)
    it = KnobHost.at(tmp_path)
    monkeypatch.setattr(probe, "KnobHost", lambda: it)
    return it


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    def run(*words: str, code: int = 0) -> str:
        done = pollscope("probe", *words, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return run


def installed(tmp_path: Path) -> list[bool]:
    return [(tmp_path / folder / PLUGIN).exists() for folder in FOLDERS]


def test_plugin_goes_into_the_folders_of_its_series_and_comes_out_again(
    host: KnobHost, cli: Cli, tmp_path: Path
) -> None:
    before = sorted(tmp_path.glob("usr/**/*"))
    assert cli("install").count("is there now") == 2
    assert installed(tmp_path) == [True, True, False]
    copy = tmp_path / FOLDERS[0] / PLUGIN
    assert copy.read_bytes() == (tmp_path / "build" / PLUGIN).read_bytes()
    assert not copy.is_symlink() and copy.stat().st_mode & 0o777 == 0o644
    assert len(load(hand_journal(host)).pending) == 2
    assert "was there already" in cli("install")
    cli("remove")
    assert sorted(tmp_path.glob("usr/**/*")) == before
    assert not hand_journal(host).exists()
    assert "no plug-in is installed" in cli("remove")


def test_newer_build_is_not_copied_over_an_older_one(host: KnobHost, cli: Cli, tmp_path: Path) -> None:
    cli("install")
    (tmp_path / "build" / PLUGIN).write_bytes(b"newer librte_eal.so.23\0")
    said = cli("install", code=3)
    assert "another file of that name is there" in said and "pollscope probe remove" in said
    cli("remove")
    cli("install")
    assert (tmp_path / FOLDERS[0] / PLUGIN).read_bytes().startswith(b"newer")


def test_file_that_someone_else_put_there_is_left_alone(host: KnobHost, cli: Cli, tmp_path: Path) -> None:
    foreign = tmp_path / FOLDERS[0] / PLUGIN
    foreign.write_bytes(b"of a package")
    assert "another file of that name" in cli("install", code=3)
    assert "did not copy" in cli("remove", code=3)
    assert foreign.read_bytes() == b"of a package"
    assert installed(tmp_path) == [True, False, False]


@pytest.mark.thorough
def test_copy_that_was_replaced_meanwhile_is_not_removed(host: KnobHost, cli: Cli, tmp_path: Path) -> None:
    cli("install")
    copy = tmp_path / FOLDERS[0] / PLUGIN
    copy.write_bytes(b"of a package")
    assert "knob restore probe --force" in cli("remove", code=3)
    assert copy.read_bytes() == b"of a package"
    assert installed(tmp_path) == [True, False, False]


def test_plugin_that_is_not_built_is_refused(host: KnobHost, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "build" / PLUGIN).unlink()
    assert "is not built" in cli("install", code=3)


def test_built_plugin_goes_into_the_folder_of_its_dpdk_alone(
    host: KnobHost, cli: Cli, tmp_path: Path, build_dir: Path
) -> None:
    shutil.copyfile(build_dir / PLUGIN, tmp_path / "build" / PLUGIN)
    command = ["pkg-config", "--modversion", "libdpdk"]
    version = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    year, month = map(int, version.split(".")[:2])
    series = year + (month == 11)  # of its ABI: 23 of DPDK 22.11 to 23.07
    own, later = (tmp_path / f"usr/local/lib/dpdk/pmds-{number}.0" for number in (series, series + 1))
    for folder in (own, later):
        folder.mkdir(exist_ok=True)
    cli("install")
    assert (own / PLUGIN).exists()
    assert not (later / PLUGIN).exists()


def test_plugin_that_does_not_name_its_series_is_refused(host: KnobHost, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "build" / PLUGIN).write_bytes(b"\x7fELF")
    assert "does not name its DPDK series" in cli("install", code=3)
    assert installed(tmp_path) == [False] * 3


def test_host_without_this_series_of_dpdk_is_refused(host: KnobHost, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "build" / PLUGIN).write_bytes(b"librte_eal.so.26\0")
    assert "no driver folder of the plug-in's DPDK series (26)" in cli("install", code=3)
