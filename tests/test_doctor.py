# SPDX-License-Identifier: BSD-3-Clause
import ast
import json
import re
import subprocess
import threading
from pathlib import Path

import pytest
from collector_samples import FIXTURES, needs_fixtures
from run_helpers import Cli

from pollscope.host import cpus
from pollscope.host.activity import read_activity
from pollscope.host.cpus import Cpu, online_cpus
from pollscope.host.files import parse_list
from pollscope.host.memory import hugepages, meminfo_bytes
from pollscope.host.metadata import build_metadata, cache_bytes, commit, host_metadata, turbo
from pollscope.host.nic_metadata import firmware_of
from pollscope.host.topology import nics
from pollscope.host.waiting import lcore_waits_ns, ran_instead, run_times_ns
from pollscope.run import doctor as doctor_module
from pollscope.run.doctor import Check, answer, rows_with_several_cores, user_mode_wait
from pollscope.testbeds import loopback


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


@pytest.fixture
def without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the rows with several cores: they take longest, and other tests check them."""
    looks = tuple(look for look in doctor_module._LOOKS if look is not rows_with_several_cores)
    monkeypatch.setattr(doctor_module, "_LOOKS", looks)


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
    return path


def test_doctor_says_yes_or_no_with_a_reason(cli: Cli) -> None:
    done = cli("doctor", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {finding["state"] for finding in report["findings"]} <= {"yes", "no", "note"}
    assert all(finding["text"] for finding in report["findings"] if finding["state"] != "yes")
    names = {finding["name"] for finding in report["findings"]}
    assert {"cores", "pollscope-node", "TSC", "hugepages", "PMU", "MSR", "VFIO", "IOMMU", "DPDK", "governor"} <= names
    assert report["host"]["cpus"] >= 1


def test_a_knob_is_not_mistaken_for_the_state_that_it_sets() -> None:
    findings = [Check("loopback testbed", "hugepages", "note", "none reserved"), Check("knobs", "hugepages", "yes", "")]
    assert "Missing most: hugepages" in answer(findings)


# In a mount namespace of its own; nothing of this host is changed.
NO_HUGEPAGES = """
mount --bind "$NONE" /sys/kernel/mm/hugepages && exec "$@"
"""


@pytest.mark.thorough
def test_without_hugepages_doctor_plan_run_and_report_say_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    none = cli.folder / "none"
    for name in ("nr_hugepages", "free_hugepages"):
        written(none / "hugepages-2048kB" / name, "0")
    monkeypatch.setenv("NONE", str(none))
    cli.inside = ["unshare", "--mount", "--propagation", "private", "sh", "-c", NO_HUGEPAGES, "sh"]
    spec = cli.spec()

    def output_of(*words: str | Path) -> str:
        process = cli.start(*words)
        out, err = process.communicate(timeout=120)
        if "unshare" in err or "mount:" in err:
            pytest.skip(f"no mount namespace with an empty /sys/kernel/mm/hugepages: {err.strip()}")
        assert process.returncode == 0, err
        return out + err

    assert "Missing most: hugepages, so TLB misses raise every cost" in output_of("doctor")
    costs = "no hugepages: 4 KiB pages add TLB misses"
    assert f"caution: {costs}" in output_of("plan", spec)
    assert f"warning: {costs}" in output_of("run", spec)
    page = Path(output_of("report", cli.run_folders()[0]).strip())
    assert costs in (cli.folder / page).read_text(encoding="utf-8")


@pytest.mark.usefixtures("without_rows")
def test_doctor_without_a_node_says_so_and_ends_with_3(cli: Cli) -> None:
    cli.node = cli.folder / "nowhere"
    done = cli("doctor")
    assert done.returncode == 3
    assert "pollscope-node is not built" in done.stdout


@pytest.mark.measure
@pytest.mark.usefixtures("without_rows")
def test_the_self_test_prints_its_table(cli: Cli, build_dir: Path) -> None:
    cli.node = build_dir / "pollscope-node"
    done = cli("doctor", "--json", "--self-test")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["selftest"]
    assert {"none", "count", "sampled", "full"} == {row["mode"] for row in rows}
    by_mode = {row["mode"]: row["added_cycles_per_poll"] for row in rows if row["every_k_polls"] is None}
    assert by_mode["full"] > by_mode["sampled"]


def test_absent_metadata_have_a_reason(tmp_path: Path) -> None:
    metadata = host_metadata(tmp_path / "proc", tmp_path / "sys")
    assert metadata["governor"] == {"absent": "no cpufreq driver"}
    assert metadata["turbo"] == {"absent": "no cpufreq driver shows it"}
    assert "absent" in metadata["memory_bytes"]
    json.dumps(metadata)


def test_metadata_that_change_results_silently_are_recorded(tmp_path: Path) -> None:
    """Microcode, BIOS, mitigations, and firmware and link of the NICs."""
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    written(proc / "cpuinfo", "vendor_id\t: GenuineIntel\nmicrocode\t: 0xd0003a5\n\nmicrocode\t: 0x1\n")
    for name, text in (("bios_vendor", "Dell Inc."), ("bios_version", "1.9.2"), ("bios_date", "11/17/2022")):
        written(sys / "class/dmi/id" / name, f"{text}\n")
    folder = sys / "devices/system/cpu/vulnerabilities"
    written(folder / "meltdown", "Not affected\n"), written(folder / "mds", "Vulnerable; SMT vulnerable\n")
    nic = sys / "bus/pci/devices/0000:4b:00.0"
    for name, text in (("class", "0x020000"), ("vendor", "0x15b3"), ("device", "0x101d")):
        written(nic / name, text)
    written(nic / "current_link_speed", "8.0 GT/s PCIe"), written(nic / "current_link_width", "8")
    written(nic / "max_link_speed", "16.0 GT/s PCIe"), written(nic / "max_link_width", "16")
    written(nic / "infiniband/mlx5_0/fw_ver", "22.35.1012")
    written(sys / "bus/pci/devices/0000:00:1f.0/class", "0x060100")
    metadata = host_metadata(proc, sys)
    assert (metadata["microcode"], metadata["bios"]) == ("0xd0003a5", "Dell Inc. 1.9.2 11/17/2022")
    assert metadata["mitigations"] == {"mds": "Vulnerable; SMT vulnerable"}
    assert metadata["nics"] == {
        "0000:4b:00.0": {
            "identity": "15b3:101d",
            "driver": "none",
            "firmware": "22.35.1012",
            "link": "8.0 GT/s PCIe x8",
            "link_most": "16.0 GT/s PCIe x16",
        }
    }


@needs_fixtures
def test_firmware_in_what_ethtool_prints() -> None:
    printed = (FIXTURES / "ethtool/ethtool_i_virtio_net_k618.txt").read_text()
    assert firmware_of(printed) is None  # a virtual NIC prints the line and leaves it empty
    assert firmware_of(printed.replace("firmware-version: ", "firmware-version: 4.40 0x8001c967 1.3534.0")) == (
        "4.40 0x8001c967 1.3534.0"
    )


def test_turbo_of_both_drivers(tmp_path: Path) -> None:
    cpu = tmp_path / "devices/system/cpu"
    written(cpu / "cpufreq/boost", "1")
    assert turbo(tmp_path) == "on"
    written(cpu / "intel_pstate/no_turbo", "1")
    assert turbo(tmp_path) == "off"


def test_caches(tmp_path: Path) -> None:
    for index, (level, kind, size) in enumerate([("1", "Data", "48K"), ("2", "Unified", "2048K")]):
        folder = tmp_path / f"devices/system/cpu/cpu0/cache/index{index}"
        written(folder / "level", level), written(folder / "type", kind), written(folder / "size", size)
    assert cache_bytes(tmp_path) == {"L1d": 48 * 1024, "L2": 2048 * 1024}


def test_build_metadata_without_a_build_folder(tmp_path: Path) -> None:
    assert "absent" in build_metadata(tmp_path / "pollscope-node")["compiler"]


def test_the_compiler_is_known_where_meson_keeps_no_record(tmp_path: Path) -> None:
    program = tmp_path / "pollscope-node"
    program.write_bytes(b"\x7fELF\0\0.comment\0GCC: (Debian 12.2.0-14+deb12u1) 12.2.0\0\0GCC: (GNU) 13.2.1\0\xff")
    found = build_metadata(program)
    assert found["compiler"] == "GCC: (Debian 12.2.0-14+deb12u1) 12.2.0, GCC: (GNU) 13.2.1"
    assert "absent" in found["flags"]
    record = {"host": {"c": {"version": "14.2.0", "full_version": "cc (Debian 14.2.0-19) 14.2.0"}}}
    written(tmp_path / "meson-info/intro-compilers.json", json.dumps(record))
    assert build_metadata(program)["compiler"] == "cc (Debian 14.2.0-19) 14.2.0"
    written(tmp_path / "meson-info/intro-compilers.json", "[]")
    assert build_metadata(program)["compiler"].startswith("GCC: (Debian")


def test_the_real_node_names_its_compiler(build_dir: Path) -> None:
    compiler = build_metadata(build_dir / "pollscope-node")["compiler"]
    assert any(each.isdigit() for each in compiler)


def test_the_commit_of_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "pollscope").mkdir()
    assert commit(tmp_path / "pollscope") == {"absent": "no checkout"}
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "init", "-q"], check=True)
    written(tmp_path / "file", "1")
    subprocess.run([*git, "add", "file"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert commit(tmp_path / "pollscope") == head
    written(tmp_path / "file", "2")
    assert commit(tmp_path / "pollscope") == f"{head}-dirty"


def test_hugepages_and_memory(tmp_path: Path) -> None:
    folder = tmp_path / "kernel/mm/hugepages/hugepages-2048kB"
    written(folder / "nr_hugepages", "10"), written(folder / "free_hugepages", "4")
    assert [(pages.page_bytes, pages.total, pages.free_bytes) for pages in hugepages(tmp_path)] == [
        (2 << 20, 10, 8 << 20)
    ]
    written(tmp_path / "meminfo", "MemTotal:  100 kB\nMemAvailable:   7 kB")
    assert meminfo_bytes("MemAvailable", tmp_path) == 7 * 1024
    assert meminfo_bytes("SwapTotal", tmp_path) is None


@pytest.mark.parametrize(("text", "cpus"), [("0-3,8", [0, 1, 2, 3, 8]), ("0", [0]), ("", []), ("2,4-5", [2, 4, 5])])
def test_cpu_lists(text: str, cpus: list[int]) -> None:
    assert parse_list(text) == cpus


def test_online_cpus_of_a_tree(tmp_path: Path) -> None:
    base = tmp_path / "devices/system/cpu"
    written(base / "online", "0-1")
    for number in range(2):
        written(base / f"cpu{number}/topology/core_id", "7")
        written(base / f"cpu{number}/topology/physical_package_id", "0")
        (base / f"cpu{number}/node1").mkdir()
    assert online_cpus(tmp_path) == [Cpu(1, 0, 7, 0), Cpu(1, 0, 7, 1)]


def test_topology_names_root_port_and_node(tmp_path: Path) -> None:
    device = tmp_path / "devices/pci0000:16/0000:16:02.0/0000:17:00.0"
    written(device / "class", "0x020000"), written(device / "numa_node", "1"), written(device / "local_cpulist", "8-15")
    written(device / "current_link_speed", "16.0 GT/s PCIe"), written(device / "current_link_width", "16")
    (device / "net/ens1").mkdir(parents=True)
    (tmp_path / "bus/pci/devices").mkdir(parents=True)
    (tmp_path / "bus/pci/devices/0000:17:00.0").symlink_to(device)
    written(tmp_path / "devices/pci0000:16/0000:16:02.0/class", "0x060400")
    (tmp_path / "bus/pci/devices/0000:16:02.0").symlink_to(device.parent)
    (nic,) = nics(tmp_path)
    assert (nic.address, nic.root_port, nic.numa_node, nic.cpus) == ("0000:17:00.0", "0000:16:02.0", 1, "8-15")
    assert (nic.interfaces, nic.driver, nic.link, nic.iommu_group) == (["ens1"], None, "16.0 GT/s PCIe x16", None)


def test_activity_counts_only_the_measuring_cpus(tmp_path: Path) -> None:
    def state(steal: int, switches: int, interrupts: str, softirqs: str) -> None:
        written(tmp_path / "stat", f"cpu0 0 0 0 0 0 0 0 99\ncpu1 0 0 0 0 0 0 0 {steal}\nctxt {switches}")
        written(tmp_path / "interrupts", f"     CPU0  CPU1\n 0: {interrupts} timer\nERR: 5")
        written(tmp_path / "softirqs", f"     CPU0  CPU1\nTIMER: {softirqs}")

    state(1, 100, "10 20", "1 2")
    before = read_activity([1], tmp_path)
    state(4, 150, "70 25", "9 6")
    found = read_activity([1], tmp_path).since(before)
    found.pop("kernel_errors", None)  # of this host
    found.pop("throttle_events", None)
    assert found == {
        "steal_ticks": 3,
        "context_switches": 50,
        "interrupts": {"1": 5},
        "softirqs": 4,
    }


@pytest.mark.parametrize("name", ["rte-worker-2", "lcore-worker-2", "dpdk-worker2"])
def test_waits_of_lcore_threads(tmp_path: Path, name: str) -> None:
    for tid, comm, stat in [(1, "pollscope-node", "9 9 9"), (2, name, "100 77 5"), (3, "rte-worker-3", "100 88 5")]:
        written(tmp_path / f"7/task/{tid}/comm", comm), written(tmp_path / f"7/task/{tid}/schedstat", stat)
    assert lcore_waits_ns(7, (1, 2), tmp_path) == {2: 77}
    assert lcore_waits_ns(8, (1, 2), tmp_path) == {}


def test_the_thread_that_took_an_lcores_cpu_is_named(tmp_path: Path) -> None:
    """Only the thread with the most time on that CPU counts, and neither the caller nor the lcore itself."""

    def threads(*ran_ns: int) -> None:
        rows = [(7, 8, "rte-worker-2", 1), (9, 9, "a b) c", 1), (9, 10, "x", 1), (11, 11, "far", 0)]
        rows += [(12, threading.get_native_id(), "caller", 1)]
        for (pid, tid, name, cpu), ns in zip(rows, ran_ns, strict=True):
            task = tmp_path / f"{pid}/task/{tid}"
            written(task / "stat", f"{tid} ({name}) R {'0 ' * 35}{cpu} 0 0")
            written(task / "schedstat", f"{ns} 0 1")

    threads(100, 100, 100, 100, 100)
    before = run_times_ns(tmp_path)
    threads(900, 140, 130, 900, 900)
    assert ran_instead(before, {2: 80}, [7], tmp_path) == {2: "a b) c (pid 9)"}
    assert ran_instead(before, {2: 81}, [7], tmp_path) == {}, "it ran for less than half of the wait"


def test_testbed_status(cli: Cli) -> None:
    for command in ("status", "up", "down"):
        done = cli("testbed", command, "loopback")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("loopback: ready\n")


def test_make_targets_in_messages_are_there(checkout: Path) -> None:
    """Messages name only make targets that exist."""
    targets = set(re.findall(r"^([a-z-]+):", (checkout / "Makefile").read_text(), re.MULTILINE))
    named: dict[str, Path] = {}
    for path in (checkout / "pollscope").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Expr):
                node.value = ast.Constant(None)  # a docstring
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                named |= dict.fromkeys(re.findall(r"(?:^|[(`])make ([a-z][a-z-]*)", node.value), path)
    assert "build" in named
    assert {word: path for word, path in named.items() if word not in targets} == {}


@pytest.mark.parametrize(
    ("flags", "state", "words"),
    [
        ({"waitpkg": True, "mwaitx": False, "rtm": True}, "yes", "umwait"),
        ({"waitpkg": True, "mwaitx": False, "rtm": False}, "yes", "monitor-multi is absent"),
        ({"waitpkg": False, "mwaitx": True, "rtm": False}, "note", "before 25.11 ignores"),
        ({"waitpkg": False, "mwaitx": False, "rtm": False}, "no", "and so is monitor"),
    ],
)
def test_instructions_that_can_halt_a_core_are_reported(flags: dict[str, bool], state: str, words: str) -> None:
    found = user_mode_wait(flags)
    assert (found.state, words in found.text) == (state, True)


def test_doctor_names_what_a_row_with_several_cores_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "allowed_cpus", lambda: [Cpu(0, 0, core, core) for core in range(2)])
    rows = {each.name: each for each in rows_with_several_cores()}
    assert {"S-F13", "S-F16", "S-F17a", "S-F17b", "C-T2", "C-T3", "C-F5", "C-F7", "C-RIVALS", "H-F10"} <= rows.keys()
    assert {"S-F5", "H-F8"}.isdisjoint(rows), "two CPUs are enough for every point"
    assert (rows["S-F17a"].state, rows["S-F17a"].text) == ("no", "0 of 84 points; 84 need up to 21 CPUs")
    assert rows["C-T2"].text == "4 of 26 points; 9 need up to 5 CPUs; 13: remote-node: this host has 1 NUMA node"
    assert rows["C-RIVALS"].state == "note"
    assert rows["C-RIVALS"].text.startswith("0 of 21 points (21 of 21 with --quick); 21 need up to 3 CPUs")


def test_a_host_without_sched_fifo_has_no_quick_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "allowed_cpus", lambda: [Cpu(0, 0, core, core) for core in range(2)])
    monkeypatch.setattr(loopback, "real_time_refusal", lambda: "Operation not permitted")
    rivals = next(each for each in rows_with_several_cores() if each.name == "C-RIVALS")
    assert (rivals.state, rivals.text) == ("no", "0 of 21 points; 21 need up to 3 CPUs")
