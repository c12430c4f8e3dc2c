# SPDX-License-Identifier: BSD-3-Clause
"""Follow docs/two-servers.md by its commands alone: a laptop with Python and SSH, two servers (Debian 13, Ubuntu).

Each is a system of its own in a network namespace, with a user, a real sudo and a real sshd that lets no root in. The
servers reach no mirror, so their packages come in archives (`build-release --offline`). Nodes are the real ones, joined
by a veth pair. What this machine's kernel is not asked for: hugepages, boot parameters, drivers of NICs; so no reboot.
"""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from debian import MakeSystem, clean_environment
from walking import LOGS, Laptop, install, make_archive, make_laptop, make_wheel, prepared

SERVERS = {"dut": ("trixie", "10.77.0.2"), "generator": ("noble", "10.77.0.3")}
LAPTOP = "10.77.0.1"
SERVER_PACKAGES = ["openssh-server", "sudo", "python3", "iproute2", "procps", "kmod", "ca-certificates"]
ROLES = ["common", "dpdk", "pollscope_apps", "stress_ng"]
# Only the steps that any site takes on a new machine.
SITE = """set -e
useradd -m -s /bin/bash ada
echo 'ada ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ada
install -d -o ada -m 700 /home/ada/.ssh
install -o ada -m 600 /share/id_ed25519.pub /home/ada/.ssh/authorized_keys
echo 'PermitRootLogin no' >/etc/ssh/sshd_config.d/site.conf
ssh-keygen -A
cp /etc/ssh/ssh_host_ed25519_key.pub /share/NAME.pub
"""
# The example with names and user, then the values from `testbed check` and the cable.
EDIT = """
from ruamel.yaml import YAML
yaml = YAML()
with open("lab.yaml") as file:
    lab = yaml.load(file)
for role, address, main, cpu in (("dut", "10.77.0.2", 0, 1), ("generator", "10.77.0.3", 1, 0)):
    lab[role]["ssh"].update(host=address, user="ada")
    if STEP == 2:
        lab[role].update(ports={"rx": "net_af_packet0", "tx": "net_af_packet0", "queues": 1}, main_cpu=main, cpus=[cpu])
        lab[role].update(memory_mib=512, vdevs=["net_af_packet0,iface=data"])
with open("lab.yaml", "w") as file:
    yaml.dump(lab, file)
"""

pytestmark = [pytest.mark.machine, pytest.mark.timeout(5400)]


@contextmanager
def network() -> Iterator[Mapping[str, tuple[str, ...]]]:
    """Yield command prefixes for three namespaces with one management network and one cable."""
    keepers = {name: subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for name in ("laptop", *SERVERS)}
    try:
        own = Path("/proc/self/ns/net").readlink()
        while any(Path(f"/proc/{keeper.pid}/ns/net").readlink() == own for keeper in keepers.values()):
            time.sleep(0.01)
        pid = {name: str(keeper.pid) for name, keeper in keepers.items()}
        inside = {name: ("nsenter", "--target", pid[name], "--net") for name in keepers}

        def ip(name: str, *lines: str) -> None:
            for line in lines:
                subprocess.run([*inside[name], "ip", *line.split()], check=True)

        ip("laptop", "link add lab type bridge", f"address add {LAPTOP}/24 dev lab", "link set lab up")
        for name, (_, address) in SERVERS.items():
            ip(
                "laptop",
                f"link add {name} type veth peer name mgmt netns {pid[name]}",
                f"link set {name} master lab up",
            )
            ip(name, f"address add {address}/24 dev mgmt", "link set mgmt up", "link set lo up")
            ip(name, f"route add default via {LAPTOP}")
        ip("dut", f"link add data type veth peer name data netns {pid['generator']}")
        for name in SERVERS:  # no frames but those that were sent
            subprocess.run([*inside[name], "sysctl", "-qw", "net.ipv6.conf.data.disable_ipv6=1"], check=True)
            ip(name, "link set data up")
        yield inside
    finally:
        for keeper in keepers.values():
            keeper.kill()
            keeper.wait()


@pytest.fixture
def walk(make_system: MakeSystem, checkout: Path, tmp_path: Path) -> Iterator[Laptop]:
    """Prepare a site: a laptop, two servers with users, archives from a machine with network access."""
    share = tmp_path / "share"
    share.mkdir()
    make_wheel(checkout, share)
    with ExitStack() as stack:
        laptop = stack.enter_context(make_laptop(make_system, share))
        inside = stack.enter_context(network())
        for name, (suite, _) in SERVERS.items():
            make_archive(make_system, suite, share, "--offline")
            server = stack.enter_context(make_system(suite, ["git", "make", "python3"]))
            prepared(server, share, install(SERVER_PACKAGES), SITE.replace("NAME", name))
            sshd = ["sh", "-c", "mkdir -p /run/sshd && exec /usr/sbin/sshd -D -e"]
            words = replace(server, inside=inside[name]).words(sshd)
            with (tmp_path / f"sshd-{name}.log").open("w") as log:
                process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log, env=clean_environment())
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield replace(laptop, system=replace(laptop.system, inside=inside["laptop"]))


def inventory() -> str:
    """Return inventory-intel with names, user, NICs and archives, but nothing that changes this machine's kernel."""
    common = {
        "ansible_user": "ada",
        "pollscope_nics": ["0000:3b:00.0"],
        "common_offline": True,
        "pollscope_roles": ROLES,
    }
    groups = {
        name: {"hosts": {name: {"ansible_host": address, "pollscope_apps_archive": f"/share/{suite}.tar.gz"}}}
        for name, (suite, address) in SERVERS.items()
    }
    return json.dumps({"all": {"vars": common}, **groups})


def test_from_two_bare_servers_to_a_report(walk: Laptop) -> None:
    for name, (_, address) in SERVERS.items():
        walk(
            f"echo '{address} '$(cat /share/{name}.pub) >>~/.ssh/known_hosts && ssh -o BatchMode=yes ada@{address} true"
        )
        walk(f"! ssh -o BatchMode=yes root@{address} true")
    walk("pollscope testbed example pair >lab.yaml")
    (walk.share / "edit.py").write_text(EDIT)
    walk("sed 's/STEP/1/' /share/edit.py | python3")
    said = walk("pollscope testbed check lab.yaml", code=3)
    assert "ada, without a password" in said and "there is no such device" in said
    walk("pollscope testbed example inventory-intel >lab-hosts.yml")
    (walk.share / "lab-hosts.yml").write_text(inventory())
    walk("cp /share/lab-hosts.yml .")
    assert "to install: " in walk("pollscope play provision -i lab-hosts.yml --check")
    walk("pollscope play provision -i lab-hosts.yml")
    assert walk("pollscope play provision -i lab-hosts.yml ").strip() == "nothing to change"
    walk("pollscope play verify -i lab-hosts.yml")
    walk("sed 's/STEP/2/' /share/edit.py | python3")
    assert walk("pollscope testbed check lab.yaml").splitlines()[-1] == "ready"
    walk("pollscope run SANITY-PAIR --testbed lab.yaml")
    walk("pollscope report latest --out report.html && cp report.html /share")
    assert (walk.share / "report.html").stat().st_size > 10_000
    walk("pollscope play restore -i lab-hosts.yml")
    for _, address in SERVERS.values():
        left = walk(f"ssh ada@{address} 'ls -A /opt /var/lib/pollscope; command -v dpdk-testpmd stress-ng'", code=1)
        assert "testpmd" not in left
    LOGS.mkdir(parents=True, exist_ok=True)
    shutil.copy(walk.share / "report.html", LOGS / "walk.html")
    (LOGS / "walk-seconds.json").write_text(json.dumps(walk.took_s, indent=1))
