# SPDX-License-Identifier: BSD-3-Clause
"""Test `pollscope pack`: bundles for hosts with nothing but glibc, and files of run folders."""

import os
import platform
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import pollscope
from synthetic_run import write_run

from pollscope.base.archive import Member, write_archive
from pollscope.base.errors import HostError
from pollscope.node import build, bundle
from pollscope.node.launcher import python_launcher
from pollscope.node.libraries import libraries_of, without_driver_folder

V2 = "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3"
V3 = f"{V2} abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"


def unpacked(archive: Path, folder: Path) -> Path:
    folder.mkdir()
    subprocess.run(["tar", "-xzf", archive, "-C", folder], check=True)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    for spec in ("a", "b"):
        write_run(folder / spec / "20261120T162617Z-1a2b3c", [])
    return folder


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["out.tgz"], 2, "name a file that ends in .tar.gz"),
        (["there.tar.gz"], 2, "exists already"),
        (["out.tar.gz", "results"], 2, "pollscope pack --runs"),
        (["nowhere/out.tar.gz"], 3, "No such file or directory"),
        (["--runs", "out.tar.gz", "nowhere"], 2, "there is no such folder"),
        (["--runs", "out.tar.gz", "empty"], 2, "holds no run folder"),
        (["--runs", "out.tar.gz", "results", "other/results"], 2, "two files would be results/a/"),
    ],
)
def test_what_cannot_be_packed_is_refused(
    tmp_path: Path, results: Path, words: list[str], code: int, message: str
) -> None:
    (tmp_path / "there.tar.gz").write_text("kept")
    (tmp_path / "empty").mkdir()
    shutil.copytree(results, tmp_path / "other/results")
    done = pollscope("pack", *words, cwd=tmp_path)
    assert done.returncode == code
    assert message in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out.tar.gz").exists()
    assert (tmp_path / "there.tar.gz").read_text() == "kept"


def test_without_a_compiler_nothing_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = pollscope("pack", "out.tar.gz", cwd=tmp_path)
    assert done.returncode == 3
    assert "cannot be built here: there is no cc" in done.stderr


def test_a_long_build_says_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(build, "_LINE_EVERY_S", 0)
    build._run(
        ["sh", "-c", "echo '[0/1] Regenerating'; echo '[1/4] Compiling'; echo warning; echo '[4/4] Linking'"],
        "failed",
        said.append,
    )
    assert [line.rpartition(",")[0] for line in said] == ["built 1 of 4 files", "built 4 of 4 files"]
    assert said[1].endswith(", 0 ms left")


def test_runs_come_back_whole(tmp_path: Path, results: Path) -> None:
    done = pollscope("pack", "--runs", "out.tar.gz", cwd=tmp_path)
    assert done.returncode == 0 and "2 runs" in done.stdout
    assert contents(unpacked(tmp_path / "out.tar.gz", tmp_path / "home")) == {
        f"results/{name}": content for name, content in contents(results).items()
    }


def test_the_same_files_make_the_same_archive(tmp_path: Path, results: Path) -> None:
    later = shutil.copytree(results, tmp_path / "later/results", copy_function=shutil.copyfile)
    assert pollscope("pack", "--runs", "one.tar.gz", results, cwd=tmp_path).returncode == 0
    assert pollscope("pack", "--runs", "two.tar.gz", later / "b", later / "a", cwd=tmp_path).returncode == 0
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()


def test_a_link_in_a_run_folder_is_not_followed(tmp_path: Path, results: Path) -> None:
    (results / "a/20261120T162617Z-1a2b3c/extra").symlink_to("/etc/passwd")
    done = pollscope("pack", "--runs", "out.tar.gz", cwd=tmp_path)
    assert done.returncode == 2 and "is not a regular file" in done.stderr


@pytest.fixture
def _small_files() -> Iterator[None]:
    """Limit the size of files, as a full disk does."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("_small_files")
def test_without_room_nothing_stays(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"cannot be written: File too large .free at most 977 KiB"):
        write_archive(tmp_path / "out.tar.gz", [Member("a", os.urandom(1_000_000))], lambda _: None)
    assert list(tmp_path.iterdir()) == []


def test_libraries_are_found_to_the_last(build_dir: Path) -> None:
    found, lacking = libraries_of([build_dir / "pollscope-node"], build_dir)
    assert {"libjansson.so.4", "libnuma.so.1", "libpcap.so.0.8"} <= found.keys()  # EAL needs libnuma
    assert any(name.startswith("librte_eal.so.") for name in found)
    assert not any(name.startswith(("libc.", "libm.", "ld-linux")) for name in found)
    assert lacking == []


def test_a_library_that_is_not_here_is_named(build_dir: Path, tmp_path: Path) -> None:
    program = (build_dir / "pollscope-corunner").read_bytes()
    (tmp_path / "program").write_bytes(program.replace(b"libjansson.so.4", b"libjanssoX.so.4"))
    assert libraries_of([tmp_path / "program"], tmp_path) == ({}, ["libjanssoX.so.4"])
    beside = tmp_path / "libjanssoX.so.4"
    beside.write_bytes(program)
    assert libraries_of([tmp_path / "program"], tmp_path)[0].keys() == {"libjanssoX.so.4", "libjansson.so.4"}


def test_eal_forgets_the_host_s_driver_folder() -> None:
    before = b"text\0/usr/lib/x/dpdk/pmds-23.0\0DPDK_PLUGIN_PATH=/usr/lib/x/dpdk/pmds-23.0\0"
    after = without_driver_folder(before)
    assert after == b"text" + bytes(len("/usr/lib/x/dpdk/pmds-23.0") + 2) + before[31:]


def test_packages_are_those_that_a_run_needs() -> None:
    names = {str(each.metadata["Name"]).lower() for each in bundle.python_packages()}
    assert {"numpy", "pandas", "pydantic_core", "ruamel.yaml.clib"} <= names  # the last one by an extra
    assert not names & {"ansible-core", "pytest", "pollscope"}


def test_a_bundle_has_pollscope_as_a_wheel_installs_it(checkout: Path) -> None:
    names = {each.name.removeprefix("site-packages/pollscope/") for each in bundle._own_package()}
    assert {
        "__main__.py",
        "configs/metrics.yaml",
        "experiments/corec/c-rivals.yaml",
        "sources/apps/meson.build",
    } <= names
    assert not [name for name in names if name.startswith(("data/runs/whole/", "sources/tests/", "tests/"))]


def started(
    tmp_path: Path, flags: str, glibc: str = "2.17", folder: str = "bundle"
) -> subprocess.CompletedProcess[str]:
    """Start the launcher on a processor with these flags; the interpreter prints what it got."""
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: fpu {flags} vme\n\nprocessor\t: 1\nflags\t\t: {V3}\n")
    programs = {
        "bin/python3": python_launcher("python9", glibc, str(cpuinfo)),
        "python/bin/python9": '#!/bin/sh\nenv LD_LIBRARY_PATH= echo "$POLLSCOPE_PROGRAMS $LD_LIBRARY_PATH" "$@"\n',
    }
    for name, text in programs.items():
        path = tmp_path / folder / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path / folder / "bin/python3")
    environment = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": "/own"}
    return subprocess.run([tmp_path / "link", "a b"], capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize(
    ("flags", "level"), [(V3, "x86-64-v3"), (V3.replace("bmi2", ""), "x86-64-v2"), (V2, "x86-64-v2")]
)
def test_the_launcher_chooses_the_programs(tmp_path: Path, flags: str, level: str) -> None:
    place = tmp_path / "my bundle"
    done = started(tmp_path, flags, folder=place.name)
    assert done.stdout == f"{place}/programs/{level} {place}/lib:/own -I a b\n"


@pytest.mark.parametrize(
    ("flags", "glibc", "folder", "message"),
    [
        (V2.replace("sse4_2", "sse4_2x"), "2.17", "bundle", "lacks sse4_2 (the programs need the level x86-64-v2)"),
        (V3, "9.9", "bundle", f"has glibc {platform.libc_ver()[1]}"),
        (V3, "2.17", "a:b", "no path with a colon"),
        (V3, "2.17", "a;b", "no path with a colon, semicolon"),
    ],
)
def test_the_launcher_refuses_a_host(tmp_path: Path, flags: str, glibc: str, folder: str, message: str) -> None:
    done = started(tmp_path, flags, glibc, folder)
    assert (done.returncode, done.stdout) == (3, "")
    assert message in done.stderr and len(done.stderr.splitlines()) == 1


def bundle_of(checkout: Path, folder: Path) -> Path:
    """Return the unpacked bundle of this checkout."""
    folder.chmod(0o755)
    archive = folder / "bundle.tar.gz"
    command = [sys.executable, "-m", "pollscope", "pack", str(archive)]
    subprocess.run(command, cwd=checkout, env=os.environ | {"PYTHONPATH": str(checkout)}, timeout=900, check=True)
    place = next(unpacked(archive, folder / "unpacked").iterdir())
    archive.unlink()
    return place


@pytest.mark.thorough
@pytest.mark.measure
@pytest.mark.timeout(1800)
def test_a_bundle_measures_with_its_own_files(checkout: Path, tmp_path: Path) -> None:
    place = bundle_of(checkout, tmp_path)
    shutil.move(place, tmp_path / "here")

    def run(*words: str) -> str:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "POLLSCOPE_STATE_DIR": str(tmp_path / "state")}
        done = subprocess.run(
            words,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout

    run("sh", "-c", "cd here && sha256sum --check --quiet SHA256SUMS")
    run("here/pollscope", "run", "S-F16", "--quick", "--set", "repeats.count=2")
    for level in bundle.LEVELS:
        for program in ("pollscope-node", "pollscope-corunner", "tcp-path"):
            linked = re.findall(r"=> (\S+)", run("ldd", f"here/programs/{level}/{program}"))
            others = [path for path in linked if not Path(path).resolve().is_relative_to(tmp_path / "here")]
            assert {Path(path).name for path in others} <= {"libc.so.6", "libm.so.6"}
    run("here/pollscope", "report", "latest")
    run("here/pollscope", "pack", "--runs", "runs.tar.gz")
