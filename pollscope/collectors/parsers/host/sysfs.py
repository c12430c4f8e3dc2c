# SPDX-License-Identifier: BSD-3-Clause
"""Values of sysfs files as `path=value` lines: CPU frequency, idle states, SMT, isolation, powercap (RAPL), throttling.

The raw recording is the listing that the parser reads, so a recorded host can be read anywhere.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from pollscope.collectors.counter_names import counter_metrics
from pollscope.collectors.parsing import WRAPPED_64, Origin, numbered, parse_cell
from pollscope.collectors.sample import Kind, Reading, SourceMetric, Value, reading

_LINE = re.compile(r"(/[^=!]*)([=!])(.*)")
_CPU = re.compile(r"/sys/devices/system/cpu/(cpu\d+)/(.+)")
_IDLE = re.compile(r"cpuidle/(state\d+)/(.+)")
_POWERCAP = re.compile(r"/sys/class/powercap/([^/]+)/(.+)")
_UNCORE = re.compile(r"/sys/devices/system/cpu/intel_uncore_frequency/(package_\d+_die_\d+|uncore\d+)/(.+)")
# Zones of powercap (kernel document power/powercap/powercap.rst; their names: drivers/powercap/intel_rapl_common.c)
_ZONE = "powercap:"
_PACKAGE = re.compile(r"package-(\d+)(?:-die-(\d+))?")
_PARTS = {"core": "cores", "uncore": "graphics", "dram": "dram"}
# file name -> (metric, unit, kind, scale to base units)
_KNOWN = counter_metrics("sysfs")
_IDLE_KNOWN = counter_metrics("sysfs-cpuidle")


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read `path=value` lines; `path!reason` says why a file could not be read."""
    found, t_ns = False, origin.now()
    zones = _Zones()
    for number, text in numbered(lines, origin):
        match = _LINE.match(text)
        if match is None:
            if text.strip():
                origin.leave_out(number, f"no path=value: {text[:60]!r}")
            continue
        found = True
        if zones.holds(match[1]):
            yield from zones.readings(t_ns)
            zones = _Zones()
        path, metric, scale = _meaning(match[1])
        cell = _cell(metric, match[2], match[3], scale)
        if path.startswith(_ZONE):
            zones.add(match[1], path, cell)
        else:
            yield reading(t_ns, path, [cell])
    yield from zones.readings(t_ns)
    if not found:
        raise origin.refuse(0, "no path=value line in it", "record with: pollscope collect cpufreq --out FILE")


class _Zones:
    """Hold the values of powercap's zones until their names are known: one file per zone names it."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._cells: list[tuple[str, tuple[SourceMetric, Value, str]]] = []
        self._names: dict[str, str] = {}

    def holds(self, file: str) -> bool:
        """Return whether the file was there already, which means that another snapshot begins."""
        return file in self._seen

    def add(self, file: str, path: str, cell: tuple[SourceMetric, Value, str]) -> None:
        self._seen.add(file)
        self._cells.append((path, cell))
        if cell[0].name == "name" and isinstance(cell[1], str):
            self._names[path] = cell[1]

    def readings(self, t_ns: int | None) -> Iterator[Reading]:
        """Return a zone's path: energy of a package goes to its socket, and a zone of unknown name keeps its own."""
        for path, (metric, value, reason) in self._cells:
            unit, part = self._place(path)
            name = f"{part}_{metric.name}" if part and metric.name.startswith("energy") else metric.name
            yield reading(t_ns, unit if name != metric.name else path, [(metric._replace(name=name), value, reason)])

    def _place(self, path: str) -> tuple[str, str]:
        """Return unit path and part of a zone: intel-rapl:1 named package-1 and its zone dram are of socket1."""
        name = self._names.get(path, "")
        package = _PACKAGE.fullmatch(name)
        if package:
            return f"socket{package[1]}" + (f"/die{package[2]}" if package[2] else ""), "package"
        if name == "psys":
            return "system", "platform"
        above, part = self._names.get(path.rpartition(":")[0], ""), _PARTS.get(name, "")
        return (self._place(path.rpartition(":")[0])[0], part) if part and _PACKAGE.fullmatch(above) else (path, "")


def _cell(metric: SourceMetric, mark: str, text: str, scale: float) -> tuple[SourceMetric, Value, str]:
    if mark == "!":
        return metric, None, text.strip() or "cannot be read"  # a line cut off after its mark
    text = text.strip()
    if metric.unit and text.isdigit():
        value, reason = parse_cell(text, wrapped=WRAPPED_64)
        return metric, None if value is None else value / round(1 / scale) if scale < 1 else value * int(scale), reason
    if metric.unit:
        return metric, None, f"not a number: {text[:40]!r}"
    return metric, text, ""


@lru_cache(maxsize=16384)
def _meaning(path: str) -> tuple[str, SourceMetric, float]:
    """Return unit path, metric and scale of a sysfs file; an unknown file is a state, and its text is kept."""
    for pattern, names in ((_CPU, _KNOWN), (_POWERCAP, _KNOWN), (_UNCORE, _KNOWN)):
        match = pattern.fullmatch(path)
        if match:
            unit, name = match[1], match[2]
            idle = _IDLE.fullmatch(name)
            if idle:
                unit, name, names = f"{unit}/{idle[1]}", idle[2], _IDLE_KNOWN
            unit = f"powercap:{unit}" if pattern is _POWERCAP else unit
            return unit, *_metric(name, names)
    return "system", *_metric(path.removeprefix("/sys/devices/system/cpu/").removeprefix("/sys/"), _KNOWN)


def _metric(name: str, names: dict[str, tuple[str, str, Kind, float]]) -> tuple[SourceMetric, float]:
    known = names.get(name.rpartition("/")[2])
    return (SourceMetric(*known[:3]), known[3]) if known else (SourceMetric(name.replace("/", "."), "", Kind.STATE), 1)
