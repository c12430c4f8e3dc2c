# SPDX-License-Identifier: BSD-3-Clause
"""/proc/stat, /proc/interrupts and /proc/softirqs: activity that took time from the measuring CPUs. All counters start
at boot.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from pollscope.collectors.parsing import WRAPPED_64, Cell, Column, Origin, by_unit, numbered, parse_cell
from pollscope.collectors.sample import Kind, Reading, SourceMetric, row

# proc(5): columns of a cpu line, in ticks of 1/USER_HZ s
_TICKS = tuple(
    SourceMetric(f"{column}_ticks", "ticks", Kind.COUNTER)
    for column in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
)
_STAT = {
    "ctxt": SourceMetric("context_switches", "1", Kind.COUNTER),
    "processes": SourceMetric("forks", "1", Kind.COUNTER),
    "procs_running": SourceMetric("running", "1", Kind.GAUGE),
    "procs_blocked": SourceMetric("blocked", "1", Kind.GAUGE),
}
# other rows of proc(5); interrupts and softirqs have more detailed files of their own
_UNUSED = {"intr", "softirq", "btime", "page", "swap", "disk_io"}
_CPU = re.compile(r"cpu(\d*)")
_WITHOUT_CPU = {"ERR", "MIS"}  # rows of /proc/interrupts with one number for the whole system


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read one snapshot of one of the three files; `origin.label` is its name (stat, interrupts, softirqs)."""
    if origin.label == "stat" or not origin.label:
        yield from _parse_stat(lines, origin)
    else:
        yield from _parse_table(lines, origin)


def _parse_stat(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    found, t_ns = False, origin.now()
    for number, text in numbered(lines, origin):
        name, *cells = text.split() or [""]
        cpu = _CPU.fullmatch(name)
        if cpu:
            found = True
            ticks = [parse_cell(cell, wrapped=WRAPPED_64) for cell in cells[: len(_TICKS)]]
            yield row(t_ns, f"cpu{cpu[1]}" if cpu[1] else "system", _TICKS[: len(ticks)], ticks)
        elif name in _STAT and cells:
            yield row(t_ns, "system", (_STAT[name],), (parse_cell(cells[0], wrapped=WRAPPED_64),))
        elif not found:
            raise origin.refuse(number, f"not /proc/stat: {text[:40]!r}", "record /proc/stat whole")
        elif name and name not in _UNUSED:
            origin.leave_out(number, f"no row of /proc/stat: {text[:40]!r}")
    if not found:
        raise origin.refuse(0, "no cpu line in it", "record /proc/stat whole")


def _parse_table(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Read one column per CPU (the header names them; offline CPUs have none), one row per interrupt or softirq."""
    cpus: list[str] = []
    cells: list[tuple[Column, Cell]] = []
    for number, text in numbered(lines, origin):
        words = text.split()
        if not cpus:
            cpus = words
            if not cpus or not all(re.fullmatch(r"CPU\d+", word) for word in cpus):
                raise origin.refuse(number, f"no header of CPUs: {text[:40]!r}", f"record /proc/{origin.label} whole")
        elif words and words[0].endswith(":"):
            cells += _table_row(words, cpus, origin.label)
        elif words:
            origin.leave_out(number, f"no row of /proc/{origin.label}: {text[:40]!r}")
    if not cpus:
        raise origin.refuse(0, "empty", f"record /proc/{origin.label} whole")
    yield from by_unit(origin.now(), cells)


def _table_row(words: list[str], cpus: list[str], label: str) -> Iterator[tuple[Column, Cell]]:
    """Parse a row; drop one that ends before the last CPU. The words after the numbers name the device."""
    name = words[0].rstrip(":")
    numbers = words[1 : 1 + len(cpus)]
    counts = [word for word in numbers if word.isdigit()]
    prefix = "irq" if label == "interrupts" else "softirq"
    if len(counts) < len(cpus):
        if counts and name.upper() in _WITHOUT_CPU:
            yield Column("system", _metric(f"{prefix}:{name}")), parse_cell(counts[0], wrapped=WRAPPED_64)
        return
    device = words[-1] if name.isdigit() and len(words) > len(cpus) + 1 else ""
    metric = _metric(f"{prefix}:{name}:{device}" if device else f"{prefix}:{name}")
    for cpu, count in zip(cpus, counts, strict=True):
        yield Column(cpu.lower(), metric), parse_cell(count, wrapped=WRAPPED_64)


@lru_cache(maxsize=4096)
def _metric(name: str) -> SourceMetric:
    return SourceMetric(name, "1", Kind.COUNTER)
