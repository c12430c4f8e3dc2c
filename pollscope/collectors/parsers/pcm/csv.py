# SPDX-License-Identifier: BSD-3-Clause
"""Read the CSV of `pcm`, `pcm-memory` and `pcm-power`: a pair of names from two header rows identifies a column."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pollscope.collectors.parsing import Column, Origin, Stamps, by_unit, clean, is_ended, parse_cell, without_mark
from pollscope.collectors.sample import Reading

_DELIMITERS = ",;\t"


@dataclass(frozen=True)
class Header:
    """Two header rows; `date` and `time` are the positions of their columns, `columns` those of the others."""

    rows: tuple[str, str]
    delimiter: str
    width: int
    ends_open: bool
    date: int
    time: int
    columns: list[tuple[int, Column]]


class Meaning:
    """Understand a tool's pair of names; one subclass per tool."""

    tool = ""
    first_row_starts: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()  # names below that the tool prints twice for one unit: the first is kept

    def column(self, upper: str, lower: str) -> Column:
        """Return the meaning of the column headed (upper, lower)."""
        raise NotImplementedError

    def check(self, reading: Reading) -> Reading:
        """Check a reading; subclasses recognise their tool's dead counters here."""
        return reading


def parse_two_headers(lines: Iterable[str], meaning: Meaning, origin: Origin) -> Iterator[Reading]:
    """Read rows under the latest pair of header rows, and skip blank lines.

    Raises:
        ParseError: there is no header, a header that is not unique or not rectangular, a row longer than its header, or
        only shorter rows.
    """
    header: Header | None = None
    starts = tuple(start.replace(",", mark) for start in meaning.first_row_starts for mark in _DELIMITERS)
    upper, ended, rows = "", False, _Rows(meaning)
    for number, line in enumerate(without_mark(lines, origin), 1):
        text, ended_before, ended = clean(line), ended, is_ended(line)
        if upper:
            if header is None or header.rows != (upper, text):
                header = join(upper, text, meaning, number, origin)
            upper = ""
        elif text.startswith(starts):
            upper = text
        elif header is not None and text.strip():
            if not ended and ended_before and not header.ends_open:
                origin.leave_out(number, "the last line is cut off")
                return
            yield from rows.read(text, header, number, origin)
        elif text.strip():
            origin.refuse_failure(number, text)
    rows.refuse_if_all_are_short(origin)
    if header is None:
        raise origin.refuse(0, f"no pair of {meaning.tool} header rows in it", f"record with: {meaning.tool} 1.0 -csv")


def join(upper: str, lower: str, meaning: Meaning, number: int, origin: Origin) -> Header:
    """Pair the two rows; refuse rows of different widths and pairs that are not unique."""
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
    date, time = below.index("Date"), below.index("Time")
    columns = [
        (index, meaning.column(*pair))
        for index, pair in enumerate(pairs)
        if pair != ("", "")
        and pair[1] not in ("Date", "Time")
        and not (pair[1] in meaning.repeated and pairs.index(pair) != index)
    ]
    return Header((upper, lower), delimiter, len(pairs), ends_open, date, time, columns)


def _filled(above: list[str], below: list[str]) -> list[str]:
    """Repeat the name of a group, which older versions print only once: `System;;;;Socket0;;;`."""
    filled, name = [], ""
    for upper, lower in zip(above, below, strict=False):
        name = upper or name
        filled.append(name if lower and lower not in ("Date", "Time") else upper)
    return [*filled, *above[len(filled) :]]


@dataclass
class _Rows:
    """Count the rows and the omitted rows, and keep the line of the first omitted one."""

    meaning: Meaning
    stamps: Stamps = field(default_factory=Stamps)
    sample: int = 0
    left_out: int = 0
    first_left_out: int = 0

    def read(self, text: str, header: Header, number: int, origin: Origin) -> Iterator[Reading]:
        """Return the readings of a row; none for a truncated one."""
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
        printed = ((column, parse_cell(cells[place])) for place, column in header.columns)
        yield from map(self.meaning.check, by_unit(t_ns, printed))

    def refuse_if_all_are_short(self, origin: Origin) -> None:
        """Refuse rows without inactive channels; before 202207 the header had these and did not say which they are."""
        if self.left_out == self.sample > 1:
            what = "no row is as wide as its header, with date and time"
            raise origin.refuse(self.first_left_out, what, "record with pcm 202207 or later")
