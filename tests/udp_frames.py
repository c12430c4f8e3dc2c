# SPDX-License-Identifier: BSD-3-Clause
"""Make UDP packets like the generator's, with a payload behind the stamp, for the tests of tasks."""

import struct

from pcap_files import folded, packed

HEADERS, STAMPED = 42, 60
SOURCE = "198.18.0.1"


def udp_frame(
    payload: bytes,
    destination: str = "10.0.0.7",
    source_port: int = 4321,
    stamp: bytes = bytes(range(18)),
    ttl: int = 64,
) -> bytes:
    """Return Ethernet, IPv4, UDP with a checksum, 18 bytes of stamp, payload."""
    data = stamp + payload
    udp = struct.pack("!HHHH", source_port, 9, 8 + len(data), 0) + data
    pseudo = packed(SOURCE) + packed(destination) + struct.pack("!HH", 17, len(udp))
    even = pseudo + udp + bytes(len(udp) % 2)
    udp = udp[:6] + struct.pack("!H", 0xFFFF - folded(even) or 0xFFFF) + udp[8:]
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, ttl, 17, 0, packed(SOURCE), packed(destination))
    header = header[:10] + struct.pack("!H", 0xFFFF - folded(header)) + header[12:]
    return b"\xff" * 6 + b"\x02" * 6 + b"\x08\x00" + header + udp


def payload_of(sent: bytes) -> bytes:
    """Return the payload of a forwarded packet behind the stamp; check its headers."""
    header, udp_bytes = sent[14:34], struct.unpack_from("!H", sent, 38)[0]
    assert folded(header) == 0xFFFF
    assert struct.unpack_from("!H", header, 2)[0] == len(sent) - 14 == 20 + udp_bytes
    assert (header[0], header[8], header[9]) == (0x45, 63, 17)
    assert sent[40:42] == b"\x00\x00", "no UDP checksum"
    return sent[STAMPED:]
