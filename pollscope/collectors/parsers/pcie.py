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
from pollscope.knobs.platforms import DdioBit, Platform, of_root_port

_SPEEDS = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
_EXPRESS, _STATUS_HAS_LIST = 0x10, 0x10
_NO_SNOOP_BIT = 3
# Bits of Device Control and Device Control 2. 10-bit tags below 256 are not used (2.2.6.2).
_EXTENDED_TAGS, _TEN_BIT_TAGS, _TEN_BIT_TAG_COUNT = 8, 12, 768


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read a listing.

    Raises:
        ParseError: no device in it.
    """
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
            cells += _tags(config)
        else:
            cells += [(SourceMetric("device_below", "", Kind.STATE), below, ""), *_ddio(match[3], config)]
        yield reading(t_ns, f"device:{match[1]}", cells)
    if not found:
        raise origin.refuse(0, "no PCI device in it", "record with: pollscope collect pcie")


def _express(config: bytes) -> Iterator[tuple[SourceMetric, Value, str]]:
    """Return fields of the PCI Express capability; absent as a whole for a device without one."""
    base = _capability(config)
    why = "no PCI Express capability readable (conventional PCI, virtual device, or not root)"
    control = _word(config, base, 8) if base else None
    status = _word(config, base, 0x12) if base else None
    capability = _word(config, base, 0x0C) if base else None
    for name, register in (("link", status), ("link_most", capability)):
        speed = _SPEEDS.get(register & 0xF) if register is not None else None
        width = (register >> 4) & 0x3F if register is not None else None
        yield SourceMetric(f"{name}_speed", "1/s", Kind.STATE), speed, why
        yield SourceMetric(f"{name}_width", "1", Kind.STATE), width or None, why
    yield (
        SourceMetric("max_payload", "B", Kind.STATE),
        128 << ((control >> 5) & 7) if control is not None else None,
        why,
    )
    yield (
        SourceMetric("max_read_request", "B", Kind.STATE),
        128 << ((control >> 12) & 7) if control is not None else None,
        why,
    )
    yield SourceMetric("relaxed_ordering", "1", Kind.STATE), (control >> 4) & 1 if control is not None else None, why
    yield SourceMetric("no_snoop", "1", Kind.STATE), (control >> 11) & 1 if control is not None else None, why


def _tags(config: bytes) -> Iterator[tuple[SourceMetric, Value, str]]:
    """Return how many reads the device may have under way: tags of 5, 8 or 10 bits by its control registers."""
    base = _capability(config)
    control = _word(config, base, 8) if base else None
    control2 = _word(config, base, 0x28) if base else None
    metric = SourceMetric("tags", "1", Kind.STATE)
    if control is None or control2 is None:
        yield metric, None, "no PCI Express capability readable (conventional PCI, virtual device, or not root)"
    elif control2 >> _TEN_BIT_TAGS & 1:
        yield metric, _TEN_BIT_TAG_COUNT, ""
    else:
        yield metric, 256 if control >> _EXTENDED_TAGS & 1 else 32, ""


def _capability(config: bytes) -> int:
    """Return the offset of the PCI Express capability, 0 if there is none."""
    if len(config) <= 0x40 or not config[0x06] & _STATUS_HAS_LIST:
        return 0
    offset, seen = config[0x34] & 0xFC, set[int]()
    while offset >= 0x40 and offset + 1 < len(config) and offset not in seen:
        seen.add(offset)
        if config[offset] == _EXPRESS:
            return offset
        offset = config[offset + 1] & 0xFC
    return 0


def _word(config: bytes, base: int, offset: int) -> int | None:
    piece = config[base + offset : base + offset + 2]
    return int.from_bytes(piece, "little") if len(piece) == 2 else None


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
