# SPDX-License-Identifier: BSD-3-Clause
"""Three network namespaces for tcp_flows.py: a client, a server, and between them the DUT's ends of two veth pairs.

    client  data --> near | DUT | far --> data  server
    client  back <------------------------ back  server

Data goes through the DUT, acknowledgments go straight back, so that their order is that of the kernel. Segmentation and
checksum offload are off: super-segments of 64 KiB would hide reordering, and a DUT needs whole checksums.
"""

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from contextlib import ExitStack
from ctypes import addressof, create_string_buffer
from pathlib import Path
from types import TracebackType
from typing import Self

from pollscope.base.errors import HostError

CLIENT_ADDRESS, SERVER_ADDRESS = "10.97.0.1", "10.97.0.2"
MTU_BYTES = 1500
# linux/sockios.h and linux/ethtool.h.
SIOCETHTOOL = 0x8946
OFFLOADS = {"tso": 0x1F, "gso": 0x24, "gro": 0x2C, "tx checksums": 0x17, "rx checksums": 0x15, "scatter": 0x19}
TSO_BY_HAND = "import sys; from tcp_namespaces import offloads_off; offloads_off(sys.argv[1])"


def offloads_off(interface: str) -> None:
    """Switches segmentation, checksum and receive offload of an interface of this namespace off.

    Raises:
        OSError: the kernel refuses; what it does not have at all is off already.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for command in OFFLOADS.values():
            value = create_string_buffer(struct.pack("=II", command, 0))
            request = struct.pack("16sP", interface.encode(), addressof(value))
            try:
                fcntl.ioctl(any_socket, SIOCETHTOOL, request)
            except OSError as error:
                if error.errno != 95:  # EOPNOTSUPP
                    raise


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(f"`ip {' '.join(words)}`: {done.stderr.strip()}", remedy="run as root, with iproute2")


class Namespaces:
    """The namespaces, as long as a `with` block lasts; `inside(name, command)` is a command that runs in one.

    Args:
        rate: bottleneck of the data's way as tc writes it ("200mbit"), before the DUT.

    Raises:
        HostError: this host or user cannot have them.
    """

    def __init__(self, rate: str) -> None:
        self.rate = rate
        self.names = {end: f"pollscope-{os.getpid()}-{end}" for end in ("client", "dut", "server")}
        self._stack = ExitStack()

    def inside(self, end: str, *command: str) -> list[str]:
        """The command that runs `command` in the namespace of that end."""
        return ["ip", "netns", "exec", self.names[end], *command]

    def __enter__(self) -> Self:
        for tool in ("ip", "tc"):
            if shutil.which(tool) is None:
                raise HostError(f"there is no `{tool}`", remedy="install iproute2")
        if os.geteuid() != 0:
            raise HostError("network namespaces need root", remedy="run as root")
        with ExitStack() as begun:
            for name in self.names.values():
                _ip("netns", "add", name)
                begun.callback(_ip, "netns", "delete", name)
            self._connect()
            self._stack = begun.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _connect(self) -> None:
        for (end, interface), (other, far) in (
            (("client", "data"), ("dut", "near")),
            (("dut", "far"), ("server", "data")),
            (("client", "back"), ("server", "back")),
        ):
            pair = ("type", "veth", "peer", "name", far, "netns", self.names[other])
            _ip("-n", self.names[end], "link", "add", interface, "mtu", str(MTU_BYTES), *pair)
            for place, name in ((end, interface), (other, far)):
                self._bring_up(place, name)
        self._route()
        limit = ("tbf", "rate", self.rate, "burst", "32kb", "latency", "20ms")
        self._run("client", "tc", "qdisc", "add", "dev", "data", "root", *limit)

    def _bring_up(self, end: str, interface: str) -> None:
        self._run(end, sys.executable, "-c", TSO_BY_HAND, interface)
        for setting in (f"ipv6/conf/{interface}/disable_ipv6=1", f"ipv4/conf/{interface}/rp_filter=0"):
            key, _, value = setting.partition("=")
            self._run(end, "sh", "-c", f"[ ! -e /proc/sys/net/{key} ] || echo {value} >/proc/sys/net/{key}")
        _ip("-n", self.names[end], "link", "set", interface, "up")

    def _route(self) -> None:
        """Each end knows the other's address on the way there, and takes what comes back on another interface."""
        for end, own, other, way in (
            ("client", CLIENT_ADDRESS, SERVER_ADDRESS, "data"),
            ("server", SERVER_ADDRESS, CLIENT_ADDRESS, "back"),
        ):
            name = self.names[end]
            self._run(end, "sh", "-c", "echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter")
            _ip("-n", name, "address", "add", f"{own}/32", "dev", "data")
            _ip("-n", name, "route", "add", f"{other}/32", "dev", way, "src", own)
            far = "server" if end == "client" else "client"
            _ip("-n", name, "neighbour", "add", other, "lladdr", self._mac(far, way), "dev", way)

    def _mac(self, end: str, interface: str) -> str:
        return self._run(end, "cat", f"/sys/class/net/{interface}/address").strip()

    def _run(self, end: str, *command: str) -> str:
        folder = str(Path(__file__).resolve().parent)
        path = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH", ""))))
        done = subprocess.run(
            self.inside(end, *command),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
        if done.returncode != 0:
            raise HostError(f"`{' '.join(command[:4])}` in a namespace: {done.stderr.strip()[-200:]}")
        return done.stdout
