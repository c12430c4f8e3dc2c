# SPDX-License-Identifier: BSD-3-Clause
"""Run a real node whose DUT forwards between two virtual NIC pairs, to test docs/internals/node-protocol.md."""

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

GEN_TX, DUT_RX, DUT_TX, GEN_RX = "net_crossover0_a", "net_crossover0_b", "net_crossover1_a", "net_crossover1_b"
GENERATOR_LCORE, DUT_LCORE, SECOND_DUT_LCORE = 1, 2, 3
LCORES = f"0@0,{GENERATOR_LCORE}@0,{DUT_LCORE}@1,{SECOND_DUT_LCORE}@1"
PAIRS = ("net_crossover0", "net_crossover1")
LIMIT_S = 60.0


class Program:
    """A process that takes raw lines, including those that a client would never send."""

    def __init__(self, command: Sequence[str | Path], stderr: int | IO[bytes] = subprocess.DEVNULL, **env: str) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0, env=os.environ | env
        )
        self._tail = b""
        self.hello = self.line()

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)

    def line(self, limit_s: float = LIMIT_S) -> dict[str, Any]:
        """Return the next line of the process."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._tail:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            assert chunk, f"no line from the process (status {self.process.poll()})"
            self._tail += chunk
        line, self._tail = self._tail.split(b"\n", 1)
        message = json.loads(line)
        assert isinstance(message, dict)
        return message

    def ask(self, cmd: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return the reply, refused or not."""
        self.send(json.dumps({"cmd": cmd, **fields}).encode() + b"\n")
        return self.line()

    def get(self, cmd: str, **fields: Any) -> dict[str, Any]:
        """Send a request that must not be refused and return the reply."""
        reply = self.ask(cmd, **fields)
        assert reply["ok"] is True, reply
        return reply

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class Node(Program):
    """A node between virtual NIC pairs."""

    def __init__(
        self,
        build_dir: Path,
        log: Path,
        vdevs: Sequence[str] = PAIRS,
        mib: int = 1024,
        lcores: str = LCORES,
        preload: Path | None = None,
        program: str = "pollscope-node",
    ) -> None:
        command = [str(build_dir / program), "--lcores", lcores, "--main-lcore", "0", "--no-pci", "--no-huge"]
        command += ["-m", str(mib), "--no-shconf", "--file-prefix", f"pollscope-dut-{os.getpid()}"]
        for vdev in vdevs:
            command += ["--vdev", vdev]
        with log.open("ab") as stderr:
            super().__init__(command, stderr, **({"LD_PRELOAD": str(preload)} if preload else {}))

    def trial(self, window_s: float = 0.1, warmup_s: float = 0.02, **fields: Any) -> dict[str, Any]:
        """Run a trial to its end and read the result."""
        times = {"warmup_ns": int(warmup_s * 1e9), "window_ns": int(window_s * 1e9)}
        self.get("start", trial="t", **times, **fields)
        event = self.line()
        assert event == {"event": "done", "trial": "t"}
        return self.get("read")

    def busy_trial(self, window_s: float = 0.05, warmup_s: float = 0.0, **fields: Any) -> dict[str, Any]:
        """Repeat a trial, ever longer, until its DUT receives 100 packets: a busy host takes CPUs away."""
        for attempt in range(60):
            result = self.trial(window_s * (1 + attempt // 5), warmup_s, **{"drain_max_ns": 3 * 10**9, **fields})
            if sum(lcore["rx_packets"] for lcore in result["dut"]["lcores"]) >= 100:
                return result
        raise AssertionError("the DUT received fewer than 100 packets in each of 60 trials")


def configuration(
    queues: int = 1,
    rx_desc: int = 512,
    generator: bool = True,
    gen: Mapping[str, Any] | None = None,
    mtu: int = 1500,
    **dut: Any,
) -> dict[str, Any]:
    """Return a `configure` request without `cmd`: generator to DUT to generator."""
    lcores = len(dut.get("lcores", [DUT_LCORE]))
    senders = len((gen or {}).get("lcores", [GENERATOR_LCORE]))
    ports = [
        {"name": GEN_TX, "tx_queues": senders},
        {"name": DUT_RX, "rx_queues": queues, "rx_desc": rx_desc},
        {"name": DUT_TX, "tx_queues": lcores},
        {"name": GEN_RX, "rx_queues": senders},
    ]
    whole: dict[str, Any] = {"ports": [port | {"mtu": mtu} for port in ports]}
    whole["dut"] = {"lcores": [DUT_LCORE], "rx_port": DUT_RX, "tx_port": DUT_TX, "workload": "io", **dut}
    if generator:
        ends = {"lcores": [GENERATOR_LCORE], "tx_port": GEN_TX, "rx_port": GEN_RX, "target_port": DUT_RX}
        whole["gen"] = {**ends, **(gen or {})}
    return whole


def skip_without(reply: dict[str, Any]) -> None:
    """Skip the test if this build or this DPDK lacks what the configuration needs; fail if it is refused otherwise."""
    for words in ("neither crypto_aesni_mb nor crypto_openssl", "without ISA-L", "without the cryptodev library"):
        if not reply["ok"] and words in reply["error"]:
            pytest.skip(reply["error"])
    assert reply["ok"], reply


@contextmanager
def running_node(*arguments: Any, **options: Any) -> Iterator[Node]:
    """Run a Node of these arguments until the block ends."""
    node = Node(*arguments, **options)
    try:
        yield node
    finally:
        node.end()
