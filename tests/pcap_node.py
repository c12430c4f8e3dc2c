# SPDX-License-Identifier: BSD-3-Clause
"""Run a real node whose DUT reads and writes pcap files, to check its output byte by byte."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from dut_node import DUT_LCORE, LIMIT_S, running_node, skip_without
from pcap_files import read_pcap, write_pcap

PORT = "net_pcap0"


def sent_frames(
    build_dir: Path, folder: Path, frames: Sequence[bytes], **dut: Any
) -> tuple[list[bytes], dict[str, Any]]:
    """Return what one lcore sends when it gets these frames over and over, and the DUT's part of the result.

    Args:
        build_dir: where the node is.
        folder: of the files.
        frames: from the first byte of the Ethernet header on.
        dut: keys of the "dut" object.
    """
    before, after = folder / "before.pcap", folder / "after.pcap"
    write_pcap(before, frames)
    vdev = f"{PORT},rx_pcap={before},infinite_rx=1,tx_pcap={after}"
    for _ in range(20):  # other tests may have the CPU for a whole window
        with running_node(build_dir, folder / "log", [vdev], mib=512) as node:
            if node.hello["ports"] == []:
                pytest.skip("this DPDK has no net_pcap driver")
            wanted = {"lcores": [DUT_LCORE], "rx_port": PORT, "tx_port": PORT, **dut}
            skip_without(node.ask("configure", ports=[{"name": PORT}], dut=wanted))
            result = node.trial(warmup_s=0, window_s=0.004, drain_max_ns=0)["dut"]
            node.get("quit")
            node.process.wait(LIMIT_S)
        if result["lcores"][0]["rx_packets"] >= 2 * len(frames):
            break
    return read_pcap(after), result
