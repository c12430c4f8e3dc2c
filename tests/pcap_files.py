# SPDX-License-Identifier: BSD-3-Clause
"""Read and write frames and pcap files for tests that check the bytes a DUT sends."""

import ipaddress
import struct
from collections.abc import Sequence
from pathlib import Path


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
