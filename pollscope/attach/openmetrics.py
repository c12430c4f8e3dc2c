# SPDX-License-Identifier: BSD-3-Clause
"""Write a snapshot for the textfile collector of Prometheus' node exporter (OpenMetrics text format)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pollscope.attach.programs import DpdkProgram
from pollscope.base.replacing import written
from pollscope.metrics.probed import ProbedClasses, SampledValue
from pollscope.node.observation import ThreadShare, thread_names

_Value = SampledValue | float | str | None


class _Gauge(NamedTuple):
    name: str
    text: str
    of: Callable[[ProbedClasses], _Value]


_GAUGES = (
    _Gauge("pollscope_tax_share", "Share of TSC cycles not spent on packets", lambda found: found.tax.value),
    _Gauge("pollscope_tax_share_error", "Half of its 95 % interval", lambda found: found.tax.error),
    _Gauge("pollscope_interrupted_share", "Share of time in which something else ran", lambda found: found.interrupted),
    _Gauge("pollscope_polls_per_second", "RX polls per second", lambda found: found.poll_rate_hz),
    _Gauge("pollscope_empty_poll_fraction", "Share of polls without a packet", lambda found: found.empty_fraction),
    _Gauge("pollscope_burst_packets", "Packets per busy poll", lambda found: found.burst),
    _Gauge("pollscope_rx_packets_per_second", "Packets received per second", lambda found: found.rx_pps),
    _Gauge("pollscope_saturation_packets_per_second", "Packet rate of saturation", lambda found: found.saturation_pps),
)


def text(program: DpdkProgram, threads: Sequence[ThreadShare]) -> str:
    """Return the gauges; an absent value has no line."""
    found: list[str] = []
    names = thread_names([each.counts for each in threads])
    for gauge in _GAUGES:
        samples = []
        for thread in threads:
            if isinstance(thread.classes, str):
                continue
            value = gauge.of(thread.classes)
            number = value.value if isinstance(value, SampledValue) else value
            if isinstance(number, float | int):
                samples.append(f"{gauge.name}{_labels(program, thread, names)} {number!r}")
        if samples:
            found += [f"# HELP {gauge.name} {gauge.text}", f"# TYPE {gauge.name} gauge", *samples]
    return "\n".join([*found, "# EOF", ""])


def write(path: Path, program: DpdkProgram, threads: Sequence[ThreadShare]) -> None:
    """Replace a file by a snapshot in one step, so that readers never see half of it.

    Raises:
        HostError: it cannot be written.
    """
    with written(path, "choose another file with --openmetrics") as new:
        new.write_text(text(program, threads), encoding="utf-8")


def _labels(program: DpdkProgram, thread: ThreadShare, names: Mapping[int, str]) -> str:
    counts = thread.counts
    labels = {
        "program": program.name,
        "prefix": program.prefix,
        "lcore": "" if counts.lcore is None else str(counts.lcore),
        "thread": names[counts.index],
    }
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
