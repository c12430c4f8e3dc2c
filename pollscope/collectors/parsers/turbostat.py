# SPDX-License-Identifier: BSD-3-Clause
"""`turbostat -q`: frequency, C-state residency, power and throttling per CPU, core and package.

The header is repeated with every interval; rows of the second hardware thread of a core are shorter, because values of
the core or the package are printed once. Busy% and IPC of a spinning core are high and say nothing about its load.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pollscope.collectors.counter_names import counter_names
from pollscope.collectors.parsing import Cell, Column, Origin, by_unit, numbered, parse_cell, slug
from pollscope.collectors.sample import Kind, Reading, SourceMetric

_PLACES = ("Package", "Die", "Node", "Core", "CPU")
# CPU numbers, time stamps, and turbostat's own run time, none of which is a counter.
_NO_COUNTERS = {"usec", "Time_Of_Day_Seconds", "APIC", "X2APIC", "L3", "Module"}
_PACKAGE = re.compile(
    r"Pkg.*|Pk%pc\d+|Cor(?:Watt|_J)|GFX.*|RAM(?:Watt|_J)|Sys(?:Watt|_J)|PKG_%|RAM_%|UncMHz|UMHz\d.*|Totl%C0|Any%C0|CPUGFX%|"
    r"SAM.*|CPU%LPI|SYS%LPI"
)
_DIE = re.compile(r"Die%c\d+")
_CPU = re.compile(r"\d+|-", re.ASCII)
_SUMMARY = re.compile(r"-?\d+(?:\.\d+)?%?|0x[0-9a-f]+", re.ASCII)
# CPU%c1 is counted for a hardware thread, deeper states for its core
_CORE = re.compile(r"CPU%c(?!1$)\d+|Core.*|Cor(?:Watt|_J)|Mod%c\d+")
_REFERENCES = re.compile(r"(LLC|L2)([kM])RPS")
_MHZ = re.compile(r".*MHz|UMHz\d.*")
_NAMES = counter_names("turbostat")
# every turbostat has columns with one of these names: they distinguish a header from the text before it
_KNOWN = re.compile(
    r"Avg_MHz|Busy%|Bzy_MHz|TSC_MHz|IPC|IRQ|NMI|SMI|(?:C\d\w*|POLL)[-+%]?|CPU%c\d+|Pkg?%pc\d+|UMHz\d\S*|CoreTmp|CoreThr|PkgTmp|"
    r"(?:Pkg|Cor|GFX|RAM|Sys)(?:Watt|_J)|(?:PKG|RAM)_%|(?:LLC|L2)(?:[kM]RPS|%hit)|(?:Mod|Die)%c\d+"
)
# --Summary prints one header for all samples, --show without CPU one for all CPUs of a sample: the rows look the same
_NAMELESS = "record with --show CPU,COLUMN,..., or with --Summary --header_iterations 1"
_NAME = re.compile(r"[A-Za-z]\S*")
# Residencies may exceed 100 % by rounding; a share far above is an overflow (PKG_% of 894601.29 was seen).
_MOST_PERCENT = 110.0
_REQUESTED = re.compile(r"(?!CPU|SYS|GFX|SAM)[A-Z]\w*[+-]?%")  # C6%, C1ACPI%, POLL%: the kernel's name of the state
_HARDWARE = {"CPU": "core", "Pkg": "package", "Pk": "package", "Mod": "module", "Die": "die"}


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read tab-separated output (or output aligned with blanks).

    Raises:
        ParseError: no header, a header in which two names ran together, a row longer than its header, several rows
            that name no CPU under one header, or no valid row.
    """
    table: _TurbostatTable | None = None
    sample, t_ns, rows, found = -1, None, 0, False
    for number, text in numbered(lines, origin):
        cells = _cells(text)
        if _is_header(cells):
            if table is None or cells != table.header:
                table = _table(_checked_header(cells, number, origin))
            sample, rows = sample + 1, 0
            t_ns = origin.now(None, sample)
        elif table is not None and table.is_row(cells):
            rows += 1
            readings = list(_row(table, cells, t_ns, number, origin))
            if table.first is None and rows > 1:
                raise origin.refuse(number, "several rows under one header, and none names its CPU", _NAMELESS)
            found = found or bool(readings)
            yield from readings
        elif table is None:
            origin.refuse_failure(number, text)
        elif text.strip():
            origin.leave_out(number, f"neither header nor row: {text[:60]!r}")
    if not found:
        what = "no row below its header is valid" if table else "no turbostat header in it"
        raise origin.refuse(0, what, "record with: turbostat -q -i 1 -o FILE")


def _cells(text: str) -> list[str]:
    """Return the cells of a line; turbostat of 2017 and before puts a tab in front of header and rows."""
    return list(map(str.strip, text.removeprefix("\t").split("\t"))) if "\t" in text else text.split()


def _is_header(cells: list[str]) -> bool:
    """Return whether this is a header: one known column suffices with CPU, otherwise all must be known."""
    if not cells or not _NAME.match(cells[0]):
        return False
    known = [bool(_KNOWN.fullmatch(cell)) for cell in cells]
    if "CPU" in cells:
        return any(known)
    return all(
        each or _PACKAGE.fullmatch(cell) or cell in _NO_COUNTERS for each, cell in zip(known, cells, strict=True)
    )


def _checked_header(cells: list[str], number: int, origin: Origin) -> list[str]:
    glued = next((cell for cell in cells if re.search(r"(?:%C0.|Watt.|MHz[A-Za-z]|%c\d+[A-Z])", cell)), None)
    if glued:
        raise origin.refuse(
            number, f"two names ran together in the header: {glued!r}", "use a newer turbostat, or --show"
        )
    if len(set(cells)) != len(cells):
        raise origin.refuse(number, "two columns of the header have the same name", "use --show to choose columns")
    return cells


@dataclass(frozen=True)
class _Column:
    """Describe one column: its owner (a key of the table's `path`), its metric, and the value of a cell."""

    index: int
    place: str
    metric: SourceMetric
    scale: float
    is_share: bool


@dataclass(frozen=True)
class _TurbostatTable:
    """A header; `first` is its first place: options put the time before package, core and CPU; None without
    places (--Summary).
    """

    header: list[str]
    first: int | None
    places: dict[str, int]
    columns: list[_Column]

    def is_row(self, cells: list[str]) -> bool:
        """Return whether the cells are a row below this header."""
        if self.first is None:
            return len(cells) == len(self.header) and all(map(_SUMMARY.fullmatch, cells))
        return len(cells) > self.first and bool(_CPU.fullmatch(cells[self.first]))


def _table(header: list[str]) -> _TurbostatTable:
    places = {name: index for index, name in enumerate(header) if name in _PLACES}
    columns = [
        _Column(index, _place(name, header), *_meaning(name))
        for index, name in enumerate(header)
        if name not in places and name not in _NO_COUNTERS
    ]
    return _TurbostatTable(header, min(places.values(), default=None), places, columns)


def _row(table: _TurbostatTable, cells: list[str], t_ns: int | None, number: int, origin: Origin) -> Iterator[Reading]:
    if len(cells) > len(table.header):
        raise origin.refuse(
            number, f"the row has {len(cells)} cells, its header {len(table.header)}", "use --show to choose columns"
        )
    where = {name: cells[index] for name, index in table.places.items() if index < len(cells)} or {"CPU": "-"}
    if not _CPU.fullmatch(where.get("CPU", "")):
        origin.leave_out(number, f"the row names no CPU: {' '.join(cells)[:60]!r}")
        return
    paths = {place: _path(place, where) for place in ("Package", "Die", "Core", "CPU")}
    printed: list[tuple[Column, Cell]] = []
    for column in table.columns:
        if column.index >= len(cells):
            break
        cell = parse_cell(cells[column.index])
        if cell[0] is None and cells[column.index].count(".") > 1:
            # every later cell would be under a wrong name
            origin.leave_out(number, f"two values ran together: {cells[column.index]!r}")
            return
        if column.is_share and cell[0] is not None and cell[0] > _MOST_PERCENT:
            cell = None, f"overflow: {cell[0]} %"
        printed.append((Column(paths[column.place], column.metric, column.scale), cell))
    yield from by_unit(t_ns, printed, paths.values())


def _place(column: str, header: list[str]) -> str:
    """Return a column's unit; with one power meter per core (AMD), CorWatt stands left of the package's columns."""
    if _DIE.fullmatch(column):
        return "Die" if "Die" in header else "Package"
    after_package = not {"PkgWatt", "Pkg_J"} & set(header[header.index(column) :])
    if _PACKAGE.fullmatch(column) and (after_package or not column.startswith("Cor")):
        return "Package"
    return "Core" if _CORE.fullmatch(column) and "Core" in header else "CPU"


def _path(place: str, where: dict[str, str]) -> str:
    if where["CPU"] == "-":
        return "system"
    package = f"socket{where.get('Package', '0')}"
    die = f"{package}/die{where['Die']}" if "Die" in where else package  # a core's number is unique on its die
    return {"Package": package, "Die": die, "Core": f"{die}/core{where.get('Core', '')}"}.get(
        place, f"cpu{where['CPU']}"
    )


def _meaning(column: str) -> tuple[SourceMetric, float, bool]:
    """Return metric, factor to its unit, and whether it is a share in percent."""
    name = _NAMES.get(column)
    if "%" in column:
        return SourceMetric(name or _residency(column), "1", Kind.GAUGE), 0.01, True
    if _MHZ.fullmatch(column):
        return SourceMetric(name or slug(column), "Hz", Kind.GAUGE), 10**6, False
    if column.endswith("Watt"):
        return SourceMetric(name or slug(column), "W", Kind.GAUGE), 1, False
    if column.endswith("Tmp"):
        return SourceMetric(name or slug(column), "degC", Kind.GAUGE), 1, False
    if column.endswith("_J"):
        return SourceMetric(name or slug(column), "J", Kind.INTERVAL), 1, False
    references = _REFERENCES.fullmatch(column)
    if references:
        scale = 1000 if references[2] == "k" else 10**6
        return SourceMetric(f"{references[1].lower()}_references", "1/s", Kind.RATE), scale, False
    if column == "IPC":
        return SourceMetric("instructions_per_cycle", "1", Kind.GAUGE), 1, False
    column = column.replace("+", " plus").replace("-", " minus")  # C1+, C1-: a deeper, a shallower state was better
    return SourceMetric(name or f"{slug(column)}_entries", "1", Kind.INTERVAL), 1, False


def _residency(column: str) -> str:
    """Name a residency: the kernel requested C6%, the hardware spent CPU%c6 and Pkg%pc6."""
    hardware = re.fullmatch(r"(CPU|Pkg?|Mod|Die)%p?(c\d+)", column)
    if hardware:
        return f"{_HARDWARE[hardware[1]]}_{hardware[2]}_residency"
    if not _REQUESTED.fullmatch(column):
        return f"{slug(column.replace('%', ' '))}_share"
    return f"{slug(column.replace('%', ''))}_requested_residency"
