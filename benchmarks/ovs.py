# SPDX-License-Identifier: BSD-3-Clause
"""Run an Open vSwitch with DPDK in a folder of its own, to measure against it."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pollscope.base.errors import HostError
from pollscope.host.eal_folders import remove_folder

SWITCH = Path("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
TOOLS = ("ovsdb-tool", "ovsdb-server", "ovs-vsctl", "ovs-appctl", "ovs-ofctl")
INSTALL = "apt-get install openvswitch-switch-dpdk"
LIMIT_S, END_LIMIT_S = 30.0, 5.0


@dataclass(frozen=True)
class PmdCounts:
    """Counters of the PMD thread since they were cleared: `pmd-perf-show` and `pmd-stats-show`."""

    iterations: int
    idle_iterations: int  # received nothing
    cycles: int  # in iterations
    idle_cycles: int
    busy_cycles: int
    rx_packets: int


def ovs_is_missing() -> str | None:
    """Return why there is no Open vSwitch with DPDK here; None if there is one."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    missing += [str(file) for file in (SWITCH, SCHEMA) if not file.is_file()]
    return f"{missing[0]} is not installed ({INSTALL})" if missing else None


class Ovs:
    """A switch with one port that drops all packets: one PMD thread on CPU 1, the rest on CPU 0.

    `eal` adds to EAL's arguments.

    Raises:
        HostError: the switch does not start.
    """

    def __init__(self, folder: Path, port: str, devargs: str, memory: str, eal: Sequence[str] = ()) -> None:
        self._folder, self._processes = folder, list[subprocess.Popen[bytes]]()
        self._environment = {
            **os.environ,
            **{f"OVS_{name}DIR": str(folder) for name in ("RUN", "LOG", "DB", "SYSCONF")},
        }
        self._run("ovsdb-tool", "create", str(folder / "conf.db"), str(SCHEMA))
        try:
            self._start("ovsdb-server", str(folder / "conf.db"), f"--remote=punix:{folder}/db.sock")
            self._await(folder / "db.sock")
            self._vsctl("--no-wait", "init")
            self._vsctl("--no-wait", "set", "Open_vSwitch", ".", *_settings(folder, memory, eal))
            self._start(str(SWITCH), f"unix:{folder}/db.sock", f"--unixctl={folder}/vs.ctl")
            self._await(folder / "vs.ctl")
            self._vsctl("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev")
            self._add_port(port, devargs)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Return the process of the switch."""
        return self._processes[-1].pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add_port(self, port: str, devargs: str) -> None:
        self._vsctl(
            "add-port", "br0", port, "--", "set", "Interface", port, "type=dpdk", f"options:dpdk-devargs={devargs}"
        )
        error = self._vsctl("get", "Interface", port, "error").strip()
        if error != "[]":
            raise HostError(f"Open vSwitch does not take {devargs}: {error}", str(self._folder))
        self._run("ovs-ofctl", "del-flows", f"unix:{self._folder}/br0.mgmt")
        self._run("ovs-ofctl", "add-flow", f"unix:{self._folder}/br0.mgmt", "actions=drop")

    def clear(self) -> None:
        """Clear the counters."""
        self._appctl("dpif-netdev/pmd-stats-clear")

    def counts(self) -> PmdCounts:
        """Return the counters since `clear`."""
        stats = self._appctl("dpif-netdev/pmd-stats-show")
        return parse_counts(self._appctl("dpif-netdev/pmd-perf-show", "-nh"), stats)

    def close(self) -> None:
        """End the processes that this object started, the switch first, and remove the folder of EAL."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(END_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        remove_folder(_prefix(self._folder))

    def _start(self, *command: str) -> None:
        with (self._folder / "processes.log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [*command, "--no-chdir"], env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
            )

    def _await(self, socket: Path) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not socket.exists():
            if self._processes[-1].poll() is not None or time.monotonic() > deadline:
                raise HostError("Open vSwitch does not come up", str(self._folder / "processes.log"), self._last_line())
            time.sleep(0.05)

    def _last_line(self) -> str:
        lines = (self._folder / "processes.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _vsctl(self, *words: str) -> str:
        return self._run("ovs-vsctl", f"--timeout={LIMIT_S:.0f}", f"--db=unix:{self._folder}/db.sock", *words)

    def _appctl(self, *words: str) -> str:
        return self._run("ovs-appctl", "-t", str(self._folder / "vs.ctl"), *words)

    def _run(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=2 * LIMIT_S, check=False
        )
        if done.returncode != 0:
            raise HostError(f"{command[0]} failed: {done.stderr.strip()[-200:]}", str(self._folder))
        return done.stdout


def parse_counts(perf: str, stats: str) -> PmdCounts:
    """Read the counters of the first PMD thread from `pmd-perf-show -nh` and `pmd-stats-show`.

    Raises:
        HostError: the output differs from that of Open vSwitch 3.1.
    """
    said = {
        "iterations": (perf, r"Iterations: +(\d+)"),
        "idle_iterations": (perf, r"- idle iterations: +(\d+)"),
        "cycles": (perf, r"- Used TSC cycles: +(\d+)"),
        "rx_packets": (perf, r"Rx packets: +(\d+)"),
        "idle_cycles": (stats, r"idle cycles: (\d+)"),
        "busy_cycles": (stats, r"processing cycles: (\d+)"),
    }
    found = {name: re.search(pattern, text) for name, (text, pattern) in said.items()}
    missing = [name for name, match in found.items() if match is None]
    if missing:
        raise HostError(f"Open vSwitch does not tell its {missing[0]}: {perf[:200]!r}", "ovs-appctl")
    return PmdCounts(**{name: int(match[1]) for name, match in found.items() if match})


def _prefix(folder: Path) -> str:
    return f"ovs-{folder.name}"


def _settings(folder: Path, memory: str, eal: Sequence[str]) -> list[str]:
    extra = " ".join(["--no-pci", "--in-memory", f"--file-prefix={_prefix(folder)}", *eal])
    pairs = {
        "dpdk-init": "true",
        "dpdk-lcore-mask": "0x1",
        "pmd-cpu-mask": "0x2",
        "dpdk-socket-mem": memory,
        "dpdk-extra": f'"{extra}"',
    }
    return [f"other_config:{key}={value}" for key, value in pairs.items()]
