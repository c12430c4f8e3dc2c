#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Packets per second of the generator on one core against stock `dpdk-testpmd` in mode txonly on the same port.

Both send 64-byte frames in bursts of 32 as fast as they can into net_crossover0_a (one queue, 512 descriptors), on the
same CPU, in turns; nobody receives at the other end, so that the sending core alone sets the pace. The generator writes
a sequence number, two time stamps, one of 1024 flows and both checksums into each frame; txonly writes the same headers
into all.

Prints `ratio generator_vs_txonly MEDIAN LOW HIGH N`: the generator's rate over testpmd's, with the 95 % interval of the
median over N pairs. Ends with 1 when the median is below 1.
"""

import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pollscope.analysis.statistics import median_estimate
from pollscope.errors import HostError, PollscopeError
from pollscope.host.memory import hugepages
from pollscope.node import NodeClient
from pollscope.places import node_program

PAIRS = 15
WINDOW_S = 0.4
LIMIT_S = 30.0
BURST, DESCRIPTORS = 32, 512
PROMPT = "testpmd> "


def eal_arguments(role: str) -> list[str]:
    """Main lcore on CPU 0, the sender on CPU 1; a file prefix of this process's own."""
    arguments = ["--lcores", "0@0,1@1", "--main-lcore", "0", "--no-pci", "--vdev", "net_crossover0"]
    arguments += ["--file-prefix", f"bench-{role}-{os.getpid()}"]
    huge = any(pages.free_bytes >= 512 << 20 for pages in hugepages())
    return [*arguments, "--in-memory"] if huge else [*arguments, "--no-huge", "--no-shconf", "-m", "512"]


class Generator:
    """A pollscope-node that sends as fast as it can."""

    def __init__(self, log: Path) -> None:
        self._client = NodeClient([str(node_program()), *eal_arguments("gen")], log)
        self.tsc_hz = self._client.wait_hello()["tsc_hz"]
        same = {"rx_queues": 1, "tx_queues": 1, "rx_desc": DESCRIPTORS, "tx_desc": DESCRIPTORS}
        ports = [{"name": f"net_crossover0_{end}", **same} for end in "ab"]
        gen = {"lcore": 1, "tx_port": "net_crossover0_a", "target_port": "net_crossover0_b", "burst": BURST}
        self._client.request("configure", LIMIT_S, ports=ports, gen=gen)

    def packets_per_s(self) -> float:
        """One trial."""
        times = {"warmup_ns": 50_000_000, "window_ns": int(WINDOW_S * 1e9), "drain_max_ns": 1_000_000}
        self._client.request("start", LIMIT_S, trial="bench", rate={"saturate": True}, **times)
        self._client.wait_event(("done", "failed"), LIMIT_S)
        lcore: dict[str, Any] = self._client.request("read", LIMIT_S)["gen"]["lcores"][0]
        return float(lcore["sent"] * self.tsc_hz / lcore["duration_tsc"])

    def close(self) -> None:
        self._client.close()


class Testpmd:
    """A dpdk-testpmd in mode txonly, driven through its prompt."""

    def __init__(self, log: Path) -> None:
        plug_in = node_program().with_name("librte_net_crossover.so")
        program = shutil.which("dpdk-testpmd")
        if program is None or not plug_in.is_file():
            raise HostError("needs dpdk-testpmd and librte_net_crossover.so", str(plug_in), "make build")
        # stdbuf: answers to the prompt come line by line although they go into a pipe.
        command = ["stdbuf", "-oL", program, "-d", str(plug_in), *eal_arguments("txonly"), "--", "--interactive"]
        command += [f"--burst={BURST}", "--txpkts=60", f"--rxd={DESCRIPTORS}", f"--txd={DESCRIPTORS}"]
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )
        self._until(PROMPT)
        for line in ("set fwd txonly", "set portlist 0"):
            self._ask(line)

    def packets_per_s(self) -> float:
        """The rate that testpmd itself counts between two looks at the statistics."""
        self._ask("start")
        time.sleep(0.05)
        self._ask("show port stats 0")
        time.sleep(WINDOW_S)
        answer = self._ask("show port stats 0")
        self._ask("stop")
        rate = re.search(r"Tx-pps:\s+(\d+)", answer)
        if rate is None:
            raise HostError("testpmd showed no Tx-pps", "show port stats 0")
        return float(rate[1])

    def close(self) -> None:
        if self._process.poll() is None:
            self._write("quit")
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _ask(self, line: str) -> str:
        self._write(line)
        return self._until(PROMPT)

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def _until(self, text: str) -> str:
        assert self._process.stdout is not None
        answer, descriptor, deadline = "", self._process.stdout.fileno(), time.monotonic() + LIMIT_S
        while not answer.endswith(text):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(descriptor, 1 << 16) if ready else b""
            if not chunk:
                raise HostError(f"testpmd did not show its prompt: {answer[-200:]!r}", "dpdk-testpmd")
            answer += chunk.decode(errors="replace")
        return answer


def measure_pairs(generator: Generator, testpmd: Testpmd) -> list[float]:
    """Rates of the generator over testpmd's; who goes first changes from pair to pair."""
    ratios: list[float] = []
    for pair in range(PAIRS + 1):
        if pair % 2:
            ours, theirs = generator.packets_per_s(), testpmd.packets_per_s()
        else:
            theirs, ours = testpmd.packets_per_s(), generator.packets_per_s()
        print(f"generator {ours / 1e6:.2f} Mpps, txonly {theirs / 1e6:.2f} Mpps", file=sys.stderr)
        if pair > 0:  # the first one warms up
            ratios.append(ours / theirs)
    return ratios


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "stderr.log"
        generator, testpmd = Generator(log), None
        try:
            testpmd = Testpmd(log)
            estimate = median_estimate(measure_pairs(generator, testpmd))
        finally:
            generator.close()
            if testpmd is not None:
                testpmd.close()
    print(f"ratio generator_vs_txonly {estimate.value:.3f} {estimate.low:.3f} {estimate.high:.3f} {estimate.n}")
    return 0 if estimate.value >= 1 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"generator_vs_txonly: {error}")
