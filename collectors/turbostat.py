# SPDX-License-Identifier: BSD-3-Clause
"""`turbostat -q`: frequency, C-state residency, power and throttling per CPU, core and package.

The header comes again with every interval; rows of the second hardware thread of a core are shorter, because what
belongs to the core or the package is printed once. Busy% and IPC of a spinning core are high and say nothing about
its load.
"""

import re
from collections.abc import Iterable, Iterator

from .parsing import Cell, Origin, numbered, parse_cell, recognise_failure, scaled, slug
from .sample import Kind, Metric, Reading, reading

NAME = "turbostat"

_PLACES = ("Package", "Die", "Node", "Core", "CPU")
# Numbers of the CPU, time stamps, and how long turbostat itself took: nothing that was counted.
_NO_COUNTERS = {"usec", "Time_Of_Day_Seconds", "APIC", "X2APIC"}
_PACKAGE = re.compile(
    r"Pkg.*|PkgWatt|CorWatt|GFXWatt|RAMWatt|SysWatt|PKG_%|RAM_%|UncMHz|UMHz\d.*|GFX.*|Totl%C0|Any%C0|SAM.*"
)
_CORE = re.compile(r"CPU%c\d+|Core.*|Mod%c\d+")
_MHZ = re.compile(r".*MHz|UMHz\d.*")
_NAMES = {
    "Avg_MHz": "average_frequency",
    "Busy%": "busy_share",
    "Bzy_MHz": "busy_frequency",
    "TSC_MHz": "tsc_frequency",
    "IPC": "instructions_per_cycle",
    "IRQ": "interrupts",
    "NMI": "nmis",
    "SMI": "smis",
    "CoreTmp": "core_temperature",
    "PkgTmp": "package_temperature",
    "CoreThr": "core_throttle_events",
    "PkgWatt": "package_power",
    "CorWatt": "cores_power",
    "RAMWatt": "dram_power",
    "GFXWatt": "graphics_power",
    "SysWatt": "platform_power",
    "PKG_%": "package_throttled_share",
    "RAM_%": "dram_throttled_share",
    "UncMHz": "uncore_frequency",
    "LLC%hit": "llc_hit_share",
    "LLCkRPS": "llc_references",
}
# Residencies may exceed 100 % by rounding; a share far above is an overflow (PKG_% of 894601.29 was seen).
_MOST_PERCENT = 110.0
_HARDWARE = {"CPU": "core", "Pkg": "package", "Mod": "module"}


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Reads tab-separated output (or output aligned with blanks).

    Raises:
        ParseError: no header, a header in which two names ran together, or a row longer than its header.
    """
    header: list[str] = []
    sample, t_ns = -1, None
    for number, text in numbered(lines, origin):
        cells = text.split("\t") if "\t" in text else text.split()
        cells = [cell.strip() for cell in cells]
        if "CPU" in cells and ("Avg_MHz" in cells or "Busy%" in cells):
            header, sample = _checked_header(cells, number, origin), sample + 1
            t_ns = origin.now(None, sample)
        elif header and _is_row(cells, header):
            yield from _row(header, cells, t_ns, number, origin)
        elif not header and (failure := recognise_failure(text)):
            raise origin.refuse(number, *failure)
        elif header and text.strip():
            origin.leave_out(number, f"neither header nor row: {text[:60]!r}")
    if not header:
        raise origin.refuse(0, "no turbostat header in it", "record with: turbostat -q -i 1 -o FILE")


def _is_row(cells: list[str], header: list[str]) -> bool:
    """By its first place: options put the time (`usec`, `Time_Of_Day_Seconds`) in front of package, core and CPU."""
    first = next(index for index, name in enumerate(header) if name in _PLACES)
    return len(cells) > first and bool(re.fullmatch(r"\d+|-", cells[first], re.ASCII))


def _checked_header(cells: list[str], number: int, origin: Origin) -> list[str]:
    glued = next((cell for cell in cells if re.search(r"(?:%C0.|Watt.|MHz[A-Za-z]|%c\d+[A-Z])", cell)), None)
    if glued:
        raise origin.refuse(
            number, f"two names ran together in the header: {glued!r}", "use a newer turbostat, or --show"
        )
    if len(set(cells)) != len(cells):
        raise origin.refuse(number, "two columns of the header have the same name", "use --show to choose columns")
    return cells


def _row(header: list[str], cells: list[str], t_ns: int | None, number: int, origin: Origin) -> Iterator[Reading]:
    if len(cells) > len(header):
        raise origin.refuse(
            number, f"the row has {len(cells)} cells, its header {len(header)}", "use --show to choose columns"
        )
    printed = dict(zip(header, cells, strict=False))
    if not re.fullmatch(r"\d+|-", printed.get("CPU", ""), re.ASCII):
        origin.leave_out(number, f"the row names no CPU: {' '.join(cells)[:60]!r}")
        return
    places = {name: printed.pop(name) for name in _PLACES if name in printed}
    printed = {name: text for name, text in printed.items() if name not in _NO_COUNTERS}
    values = {name: parse_cell(text) for name, text in printed.items()}
    glued = next((text for name, text in printed.items() if values[name][0] is None and text.count(".") > 1), None)
    if glued is not None:
        # every later cell would stand under a wrong name
        origin.leave_out(number, f"two values ran together: {glued!r}")
        return
    units: dict[str, list[tuple[Metric, int | float | None, str]]] = {}
    for name, cell in values.items():
        units.setdefault(_path(name, places), []).append(_cell(name, cell))
    for path, triples in units.items():
        yield reading(t_ns, path, triples)


def _path(column: str, places: dict[str, str]) -> str:
    if places.get("CPU") == "-":
        return "system"
    package = f"socket{places.get('Package', '0')}"
    if _PACKAGE.fullmatch(column):
        return package
    if _CORE.fullmatch(column) and "Core" in places:
        return f"{package}/core{places['Core']}"
    return f"cpu{places['CPU']}"


def _cell(column: str, cell: Cell) -> tuple[Metric, int | float | None, str]:
    name = _NAMES.get(column)
    if "%" in column:
        share = scaled(cell, 0.01)
        if cell[0] is not None and cell[0] > _MOST_PERCENT:
            share = (None, f"overflow: {cell[0]} %")
        return Metric(name or _residency(column), "1", Kind.GAUGE), *share
    if _MHZ.fullmatch(column):
        return Metric(name or slug(column), "Hz", Kind.GAUGE), *scaled(cell, 10**6)
    if column.endswith("Watt"):
        return Metric(name or slug(column), "W", Kind.GAUGE), *cell
    if column.endswith("Tmp"):
        return Metric(name or slug(column), "degC", Kind.GAUGE), *cell
    if column == "LLCkRPS":
        return Metric("llc_references", "1/s", Kind.RATE), *scaled(cell, 1000)
    if column == "IPC":
        return Metric("instructions_per_cycle", "1", Kind.GAUGE), *cell
    return Metric(name or f"{slug(column)}_entries", "1", Kind.INTERVAL), *cell


def _residency(column: str) -> str:
    """C6% is what the kernel asked for, CPU%c6 and Pkg%pc6 what the hardware did."""
    hardware = re.fullmatch(r"(CPU|Pkg|Mod)%p?(c\d+)", column)
    if hardware:
        return f"{_HARDWARE[hardware[1]]}_{hardware[2]}_residency"
    return f"{slug(column.replace('%', ''))}_requested_residency"
