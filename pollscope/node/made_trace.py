# SPDX-License-Identifier: BSD-3-Clause
"""Make random packet traces with the mix of sizes, flows and gaps of a link between networks.

Sizes: small packets without payload, full ones, and some between. Flows: few large ones and many small ones, by Zipf's
law. Gaps: lognormal, so that packets come in clumps. The shares are our own choice, not those of any recorded trace.
What is written is what an archive of headers keeps: nanosecond pcap, the first 54 bytes of each packet, TCP in IPv4,
no payload.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from pollscope.base.fields import FCS_BYTES

# Share of packets, and between which sizes they lie (bytes, with FCS).
SIZES = ((0.4, 64, 100), (0.2, 101, 1399), (0.4, 1518, 1518))
# Of the logarithm of a gap; the gaps' coefficient of variation is 1.31.
GAP_SIGMA = 1.0
# The flow of rank r has a share of packets proportional to r ** -_ZIPF.
_ZIPF = 1.1
HEADER_BYTES = 54
_CHUNK_PACKETS = 1 << 16
# Nanosecond pcap, version 2.4, whole packets up to 262144 bytes, Ethernet.
_FILE_HEADER = np.array([0xA1B23C4D, 2 | 4 << 16, 0, 0, 262144, 1], dtype="<u4")
RECORD = np.dtype(
    [("seconds", "<u4"), ("nanoseconds", "<u4"), ("kept", "<u4"), ("length", "<u4"), ("header", "u1", HEADER_BYTES)]
)
IPV4 = 14  # where its header begins
PORTS = IPV4 + 20
IPPROTO_TCP = 6


def write_trace(path: Path, packets: int, flows: int, mean_pps: float, seed: int) -> None:
    """Write a trace with these numbers of packets and, at most, flows; the same arguments give the same file.

    Memory does not grow with the trace.

    Args:
        path: the file to write.
        packets: at least 2.
        flows: from 1 to 2**24.
        mean_pps: mean rate, above 0.
        seed: of all random numbers.

    Raises:
        OSError: the file cannot be written.
    """
    chance = np.random.default_rng(seed)
    shares = np.cumsum(np.arange(1, flows + 1, dtype=float) ** -_ZIPF)
    now_ns = 0
    with path.open("wb") as file:
        file.write(_FILE_HEADER.tobytes())
        for first in range(0, packets, _CHUNK_PACKETS):
            count = min(_CHUNK_PACKETS, packets - first)
            gaps = chance.lognormal(-(GAP_SIGMA**2) / 2, GAP_SIGMA, count) * 1e9 / mean_pps
            times = now_ns + np.cumsum(np.rint(gaps).astype(np.int64))
            now_ns = int(times[-1])
            numbers = np.searchsorted(shares, chance.random(count) * shares[-1], side="right")
            file.write(_records(times, _sizes(chance, count), np.minimum(numbers, flows - 1)).tobytes())


def _sizes(chance: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
    part = chance.choice(len(SIZES), count, p=[share for share, _, _ in SIZES])
    lowest, highest = (np.array([each[at] for each in SIZES])[part] for at in (1, 2))
    return chance.integers(lowest, highest + 1)


def _records(
    times: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], flows: npt.NDArray[np.int64]
) -> npt.NDArray[np.void]:
    """Return the packets of the flows: flow f goes from 10.f to 198.18.0.1, port 80."""
    records = np.zeros(len(times), dtype=RECORD)
    records["seconds"], records["nanoseconds"] = np.divmod(times, 10**9)
    records["kept"], records["length"] = HEADER_BYTES, sizes - FCS_BYTES
    header = records["header"]
    header[:, 12:14] = (8, 0)
    header[:, IPV4] = 0x45
    _put(header, IPV4 + 2, sizes - FCS_BYTES - IPV4)
    header[:, IPV4 + 8 : IPV4 + 10] = (64, IPPROTO_TCP)
    header[:, IPV4 + 12] = 10
    header[:, IPV4 + 13] = flows >> 16
    _put(header, IPV4 + 14, flows & 0xFFFF)
    header[:, IPV4 + 16 : IPV4 + 20] = (198, 18, 0, 1)
    words = header[:, IPV4:PORTS].astype(np.uint32)
    total = (words[:, ::2] * 256 + words[:, 1::2]).sum(axis=1)
    total = (total & 0xFFFF) + (total >> 16)
    _put(header, IPV4 + 10, 0xFFFF - ((total & 0xFFFF) + (total >> 16)).astype(np.int64))
    _put(header, PORTS, 1024 + flows % 60000)
    _put(header, PORTS + 2, np.full(len(times), 80))
    header[:, PORTS + 12] = 5 << 4  # a TCP header without options
    return records


def _put(header: npt.NDArray[np.uint8], at: int, values: npt.NDArray[np.int64]) -> None:
    """Pack a field of 16 bits in network byte order."""
    header[:, at], header[:, at + 1] = values >> 8 & 0xFF, values & 0xFF
