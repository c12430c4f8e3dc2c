# SPDX-License-Identifier: BSD-3-Clause
"""Serve all parsers: provide lines, collect their problems, and convert printed cells to numbers.

A parser is a function `parse(lines, origin) -> Iterator[Reading]`. It reads as it goes (constant memory), starts no
process, and knows no index: columns are found by their names. It raises `ParseError` if the text is not of the expected
format, and notes omitted lines in `origin.problems`. It never makes a number out of a truncated or glued cell.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from pollscope.base.errors import UsageError
from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.sample import Reading, SourceMetric, row

Cell = tuple[int | float | None, str]

# A counter is at most 48 bits wide; whatever is near or above has wrapped (COLLECTORS: values of k * 14 * 2^48).
WRAPPED = 1 << 47
# Counters that the kernel, perf or a driver extends to 64 bits can be large (as the TSC): only a value with the top bit
# set is a wrap or an error code.
WRAPPED_64 = float(1 << 63)
LONGEST_PLAIN = 14  # characters: a number of them is below 2^47
_KEPT_PROBLEMS = 20

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_HUMAN = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT])", re.ASCII)
_MISSING = re.compile(r"|n/?a|-1(?:\.0*)?|[+-]?nan%?|[+-]?inf|-2147483648|---?|\(null\)", re.ASCII | re.IGNORECASE)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# the second: the byte-order mark of UTF-16, decoded as UTF-8 with errors="replace"
_MARK, _NO_UTF8 = "\ufeff", ("\ufffd\ufffd", "\ufffe")
_SCALE = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class ParseError(UsageError):
    """The text is not the output that the parser expects; `where` is file and line."""


@dataclass
class Problems:
    """Lines that were left out: all counted, the first few kept (memory stays constant)."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.count += 1
        if len(self.first) < _KEPT_PROBLEMS:
            self.first.append(text)


@dataclass
class Origin:
    """Where lines come from.

    `clock` gives the time (run's monotonic clock, ns) at which the line just read came; without it the parser uses the
    tool's own time stamps, or `interval_ns` times the number of the sample when the tool prints none.
    """

    name: str = "<input>"
    clock: Callable[[], int] | None = None
    interval_ns: int | None = None
    label: str = ""
    problems: Problems = field(default_factory=Problems)

    def at(self, line: int) -> str:
        return f"{self.name}:{line}"

    def refuse(self, line: int, what: str, remedy: str = "") -> ParseError:
        return ParseError(what, self.at(line), remedy)

    def refuse_failure(self, line: int, text: str) -> None:
        """Raise ParseError if the line is a tool's failure message."""
        if failure := recognise_failure(text):
            raise self.refuse(line, *failure)

    def leave_out(self, line: int, what: str) -> None:
        self.problems.add(f"{self.at(line)}: {what}")

    def now(self, stamp_ns: int | None = None, sample: int = 0) -> int | None:
        """Return the time of the present sample: by the clock, else the tool's stamp, else the interval, else
        unknown.
        """
        if self.clock is not None:
            return self.clock()
        if stamp_ns is not None:
            return stamp_ns
        return None if self.interval_ns is None else sample * self.interval_ns


def without_mark(lines: Iterable[str], origin: Origin) -> Iterator[str]:
    """Return the lines without the byte-order mark that some systems put before a text.

    Raises:
        ParseError: the text is UTF-16 (which PowerShell writes for `>`), read as UTF-8.
    """
    iterator = iter(lines)
    first = next(iterator, "")
    # Every second byte of ASCII in UTF-16 is zero.
    if first.startswith(_NO_UTF8) and first.count("\0") > len(first) // 3:
        raise origin.refuse(1, "the text is UTF-16", "convert it: iconv -f UTF-16 -t UTF-8")
    return chain((first.removeprefix(_MARK),), iterator) if first else iterator


def numbered(lines: Iterable[str], origin: Origin) -> Iterator[tuple[int, str]]:
    """Number and clean lines; omit a last line that was cut off (earlier ones ended with a newline)."""
    held, ended = None, False
    for number, line in enumerate(without_mark(lines, origin), 1):
        if held is not None:
            yield held
            held = None
        if line.endswith("\n") and "\r" not in line and "\x1b" not in line:  # nothing to clean: nearly every line
            ended = True
            yield number, line[:-1]
            continue
        if is_ended(line):
            ended = True
        elif ended:
            held = number, clean(line)
            continue
        yield number, clean(line)
    if held is not None:
        origin.leave_out(held[0], "the last line is cut off")


def is_ended(line: str) -> bool:
    """Return whether the tool has finished the line; pcm-memory ends some with a carriage return."""
    return line.endswith(("\n", "\r"))


def clean(line: str) -> str:
    """Remove terminal escapes, carriage returns and the newline.

    A blank takes their place inside the line: without it the digits on both sides would become one number.
    """
    if "\r" not in line and "\x1b" not in line:
        return line.rstrip("\n")
    return _ESCAPES.sub(" ", line.rstrip("\r\n")).replace("\r", " ")


def parse_cell(text: str, *, negative: bool = False, wrapped: float = WRAPPED, human: bool = False) -> Cell:
    """Parse one printed number; return None and the reason if it is not a number. Take a trailing %, and with `human`
    K, M, G, T (powers of 1000), which only some outputs have: elsewhere they are damage.

    Integers stay integers. With `negative` numbers below zero are data, -1 included.
    """
    text = text.strip()
    if len(text) <= LONGEST_PLAIN and text.isascii():
        if text.isdecimal():
            return int(text), ""
        whole, point, decimals = text.partition(".")
        if point and whole.isdecimal() and decimals.isdecimal():
            return float(text), ""
    if _NUMBER.fullmatch(text):
        if not negative and _MISSING.fullmatch(text):
            return None, f"the tool marks it as invalid ({text})"
        return _checked(text, 1, negative, wrapped)
    suffixed = _HUMAN.fullmatch(text) if human else None
    if suffixed:
        return _checked(suffixed[1], _SCALE[suffixed[2]], negative, wrapped)
    if _MISSING.fullmatch(text):
        return None, f"the tool marks it as invalid ({text})" if text else "empty cell: not present or inactive"
    if text.endswith("%"):
        return parse_cell(text[:-1], negative=negative, wrapped=wrapped, human=human)
    return None, f"not a number: {text[:40]!r}"


def _checked(text: str, scale: int, negative: bool, wrapped: float) -> Cell:
    if len(text) > 40:
        return None, f"not a counter: {len(text)} characters long"
    value: int | float = int(text) * scale if text.lstrip("+-").isdigit() else float(text) * scale
    if not math.isfinite(value):
        return None, f"not finite: {text}"
    if abs(value) >= wrapped:
        return None, f"counter wrapped: {text} is not below 2^{math.log2(wrapped):.0f}"
    if value < 0 and not negative:
        return None, f"negative: {text}"
    return value, ""


def scaled(cell: Cell, scale: float) -> Cell:
    """Return the cell in base units; integers stay integers under an integer scale."""
    value, reason = cell
    if value is None:
        return None, reason
    if isinstance(value, int) and isinstance(scale, int):
        return value * scale, ""
    if scale == 1:
        return value, ""
    if scale < 1:
        quotient = value / round(1 / scale)
        # 99.88 % is 0.9988, not 0.9987999999999999
        return float(f"{quotient:.15g}") if isinstance(value, float) else quotient, ""
    # 2.11 GHz is 2110000000 Hz, not 2109999999.9999998: printed decimals leave room for this rounding.
    product = value * scale
    whole = float(round(product))
    return whole if abs(product - whole) <= abs(product) * 4e-16 else float(f"{product:.15g}"), ""


class Column(NamedTuple):
    """Describe one column of a table: its unit, its metric, and the factor to base units."""

    path: str
    metric: SourceMetric
    scale: float = 1


def by_unit(t_ns: int | None, cells: Iterable[tuple[Column, Cell]], paths: Iterable[str] = ()) -> Iterator[Reading]:
    """Return one reading per unit of the printed cells of a row, those of `paths` first."""
    units: dict[str, tuple[list[SourceMetric], list[Cell]]] = {path: ([], []) for path in paths}
    for column, cell in cells:
        metrics, values = units.setdefault(column.path, ([], []))
        metrics.append(column.metric)
        values.append(scaled(cell, column.scale))
    for path, (metrics, values) in units.items():
        if metrics:
            yield row(t_ns, path, metrics, values)


@lru_cache(maxsize=4096)
def slug(text: str) -> str:
    """Make a metric name from a printed one: lower case, words joined by underscores."""
    return re.sub(r"[^0-9a-z]+", "_", text.lower().replace("%", " percent ")).strip("_") or "unnamed"


class Stamps:
    """Measure nanoseconds since the first time stamp of a file (local time without zone, as PCM prints it)."""

    def __init__(self) -> None:
        self._first: datetime | None = None
        self._text, self._ns = "", 0

    def ns(self, date: str, time: str) -> int | None:
        """Return the time of two cells; None if they are not a time."""
        text = f"{date.strip()} {time.strip()}"
        if text != self._text:
            try:
                stamp = datetime.fromisoformat(text)
            except ValueError:
                return None
            self._first = self._first or stamp
            if (stamp.tzinfo is None) != (self._first.tzinfo is None):
                return None
            delta = stamp - self._first
            self._text, self._ns = text, (delta.days * 86400 + delta.seconds) * 10**9 + delta.microseconds * 1000
        return self._ns


def recognise_failure(line: str) -> tuple[str, str] | None:
    """Return the meaning of a tool's failure message, (what, remedy); None for any other line."""
    return next(((what, remedy) for pattern, what, remedy in _FAILURES if pattern.search(line)), None)


_FAILURES = [
    (re.compile(pattern, re.IGNORECASE), what, remedy) for pattern, (what, remedy) in counter_names("failures").items()
]
