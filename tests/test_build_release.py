# SPDX-License-Identifier: BSD-3-Clause
"""The archive that brings pollscope to other hosts (playbooks/build-release)."""

import subprocess
import tarfile
from pathlib import Path


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
