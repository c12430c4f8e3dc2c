# SPDX-License-Identifier: BSD-3-Clause
"""Intel PCM's `pcm-power`: energy, power, frequencies, throttling and channel states per socket.

Lines of the text look like `S0; Consumed Joules: 1339.15; Watts: 67.11; Thermal headroom below TjMax: 37` and
`S0CH1; DRAMClocks: ...; CKE Off Residency: 12.00%`; a ruler of dashes stands between two intervals. From 202509 on a
unit follows the number (`37 °C`, `2.20 Ghz`, `12.00 %`), dies report what limits their frequency, and `-csv` prints two
header rows like pcm-memory, with the unit after the name.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain, islice

from pollscope.collectors.counter_names import counter_metrics
from pollscope.collectors.parsers.pcm.csv import Meaning, parse_two_headers
from pollscope.collectors.parsing import Cell, Column, Origin, numbered, parse_cell, scaled, slug
from pollscope.collectors.sample import Kind, Reading, SourceMetric, reading

_UNIT = re.compile(r"S(\d+)(?:(CH|P|M2M|D|U)(\d+))?")
_LINE = re.compile(_UNIT.pattern + r"\s*;\s*(.+)")
_LIMITS = re.compile(r"S(\d+)D(\d+);? PERF LIMIT REASONS \((DIE LEVEL|#CORE MODULES)\)(?:\s*[:;]\s*(.*))?")
_BESIDE = re.compile(r"-{4,}|Time elapsed:|Called sleep function|Core Power License \d+:|$")
_SEVERAL = re.compile(r"\b[A-Z]?\d(?:/[A-Z]?\d)+\b")
_UNITS = {"CH": "channel", "P": "upi_port", "M2M": "memory_controller", "D": "die", "U": "power_unit"}
_VALUE = re.compile(r"(.*?)\s*(%|°C|G[Hh]z|)")
_NAME = re.compile(r"(.*?)(?:\((%|°C|G[Hh]z)\))?")
_KNOWN = counter_metrics("pcm-power")
# limits of a die's frequency; the text names only those in effect
_REASONS = ("FREQUENCY", "CURRENT", "POWER", "THERMAL", "PLATFORM", "MCP", "RAS", "MISC", "QOS", "DFC")
_MOST_PREAMBLE = 64  # lines
_Found = tuple[SourceMetric, int | float | None, str]


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read the text or the CSV.

    Raises:
        ParseError: no line of a socket in it, or the tool's own failure message; CSV that is not rectangular.
    """
    iterator = iter(lines)
    first = list(islice(iterator, _MOST_PREAMBLE))
    whole = chain(first, iterator)
    if any(line.startswith(",,S") for line in first):
        return parse_two_headers(whole, _PowerColumns(), origin)
    return _parse_text(whole, origin)


class _PowerColumns(Meaning):
    tool = "pcm-power"
    first_row_starts = (",,S",)
    repeated = ("DRAMClocks",)  # printed with each of the two ranks of a channel

    def column(self, upper: str, lower: str) -> Column:
        found, limits = _NAME.fullmatch(lower), _LIMITS.fullmatch(upper)
        if limits:
            return Column(f"socket{limits[1]}/die{limits[2]}", _limit(limits[3], lower), 1)
        metric, scale = _meaning(*(found.groups("") if found else (lower, "")))
        unit = _UNIT.fullmatch(upper)
        return Column(_path(unit) if unit else slug(upper), metric, scale)


def _parse_text(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    sample, open_interval, found = 0, False, False
    t_ns = origin.now(None, sample)
    for number, text in numbered(lines, origin):
        line = text.strip()
        read = _line(line)
        if read:
            found = open_interval = True
            yield reading(t_ns, *read)
        elif open_interval and text.startswith("----"):
            sample, open_interval = sample + 1, False
            t_ns = origin.now(None, sample)
        elif not found:
            origin.refuse_failure(number, text)
        elif not _BESIDE.match(line):
            origin.leave_out(number, f"no line of pcm-power: {line[:60]!r}")
    if not found:
        raise origin.refuse(0, "no line of a socket (S0; ...) in it", "record with: pcm-power 1.0")


def _line(line: str) -> tuple[str, list[_Found]] | None:
    """Return unit path and values of a line; None if it has none."""
    limits, match = _LIMITS.fullmatch(line), _LINE.fullmatch(line)
    if limits:
        return f"socket{limits[1]}/die{limits[2]}", list(_limits(limits[3], limits[4] or ""))
    cells = [_pair(pair) for pair in _pairs(match[4])] if match else []
    return (_path(match), cells) if match and cells else None


def _path(unit: re.Match[str]) -> str:
    return f"socket{unit[1]}" + (f"/{_UNITS[unit[2]]}{unit[3]}" if unit[2] else "")


def _limits(level: str, text: str) -> Iterator[_Found]:
    items = [item.strip() for item in text.split(";") if item.strip()]
    if level == "DIE LEVEL":
        for name in dict.fromkeys((*_REASONS, *items)):
            yield _limit(level, name), int(name in items), ""
    else:
        for item in items:
            name, _, printed = item.rpartition(":")
            yield _limit(level, name), *parse_cell(printed)


@lru_cache(maxsize=4096)
def _limit(level: str, name: str) -> SourceMetric:
    """Return whether a die was limited in the interval, or how many of its core modules were."""
    prefix = "limited_by" if level == "DIE LEVEL" else "modules_limited_by"
    return SourceMetric(f"{prefix}_{slug(name)}", "1", Kind.INTERVAL)


def _pairs(text: str) -> Iterator[str]:
    """Split `NAME: VALUE` items; `core C0/C3/C6-state residency: 95; 3; 2` is three of them."""
    names: list[str] = []
    for item in text.split(";"):
        if ":" in item:
            name, _, value = item.rpartition(":")
            several = _SEVERAL.search(name)
            alternatives = several[0].split("/") if several else []
            names = [name.replace(several[0], each) for each in alternatives] if several else [name]
            yield f"{names.pop(0)}:{value}"
        elif names and item.strip():
            yield f"{names.pop(0)}:{item}"


def _pair(text: str) -> _Found:
    name, _, printed = (part.strip() for part in text.rpartition(":"))
    match = _VALUE.fullmatch(printed)
    value, unit = match.groups() if match else (printed, "")
    metric, scale = _meaning(name, unit)
    cell: Cell = scaled(parse_cell(value), scale)
    return metric, *cell


@lru_cache(maxsize=4096)
def _meaning(name: str, unit: str) -> tuple[SourceMetric, float]:
    """Return the metric of a name, and the factor from the printed unit to the metric's unit."""
    if unit == "%":
        return SourceMetric(f"{slug(name)}_share", "1", Kind.GAUGE), 0.01
    scale = 10**9 if unit in ("Ghz", "GHz") else 1
    other = {"°C": ("degC", Kind.GAUGE), "Ghz": ("Hz", Kind.GAUGE), "GHz": ("Hz", Kind.GAUGE)}
    return SourceMetric(*_KNOWN.get(name, (slug(name), *other.get(unit, ("", Kind.INTERVAL))))), scale
