# SPDX-License-Identifier: BSD-3-Clause
"""AMD uProf's `AMDuProfPcm`: a report of time series, in which columns are metrics and rows are samples.

After a description of the host come `Profile Time: ...`, the sections (`DF METRICS`), a row of places, each of which
applies to the empty cells after it (`System (Aggregated),,,Package-0,,`), and a row of metrics with their units. Rates
are in 10^9 B per second; counts without a unit are per interval. Rows begin with a time only where a column is headed
`Timestamp`. Cumulative reports (-C) are refused: their numbers belong to no window.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.parsing import Column, Origin, Stamps, by_unit, numbered, parse_cell, recognise_failure, slug
from pollscope.collectors.sample import Kind, Reading, SourceMetric

# Printed unit -> suffix of the name, unit, kind, factor. Other units are kept as printed.
_UNITS: dict[str, tuple[str, str, Kind, float]] = {
    "GB/s": ("", "B/s", Kind.RATE, 10**9),
    "ns": ("", "s", Kind.GAUGE, 1e-9),
    "MHz": ("", "Hz", Kind.GAUGE, 10**6),
    "%": ("_share", "1", Kind.GAUGE, 0.01),
    "pti": ("_per_instruction", "1", Kind.GAUGE, 1e-3),  # per thousand instructions
}
# Names as in the other collectors of memory and caches.
_NAMES = counter_names("amd-uprof-pcm")
_COUNTS = {"L3 Access": "l3_accesses", "L3 Miss": "l3_misses"}
_BEGIN = "Profile Time:"
_SECTION = re.compile(r"[A-Z0-9 ]+ METRICS")
_PLACE = re.compile(r"(System|Package|CCX|CCD|Core|Umc)(?: \(Aggregated\))?(?:-(\d+))?")
_PATHS = {"Package": "socket", "Core": "cpu"}  # its cores are logical CPUs
_METRIC = re.compile(r"(?P<name>[^()%]*[^()% ]) ?(?:\((?P<unit>[^()]*)\)|(?P<percent>%))?")
_CHANNEL = re.compile(r"Mem Ch-([A-Z]) (Rd|Wr)Bw")


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read the rows below each pair of header rows; lines before the first one describe the host.

    Raises:
        ParseError: no header rows, header rows that do not fit each other, a cumulative report, a message of the tool,
            or rows of which none fits its header.
    """
    header, places, columns = False, list[str](), list[Column]()
    stamps, samples = Stamps(), 0
    for number, text in numbered(lines, origin):
        cells = [cell.strip() for cell in text.strip().removesuffix(",").split(",")]
        if text.startswith(_BEGIN) or (any(cells) and all(_SECTION.fullmatch(cell) for cell in cells if cell)):
            header, places, columns = True, [], []
        elif text.startswith("Error:"):
            words = f"the tool failed: {text.removeprefix('Error:').strip()[:80]}"
            raise origin.refuse(number, *(recognise_failure(text) or (words, "see AMDuProfPcm -h")))
        elif header and any(cells) and not places:
            places = _places(cells, number, origin)
        elif header and any(cells) and not columns:
            columns = _columns(cells, places, number, origin)
        elif columns and any(cells) and not text.startswith("Profiling started"):
            stamped = columns[0].path == ""
            if len(cells) != len(columns) or (stamped and _time(cells[0], stamps) is None):
                origin.leave_out(number, f"no row of {len(columns)} values: {text[:60]!r}")
                continue
            t_ns = origin.now(_time(cells[0], stamps) if stamped else None, samples)
            samples += 1
            yield from by_unit(t_ns, zip(columns[stamped:], map(parse_cell, cells[stamped:]), strict=True))
    if not samples:
        raise origin.refuse(0, "no row of AMDuProfPcm's metrics in it", "record with: AMDuProfPcm -m memory -a -I 1000")


def _places(cells: list[str], number: int, origin: Origin) -> list[str]:
    """Return the unit path of every cell; a single place applies to all columns."""
    if cells[0] in ("Metric", "Metrics"):
        raise origin.refuse(number, "a cumulative report: its numbers belong to no window", "record without -C")
    paths, path = [], ""
    for cell in cells:
        match = _PLACE.fullmatch(cell)
        if cell and not match:
            raise origin.refuse(number, f"no place of AMDuProfPcm: {cell[:40]!r}", "record with -A system,package")
        if match:
            path = f"{_PATHS.get(match[1], match[1].lower())}{match[2] or ''}"
        paths.append(path)
    return paths


def _columns(cells: list[str], places: list[str], number: int, origin: Origin) -> list[Column]:
    """Return the meaning of every column; a time column has no path."""
    if len(set(places)) == 1:
        places = places[:1] * len(cells)
    if len(places) != len(cells):
        raise origin.refuse(number, f"the header rows have {len(places)} and {len(cells)} cells", "record again")
    columns = [_column(path, cell) for path, cell in zip(places, cells, strict=True)]
    (twice, count), *_ = Counter((each.path, each.metric.name) for each in columns).most_common()
    if count > 1 or any(each.path == "" for each in columns[1:]):
        raise origin.refuse(number, f"two columns are headed {twice[1]!r} of {twice[0]!r}", "record again")
    return columns


@lru_cache(maxsize=4096)
def _column(path: str, printed: str) -> Column:
    if printed == "Timestamp":
        return Column("", SourceMetric("time", "", Kind.STATE), 1)
    if printed in _COUNTS:
        return Column(path, SourceMetric(_COUNTS[printed], "1", Kind.INTERVAL), 1)
    match = _METRIC.fullmatch(printed)
    unit = _UNITS.get(match["percent"] or match["unit"] or "") if match else None
    if match is None or unit is None:
        return Column(path, SourceMetric(slug(printed), "", Kind.GAUGE), 1)
    added, base, kind, scale = unit
    channel = _CHANNEL.fullmatch(match["name"])
    if channel:
        path, name = f"{path}/channel{channel[1]}", {"Rd": "dram_read", "Wr": "dram_write"}[channel[2]]
    else:
        name = slug(match["name"]) + added
    return Column(path, SourceMetric(_NAMES.get(name, name), base, kind), scale)


def _time(cell: str, stamps: Stamps) -> int | None:
    date, _, time = cell.partition("T")
    return stamps.ns(date, time)
