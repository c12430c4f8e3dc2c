# SPDX-License-Identifier: BSD-3-Clause
"""/proc/stat, /proc/interrupts and /proc/softirqs: what took time from the measuring CPUs. All counters since boot."""

import re
from collections.abc import Iterable, Iterator

from .parsing import Origin, numbered, parse_cell
from .sample import Kind, Metric, Reading, Value, reading

NAME = "kernel-load"

# proc(5): columns of a cpu line, in ticks of 1/USER_HZ s
_TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
_STAT = {"ctxt": "context_switches", "processes": "forks", "procs_running": "running", "procs_blocked": "blocked"}
_GAUGES = {"running", "blocked"}
_LIMIT = float(1 << 63)


def parse(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """Reads one snapshot of one of the three files; `origin.label` is its name (stat, interrupts, softirqs).

    Raises:
        ParseError: the text is none of the three.
    """
    if origin.label == "stat" or not origin.label:
        yield from _parse_stat(lines, origin)
    else:
        yield from _parse_table(lines, origin)


def _parse_stat(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    found, t_ns = False, origin.now()
    for number, text in numbered(lines, origin):
        name, *cells = text.split() or [""]
        cpu = re.fullmatch(r"cpu(\d*)", name)
        if cpu:
            found = True
            metrics = (Metric(f"{column}_ticks", "ticks", Kind.COUNTER) for column in _TICKS)
            path = f"cpu{cpu[1]}" if cpu[1] else "system"
            yield reading(
                t_ns, path, ((m, *parse_cell(c, wrapped=_LIMIT)) for m, c in zip(metrics, cells, strict=False))
            )
        elif name in _STAT and cells:
            kind = Kind.GAUGE if _STAT[name] in _GAUGES else Kind.COUNTER
            yield reading(t_ns, "system", [(Metric(_STAT[name], "1", kind), *parse_cell(cells[0], wrapped=_LIMIT))])
        elif not found:
            raise origin.refuse(number, f"not /proc/stat: {text[:40]!r}", "record /proc/stat whole")
    if not found:
        raise origin.refuse(0, "no cpu line in it", "record /proc/stat whole")


def _parse_table(lines: Iterable[str], origin: Origin) -> Iterator[Reading]:
    """A column a CPU (the header names them; offline CPUs have none), a row an interrupt or softirq."""
    cpus: list[str] = []
    cells: dict[str, list[tuple[Metric, Value, str]]] = {}
    for number, text in numbered(lines, origin):
        words = text.split()
        if not cpus:
            cpus = words
            if not cpus or not all(re.fullmatch(r"CPU\d+", word) for word in cpus):
                raise origin.refuse(number, f"no header of CPUs: {text[:40]!r}", f"record /proc/{origin.label} whole")
        elif words and words[0].endswith(":"):
            for path, cell in _table_row(words, cpus, origin.label):
                cells.setdefault(path, []).append(cell)
        elif words:
            origin.leave_out(number, f"no row of /proc/{origin.label}: {text[:40]!r}")
    if not cpus:
        raise origin.refuse(0, "empty", f"record /proc/{origin.label} whole")
    t_ns = origin.now()
    for path, triples in cells.items():
        yield reading(t_ns, path, triples)


def _table_row(words: list[str], cpus: list[str], label: str) -> Iterator[tuple[str, tuple[Metric, Value, str]]]:
    """ERR and MIS have one number for the whole system; the words after the numbers name the device."""
    name = words[0].rstrip(":")
    numbers = words[1 : 1 + len(cpus)]
    counts = [word for word in numbers if word.isdigit()]
    prefix = "irq" if label == "interrupts" else "softirq"
    if len(counts) < len(cpus):
        if counts:
            yield "system", (Metric(f"{prefix}:{name}", "1", Kind.COUNTER), *parse_cell(counts[0], wrapped=_LIMIT))
        return
    device = words[-1] if name.isdigit() and len(words) > len(cpus) + 1 else ""
    metric = Metric(f"{prefix}:{name}:{device}" if device else f"{prefix}:{name}", "1", Kind.COUNTER)
    for cpu, count in zip(cpus, counts, strict=True):
        yield cpu.lower(), (metric, *parse_cell(count, wrapped=_LIMIT))
