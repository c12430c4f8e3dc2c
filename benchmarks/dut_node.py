# SPDX-License-Identifier: BSD-3-Clause
"""Run a pollscope-node whose DUT forwards from one virtual NIC pair to another."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from eal import LIMIT_S, memory, start_node, trial

from pollscope.node.client import NodeClient

PORTS = ("net_crossover0_a", "net_crossover0_b", "net_crossover1_a", "net_crossover1_b")
GENERATOR_LCORE, DUT_LCORE = 1, 2
WARMUP_SHARE = 0.2


class DutNode:
    """A node with its DUT on CPU 1, and main lcore and generator on CPU 0."""

    def __init__(self, client: NodeClient) -> None:
        self._client = client
        self.tsc_hz: float = client.hello["tsc_hz"]
        self.pid: int = client.pid

    def configure(
        self,
        dut: Mapping[str, Any],
        generator: bool,
        receives: bool = False,
        rx_port: Mapping[str, Any] | None = None,
        generator_adds: Mapping[str, Any] | None = None,
    ) -> None:
        """Configure one RX queue, or what `rx_port` says; `dut` and `generator_adds` add to the objects of these names.

        With `receives` the generator receives what the DUT sends.
        """
        whole: dict[str, Any] = {
            "ports": [{"name": name, **(rx_port or {} if name == PORTS[1] else {})} for name in PORTS],
            "dut": {"lcores": [DUT_LCORE], "rx_port": PORTS[1], "tx_port": PORTS[2], **dut},
        }
        if generator:
            ends = {"tx_port": PORTS[0], "rx_port": PORTS[3] if receives else None, "target_port": PORTS[1]}
            whole["gen"] = {"lcores": [GENERATOR_LCORE], **ends, **(generator_adds or {})}
        self._client.request("configure", LIMIT_S, **whole)

    def trial(self, window_s: float, pps: float = 0.0) -> dict[str, Any]:
        """Run one trial and return the DUT's lcore."""
        lcore: dict[str, Any] = self.result(window_s, pps)["dut"]["lcores"][0]
        return lcore

    def result(
        self,
        window_s: float,
        pps: float = 0.0,
        rate: Mapping[str, Any] | None = None,
        once_begun: Callable[[], object] = lambda: None,
    ) -> dict[str, Any]:
        """Run one trial at `pps`, or at `rate` as in a start request, and return the whole result.

        `once_begun` is called when it has begun. The window follows after WARMUP_SHARE of its length.
        """
        times = {"warmup_ns": int(window_s * WARMUP_SHARE * 1e9), "window_ns": int(window_s * 1e9)}
        return trial(self._client, rate or {"pps": pps}, once_begun, **times)

    def oracle(self, bursts: Sequence[int], queues: int, passes: int, work_cycles: int) -> dict[str, Any]:
        """Run a script of polls (apps/tests/oracle.h)."""
        return self._client.request(
            "oracle", LIMIT_S, burst=list(bursts), queues=queues, passes=passes, work_cycles=work_cycles
        )

    def selftest(self) -> list[dict[str, Any]]:
        """Return the rows of the node's self-test."""
        rows: list[dict[str, Any]] = self._client.request("selftest", LIMIT_S)["rows"]
        return rows


@contextmanager
def dut_node(feed: str, program: str = "pollscope-node", eal: Sequence[str] = ()) -> Iterator[DutNode]:
    """Run a node until the block ends; `feed` of the first pair: wire or infinite; `eal` adds to EAL's arguments."""
    vdevs = [f"net_crossover0,feed={feed}", "net_crossover1"]
    lcores = f"0@0,{GENERATOR_LCORE}@0,{DUT_LCORE}@1"
    arguments = ["--log-level", "lib.*:error", *memory(512, 1024), *eal]
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(start_node(lcores, vdevs, arguments, Path(folder) / "stderr.log", program)) as client,
    ):
        yield DutNode(client)
