# SPDX-License-Identifier: BSD-3-Clause
"""Use pktgen-dpdk as the generator of a pair, by lines of Lua that a program on its host passes to it.

Written and tried with pktgen-dpdk 23.06.1 on DPDK 22.11. The file pktgen_there.py, which goes to that host through SSH,
says how it starts pktgen-dpdk and why it leaves the program's own socket closed.
"""

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from pollscope.base.errors import HostError
from pollscope.base.fields import StrictModel
from pollscope.node.client import NodeFailed, NodeLost
from pollscope.testbeds.pair.other_generator import (
    DESTINATION_PORT,
    FIRST_SOURCE_PORT,
    SAFE_PATH,
    SOURCE,
    OtherGenerator,
    SentProgram,
    destinations,
)
from pollscope.testbeds.pair.ssh import Remote, root_command

THERE = Path(__file__).with_name("pktgen_there.py")
START_LIMIT_S, ANSWER_LIMIT_S = 90.0, 30.0
FIRST_PACKET_LIMIT_S, LOOK_S = 10.0, 0.005
# Frame size of pktgen counts the FCS; preamble and gap between frames come on top (IEEE 802.3, clause 4.2.3.2.2).
_WIRE_OVERHEAD_BYTES = 20
_NO_LATENCY = (
    "pktgen-dpdk reports minimum, mean and maximum latency of packets stamped at sending: "
    "no distribution, and no latency from the intended time of sending"
)
NO_INTENTION = "pktgen-dpdk does not report how many packets were due"
# Each port has five pools of 24,576 buffers of 10 KiB (pktgen-constants.h: MAX_MBUFS_PER_PORT, DEFAULT_MBUF_SIZE).
_MEMORY = "it takes 1.3 GiB per port: reserve as many hugepages, or set generator.memory_mib"


class PktgenConfig(StrictModel):
    """Describe how pktgen-dpdk runs on the generator's host."""

    program: str = Field(default="/opt/pollscope-pktgen/current/bin/pktgen", pattern=r"^/\S+$")


def rate_percent(pps: float, frame_bytes: int, line_mbps: float) -> float:
    """Convert a packet rate to pktgen's `rate`: a percentage of the line, at most 100."""
    return min(100.0, 100 * pps * (frame_bytes + _WIRE_OVERHEAD_BYTES) * 8 / (line_mbps * 1e6))


def setting_lines(generator: Mapping[str, Any]) -> list[str]:
    """Return Lua for the `gen` of a configure request: size, burst, and ranges of ports and addresses for the flows."""
    size, flows = generator["frame"][0]["bytes"], generator["flows"]
    to = destinations(generator["routes"], flows)
    last_port = FIRST_SOURCE_PORT + flows - 1
    mac = generator.get("target", {}).get("mac")
    macs = [f'pktgen.set_mac("0", "dst", "{mac}")', f'pktgen.range.dst_mac("0", "start", "{mac}")'] if mac else []
    return [
        'pktgen.stop("all")',
        'pktgen.set("0", "count", 0)',
        'pktgen.set_type("0", "ipv4")',
        'pktgen.set_proto("0", "udp")',
        f'pktgen.set("0", "size", {size})',
        f'pktgen.set("0", "burst", {generator["burst"]})',
        f'pktgen.set("0", "sport", {FIRST_SOURCE_PORT})',
        f'pktgen.set("0", "dport", {DESTINATION_PORT})',
        f'pktgen.set_ipaddr("0", "src", "{SOURCE}/32")',
        f'pktgen.set_ipaddr("0", "dst", "{to.first}")',
        'pktgen.range.set_type("0", "ipv4")',
        'pktgen.range.ip_proto("0", "udp")',
        *macs,
        *_range("src_ip", f'"{SOURCE}"', f'"{SOURCE}"', '"0.0.0.0"'),
        *_range("dst_ip", f'"{to.first}"', f'"{to.last}"', f'"{to.step}"'),
        *_range("src_port", str(FIRST_SOURCE_PORT), str(last_port), "1" if flows > 1 else "0"),
        *_range("dst_port", str(DESTINATION_PORT), str(DESTINATION_PORT), "0"),
        *_range("pkt_size", str(size), str(size), "0"),
        f'pktgen.set_range("0", "{"on" if flows > 1 else "off"}")',
    ]


def _range(name: str, first: str, last: str, step: str) -> list[str]:
    values = {"start": first, "min": first, "max": last, "inc": step}
    return [f'pktgen.range.{name}("0", "{key}", {value})' for key, value in values.items()]


class Pktgen(OtherGenerator):
    """Own pktgen-dpdk on the generator's host.

    Args:
        remote: the generator's host.
        eal: EAL arguments there: one lcore beside the main one for each port, and its ports.
        config: see PktgenConfig.
        names: of the sending and of the receiving port; may be one.
        log: for what ssh and the program write.
    """

    driver = "pktgen-dpdk"
    absences: ClassVar = {
        "intended": NO_INTENTION,
        "unsent": NO_INTENTION,
        "total": "ports of pktgen-dpdk count every arriving packet, so the number of lost packets is unknown",
        "latency_ns": _NO_LATENCY,
        "sequence": "pktgen-dpdk numbers no packets: neither order, nor duplicates, nor loss of single flows are known",
        "host_gaps": "pktgen-dpdk does not watch its core for gaps",
    }

    def __init__(
        self, remote: Remote, eal: Sequence[str], config: PktgenConfig, names: tuple[str, str], log: Path
    ) -> None:
        self._remote, self._log = remote, log
        self._used = (0,) if names[0] == names[1] else (0, 1)
        # An lcore serves one port: a second entry for the same lcore replaces the first.
        cores = ",".join(f"[{port + 1}:{port + 1}].{port}" for port in self._used)
        own = [config.program, *eal, "--", "-P", "-m", cores]
        command = root_command(remote, ["python3", "-c", SAFE_PATH + THERE.read_text(), *own])
        super().__init__(names, SentProgram(command, log, "pktgen-dpdk"))
        self._base: dict[str, float] = {}

    def wait_hello(self) -> dict[str, Any]:
        """Wait until its Lua answers.

        Raises:
            HostError: it ended, or does not answer.
        """
        try:
            pid = self._program.answer(START_LIMIT_S)["ready"]
        except (NodeLost, KeyError) as error:
            self.end()
            remedy = _MEMORY if "Cannot create mbuf pool" in str(error) else f"all of it: {self._log}"
            raise HostError(str(error), f"generator {self._remote}", remedy) from error
        return {**self._said_hello(), "pid": pid}

    def _links(self) -> dict[str, bool]:
        return {name: bool(self._line_mbps(port)) for port, name in zip(self._used, self._names, strict=False)}

    def _line_mbps(self, port: int = 0) -> int:
        """Return the speed of a port's link, of which rates are a percentage; 0 while it is down."""
        said = self._lua([f'return pktgen.linkState("{port}")[{port}]'])
        found = re.match(r"<UP-(\d+)-", said)
        return int(found[1]) if found else 0

    def _configure(self, limit_s: float) -> None:
        self._lua(setting_lines(self._generator) if self._generator else ['pktgen.stop("all")'], limit_s)

    def request(self, command: str, limit_s: float, **fields: Any) -> dict[str, Any]:
        """Answer a request of the node protocol; `start` begins to send, so that its delay is measured."""
        answer = super().request(command, limit_s, **fields)
        if command == "start":
            self._begin()
        return answer

    def _begin(self) -> None:
        """Begin to send, and wait for the first packet: pktgen-dpdk fills a whole pool of packets before it."""
        percent = self._percent()
        self._lua(
            [
                'pktgen.stop("all")',
                "pktgen.clr()",
                f'pktgen.latency("all", "{"on" if self._generator.get("rx_port") else "off"}")',
            ]
        )
        self._base = self._counts()
        if percent == 0:  # pktgen takes no rate of 0
            return
        self._lua([f'pktgen.set("0", "rate", {percent:.6f})', 'pktgen.start("0")'])
        deadline = time.monotonic() + FIRST_PACKET_LIMIT_S
        while self._counts(self._base)["0.opackets"] == 0:
            if time.monotonic() > deadline:
                self._lua(['pktgen.stop("0")'])
                raise NodeFailed(f"pktgen-dpdk sent nothing for {FIRST_PACKET_LIMIT_S:.0f} s after its start")
            time.sleep(LOOK_S)

    def _trial(self) -> dict[str, Any]:
        start = self._start
        time.sleep(start["warmup_ns"] / 1e9)
        before = self._counts(self._base)
        time.sleep(start["window_ns"] / 1e9)
        after = self._counts(self._base)
        self._lua(['pktgen.stop("0")'])
        time.sleep(start["drain_max_ns"] / 1e9)
        return self._measured(before, after, {"pktgen_latency": self._latencies()})

    def _percent(self) -> float:
        rate, size = self._start["rate"], int(self._generator["frame"][0]["bytes"])
        if "saturate" in rate:
            return 100.0
        if "line_share" in rate:
            return 100.0 * float(rate["line_share"])
        speed = self._line_mbps()
        if not speed:
            raise NodeFailed(f"{self._names[0]} of pktgen-dpdk has no link", remedy="is the cable in?")
        return rate_percent(float(rate["pps"]), size, speed)

    def _counts(self, base: Mapping[str, float] = {}) -> dict[str, float]:
        """Return the counters of both ports since `base`, with the time at which they were read."""
        found = self._program.ask({"counts": self._used}, ANSWER_LIMIT_S)
        return {key: value - base.get(key, 0) if key != "t_ns" else value for key, value in found.items()}

    def _latencies(self) -> dict[str, Any]:
        """Return its latencies under its own names and in its own units; no metric uses them."""
        if not self._generator.get("rx_port"):
            return {"absent": "the generator does not receive packets"}
        port = self._receiving
        names = ("num_pkts", "min_us", "avg_us", "max_us")
        shown = " .. ' ' .. ".join(f"s.{name}" for name in names)
        said = self._lua([f'local s = pktgen.pktStats("{port}")[{port}].latency return {shown}']).split()
        found = dict(zip(names, map(float, said), strict=True))
        return found if found["num_pkts"] else {"absent": "none of its stamped packets came back"}

    def _lua(self, lines: Sequence[str], limit_s: float = ANSWER_LIMIT_S) -> str:
        """Run Lua there and return its value as text.

        Raises:
            NodeFailed: Lua refused it. NodeLost: there is no answer.
        """
        answer = self._program.ask({"lua": " ".join(lines)}, limit_s)
        if "error" in answer:
            raise NodeFailed(f"pktgen-dpdk refused Lua: {answer['error']}", remedy="is it version 23.06 or later?")
        return str(answer["value"])
