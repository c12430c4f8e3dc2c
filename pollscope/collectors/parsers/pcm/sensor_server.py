# SPDX-License-Identifier: BSD-3-Clause
"""Prometheus text of Intel PCM's `pcm-sensor-server` (/metrics): counters since the server started."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from pollscope.collectors.parsing import WRAPPED_64, Origin, numbered, parse_cell, scaled, slug
from pollscope.collectors.sample import Kind, Reading, SourceMetric, row

_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{([^{}]*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_PLACES = ("socket", "core", "thread")
_GAUGES = re.compile(
    r"Measurement_Interval|Number_of|Thermal_Headroom|OS_ID|Local_Memory_Request_Ratio|^CStateResidency|Occupancy"
)
# units as in pcm's own columns: occupancy in KiB, bandwidth in 10^6 B, traffic in B
_UNITS: tuple[tuple[re.Pattern[str], str, float], ...] = (
    (re.compile(r"L3_Cache_Occupancy"), "B", 1024),
    (re.compile(r"(?:Local|Remote)_Memory_Bandwidth"), "B", 10**6),
    (re.compile(r"(?:Embedded_)?DRAM_(?:Reads|Writes)|Persistent_Memory_(?:Reads|Writes)"), "B", 1),
    (re.compile(r"Memory_Controller_I[AO]_Requests|Memory_Controller_GT_Requests"), "B", 1),
    (re.compile(r"PCIe_(?:Read|Write)_Bytes|CXL_Write_(?:Mem|Cache)"), "B", 1),
    (re.compile(r"(?:Incoming|Outgoing)_.*Traffic_On_Link_\d+"), "B", 1),
    (re.compile(r".*_Joules_Consumed"), "J", 1),
    (re.compile(r"Thermal_Headroom"), "degC", 1),
    (re.compile(r"Measurement_Interval_in_us"), "s", 1e-6),
)


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Parse one scrape.

    Raises:
        ParseError: no metric in it.
    """
    found, t_ns = False, origin.now()
    for number, text in numbered(lines, origin):
        match = _LINE.fullmatch(text.strip())
        if match is None:
            if text.strip() and not text.startswith("#"):
                origin.leave_out(number, f"no metric: {text[:60]!r}")
            continue
        found = True
        path, metric, scale = _meaning(match[1], match[2] or "")
        yield row(t_ns, path, (metric,), (scaled(parse_cell(match[3], wrapped=WRAPPED_64), scale),))
    if not found:
        raise origin.refuse(0, "no metric in it", "record with: curl http://HOST:9738/metrics")


@lru_cache(maxsize=16384)
def _meaning(name: str, labels: str) -> tuple[str, SourceMetric, float]:
    """Return unit path, metric, and factor to the metric's unit."""
    found = dict(_LABEL.findall(labels))
    path = "/".join(f"{place}{found[place]}" for place in _PLACES if place in found) or "system"
    unit, scale = next(((unit, scale) for pattern, unit, scale in _UNITS if pattern.fullmatch(name)), ("1", 1))
    metric = slug(name).removesuffix("_in_us") + (f".{found['index']}" if "index" in found else "")
    return path, SourceMetric(metric, unit, Kind.GAUGE if _GAUGES.search(name) else Kind.COUNTER), scale
