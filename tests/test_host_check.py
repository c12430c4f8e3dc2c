# SPDX-License-Identifier: BSD-3-Clause
"""Test `pollscope testbed check`: missing parts of hosts, over a real sshd and of described hosts."""

import ast
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pair_hosts import pair_config, written
from pydantic import ValidationError
from run_helpers import Cli
from ssh_host import SshHost, free_port, running_sshd

from pollscope import __version__
from pollscope.testbeds.base import HostFinding
from pollscope.testbeds.pair import host_check, look_at_host
from pollscope.testbeds.pair.boot_mode import one_treatment
from pollscope.testbeds.pair.config import PairHost
from pollscope.testbeds.pair.host_check import SCRIPT, check_host, cpus_of, findings, inventory_findings

NIC = "0000:17:00.0"
NODE, AGENT = "/opt/pollscope/current/bin/pollscope-node", "/opt/pollscope/current/bin/pollscope"


def host(**other: Any) -> PairHost:
    whole = {"ssh": {"host": "dut1"}, "ports": {"rx": NIC, "tx": NIC}, "main_cpu": 0, "cpus": [2, 4, 6]}
    return PairHost.model_validate({**whole, **other})


def test_cpus_and_nics_are_accepted_as_other_tools_print_them() -> None:
    """CPUs as the kernel and the inventory list them, NICs as lspci does."""
    assert [host(cpus=each).cpus for each in ("2-4,8", [2, 3], 5)] == [(2, 3, 4, 8), (2, 3), (5,)]
    ports = host(ports={"rx": "17:00.0", "tx": "0000:3B:00.1"}).ports
    assert (ports.rx, ports.tx) == ("0000:17:00.0", "0000:3b:00.1")
    assert host(ports={"rx": "net_memif0", "tx": "net_memif0"}).ports.rx == "net_memif0"


@pytest.mark.parametrize(
    ("cpus", "what"),
    [("two", "'two' is not a list of CPUs, such as 2-15"), ([2, 2], "names CPU 2 twice"), ("", "at least")],
)
def test_cpus_that_do_not_exist_are_reported(cpus: object, what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        host(cpus=cpus)


def seen(**other: Any) -> dict[str, Any]:
    """Return a host that lacks nothing."""
    nic: dict[str, Any] = {
        "vendor": "0x8086",
        "device": "0x1592",
        "driver": "vfio-pci",
        "node": "1",
        "near_cpus": "0,2,4,6",
    }
    nic |= {"interfaces": [], "firmware": None, "iommu_group": "DMA"}
    whole = {
        "python": "3.13.5",
        "user": "root",
        "root": True,
        "sudo": True,
        "distribution": "debian 13",
        "time_synchronised": True,
        "hugepages": [{"node": node, "size_kib": 2048, "total": 1024, "free": 1024} for node in (0, 1)],
        "nics": {NIC: nic | other.pop("nic", {})},
        "all_nics": ["0000:01:00.0", NIC],
        "ddp_packages": ["/lib/firmware/intel/ice/ddp/ice.pkg"],
        "iommu_groups": 40,
        "online_cpus": "0-7",
        "isolated_cpus": "2,4,6",
        "node_cpus": {"0": "1,3,5,7", "1": "0,2,4,6"},
        "governors": ["performance"],
        "pmu": True,
        "tools": {"perf": "/usr/bin/perf", "pcm": "/usr/sbin/pcm"},
        "programs": {NODE: True, AGENT: True},
        "versions": {AGENT: f"pollscope {__version__}"},
    }
    return {**whole, **other}


def found(config: PairHost | None = None, **other: Any) -> dict[str, HostFinding]:
    return {each.what: each for each in findings("dut", config or host(), seen(**other))}


def test_a_host_that_lacks_nothing() -> None:
    rows = found()
    assert {each.state for each in rows.values()} == {"yes"}
    assert not any(each.remedy for each in rows.values())
    asked = ["login", "sudo", "Python", "time", "hugepages", f"NIC {NIC}", "driver", "DDP package", "firmware"]
    assert {*asked, "IOMMU", "isolated CPUs", "pcm", "PMU", "cpus", "agent", "node program"} <= rows.keys()


@pytest.mark.parametrize(
    ("what", "state", "other", "text", "remedy"),
    [
        ("Python", "no", {"python": "3.9.2"}, "3.9.2", "3.11 or later"),
        ("distribution", "note", {"distribution": "rocky 9.4"}, "rocky 9.4", "by hand"),
        ("time", "note", {"time_synchronised": False}, "on its own", "timedatectl set-ntp true"),
        ("time", "note", {"time_synchronised": None}, "unknown", "timedatectl"),
        ("hugepages", "no", {"hugepages": []}, "node 1: 0 MiB free", "role hugepages"),
        (
            "hugepages",
            "no",
            {"hugepages": [{"node": 0, "size_kib": 2048, "total": 9, "free": 9}]},
            "node 0: 18 MiB free, node 1: 0 MiB free",
            "provision",
        ),
        (f"NIC {NIC}", "no", {"nics": {NIC: None}}, "there is no such device", "NICs there: 0000:01:00.0"),
        ("driver", "no", {"nic": {"driver": "ice"}}, "ice", "role vfio"),
        ("driver", "no", {"nic": {"driver": None}}, "none", "role vfio"),
        ("driver", "no", {"nic": {"vendor": "0x15b3", "driver": "vfio-pci"}}, "vfio-pci", "role vfio"),
        ("driver", "yes", {"nic": {"vendor": "0x15b3", "driver": "mlx5_core"}}, "mlx5_core", ""),
        ("DDP package", "note", {"ddp_packages": []}, "one queue, no RSS", "ice.pkg"),
        ("IOMMU", "note", {"nic": {"iommu_group": None}, "iommu_groups": 0}, "off", "mode=passthrough"),
        ("cpus", "no", {"online_cpus": "0-3"}, "there is no CPU 4", "online are 0-3"),
        ("cpus", "note", {"nic": {"node": "0"}}, "CPU 2 is not on node 0, where the NIC is", "cpus of 1,3,5,7"),
        ("isolated CPUs", "note", {"isolated_cpus": ""}, "none", 'cpu_isolation_cpus: "2,4,6"'),
        ("isolated CPUs", "note", {"isolated_cpus": "2-5"}, "2-5; not 6", 'cpu_isolation_cpus: "2,4,6"'),
        ("node program", "no", {"programs": {NODE: False, AGENT: True}}, NODE, "provision"),
        ("agent", "note", {"versions": {AGENT: None}}, "no collectors, no knobs", "provision"),
        ("agent", "note", {"versions": {AGENT: "pollscope 0.0.1"}}, "pollscope 0.0.1, here is", "provision"),
        ("pcm", "note", {"tools": {"perf": None, "pcm": None}}, "not installed", "role pcm"),
        ("governor", "note", {"governors": []}, "the kernel sets no frequency", "leave cpu_power_governor"),
        ("governor", "note", {"governors": ["powersave"]}, "powersave", "cpu_power_governor: performance"),
        ("PMU", "note", {"pmu": False}, "the kernel shows none", "a bare-metal machine"),
    ],
)
def test_missing_parts_of_a_host_are_reported_with_a_remedy(
    what: str, state: str, other: dict[str, Any], text: str, remedy: str
) -> None:
    row = found(**other)[what]
    assert row.state == state
    assert text in row.text
    assert remedy in row.remedy


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"versions": {AGENT: ""}},
        {"online_cpus": "0-99999999999"},
        {"online_cpus": ",".join(["0-8191"] * 9999)},
        {"online_cpus": 8},
        {"nics": {NIC: []}},
        {"time_synchronised": "perhaps"},
        {"hugepages": [{}]},
    ],
)
def test_an_answer_of_another_form_is_one_row(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> None:
    # A memory limit makes a list that fills the memory fail at once.
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, before[1]))
    monkeypatch.setattr(host_check, "look", lambda _host: seen(**answer) if answer else {})
    try:
        rows = check_host("dut", host())
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert [(each.what, each.state) for each in rows] == [("Python", "no")]
    assert "is not in the form of look_at_host.py" in rows[0].text


def test_the_inventory_is_held_against_the_testbeds_file() -> None:
    def said(**variables: Any) -> list[tuple[str, str, str]]:
        rows = inventory_findings("dut", host(), variables)
        return [(row.state, row.text, row.remedy) for row in rows]

    port = host().ports.rx
    assert said(pollscope_nics=[port], cpu_isolation_cpus="2-6") == [
        ("yes", "isolates 2-6", ""),
        ("yes", f"NICs {port}", ""),
    ]
    assert said(pollscope_nics=["0000:99:00.0"], cpu_isolation_cpus="2-5") == [
        ("note", "isolates 2-5; not 6", 'cpu_isolation_cpus: "2-6"'),
        ("note", "NICs 0000:99:00.0", f"pollscope_nics: [{port}]"),
    ]
    assert said(pollscope_nics=[port]) == [("yes", f"NICs {port}", "")]


def test_a_user_without_root_needs_sudo() -> None:
    ada = host(ssh={"host": "dut1", "user": "ada"})
    given = found(ada, user="ada", root=False, sudo=True)["sudo"]
    assert (given.state, given.text) == ("yes", "ada, without a password")
    lacking = found(ada, user="ada", root=False, sudo=False)["sudo"]
    assert (lacking.state, lacking.text) == ("no", "ada, not without a password")
    assert "ada ALL=(ALL) NOPASSWD: ALL" in lacking.remedy


def test_the_file_itself_is_checked() -> None:
    assert found(host(main_cpu=2))["cpus"].text == "main_cpu 2 is one of cpus"
    assert found(host(memory_mib=1024))["hugepages"].state == "note"
    assert "says sudo: false" in found(host(ssh={"host": "x", "user": "ada", "sudo": False}), root=False)["sudo"].text
    assert "DDP package" not in found(nic={"vendor": "0x15b3"})
    assert cpus_of(None) == cpus_of("") == set()


@pytest.mark.parametrize(
    ("levels", "driver", "said"),
    [
        (["off", "passthrough", "strict"], "vfio-pci", "iommu passthrough, strict are equivalent for 0000:17:00.0"),
        (["off", "strict"], "vfio-pci", ""),
        (["passthrough", "strict"], "mlx5_core", ""),
        ([None], "vfio-pci", ""),
    ],
)
def test_modes_of_the_iommu_are_one_for_a_nic_of_vfio(levels: list[Any], driver: str, said: str) -> None:
    note = one_treatment(levels, (NIC, "net_tap0"), {NIC: {"driver": driver}})
    assert note.startswith(said)
    assert bool(note) == bool(said)
    assert one_treatment(levels, (NIC,), {"absent": "no agent"}) == ""


def test_the_remote_check_runs_on_old_pythons() -> None:
    ast.parse(SCRIPT.read_text(), feature_version=(3, 6))


def test_nics_to_choose_from_have_their_interfaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interface shows which NIC manages the host."""
    for name, interface in (("0000:00:02.0", "virtio0/net/ens2"), ("0000:01:00.0", "net/ens3"), (NIC, "")):
        (tmp_path / "bus/pci/devices" / name / interface).mkdir(parents=True)
        (tmp_path / "bus/pci/devices" / name / "class").write_text("0x020000\n")
    (tmp_path / "net").mkdir()
    (tmp_path / "net/route").write_text("Iface\tDestination\tGateway\nens2\t00000000\t0202000A\nens3\t0002000A\t0\n")
    for place in ("SYS", "PROC"):
        monkeypatch.setattr(look_at_host, place, tmp_path)
    assert look_at_host.nics() == ["0000:00:02.0 (ens2, the management's)", "0000:01:00.0 (ens3)", NIC]


def test_this_host_is_checked(tmp_path: Path) -> None:
    script = [sys.executable, "-", "0000:ff:1f.7", "--", "/bin/sh", "/nowhere/pollscope"]
    shown = subprocess.run(script, input=SCRIPT.read_text(), capture_output=True, text=True, check=True).stdout
    answer = json.loads(shown)
    assert answer["nics"] == {"0000:ff:1f.7": None}
    assert answer["programs"] == {"/bin/sh": True, "/nowhere/pollscope": False}
    assert answer["versions"] == {"/nowhere/pollscope": None}
    assert answer["root"] == (os.geteuid() == 0)
    assert cpus_of(answer["online_cpus"]) >= os.sched_getaffinity(0)
    assert answer.keys() == seen().keys()


@pytest.mark.thorough
def test_a_login_that_fails_is_one_row(cli: Cli, sshd: SshHost, tmp_path: Path) -> None:
    config = pair_config(sshd, tmp_path)
    config["dut"]["ssh"]["key"] = str(sshd.folder / "host")
    config["generator"]["ssh"]["port"] = free_port()
    config["generator"]["ssh"]["known_hosts"] = "/dev/null"
    done = cli("testbed", "check", written(tmp_path / "two.yaml", config), "--json")
    assert done.returncode == 3
    rows = [(row["host"], row["what"], row["state"]) for row in json.loads(done.stdout)]
    assert rows == [("dut", "login", "no"), ("generator", "login", "no")]
    assert "Permission denied" in done.stdout
    assert "ssh-copy-id" in done.stdout


def test_a_host_without_python_is_one_row(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sshd").mkdir()
    with running_sshd(tmp_path / "sshd", {"PATH": str(tmp_path / "nothing")}) as bare:
        done = cli("testbed", "check", written(tmp_path / "two.yaml", pair_config(bare, tmp_path)), "--json")
    rows = json.loads(done.stdout)
    assert [(row["what"], row["state"]) for row in rows] == [("Python", "no")] * 2
    assert rows[0]["remedy"] == "apt-get install python3, there"


def test_a_testbed_of_one_machine_has_a_row(cli: Cli) -> None:
    done = cli("testbed", "check", "model")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "ready"
