# SPDX-License-Identifier: BSD-3-Clause
"""docs/two-servers.md, walked as far as one machine can: a controller and two hosts in network namespaces, a real sshd
on each that lets no root in, a user with (a stand-in for) sudo, real plays; only the nodes and the NICs are not real.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pair_hosts import SPEC, host_config
from ruamel.yaml import YAML
from run_helpers import Cli, assert_complete
from silent_network import THERE, SilentNetwork, silent_network
from ssh_host import SshHost, running_sshd
from test_playbook_ssh import make_archive

pytestmark = pytest.mark.timeout(900)
USER = "ada"
# Becomes root like sudo and takes Ansible's options; visible only to the hosts' sshd.
SUDO = """
#include <string.h>
#include <unistd.h>
int main(int count, char **words)
{
    int at = 1;
    while (at < count && words[at][0] == '-' && strcmp(words[at], "--") != 0)
        at += strcmp(words[at], "-u") == 0 || strcmp(words[at], "-p") == 0 ? 2 : 1;
    if (at < count && strcmp(words[at], "--") == 0)
        at++;
    if (at >= count || setgid(0) != 0 || setuid(0) != 0)
        return 1;
    execvp(words[at], words + at);
    return 127;
}
"""
# In a mount namespace: one more user, and a sudo.
ENTER = """
set -e
mount --make-rprivate /
for name in passwd group shadow; do
    cp /etc/$name "$0/$name"
    case $name in
    passwd) echo "ada:x:4242:4242::$0/home:/bin/sh" >>"$0/$name" ;;
    group) echo "ada:x:4242:" >>"$0/$name" ;;
    shadow) echo "ada:*:19000::::::" >>"$0/$name" ;;
    esac
    mount --bind "$0/$name" /etc/$name
done
mount -t tmpfs tmpfs "$0/tools"
install -m 4755 "$0/sudo" "$0/tools/sudo"
exec "$@"
"""


@dataclass(frozen=True)
class Lab:
    """Two hosts, and the files that a user writes on the laptop."""

    folder: Path
    network: SilentNetwork
    hosts: dict[str, SshHost]
    cli: Cli

    def pollscope(self, *words: str | Path) -> tuple[int, str]:
        process = self.cli.start(*words)
        out, err = process.communicate(timeout=400)
        assert "Traceback" not in out + err
        return process.returncode, out + err

    def play(self, name: str, *options: str) -> str:
        code = "from pollscope.cli import main; main()"
        command = [sys.executable, "-c", code, "play", name, "-i", self.inventory(), *options]
        inside = self.network.inside_here()
        done = subprocess.run([*inside, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def ssh(self, role: str) -> dict[str, Any]:
        return self.hosts[role].remote(user=USER)

    def inventory(self) -> str:
        variables: dict[str, Any] = {"pollscope_nics": ["0000:17:00.0"], "pollscope_roles": ["pollscope_apps"]}
        variables["pollscope_apps_archive"] = str(self.folder / "release.tar.gz")
        groups: dict[str, Any] = {"all": {"vars": variables}}
        for role in self.hosts:
            own = {**self.hosts[role].ansible(user=USER), "pollscope_apps_prefix": str(self.folder / role / "opt")}
            groups[role] = {"hosts": {f"{role}.example": own}}
        path = self.folder / "lab-hosts.yml"
        path.write_text(json.dumps(groups))
        return str(path)

    def node(self, role: str) -> Path:
        return self.folder / role / "opt/current/bin/pollscope-node"


@pytest.fixture
def lab(cli: Cli) -> Iterator[Lab]:
    if os.geteuid() != 0 or shutil.which("cc") is None:
        pytest.skip("hosts with users of their own need root and a compiler")
    with ExitStack() as stack:
        network = stack.enter_context(silent_network())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pollscope-lab-")))
        folder.chmod(0o755)  # the user reads it as well
        (folder / "sudo.c").write_text(SUDO)
        subprocess.run(["cc", "-O1", "-o", folder / "sudo", folder / "sudo.c"], check=True)
        hosts = {role: stack.enter_context(host_of(folder, role, network)) for role in ("dut", "generator")}
        make_archive(folder / "release.tar.gz")
        cli.inside = network.inside_here()
        yield Lab(folder, network, hosts, cli)


def host_of(folder: Path, role: str, network: SilentNetwork) -> Any:
    place = folder / role
    for name in ("home", "tools"):
        (place / name).mkdir(parents=True)
    os.chown(place / "home", 4242, 4242)
    shutil.copy(folder / "sudo", place / "sudo")
    environment = {"PATH": f"{place / 'tools'}:/usr/sbin:/usr/bin:/sbin:/bin", "POLLSCOPE_STATE_DIR": place / "plays"}
    inside = [*network.inside_there(), "unshare", "--mount", "--", "sh", "-c", ENTER, str(place)]
    more = {name: str(value) for name, value in environment.items()}
    return running_sshd(place, more, inside, THERE, network.inside_here(), "PermitRootLogin no\n")


def test_the_page_names_specs_that_are_there(cli: Cli, checkout: Path) -> None:
    """The commands need no files beside the wheel: the specs are those of the wheel."""
    named = re.findall(r"^ +pollscope run (\S+)", (checkout / "docs/two-servers.md").read_text(), re.MULTILINE)
    done = cli("validate", *named)
    assert (len(named), done.returncode) == (2, 0), done.stderr


@pytest.mark.thorough
def test_two_bare_servers_and_a_laptop(lab: Lab, checkout: Path) -> None:
    # 1. The example, with the names and the user.
    config = YAML(typ="safe").load(checkout / "configs/testbeds/pair.example.yaml")
    for role in lab.hosts:
        config[role] |= {"ssh": lab.ssh(role), "program": str(lab.node(role)), "pollscope": None}
    testbed = lab.folder / "lab.yaml"
    testbed.write_text(json.dumps(config))

    # 2. Missing parts: no such NIC, no node. User and sudo are right, and root cannot log in.
    code, said = lab.pollscope("testbed", "check", testbed, "--json")
    rows = {(row["host"], row["what"]): row for row in json.loads(said)}
    assert code == 3
    assert rows["dut", "NIC 0000:17:00.0"]["text"] == "there is no such device"
    assert rows["dut", "node program"]["state"] == "no"
    assert rows["dut", "sudo"]["text"] == "ada, without a password"
    as_root = json.loads(json.dumps(config))
    as_root["dut"]["ssh"]["user"] = "root"
    testbed.write_text(json.dumps(as_root))
    assert "Permission denied" in lab.pollscope("testbed", "check", testbed)[1]
    for role in lab.hosts:
        config[role] |= {"ports": {"rx": "net_fake0", "tx": "net_fake0", "queues": 1}, "memory_mib": 1024}
        config[role] |= {"main_cpu": 0, "cpus": [1]}
    testbed.write_text(json.dumps(config))

    # 3 and 4. The plays, first without doing anything.
    assert "dut.example: " in lab.play("provision", "--check")
    assert not lab.node("dut").exists()
    lab.play("provision")
    assert lab.play("provision").strip() == "nothing to change"
    code, said = lab.pollscope("testbed", "check", testbed)
    assert (code, said.splitlines()[-1]) == (0, "ready"), said

    # 5. Measure, with nodes that need no NIC.
    for role, host in lab.hosts.items():
        faked = host_config(host, lab.folder / "faked", role)
        config[role] |= {"program": faked["program"], "pollscope": faked["pollscope"]}
    testbed.write_text(json.dumps(config))
    code, said = lab.pollscope("run", lab.cli.spec(SPEC), "--testbed", testbed)
    assert code == 0, said
    assert_complete(lab.cli.only_run())
    assert lab.pollscope("report", "latest", "--out", "report.html")[0] == 0
    assert (lab.cli.folder / "report.html").stat().st_size > 10_000

    # 6. As it was.
    lab.play("restore")
    assert not (lab.folder / "dut/opt").exists()
    assert [path.name for path in (lab.folder / "dut/plays").rglob("*")] == ["host.lock"]
