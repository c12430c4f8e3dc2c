# SPDX-License-Identifier: BSD-3-Clause
"""Intel PCM's `pcm-memory`: DRAM traffic per channel, socket and system. Averages over the interval, so per second.

MB is 10^6 bytes. Which columns there are depends on the CPU and the version (PMM columns appear without any PMM), so
they are found by both header names. Traffic that the LLC absorbs (DDIO) does not show here: that is how DDIO is seen.
"""

import re
from collections.abc import Iterable, Iterator

from .parsing import Cell, Origin, numbered, parse_cell, recognise_failure, scaled, slug
from .pcm_csv import Column, Meaning, parse_two_headers
from .sample import Kind, Metric, Reading, reading

NAME = "pcm-memory"

_UPPER = re.compile(r"SKT\s*(\d+)|(System)")
_CHANNEL = re.compile(r"(?:(EDC)_)?Ch\s*(\d+)(PMM_)?(Read|Write)")
_RATIO_COLUMNS = ("hit rate", "hit ratio")
_UNITS = {"MB/s": ("B/s", 10**6), "M/s": ("1/s", 10**6), "T/s": ("1/s", 1)}
_TOTALS = {
    "Mem Read": "dram_read",
    "Mem Write": "dram_write",
    "Memory": "memory_total",
    "P. Write": "partial_writes",
    "PMM_Read": "pmm_read",
    "PMM_Write": "pmm_write",
    "PMM Read": "pmm_read",
    "PMM Write": "pmm_write",
    "PMM Memory": "pmm_total",
    "HBM Read": "hbm_read",
    "HBM Write": "hbm_write",
    "HBM": "hbm_total",
    "NODE Mem Read": "dram_read",
}
_SYSTEM = {
    "Read": "memory_read",
    "Write": "memory_write",
    "Memory": "memory_total",
    "DRAMRead": "dram_read",
    "DRAMWrite": "dram_write",
    "PMMREAD": "pmm_read",
    "PMMWrite": "pmm_write",
    "HBMRead": "hbm_read",
    "HBMWrite": "hbm_write",
    "CXLRead": "cxl_read",
    "CXLWrite": "cxl_write",
    "DRAM Read Throughput": "dram_read",
    "DRAM Write Throughput": "dram_write",
    "PMM Read Throughput": "pmm_read",
    "PMM Write Throughput": "pmm_write",
    "Read Throughput": "memory_read",
    "Write Throughput": "memory_write",
    "Memory Throughput": "memory_total",
}


class _Columns(Meaning):
    tool = NAME
    first_row_starts = (",,SKT", ",,System")

    def column(self, upper: str, lower: str) -> Column:
        match = _UPPER.fullmatch(upper)
        path = "system" if match is None or match[2] else f"socket{match[1]}"
        channel = _CHANNEL.fullmatch(lower)
        if channel:
            kind = "hbm" if channel[1] else "pmm" if channel[3] else "dram"
            unit = f"{'edc' if channel[1] else 'channel'}{channel[2]}"
            return Column(f"{path}/{unit}", _rate(f"{kind}_{channel[4].lower()}"), 10**6)
        name, unit = _split_unit(lower)
        if any(part in name for part in _RATIO_COLUMNS):
            return Column(path, Metric(slug(name), "1", Kind.GAUGE), 1)
        base, scale = _UNITS.get(unit, ("B/s", 10**6))
        names = _SYSTEM if path == "system" else _TOTALS
        return Column(path, _rate(names.get(name, slug(name)), base), scale)


def _split_unit(text: str) -> tuple[str, str]:
    match = re.fullmatch(r"(.*?)\s*\(([^()]*)\)\s*:?", text.strip())
    return (match[1], match[2]) if match else (text.strip(), "")


def _rate(name: str, unit: str = "B/s") -> Metric:
    return Metric(name, unit, Kind.RATE)


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Reads the CSV (two header rows) or the boxes of the text output.

    Raises:
        ParseError: neither is found, the header is not unique, or a row has another width than its header.
    """
    kept: list[str] = []
    iterator = iter(lines)
    for line in iterator:
        kept.append(line)
        text = line.lstrip("\r ")
        if text.startswith(("|---", "|--  ")):
            yield from _parse_boxes(_chain(kept, iterator), origin)
            return
        if len(kept) > 1000 or _COMMAS.match(line):
            break
    yield from parse_two_headers(_chain(kept, iterator), _Columns(), origin)


_COMMAS = re.compile(r"([,;\t])\1(?:SKT|System)")


def _chain(kept: list[str], rest: Iterator[str]) -> Iterator[str]:
    yield from kept
    yield from rest


_BOX = re.compile(r"\|--(.*?)--\|")
_SOCKET = re.compile(r"Socket\s+(\d+)")
_BOX_CHANNEL = re.compile(r"(?:Mem|HBM|EDC) Ch\s+(\d+):\s*(Reads|Writes)\s*\(MB/s\)\s*:(.*)")
_BOX_MORE = re.compile(r"(PMM )?(Reads|Writes)\s*\(MB/s\)\s*:(.*)")
_BOX_TOTAL = re.compile(r"(?:SKT|NODE)\s*(\d+)\s+(.*?)\s*\((MB/s|T/s|M/s)\)\s*:(.*)")
_BOX_SYSTEM = re.compile(r"System (.*?)\s*\(MB/s\)\s*:(.*)")
_VERBS = {"Reads": "read", "Writes": "write"}


def _parse_boxes(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """One box a socket, side by side; absent channels are not printed, so a channel number is read, not counted."""
    sockets: list[str] = []
    channels: dict[int, str] = {}
    sample, t_ns = -1, None
    for number, text in numbered(lines, origin):
        boxes = [box.strip() for box in _BOX.findall(text)]
        named = [match for match in (_SOCKET.fullmatch(box) for box in boxes) if match]
        if named:
            sockets, channels = [f"socket{match[1]}" for match in named], {}
            if named[0][1] == "0":
                sample += 1
                t_ns = origin.now(None, sample)
            continue
        for index, box in enumerate(boxes):
            found = _box(box, index, sockets, channels)
            if found:
                path, metric, cell = found
                yield reading(t_ns, path, [(metric, *cell)])
        failure = None if boxes else recognise_failure(text)
        if failure:
            raise origin.refuse(number, *failure)


def _box(box: str, index: int, sockets: list[str], channels: dict[int, str]) -> tuple[str, Metric, Cell] | None:
    """What one cell between |-- and --| says; None for rulers and titles."""
    total = _BOX_TOTAL.fullmatch(box)
    if total:
        unit, scale = _UNITS[total[3]]
        metric = _rate(_TOTALS.get(total[2], slug(total[2])), unit)
        return f"socket{total[1]}", metric, scaled(parse_cell(total[4]), scale)
    system = _BOX_SYSTEM.fullmatch(box)
    if system:
        return "system", _rate(_SYSTEM.get(system[1], slug(system[1]))), scaled(parse_cell(system[2]), 10**6)
    if index >= len(sockets):
        return None
    channel = _BOX_CHANNEL.fullmatch(box)
    if channel:
        channels[index] = f"{sockets[index]}/channel{channel[1]}"
        return channels[index], _rate(f"dram_{_VERBS[channel[2]]}"), scaled(parse_cell(channel[3]), 10**6)
    more = _BOX_MORE.fullmatch(box)
    if more and index in channels:
        name = f"{'pmm' if more[1] else 'dram'}_{_VERBS[more[2]]}"
        return channels[index], _rate(name), scaled(parse_cell(more[3]), 10**6)
    return None
