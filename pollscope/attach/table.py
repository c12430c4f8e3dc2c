# SPDX-License-Identifier: BSD-3-Clause
"""Show what threads do: a table of 80 columns for people, and one object for scripts."""

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from pollscope.attach.programs import DpdkProgram
from pollscope.base.units import human, human_ns, human_number, human_rate
from pollscope.metrics.probed import ProbedClasses, SampledValue
from pollscope.node.observation import ThreadShare

WIDTH = 80
CLEAR = "\033[H\033[J"  # a terminal, and begin at its top
_BARS = "▁▂▃▄▅▆▇█"
_HISTORY = 7
MOST_QUEUES = 16
HEADER = "lcore cpu       tax  away    polls  empty burst    packets  saturates at  last"
KERNEL = "kernel work"


def lines(program: DpdkProgram, threads: Sequence[ThreadShare], history: Mapping[int, Sequence[float]]) -> list[str]:
    """Return the table: a line per thread, one per queue below it, and what cannot be seen."""
    found = [f"{program.name} (pid {program.pid}, {program.dpdk})"[:WIDTH], HEADER]
    for thread in threads:
        found += [_thread_line(thread, history.get(thread.counts.index, ())), *_queue_lines(thread)]
    if not threads:
        found.append("no thread polls an RX queue")
    return found + wrapped(unseen_text(program, threads))


def wrapped(text: str) -> list[str]:
    """Return a text in lines of at most WIDTH characters."""
    found = [""]
    for word in text.split():
        if len(found[-1]) + 1 + len(word) > WIDTH and found[-1]:
            found.append("")
        found[-1] = f"{found[-1]} {word}".strip()
    return found


def unseen_text(program: DpdkProgram, threads: Sequence[ThreadShare]) -> str:
    """Return lcores and devices that RX polls do not show."""
    seen = {each.counts.lcore for each in threads}
    idle = [str(lcore) for lcore in program.lcores if lcore not in seen]
    parts = [f"lcore{'s' if len(idle) > 1 else ''} {', '.join(idle)} without an RX poll"] if idle else []
    return f"not seen: {'; '.join([*parts, *program.unseen, KERNEL])}"


def _thread_line(thread: ThreadShare, history: Sequence[float]) -> str:
    counts = thread.counts
    name = str(counts.lcore) if counts.lcore is not None else counts.name[:5]
    head = f"{name:>5} {counts.cpu:3} "
    found = thread.classes
    if isinstance(found, str):
        return f"{head} {found}"[:WIDTH]
    bars = "".join(_BARS[min(7, int(8 * max(0.0, each)))] for each in list(history)[-_HISTORY:])
    cells = [
        f"{_tax(found.tax):>9}",
        f"{_percent(found.interrupted):>5}",
        f"{_amount(found.poll_rate_hz):>8}",
        f"{_percent(found.empty_fraction):>6}",
        f"{human_number(found.burst) if found.burst else '-':>5}",
        f"{human_rate(found.rx_pps):>10}",
        f"{_saturation(found):>13}",
        bars,
    ]
    return (head + " ".join(cells))[:WIDTH].rstrip()


def _tax(tax: SampledValue) -> str:
    error = 100 * tax.error
    return f"{100 * tax.value:.0f} ±{max(1, round(error))} %" if error < 100 else f"{100 * tax.value:.0f} %?"


def _saturation(found: ProbedClasses) -> str:
    if isinstance(found.saturation_pps, SampledValue):
        return human_rate(found.saturation_pps.value)
    return "-" if found.at_least_pps is None else f"> {human_rate(found.at_least_pps)}"


def _amount(value: float | str) -> str:
    return "-" if isinstance(value, str) else human(value, "")


def _percent(value: float | str) -> str:
    return "-" if isinstance(value, str) else f"{100 * value:.0f} %"


def _queue_lines(thread: ThreadShare) -> list[str]:
    found = []
    queues = sorted(thread.queues, key=lambda each: (each.port, each.queue))
    for each in queues[:MOST_QUEUES]:
        empty = 1 - each.busy_polls / each.polls
        burst = human_number(each.packets / each.busy_polls) if each.busy_polls else "-"
        rate = "-" if each.pps is None else human_rate(each.pps)
        name = f"port {each.port} queue {each.queue}{', shared' if each.shared else ''}"
        found.append(f"{'':10}{name:<24}{_percent(empty):>7} {burst:>5} {rate:>10}"[:WIDTH].rstrip())
    if (more := len(queues) - MOST_QUEUES) > 0:
        found.append(f"{'':10}and {more} queues more (--json has all)")
    return found


def screen(text: Sequence[str]) -> str:
    """Return as many lines as a terminal has."""
    height = shutil.get_terminal_size((WIDTH, 24)).lines
    return "\n".join(text[: height - 1]) + "\n"


def as_json(
    program: DpdkProgram, threads: Sequence[ThreadShare], ports: Mapping[int, Mapping[str, float]]
) -> dict[str, Any]:
    """Return everything as one object; an absent value is `{"absent": reason}`."""
    return {
        **program_json(program),
        "ports_per_s": {str(port): dict(rates) for port, rates in ports.items()},
        "threads": [_thread_json(each) for each in threads],
    }


def program_json(program: DpdkProgram) -> dict[str, Any]:
    """Return a program as one object."""
    return {
        "program": program.name,
        "pid": program.pid,
        "prefix": program.prefix,
        "socket": str(program.socket),
        "dpdk": program.dpdk,
        "lcores": list(program.lcores),
        "ports": [vars(port) for port in program.ports],
        "probe": program.probe,
        **({"advice": program.advice} if program.advice else {}),
        "unseen": [*program.unseen, KERNEL],
    }


def _thread_json(thread: ThreadShare) -> dict[str, Any]:
    found, counts = thread.classes, thread.counts
    head = {"lcore": counts.lcore, "cpu": counts.cpu, "tid": counts.tid, "name": counts.name}
    if isinstance(found, str):
        return {**head, "classes": {"absent": found}}
    return {
        **head,
        "tax_share": _value(found.tax),
        "useful_share": _value(found.useful),
        "interrupted_share": found.interrupted,
        "poll_rate_hz": _value(found.poll_rate_hz),
        "empty_poll_fraction": _value(found.empty_fraction),
        "burst_mean": found.burst,
        "rx_pps": found.rx_pps,
        "empty_poll_cycles": _value(found.empty_poll_cycles),
        "busy_poll_marginal_cycles": _value(found.busy_poll_cycles),
        "packet_marginal_cycles": _value(found.packet_cycles),
        "saturation_pps": _value(found.saturation_pps),
        "saturation_at_least_pps": found.at_least_pps,
        "interruptions_per_s": thread.interruptions_per_s,
        "longest_gap_ns": thread.longest_gap_ns,
        "queues": [
            {
                "port": each.port,
                "queue": each.queue,
                "shared": each.shared,
                "empty_poll_fraction": 1 - each.busy_polls / each.polls,
                "burst_mean": each.packets / each.busy_polls if each.busy_polls else None,
                "full_poll_fraction": each.full / each.polls,
                "rx_pps": each.pps,
            }
            for each in thread.queues
        ],
    }


def _value(value: SampledValue | float | str) -> object:
    if isinstance(value, SampledValue):
        return {"value": value.value, "error": value.error}
    return {"absent": value} if isinstance(value, str) else value


def details(thread: ThreadShare) -> str:
    """Return costs, saturation rate and interruptions of a thread in words."""
    counts, found = thread.counts, thread.classes
    name = f"lcore {counts.lcore}" if counts.lcore is not None else counts.name
    if isinstance(found, str):
        return f"{name}: {found}"
    packets = f"busy poll {_cycles(found.busy_poll_cycles)}, and {_cycles(found.packet_cycles)} per packet"
    if isinstance(found.busy_poll_cycles, str):
        packets = f"busy poll: {found.busy_poll_cycles}"
    parts = [
        f"empty poll {_cycles(found.empty_poll_cycles)}",
        packets,
        f"saturates at {_rate(found.saturation_pps)}",
        f"{human_number(thread.interruptions_per_s)} interruptions/s, longest gap {human_ns(thread.longest_gap_ns)}",
    ]
    return "\n".join(wrapped(f"{name}: {'; '.join(parts)}"))


def _cycles(value: SampledValue | str) -> str:
    if isinstance(value, str):
        return f"of unknown cost ({value})"
    return f"{human_number(value.value)} ±{human_number(value.error, 2)} cycles"


def _rate(value: SampledValue | str) -> str:
    if isinstance(value, str):
        return f"an unknown rate ({value})"
    return f"{human_rate(value.value)} ±{human_rate(value.error)}"


def program_lines(program: DpdkProgram) -> list[str]:
    """Return what `attach --list` prints of a program."""
    lcores = ", ".join(map(str, program.lcores)) or "-"
    found = [
        f"{program.name} (pid {program.pid}, file prefix {program.prefix}, {program.dpdk})",
        f"  worker lcores {lcores}",
        *(
            f"  port {each.port} {each.name}, driver {each.driver or '-'}, RX queues {each.rx_queues}, "
            f"TX queues {each.tx_queues}"
            for each in program.ports
        ),
        f"  socket {program.socket}",
        f"  probe: {'in it' if program.probe else f'not in it; {program.advice}'}",
    ]
    return found if not program.unseen else [*found, f"  not seen by a probe: {'; '.join(program.unseen)}"]
