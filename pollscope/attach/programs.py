# SPDX-License-Identifier: BSD-3-Clause
"""Find running DPDK programs by their telemetry sockets, and say what a probe in them can and cannot see."""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pollscope.base.errors import HostError, UsageError
from pollscope.base.paths import BUILD_COMMAND, build_folder
from pollscope.base.units import counted
from pollscope.host.eal_folders import runtime_folder
from pollscope.host.files import PROC, SYS, read_text
from pollscope.host.telemetry_socket import TelemetrySocket, socket_files
from pollscope.knobs.probe import PLUGIN

_WORKER = re.compile(r"worker-?(\d+)$")
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_VIRTUAL = re.compile(r"([a-z][a-z_]*?)_?\d")
# Lists of devices that no RX poll touches: command and name of one.
_UNSEEN = {
    "/cryptodev/list": "crypto device",
    "/eventdev/dev_list": "event device",
    "/dmadev/list": "DMA device",
    "/rawdev/list": "raw device",
}
_MOST_MEMZONES = 500
# Time limits of one program's description of itself, and of a search for programs. A process may offer any number of
# sockets, and may be silent on each.
LOOK_LIMIT_S, SEARCH_LIMIT_S = 4.0, 20.0
Warn = Callable[[str], None]


@dataclass(frozen=True)
class Port:
    """An ethdev port of a program; `driver` is empty where it is not known."""

    port: int
    name: str
    driver: str
    rx_queues: int
    tx_queues: int


@dataclass(frozen=True)
class DpdkProgram:
    """A running DPDK program.

    Attributes:
        socket: its telemetry socket.
        prefix: EAL's file prefix.
        name: of the process, or the socket's folder where the process is not visible.
        pid: on this host; 0 where the process is not visible.
        dpdk: version in words.
        lcores: of its worker threads.
        probe: whether the plug-in is in it.
        advice: what to do where it is not.
    """

    socket: Path
    prefix: str
    name: str
    pid: int
    dpdk: str
    lcores: Sequence[int] = ()
    ports: Sequence[Port] = ()
    probe: bool = False
    advice: str = ""
    unseen: Sequence[str] = field(default=())


def _ignore(_text: str) -> None:
    """Drop a warning."""


def running_programs(sockets: Sequence[Path] = (), warn: Warn = _ignore) -> list[DpdkProgram]:
    """Return the programs behind sockets; default: all of this host, those in containers included.

    `warn`: takes a sentence about the sockets that were left after SEARCH_LIMIT_S.
    """
    # Mount namespaces may share a folder; one socket then has several paths.
    found: dict[tuple[int, int], DpdkProgram | None] = {}
    paths, deadline = sockets or [*socket_files(), *_in_containers()], time.monotonic() + SEARCH_LIMIT_S
    for number, path in enumerate(paths):
        if time.monotonic() > deadline:
            warn(
                f"{counted(len(paths) - number, 'telemetry socket')} not asked: the search took {SEARCH_LIMIT_S:.0f} s"
            )
            break
        with suppress(OSError):  # it has ended
            identity = path.stat().st_dev, path.stat().st_ino
            if identity not in found:
                found[identity] = None
                with TelemetrySocket(path, deadline) as connection:
                    found[identity] = look_at(connection)
    return [program for program in found.values() if program is not None]


def _in_containers(proc: Path = PROC) -> list[Path]:
    """Return the sockets in other mount namespaces, each by the root folder of one of its processes.

    Any user can make a user namespace and fill the mount namespaces in it, so those of other user namespaces are left
    out.
    """
    own, own_user = ((proc / "self/ns" / name).stat().st_ino for name in ("mnt", "user"))
    roots: dict[int, Path] = {}
    for process in proc.glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if (process / "ns/user").stat().st_ino != own_user:
                continue
            roots.setdefault((process / "ns/mnt").stat().st_ino, process / "root")
    roots.pop(own, None)
    found = []
    for root in roots.values():
        with suppress(OSError):
            # A link /var/run -> /run would lead to the folder of this host.
            folders = [root / "run", *([] if (root / "var/run").is_symlink() else [root / "var/run"])]
            found += [path for folder in folders for path in socket_files(runtime=folder / "dpdk")]
    return found


def find_program(word: str, socket: Path | None = None, warn: Warn = _ignore) -> Path:
    """Return the socket of a program, given by file prefix, process name, pid or path; `warn` as `running_programs`.

    Raises:
        UsageError: no program or several are meant.
        HostError: nothing answers at the path.
    """
    if socket is not None or "/" in word:
        path = socket or Path(word)
        try:
            with TelemetrySocket(path):
                return path
        except OSError as error:
            reason = error.strerror or str(error)
            remedy = "pollscope attach --list shows the programs of this host"
            raise HostError(f"no DPDK program answers: {reason}", str(path), remedy) from error
    programs = running_programs((), warn)
    meant = [each for each in programs if word in (each.prefix, each.name, str(each.pid))]
    if len(meant) == 1:
        return meant[0].socket
    if meant:
        choices = ", ".join(f"{each.pid} ({each.prefix})" for each in meant)
        raise UsageError(f"several DPDK programs are called {word!r}", remedy=f"give a pid: {choices}")
    known = ", ".join(f"{each.name} ({each.prefix})" for each in programs) or "none"
    raise UsageError(f"no DPDK program is called {word!r}", str(runtime_folder()), f"running: {known}")


def look_at(connection: TelemetrySocket) -> DpdkProgram:
    """Return a program's description of itself.

    Raises:
        OSError: it does not answer within LOOK_LIMIT_S, or not like DPDK.
    """
    until = connection.deadline
    connection.deadline = min(until, time.monotonic() + LOOK_LIMIT_S)
    try:
        return _look_at(connection)
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        raise OSError(f"its replies are not those of DPDK: {error}") from error
    finally:
        connection.deadline = until


def _look_at(connection: TelemetrySocket) -> DpdkProgram:
    pid, prefix = connection.pid, connection.path.parent.name
    name = (read_text(PROC / str(pid) / "comm") or "").strip() if pid else ""
    commands = connection.value("/")
    has_probe = isinstance(commands, list) and "/pollscope/probe/info" in commands
    return DpdkProgram(
        connection.path,
        prefix,
        name or prefix,
        pid,
        str(connection.hello.get("version", "?")),
        _lcores(connection, pid),
        [_port(connection, int(port)) for port in connection.value("/ethdev/list") or []],
        has_probe,
        "" if has_probe else _advice(pid),
        _unseen(connection),
    )


def _advice(pid: int) -> str:
    maps = read_text(PROC / str(pid) / "maps") if pid else None
    if maps and "librte_eal.so" not in maps:
        return "it is linked with DPDK statically and loads no plug-in: build it with DPDK's shared libraries"
    path = build_folder() / PLUGIN
    if not path.is_file():
        return f"{BUILD_COMMAND}; then start the program again with -d .../{PLUGIN}"
    return f"start it again with -d {path}, or run `pollscope probe install` and start it again"


def _lcores(connection: TelemetrySocket, pid: int) -> list[int]:
    """Return the worker lcores, as DPDK 23.03 and later list them, or else by the names of threads."""
    listed = connection.value("/eal/lcore/list")
    if isinstance(listed, list):
        return [int(lcore) for lcore in listed]
    names = [read_text(path) or "" for path in (PROC / str(pid) / "task").glob("*/comm")] if pid else []
    return sorted(int(match[1]) for name in names if (match := _WORKER.search(name.strip())))


def _port(connection: TelemetrySocket, port: int) -> Port:
    info: dict[str, Any] = connection.value(f"/ethdev/info,{port}") or {}
    name = str(info.get("name", f"port {port}"))
    return Port(port, name, _driver(name), int(info.get("nb_rx_queues", 0)), int(info.get("nb_tx_queues", 0)))


def _driver(device: str) -> str:
    """Return the kernel's driver of a PCI device, or the kind of a virtual device, from the device's name."""
    if address := _PCI.match(device):
        link = SYS / "bus/pci/devices" / address[0].lower() / "driver"
        return link.resolve().name if link.exists() else ""
    kind = _VIRTUAL.match(device)
    return kind[1] if kind else ""


def _unseen(connection: TelemetrySocket) -> list[str]:
    """Return the names of the program's devices that rte_eth_rx_burst does not poll."""
    found = []
    for command, noun in _UNSEEN.items():
        devices = connection.value(command)
        if devices:
            found.append(counted(len(devices), noun))
    rings = 0
    for zone in (connection.value("/eal/memzone_list") or [])[:_MOST_MEMZONES]:
        info = connection.value(f"/eal/memzone_info,{zone}")
        name = str(info.get("Name", "")) if isinstance(info, dict) else ""
        rings += name.startswith("RG_") and not name.startswith("RG_MP_")  # the latter belong to mempools
    if rings:
        found.append(counted(rings, "ring"))
    return found
