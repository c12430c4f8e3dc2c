# SPDX-License-Identifier: BSD-3-Clause
"""Attack the unpacking of an archive on a host: as another user of the host, and with the archive itself."""

import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import playbook_modules
import pytest
from test_playbook_ssh import make_archive

release = playbook_modules.load("pollscope_release")
NOBODY = 65534


class Call:
    """The parameters that Ansible hands to the module."""

    check_mode = False

    def __init__(self, folder: Path, archive: Path, digest: str) -> None:
        self.params: dict[str, Any] = {
            "state": "present",
            "journal": "pollscope_apps",
            "prefix": str(folder / "opt"),
            "packages": False,
            "digest": digest,
            "archive": str(archive),
            "build": None,
        }


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLLSCOPE_STATE_DIR", str(tmp_path / "state"))


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def install(folder: Path, archive: Path) -> Path:
    """Install the archive; return the folder of the release."""
    release.act(Call(folder, archive, digest_of(archive)))
    return folder / "opt/current"


def packed(path: Path, *members: tarfile.TarInfo, content: bytes = b"") -> Path:
    """Write an archive that holds what every release has, and more members."""
    make_archive(path)
    with tarfile.open(path) as whole:
        kept = [(entry, whole.extractfile(entry).read()) for entry in whole]  # type: ignore[union-attr]
    with tarfile.open(path, "w:gz") as archive:
        for entry, data in kept:
            archive.addfile(entry, io.BytesIO(data))
        for entry in members:
            entry.size = len(content) if entry.isreg() else 0
            archive.addfile(entry, io.BytesIO(content))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, to: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = kind, to, mode
    return entry


def test_an_archive_that_is_exchanged_after_the_digest_check_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: a user of the host renames his own archive over the checked one."""
    archive, evil = tmp_path / "release.tar.gz", tmp_path / "evil.tar.gz"
    make_archive(archive)
    make_archive(evil, program=Path("/bin/false").read_bytes())
    wanted = digest_of(archive)
    right = hashlib.file_digest

    def exchanging(*arguments: Any) -> Any:
        found = right(*arguments)
        evil.replace(archive)
        return found

    monkeypatch.setattr(hashlib, "file_digest", exchanging)
    release.act(Call(tmp_path, archive, wanted))
    assert (tmp_path / "opt/current/bin/pollscope-node").read_bytes() == Path("/bin/true").read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_an_archive_of_another_user_is_refused(tmp_path: Path) -> None:
    """Its owner could write to it while root unpacks it."""
    archive = packed(tmp_path / "release.tar.gz")
    os.chown(archive, NOBODY, NOBODY)
    with pytest.raises(release.HostError, match="is not a regular file of user 0"):
        install(tmp_path, archive)


def test_a_link_in_place_of_the_archive_is_refused(tmp_path: Path) -> None:
    archive = packed(tmp_path / "release.tar.gz")
    link = tmp_path / "link.tar.gz"
    link.symlink_to(archive)
    with pytest.raises(release.HostError, match="cannot be opened"):
        install(tmp_path, link)


def test_an_archive_that_was_cut_off_on_the_way_is_refused(tmp_path: Path) -> None:
    archive = packed(tmp_path / "release.tar.gz")
    digest = digest_of(archive)
    archive.write_bytes(archive.read_bytes()[:-1])
    with pytest.raises(release.HostError, match=f"not {digest[:16]}...: it was not copied whole"):
        release.act(Call(tmp_path, archive, digest))
    assert not (tmp_path / "opt").exists()


def test_no_other_user_can_write_to_unpacked_files(tmp_path: Path) -> None:
    """The archive was made under a umask of 0, and the host has a umask of 0."""
    archive = packed(
        tmp_path / "release.tar.gz",
        member("lib", tarfile.DIRTYPE, mode=0o1777),
        member("lib/plugin.so", mode=0o666),
        member("bin/tool", mode=0o6777),
    )
    before = os.umask(0)
    try:
        install(tmp_path, archive)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in (tmp_path / "opt/current/").rglob("*")}
    assert {name: oct(mode) for name, mode in modes.items() if mode & 0o7022} == {}
    assert modes["tool"] == 0o755 and modes["plugin.so"] == 0o644


BAD: list[tuple[str, Callable[[Path], list[tarfile.TarInfo]]]] = [
    ("a name above", lambda _: [member("../evil")]),
    ("an absolute name", lambda outside: [member(str(outside / "evil"))]),
    ("a link outside", lambda outside: [member("lib", tarfile.SYMTYPE, str(outside))]),
    ("a link above", lambda _: [member("python/up", tarfile.SYMTYPE, "../../up")]),
    (
        "a file through a link",
        lambda outside: [member("lib", tarfile.SYMTYPE, str(outside)), member("lib/evil")],
    ),
    (
        "a link that a second one bends",
        lambda _: [
            member("python/deep/l", tarfile.SYMTYPE, "back/../evil"),
            member("python/deep/back", tarfile.SYMTYPE, "../.."),
        ],
    ),
    ("a file over a link", lambda _: [member("lib", tarfile.SYMTYPE, "RELEASE"), member("lib")]),
    ("a hard link", lambda _: [member("lib", tarfile.LNKTYPE, "RELEASE")]),
    ("a device", lambda _: [member("lib", tarfile.CHRTYPE)]),
    ("a FIFO", lambda _: [member("lib", tarfile.FIFOTYPE)]),
]


@pytest.mark.parametrize("members", [each[1] for each in BAD], ids=[each[0] for each in BAD])
def test_a_member_that_reaches_outside_is_refused(
    tmp_path: Path, members: Callable[[Path], list[tarfile.TarInfo]]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    archive = packed(tmp_path / "release.tar.gz", *members(outside), content=b"evil")
    with pytest.raises(release.HostError, match="cannot be unpacked"):
        install(tmp_path, archive)
    assert not (tmp_path / "opt").exists()
    assert list(outside.iterdir()) == []


def test_a_folder_that_other_users_can_write_to_is_refused(tmp_path: Path) -> None:
    """The attack: a user of the host exchanges the programs that root has unpacked."""
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt").chmod(0o777)
    with pytest.raises(release.HostError, match="other users can write to this folder"):
        install(tmp_path, packed(tmp_path / "release.tar.gz"))
    assert list((tmp_path / "opt").iterdir()) == []


def test_links_inside_the_folder_are_unpacked(tmp_path: Path) -> None:
    archive = packed(
        tmp_path / "release.tar.gz",
        member("./lib/", tarfile.DIRTYPE),
        member("lib/release", tarfile.SYMTYPE, "../RELEASE"),
        member("collectors", tarfile.SYMTYPE, "python/pollscope/collectors"),
    )
    folder = install(tmp_path, archive)
    assert (folder / "lib/release").read_text().startswith("distribution ")
    assert str((folder / "collectors").readlink()) == "python/pollscope/collectors"
