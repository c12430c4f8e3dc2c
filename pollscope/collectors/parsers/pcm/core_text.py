# SPDX-License-Identifier: BSD-3-Clause
"""The text that Intel PCM's `pcm` and `pcm-core` print when they are not asked for CSV.

Tables whose header names the columns between bars: of cores (`Core (SKT) | UTIL | IPC |`), of memory (`MEM (GB)->|`),
of UPI links, and `Core | IPC | Instructions |` of pcm-core. The tool truncates counts to K, M, G; numbers are of the
interval. The names mean the same as in the CSV (`core.py`), except that counts are not in millions.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice

from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.parsers.pcm.core import known_column, without_dead_counters
from pollscope.collectors.parsers.pcm.core import parse as parse_csv
from pollscope.collectors.parsing import Column, Origin, by_unit, numbered, parse_cell, slug
from pollscope.collectors.sample import Kind, Reading, SourceMetric

_MOST_PREAMBLE = 512  # lines: the description of the host and the legend
_TABLE = re.compile(r"\s*(?P<kind>Core \(SKT\)|MEM \(GB\)->|Core)\s*\|(?P<names>.*)")
_LINKS = re.compile(r"\s+(?:[UQ]PI\d+\s*)+\|\s*(?:[UQ]PI\d+\s*)+")
_DIRECTION = re.compile(r"Intel\(r\) [UQ]PI (data traffic|traffic) estimation in bytes")
_VALUE = r"(?:N/A|-?nan|-?\d+(?:\.\d+)?(?: ?[KMGT%](?![\w.]))?)"
_VALUES = re.compile(_VALUE)
# Beginnings of table rows; rows of links begin like those of memory.
_UNITS = {"Core (SKT)": r"\d+\s+\d+|SKT\s+\d+|TOTAL\s+\*", "Core": r"\d+|\*", "": r"SKT\s+\d+|\*"}
_ROWS = {
    kind: re.compile(rf"\s*(?P<unit>{unit})(?P<values>(?:[\s|]+{_VALUE})+)[\s|]*") for kind, unit in _UNITS.items()
}
_STATES = re.compile(
    r"\s*(?:(?P<whose>Core|Package) C-state residencies:)?\s*(?P<states>(?:C\d+[^:;]*: [\d.]+ ?%;\s*)+)"
)
_STATE = re.compile(r"C(\d+)[^:;]*: ([\d.]+) ?%")
_EVENT = re.compile(r"(Event\d+): (.*?)(?: \(raw 0x[0-9a-f]+.*\))?\s*")
# Lines outside the tables: rulers, drawings, the legend, and sentences about the tables.
_BESIDE = re.compile(
    r"[-\s]*|\s*[┌└].*|.*│.*|\s*(?:[A-Z][A-Z0-9 ]{1,13}|energy)\s*: [A-Za-z].*|\s+this may be an over estimate.*|"
    r"\s*0 corresponds to the max temperature\s*|"
    r" Instructions retired:.*| PHYSICAL CORE IPC.*|Total [UQ]PI .*| C-State distribution:|Time elapsed: .*|"
    r" Instructions per nominal CPU cycle.*|Cleaning up.*| Closed perf event handles.*|Zeroed .* registers.*"
)
_COUNTS = {"L3MISS", "L2MISS"}
_AS_IN_CSV = counter_names("pcm-text")
_OF_PCM_CORE = {
    "IPC": ("instructions_per_cycle", Kind.GAUGE),
    "Instructions": ("instructions", Kind.INTERVAL),
    "Cycles": ("cycles", Kind.INTERVAL),
    "RefCycles": ("reference_cycles", Kind.INTERVAL),
}


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read the text, or `pcm -csv`.

    Raises:
        ParseError: neither a table nor the header rows of CSV, CSV that is not rectangular, or the tool's own failure.
    """
    iterator = iter(lines)
    first = list(islice(iterator, _MOST_PREAMBLE))
    whole = chain(first, iterator)
    if any(_TABLE.fullmatch(line.rstrip()) for line in first):
        return _parse_text(whole, origin)
    return parse_csv(whole, origin)


@dataclass
class _Table:
    """The current table: its kind and its columns."""

    kind: str = ""
    names: list[str] = field(default_factory=list)
    events: dict[str, str] = field(default_factory=dict)


def _parse_text(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    table, first, sample, whose, outgoing = _Table(), "", 0, "Core", False
    for number, text in numbered(lines, origin):
        head, states, event = _TABLE.fullmatch(text), _STATES.fullmatch(text), _EVENT.fullmatch(text)
        if head:
            table.kind, table.names = head["kind"], [name.strip() for name in head["names"].strip(" |").split("|")]
            sample += table.kind == first
            first = first or table.kind
        elif _LINKS.fullmatch(text):
            table.kind, table.names = "outgoing" if outgoing else "incoming", text.replace("|", " ").split()
        elif event:
            table.events[event[1]] = event[2]
        elif direction := _DIRECTION.match(text):
            outgoing = direction[1] == "traffic"
        elif states:
            whose = states["whose"] or whose
            printed = (
                (Column("system", SourceMetric(f"{whose.lower()}_c{state}_residency", "1", Kind.GAUGE), 0.01), share)
                for state, share in _STATE.findall(states["states"])
            )
            yield from by_unit(origin.now(None, sample), ((column, parse_cell(share)) for column, share in printed))
        elif table.names and (match := _ROWS.get(table.kind, _ROWS[""]).fullmatch(text)):
            yield from _readings(match["unit"], match["values"], table, origin.now(None, sample), number, origin)
        elif not table.names:
            origin.refuse_failure(number, text)
        elif not _BESIDE.fullmatch(text):
            origin.leave_out(number, f"no row of pcm: {text.strip()[:60]!r}")


def _readings(
    unit: str, printed: str, table: _Table, t_ns: int | None, number: int, origin: Origin
) -> Iterator[Reading]:
    words, values = unit.split(), _VALUES.findall(printed)
    if len(values) != len(table.names):
        origin.leave_out(number, f"no row of {len(table.names)} values: {unit} {printed.strip()[:50]!r}")
        return
    cells = []
    for index, (name, value) in enumerate(zip(table.names, values, strict=True)):
        metric, scale = _meaning(table.kind, name, index * 2 >= len(values))
        if name in table.events:
            metric, scale = metric._replace(name=slug(table.events[name])), 1
        # Only counts have the suffixes K, M, G; elsewhere a suffix means damage.
        cell = parse_cell(value, human=scale == 1 and metric.kind is Kind.INTERVAL)
        cells.append((Column(_path(words), metric, scale), cell))
    yield from map(without_dead_counters, by_unit(t_ns, cells))


def _path(words: Sequence[str]) -> str:
    """Return the unit path of a row."""
    if words[0] in ("TOTAL", "*"):
        return "system"
    if words[0] == "SKT":
        return f"socket{words[1]}"
    return f"socket{words[1]}/core{words[0]}" if len(words) == 2 else f"cpu{words[0]}"


@lru_cache(maxsize=4096)
def _meaning(kind: str, name: str, second_half: bool) -> tuple[SourceMetric, float]:
    """Return the metric of a column, and the factor to its unit."""
    if kind in ("incoming", "outgoing"):
        metric = f"{slug(name)}_{'out' if kind == 'outgoing' else 'in'}"
        if second_half:  # percent of the link's capacity
            return SourceMetric(f"{metric}_share", "1", Kind.GAUGE), 0.01
        return SourceMetric(metric, "B", Kind.INTERVAL), 1
    if kind == "Core":
        known, of = _OF_PCM_CORE.get(name, (slug(name), Kind.INTERVAL))
        return SourceMetric(known, "1", of), 1
    _, known_metric, scale = known_column("", _AS_IN_CSV.get(name, name))
    return known_metric, 1 if name in _COUNTS else scale
