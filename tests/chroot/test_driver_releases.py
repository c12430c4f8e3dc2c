# SPDX-License-Identifier: BSD-3-Clause
"""net_crossover on the DPDK releases of Debian 12, 13 and unstable and Ubuntu 24.04: headers fetched, built, suite and
testpmd run.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import debian
import pytest

# No dpkg-dev, no deb-src: fetch-driver-sdk must do without.
PACKAGES = [
    "libdpdk-dev",
    "dpdk-dev",
    "meson",
    "ninja-build",
    "gcc",
    "libc6-dev",
    "pkgconf",
    "libjansson-dev",
    "libpcap-dev",
    "xz-utils",
]
RELEASES = {"bookworm": "22.11", "noble": "23.11", "trixie": "24.11", "sid": "25.11"}
SOURCES_VARIABLE = "POLLSCOPE_DPDK_SOURCES"  # a folder with dpdk_VERSION*.tar* for mirrors that carry no sources
BUILD_LIMIT_S, RUN_LIMIT_S = 600, 300
NOT_TO_BE_HAD = 3  # exit code of fetch-driver-sdk

pytestmark = [pytest.mark.chroot, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module", params=list(RELEASES))
def release(
    request: pytest.FixtureRequest, checkout: Path, make_system: debian.MakeSystem
) -> Iterator[tuple[str, debian.System]]:
    """Yield DPDK's release and a system that has it, with everything built in /build."""
    with make_system(request.param, PACKAGES, "driver") as system:
        fetch_headers(system, checkout, RELEASES[request.param])
        build(system, checkout)
        yield RELEASES[request.param], system


def fetch_headers(system: debian.System, checkout: Path, version: str) -> None:
    binds, environment = {checkout: "/source"}, {}
    given = sorted(Path(os.environ.get(SOURCES_VARIABLE, "/nonexistent")).glob(f"dpdk_{version}*.tar*"))
    if given:
        binds[given[-1].parent] = "/given"
        environment["DPDK_SOURCE"] = f"/given/{given[-1].name}"
    command = ["/source/apps/pmd/fetch-driver-sdk", "/sdk"]
    done = system.run(command, binds=binds, environment=environment, timeout_s=BUILD_LIMIT_S)
    if done.returncode == NOT_TO_BE_HAD:
        pytest.skip(f"{done.stdout.strip()} (or a folder of sources with {SOURCES_VARIABLE})")
    assert done.returncode == 0, done.stdout[-4000:]


def build(system: debian.System, checkout: Path) -> None:
    for command in (
        ["meson", "setup", "/build", "/source/apps", "-Ddriver_sdk=/sdk/include"],
        ["ninja", "-j", "2", "-C", "/build"],
    ):
        done = system.run(command, binds={checkout: "/source"}, timeout_s=BUILD_LIMIT_S)
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-4000:]}"


def test_release_is_the_expected_one(release: tuple[str, debian.System]) -> None:
    version, system = release
    assert system.run(["pkgconf", "--modversion", "libdpdk"]).stdout.startswith(version)


def test_only_headers_that_are_needed_were_fetched(release: tuple[str, debian.System]) -> None:
    _, system = release
    fetched = {header.name for header in system.written("/sdk/include").iterdir()}
    assert {"ethdev_driver.h", "bus_vdev_driver.h"} <= fetched
    assert len(fetched) < 20


def test_unit_tests_pass(release: tuple[str, debian.System]) -> None:
    _, system = release
    done = system.run(["/build/tests-unit"], timeout_s=RUN_LIMIT_S)
    assert done.returncode == 0, done.stdout[-4000:]


def test_driver_suite_passes(release: tuple[str, debian.System]) -> None:
    _, system = release
    done = system.run(["/build/tests-driver"], timeout_s=RUN_LIMIT_S)
    assert re.search(r"^\d\d+ passed, 0 failed$", done.stdout, re.MULTILINE), done.stdout[-4000:]
    assert done.returncode == 0


TESTPMD = """(sleep 2; echo) | dpdk-testpmd --lcores=0@0,1@0-1 --no-huge --no-shconf -m 256 --no-pci \\
    -d /build/librte_net_crossover.so --vdev=net_crossover0 -d /build/librte_pollscope_probe.so \\
    -- --tx-first --total-num-mbufs=4096 --rxq=2 --txq=2"""


def test_stock_testpmd_forwards(release: tuple[str, debian.System]) -> None:
    """io for two seconds, without hugepages; ended by Enter, as testpmd asks for. The probe does not refuse it."""
    _, system = release
    done = system.run(["sh", "-c", TESTPMD], timeout_s=RUN_LIMIT_S)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "pollscope probe:" not in done.stdout
    _, _, totals = done.stdout.partition("Accumulated forward statistics")
    counts = {name: int(value) for name, value in re.findall(r"([RT]X-\w+): *(\d+)", totals)}
    assert counts["RX-packets"] > 10_000
    assert counts["TX-packets"] == counts["RX-packets"] + counts["RX-dropped"]
