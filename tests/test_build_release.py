# SPDX-License-Identifier: BSD-3-Clause
"""The archive that brings pollscope to other hosts (playbooks/build-release)."""

import os
import subprocess
import tarfile
from pathlib import Path

import pytest


def packed(home: Path, out: Path) -> dict[str, str]:
    """The files of `--sources`, with what a link points to."""
    done = subprocess.run([home / "playbooks/build-release", "--sources", out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with tarfile.open(out) as archive:
        return {entry.name.removeprefix("./"): entry.linkname for entry in archive.getmembers()}


def test_unpacked_sources_pack_to_the_same_files(checkout: Path, tmp_path: Path) -> None:
    """The host that builds has no git, and packs what it unpacked once more."""
    first = packed(checkout, tmp_path / "first.tar")
    assert first["collectors"] == "pollscope/collectors"
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    subprocess.run(["tar", "-C", unpacked, "-xf", tmp_path / "first.tar"], check=True)
    assert packed(unpacked, tmp_path / "second.tar") == first


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ('ok\n\napps/meson.build:7:3: ERROR: Dependency "libdpdk" not found\n\nA full log is at x\n', "libdpdk"),
        ("a.c:1:2: fatal error: rte_eal.h: No such file or directory\nninja: build stopped\n", "rte_eal.h"),
        ("Illegal instruction\n", "Illegal instruction"),
    ],
)
def test_why_it_cannot_be_built_is_said(checkout: Path, tmp_path: Path, said: str, reason: str) -> None:
    """The log goes with the folder in which it was tried."""
    (tmp_path / "said").write_text(said)
    (tmp_path / "meson").write_text(f"#!/bin/sh\ncat {tmp_path / 'said'}\nexit 1\n")
    (tmp_path / "meson").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DRIVER": "none"}
    command = [checkout / "playbooks/build-release", tmp_path / "out.tar.gz"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("build-release: the programs cannot be built: ") and reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
