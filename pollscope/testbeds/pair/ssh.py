# SPDX-License-Identifier: BSD-3-Clause
"""The command lines that reach another host: OpenSSH as a program, never asking, host keys always checked."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from pollscope.base.fields import StrictModel

# A host that says nothing for so many seconds, so many times, is gone; the node there ends because its input closes.
ALIVE_INTERVAL_S, ALIVE_COUNT = 3, 4
CONNECT_LIMIT_S = 15
# So long nothing may arrive there; then what the connection started ends, and restores the host. Longer than we are
# patient ourselves, so that it is we who give up first.
_LEASE_S = 20
LOST_STATUS = 255  # of ssh(1): the connection failed, whatever the remote program did

# Nothing that ssh would take for an option, and nothing that its configuration would expand.
_HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9\[][A-Za-z0-9.:_\[\]-]*$")]
_UserName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$")]


def _expanded(path: str) -> str:
    return str(Path(path).expanduser())


FilePath = Annotated[str, Field(min_length=1), AfterValidator(_expanded)]


class Remote(StrictModel):
    """How a host is reached."""

    host: _HostName = Field(description="name or address")
    port: int = Field(default=22, ge=1, le=65535)
    user: _UserName = "root"
    key: FilePath | None = Field(default=None, description="private key; default: what ssh finds")
    known_hosts: FilePath | None = Field(default=None, description="file with the host's key; default: the user's")
    sudo: bool | None = Field(default=None, description="root by sudo there; default: when the user is not root")
    patience: int = Field(default=1, ge=1, le=100, description="so many times the usual time may it be silent")

    @property
    def becomes_root(self) -> bool:
        """Whether what needs root there is started through sudo."""
        return self.user != "root" if self.sudo is None else self.sudo

    @property
    def lease_s(self) -> int:
        """How long what runs there waits for a sign of life."""
        return self.patience * _LEASE_S

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.port}"


def root_command(remote: Remote, command: Sequence[str]) -> list[str]:
    """As `ssh_command`, by root: through a sudo that never asks where the user is another one."""
    return ssh_command(remote, [*(["sudo", "-n", "--"] if remote.becomes_root else []), *command])


def ssh_command(remote: Remote, command: Sequence[str]) -> list[str]:
    """The argument vector that runs `command` there with its standard streams; each word arrives as it is."""
    options = [
        "BatchMode=yes",
        "StrictHostKeyChecking=yes",
        f"ConnectTimeout={remote.patience * CONNECT_LIMIT_S}",
        f"ServerAliveInterval={ALIVE_INTERVAL_S}",
        f"ServerAliveCountMax={remote.patience * ALIVE_COUNT}",
        "LogLevel=ERROR",
        "ControlPath=none",
        "ClearAllForwardings=yes",
        *_files(remote),
    ]
    words = ["ssh", "-T", "-p", str(remote.port), *(word for option in options for word in ("-o", option))]
    # sshd hands the command to the user's shell as one line: quoted, the shell gives the words back unchanged.
    return [*words, "-l", remote.user, "--", remote.host, shlex.join(command)]


def _files(remote: Remote) -> list[str]:
    options = []
    if remote.key is not None:
        options += [f"IdentityFile={_quoted(remote.key)}", "IdentitiesOnly=yes", "IdentityAgent=none"]
    if remote.known_hosts is not None:
        options += [f"UserKnownHostsFile={_quoted(remote.known_hosts)}", "GlobalKnownHostsFile=/dev/null"]
    return options


def _quoted(path: str) -> str:
    # ssh_config(5): values with spaces stand in double quotes, and % begins a token.
    return '"' + path.replace("%", "%%") + '"'
