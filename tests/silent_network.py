# SPDX-License-Identifier: BSD-3-Clause
"""Make a cable between two network namespaces that can fall silent: packets are lost, and no connection is closed."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE, THERE = "10.251.0.1", "10.251.0.2"
# No host has this address, so packets to it are lost.
NOBODY = "02:00:00:00:00:99"


@dataclass
class SilentNetwork:
    """Each end in a namespace of its own, kept by a process.

    Attributes:
        here: pid of the process that keeps the controller's end, whose address is HERE.
        there: pid of the one that keeps the other end, with the address THERE.
    """

    here: int
    there: int

    def inside_here(self) -> list[str]:
        """Start a command at this end."""
        return ["nsenter", "--target", str(self.here), "--net"]

    def inside_there(self) -> list[str]:
        """Start a command at the other end."""
        return ["nsenter", "--target", str(self.there), "--net"]

    def fall_silent(self) -> None:
        """Drop all packets from now on, in both directions."""
        self._run(*self.inside_here(), *f"ip neigh replace {THERE} lladdr {NOBODY} dev cable nud permanent".split())
        self._run(*self.inside_there(), *f"ip neigh replace {HERE} lladdr {NOBODY} dev cable nud permanent".split())

    def heal(self) -> None:
        """Let packets arrive again."""
        self._run(*self.inside_here(), *f"ip neigh del {THERE} dev cable".split())
        self._run(*self.inside_there(), *f"ip neigh del {HERE} dev cable".split())

    def join(self) -> None:
        self._run(*self.inside_here(), *f"ip link add cable type veth peer name cable netns {self.there}".split())
        for inside, address in ((self.inside_here(), HERE), (self.inside_there(), THERE)):
            self._run(*inside, *f"ip address add {address}/24 dev cable".split())
            for link in ("lo", "cable"):
                self._run(*inside, *f"ip link set {link} up".split())

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, text=True)


@contextlib.contextmanager
def silent_network() -> Iterator[SilentNetwork]:
    """Make both ends; skip the test if they cannot be made."""
    if os.geteuid() != 0 or not all(shutil.which(each) for each in ("unshare", "nsenter", "ip")):
        pytest.skip("network namespaces need root, util-linux and iproute2")
    keepers = [subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) for _ in range(2)]
    try:
        own = Path("/proc/self/ns/net").readlink()
        for keeper in keepers:
            while Path(f"/proc/{keeper.pid}/ns/net").readlink() == own:
                if keeper.poll() is not None:
                    pytest.skip("this host makes no network namespaces")
        network = SilentNetwork(*(keeper.pid for keeper in keepers))
        network.join()
        yield network
    finally:
        for keeper in keepers:
            keeper.kill()
            keeper.wait()
