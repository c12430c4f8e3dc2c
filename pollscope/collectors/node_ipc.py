# SPDX-License-Identifier: BSD-3-Clause
"""The rule `node_ipc`: instructions per cycle of every DUT lcore, as the node counted them itself, against the values
of other collectors for the same CPU.

The node counts its own thread in user mode; perf, pcm and turbostat count all that runs on the CPU, in kernel mode
too. On a core that nothing else uses they agree; a CPU cannot retire fewer instructions than one of its threads.
"""

import re
from collections.abc import Iterator

from pollscope.base.units import human_number
from pollscope.collectors.window import LcoreCounts, Plausibility, PlausibilityFinding, Series, WindowSeries

# Timer ticks and perf's own interrupts change the IPC of a spinning core by a few per cent at most; windows that do
# not end together (collectors' intervals) add the same amount again.
_AGREES_WITHIN = 0.10
_COUNTS = ("instructions", "cycles")
_CPU_OF = {
    "perf": re.compile(r"cpu(\d+)"),
    "turbostat": re.compile(r"cpu(\d+)"),
    "pcm": re.compile(r"socket\d+/core(\d+)"),  # pcm numbers cores as the kernel does
}
# Hybrid processors print `cpu_core/cycles/`; a modifier (`cycles:u`) stays outside the name.
_EVENT = re.compile(r"(?:cpu(?:_core)?/)?(instructions|cycles)(?::[a-zA-Z]+|/[a-zA-Z]*)?")


def node_against_host(window: WindowSeries) -> Iterator[PlausibilityFinding]:
    """Return a finding for each DUT lcore and each collector that knows the IPC of its CPU."""
    for counts in window.lcores:
        for source, found in _of_cpu(window, counts.cpu).items():
            ipc = _ipc(found)
            if ipc is not None and counts.cycles > 0 and counts.window_s > 0:
                yield _judge(counts, source, ipc, found)


def _of_cpu(window: WindowSeries, cpu: int) -> dict[str, dict[str, Series]]:
    """Return source -> its counts on one CPU: `instructions`, `cycles`, `instructions_per_cycle`."""
    sources: dict[str, dict[str, Series]] = {}
    for (source, path, metric), series in window.series.items():
        place = _CPU_OF[source].fullmatch(path) if source in _CPU_OF else None
        event = _EVENT.fullmatch(metric)
        name = event[1] if event else metric
        if place and int(place[1]) == cpu and series.count and name in (*_COUNTS, "instructions_per_cycle"):
            sources.setdefault(source, {})[name] = series
    return sources


def _ipc(found: dict[str, Series]) -> float | None:
    if all(name in found for name in _COUNTS) and found["cycles"].total:
        return found["instructions"].total / found["cycles"].total
    gauge = found.get("instructions_per_cycle")
    return gauge.total / gauge.count if gauge else None


def _judge(counts: LcoreCounts, source: str, ipc: float, found: dict[str, Series]) -> PlausibilityFinding:
    own = counts.instructions / counts.cycles
    numbers = {"lcore": float(counts.lcore), "node_ipc": own, f"{source}_ipc": ipc}
    where = f"lcore {counts.lcore} (CPU {counts.cpu})"
    text = f"{where}: the node counted {own:.3f} instructions per cycle, {source} {ipc:.3f}"
    all_of_cpu = found["instructions"].per_second() if "instructions" in found else None
    per_s = counts.instructions / counts.window_s
    if all_of_cpu is not None and per_s > all_of_cpu * (1 + _AGREES_WITHIN):
        numbers |= {"node_instructions_per_s": per_s, f"{source}_instructions_per_s": all_of_cpu}
        text += (
            f"; {human_number(per_s)} instructions/s of one thread exceed the {human_number(all_of_cpu)} of its CPU: "
            "is the PMU in use?"
        )
        return PlausibilityFinding("node_ipc", Plausibility.IMPOSSIBLE, text, numbers)
    if abs(own - ipc) > _AGREES_WITHIN * max(own, ipc):
        return PlausibilityFinding(
            "node_ipc", Plausibility.SUSPICIOUS, f"{text}: something else ran on this CPU", numbers
        )
    return PlausibilityFinding("node_ipc", Plausibility.OK, text, numbers)
