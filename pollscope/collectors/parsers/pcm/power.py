# SPDX-License-Identifier: BSD-3-Clause
"""Intel PCM's `pcm-power`: energy, power and channel states per socket and memory channel (text only).

Lines look like `S0; Consumed Joules: 1339.15; Watts: 67.11; Thermal headroom below TjMax: 37` and
`S0CH1; DRAMClocks: ...; CKE Off Residency: 12.00%`; a ruler of dashes stands between two intervals.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from pollscope.collectors.parsing import Origin, numbered, parse_cell, recognise_failure, scaled, slug
from pollscope.collectors.sample import Kind, Reading, SourceMetric, reading

_LINE = re.compile(r"S(\d+)(?:(CH|P|M2M)(\d+))?\s*;\s*(.+)")
_SEVERAL = re.compile(r"\b[A-Z]?\d(?:/[A-Z]?\d)+\b")
_UNITS = {"CH": "channel", "P": "upi_port", "M2M": "memory_controller"}
_KNOWN: dict[str, tuple[str, str, Kind]] = {
    "Consumed energy units": ("package_energy_units", "", Kind.INTERVAL),
    "Consumed Joules": ("package_energy", "J", Kind.INTERVAL),
    "Watts": ("package_power", "W", Kind.GAUGE),
    "Consumed DRAM energy units": ("dram_energy_units", "", Kind.INTERVAL),
    "Consumed DRAM Joules": ("dram_energy", "J", Kind.INTERVAL),
    "DRAM Watts": ("dram_power", "W", Kind.GAUGE),
    "Thermal headroom below TjMax": ("thermal_headroom", "degC", Kind.GAUGE),
}


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Reads the text output.

    Raises:
        ParseError: no line of a socket in it, or the tool's own failure message.
    """
    sample, open_interval, found = 0, False, False
    t_ns = origin.now(None, sample)
    for number, text in numbered(lines, origin):
        match = _LINE.fullmatch(text.strip())
        if match:
            found = open_interval = True
            path = f"socket{match[1]}" + (f"/{_UNITS[match[2]]}{match[3]}" if match[2] else "")
            yield reading(t_ns, path, (_pair(pair) for pair in _pairs(match[4])))
        elif open_interval and text.startswith("----"):
            sample, open_interval = sample + 1, False
            t_ns = origin.now(None, sample)
        elif not found and (failure := recognise_failure(text)):
            raise origin.refuse(number, *failure)
    if not found:
        raise origin.refuse(0, "no line of a socket (S0; ...) in it", "record with: pcm-power 1.0")


def _pairs(text: str) -> Iterator[str]:
    """`NAME: VALUE` items; `core C0/C3/C6-state residency: 95; 3; 2` is three of them."""
    names: list[str] = []
    for item in text.split(";"):
        if ":" in item:
            name, _, value = item.rpartition(":")
            several = _SEVERAL.search(name)
            alternatives = several[0].split("/") if several else []
            names = [name.replace(several[0], each) for each in alternatives] if several else [name]
            yield f"{names.pop(0)}:{value}"
        elif names and item.strip():
            yield f"{names.pop(0)}:{item}"


def _pair(text: str) -> tuple[SourceMetric, int | float | None, str]:
    name, _, printed = (part.strip() for part in text.rpartition(":"))
    share = printed.endswith("%")
    cell = scaled(parse_cell(printed[:-1]), 0.01) if share else parse_cell(printed)
    return _metric(name, share), *cell


@lru_cache(maxsize=4096)
def _metric(name: str, share: bool) -> SourceMetric:
    if share:
        return SourceMetric(f"{slug(name)}_share", "1", Kind.GAUGE)
    return SourceMetric(*_KNOWN.get(name, (slug(name), "", Kind.INTERVAL)))
