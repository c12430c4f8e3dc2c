# SPDX-License-Identifier: BSD-3-Clause
"""Locate the state of a host; every root can be another folder, so knobs also work on a hand-made tree."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pollscope.base.errors import HostError
from pollscope.host.files import PROC, SYS
from pollscope.host.lock import default_lock_path, state_folder

_TOOL_LIMIT_S = 10.0


@dataclass(frozen=True)
class KnobHost:
    """The roots of one host.

    Attributes:
        sysfs: /sys, or a folder with `bus/pci/devices`, `devices/system/cpu`, ... laid out like it.
        proc: /proc, or a folder with `cpuinfo`, `cmdline`, `sys/kernel`, `irq`.
        dev: /dev, or a folder with `cpu/N/msr` and `cpu_dma_latency`.
        usr: /usr, or a folder with `lib/*/dpdk/pmds-*`.
        state_dir: folder of the journals (docs/reference-metrics.md).
        lock_path: the lock that keeps two runs apart.
        emulated: the user has declared that the machine is emulated: also set knobs that it only pretends to have.
            inherited: descriptors that a started tool keeps open, so that a tool that outlives this process keeps the
            lock.
    """

    sysfs: Path = SYS
    proc: Path = PROC
    dev: Path = Path("/dev")
    state_dir: Path = field(default_factory=state_folder)
    lock_path: Path = field(default_factory=default_lock_path)
    emulated: bool = False
    inherited: tuple[int, ...] = ()
    usr: Path = Path("/usr")

    @classmethod
    def at(cls, root: Path) -> "KnobHost":
        """Return a host whose whole state lies under `root` (`sys`, `proc`, `dev`, `usr` and `state` in it)."""
        lock = root / "state" / "host.lock"
        return cls(root / "sys", root / "proc", root / "dev", root / "state", lock, usr=root / "usr")

    @classmethod
    def measuring(cls, root: str | None) -> "KnobHost":
        """Return a host with this host's lock, even if another folder's knobs are set; the lock keeps runs apart."""
        return replace(cls.at(Path(root)), lock_path=default_lock_path()) if root else cls()

    @property
    def cpu_dir(self) -> Path:
        return self.sysfs / "devices/system/cpu"

    @property
    def cpufreq_dir(self) -> Path:
        return self.cpu_dir / "cpufreq"

    @property
    def pci_dir(self) -> Path:
        return self.sysfs / "bus/pci"

    def packages(self) -> dict[int, list[int]]:
        """Return package -> its online processors, both ascending (offline ones have no topology folder)."""
        found: dict[int, list[int]] = {}
        for path in self.cpu_dir.glob("cpu[0-9]*/topology/physical_package_id"):
            try:
                package = int(path.read_text())
            except (OSError, ValueError):  # went offline meanwhile
                continue
            found.setdefault(package, []).append(int(path.parents[1].name.removeprefix("cpu")))
        return {package: sorted(cpus) for package, cpus in sorted(found.items())}

    def boot_id(self) -> str:
        """Return the kernel's name for this boot; empty where it is not known."""
        path = self.proc / "sys/kernel/random/boot_id"
        return read_text(path).strip() if path.is_file() else ""

    def lockdown(self) -> str:
        """Return the active kernel lockdown mode ('none' where the kernel has no lockdown); see kernel_lockdown(7)."""
        try:
            words = (self.sysfs / "kernel/security/lockdown").read_text().split()
        except OSError:
            return "none"
        return next((word.strip("[]") for word in words if word.startswith("[")), "none")

    def run_tool(self, command: Sequence[str]) -> str:
        """Run a program to its end and return its standard output.

        Raises:
            HostError: the program is missing, failed, or did not end in 10 s (it is then ended).
        """
        program = shutil.which(command[0])
        if program is None:
            package = "pciutils" if command[0] == "setpci" else "mstflint"
            raise HostError(f"{command[0]} is not installed", remedy=f"apt-get install {package}")
        try:
            done = subprocess.run(
                [program, *command[1:]],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TOOL_LIMIT_S,
                stdin=subprocess.DEVNULL,
                pass_fds=self.inherited,
                start_new_session=True,  # only pollscope handles Ctrl-C: it must not interrupt a register write
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HostError(f"{command[0]} failed: {error}") from error
        if done.returncode != 0:
            raise HostError(f"{command[0]} failed: {' '.join(done.stderr.split()) or f'exit {done.returncode}'}")
        return done.stdout


def read_text(path: Path) -> str:
    """Return the exact content of a small file, each byte one character, so that it can be written back unchanged.

    Raises:
        HostError: the file cannot be read.
    """
    try:
        return path.read_bytes().decode("latin-1")
    except OSError as error:
        raise HostError(f"cannot be read: {error.strerror}", str(path)) from error


def write_text(path: Path, text: str) -> None:
    """Replace the content of an existing file by one write, as sysfs and procfs want it; never make a file.

    Raises:
        HostError: the file is gone, or the kernel refused the value.
    """
    content = text.encode("latin-1")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            written = os.write(descriptor, content)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise HostError(f"the kernel refused {text.strip()!r}: {error.strerror}", str(path)) from error
    if written != len(content):
        raise HostError(f"only {written} of {len(content)} bytes were taken", str(path))


def writable_reason(path: Path) -> str:
    """Say why a file can never be written by anyone or by this user; empty if it can."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return f"{path}: {error.strerror}"
    if not mode & 0o222:
        return f"{path} is read-only: this kernel does not offer the setting on this machine"
    return "" if os.access(path, os.W_OK) else f"{path} needs root"
