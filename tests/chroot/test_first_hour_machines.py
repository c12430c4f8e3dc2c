# SPDX-License-Identifier: BSD-3-Clause
"""Follow docs/two-servers.md by its commands alone on two bare machines in QEMU: Debian 13 and Ubuntu 24.04.

The machines are as a site installs them. Boot parameters, reboots, hugepages, drivers of NICs and packages from the
mirror are real. The programs are built on systems of the two releases beside them: an emulated compiler takes minutes
for each file.

Not part of `make test`: three quarters of an hour on two CPUs (make walk-test).
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from bare_machine import KERNELS, PACKAGES, Site, make_disk, running
from debian import MakeSystem, NoChroot, base_system
from walking import LOGS, Laptop, make_archive, make_laptop, make_wheel

NIC, MEMORY_MIB = "0000:01:00.0", 4096
# The example with names and user, then the output of `testbed check`. Two options are for emulated machines.
EDIT_LAB = """
from ruamel.yaml import YAML
yaml = YAML()
with open("lab.yaml") as file:
    lab = yaml.load(file)
for role, address in (("dut", "127.77.0.2"), ("generator", "127.77.0.3")):
    lab[role]["ssh"].update(host=address, user="ada", patience=5)
    lab[role]["emulated"] = True
    if STEP == 2:
        lab[role].update(ports={"rx": NIC, "tx": NIC, "queues": 1}, cpus=[1])
with open("lab.yaml", "w") as file:
    yaml.dump(lab, file)
"""
EDIT_HOSTS = """
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString as quoted
yaml = YAML()
with open("lab-hosts.yml") as file:
    lab = yaml.load(file)
lab["all"]["vars"].update(ansible_user="ada", iommu_reboot_timeout_s=1800)
for role, address, suite in (("dut", "127.77.0.2", "trixie"), ("generator", "127.77.0.3", "noble")):
    own = {"pollscope_nics": [quoted(NIC)], "cpu_isolation_cpus": "1"}
    lab[role]["hosts"] = {address: {**own, "pollscope_apps_archive": f"/share/{suite}.tar.gz"}}
del lab["all"]["vars"]["cpu_power_governor"]
with open("lab-hosts.yml", "w") as file:
    yaml.dump(lab, file)
"""
# The state that the plays change: packages, boot parameters in files and in the kernel, pages, driver, modules.
LEFT = """dpkg-query -W -f '${db:Status-Abbrev}${Package}\\n' | sort | md5sum; cat /proc/cmdline
grep -h '^[[:space:]]*linux' /boot/grub/grub.cfg; ls -A /etc/default/grub.d /opt /var/lib/pollscope 2>&1
cat /proc/sys/vm/nr_hugepages /proc/sys/kernel/perf_event_paranoid
readlink /sys/bus/pci/devices/0000:01:00.0/driver; grep -c hugetlbfs /proc/mounts"""

pytestmark = [pytest.mark.machine, pytest.mark.timeout(3 * 3600)]


@pytest.fixture
def walk(make_system: MakeSystem, checkout: Path, tmp_path: Path) -> Iterator[Laptop]:
    """Yield a laptop, and two machines that answer it."""
    share = tmp_path / "share"
    share.mkdir()
    make_wheel(checkout, share)
    with make_laptop(make_system, share) as laptop:
        sites = Site("dut", 2, "trixie", tmp_path), Site("generator", 3, "noble", tmp_path)
        try:
            for site in sites:
                make_archive(make_system, site.suite, share)
                packages = [*PACKAGES, KERNELS[site.suite]]
                root = base_system(site.suite, packages, checkout / ".cache/walk")
                public = make_disk(site, root, (share / "id_ed25519.pub").read_text())
                with (share / "known_hosts").open("a") as file:
                    file.write(f"{site.address} {public}")
            with running(sites, MEMORY_MIB):
                yield laptop
        except NoChroot as reason:
            pytest.skip(str(reason))
        finally:
            for site in sites:
                site.disk.unlink(missing_ok=True)


def edited(laptop: Laptop, script: str, name: str) -> None:
    """Change a file as a user does in an editor."""
    (laptop.share / name).write_text(script.replace("NIC", repr(NIC)))
    laptop(f"python3 /share/{name}")


def test_from_two_bare_machines_to_a_report(walk: Laptop) -> None:
    addresses = "127.77.0.2", "127.77.0.3"
    walk("cp /share/known_hosts ~/.ssh")
    for address in addresses:
        walk(f"until ssh -o BatchMode=yes -o ConnectTimeout=60 ada@{address} true; do sleep 2; done")
        walk(f"! ssh -o BatchMode=yes root@{address} true")
    before = [walk(f"ssh ada@{address} sudo sh <<'END'\n{LEFT}\nEND") for address in addresses]
    walk("pollscope testbed example pair >lab.yaml")
    edited(walk, EDIT_LAB.replace("STEP", "1"), "edit-1.py")
    said = walk("pollscope testbed check lab.yaml", code=3)
    assert "ada, without a password" in said and "there is no such device" in said and NIC in said, said
    edited(walk, EDIT_LAB.replace("STEP", "2"), "edit-2.py")
    walk("pollscope testbed example inventory-intel >lab-hosts.yml")
    edited(walk, EDIT_HOSTS, "edit-3.py")
    assert "to install: " in walk("pollscope play provision -i lab-hosts.yml --check")
    walk("pollscope play provision -i lab-hosts.yml")
    # The space, like `#` below, makes the line differ from the one before: times are kept by line.
    assert walk("pollscope testbed check lab.yaml ").splitlines()[-1] == "ready"
    # A claim that noise leaves open ends it with 1. The page's second run takes an hour between emulated machines.
    walk("pollscope run SANITY-PAIR --testbed lab.yaml || [ $? = 1 ]")
    walk("pollscope report latest --out report.html && cp report.html /share")
    assert (walk.share / "report.html").stat().st_size > 10_000
    walk("pollscope play restore -i lab-hosts.yml")
    after = [walk(f"ssh ada@{address} sudo sh <<'END' #\n{LEFT}\nEND") for address in addresses]
    assert after == before
    LOGS.mkdir(parents=True, exist_ok=True)
    shutil.copy(walk.share / "report.html", LOGS / "machines.html")
    (LOGS / "machines-seconds.json").write_text(json.dumps(walk.took_s, indent=1))
