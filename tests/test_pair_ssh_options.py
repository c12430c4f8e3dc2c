# SPDX-License-Identifier: BSD-3-Clause
"""Attack with a hostile SSH configuration of the user: it cannot weaken the connections of a pair."""

import configparser
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ssh_host import SshHost

from pollscope.testbeds.pair import ssh
from pollscope.testbeds.pair.ssh import Remote, root_command, ssh_command

HOSTILE = """\
Host *
  StrictHostKeyChecking no
  NoHostAuthenticationForLocalhost yes
  VerifyHostKeyDNS yes
  UpdateHostKeys yes
  KnownHostsCommand /bin/cat {folder}/everybody
  ForwardAgent yes
  ForwardX11 yes
  ForwardX11Trusted yes
  GSSAPIDelegateCredentials yes
  Tunnel yes
  DynamicForward 127.0.0.1:{port}
  LocalForward {port} 127.0.0.1:22
  RemoteForward {port} 127.0.0.1:22
  PermitLocalCommand yes
  LocalCommand touch {folder}/local-command
  RemoteCommand touch {folder}/remote-command
  ControlMaster auto
  ControlPath {folder}/control
  StdinNull yes
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(HOSTILE.format(folder=tmp_path, port=45999))
    return path


def with_configuration(command: list[str], configuration: Path) -> list[str]:
    at = command.index("ssh") + 1
    return [*command[:at], "-F", str(configuration), *command[at:]]


def effective(command: list[str], configuration: Path) -> dict[str, str]:
    words = with_configuration(command, configuration)
    at = words.index("ssh") + 1
    done = subprocess.run([*words[:at], "-G", *words[at:]], capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def test_the_configuration_cannot_relax_an_option(hostile: Path, tmp_path: Path) -> None:
    remote = Remote(host="server", known_hosts=str(tmp_path / "known_hosts"))
    found = effective(ssh_command(remote, ["true"]), hostile)
    assert found["stricthostkeychecking"] in ("yes", "true")
    assert found["nohostauthenticationforlocalhost"] == "no"
    assert found["verifyhostkeydns"] in ("no", "false")
    assert found["updatehostkeys"] in ("no", "false")
    assert found.get("knownhostscommand", "none") == "none"
    for option in ("forwardagent", "forwardx11", "forwardx11trusted", "permitlocalcommand", "tunnel"):
        assert found[option] in ("no", "false"), option
    assert found["gssapidelegatecredentials"] == "no"
    assert found["clearallforwardings"] == "yes"
    assert found["controlmaster"] == "false"
    assert "remotecommand" not in found
    assert "dynamicforward" not in found and "localforward" not in found and "remoteforward" not in found


def test_the_configuration_cannot_relax_an_option_of_plays(hostile: Path, checkout: Path) -> None:
    settings = configparser.ConfigParser()
    settings.read(checkout / "ansible.cfg")
    found = effective(["ssh", *settings["ssh_connection"]["ssh_args"].split(), "server"], hostile)
    assert found["stricthostkeychecking"] in ("yes", "true")
    off = "nohostauthenticationforlocalhost verifyhostkeydns updatehostkeys forwardagent forwardx11 permitlocalcommand"
    for name in (*off.split(), "gssapidelegatecredentials", "tunnel"):
        assert found.get(name, "no") in ("no", "false"), name
    assert not found.keys() & {"dynamicforward", "localforward", "remoteforward"}


def test_a_connection_runs_only_the_given_command(sshd: SshHost, hostile: Path, tmp_path: Path) -> None:
    command = with_configuration(root_command(Remote(**sshd.remote()), ["env"]), hostile)
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "SSH_CONNECTION" in done.stdout
    assert "SSH_AUTH_SOCK" not in done.stdout and "DISPLAY" not in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config"]


def test_an_unknown_host_on_this_machine_is_refused(sshd: SshHost, hostile: Path) -> None:
    own: dict[str, Any] = sshd.remote(known_hosts="/dev/null")
    done = subprocess.run(
        with_configuration(ssh_command(Remote(**own), ["true"]), hostile), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == ssh.LOST_STATUS
    assert "Host key verification failed" in done.stderr


def test_standard_error_of_a_host_is_bounded(sshd: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh, "LOG_LIMIT_BYTES", 1 << 20, raising=False)
    with (tmp_path / "log").open("ab") as log:
        command = root_command(Remote(**sshd.remote()), ["sh", "-c", "head -c 4000000 /dev/zero >&2"])
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=log, timeout=60)
    assert done.returncode != 0
    assert (tmp_path / "log").stat().st_size == 1 << 20
