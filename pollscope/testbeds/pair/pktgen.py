# SPDX-License-Identifier: BSD-3-Clause
"""Use pktgen-dpdk as the generator of a pair, through Lua on its control socket.

This is written against its public documentation (the Lua interface and the TCP control socket, port 22022) and was
never run against the real program. The socket is reached through SSH (`ssh -W`), so that it listens on the loopback
interface alone. It has no password: every user of that host can run Lua in pktgen-dpdk, which runs as root.
"""

import contextlib
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from pollscope.base.errors import HostError
from pollscope.base.fields import StrictModel
from pollscope.node.client import LINE_LIMIT_BYTES, LineReader, NodeLost, end_process
from pollscope.testbeds.pair.other_generator import COUNTERS, FIRST_SOURCE_PORT, OtherGenerator
from pollscope.testbeds.pair.ssh import Remote, root_command, ssh_command

# Frame size of pktgen counts the FCS; preamble and gap between frames come on top (IEEE 802.3, clause 4.2.3.2.2).
_WIRE_OVERHEAD_BYTES = 20
ANSWER_LIMIT_S, START_LIMIT_S, LOOK_S = 20.0, 60.0, 0.5
_MARK = "POLLSCOPE"
_NO_LATENCY = (
    "pktgen-dpdk gives least, mean and greatest latency of packets that it stamps when it sends them: "
    "no distribution, and nothing from the intended time of sending"
)
NO_INTENTION = "pktgen-dpdk does not tell what it meant to send"


class PktgenConfig(StrictModel):
    """Describe how pktgen-dpdk runs on the generator's host."""

    program: str = Field(default="/opt/pollscope-pktgen/current/bin/pktgen", pattern=r"^/\S+$")
    line_gbps: float = Field(gt=0, strict=False, description="speed of the link; the rate is set as a percentage of it")
    control_port: int = Field(default=22022, ge=1, le=65535)
    folder: str = Field(
        default="/opt/pollscope-pktgen/current", pattern=r"^/\S+$", description="folder with Pktgen.lua"
    )


def rate_percent(pps: float, frame_bytes: int, line_gbps: float) -> float:
    """Convert a packet rate to pktgen's `rate`: a percentage of the line, at most 100."""
    return min(100.0, 100 * pps * (frame_bytes + _WIRE_OVERHEAD_BYTES) * 8 / (line_gbps * 1e9))


def _setting_lines(generator: Mapping[str, Any]) -> list[str]:
    """Return Lua for the `gen` of a configure request: size, burst, and a range of source ports for the flows."""
    size, flows = generator["frame"][0]["bytes"], generator["flows"]
    return [
        'pktgen.stop("all")',
        "pktgen.clr()",
        'pktgen.set("0", "count", 0)',
        f'pktgen.set("0", "size", {size})',
        f'pktgen.set("0", "burst", {generator["burst"]})',
        f'pktgen.range.src_port("0", "start", {FIRST_SOURCE_PORT})',
        f'pktgen.range.src_port("0", "min", {FIRST_SOURCE_PORT})',
        f'pktgen.range.src_port("0", "max", {FIRST_SOURCE_PORT + flows - 1})',
        f'pktgen.range.src_port("0", "inc", {1 if flows > 1 else 0})',
        f'pktgen.range.pkt_size("0", "start", {size})',
        f'pktgen.range.pkt_size("0", "min", {size})',
        f'pktgen.range.pkt_size("0", "max", {size})',
        'pktgen.range.pkt_size("0", "inc", 0)',
        f'pktgen.set_range("0", "{"on" if flows > 1 else "off"}")',
    ]


class Control:
    """Run lines of Lua over the control socket and read what they print, up to a mark at the end of each request."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )
        self._reader = LineReader(self._process.stdout, "pktgen-dpdk")
        self._text, self._number = "", 0

    @property
    def alive(self) -> bool:
        """Tell whether the connection is there."""
        return self._process.poll() is None

    def ask(self, lines: Sequence[str], limit_s: float = ANSWER_LIMIT_S) -> str:
        """Run Lua and return what it printed.

        Raises:
            NodeLost: there is no answer, an answer without end, or no connection.
        """
        self._number += 1
        end = f"{_MARK}-{self._number}-END"
        self._send("\n".join([*lines, f'printf("{end}\\n")', ""]))
        deadline = time.monotonic() + limit_s
        while end not in self._text:
            self._read(deadline)
        said, _, self._text = self._text.partition(end)
        return said

    def _send(self, text: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise NodeLost(f"pktgen-dpdk's control socket is gone (ssh: status {self._process.wait(5)})") from error

    def _read(self, deadline: float) -> None:
        chunk = self._reader.chunk(deadline)
        if chunk is None or len(self._text) > LINE_LIMIT_BYTES:
            raise NodeLost("pktgen-dpdk hung: no answer on its control socket")
        if not chunk:
            raise NodeLost(f"pktgen-dpdk's control socket was closed (ssh: status {self._process.wait(5)})")
        self._text += chunk.decode(errors="replace")

    def end(self) -> None:
        """End the connection."""
        end_process(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # unsent data is of no use any more
                    pipe.close()


class Pktgen(OtherGenerator):
    """Own pktgen-dpdk on the generator's host.

    Args:
        remote: the generator's host.
        eal: EAL arguments there: two lcores, its ports.
        config: see PktgenConfig.
        names: of the sending and of the receiving port; may be one.
        log: for what ssh and the program write.
    """

    driver = "pktgen-dpdk"
    absences: ClassVar = {
        "intended": NO_INTENTION,
        "unsent": NO_INTENTION,
        "total": "ports of pktgen-dpdk count whatever arrives, so that they do not tell how many packets were lost",
        "latency_ns": _NO_LATENCY,
        "sequence": "pktgen-dpdk numbers no packets: neither order, nor duplicates, nor loss of single flows are known",
        "host_gaps": "pktgen-dpdk does not watch its core for gaps",
    }

    def __init__(
        self, remote: Remote, eal: Sequence[str], config: PktgenConfig, names: tuple[str, str], log: Path
    ) -> None:
        super().__init__(names)
        self._remote, self._config, self._log = remote, config, log
        own = ["-P", "-G", "-m", "[1:1].0" if self._receiving == 0 else "[1:1].0,[1:1].1"]
        command = root_command(remote, ["env", "-C", config.folder, config.program, *eal, "--", *own])
        with log.open("ab") as said:
            self._program = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=said, stderr=said, start_new_session=True
            )
        self._control: Control | None = None

    def wait_hello(self) -> dict[str, Any]:
        """Wait until its control socket answers.

        Raises:
            HostError: it ended, or does not answer.
        """
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            try:
                self._control = Control(self._control_command(), self._log)
                self._control.ask(['pktgen.screen("off")'])
                break
            except NodeLost as error:
                self._control.end() if self._control is not None else None
                if self._program.poll() is not None or time.monotonic() > deadline:
                    ended = self._program.poll()
                    self.end()
                    how = error.what if ended is None else f"pktgen-dpdk ended with status {ended}"
                    raise HostError(how, str(self._log)) from error
                time.sleep(LOOK_S)
        return self._said_hello()

    def _control_command(self) -> list[str]:
        *words, _remote_command = ssh_command(self._remote, [])
        at = words.index("--")
        return [*words[:at], "-W", f"127.0.0.1:{self._config.control_port}", *words[at:]]

    @property
    def alive(self) -> bool:
        """Tell whether the program and the connection to its socket are there."""
        return self._program.poll() is None and self._control is not None and self._control.alive

    def _configure(self, limit_s: float) -> None:
        self._lua(_setting_lines(self._generator) if self._generator else ['pktgen.stop("all")'], limit_s)

    def _trial(self) -> dict[str, Any]:
        start = self._start
        self._lua(["pktgen.clr()", f'pktgen.set("0", "rate", {self._rate():.6f})', self._latency(), *self._begin()])
        time.sleep(start["warmup_ns"] / 1e9)
        before = self._counts()
        time.sleep(start["window_ns"] / 1e9)
        after = self._counts()
        self._lua(['pktgen.stop("0")'])
        time.sleep(start["drain_max_ns"] / 1e9)
        return self._measured(before, after, {"pktgen_latency": self._latencies()})

    def _rate(self) -> float:
        rate, size = self._start["rate"], int(self._generator["frame"][0]["bytes"])
        if "saturate" in rate:
            return 100.0
        if "line_share" in rate:
            return 100.0 * float(rate["line_share"])
        return rate_percent(float(rate["pps"]), size, self._config.line_gbps)

    def _begin(self) -> list[str]:
        return ['pktgen.start("0")'] if self._rate() > 0 else []  # pktgen takes no rate of 0

    def _latency(self) -> str:
        return 'pktgen.latency("0", "on")' if self._generator.get("rx_port") else 'pktgen.latency("0", "off")'

    def _counts(self) -> dict[str, float]:
        """Return the counters of both ports since `clr`, with the time at which they were read."""
        wanted = [f'local s{port} = pktgen.portStats("{port}", "port")[{port}]' for port in {0, self._receiving}]
        cells = dict.fromkeys((port, name) for port in (0, self._receiving) for name in COUNTERS)
        shown = [f'printf("{_MARK} {port} {name} %d\\n", s{port}["{name}"])' for port, name in cells]
        asked_ns = time.monotonic_ns()
        said = self._lua(["do", *wanted, *shown, "end"])
        found = re.findall(rf"{_MARK} (\d) (\w+) (\d+)", said)
        counts = {f"{port}.{name}": float(value) for port, name, value in found}
        if missing := [name for name in ("0.opackets", f"{self._receiving}.ipackets") if name not in counts]:
            raise NodeLost(f"pktgen-dpdk gave no {missing[0]}: {said.strip()[:60]!r}")
        return {**counts, "t_ns": (asked_ns + time.monotonic_ns()) / 2}

    def _latencies(self) -> dict[str, Any]:
        """Return the latency page under its own names and in its own units; no metric is made of it."""
        if not self._generator.get("rx_port"):
            return {"absent": "the generator takes no packets back"}
        port = self._receiving
        said = self._lua(
            [
                f'for name, value in pairs(pktgen.pktStats("{port}")[{port}]) do',
                f'if string.find(name, "latency") then printf("{_MARK} %s %s\\n", name, tostring(value)) end',
                "end",
            ]
        )
        found = re.findall(rf"{_MARK} (\w+) (-?[\d.]+)", said)
        return {name: float(value) for name, value in found} or {"absent": "its pktStats have nothing of latency"}

    def _lua(self, lines: Sequence[str], limit_s: float = ANSWER_LIMIT_S) -> str:
        if self._control is None:
            raise NodeLost("pktgen-dpdk is not connected")
        return self._control.ask(lines, limit_s)

    def close(self) -> None:
        """Ask pktgen-dpdk to quit, and end it if it does not."""
        if self.alive:
            try:
                self._lua(['pktgen.stop("all")', "pktgen.quit()"], 3.0)
                self._program.wait(3.0)
            except (NodeLost, subprocess.TimeoutExpired):
                pass
        self.end()

    def end(self) -> None:
        """End both connections; the program ends because its console does."""
        if self._control is not None:
            self._control.end()
        if self._program.stdin is not None:
            self._program.stdin.close()
        end_process(self._program)
