# SPDX-License-Identifier: BSD-3-Clause
"""Intel PCM's `pcm-iio`: PCIe traffic and IOMMU events per IIO stack and part.

Every number is per second in every version (the tool measures one counter after the other, each for a slice of the
interval, and scales up: the values of a row were not taken at the same moment). Bandwidth belongs to the part; the
IOMMU columns, printed on the row of the first part only, belong to the stack.

Layouts by version (COLLECTORS 1.1): no `Part` in the header 202109-202203, `Socket,[Root Port,]Name,Part,...` from
202207, `Date,Time,` in front of it from 202509. "IB" is inbound: IB write is the device writing memory (reception).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, repeat, takewhile
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from pollscope.collectors.parsing import (
    WRAPPED,
    Cell,
    Origin,
    Stamps,
    clean,
    numbered,
    parse_cell,
    recognise_failure,
    slug,
    without_mark,
)
from pollscope.collectors.sample import Kind, Reading, SourceMetric, reading, row

_NAMES = {
    "IB write": ("dma_write", "B/s"),
    "IB read": ("dma_read", "B/s"),
    "OB read": ("mmio_read", "B/s"),
    "OB write": ("mmio_write", "B/s"),
    "IOTLB Lookup": ("iotlb_lookups", "1/s"),
    "IOTLB Hit": ("iotlb_hits", "1/s"),
    "IOTLB Miss": ("iotlb_misses", "1/s"),
    "Ctxt Cache Hit": ("context_cache_hits", "1/s"),
    "VT-d CTXT Miss": ("context_cache_misses", "1/s"),
    "256T Cache Hit": ("walk_cache_256t_hits", "1/s"),
    "512G Cache Hit": ("walk_cache_512g_hits", "1/s"),
    "1G Cache Hit": ("walk_cache_1g_hits", "1/s"),
    "2M Cache Hit": ("walk_cache_2m_hits", "1/s"),
    "4K Cache Hit": ("walk_cache_4k_hits", "1/s"),
    "VT-d L1 Miss": ("walk_cache_l1_misses", "1/s"),
    "VT-d L2 Miss": ("walk_cache_l2_misses", "1/s"),
    "VT-d L3 Miss": ("walk_cache_l3_misses", "1/s"),
    "VT-d Mem Read": ("iommu_memory_accesses", "1/s"),
    "IOMMU Mem Access": ("iommu_memory_accesses", "1/s"),
}
_TRAFFIC = ("IB ", "OB ")
_TRANSACTIONS = re.compile(r"trans|txn|req", re.IGNORECASE)
_HEADER = re.compile(r"(?:Date(?P<d1>\W+)Time\W+)?Socket(?P<d2>[^\w ]+)(?:Root Port[^\w ]+)?Name[^\w ]")
_STACK = re.compile(r"IIO Stack\s+(\d+)\s*-\s*(.*)")
_PART = re.compile(r"Part(\d+)\b|Total")  # Total: a set of events that PCM counts for the whole stack
_SOCKET = re.compile(r"Socket(\d+)")
_SOCKET_LINE = re.compile(r"\s*Socket ?(\d+)\s*")
_LISTED = re.compile(r"\s*(IIO Stack\s+\d+\s*-.*?)\s+(?:domain 0x|root bus:).*")  # option -list
# below a box: |0000:65:00.0|Gen3 x8 |14E4:16D7 Broadcom ...; Part: 0, 1
# Without Part: a device behind a bridge, whose part is not printed.
_DEVICE = re.compile(r"\b([0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\s*\|\s*Gen(?:.*;\s*Part:\s*([\d, ]+))?")
_RULER = re.compile(r"[\s|_-]*")
_BEHIND = SourceMetric("device", "", Kind.STATE)
_STAMP_CHARACTERS = len("2026-11-20,15:39:40.152,")
_END = "the end of the log"
_MOST_ROWS = 4096  # no server has so many parts; a log without headers shall not be read into memory whole
_NO_REASONS: MappingProxyType[int, str] = MappingProxyType({})


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Reads CSV (any layout, any one-character delimiter, human-readable or not) or the boxes of the text output.

    Raises:
        ParseError: no header, a header that is broken, or a row that is longer than its header.
    """
    return chain.from_iterable(_parts(lines, origin))


def _parts(text_lines: Iterable[str], origin: Origin) -> Iterator[Iterable[Reading]]:
    """What `parse` chains: a generator in between would cost more than a reading."""
    lines = without_mark(text_lines, origin)
    for number, line in enumerate(lines, 1):
        text = clean(line)
        if _HEADER.match(text):
            yield from _parse_csv(lines, text, number, origin)
            return
        if text.startswith("|IIO Stack") or _SOCKET_LINE.fullmatch(text):
            yield _parse_boxes(lines, text, number, origin)
            return
        failure = recognise_failure(text)
        if failure:
            raise origin.refuse(number, *failure)
    raise origin.refuse(0, "no pcm-iio header in it", "record with: pcm-iio 1.0 -csv=FILE")


@dataclass(frozen=True)
class _Layout:
    """The columns of one header; `columns.order` is None in every version so far: traffic first, then the IOMMU's.

    `known` maps what stands before the values to the unit paths of part and stack, and the number of minus signs in it.
    """

    header: str
    delimiter: str
    dated: bool
    socket: int
    name: int
    columns: "_IioColumns"
    known: dict[str, tuple[str, str, int]]

    @property
    def bandwidth(self) -> tuple[SourceMetric, ...]:
        return self.columns.bandwidth

    @property
    def iommu(self) -> tuple[SourceMetric, ...]:
        return self.columns.iommu


class _IioColumns(NamedTuple):
    """Traffic, which every row has, and what only the row of a first part has; `order`: where they stand in such a row,
    None when they stand there one after the other.
    """

    bandwidth: tuple[SourceMetric, ...]
    iommu: tuple[SourceMetric, ...]
    order: list[int] | None

    def sorted(self, cells: list[Cell]) -> list[Cell]:
        """The cells of a row: traffic first."""
        return cells if self.order is None or len(cells) < len(self.order) else [cells[i] for i in self.order]


def _columns(names: list[str]) -> _IioColumns:
    traffic = [index for index, name in enumerate(names) if name.startswith(_TRAFFIC)]
    order = [*traffic, *(index for index in range(len(names)) if index not in traffic)]
    metrics = tuple(_metric(names[index]) for index in order)
    in_order = order == sorted(order)
    return _IioColumns(metrics[: len(traffic)], metrics[len(traffic) :], None if in_order else order)


def _layout(header: str, number: int, origin: Origin) -> _Layout:
    match = _HEADER.match(header)
    assert match is not None, "BUG: only called with a header"
    for delimiter in (match["d1"], match["d2"]):
        if delimiter is not None and len(delimiter) > 1:
            raise origin.refuse(
                number,
                f"delimiter {match['d2']!r}: pcm-iio prints a wrong number of characters after the time",
                "record again with a -csv-delimiter of one character",
            )
    cells = [cell.strip() for cell in header.split(match["d2"])]
    if len(set(cells)) != len(cells):
        raise origin.refuse(number, "two columns of the header have the same name", "record again")
    if not {"Socket", "Name"} <= set(cells):
        raise origin.refuse(number, "no Socket and Name in the header", "record again")
    name = cells.index("Name")
    # Versions 202109 to 202203 forgot the name of the column Part; their rows have it.
    first = cells.index("Part") + 1 if "Part" in cells else name + 1
    if first > name + 2:
        raise origin.refuse(number, f"the column {cells[name + 1]!r} stands before Part", "use another pcm-iio")
    return _Layout(header, match["d2"], cells[0] == "Date", cells.index("Socket"), name, _columns(cells[first:]), {})


def _metric(column: str) -> SourceMetric:
    # traffic of peers too (IB P2P write): IIO counts it in bytes, unless the column says what else it counts
    is_bytes = column.startswith(_TRAFFIC) and not _TRANSACTIONS.search(column)
    unknown = slug(column), "B/s" if is_bytes else "1/s"
    name, unit = _NAMES.get(column.removesuffix("(bytes)").strip(), unknown)
    return SourceMetric(name, unit, Kind.RATE)


@dataclass
class _Piece:
    """What has been read so far: the latest header, the number of the last line, the time of the sample.

    `again`: `_rows` stopped at another header.
    """

    header: str
    number: int
    layout: _Layout
    t_ns: int | None
    stamp: str = ""
    again: bool = False


def _parse_csv(lines: Iterator[str], header: str, number: int, origin: Origin) -> Iterator[Iterable[Reading]]:
    """Cuts the stream at its repeated headers (the only sample boundary there is) and reads a sample at a time.

    A sample in the shape of the one before it is read whole (`_whole`), every other row by row (`_rows`).
    """
    stamps, sample, shape = Stamps(), 0, None
    piece = _Piece(header, number, _layout(header, number, origin), origin.now(None, sample))
    lines = chain(lines, (_END,))
    while True:
        header = piece.header
        block = list(takewhile(f"{header}\n".__ne__, islice(lines, _MOST_ROWS)))
        ended, whole = bool(block) and block[-1] is _END, len(block) < _MOST_ROWS
        block = block[:-1] if ended else block
        readings = _whole(block, shape, piece, stamps, origin) if shape and whole else None
        if readings is None:
            rows, headers, problems = iter(block), sample, origin.problems.count
            yield _rows(rows, piece, stamps, origin)
            while piece.again:
                sample += 1
                if piece.header != piece.layout.header:
                    piece.layout = _layout(piece.header, piece.number, origin)
                piece.t_ns = origin.now(piece.t_ns if piece.layout.dated else None, sample)
                yield _rows(rows, piece, stamps, origin)
            simple = whole and sample == headers and origin.problems.count == problems
            shape = _shape(block, piece.layout) if simple else None
        else:
            yield readings
            piece.number += len(block)
        if ended:
            return
        if whole:  # the header that ended the sample; rows under another one may have come in between
            piece.header, piece.number, piece.stamp, sample = header, piece.number + 1, "", sample + 1
            if header != piece.layout.header:
                piece.layout = _layout(header, piece.number, origin)
            piece.t_ns = origin.now(piece.t_ns if piece.layout.dated else None, sample)


@dataclass(frozen=True)
class _Shape:
    """A whole sample, as one row of cells: what is always the same in it, and where its values stand.

    Of each reading: unit path, metrics, place of its values, and its row.
    """

    layout: _Layout
    lines: int
    cells: int
    names: Callable[[list[str]], tuple[str, ...]]
    named: tuple[str, ...]
    values: Callable[[list[str]], tuple[str, ...]]
    times: Callable[[list[str]], tuple[str, ...]]
    paths: list[str]
    metrics: list[tuple[SourceMetric, ...]]
    slices: list[slice]
    rows: list[int]


def _cells(block: list[str], layout: _Layout) -> list[str]:
    """All cells of a sample in one list; the newline stays at the front of every row's first, so that it counts."""
    return ("\n" + "".join(block)).replace("\n", f"{layout.delimiter}\n").split(layout.delimiter)


def _shape(block: list[str], layout: _Layout) -> _Shape | None:
    """The shape of a sample that was just read row by row; None when it has rows that `_whole` could not read."""
    lead, before = layout.name + 2, 2 if layout.dated else 0
    narrow, wide = len(layout.bandwidth), len(layout.bandwidth) + len(layout.iommu)
    at, names, value_at, times = 1, [0], list[int](), list[int]()
    plan: list[tuple[str, tuple[SourceMetric, ...], slice, int]] = []
    for index, line in enumerate(block):
        found = line.removesuffix("\n").split(layout.delimiter)
        paths = layout.known.get(layout.delimiter.join(found[before:lead]))
        width, first = len(found) - lead, len(value_at)
        if paths is None or width not in (narrow, wide) or not line.endswith("\n"):
            return None
        times += range(at, at + 2)  # Date and Time, where there are any
        names += range(at + before, at + lead)
        value_at += range(at + lead, at + len(found))
        at += len(found)
        plan.append((paths[0], layout.bandwidth, slice(first, first + narrow), index))
        if width > narrow:
            plan.append((paths[1], layout.iommu, slice(first + narrow, first + wide), index))
    if len(value_at) < 2:  # one value alone: itemgetter would give no tuple
        return None
    cells, named = _cells(block, layout), itemgetter(*names, at)
    columns = map(list, zip(*plan, strict=True))
    values, when = itemgetter(*value_at), itemgetter(*times)
    return _Shape(layout, len(block), len(cells), named, named(cells), values, when, *columns)


def _whole(block: list[str], shape: _Shape, piece: _Piece, stamps: Stamps, origin: Origin) -> list[Reading] | None:
    """The readings of a sample whose rows name the same units in the same order; None when it is not that simple.

    Every value is of the digits 0 to 9 alone: int() would take more.
    """
    layout = shape.layout
    if layout is not piece.layout or len(block) != shape.lines:
        return None
    cells = _cells(block, layout)
    if len(cells) != shape.cells or shape.names(cells) != shape.named:
        return None
    if layout.dated and "\r" in "".join(shape.times(cells)):
        return None  # a line torn inside its time
    printed = shape.values(cells)
    digits = "".join(printed)
    if not (digits.isdecimal() and digits.isascii() and all(printed)):
        return None
    values = list(map(int, printed))
    if max(values) >= WRAPPED:
        return None
    times: Iterable[int | None] = repeat(piece.t_ns)
    if layout.dated and origin.clock is None:
        times = _times(shape, cells, piece, stamps)
    # as [Reading(...) for ...], in a third of the time
    rows = zip(times, shape.paths, shape.metrics, map(values.__getitem__, shape.slices), repeat(_NO_REASONS))
    return list(map(tuple.__new__, repeat(Reading), rows))


def _times(shape: _Shape, cells: list[str], piece: _Piece, stamps: Stamps) -> Iterable[int | None]:
    """The time of each reading; newer versions print one for each row."""
    printed = shape.times(cells)
    if len({*printed[::2]}) == 1 and len({*printed[1::2]}) == 1:
        piece.t_ns = stamps.ns(*printed[:2])
        return repeat(piece.t_ns)
    rows = [stamps.ns(*pair) for pair in zip(printed[::2], printed[1::2], strict=True)]
    piece.t_ns = rows[-1]
    return map(rows.__getitem__, shape.rows)


def _rows(lines: Iterator[str], piece: _Piece, stamps: Stamps, origin: Origin) -> Iterator[Reading]:
    """A row of plain integers whose unit is known is read here, everything else in `_slow_row`."""
    piece.again, number = False, piece.number
    layout, t_ns = piece.layout, piece.t_ns
    delimiter, bandwidth, iommu, known = layout.delimiter, layout.bandwidth, layout.iommu, layout.known
    narrow, wide = len(bandwidth), len(bandwidth) + len(iommu)
    before = _STAMP_CHARACTERS if layout.dated else 0
    stamped = layout.dated and origin.clock is None
    make, stamp, limit, no_reasons = tuple.__new__, piece.stamp, WRAPPED, _NO_REASONS
    for number, line in enumerate(lines, piece.number + 1):
        if stamped and line[:before] != stamp:
            stamp = piece.stamp = line[:before]
            t_ns = piece.t_ns = stamps.ns(*_stamp_cells(line, delimiter))
        cells = line.rsplit(delimiter, narrow)
        paths = known.get(cells[0][before:])
        if paths is None:
            cells = line.rsplit(delimiter, wide)
            paths = known.get(cells[0][before:])
        # int() takes more than digits: no underscore, no minus but those of the known part, nothing beyond ASCII.
        if (
            paths is not None
            and line[-1] == "\n"
            and "_" not in line
            and line.count("-") == paths[2]
            and line.isascii()
        ):
            try:
                values = list(map(int, cells[1:]))
            except ValueError:
                values = []
            if values and sum(values) < limit:
                if len(values) == narrow:
                    yield make(Reading, (t_ns, paths[0], bandwidth, values, no_reasons))
                else:
                    yield make(Reading, (t_ns, paths[0], bandwidth, values[:narrow], no_reasons))
                    yield make(Reading, (t_ns, paths[1], iommu, values[narrow:], no_reasons))
                continue
        text = clean(line)
        if _HEADER.match(text):
            piece.header, piece.number, piece.again, piece.stamp = text, number, True, ""
            return
        yield from _slow_row(line, text, t_ns, layout, number, origin)
    piece.number = number


def _stamp_cells(line: str, delimiter: str) -> tuple[str, str]:
    date, time, *_ = [*line.split(delimiter, 2), "", ""]
    return date, time


def _slow_row(
    line: str, text: str, t_ns: int | None, layout: _Layout, number: int, origin: Origin
) -> Iterator[Reading]:
    """A new unit, blanks, suffixes, missing or wrapped values. What is no row is noted and left out."""
    found = text.split(layout.delimiter, layout.name + 2)
    if len(found) < layout.name + 3 or not _SOCKET.match(found[layout.socket]):
        if text.strip():
            origin.leave_out(number, f"neither header nor row: {text[:60]!r}")
        return
    printed = found[-1].split(layout.delimiter)
    narrow, wide = len(layout.bandwidth), len(layout.bandwidth) + len(layout.iommu)
    if len(printed) > wide:
        raise origin.refuse(number, f"the row has {len(printed)} values, its header {wide}", "do not mix two pcm runs")
    of_stack = _is_total(found[layout.name + 1], len(printed), layout.columns)
    if (len(printed) not in (narrow, wide) and not of_stack) or (not line.endswith("\n") and layout.known):
        origin.leave_out(number, f"the row is cut off: {text[-60:]!r}")
        return
    part, stack = _paths(found, layout, number, origin)
    if of_stack:
        yield row(t_ns, stack, layout.iommu, [parse_cell(cell, human=True) for cell in printed])
        return
    cells = layout.columns.sorted([parse_cell(cell, human=True) for cell in printed])
    if line.endswith("\n") and "-" not in found[-1] and layout.columns.order is None:
        layout.known[layout.delimiter.join(found[layout.socket : -1])] = part, stack, line.count("-")
    yield row(t_ns, part, layout.bandwidth, cells[:narrow])
    if len(cells) > narrow:
        yield row(t_ns, stack, layout.iommu, cells[narrow:])


def _is_total(part: str, width: int, columns: _IioColumns) -> bool:
    """Whether a row has the IOMMU's columns alone: newer sets of events give them a row of their own, `Total`."""
    return part.strip() == "Total" and bool(columns.bandwidth) and width == len(columns.iommu)


def _paths(row: list[str], layout: _Layout, number: int, origin: Origin) -> tuple[str, str]:
    """Unit paths of the part and of its stack."""
    socket = _SOCKET.match(row[layout.socket].strip())
    part = _PART.match(row[layout.name + 1].strip())
    if socket is None or part is None:
        raise origin.refuse(
            number, f"no socket or part in {row[layout.socket]!r}, {row[layout.name + 1]!r}", "record again"
        )
    stack = f"socket{socket[1]}/{_stack(row[layout.name])}"
    return f"{stack}/part{part[1]}" if part[1] else stack, stack


def _stack(name: str) -> str:
    match = _STACK.match(name.strip())
    return f"stack{match[1]}:{match[2].strip()}" if match else f"stack:{name.strip()}"


def _parse_boxes(lines: Iterator[str], first: str, number: int, origin: Origin) -> Iterator[Reading]:
    """The text output: a box per stack, or the devices alone (-list). Its numbers are cut to K, M, G by the tool."""
    socket, stack, samples = "0", "", 0
    columns, seen = _columns([]), set[str]()
    t_ns = origin.now(None, samples)
    for line, text in _continued(first, number, lines, origin):
        match, listed = _SOCKET_LINE.fullmatch(text), _LISTED.fullmatch(text)
        if match:
            socket = match[1]
            continue
        if listed:
            stack, columns = f"socket{socket}/{_stack(listed[1])}", _columns([])
            continue
        cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
        if cells[0].startswith("IIO Stack"):
            stack, columns = f"socket{socket}/{_stack(cells[0])}", _columns(cells[1:])
            if stack in seen:
                seen, samples = set(), samples + 1
                t_ns = origin.now(None, samples)
            seen.add(stack)
        elif stack and (device := _DEVICE.search(text)):
            parts = [f"{stack}/part{part}" for part in re.findall(r"\d+", device[2] or "")]
            for path in parts or [stack]:
                yield reading(t_ns, path, [(_BEHIND, device[1].lower(), "")])
        elif stack and _PART.match(cells[0]):
            yield from _box_row(cells, (t_ns, stack, columns), line, origin)
        elif not _RULER.fullmatch(text):
            origin.leave_out(line, f"neither a part nor a device: {text.strip()[:60]!r}")


def _continued(first: str, number: int, lines: Iterator[str], origin: Origin) -> Iterator[tuple[int, str]]:
    yield number, first
    for offset, text in numbered(lines, origin):
        yield number + offset, text


def _box_row(
    cells: list[str], place: tuple[int | None, str, _IioColumns], number: int, origin: Origin
) -> Iterator[Reading]:
    t_ns, stack, columns = place
    values = columns.sorted([parse_cell(cell, human=True) for cell in cells[1:]])
    narrow, wide = len(columns.bandwidth), len(columns.bandwidth) + len(columns.iommu)
    if len(values) > wide:
        raise origin.refuse(number, f"the row has {len(values)} values, its header {wide}", "record as CSV")
    if _is_total(cells[0], len(values), columns):
        yield row(t_ns, stack, columns.iommu, values)
        return
    if len(values) not in (narrow, wide):
        origin.leave_out(number, f"the row has {len(values)} values, neither {narrow} nor {wide}: cut off")
        return
    match = _PART.match(cells[0])
    assert match is not None, "BUG: only called with a part's row"
    part = f"{stack}/part{match[1]}" if match[1] else stack
    yield row(t_ns, part, columns.bandwidth, values[:narrow])
    if len(values) > narrow:
        yield row(t_ns, stack, columns.iommu, values[narrow:])
