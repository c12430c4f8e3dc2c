# SPDX-License-Identifier: BSD-3-Clause
"""Read and write frames and pcap files, and run a DUT between two, to check the bytes that it sends."""

import ipaddress
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from dut_node import DUT_LCORE, LIMIT_S, running_node, skip_without

PORT = "net_pcap0"


def packed(address: str) -> bytes:
    return ipaddress.IPv4Address(address).packed


def folded(header: bytes) -> int:
    """Return the one's complement sum of the 16-bit words (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def frame(destination: str, ttl: int, ether_type: int, padding: int = 0) -> bytes:
    """Return a UDP-like frame of 60 bytes, the last `padding` of them after the end of its packet."""
    fields = (0x45, 0, 46 - padding, 1, 0, ttl, 17, 0, bytes([198, 18, 0, 1]), packed(destination))
    header = struct.pack("!BBHHHBBH4s4s", *fields)
    header = header[:10] + struct.pack("!H", 0xFFFF - folded(header)) + header[12:]
    return b"\xff" * 6 + b"\x02" * 6 + struct.pack("!H", ether_type) + header + bytes(range(26))


def forwarded(packet: bytes) -> bytes:
    """Return the IPv4 packet one hop further, without what follows it in its frame."""
    header = packet[:8] + bytes([packet[8] - 1]) + packet[9:10] + b"\x00\x00" + packet[12:20]
    header = header[:10] + struct.pack("!H", 0xFFFF - folded(header)) + header[12:]
    return header + packet[20 : struct.unpack_from("!H", packet, 2)[0]]


def write_pcap(path: Path, frames: Sequence[bytes]) -> None:
    records = [struct.pack("<IIII", 1, 0, len(one), len(one)) + one for one in frames]
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(records))


def read_pcap(path: Path) -> list[bytes]:
    """Return the frames of a file, without a last record that its writer had no time to end."""
    data, frames, at = path.read_bytes(), [], 24
    while at + 16 <= len(data):
        (length,) = struct.unpack_from("<I", data, at + 8)
        if at + 16 + length <= len(data):
            frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return frames


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
