# SPDX-License-Identifier: BSD-3-Clause
"""The disk image of a virtual machine: Debian with kernel, boot loader, SSH server, DPDK and pollscope's release.

Node, co-runner and agent are those of any pair: the archive of playbooks/build-release, where the role pollscope_apps
puts it. Made by mmdebstrap from this host's own mirror, without loop devices or mounts: `mke2fs -d` fills the
partition, and GRUB is put where its own installer would put it. The image is cached under a hash of its inputs. It
holds no
key: a machine gets its keys as a systemd credential when it starts (machine.py).
"""

import hashlib
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pollscope.base.errors import HostError
from pollscope.base.paths import data_folder, files_below, node_program
from pollscope.base.source_tree import source_tree
from pollscope.host.eal_folders import new_file_prefix, remove_folder
from pollscope.host.lock import start_ticks
from pollscope.node.client import NodeClient

_CONTENT: dict[str, Any] = YAML(typ="safe").load(data_folder("configs") / "vm-image.yaml")
PACKAGES, OFFERED = _CONTENT["packages"], _CONTENT["offered"]
_ARCHIVES = "/var/cache/pollscope"
# A machine needs no manuals, and its disk need not be crash-safe while it is made; the first initramfs is small,
# because _configure makes it again.
OPTIONS = (
    "--dpkgopt=force-unsafe-io",
    *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "doc", "locale")),
    "--essential-hook=install -d $1/etc/initramfs-tools/conf.d && "
    "echo MODULES=list >$1/etc/initramfs-tools/conf.d/pollscope",
    "--skip=cleanup/apt/lists",
    f"--customize-hook=mkdir -p $1{_ARCHIVES}/partial && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq -y -d "
    f"--no-install-recommends -o Dir::Cache::archives=$1{_ARCHIVES} install {' '.join(OFFERED)}",
)
# As in the role pollscope_apps; the agent's modules are compiled here, because an emulated machine is slow.
RELEASES, IN_USE = "opt/pollscope/releases", "opt/pollscope/current"
# Parts of the release (playbooks/build-release).
SOURCES = ("apps", "pollscope", "configs", "playbooks/build-release", "requirements.lock", "pyproject.toml", "setup.py")
_ROOT_DEVICE = "/dev/vda1"
DISK_MIB, SECTOR_BYTES, FIRST_SECTOR = 3072, 512, 2048
_BOOT_CODE_BYTES = 440  # of the first sector; the partition table follows (GRUB's boot.S)
_FAR_AHEAD_S = 1 << 32  # in 2106
BUILD_LIMIT_S = 1800
KERNEL_WORDS = _CONTENT["kernel_words"]
MANAGEMENT = "pollscope-management.service"
_FILES = {
    **_CONTENT["files"],
    # Drivers that udev would load although no trial needs them.
    "etc/modprobe.d/pollscope.conf": "".join(f"blacklist {name}\n" for name in _CONTENT["unwanted_modules"]),
}


@dataclass(frozen=True)
class Recipe:
    """Describe the contents of an image.

    Attributes:
        release: Debian's name of it.
        cache: the folder of images.
    """

    release: str
    cache: Path

    @property
    def system(self) -> Path:
        """Return the packed base system without pollscope, which most images share."""
        return self.cache / f"system-{self.release}-{_digest([*PACKAGES, *OPTIONS])}.tar"

    @property
    def disk(self) -> Path:
        """Return the finished image."""
        parts = [self.system.name, _processor(), *_sources()]
        return self.cache / f"disk-{self.release}-{_digest(parts)}.img"


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _sources() -> list[str]:
    """Return the files of the release, this one among them."""
    tree = source_tree()
    found = (path for name in SOURCES for path in (tree / name, *files_below(tree / name)))
    files = sorted(path for path in found if path.is_file())
    return [f"{path.relative_to(tree)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files]


def _processor() -> str:
    """Return the CPU model, because an image contains the frequency of this host's TSC."""
    return next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")


def provide_image(recipe: Recipe, say: Callable[[str], None]) -> Path:
    """Return the image, and make it if it is missing; older images of the release are removed.

    Raises:
        HostError: this host cannot make it; an incomplete one is removed.
    """
    disk = recipe.disk  # by the present sources: edits during the build lead to another image
    if disk.exists():
        return disk
    build_release = source_tree() / "playbooks/build-release"
    _require_tools()
    words = f"{KERNEL_WORDS} tsc_early_khz={tsc_khz()}"  # runs the node: report a missing one before minutes pass
    recipe.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"making-{process_mark(os.getpid())}-", dir=recipe.cache) as folder:
        work = Path(folder)
        if not recipe.system.exists():
            say(f"making a Debian {recipe.release} with {len(PACKAGES)} packages and what they need (some minutes)")
            _debootstrap(recipe, work / "system.tar")
        say("building pollscope's release for it")
        archive, root = work / "release.tar.gz", work / "root"
        # Without net_crossover: a machine has NICs.
        _run("env", "DRIVER=none", build_release, "--suite", recipe.release, archive)
        root.mkdir()
        _run("tar", "-C", root, "-xf", recipe.system)
        _put_release(archive, root)
        _configure(root, words)
        _make_disk(root, work)
        for old in recipe.cache.glob(f"disk-{recipe.release}-*.img"):
            old.unlink()
        (work / "disk.img").rename(disk)
    return disk


def process_mark(pid: int) -> str:
    """Return pid and start time: no other process ever has both."""
    return f"{pid}-{start_ticks(pid) or 0}"


def clear_leftovers(cache: Path, say: Callable[[str], None]) -> None:
    """Remove the working folders of builds whose process is gone (killed, or the host went down)."""
    mounts = Path("/proc/self/mounts").read_text()
    for folder in sorted(cache.glob("making-*")):
        pid = folder.name.split("-")[1]
        if pid.isdigit() and folder.name.startswith(f"making-{process_mark(int(pid))}-"):
            continue
        if f" {folder.resolve()}/" in mounts:
            raise HostError("something is mounted in the folder of an ended build", str(folder), "umount it")
        say(f"removing {folder.name}, which an ended build left")
        shutil.rmtree(folder)


def _require_tools() -> None:
    if os.geteuid() != 0:
        raise HostError("an image needs root: its files belong to root and others", remedy="run as root")
    for tool, package in (("mmdebstrap", "mmdebstrap"), ("mke2fs", "e2fsprogs"), ("chroot", "coreutils")):
        if shutil.which(tool, path=_PATH) is None:
            raise HostError(f"{tool} is not installed", remedy=f"apt-get install {package}")


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _run(*command: str | Path, limit_s: float = BUILD_LIMIT_S) -> str:
    words = [str(word) for word in command]
    environment = {"PATH": _PATH, "HOME": "/root", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(
            words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"{words[0]}: {error}") from error
    if done.returncode != 0:
        said = " | ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        raise HostError(f"{' '.join(words[:3])}: {said or f'exit {done.returncode}'}")
    return done.stdout


def _debootstrap(recipe: Recipe, path: Path) -> None:
    include = f"--include={','.join(PACKAGES)}"
    _run("mmdebstrap", "--variant=minbase", "--quiet", *OPTIONS, include, recipe.release, path, _mirror())
    path.rename(recipe.system)


def _mirror() -> str:
    form = "--format=$(ORIGIN)|$(COMPONENT)|$(LABEL)|$(REPO_URI)"
    for line in _run("apt-get", "indextargets", form, "Created-By: Packages").splitlines():
        origin, component, label, address = line.split("|")
        if (origin, component, label) == ("Debian", "main", "Debian"):
            return address
    raise HostError("this host's APT sources name no Debian archive", remedy="apt-get update")


def _put_release(archive: Path, root: Path) -> None:
    """Unpack the release as the role pollscope_apps does, and compile its modules."""
    name = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    folder = root / RELEASES / name
    folder.mkdir(parents=True)
    _run("tar", "-C", folder, "--no-same-owner", "-xf", archive)
    (root / IN_USE).symlink_to(f"releases/{name}")
    _run("chroot", root, "python3", "-m", "compileall", "-q", f"/{RELEASES}/{name}/python")


def tsc_khz() -> int:
    """Return the frequency of this host's TSC as the node measures it; emulated machines have the same.

    Raises:
        HostError: the node is not built, or does not start.
    """
    cpu, prefix = min(os.sched_getaffinity(0)), new_file_prefix()
    command = [str(node_program()), "--lcores", f"0@{cpu}", "--no-pci", "--no-huge", "-m", "64"]
    with tempfile.TemporaryDirectory(prefix="pollscope-tsc-") as folder:
        client = NodeClient([*command, "--file-prefix", prefix], Path(folder) / "log")
        try:
            return round(int(client.wait_hello()["tsc_hz"]) / 1000)
        finally:
            client.end()
            remove_folder(prefix)


def _configure(root: Path, words: str) -> None:
    for name, text in _FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text.replace("WORDS", words))
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    wanted = root / "etc/systemd/system/multi-user.target.wants"
    wanted.mkdir(parents=True, exist_ok=True)
    (wanted / MANAGEMENT).symlink_to(f"/etc/systemd/system/{MANAGEMENT}")
    # Skip the first-boot steps: the packages did them (such as the linker's cache) at full speed.
    for name in ("etc/.updated", "var/.updated"):
        (root / name).touch()
    # A machine has no network, so the roles must never consider its package lists outdated (pollscope_packages).
    stamp = root / "var/lib/apt/periodic/update-success-stamp"
    stamp.parent.mkdir(exist_ok=True)
    stamp.touch()
    os.utime(stamp, (_FAR_AHEAD_S, _FAR_AHEAD_S))
    _shorten_boot(root)
    _run("chroot", root, "update-initramfs", "-u", "-k", "all")
    version = next((root / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")
    grub = root / "boot/grub"
    grub.mkdir(exist_ok=True)
    (grub / "grub.cfg").write_text(_CONTENT["menu"].format(version=version, device=_ROOT_DEVICE, words=words))
    shutil.copytree(root / "usr/lib/grub/i386-pc", grub / "i386-pc", ignore=shutil.ignore_patterns("*.img", "*.image"))


def _shorten_boot(root: Path) -> None:
    for unit in _CONTENT["no_units"]:
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    masks = root / "etc/systemd/system-generators"
    masks.mkdir()
    for path in (root / "usr/lib/systemd/system-generators").iterdir():
        if path.name not in _CONTENT["generators"]:
            (masks / path.name).symlink_to("/dev/null")
    for path in (root / "etc/grub.d").iterdir():
        if path.name not in _CONTENT["menu_scripts"]:
            path.chmod(0o644)


def _make_disk(root: Path, work: Path) -> None:
    boot, core = _boot_loader(root)
    disk = work / "disk.img"
    with disk.open("wb") as file:
        file.truncate(DISK_MIB << 20)
    size_kib = (DISK_MIB << 10) - FIRST_SECTOR * SECTOR_BYTES // 1024
    offset = f"offset={FIRST_SECTOR * SECTOR_BYTES}"
    _run("mke2fs", "-q", "-t", "ext4", "-L", "pollscope", "-d", root, "-E", offset, disk, f"{size_kib}k")
    with disk.open("r+b") as file:
        file.write(boot[:_BOOT_CODE_BYTES])
        file.seek(446)  # the first entry of the partition table: bootable, Linux, by sector numbers alone
        sectors = (DISK_MIB << 20) // SECTOR_BYTES - FIRST_SECTOR
        file.write(struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", FIRST_SECTOR, sectors))
        file.seek(510)
        file.write(b"\x55\xaa")
        file.write(core)  # at sector 1, where boot.img expects it


def _boot_loader(root: Path) -> tuple[bytes, bytes]:
    (root / "early.cfg").write_text(_CONTENT["early"])
    prefix = "(hd0,msdos1)/boot/grub"
    command = ("grub-mkimage", "-O", "i386-pc", "-o", "/core.img", "-c", "/early.cfg", "-p", prefix)
    _run("chroot", root, *command, *_CONTENT["grub_modules"])
    core, boot = root / "core.img", root / "usr/lib/grub/i386-pc/boot.img"
    loader = boot.read_bytes(), core.read_bytes()
    assert len(loader[1]) < (FIRST_SECTOR - 1) * SECTOR_BYTES, "BUG: the boot loader does not fit before the partition"
    core.unlink()
    (root / "early.cfg").unlink()
    return loader
