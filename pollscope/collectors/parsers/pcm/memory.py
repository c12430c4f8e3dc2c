# SPDX-License-Identifier: BSD-3-Clause
"""Intel PCM's `pcm-memory`: DRAM traffic per channel, socket and system. Averages over the interval, so per second.

MB is 10^6 bytes. The columns depend on the CPU and the version (PMM columns appear without any PMM), so they are
identified by both header names. Traffic that the LLC absorbs (DDIO) is not counted here; its absence reveals DDIO.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.parsers.pcm.csv import Meaning, parse_two_headers
from pollscope.collectors.parsing import Cell, Column, Origin, numbered, parse_cell, scaled, slug, without_mark
from pollscope.collectors.sample import Kind, Reading, SourceMetric, reading

_UPPER = re.compile(r"SKT\s*(\d+)|(System)")
_CHANNEL = re.compile(r"(?:(EDC)_)?Ch\s*(\d+)(PMM_)?(Read|Write)")
_RANK = re.compile(r"Mem_Ch(\d+)_R(\d+)_(read|write)s")  # option -rank
_CXL = re.compile(r"CXL\.(mem|cache)_P(\d+)(.+)")
_RATIO_COLUMNS = ("hit rate", "hit ratio", "/")
_UNITS = {"MB/s": ("B/s", 10**6), "M/s": ("1/s", 10**6), "T/s": ("1/s", 1)}
_TOTALS = counter_names("pcm-memory")
_CXL_NAMES = counter_names("pcm-memory-cxl")
_SYSTEM = counter_names("pcm-memory-system")


class _MemoryColumns(Meaning):
    tool = "pcm-memory"
    first_row_starts = (",,SKT", ",,System")

    def column(self, upper: str, lower: str) -> Column:
        match = _UPPER.fullmatch(upper)
        path = "system" if match is None or match[2] else f"socket{match[1]}"
        channel = _CHANNEL.fullmatch(lower)
        if channel:
            kind = "hbm" if channel[1] else "pmm" if channel[3] else "dram"
            unit = f"{'edc' if channel[1] else 'channel'}{channel[2]}"
            return Column(f"{path}/{unit}", _rate(f"{kind}_{channel[4].lower()}"), 10**6)
        rank, cxl = _RANK.fullmatch(lower), _CXL.fullmatch(lower)
        if rank:
            return Column(f"{path}/channel{rank[1]}/rank{rank[2]}", _rate(f"dram_{rank[3]}"), 10**6)
        if cxl and cxl[3] in _CXL_NAMES:
            return Column(f"{path}/cxl_port{cxl[2]}", _rate(_CXL_NAMES[cxl[3]]), 10**6)
        return _total(path, *_split_unit(lower))


def _total(path: str, name: str, unit: str) -> Column:
    """Return a column of a socket or the system; a name without unit is in MB/s only where it is known to be."""
    names = _SYSTEM if path == "system" else _TOTALS
    if any(part in name for part in _RATIO_COLUMNS):
        return Column(path, SourceMetric(slug(name), "1", Kind.GAUGE), 1)
    if not unit and name not in names:
        return Column(path, SourceMetric(slug(name), "", Kind.GAUGE), 1)
    base, scale = _UNITS.get(unit, ("B/s", 10**6))
    return Column(path, _rate(names.get(name, slug(name)), base), scale)


def _split_unit(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*?)\s*\(([^()]*)\)\s*:?", text.strip())
    return (match[1], match[2]) if match else (text.strip(), "")


def _rate(name: str, unit: str = "B/s") -> SourceMetric:
    return SourceMetric(name, unit, Kind.RATE)


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read the CSV (two header rows) or the boxes of the text output.

    Raises:
        ParseError: neither is found, the header is not unique, or a row has another width than its header.
    """
    kept: list[str] = []
    iterator = without_mark(lines, origin)
    for line in iterator:
        kept.append(line)
        text = line.lstrip("\r ")
        if text.startswith(("|---", "|--  ")):
            yield from _parse_boxes(chain(kept, iterator), origin)
            return
        if len(kept) > 1000 or _COMMAS.match(line):
            break
    yield from parse_two_headers(chain(kept, iterator), _MemoryColumns(), origin)


_COMMAS = re.compile(r"([,;\t])\1(?:SKT|System)")


_BOX = re.compile(r"\|--(.*?)--\|")
_SOCKET = re.compile(r"(Processor socket|Socket)\s+(\d+)")
_BOX_CHANNEL = re.compile(r"(Mem|DRAM|HBM|EDC) Ch\s+(\d+)(?:\s+R\s*(\d+))?:\s*Reads\s*\(MB/s\)\s*:(.*)")
_BOX_MORE = re.compile(r"(PMM )?(Reads|Writes)\s*\(MB/s\)\s*:(.*)")
_BOX_CXL = re.compile(r"\.(mem|cache)\b\s*(\d*)\s*(?:(Reads|dv->hst)\s*\(MB/s\)\s*:(.*))?")
_BOX_CXL_MORE = re.compile(r"(hst->dv)\s*\(MB/s\)\s*:(.*)")
_BOX_TOTAL = re.compile(r"(?:SKT|NODE)\s*(\d+)\s+(.*?)\s*\((MB/s|T/s|M/s)\)\s*:(.*)")
_BOX_RATIO = re.compile(r"(?:SKT|NODE)\s*(\d+)(?:\.(\d+))?\s+(NM .*?rate|PMM MM Bw/DRAM Bw)\s*:(.*)")
_BOX_HALF = re.compile(r"(?:DRAM )?(Mem Read|Mem Write|Memory|HBM Read|HBM Write|HBM)\s*\(MB/s\)\s*:(.*)")
_BOX_SYSTEM = re.compile(r"System (.*?)\s*\(MB/s\)\s*:(.*)")
_VALUE = re.compile(r":\s*\S")
_BESIDE = re.compile(r"[\s|_-]*|\s*(?:Time elapsed: .*|Called sleep function .*)")  # rulers, chatter
_VERBS = {"Reads": "read", "Writes": "write"}
_Found = tuple[str, SourceMetric, Cell]


@dataclass
class _Side:
    """Describe one column of boxes: its socket, the unit that further lines belong to, and the CXL ports seen so
    far.
    """

    socket: str
    unit: str = ""
    kind: str = ""
    ports: int = 0


def _parse_boxes(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read boxes side by side, one per socket; read the channel numbers, because absent channels are not printed."""
    sides: list[_Side] = []
    sample, t_ns = -1, None
    for number, text in numbered(lines, origin):
        boxes = [box.strip() for box in _BOX.findall(text)]
        named = [match for match in (_SOCKET.fullmatch(box) for box in boxes) if match]
        if named:
            # with HBM a socket has two columns, DRAM and HBM
            sides = [_Side(f"socket{each[2]}") for each in named for _ in range(1 + each[1].startswith("Processor"))]
            if named[0][2] == "0":
                sample += 1
                t_ns = origin.now(None, sample)
            continue
        for index, box in enumerate(boxes):
            found = _box(box, sides[index] if index < len(sides) else None)
            if found:
                path, metric, cell = found
                yield reading(t_ns, path, [(metric, *cell)])
            elif _VALUE.search(box):
                origin.leave_out(number, f"not understood: {box[:60]!r}")
        if not boxes:
            origin.refuse_failure(number, text)
            if not _BESIDE.fullmatch(text):
                origin.leave_out(number, f"no box: {text.strip()[:60]!r}")


def _box(box: str, side: _Side | None) -> _Found | None:
    """Return the content of one cell between |-- and --|; None for rulers and titles."""
    total, ratio, system = _BOX_TOTAL.fullmatch(box), _BOX_RATIO.fullmatch(box), _BOX_SYSTEM.fullmatch(box)
    if total:
        unit, scale = _UNITS[total[3]]
        metric = _rate(_TOTALS.get(total[2], slug(total[2])), unit)
        return f"socket{total[1]}", metric, scaled(parse_cell(total[4]), scale)
    if ratio:
        name = slug(f"imc{ratio[2]} {ratio[3]}" if ratio[2] else ratio[3])
        return f"socket{ratio[1]}", SourceMetric(name, "1", Kind.GAUGE), parse_cell(ratio[4])
    if system:
        return _traffic("system", _SYSTEM.get(system[1], slug(system[1])), system[2])
    if side is None:
        return None
    return _channel_box(box, side) or _cxl_box(box, side) or _further_box(box, side)


def _traffic(path: str, name: str, printed: str) -> _Found:
    return path, _rate(name), scaled(parse_cell(printed), 10**6)


def _channel_box(box: str, side: _Side) -> _Found | None:
    """Return the first line of a channel, or of a rank of it."""
    channel = _BOX_CHANNEL.fullmatch(box)
    if channel is None:
        return None
    side.kind = "hbm" if channel[1] in ("HBM", "EDC") else "dram"
    side.unit = f"{side.socket}/{'edc' if side.kind == 'hbm' else 'channel'}{channel[2]}"
    side.unit += f"/rank{channel[3]}" if channel[3] else ""
    return _traffic(side.unit, f"{side.kind}_read", channel[4])


def _cxl_box(box: str, side: _Side) -> _Found | None:
    """Read the first line of a CXL port's memory or cache; ports without a number are complete and in order."""
    port = _BOX_CXL.fullmatch(box)
    side.ports += port is not None and port[1] == "mem"
    if port is None or not side.ports:
        return None
    side.unit, side.kind = f"{side.socket}/cxl_port{port[2] or side.ports - 1}", "cxl_mem"
    if not port[3]:
        return None
    name = "cxl_mem_read" if port[3] == "Reads" else _CXL_NAMES[port[3]]
    return _traffic(side.unit, name, port[4])


def _further_box(box: str, side: _Side) -> _Found | None:
    """Read another line of the unit above, or a total of a socket with HBM."""
    more, cache, half = _BOX_MORE.fullmatch(box), _BOX_CXL_MORE.fullmatch(box), _BOX_HALF.fullmatch(box)
    if more and side.unit:
        return _traffic(side.unit, f"{'pmm' if more[1] else side.kind}_{_VERBS[more[2]]}", more[3])
    if cache and side.unit:
        return _traffic(side.unit, _CXL_NAMES[cache[1]], cache[2])
    return _traffic(side.socket, _TOTALS[half[1]], half[2]) if half else None
