# SPDX-License-Identifier: BSD-3-Clause
"""Intel PCM's `pcm -csv`: core, socket and system counters.

Counts (L3MISS, INST, ...) are printed in millions per interval, memory traffic in GB (10^9 B) per interval, energy in
joules per interval, frequencies relative to nominal except CFREQ and UncFREQ (GHz). In the columns of energy and read
latency the two header rows are swapped: the metric is above, the socket below.
"""

import re
from collections.abc import Iterable, Iterator

from pollscope.collectors.counter_names import counter_metrics
from pollscope.collectors.parsers.pcm.csv import Meaning, parse_two_headers
from pollscope.collectors.parsing import Column, Origin, slug
from pollscope.collectors.sample import Kind, Reading, SourceMetric

_MILLION, _BILLION = 10**6, 10**9
_COUNT, _GAUGE = Kind.INTERVAL, Kind.GAUGE
_LOWER = counter_metrics("pcm")
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

    def check(self, reading: Reading) -> Reading:
        return without_dead_counters(reading)


def without_dead_counters(reading: Reading) -> Reading:
    """Drop hit ratios of 1.00 where the IPC is marked invalid, because the core counters are dead there."""
    names = [metric.name for metric in reading.metrics]
    if "instructions_per_cycle" not in names or reading.get("instructions_per_cycle") is not None:
        return reading
    dead = dict.fromkeys(
        (index for index, name in enumerate(names) if name in _CORE_NUMBERS),
        "the core counters are dead: IPC is marked as invalid",
    )
    kept = [None if index in dead else value for index, value in enumerate(reading.values)]
    return reading._replace(values=kept, reasons={**reading.reasons, **dead})


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
