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
from itertools import chain

from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.parsing import Origin, Stamps, numbered, parse_cell, slug
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
    rows = numbered(lines, origin)
    for number, text in rows:
        if _HEADER.match(text):
            yield from _parse_csv(rows, text, number, origin)
            return
        if text.startswith("|IIO Stack") or _SOCKET_LINE.fullmatch(text):
            yield from _parse_boxes(chain([(number, text)], rows), origin)
            return
        origin.refuse_failure(number, text)
    raise origin.refuse(0, "no pcm-iio header in it", "record with: pcm-iio 1.0 -csv=FILE")


class _IioColumns:
    """The columns after the part: those for traffic are in every row, the others only in that of a first part.

    `order`: the positions of both in a row that has all of them.
    """

    def __init__(self, names: list[str]) -> None:
        traffic = [index for index, name in enumerate(names) if name.startswith(_TRAFFIC)]
        self.order = [*traffic, *(index for index in range(len(names)) if index not in traffic)]
        metrics = [_metric(names[index]) for index in self.order]
        self.bandwidth, self.iommu = metrics[: len(traffic)], metrics[len(traffic) :]

    def read(
        self, paths: tuple[str, str], printed: list[str], t_ns: int | None, number: int, origin: Origin
    ) -> Iterator[Reading]:
        """Read the values of a part and its stack; omit a truncated row and note it.

        Newer event sets put the IOMMU's columns into a separate row, `Total`, whose part is the stack.
        """
        part, stack = paths
        cells = [parse_cell(cell, human=True) for cell in printed]
        narrow, wide = len(self.bandwidth), len(self.order)
        if len(cells) > wide:
            what = f"the row has {len(cells)} values, its header {wide}"
            raise origin.refuse(number, what, "do not mix two pcm runs")
        if part == stack and narrow and len(cells) == len(self.iommu):
            yield row(t_ns, stack, self.iommu, cells)
        elif len(cells) not in (narrow, wide):
            origin.leave_out(number, f"the row has {len(cells)} values, neither {narrow} nor {wide}: cut off")
        else:
            in_order = [cells[index] for index in self.order] if len(cells) == wide else cells
            yield row(t_ns, part, self.bandwidth, in_order[:narrow])
            if len(cells) > narrow:
                yield row(t_ns, stack, self.iommu, in_order[narrow:])


@dataclass(frozen=True)
class _Layout:
    """The columns of one header."""

    header: str
    delimiter: str
    dated: bool
    socket: int
    name: int
    columns: _IioColumns


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
    return _Layout(header, match["d2"], cells[0] == "Date", cells.index("Socket"), name, _IioColumns(cells[first:]))


def _metric(column: str) -> SourceMetric:
    # also peer-to-peer traffic (IB P2P write), which IIO counts in bytes unless the column names another unit
    is_bytes = column.startswith(_TRAFFIC) and not _TRANSACTIONS.search(column)
    unknown = slug(column), "B/s" if is_bytes else "1/s"
    name, unit = _NAMES.get(column.removesuffix("(bytes)").strip(), unknown)
    return SourceMetric(name, unit, Kind.RATE)


def _parse_csv(rows: Iterator[tuple[int, str]], header: str, at: int, origin: Origin) -> Iterator[Reading]:
    """Read rows under the latest header; a repeated header is the only sample boundary there is."""
    stamps, sample = Stamps(), 0
    layout, t_ns = _layout(header, at, origin), origin.now(None, sample)
    for number, text in rows:
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
        yield from layout.columns.read(_paths(found, layout, number, origin), printed, t_ns, number, origin)


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


def _parse_boxes(rows: Iterable[tuple[int, str]], origin: Origin) -> Iterator[Reading]:
    """Read the text output: a box per stack, or the devices alone (-list). The tool truncates its numbers to K, M,
    G.
    """
    socket, stack, samples = "0", "", 0
    columns, seen = _IioColumns([]), set[str]()
    t_ns = origin.now(None, samples)
    for line, text in rows:
        match, listed = _SOCKET_LINE.fullmatch(text), _LISTED.fullmatch(text)
        if match:
            socket = match[1]
            continue
        if listed:
            stack, columns = f"socket{socket}/{_stack(listed[1])}", _IioColumns([])
            continue
        cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
        if cells[0].startswith("IIO Stack"):
            stack, columns = f"socket{socket}/{_stack(cells[0])}", _IioColumns(cells[1:])
            if stack in seen:
                seen, samples = set(), samples + 1
                t_ns = origin.now(None, samples)
            seen.add(stack)
        elif stack and (device := _DEVICE.search(text)):
            parts = [f"{stack}/part{part}" for part in re.findall(r"\d+", device[2] or "")]
            for path in parts or [stack]:
                yield reading(t_ns, path, [(_BEHIND, device[1].lower(), "")])
        elif stack and (part := _PART.match(cells[0])):
            path = f"{stack}/part{part[1]}" if part[1] else stack
            yield from columns.read((path, stack), cells[1:], t_ns, line, origin)
        elif not _RULER.fullmatch(text):
            origin.leave_out(line, f"neither a part nor a device: {text.strip()[:60]!r}")
