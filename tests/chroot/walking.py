# SPDX-License-Identifier: BSD-3-Clause
"""Make a laptop with only Python and SSH, and follow docs/two-servers.md on it."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from debian import MakeSystem, System
from failure_summary import failure_summary

LOGS = Path(__file__).resolve().parent.parent.parent / ".cache/machine-test"
PACKAGES = ["openssh-client", "python3", "python3-venv", "ca-certificates"]
KEY = "mkdir -m 700 /root/.ssh; ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519; cp ~/.ssh/*.pub /share"
BUILD_PACKAGES = """libdpdk-dev dpdk-dev meson ninja-build gcc libc6-dev pkgconf libjansson-dev libpcap-dev libisal-dev
dpkg-dev xz-utils python3-venv"""
PIP = "python3 -m venv /root/venv && /root/venv/bin/pip install -q /share/pollscope-*.whl"


@dataclass(frozen=True)
class Laptop:
    """The machine that follows the page.

    Attributes:
        share: seen as /share there.
        took_s: the first line of each command, and how long it took.
    """

    system: System
    share: Path
    took_s: dict[str, float]

    def __call__(self, line: str, code: int = 0) -> str:
        """Run a command of the page as it is typed there."""
        started = time.monotonic()
        # As wide as a window: at 80 columns the cells of tables wrap.
        shell = ["sh", "-c", f"cd /root && . venv/bin/activate && export COLUMNS=200 && {line}"]
        done = self.system.run(shell, binds={self.share: "/share"}, timeout_s=3600)
        self.took_s[line.splitlines()[0]] = round(time.monotonic() - started, 1)
        assert done.returncode == code, f"{line}\n{failure_summary(done.stdout, LOGS / 'walk.log')}"
        assert "Traceback" not in done.stdout
        return done.stdout


def prepared(system: System, share: Path, *lines: str) -> None:
    """Run commands while the machine still reaches the network."""
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    for line in lines:
        done = system.run(["sh", "-c", line], binds={share: "/share"}, environment=environment, timeout_s=1800)
        assert done.returncode == 0, done.stdout[-3000:]


def install(packages: list[str]) -> str:
    """Return a line that installs packages."""
    return f"apt-get -qq update && apt-get -qq -y install --no-install-recommends {' '.join(packages)} >/dev/null 2>&1"


def make_wheel(checkout: Path, share: Path) -> None:
    """Write the wheel and `sources.tar` of a checkout into `share`."""
    subprocess.run([checkout / "playbooks/build-release", "--sources", share / "sources.tar"], check=True)
    copy = share.parent / "copy"
    copy.mkdir()
    subprocess.run(["tar", "-C", copy, "-xf", share / "sources.tar"], check=True)
    wheel = [sys.executable, "-m", "pip", "-q", "wheel", "--no-build-isolation", "--no-deps", "-w", str(share)]
    subprocess.run([*wheel, str(copy)], check=True)


def make_archive(make_system: MakeSystem, suite: str, share: Path, options: str = "") -> None:
    """Build the programs for a suite with playbooks/build-release: `SUITE.tar.gz` in `share`."""
    with make_system(suite, ["git", "make", "python3"]) as builder:
        sources = "mkdir /build && cd /build && tar -xf /share/sources.tar"
        build = f"DRIVER=none playbooks/build-release {options} /share/{suite}.tar.gz"
        prepared(builder, share, install(BUILD_PACKAGES.split()), f"{sources} && {build}")


@contextmanager
def make_laptop(make_system: MakeSystem, share: Path) -> Iterator[Laptop]:
    """Return a Debian 13 with a key of its own and the wheel of `share` in a virtual environment."""
    with make_system("trixie", ["git", "make", "python3"]) as system:
        prepared(system, share, install(PACKAGES), "! command -v gcc && ! command -v meson", KEY, PIP)
        yield Laptop(system, share, {})
