# SPDX-License-Identifier: BSD-3-Clause
"""Run a real sshd on 127.0.0.1 with keys and a port of its own; it plays both hosts of a pair."""

import contextlib
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

START_LIMIT_S = 60.0
CONFIG = """\
Port {port}
ListenAddress {address}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
Subsystem sftp internal-sftp
{more}"""


@dataclass
class SshHost:
    """A running sshd.

    Attributes:
        folder: its keys; `known_hosts` names the host key.
        port: on 127.0.0.1.
        process: the daemon; connections are children of it.
        address: where it listens.
    """

    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    address: str = "127.0.0.1"

    def stop(self) -> None:
        """Stop like a host that is switched off: all connections end, also over a silent network."""
        if self.process.poll() is None:
            for pid in self.connections():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        # When unshare(1), which enters a namespace of its own, ends, all processes inside end.
        self.process.kill()
        self.process.wait(10)

    def restart(self) -> None:
        """Start the same host again, with its port and its keys."""
        with (self.folder / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(self.process.args, stderr=log)
        _wait(self.port, self.folder / "sshd.log")

    def remote(self, **other: Any) -> dict[str, Any]:
        """Return the `ssh` section of a testbed file."""
        user = pwd.getpwuid(os.geteuid()).pw_name
        files = {"key": str(self.folder / "user"), "known_hosts": str(self.folder / "known_hosts")}
        own = {} if user == "root" else {"sudo": False}  # programs of tests need no root
        return {"host": self.address, "port": self.port, "user": user, **own, **files, **other}

    def ansible(self, **other: Any) -> dict[str, Any]:
        """Return the variables by which Ansible reaches it."""
        remote = self.remote(**other)
        return {
            "ansible_host": remote["host"],
            "ansible_port": remote["port"],
            "ansible_user": remote["user"],
            "ansible_ssh_private_key_file": remote["key"],
            "ansible_ssh_common_args": f"-F none -o UserKnownHostsFile={remote['known_hosts']}",
        }

    def connections(self) -> list[int]:
        """Return the daemon's children, one for each connection."""
        tasks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in tasks.read_text().split()]


@contextlib.contextmanager
def running_sshd(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    inside: Sequence[str] = (),
    address: str = "127.0.0.1",
    reached_from: Sequence[str] = (),
    settings: str = "",
) -> Iterator[SshHost]:
    """Start sshd; skip the test if there is none.

    Args:
        folder: for its keys and settings.
        environment: what sessions find in their environment.
        inside: command that starts another command in another place, where `folder` has the same path.
        address: where it listens.
        reached_from: as `inside`, where it can be reached from.
        settings: more lines of its configuration.
    """
    program = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if program is None:
        pytest.skip("sshd is not installed (apt-get install openssh-server)")
    if os.geteuid() == 0:  # the folder for privilege separation, which its service would make
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port = free_port()
    known = (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text(f"[{address}]:{port} {known}")
    pairs = " ".join(f"{name}={value}" for name, value in (environment or {}).items())
    more = settings + (f"SetEnv {pairs}\n" if pairs else "")
    (folder / "sshd_config").write_text(CONFIG.format(address=address, port=port, folder=folder, more=more))
    with (folder / "sshd.log").open("wb") as log:
        process = subprocess.Popen([*inside, program, "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    host = SshHost(folder, port, process, address)
    try:
        _wait(port, folder / "sshd.log", address, reached_from)
        yield host
    finally:
        host.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(port: int, log: Path, address: str = "127.0.0.1", reached_from: Sequence[str] = ()) -> None:
    connect = f"import socket; socket.create_connection(({address!r}, {port}), 1)"
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if reached_from:
            if subprocess.run([*reached_from, sys.executable, "-c", connect], capture_output=True).returncode == 0:
                return
            continue
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(f"sshd does not answer: {log.read_text()}")


def agent_program(path: Path, state: Path, before: str = "") -> Path:
    """Return `pollscope` of one host of a pair: this interpreter and package, and a state folder (journal, lock)."""
    run = "from pollscope.cli import main; main()"
    own = {"POLLSCOPE_STATE_DIR": state, "PYTHONPATH": Path(__file__).parent.parent}
    exports = "".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in own.items())
    path.write_text(f'#!/bin/sh\n{exports}{before}\nexec {shlex.quote(sys.executable)} -c {shlex.quote(run)} "$@"\n')
    path.chmod(0o755)
    return path
