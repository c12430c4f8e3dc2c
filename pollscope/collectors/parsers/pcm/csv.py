# SPDX-License-Identifier: BSD-3-Clause
"""The CSV of `pcm`, `pcm-memory` and `pcm-power`: two header rows; only the pair of names makes a column unique."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import add

from pollscope.collectors.parsing import (
    LONGEST_PLAIN,
    Cell,
    Origin,
    Stamps,
    clean,
    is_ended,
    parse_cell,
    recognise_failure,
    scaled,
    without_mark,
)
from pollscope.collectors.sample import Reading, SourceMetric, row

_DELIMITERS = ",;\t"
_EXPONENTS = {1: "", 10**6: "e6", 10**9: "e9", 0.01: "e-2", 1e-9: "e-9"}


@dataclass(frozen=True)
class Column:
    """What one column means: which unit, which metric, and the factor to base units (None: not data)."""

    path: str
    metric: SourceMetric
    scale: float


@dataclass(frozen=True)
class Unit:
    """The metrics of a unit path, and where its cells stand among those of all units."""

    path: str
    metrics: tuple[SourceMetric, ...]
    cells: slice


class Columns:
    """The columns of all units, one after the other: places in the row and factors to base units."""

    def __init__(self, places: list[int], scales: list[float]) -> None:
        self._places, self._scales = places, scales
        self._set_apart([])

    def _set_apart(self, odd: list[int]) -> None:
        """Columns that once held something else than a plain decimal are parsed on their own from then on."""
        self._odd = odd
        plain = [index for index in range(len(self._places)) if index not in set(odd)]
        self._plain = [self._places[index] for index in plain]
        self._exponents = [_EXPONENTS.get(self._scales[index], "x") for index in plain]

    def read(self, row: list[str]) -> list[Cell]:
        """The cells in base units."""
        values = _decimals([row[place] for place in self._plain], self._exponents)
        if values is None:
            texts = [row[place] for place in self._places]
            exponents = [_EXPONENTS.get(scale, "x") for scale in self._scales]
            self._set_apart(
                [
                    i
                    for i, pair in enumerate(zip(texts, exponents, strict=True))
                    if not _decimals(*([each] for each in pair))
                ]
            )
            return self.read(row)
        cells: list[Cell] = list(zip(values, repeat(""), strict=False))
        for index in self._odd:
            cells.insert(index, scaled(parse_cell(row[self._places[index]]), self._scales[index]))
        return cells


@dataclass(frozen=True)
class Header:
    """Two header rows as they stand there; `date` and `time` are the positions of their columns."""

    rows: tuple[str, str]
    delimiter: str
    width: int
    ends_open: bool
    date: int
    time: int
    units: list[Unit]
    columns: Columns


class Meaning:
    """How a tool's pair of names is understood; one subclass a tool."""

    tool = ""
    first_row_starts: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()  # names below that the tool prints twice for one unit: the first is kept

    def column(self, upper: str, lower: str) -> Column:
        """The meaning of the column headed (upper, lower)."""
        raise NotImplementedError

    def check(self, metrics: Sequence[SourceMetric], cells: list[Cell]) -> list[Cell]:
        """A last look at a unit of which a value is absent: here a tool's subclass recognises its dead counters."""
        return cells


def parse_two_headers(lines: Iterable[str], meaning: Meaning, origin: Origin) -> Iterator[Reading]:
    """Reads rows under the latest pair of header rows; blank lines mean nothing.

    Raises:
        ParseError: no header, a header that is not unique or not rectangular, a row that is longer than it, or rows
            of which none is as long.
    """
    header: Header | None = None
    upper, ended, rows = "", False, _Rows(meaning)
    for number, line in enumerate(without_mark(lines, origin), 1):
        text, ended_before, ended = clean(line), ended, is_ended(line)
        if upper:
            if header is None or header.rows != (upper, text):
                header = join(upper, text, meaning, number, origin)
            upper = ""
        elif _is_first_row(text, meaning):
            upper = text
        elif header is not None and text.strip():
            if not ended and ended_before and not header.ends_open:
                origin.leave_out(number, "the last line is cut off")
                return
            yield from rows.read(text, header, number, origin)
        elif text.strip():
            failure = recognise_failure(text)
            if failure:
                raise origin.refuse(number, *failure)
    rows.refuse_if_all_are_short(origin)
    if header is None:
        raise origin.refuse(0, f"no pair of {meaning.tool} header rows in it", f"record with: {meaning.tool} 1.0 -csv")


def _is_first_row(text: str, meaning: Meaning) -> bool:
    starts = (start.replace(",", d) for start in meaning.first_row_starts for d in _DELIMITERS)
    return text.startswith(tuple(starts))


def join(upper: str, lower: str, meaning: Meaning, number: int, origin: Origin) -> Header:
    """Pairs the two rows; refuses rows of different widths and pairs that are not unique."""
    delimiter = max(_DELIMITERS, key=upper.count)
    above, below = ([cell.strip() for cell in row.split(delimiter)] for row in (upper, lower))
    ends_open = not above[-1] and not below[-1]
    above = _filled(above, below)
    pairs = list(zip(above, below, strict=False))
    if len(above) != len(below):
        raise origin.refuse(number, f"the header rows have {len(above)} and {len(below)} cells", "record again")
    data = [pair for pair in pairs if pair != ("", "") and pair[1] not in meaning.repeated]
    twice = next((pair for pair in data if data.count(pair) > 1), None)
    if twice:
        raise origin.refuse(number, f"two columns are headed {twice}", "record again with another set of columns")
    if "Date" not in below or "Time" not in below:
        raise origin.refuse(number, "no Date and Time in the second header row", "record again")
    units, places, scales = _units(pairs, meaning)
    date, time = below.index("Date"), below.index("Time")
    return Header((upper, lower), delimiter, len(pairs), ends_open, date, time, units, Columns(places, scales))


def _units(pairs: list[tuple[str, str]], meaning: Meaning) -> tuple[list[Unit], list[int], list[float]]:
    """The units, and of all their columns one after the other the places in the row and the factors to base units."""
    columns: dict[str, list[tuple[int, Column]]] = {}
    for index, pair in enumerate(pairs):
        again = pair[1] in meaning.repeated and pairs.index(pair) != index
        if pair != ("", "") and pair[1] not in ("Date", "Time") and not again:
            column = meaning.column(*pair)
            columns.setdefault(column.path, []).append((index, column))
    units: list[Unit] = []
    places: list[int] = []
    scales: list[float] = []
    for path, several in columns.items():
        cells = slice(len(places), len(places) + len(several))
        units.append(Unit(path, tuple(column.metric for _, column in several), cells))
        places += [index for index, _ in several]
        scales += [column.scale for _, column in several]
    return units, places, scales


def _filled(above: list[str], below: list[str]) -> list[str]:
    """Older versions name a group once, above its first column: `System;;;;Socket0;;;`."""
    filled, name = [], ""
    for upper, lower in zip(above, below, strict=False):
        name = upper or name
        filled.append(name if lower and lower not in ("Date", "Time") else upper)
    return [*filled, *above[len(filled) :]]


@dataclass
class _Rows:
    """The rows so far: how many, how many of them were left out, and where the first of these stood."""

    meaning: Meaning
    stamps: Stamps = field(default_factory=Stamps)
    sample: int = 0
    left_out: int = 0
    first_left_out: int = 0

    def read(self, text: str, header: Header, number: int, origin: Origin) -> Iterator[Reading]:
        """The readings of a row; none of one that is torn."""
        cells = text.split(header.delimiter)
        if len(cells) > header.width:
            raise origin.refuse(number, f"the row has {len(cells)} cells, its header {header.width}", "record again")
        stamp = self.stamps.ns(cells[header.date], cells[header.time]) if len(cells) == header.width else None
        self.sample += 1
        if stamp is None:
            self.left_out += 1
            self.first_left_out = self.first_left_out or number
            origin.leave_out(number, f"no row of {header.width} cells with date and time: {text[:60]!r}")
            return
        t_ns = origin.now(stamp, self.sample - 1)
        found = header.columns.read(cells)
        for unit in header.units:
            values = found[unit.cells]
            if any(value is None for value, _ in values):
                values = self.meaning.check(unit.metrics, values)
            yield row(t_ns, unit.path, unit.metrics, values)

    def refuse_if_all_are_short(self, origin: Origin) -> None:
        """Before 202207 inactive channels were left out of the rows but not of the header, which says not which."""
        if self.left_out == self.sample > 1:
            what = "no row is as wide as its header, with date and time"
            raise origin.refuse(self.first_left_out, what, "record with pcm 202207 or later")


def _decimals(printed: list[str], exponents: list[str]) -> list[float] | None:
    """Values in base units where every cell is of digits and one point; None when one is not that simple.

    `2.11e9` is 2110000000 Hz; 2.11 times 10^9 is not.
    """
    joined = "".join(printed)
    if (
        joined.count(".") != len(printed)
        or joined.strip("0123456789. ")
        or max(map(len, printed), default=0) > LONGEST_PLAIN
    ):
        return None
    try:
        return list(map(float, map(add, printed, exponents)))
    except ValueError:
        return None
