# SPDX-License-Identifier: BSD-3-Clause
"""Run machines that pollscope did not make: a disk as a site's installer leaves it, and QEMU.

Debian or Ubuntu with the distribution's kernel, GRUB by its own installer, systemd-networkd, an SSH server that lets no
root in, and a user with sudo. What is not a site's: words for the kernel of an emulated machine on a busy host.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from debian import NoChroot, clean_environment

from pollscope.testbeds.vm.image import KERNEL_WORDS, tsc_khz
from pollscope.testbeds.vm.machine import QEMU

PACKAGES = (
    *("systemd-sysv", "dbus", "udev", "kmod", "openssh-server", "sudo", "python3", "procps", "iproute2", "zstd"),
    *("initramfs-tools", "grub-pc-bin", "grub2-common", "fdisk", "e2fsprogs", "systemd-timesyncd", "ca-certificates"),
)
KERNELS = {"trixie": "linux-image-amd64", "noble": "linux-image-virtual"}
# As the cloud images of both have it: Ubuntu's words lie in a file of their own, which the last one wins over.
GRUB = {
    "trixie": (
        "etc/default/grub",
        'GRUB_TIMEOUT=0\nGRUB_TERMINAL="console serial"\n'
        'GRUB_CMDLINE_LINUX="console=tty0 console=ttyS0,115200 WORDS"\n',
    ),
    "noble": (
        "etc/default/grub.d/50-cloudimg-settings.cfg",
        "GRUB_TIMEOUT=0\nGRUB_RECORDFAIL_TIMEOUT=0\nGRUB_TERMINAL=console\n"
        'GRUB_CMDLINE_LINUX_DEFAULT="console=tty1 console=ttyS0 WORDS"\n',
    ),
}
MANAGEMENT_MAC, LINK_MAC = "52:54:00:77:00:0", "52:54:00:77:01:0"
# All mounts end with the mount namespace that this runs in; loop devices with the trap. Kernels are known that see no
# partitions in a file, so the partition has a loop device of its own, by a name for which GRUB does not look into the
# file, and the boot loader is put where grub-install would put it; the menu is by the system's own update-grub.
MAKE = """
root=$1 disk=$2 files=$3 name=$4
truncate -s 10G "$disk"
whole=$(losetup --find --show "$disk") part=$(losetup --find --show --offset 1048576 "$disk")
trap 'umount -R /mnt || true; losetup -d "$part" "$whole"' EXIT
mount --rbind /dev "$root/dev"
echo 'start=2048, type=83, bootable' | chroot "$root" sfdisk --quiet --no-reread --label dos "$whole"
umount -R "$root/dev"
mke2fs -q -t ext4 "$part"
mount -t tmpfs tmpfs /media
cp -a "$part" /media/disk1
mount /media/disk1 /mnt
cp -a "$root/." /mnt
cp -rT "$files" /mnt
uuid=$(blkid -s UUID -o value "$part")
echo "UUID=$uuid / ext4 defaults 0 1" >/mnt/etc/fstab
echo "$name" >/mnt/etc/hostname
echo "127.0.0.1 localhost $name" >/mnt/etc/hosts
: >/mnt/etc/machine-id
mount -t proc proc /mnt/proc
mount -t tmpfs tmpfs /mnt/dev
cp -a /dev/null /dev/zero /dev/urandom /mnt/dev
mount --rbind /media /mnt/media
mkdir -p /mnt/dev/disk/by-uuid
ln -s /media/disk1 "/mnt/dev/disk/by-uuid/$uuid"
cat >/mnt/dev/set-up <<'END'
useradd -m -s /bin/bash ada
echo 'ada ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ada
chown -R ada: /home/ada && chmod 700 /home/ada/.ssh
rm -f /etc/ssh/ssh_host_*
ssh-keygen -q -A
systemctl -q enable systemd-networkd
mkdir -p /boot/grub
cp -r /usr/lib/grub/i386-pc /boot/grub
update-grub
echo 'set prefix=(hd0,msdos1)/boot/grub' >/dev/early
grub-mkimage -O i386-pc -o /boot/grub/i386-pc/core.img -c /dev/early -p '(hd0,msdos1)/boot/grub' \\
    biosdisk part_msdos ext2 normal
END
chroot /mnt sh -eu /dev/set-up
dd if=/mnt/boot/grub/i386-pc/boot.img of="$whole" bs=440 count=1 conv=notrunc status=none
dd if=/mnt/boot/grub/i386-pc/core.img of="$whole" bs=512 seek=1 conv=notrunc status=none
cp /mnt/etc/ssh/ssh_host_ed25519_key.pub "$files"
"""


@dataclass(frozen=True)
class Site:
    """One bare machine.

    Attributes:
        name: its host name.
        number: 2 to 9, distinct.
        suite: the release that its disk has.
        folder: where its disk and its files are.
    """

    name: str
    number: int
    suite: str
    folder: Path

    @property
    def address(self) -> str:
        """Return the address of its SSH server on this host's loopback interface."""
        return f"127.77.0.{self.number}"

    @property
    def disk(self) -> Path:
        return self.folder / f"{self.name}.img"

    @property
    def console(self) -> Path:
        """Return the file that holds the output of its serial line."""
        return self.folder / f"{self.name}.console"


def make_disk(site: Site, root: Path, key: str) -> str:
    """Make the disk of a site's machine from the system in `root`; returns its SSH host key.

    Raises:
        NoChroot: no loop device or no mount namespace here.
        RuntimeError: it failed; the message ends with its last lines.
    """
    if not Path("/dev/loop-control").exists():
        raise NoChroot("no loop devices here")
    files = site.folder / f"{site.name}-files"
    path, text = GRUB[site.suite]
    words = KERNEL_WORDS.replace("console=ttyS0 ", "").replace(" net.ifnames=0", "")
    for name, content in {
        path: text.replace("WORDS", f"{words} tsc_early_khz={tsc_khz()}"),
        "etc/systemd/network/10-management.network": "[Match]\nDriver=virtio_net\n[Network]\nDHCP=ipv4\n",
        "etc/ssh/sshd_config.d/10-site.conf": "PermitRootLogin no\nPasswordAuthentication no\n",
        "home/ada/.ssh/authorized_keys": key,
    }.items():
        (files / name).parent.mkdir(parents=True, exist_ok=True)
        (files / name).write_text(content)
    unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", MAKE, "make"]
    words_of = [*unshare, str(root), str(site.disk), str(files), site.name]
    done = subprocess.run(words_of, env=clean_environment(), capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"disk of {site.name}: {' | '.join((done.stdout + done.stderr).splitlines()[-5:])}")
    public = (files / "ssh_host_ed25519_key.pub").read_text()
    shutil.rmtree(files)
    return public


def command(site: Site, peer: Site, memory_mib: int) -> list[str]:
    """Return QEMU's command: two CPUs, a management NIC that reaches the mirrors, and a second NIC with a cable."""
    forward = f"hostfwd=tcp:{site.address}:22-:22"
    link = f"dgram,id=link,local.type=unix,local.path={site.folder / site.name}.link"
    return [
        *(QEMU, "-name", site.name, "-nodefaults", "-vga", "std", "-display", "none"),
        *("-machine", "q35,kernel-irqchip=split,smbus=off", "-accel", "tcg,thread=multi", "-cpu", "max,la57=off"),
        *("-smp", "2", "-m", str(memory_mib), "-serial", f"file:{site.console}"),
        *("-device", "intel-iommu,intremap=on,caching-mode=on"),
        *("-drive", f"file={site.disk},if=virtio,format=raw,cache=unsafe"),
        *("-netdev", f"user,id=management,{forward}"),
        *("-device", f"virtio-net-pci,netdev=management,mac={MANAGEMENT_MAC}{site.number}"),
        *("-device", "pcie-root-port,id=slot1,slot=1,chassis=1"),
        *("-netdev", f"{link},remote.type=unix,remote.path={peer.folder / peer.name}.link"),
        *("-device", f"e1000e,netdev=link,bus=slot1,mac={LINK_MAC}{site.number}"),
    ]


@contextmanager
def running(sites: tuple[Site, Site], memory_mib: int) -> Iterator[None]:
    """Run both machines; cut their power afterwards.

    Raises:
        NoChroot: QEMU is not installed.
    """
    if shutil.which(QEMU) is None:
        raise NoChroot(f"{QEMU} is not installed")
    processes = []
    try:
        for site, peer in (sites, sites[::-1]):
            with (site.folder / f"{site.name}.log").open("wb") as log:
                words = command(site, peer, memory_mib)
                processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()
