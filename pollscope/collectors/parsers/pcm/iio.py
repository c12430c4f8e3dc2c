# SPDX-License-Identifier: BSD-3-Clause
"""Intel PCM's `pcm-iio`: PCIe traffic and IOMMU events per IIO stack and part.

Every number is per second in every version (the tool measures one counter after the other, each for a part of the
interval, and scales up; the values of a row are not simultaneous). Bandwidth belongs to the part; the IOMMU columns,
printed on the row of the first part only, belong to the stack.

Layouts by version (COLLECTORS 1.1): no `Part` in the header 202109-202203, `Socket,[Root Port,]Name,Part,...` from
202207, `Date,Time,` before it from 202509. "IB" is inbound: IB write is the device writing memory (reception).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.parsing import (
    LONGEST_PLAIN,
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

_NAMES = counter_names("pcm-iio")
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


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read CSV (any layout, any one-character delimiter, human-readable or not) or the boxes of the text output.

    Raises:
        ParseError: there is no header, a broken one, or a row that is longer than its header.
    """
    lines = without_mark(lines, origin)
    for number, line in enumerate(lines, 1):
        text = clean(line)
        if _HEADER.match(text):
            yield from _parse_csv(lines, text, number, origin)
            return
        if text.startswith("|IIO Stack") or _SOCKET_LINE.fullmatch(text):
            yield from _parse_boxes(lines, text, number, origin)
            return
        if failure := recognise_failure(text):
            raise origin.refuse(number, *failure)
    raise origin.refuse(0, "no pcm-iio header in it", "record with: pcm-iio 1.0 -csv=FILE")


@dataclass(frozen=True)
class _Layout:
    """The columns of one header; `known` maps the cells that name a row's unit to the paths of part and stack."""

    header: str
    delimiter: str
    dated: bool
    socket: int
    name: int
    columns: "_IioColumns"
    known: dict[tuple[str, ...], tuple[str, str]]


class _IioColumns(NamedTuple):
    """Columns for traffic, in every row, and those only in the row of a first part; `order`: their positions in such a
    row, None if they are consecutive.
    """

    bandwidth: tuple[SourceMetric, ...]
    iommu: tuple[SourceMetric, ...]
    order: list[int] | None

    def sorted(self, cells: list[Cell]) -> list[Cell]:
        """Return the cells of a row: traffic first."""
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
    # Versions 202109 to 202203 omit the name of the column Part, but not the column.
    first = cells.index("Part") + 1 if "Part" in cells else name + 1
    if first > name + 2:
        raise origin.refuse(number, f"the column {cells[name + 1]!r} stands before Part", "use another pcm-iio")
    return _Layout(header, match["d2"], cells[0] == "Date", cells.index("Socket"), name, _columns(cells[first:]), {})


def _metric(column: str) -> SourceMetric:
    # also peer-to-peer traffic (IB P2P write), which IIO counts in bytes unless the column names another unit
    is_bytes = column.startswith(_TRAFFIC) and not _TRANSACTIONS.search(column)
    unknown = slug(column), "B/s" if is_bytes else "1/s"
    name, unit = _NAMES.get(column.removesuffix("(bytes)").strip(), unknown)
    return SourceMetric(name, unit, Kind.RATE)


def _parse_csv(lines: Iterator[str], header: str, at: int, origin: Origin) -> Iterator[Reading]:
    """Read rows under the latest header; a repeated header is the only sample boundary there is."""
    stamps, sample, ended = Stamps(), 0, False
    layout, t_ns = _layout(header, at, origin), origin.now(None, sample)
    for number, line in enumerate(lines, at + 1):
        text = clean(line)
        if _HEADER.match(text):
            if text != layout.header:
                layout = _layout(text, number, origin)
            sample += 1
            t_ns = origin.now(None, sample)
            continue
        found = text.split(layout.delimiter, layout.name + 2)
        if len(found) < layout.name + 3 or not _SOCKET.match(found[layout.socket]):
            if text.strip():
                origin.leave_out(number, f"neither header nor row: {text[:60]!r}")
            continue
        if layout.dated and origin.clock is None:
            t_ns = stamps.ns(*found[:2])
        printed = found.pop().split(layout.delimiter)
        if ended and not line.endswith("\n"):
            origin.leave_out(number, f"the row is cut off: {text[-60:]!r}")
            return
        ended = ended or line.endswith("\n")
        yield from _row(printed, found, t_ns, layout, number, origin)


def _row(
    printed: list[str], found: list[str], t_ns: int | None, layout: _Layout, number: int, origin: Origin
) -> Iterator[Reading]:
    """Read a row of the values `printed` after the cells `found`; omit a truncated one and note it."""
    bandwidth, iommu, _ = layout.columns
    narrow, wide = len(bandwidth), len(bandwidth) + len(iommu)
    if len(printed) > wide:
        raise origin.refuse(number, f"the row has {len(printed)} values, its header {wide}", "do not mix two pcm runs")
    of_stack = _is_total(found[-1], len(printed), layout.columns)
    if len(printed) not in (narrow, wide) and not of_stack:
        origin.leave_out(number, f"the row is cut off: {layout.delimiter.join(printed)[-60:]!r}")
        return
    unit = found[layout.socket], *found[layout.name :]
    if unit not in layout.known:
        layout.known[unit] = _paths(found, layout, number, origin)
    part, stack = layout.known[unit]
    values = _values(printed)
    if of_stack:
        yield row(t_ns, stack, iommu, values)
        return
    cells = layout.columns.sorted(values)
    yield row(t_ns, part, bandwidth, cells[:narrow])
    if len(cells) > narrow:
        yield row(t_ns, stack, iommu, cells[narrow:])


def _values(printed: list[str]) -> list[Cell]:
    digits = "".join(printed)
    if digits.isdecimal() and digits.isascii() and all(printed) and max(map(len, printed)) <= LONGEST_PLAIN:
        return [(int(cell), "") for cell in printed]
    return [parse_cell(cell, human=True) for cell in printed]


def _is_total(part: str, width: int, columns: _IioColumns) -> bool:
    """Return whether a row has the IOMMU's columns alone: newer event sets put them in a separate row, `Total`."""
    return part.strip() == "Total" and bool(columns.bandwidth) and width == len(columns.iommu)


def _paths(row: list[str], layout: _Layout, number: int, origin: Origin) -> tuple[str, str]:
    """Return the unit paths of the part and of its stack."""
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
    """Read the text output: a box per stack, or the devices alone (-list). The tool truncates its numbers to K, M,
    G.
    """
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
