# SPDX-License-Identifier: BSD-3-Clause
"""Compute the bytes that packets take on a PCIe link, headers and descriptors included, and how many it carries.

Source: R. Neugebauer et al., Understanding PCIe performance for end host networking (SIGCOMM 2018), whose model it is.
Limits of acknowledgement and flow control follow PCI Express Base Specification 3.0, sections 2.6.1.2 and 3.5.3.1;
later generations use the values of generation 3.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from pollscope.base.errors import UsageError
from pollscope.models.checked import Count, Whole, checked, model

# Transfers per second, and the number of data bits in 8 bits.
GENERATIONS = {
    1: (2.5e9, 8 / 10),
    2: (5e9, 8 / 10),
    3: (8e9, 128 / 130),
    4: (16e9, 128 / 130),
    5: (32e9, 128 / 130),
}
_LANES = (1, 2, 4, 8, 12, 16, 32)
_PAYLOADS = (128, 256, 512, 1024, 2048, 4096)
# By largest payload and lanes: how many TLPs may pass before an acknowledgement or an update of credits (the same for
# both).
FACTORS: dict[int, tuple[float, ...]] = {
    128: (1.4, 1.4, 1.4, 2.5, 3.0, 3.0, 3.0),
    256: (1.4, 1.4, 1.4, 2.5, 3.0, 3.0, 3.0),
    512: (1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0),
}
_TLP_OVERHEAD_SYMBOLS = 28
_INTERNAL_DELAY_SYMBOLS = {1: 19, 2: 70, 3: 115, 4: 115, 5: 115}
# A packet of the data link layer; an ordered set to skip, every so many symbols.
DLLP_BYTES, SKIP_BYTES, SKIP_EVERY = 8, 4, 1538
# With framing, sequence number, header (64-bit addresses) and LCRC, without ECRC.
WRITE_HEADER_BYTES, READ_HEADER_BYTES, COMPLETION_HEADER_BYTES = 24, 24, 20
_DOORBELL_BYTES = 4


class LinkBytes(NamedTuple):
    """The bytes on a link, from the device to the host and from the host to the device."""

    upstream: float
    downstream: float

    def plus(self, other: "LinkBytes", share: float = 1.0) -> "LinkBytes":
        """Return the sum of both, the other weighted by `share` (such as one per so many packets)."""
        return LinkBytes(self.upstream + share * other.upstream, self.downstream + share * other.downstream)


@dataclass(frozen=True)
class PcieLink:
    """A link of a device.

    Attributes:
        generation: 1 to 5.
        lanes: 1 to 32.
        max_payload: bytes of a write or a completion at most (MPS).
        max_read_request: most bytes that a read requests (MRRS).
        completion_boundary: bytes at which completions of a read may be cut (RCB); None: they are cut at max_payload.
    """

    generation: int
    lanes: int
    max_payload: int = 256
    max_read_request: int = 512
    completion_boundary: int | None = None

    def __post_init__(self) -> None:
        known: dict[str, tuple[int | None, ...]] = {
            "generation": tuple(GENERATIONS),
            "lanes": _LANES,
            "max_payload": _PAYLOADS,
            "max_read_request": _PAYLOADS,
            "completion_boundary": (None, 64, 128),
        }
        for name, allowed in known.items():
            if (value := getattr(self, name)) not in allowed:
                raise UsageError(f"is {value}, allowed are {', '.join(map(str, allowed))}", f"PcieLink: {name}")

    @property
    def raw_bits_per_s(self) -> float:
        """Return the bits per second that the lanes carry, without their encoding."""
        transfers, share = GENERATIONS[self.generation]
        return transfers * share * self.lanes

    @property
    def acknowledgement_symbols(self) -> int:
        """Return the number of symbols after which an acknowledgement and a credit update are due at the latest."""
        # For larger payloads the source repeats the factors of 512 bytes.
        factor = FACTORS[min(self.max_payload, max(FACTORS))][_LANES.index(self.lanes)]
        tlps = (self.max_payload + _TLP_OVERHEAD_SYMBOLS) * factor / self.lanes
        return math.floor(tlps + _INTERNAL_DELAY_SYMBOLS[self.generation])

    @property
    def tlp_bits_per_s(self) -> float:
        """Return the bits per second that are left to packets of the transaction layer, headers included."""
        upkeep = 2 * DLLP_BYTES / self.acknowledgement_symbols + SKIP_BYTES / SKIP_EVERY
        return self.raw_bits_per_s * (1 - upkeep)

    def write(self, size: float) -> LinkBytes:
        """Return the bytes on the link when the device writes `size` bytes to memory."""
        return LinkBytes(math.ceil(size / self.max_payload) * WRITE_HEADER_BYTES + size, 0.0)

    def read(self, size: float) -> LinkBytes:
        """Return the bytes on the link when the device reads `size` bytes from memory."""
        cut = self.completion_boundary or self.max_payload
        completions = math.ceil(size / cut) * COMPLETION_HEADER_BYTES + size
        return LinkBytes(math.ceil(size / self.max_read_request) * READ_HEADER_BYTES, completions)

    def posted(self, size: float) -> LinkBytes:
        """Return the bytes on the link when a core writes `size` bytes to the device."""
        return LinkBytes(0.0, WRITE_HEADER_BYTES + size)

    def most_per_s(self, each: LinkBytes) -> float:
        """Return how many such transfers per second the link carries; the fuller direction decides."""
        return self.tlp_bits_per_s / 8 / max(each.upstream, each.downstream)


@model
class Descriptors:
    """How a NIC and its driver use descriptors.

    Attributes:
        size: bytes of a descriptor.
        fetched: that the device reads at once.
        written_back: RX descriptors (or completions) that it writes at once.
        tx_written_back: packets for each completion of a TX descriptor.
        doorbell_every: packets per doorbell of a core, per direction. inlined: bytes of a sent packet that are in its
            descriptors and need no read; of a longer packet the rest is read.
    """

    size: Count = 16
    fetched: Count = 8
    written_back: Count = 8
    tx_written_back: Count = 32
    doorbell_every: Count = 32
    inlined: Whole = 0


USUAL = Descriptors()


@checked
def received(link: PcieLink, packet: Count, scheme: Descriptors = USUAL) -> LinkBytes:
    """Return the bytes on the link for one received packet.

    Raises:
        UsageError: a packet without bytes.
    """
    data = link.write(packet)
    data = data.plus(link.read(scheme.size * scheme.fetched), 1 / scheme.fetched)
    data = data.plus(link.write(scheme.size * scheme.written_back), 1 / scheme.written_back)
    return data.plus(link.posted(_DOORBELL_BYTES), 1 / scheme.doorbell_every)


@checked
def sent(link: PcieLink, packet: Count, scheme: Descriptors = USUAL) -> LinkBytes:
    """Return the bytes on the link for one sent packet.

    Raises:
        UsageError: a packet without bytes.
    """
    inlined = min(packet, scheme.inlined)
    descriptors = link.read((scheme.size + inlined) * scheme.fetched)
    data = LinkBytes(0.0, 0.0).plus(descriptors, 1 / scheme.fetched)
    if packet > inlined:
        data = data.plus(link.read(packet - inlined))
    data = data.plus(link.write(scheme.size), 1 / scheme.tx_written_back)
    return data.plus(link.posted(_DOORBELL_BYTES), 1 / scheme.doorbell_every)


def forwarded_pps(link: PcieLink, packet: int, scheme: Descriptors = USUAL) -> float:
    """Return the packets per second that one link can receive and send again."""
    return link.most_per_s(received(link, packet, scheme).plus(sent(link, packet, scheme)))
