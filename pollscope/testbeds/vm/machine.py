# SPDX-License-Identifier: BSD-3-Clause
"""Manage one virtual machine: its files, its QEMU process, its identity.

QEMU outlives the command that starts it; a file with its pid and start time identifies our process.
"""

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pollscope.base.errors import HostError
from pollscope.host.lock import start_ticks
from pollscope.testbeds.pair.ssh import Remote, run_there

QEMU = "qemu-system-x86_64"
NIC = "0000:01:00.0"  # address of the first device behind the first root port
_PROBE_LIMIT_S = 30.0  # an emulated machine on a busy host takes seconds for a login
STOP_LIMIT_S = 10.0
# On a busy host a login to an emulated machine took 15 s, which is the limit for others.
_PATIENCE = 5
Accelerator = Literal["kvm", "tcg"]


@dataclass(frozen=True)
class Shape:
    """Describe a machine.

    Attributes:
        cpus, memory_mib: of the machine.
        accelerator: KVM, or TCG with a host thread for each CPU.
        nice: niceness of QEMU on this host.
    """

    cpus: int
    memory_mib: int
    accelerator: Accelerator
    nice: int = 0


class Machine:
    """A machine of a pair; all its files are in `folder`.

    Args:
        name: `dut` or `generator`.
        peer: the name of the other.
        folder: shared by both; holds the keys.

    Attributes:
        console: what the machine wrote on its serial line.
        monitor: the socket of QEMU's machine protocol.
    """

    def __init__(self, name: str, peer: str, folder: Path) -> None:
        self.name, self.peer, self.folder = name, peer, folder
        self.console, self.monitor = self._file("console"), self._file("monitor")

    def _file(self, kind: str) -> Path:
        return self.folder / f"{self.name}.{kind}"

    @property
    def made(self) -> bool:
        """Return whether it has its disk, keys and port."""
        return self._file("port").exists()

    def last_words(self) -> str:
        """Return the last line on its console; empty when there is none."""
        text = self.console.read_text(errors="replace") if self.console.exists() else ""
        lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[^ -~]", "", line).strip() for line in text[-4096:].splitlines()]
        return next((line for line in reversed(lines) if line), "")

    @property
    def remote(self) -> Remote:
        """Return how the machine is reached.

        Raises:
            HostError: it was never made.
        """
        try:
            port = int(self._file("port").read_text())
        except OSError:
            raise HostError(f"there is no machine {self.name}", remedy="pollscope testbed up vm-pair") from None
        key, known_hosts = str(self.folder / "key"), str(self.folder / "known_hosts")
        return Remote(host="127.0.0.1", port=port, user="root", patience=_PATIENCE, key=key, known_hosts=known_hosts)

    def make(self, disk: Path) -> None:
        """Make its disk, an overlay of the image, its host key and its port; do nothing if they exist."""
        if self.made:
            return
        _tool(
            "qemu-img", "create", "-q", "-f", "qcow2", "-b", str(disk.resolve()), "-F", "raw", str(self._file("disk"))
        )
        self._file("host-key").unlink(missing_ok=True)
        _make_key(self._file("host-key"), f"pollscope {self.name}")
        port = _free_port()
        public = self._file("host-key.pub").read_text()
        with (self.folder / "known_hosts").open("a") as file:
            file.write(f"[127.0.0.1]:{port} {public}")
        self._file("credential").write_text(self._identity())
        self._file("credential").chmod(0o600)
        self._file("port").write_text(f"{port}\n")

    def _identity(self) -> str:
        """Return tmpfiles.d(5) lines that the machine applies at its first start, before sshd."""
        key, user = self._file("host-key").read_bytes(), (self.folder / "key.pub").read_bytes()
        return (
            f"f~ /etc/ssh/ssh_host_ed25519_key 0600 root root - {base64.b64encode(key).decode()}\n"
            "d /root/.ssh 0700 root root -\n"
            f"f~ /root/.ssh/authorized_keys 0600 root root - {base64.b64encode(user).decode()}\n"
        )

    def command(self, shape: Shape) -> list[str]:
        """Return QEMU and its arguments."""
        accelerator = "kvm" if shape.accelerator == "kvm" else "tcg,thread=multi"
        mac = "52:54:00:70:73:01" if self.name == "dut" else "52:54:00:70:73:02"
        link = f"dgram,id=link,local.type=unix,local.path={self._file('link')},remote.type=unix"
        credential = f"name=opt/io.systemd.credentials/tmpfiles.extra,file={self._file('credential')}"
        forward = f"hostfwd=tcp:127.0.0.1:{self.remote.port}-:22"
        return [
            *(["nice", "-n", str(shape.nice)] if shape.nice else []),
            # Without a VGA BIOS, GRUB waits forever before its menu.
            *(QEMU, "-name", f"pollscope-{self.name}", "-nodefaults", "-vga", "std", "-display", "none"),
            *("-machine", "q35,kernel-irqchip=split,sata=off,smbus=off", "-accel", accelerator),
            # Walks of five-level page tables would only cost time in emulation.
            *("-cpu", "host" if shape.accelerator == "kvm" else "max,la57=off"),
            *("-smp", str(shape.cpus), "-m", str(shape.memory_mib)),
            *("-serial", f"file:{self.console}", "-qmp", f"unix:{self.monitor},server=on,wait=off"),
            *("-device", "intel-iommu,intremap=on,caching-mode=on"),
            *("-drive", f"file={self._file('disk')},if=virtio,format=qcow2,cache=unsafe"),
            *("-netdev", f"user,id=management,restrict=on,{forward}", "-device", "virtio-net-pci,netdev=management"),
            *("-device", "pcie-root-port,id=slot1,slot=1,chassis=1"),
            *("-netdev", f"{link},remote.path={self.folder / self.peer}.link"),
            *("-device", f"e1000e,netdev=link,bus=slot1,mac={mac}"),
            *("-fw_cfg", credential),
        ]

    def start(self, shape: Shape) -> None:
        """Start QEMU unless it runs."""
        if self.pid() is not None:
            return
        for kind in ("link", "monitor"):
            self._file(kind).unlink(missing_ok=True)
        with self._file("log").open("wb") as log:
            process = subprocess.Popen(
                self.command(shape), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        owner = {"pid": process.pid, "start_ticks": start_ticks(process.pid)}
        self._file("process").write_text(json.dumps(owner))
        time.sleep(0.5)  # QEMU reports wrong arguments immediately
        if process.poll() is not None:
            said = self._file("log").read_text(errors="replace").strip().splitlines()
            raise HostError(f"QEMU ended: {said[-1] if said else process.returncode}", str(self._file("log")))

    def pid(self) -> int | None:
        """Return QEMU's process; None if it does not run (also if another process has its number now)."""
        try:
            owner = json.loads(self._file("process").read_text())
            pid, ticks = int(owner["pid"]), int(owner["start_ticks"])
        except (OSError, ValueError, TypeError, KeyError):  # never written, or cut off
            return None
        return pid if start_ticks(pid) == ticks else None

    def stop(self) -> None:
        """End QEMU, as pulling the plug does."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if (pid := self.pid()) is None:
                break
            os.kill(pid, number)
            deadline = time.monotonic() + STOP_LIMIT_S
            while self.pid() is not None and not _is_zombie(pid) and time.monotonic() < deadline:
                time.sleep(0.05)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._file("process").unlink(missing_ok=True)

    def answers(self) -> str:
        """Return why it does not answer SSH yet; empty if it does."""
        return run_there(self.remote, ["true"], limit_s=_PROBE_LIMIT_S)[1]


def _tool(*command: str) -> None:
    if shutil.which(command[0]) is None:
        package = "qemu-utils" if command[0].startswith("qemu") else "openssh-client"
        raise HostError(f"{command[0]} is not installed", remedy=f"apt-get install {package}")
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise HostError(f"{command[0]}: {done.stderr.strip()}")


def _make_key(path: Path, comment: str) -> None:
    _tool("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path))


def make_user_key(folder: Path) -> None:
    """Return the key with which this host enters both machines."""
    if not (folder / "key").exists():
        _make_key(folder / "key", "pollscope")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_zombie(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True
