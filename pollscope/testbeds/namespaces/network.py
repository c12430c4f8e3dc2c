# SPDX-License-Identifier: BSD-3-Clause
"""Build three network namespaces: a client, a server, and between them the DUT's ends of two veth pairs.

    client  data --> near | DUT | far --> data  server
    client  back <------------------------ back  server

Data goes through the DUT, acknowledgments go straight back, in the order of the kernel. The namespaces
have no name and no file: each lives as long as a process that holds it. That process ends with its standard input, so
the namespaces disappear even if pollscope is killed. The namespace of the host never sees them.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from pollscope.base.errors import HostError
from pollscope.base.units import human_time

CLIENT_ADDRESS, SERVER_ADDRESS = "10.97.0.1", "10.97.0.2"
_MTU_BYTES = 1500
_ENDS = ("client", "dut", "server")
INSIDE = Path(__file__).with_name("inside.py")
TOOLS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
# Several frames: a bucket of one frame would pause after each.
BUCKET_BYTES = 32768
# Starting a process takes a fraction of a second even where the CPUs are busy.
START_LIMIT_S = 60.0
END_LIMIT_S = 10.0
_READY = b"ready"


def require_namespaces() -> None:
    """Check that this user may have namespaces, and has the tools to join them.

    Raises:
        HostError: this is not the case.
    """
    if os.geteuid() != 0:
        raise HostError("network namespaces need root", remedy="run as root")
    for tool, package in TOOLS.items():
        if shutil.which(tool) is None:
            raise HostError(f"there is no `{tool}`", remedy=f"install {package}")


@contextmanager
def running(command: Sequence[str], log: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a program after its `ready`; it ends with its standard input at the end of the block.

    Args:
        command: in its own session, so that Ctrl-C does not reach it.
        log: for its standard error; None: merge it with standard output.

    Raises:
        HostError: it ended or was silent instead.
    """
    with ExitStack() as files:
        said = subprocess.STDOUT if log is None else files.enter_context(log.open("ab"))
        program = subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, start_new_session=True
        )
    with program:
        assert program.stdin is not None and program.stdout is not None
        try:
            _wait_ready(program, command)
            yield program
        finally:
            program.stdin.close()
            try:
                program.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                program.kill()


def _wait_ready(program: subprocess.Popen[bytes], command: Sequence[str]) -> None:
    assert program.stdout is not None
    name = Path(next((word for word in command if word.startswith("/") and "/proc/" not in word), command[0])).name
    heard, deadline = b"", time.monotonic() + START_LIMIT_S
    while select.select([program.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
        byte = program.stdout.read(1)  # the lines after `ready` are the caller's
        if byte == b"\n" and heard.rpartition(b"\n")[2].strip() == _READY:
            return
        if not byte:
            said = " ".join(heard.decode(errors="replace").split())
            raise HostError(f"{name} did not start: {said[-300:] or 'it said nothing'}")
        heard += byte
    raise HostError(f"{name} was not ready within {human_time(START_LIMIT_S)}")


def last_words(program: subprocess.Popen[bytes], name: str) -> str:
    """End a program of `running` by the end of its input, and return its output after `ready`.

    Raises:
        HostError: it does not end, or ended with an error.
    """
    try:
        said, _ = program.communicate(timeout=END_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise HostError(f"{name} did not end within {human_time(END_LIMIT_S)}") from None
    if status := program.returncode:
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        raise HostError(f"{name} {how}")
    return said.decode(errors="replace")


class Namespaces:
    """The namespaces, as long as a `with` block lasts; `inside(end, command)` is a command that runs in one.

    Args:
        rate_bps: bottleneck of the data's way before the DUT, in bit/s.
        queue_ms: longest wait of a frame there; a frame that would wait longer is dropped.

    Raises (on entering):
        HostError: this host or user cannot have them.
    """

    def __init__(self, rate_bps: int, queue_ms: int) -> None:
        self.rate_bps, self.queue_ms = rate_bps, queue_ms
        self._pids: dict[str, int] = {}
        self._stack = ExitStack()

    def inside(self, end: str, *command: str) -> list[str]:
        """Return the command that runs `command` in the namespace of that end."""
        return ["nsenter", f"--net=/proc/{self._pids[end]}/ns/net", *command]

    def python(self, end: str, *words: str) -> list[str]:
        """Return the command that runs inside.py there."""
        return self.inside(end, sys.executable, "-P", str(INSIDE), *words)

    def __enter__(self) -> Self:
        require_namespaces()
        with ExitStack() as begun:
            for end in _ENDS:
                hold = ["unshare", "--net", "sh", "-c", f"echo {_READY.decode()}; exec cat >/dev/null"]
                self._pids[end] = begun.enter_context(running(hold)).pid
                _require_another(self._pids[end])
            self._connect()
            self._stack = begun.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _connect(self) -> None:
        for end, interface, other, far in (
            ("client", "data", "dut", "near"),
            ("dut", "far", "server", "data"),
            ("client", "back", "server", "back"),
        ):
            pair = ("type", "veth", "peer", "name", far, "mtu", str(_MTU_BYTES), "netns", str(self._pids[other]))
            self._run(end, "ip", "link", "add", interface, "mtu", str(_MTU_BYTES), *pair)
        for end, interfaces in {"client": ("data", "back"), "dut": ("near", "far"), "server": ("data", "back")}.items():
            # /sys shows the namespace in which it was mounted.
            mounted = ("unshare", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh")
            self._run(end, *mounted, sys.executable, "-P", str(INSIDE), "prepare", *interfaces)
            for name in interfaces:
                self._run(end, "ip", "link", "set", name, "up")
        self._route()
        limit = ("tbf", "rate", f"{self.rate_bps}bit", "burst", f"{BUCKET_BYTES}b", "latency", f"{self.queue_ms}ms")
        self._run("client", "tc", "qdisc", "add", "dev", "data", "root", *limit)

    def _route(self) -> None:
        """Configure each end with the other's address on the path, and accept answers on another interface."""
        for end, far, own, other, way in (
            ("client", "server", CLIENT_ADDRESS, SERVER_ADDRESS, "data"),
            ("server", "client", SERVER_ADDRESS, CLIENT_ADDRESS, "back"),
        ):
            self._run(end, "ip", "address", "add", f"{own}/32", "dev", "data")
            self._run(end, "ip", "route", "add", f"{other}/32", "dev", way, "src", own)
            self._run(end, "ip", "neighbour", "add", other, "lladdr", self._mac(far, way), "dev", way)

    def _mac(self, end: str, interface: str) -> str:
        return str(json.loads(self._run(end, "ip", "-json", "link", "show", interface))[0]["address"])

    def _run(self, end: str, *command: str) -> str:
        done = subprocess.run(self.inside(end, *command), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = done.stderr.strip()[-200:]
            raise HostError(f"`{' '.join(command)}` in the namespace of the {end}: {said}")
        return done.stdout


def _require_another(pid: int) -> None:
    """Refuse to change anything in the host's own namespace."""
    if Path(f"/proc/{pid}/ns/net").stat().st_ino == Path("/proc/self/ns/net").stat().st_ino:
        raise HostError("the kernel gave no network namespace of its own", remedy="a kernel with CONFIG_NET_NS")
