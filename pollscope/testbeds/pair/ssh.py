# SPDX-License-Identifier: BSD-3-Clause
"""Reach another host through OpenSSH, which never asks for input and always checks the host's key."""

import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Annotated

from pydantic import AfterValidator, Field

from pollscope.base.errors import HostError
from pollscope.base.fields import StrictModel
from pollscope.base.units import human_number

# A host that leaves ALIVE_COUNT probes in a row unanswered is lost. The node there ends because its input closes.
ALIVE_INTERVAL_S, ALIVE_COUNT = 3, 4
CONNECT_LIMIT_S = 15
# A remote program that receives nothing for this time ends and restores the host. It is longer than this side's own
# limit, so that this side gives up first.
_HEARTBEAT_TIMEOUT_S = 20
LOST_STATUS = 255  # exit status of ssh(1) for a failed connection, whatever the remote program did
# ssh appends the remote standard error to a log file. With a file size limit a host cannot fill the disk with it.
LOG_LIMIT_BYTES = 64 << 20
# Output of a command that runs to its end, for example of a build.
OUTPUT_LIMIT_BYTES = 16 << 20
# The user's ssh configuration may say otherwise, but options on the command line take precedence (ssh_config(5)).
FIXED_OPTIONS = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "NoHostAuthenticationForLocalhost=no",
    "VerifyHostKeyDNS=no",
    "UpdateHostKeys=no",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ForwardX11Trusted=no",
    "GSSAPIDelegateCredentials=no",
    "Tunnel=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "SessionType=default",
    "StdinNull=no",
    "ForkAfterAuthentication=no",
    "ControlMaster=no",
    "ControlPath=none",
    "LogLevel=ERROR",
)

# The patterns exclude words that ssh would read as an option or that its configuration would expand.
_HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9\[][A-Za-z0-9.:_\[\]-]*$")]
_UserName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")]


def _expanded(path: str) -> str:
    return str(Path(path).expanduser())


FilePath = Annotated[str, Field(min_length=1), AfterValidator(_expanded)]


class Remote(StrictModel):
    """Describe how to reach a host."""

    host: _HostName = Field(description="name or address")
    port: int = Field(default=22, ge=1, le=65535)
    user: _UserName = "root"
    key: FilePath | None = Field(default=None, description="private key; default: ssh's own choice")
    known_hosts: FilePath | None = Field(default=None, description="file with the host's key; default: the user's")
    sudo: bool | None = Field(default=None, description="become root by sudo there; default: if the user is not root")
    patience: int = Field(default=1, ge=1, le=100, description="factor for time limits of this host")

    @property
    def becomes_root(self) -> bool:
        """Return whether remote programs that need root are started through sudo."""
        return self.user != "root" if self.sudo is None else self.sudo

    @property
    def heartbeat_timeout_s(self) -> int:
        """Return how long a remote program waits for a sign of life."""
        return self.patience * _HEARTBEAT_TIMEOUT_S

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"


def root_command(remote: Remote, command: Sequence[str]) -> list[str]:
    """Return the argument vector that runs a program there as root, with its standard error bounded.

    A user other than root goes through sudo, which never asks.
    """
    sudo = ["sudo", "-n", "--"] if remote.becomes_root else []
    return ["prlimit", f"--fsize={LOG_LIMIT_BYTES}", "--", *ssh_command(remote, [*sudo, *command])]


def ssh_command(remote: Remote, command: Sequence[str]) -> list[str]:
    """Return the argument vector that runs `command` there with its standard streams and each word unchanged."""
    options = [
        *FIXED_OPTIONS,
        f"ConnectTimeout={remote.patience * CONNECT_LIMIT_S}",
        f"ServerAliveInterval={ALIVE_INTERVAL_S}",
        f"ServerAliveCountMax={remote.patience * ALIVE_COUNT}",
        *_files(remote),
    ]
    words = ["ssh", "-T", "-p", str(remote.port), *(word for option in options for word in ("-o", option))]
    # sshd passes the command to the user's shell as one line. Quoting preserves the words.
    return [*words, "-l", remote.user, "--", remote.host, shlex.join(command)]


def run_ssh(
    remote: Remote, command: Sequence[str], limit_s: float, text: str | IO[bytes] = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command there to its end, with `text` as its input; its output may have OUTPUT_LIMIT_BYTES.

    Raises:
        HostError: there is no ssh here, no end within `limit_s`, or too much output.
    """
    if shutil.which("ssh") is None:
        raise HostError("ssh is not installed", str(remote), "apt-get install openssh-client")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as given:
        if isinstance(text, str):
            given.write(text.encode())
            given.seek(0)
        limited = ["prlimit", f"--fsize={OUTPUT_LIMIT_BYTES}", "--", *ssh_command(remote, command)]
        stdin = given if isinstance(text, str) else text
        try:
            status = subprocess.run(limited, stdin=stdin, stdout=out, stderr=err, timeout=limit_s).returncode
        except subprocess.TimeoutExpired:
            raise HostError(f"no answer in {human_number(limit_s)} s", str(remote)) from None
        if status == -signal.SIGXFSZ:
            raise HostError(f"sent more than {OUTPUT_LIMIT_BYTES >> 20} MiB", str(remote))
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode(errors="replace"))
    return subprocess.CompletedProcess(limited, status, *said)


def run_there(remote: Remote, command: Sequence[str], limit_s: float, text: str = "") -> tuple[str, str]:
    """Run a command there with `text` as its input; return its output and why it failed (empty if it did not)."""
    try:
        done = run_ssh(remote, command, limit_s, text)
    except HostError as error:
        return "", error.what
    said = done.stderr.strip().splitlines()
    return done.stdout, "" if done.returncode == 0 else (said[-1] if said else f"status {done.returncode}")


def _files(remote: Remote) -> list[str]:
    options = []
    if remote.key is not None:
        options += [f"IdentityFile={_quoted(remote.key)}", "IdentitiesOnly=yes", "IdentityAgent=none"]
    if remote.known_hosts is not None:
        options += [f"UserKnownHostsFile={_quoted(remote.known_hosts)}", "GlobalKnownHostsFile=/dev/null"]
        options += ["KnownHostsCommand=none"]
    return options


def _quoted(path: str) -> str:
    # In ssh_config(5), values with spaces need double quotes, and % begins a token.
    return '"' + path.replace("%", "%%") + '"'
