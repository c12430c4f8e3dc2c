# SPDX-License-Identifier: BSD-3-Clause
"""Intel PCM's `pcm -csv`: core, socket and system counters.

Counts (L3MISS, INST, ...) are printed in millions per interval, memory traffic in GB (10^9 B) per interval, energy in
joules per interval, frequencies relative to nominal except CFREQ and UncFREQ (GHz). In the columns of energy and read
latency the two header rows change places: the metric stands above, the socket below.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from pollscope.collectors.parsers.pcm.csv import Column, Meaning, parse_two_headers
from pollscope.collectors.parsing import Cell, Origin, slug
from pollscope.collectors.sample import Kind, Reading, SourceMetric

_MILLION, _BILLION = 10**6, 10**9
_COUNT, _GAUGE = Kind.INTERVAL, Kind.GAUGE
_LOWER: dict[str, tuple[str, str, Kind, float]] = {
    "EXEC": ("instructions_per_nominal_cycle", "1", _GAUGE, 1),
    "UTIL": ("active_share", "1", _GAUGE, 1),
    "IPC": ("instructions_per_cycle", "1", _GAUGE, 1),
    "FREQ": ("frequency_relative", "1", _GAUGE, 1),
    "AFREQ": ("active_frequency_relative", "1", _GAUGE, 1),
    "CFREQ": ("core_frequency", "Hz", _GAUGE, _BILLION),
    "UncFREQ (Ghz)": ("uncore_frequency", "Hz", _GAUGE, _BILLION),
    "L3MISS": ("l3_misses", "1", _COUNT, _MILLION),
    "L2MISS": ("l2_misses", "1", _COUNT, _MILLION),
    "L3HIT": ("l3_hit_share", "1", _GAUGE, 1),
    "L2HIT": ("l2_hit_share", "1", _GAUGE, 1),
    "L3MPI": ("l3_misses_per_instruction", "1", _GAUGE, 1),
    "L2MPI": ("l2_misses_per_instruction", "1", _GAUGE, 1),
    "L3OCC": ("l3_occupancy", "B", _GAUGE, 1024),
    "LMB": ("local_memory_traffic", "B", _COUNT, _MILLION),
    "RMB": ("remote_memory_traffic", "B", _COUNT, _MILLION),
    "READ": ("memory_read", "B", _COUNT, _BILLION),
    "WRITE": ("memory_write", "B", _COUNT, _BILLION),
    "PMM_RD": ("pmm_read", "B", _COUNT, _BILLION),
    "PMM_WR": ("pmm_write", "B", _COUNT, _BILLION),
    "HBM_READ": ("hbm_read", "B", _COUNT, _BILLION),
    "HBM_WRITE": ("hbm_write", "B", _COUNT, _BILLION),
    "LOCAL": ("local_memory_share", "1", _GAUGE, 0.01),
    "TEMP": ("thermal_headroom", "degC", _GAUGE, 1),
    "INST": ("instructions", "1", _COUNT, _MILLION),
    "ACYC": ("active_cycles", "1", _COUNT, _MILLION),
    "TIME(ticks)": ("tsc_cycles", "1", _COUNT, _MILLION),
    "PhysIPC": ("instructions_per_core_cycle", "1", _GAUGE, 1),
    "PhysIPC%": ("instructions_per_core_cycle_share", "1", _GAUGE, 0.01),
    "INSTnom": ("instructions_per_nominal_core_cycle", "1", _GAUGE, 1),
    "INSTnom%": ("instructions_per_nominal_core_cycle_share", "1", _GAUGE, 0.01),
    "Proc Energy (Joules)": ("package_energy", "J", _COUNT, 1),
    "DRAM Energy (Joules)": ("dram_energy", "J", _COUNT, 1),
    "SYSTEM Energy (Joules)": ("platform_energy", "J", _COUNT, 1),
    "LLCRDMISSLAT (ns)": ("llc_read_miss_latency", "s", _GAUGE, 1e-9),
    "TotalUPIin": ("upi_in", "B", _COUNT, _MILLION),
    "TotalUPIout": ("upi_out", "B", _COUNT, _MILLION),
    "TotalQPIin": ("upi_in", "B", _COUNT, _MILLION),
    "TotalQPIout": ("upi_out", "B", _COUNT, _MILLION),
    "UPItoMC": ("upi_to_memory_ratio", "1", _GAUGE, 1),
    "QPItoMC": ("upi_to_memory_ratio", "1", _GAUGE, 1),
    "Power Plane 0 Energy (Joules)": ("cores_energy", "J", _COUNT, 1),
    "Power Plane 1 Energy (Joules)": ("graphics_energy", "J", _COUNT, 1),
    "IO": ("io_memory_traffic", "B", _COUNT, _BILLION),
    "IA": ("core_memory_traffic", "B", _COUNT, _BILLION),
    "GT": ("graphics_memory_traffic", "B", _COUNT, _BILLION),
}
_RESIDENCY = re.compile(r"C(\d+)res%")
_SKT = re.compile(r"SKT\s*(\d+)")
_CORE = re.compile(r"Core\s*(\d+)\s*\(Socket\s*(\d+)\)")
_SOCKET = re.compile(r"Socket\s*(\d+)")
_DIE = re.compile(r"SKT\s*(\d+)\.(\d+)")  # --die
_DIE_FREQUENCY = re.compile(r"UncFREQ Die (\d+) \(Ghz\)")
_LINK = re.compile(r"SKT\s*(\d+)(?:data(In)|traffic(Out))( \(percent\))?")
_STATES = re.compile(r"(System|SKT\s*(\d+)) (Core|Pack|Package) C-States?")
_CORE_NUMBERS = {"l3_hit_share", "l2_hit_share", "l3_misses", "l2_misses"}


class _CoreColumns(Meaning):
    tool = "pcm"
    first_row_starts = ("System,System,", "System,,")

    def column(self, upper: str, lower: str) -> Column:
        socket, die, link = _SKT.fullmatch(lower), _DIE_FREQUENCY.fullmatch(upper), _LINK.fullmatch(upper)
        if socket and die:
            return known_column(f"socket{socket[1]}/die{die[1]}", "UncFREQ (Ghz)")
        if socket:
            return known_column(f"socket{socket[1]}", upper)
        if link:
            return _link(link, lower)
        states = _STATES.fullmatch(upper)
        residency = _RESIDENCY.fullmatch(lower)
        if residency:
            whose = "package" if states and states[3].startswith("Pack") else "core"
            metric = SourceMetric(f"{whose}_c{residency[1]}_residency", "1", Kind.GAUGE)
            return Column(_path(upper), metric, 0.01)
        return known_column(_path(upper), lower)

    def check(self, metrics: Sequence[SourceMetric], cells: list[Cell]) -> list[Cell]:
        return check_core_counters(metrics, cells)


def check_core_counters(metrics: Sequence[SourceMetric], cells: list[Cell]) -> list[Cell]:
    """Drop hit ratios of 1.00 where the IPC is marked invalid, because the core counters are dead there."""
    names = [metric.name for metric in metrics]
    if "instructions_per_cycle" not in names or cells[names.index("instructions_per_cycle")][0] is not None:
        return cells
    dead: Cell = (None, "the core counters are dead: IPC is marked as invalid")
    return [dead if name in _CORE_NUMBERS else cell for name, cell in zip(names, cells, strict=True)]


def _link(link: re.Match[str], name: str) -> Column:
    """Read a UPI link, named below `SKT0dataIn` and `SKT0trafficOut`, in bytes and in percent of its rate."""
    metric = f"{slug(name)}_{(link[2] or link[3]).lower()}"
    if link[4]:
        return Column(f"socket{link[1]}", SourceMetric(f"{metric}_share", "1", Kind.GAUGE), 0.01)
    return Column(f"socket{link[1]}", SourceMetric(metric, "B", Kind.INTERVAL), _MILLION)


def _path(upper: str) -> str:
    core = _CORE.fullmatch(upper)
    if core:
        return f"socket{core[2]}/core{core[1]}"
    die = _DIE.fullmatch(upper)
    if die:
        return f"socket{die[1]}/die{die[2]}"
    socket = _SOCKET.fullmatch(upper) or _SKT.match(upper)
    return f"socket{socket[1]}" if socket else "system"


def known_column(path: str, name: str) -> Column:
    """Return the column of a unit that PCM calls `name`."""
    known = _LOWER.get(name)
    if known:
        return Column(path, SourceMetric(*known[:3]), known[3])
    if name.endswith("%") or "(%)" in name:
        return Column(path, SourceMetric(f"{slug(name.replace('%', ''))}_share", "1", Kind.GAUGE), 0.01)
    return Column(path, SourceMetric(slug(name), "", Kind.GAUGE), 1)


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read `pcm -csv` with or without per-core columns (`-nc`).

    Raises:
        ParseError: no pair of header rows, a pair of names that is not unique, a row of another width.
    """
    return parse_two_headers(lines, _CoreColumns(), origin)
