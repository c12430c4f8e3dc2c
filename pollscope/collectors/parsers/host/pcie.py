# SPDX-License-Identifier: BSD-3-Clause
"""The configuration space of NICs and root ports as recorded: `device ADDRESS ROLE VENDOR:DEVICE HEX` lines.

DDIO is reported only for root ports whose device id the platform tables know: on Ice Lake and later offset 0x180 is the
head of an extended capability. Offsets: PCI Express Base Specification 5.0, 7.5.3; PERFCTRLSTS_0: Intel Xeon Scalable
Datasheet vol. 2 (May 2019). Tags of reads: 7.5.3.4 (extended tag), 7.5.3.16 (10-bit tags).
"""

import re
from collections.abc import Iterable, Iterator

from pollscope.collectors.parsing import Origin, numbered
from pollscope.collectors.sample import Kind, Reading, SourceMetric, Value, reading
from pollscope.knobs.pci import PCI_EXPRESS, capability
from pollscope.knobs.platforms import DdioBit, Platform, of_root_port

_SPEEDS = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
_NO_SNOOP_BIT = 3
_NO_EXPRESS = "no PCI Express capability readable (conventional PCI, virtual device, or not root)"
# Bits of Device Control and Device Control 2. 10-bit tags below 256 are not used (2.2.6.2).
_EXTENDED_TAGS, _TEN_BIT_TAGS, _TEN_BIT_TAG_COUNT = 8, 12, 768


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read a listing."""
    found, t_ns = False, origin.now()
    for number, text in numbered(lines, origin):
        match = re.fullmatch(r"device (\S+) (nic|rootport:\S+) ([0-9a-f]{4}:[0-9a-f]{4}) ((?:[0-9a-f]{2})*)", text)
        if match is None:
            if text.strip():
                origin.leave_out(number, f"no device: {text[:60]!r}")
            continue
        found = True
        role, _, below = match[2].partition(":")
        config = bytes.fromhex(match[4])
        cells = [(SourceMetric("identity", "", Kind.STATE), match[3], ""), *_express(config)]
        if role == "nic":
            cells.append(_tags(config))
        else:
            cells += [(SourceMetric("device_below", "", Kind.STATE), below, ""), *_ddio(match[3], config)]
        yield reading(t_ns, f"device:{match[1]}", cells)
    if not found:
        raise origin.refuse(0, "no PCI device in it", "record with: pollscope collect pcie")


def _express(config: bytes) -> Iterator[tuple[SourceMetric, Value, str]]:
    """Return fields of the PCI Express capability; absent as a whole for a device without one."""
    control = _word(config, 8)
    for name, register in (("link", _word(config, 0x12)), ("link_most", _word(config, 0x0C))):
        speed, width = (None, None) if register is None else (_SPEEDS.get(register & 0xF), register >> 4 & 0x3F)
        yield SourceMetric(f"{name}_speed", "1/s", Kind.STATE), speed, _NO_EXPRESS
        yield SourceMetric(f"{name}_width", "1", Kind.STATE), width or None, _NO_EXPRESS
    for name, shift in (("max_payload", 5), ("max_read_request", 12)):
        size = None if control is None else 128 << (control >> shift & 7)
        yield SourceMetric(name, "B", Kind.STATE), size, _NO_EXPRESS
    for name, bit in (("relaxed_ordering", 4), ("no_snoop", 11)):
        yield SourceMetric(name, "1", Kind.STATE), None if control is None else control >> bit & 1, _NO_EXPRESS


def _tags(config: bytes) -> tuple[SourceMetric, Value, str]:
    """Return how many reads the device may have under way: tags of 5, 8 or 10 bits by its control registers."""
    control, control2 = _word(config, 8), _word(config, 0x28)
    if control is None or control2 is None:
        count = None
    elif control2 >> _TEN_BIT_TAGS & 1:
        count = _TEN_BIT_TAG_COUNT
    else:
        count = 256 if control >> _EXTENDED_TAGS & 1 else 32
    return SourceMetric("tags", "1", Kind.STATE), count, _NO_EXPRESS


def _word(config: bytes, offset: int) -> int | None:
    """Return a register of the PCI Express capability; None if there is none."""
    base = capability(config, PCI_EXPRESS)
    piece = config[base + offset : base + offset + 2]
    return int.from_bytes(piece, "little") if base and len(piece) == 2 else None


def _ddio(identity: str, config: bytes) -> Iterator[tuple[SourceMetric, Value, str]]:
    """Yield bit 7 (allocating writes) and bit 3 (no-snoop) of PERFCTRLSTS_0, or why they cannot be read."""
    allocating, no_snoop = SourceMetric("ddio", "1", Kind.STATE), SourceMetric("no_snoop_writes", "1", Kind.STATE)
    value, reason = _register(of_root_port(identity), identity, config)
    bit = 7 if value is None else value[1]
    yield allocating, None if value is None else (value[0] >> bit) & 1, reason
    yield no_snoop, None if value is None else (value[0] >> _NO_SNOOP_BIT) & 1, reason


def _register(platform: Platform | None, identity: str, config: bytes) -> tuple[tuple[int, int] | None, str]:
    if platform is None:
        return None, f"no platform table knows the root port {identity}"
    if not isinstance(platform.ddio, DdioBit):
        return None, f"{platform.name}: {platform.ddio.absent}"
    if platform.ddio.emulated:
        return None, f"{platform.name}: {platform.ddio.emulated}"
    offset = platform.ddio.register_offset
    if len(config) < offset + 4:
        return None, f"only {len(config)} bytes of the configuration space are readable (not root?)"
    if offset in set(_extended_chain(config)):
        return None, f"{offset:#x} is the head of an extended capability here, not PERFCTRLSTS_0"
    return (int.from_bytes(config[offset : offset + 4], "little"), platform.ddio.bit), ""


def _extended_chain(config: bytes) -> Iterator[int]:
    """Yield offsets of the extended capabilities (PCI Express Base Specification 5.0, 7.6.3); stop at a loop."""
    offset, seen = 0x100, set[int]()
    while 0x100 <= offset <= len(config) - 4 and offset not in seen:
        seen.add(offset)
        header = int.from_bytes(config[offset : offset + 4], "little")
        if header in (0, 0xFFFFFFFF):
            return
        yield offset
        offset = header >> 20
