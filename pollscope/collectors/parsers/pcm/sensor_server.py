# SPDX-License-Identifier: BSD-3-Clause
"""Prometheus text of Intel PCM's `pcm-sensor-server` (/metrics): counters since the server started."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from pollscope.collectors.parsing import Origin, numbered, parse_cell, slug
from pollscope.collectors.sample import Kind, Reading, SourceMetric, row

_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{([^{}]*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_PLACES = ("socket", "core", "thread")
_GAUGES = re.compile(
    r"Measurement_Interval|Number_of|Thermal_Headroom|OS_ID|Local_Memory_Request_Ratio|^CStateResidency|Occupancy"
)
_LIMIT = float(1 << 63)


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """One scrape.

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
        path, metric = _meaning(match[1], match[2] or "")
        yield row(t_ns, path, (metric,), (parse_cell(match[3], wrapped=_LIMIT),))
    if not found:
        raise origin.refuse(0, "no metric in it", "record with: curl http://HOST:9738/metrics")


@lru_cache(maxsize=16384)
def _meaning(name: str, labels: str) -> tuple[str, SourceMetric]:
    """Unit path and metric."""
    found = dict(_LABEL.findall(labels))
    path = "/".join(f"{place}{found[place]}" for place in _PLACES if place in found) or "system"
    metric = slug(name) + (f".{found['index']}" if "index" in found else "")
    return path, SourceMetric(metric, "1", Kind.GAUGE if _GAUGES.search(name) else Kind.COUNTER)
