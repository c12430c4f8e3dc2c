# SPDX-License-Identifier: BSD-3-Clause
"""Run rows with the real pktgen-dpdk as the generator of a pair whose hosts are this one, joined by a veth pair.

`PKTGEN_ARCHIVE=/tmp/pktgen-23.06.1.tar.gz make test TESTS=tests/test_pktgen_real.py` names an archive of its sources,
of the version that the role `pktgen` names for the DPDK of this host. It is built as that role builds it.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pair_hosts import pair_config, real_node, written
from playbook_modules import PLAYBOOKS, load
from ruamel.yaml import YAML
from run_helpers import Cli, assert_complete
from ssh_host import SshHost

from pollscope.metrics.derive import derive_trial
from pollscope.store.run_folder import RunFolder

ARCHIVE = os.environ.get("PKTGEN_ARCHIVE", "")
ENDS = ("pollscope-gen", "pollscope-dut")

pytestmark = [
    pytest.mark.measure,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not ARCHIVE, reason="PKTGEN_ARCHIVE names no archive of pktgen-dpdk's sources"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a pair of virtual interfaces needs root, as pktgen-dpdk does"),
]


def test_the_archive_is_the_version_for_this_dpdk() -> None:
    version = subprocess.run(
        ["pkg-config", "--modversion", "libdpdk"], capture_output=True, text=True, check=True
    ).stdout
    versions = YAML(typ="safe").load(PLAYBOOKS / "roles/pktgen/defaults/main.yml")["pktgen_versions"]
    assert versions[".".join(version.split(".")[:2])] in Path(ARCHIVE).name


@pytest.fixture(scope="module")
def pktgen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program, built from the archive."""
    headers = subprocess.run(["pkg-config", "--cflags-only-I", "libdpdk"], capture_output=True, text=True, check=True)
    folder = tmp_path_factory.mktemp("pktgen") / "release"
    options = ["enable_lua=true", f"c_args={headers.stdout.strip()}"]
    with Path(ARCHIVE).open("rb") as opened:
        load("pollscope_release").build(opened, Path("/opt/pollscope-pktgen"), folder, options)
    return folder / "bin/pktgen"


@pytest.fixture
def cable() -> Iterator[None]:
    """Make a veth pair on which the kernel sends no packets of its own."""
    if shutil.which("ip") is None:
        pytest.skip("iproute2 is not installed")
    subprocess.run(["ip", "link", "add", ENDS[0], "type", "veth", "peer", "name", ENDS[1]], check=True)
    try:
        for end in ENDS:
            quiet = Path("/proc/sys/net/ipv6/conf", end, "disable_ipv6")
            if quiet.exists():
                quiet.write_text("1")
            subprocess.run(["ip", "link", "set", end, "up"], check=True)
        yield
    finally:
        subprocess.run(["ip", "link", "del", ENDS[0]], check=True)


def pair_file(sshd: SshHost, build_dir: Path, folder: Path, pktgen: Path) -> Path:
    """Write the pair: the DUT on CPU 1, pktgen-dpdk on CPU 0, both without hugepages."""
    dut, generator = (real_node(build_dir, f"net_af_packet0,iface={end}") for end in reversed(ENDS))
    generator |= {"main_cpu": 1, "cpus": [0], "memory_mib": 1500}
    own: dict[str, Any] = {"driver": "pktgen-dpdk", "pktgen": {"program": str(pktgen)}}
    return written(folder / "two.yaml", pair_config(sshd, folder, dut, generator, **own))


def loaded_trials(run: RunFolder) -> list[dict[str, Any]]:
    """Return the good trials in which pktgen-dpdk sent."""
    good = [trial for trial in run.trials if trial["status"] != "failed"]
    return [trial for trial in good if trial["result"]["gen"]["lcores"][0]["sent"] > 0]


# One queue: the kernel has no RSS on these interfaces. S-F9's random arrivals are left out with pktgen-dpdk.
@pytest.mark.parametrize(
    "words",
    [
        ["SANITY-PAIR"],
        ["S-F5", "--quick", "--set", "factors.queues=[1]"],
        ["S-F9", "--quick", "--set", "factors.queues=[1]", "--set", "parameters.arrivals=constant"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.usefixtures("cable")
def test_a_row_runs_with_it(cli: Cli, sshd: SshHost, build_dir: Path, pktgen: Path, words: list[str]) -> None:
    file = pair_file(sshd, build_dir, cli.folder, pktgen)
    # The shared machine may lose packets, which a claim of the sanity row notes.
    done = cli("run", *words, "--testbed", file, "--set", "noise.extra_blocks=0")
    assert done.returncode in (0, 1), done.stderr
    run = cli.only_run()
    assert_complete(run)
    loaded = loaded_trials(run)
    assert loaded
    for trial in loaded:
        dut = trial["result"]["dut"]["lcores"][0]
        assert dut["rx_packets"] > 0
        assert dut["workload_dropped"] == 0, "the router has no route for what pktgen-dpdk sends"
        latency = trial["result"]["gen"]["lcores"][0]["pktgen_latency"]
        if words[0] == "S-F9":
            assert 0 < latency["min_us"] <= latency["avg_us"] <= latency["max_us"]
        if words == ["SANITY-PAIR"]:  # a few packets per second, which any machine sends; 100 of them are stamped ones
            assert derive_trial(trial)[0]["offered_pps"] == pytest.approx(trial["start"]["rate"]["pps"], rel=0.4)
    assert not sshd.connections()
