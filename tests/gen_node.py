# SPDX-License-Identifier: BSD-3-Clause
"""Run a real node whose generator sends from one end of a virtual NIC pair to the other, on one lcore."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pollscope.node.client import NodeClient

SENDS, RECEIVES = "net_crossover0_a", "net_crossover0_b"
LIMIT_S = 30.0
WARMUP_S, WINDOW_S = 0.02, 0.1


class Generator:
    """A node; `configure` and `trial` speak docs/internals/node-protocol.md."""

    def __init__(self, client: NodeClient) -> None:
        self.client = client

    def configure(
        self, queues: int = 1, mtu: int = 1500, tx_queues: int = 1, far: Mapping[str, Any] | None = None, **gen: Any
    ) -> None:
        """Configure `queues` RX queues at the far end; `far` adds keys to its port, `gen` replaces those of "gen"."""
        ports = [
            {"name": SENDS, "rx_queues": 1, "tx_queues": tx_queues, "mtu": mtu},
            {"name": RECEIVES, "rx_queues": queues, "tx_queues": 1, "mtu": mtu, **(far or {})},
        ]
        whole = {"lcores": [1], "tx_port": SENDS, "rx_port": RECEIVES, "target_port": RECEIVES, **gen}
        self.client.request("configure", LIMIT_S, ports=ports, gen=whole)

    def trial(self, rate: Mapping[str, Any], window_s: float = WINDOW_S) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run one trial of one lcore; return the object G and the ports of its result."""
        (lcore,), ports = self.trial_of_all(rate, window_s)
        return lcore, ports

    def trial_of_all(
        self, rate: Mapping[str, Any], window_s: float = WINDOW_S
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Run one trial; return the objects G and the ports of its result."""
        times = {"warmup_ns": int(WARMUP_S * 1e9), "window_ns": int(window_s * 1e9), "drain_max_ns": 100_000_000}
        self.client.request("start", LIMIT_S, trial="t", rate=rate, **times)
        self.client.wait_trial("t", LIMIT_S)
        result = self.client.request("read", LIMIT_S)
        return result["gen"]["lcores"], result["ports"]


@contextmanager
def running_client(build_dir: Path, log: Path, lcores: str, *vdevs: str) -> Iterator[NodeClient]:
    """Run a node without hugepages until the block ends, and return its client."""
    command = [str(build_dir / "pollscope-node"), "--lcores", lcores, "--main-lcore", "0", "--no-pci"]
    command += ["--no-huge", "-m", "1024", "--no-shconf", "--file-prefix", f"pollscope-test-{os.getpid()}"]
    for vdev in vdevs:
        command += ["--vdev", vdev]
    client = NodeClient(command, log)
    try:
        client.wait_hello()
        yield client
    finally:
        client.close()


@contextmanager
def running_generator(build_dir: Path, log: Path, *vdevs: str, lcores: str = "0@0,1@1") -> Iterator[Generator]:
    """Run the generator alone; without `vdevs` between the ends of one pair."""
    with running_client(build_dir, log, lcores, *(vdevs or ("net_crossover0",))) as client:
        yield Generator(client)
