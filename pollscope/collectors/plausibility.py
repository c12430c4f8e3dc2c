# SPDX-License-Identifier: BSD-3-Clause
"""Check across collectors whether the numbers of one window agree.

Each finding is ok, suspicious or impossible, with the numbers behind it and what to do. A rule whose
inputs are absent makes no finding. Each threshold is beside its reason.
"""

import re
from collections.abc import Callable, Iterator

from pollscope.base.names import COLLECTORS, load
from pollscope.base.units import human, human_number
from pollscope.collectors.interface import Status
from pollscope.collectors.window import LcoreCounts, Plausibility, PlausibilityFinding, Series, WindowSeries

# Of one rule: verdict, text, and the numbers behind it.
Finding = tuple[Plausibility, str, dict[str, float]]
Findings = Iterator[Finding]

_BUSY_BYTES = 1e6  # a NIC above 1 MB/s carries more than keep-alives
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


def judge(window: WindowSeries) -> list[PlausibilityFinding]:
    """Return all findings of all rules on a window."""
    return [PlausibilityFinding(name, *found) for name, rule in _RULES.items() for found in rule(window)]


def _nic_against_iio(window: WindowSeries) -> Findings:
    """Check that DMA writes cover the bytes that the NIC received and did not drop.

    Use the NIC's own part of a stack if it is known.
    """
    nic, own = window.rate("nic.rx_bytes"), window.rate("nic_dma_write")
    iio = window.rate("dma_write") if own is None else own
    if nic is None or iio is None or nic < _BUSY_BYTES:
        return
    dropped = (window.rate("nic.rx_port_discards") or 0) + (window.rate("nic.rx_no_descriptor") or 0)
    numbers = {"nic_rx_bytes_per_s": nic, "iio_dma_write_bytes_per_s": iio, "dropped_per_s": dropped}
    writer = "the IIO stacks" if own is None else "its part of an IIO stack"
    text = f"the NIC received {nic / 1e6:.1f} MB/s, {writer} wrote {iio / 1e6:.1f} MB/s"
    if iio == 0:
        yield Plausibility.IMPOSSIBLE, f"{text}: no stack carries the NIC's traffic; is the PMU in use?", numbers
    elif iio < 0.9 * nic:
        # a tenth: pcm-iio counts each event for a part of the interval only
        verdict = Plausibility.SUSPICIOUS if dropped or iio > 0.5 * nic else Plausibility.IMPOSSIBLE
        yield verdict, f"{text}, less than received ({dropped:.0f} packets/s dropped)", numbers
    else:
        yield Plausibility.OK, text, numbers


def _nic_against_dram(window: WindowSeries) -> Findings:
    """Compare received bytes with DRAM writes when DDIO is off; with DDIO on, bytes may stay in the LLC."""
    nic, dram = window.rate("nic.rx_bytes"), window.rate("dram_write")
    off = [
        series
        for (_, _, metric), series in window.series.items()
        if metric == "ddio" and series.count and not series.last
    ]
    if nic is None or dram is None or nic < _BUSY_BYTES or not off:
        return
    verdict = Plausibility.OK if dram >= 0.8 * nic else Plausibility.SUSPICIOUS
    text = f"DDIO is off, the NIC received {nic / 1e6:.1f} MB/s, DRAM was written with {dram / 1e6:.1f} MB/s"
    yield verdict, text, {"nic_rx_bytes_per_s": nic, "dram_write_bytes_per_s": dram}


def _lookups(window: WindowSeries) -> Findings:
    """Compare lookups with hits and misses; sequential reads of the counters explain less than a factor of 2."""
    for source, path, series in window.units("iotlb_lookups", "iotlb_misses"):
        lookups, misses = (one.total for one in series)
        if misses > lookups:
            verdict = Plausibility.IMPOSSIBLE if misses > 2 * lookups else Plausibility.SUSPICIOUS
            text = f"{source} {path}: {misses:.0f} IOTLB misses in {lookups:.0f} lookups"
            yield verdict, text, {"misses": misses, "lookups": lookups}


def _iotlb_parts(window: WindowSeries) -> Findings:
    for source, path, series in window.units("iotlb_lookups", "iotlb_hits", "iotlb_misses"):
        yield from _parts(f"{source} {path}: IOTLB", *(one.total for one in series))


def _llc(window: WindowSeries) -> Findings:
    for event in ("pcirdcur", "itom", "itomcachenear", "rfo"):
        for source, path, series in window.units(event, f"{event}_hit", f"{event}_miss"):
            yield from _parts(f"{source} {path}: {event}", *(one.total for one in series))


def _parts(what: str, whole: float, hits: float, misses: float) -> Findings:
    if whole <= 0:
        return
    off = abs(hits + misses - whole) / whole
    verdict = Plausibility.OK if off <= 0.1 else Plausibility.SUSPICIOUS if off <= 1 else Plausibility.IMPOSSIBLE
    text = f"{what}: {hits:.0f} hits + {misses:.0f} misses against {whole:.0f} in all ({off:.0%} off)"
    yield verdict, text, {"whole": whole, "hits": hits, "misses": misses}


def _partial_writes(window: WindowSeries) -> Findings:
    """Judge more partial writes than lines written as a wrapped counter (2e9 at idle was seen)."""
    for source, path, (partial, written) in window.units("partial_writes", "dram_write"):
        lines = written.total / 64
        if partial.total > 2 * lines + 1e6:
            text = (
                f"{source} {path}: {human_number(partial.total)} partial writes in {human_number(lines)} written lines"
            )
            yield Plausibility.IMPOSSIBLE, text, {"partial": partial.total, "lines": lines}


def _channels(window: WindowSeries) -> Findings:
    """Check that the tool's socket total is the sum of its channels; otherwise columns were mixed up."""
    for metric in ("dram_read", "dram_write"):
        for source, path, (total,) in window.units(metric):
            parts = [
                one
                for (s, p, m), one in window.series.items()
                if (s, m) == (source, metric) and p.startswith(f"{path}/channel")
            ]
            if not parts or not total.total:
                continue
            summed = sum(part.total for part in parts)
            off = abs(summed - total.total) / total.total
            if off > 0.02:
                amounts = [human(amount, "B/s", 4) for amount in (summed, total.total)]
                text = f"{source} {path} {metric}: channels {amounts[0]}, socket {amounts[1]} ({off:.0%} off)"
                yield Plausibility.SUSPICIOUS, text, {"channels": summed, "socket": total.total}


def _wrapped(window: WindowSeries) -> Findings:
    """Distrust a window with values of 2^47 and above, which the parser has made absent."""
    for (source, path, metric), series in window.series.items():
        if series.wrapped:
            text = f"{source} {path} {metric}: {series.wrapped} wrapped values beside {series.count} good ones"
            yield Plausibility.IMPOSSIBLE, text, {"wrapped": series.wrapped, "good": series.count}


def _backwards(window: WindowSeries) -> Findings:
    for (source, path, metric), series in window.series.items():
        # powercap energy wraps by design at energy_range
        if series.backwards and not metric.endswith("energy"):
            text = f"{source} {path} {metric} went backwards {series.backwards} times: reset or wrapped meanwhile"
            yield Plausibility.SUSPICIOUS, text, {"times": series.backwards}


def _multiplexed(window: WindowSeries) -> Findings:
    """Warn if an event was counted less than nine tenths of the time: the kernel extrapolates the rest."""
    for (source, path, metric), series in window.series.items():
        if metric.endswith(".running_share") and series.count and series.lowest < 0.9:
            event = metric.removesuffix(".running_share")
            text = f"{source} {path} {event} was on a counter {series.lowest:.0%} of the time"
            yield Plausibility.SUSPICIOUS, text, {"share": series.lowest}


def _instructions(window: WindowSeries) -> Findings:
    """Report more than 8 instructions per cycle: no processor retires so many."""
    for source, path, (instructions, cycles) in window.units("instructions", "cycles"):
        if cycles.total and instructions.total / cycles.total > 8:
            ipc = instructions.total / cycles.total
            yield Plausibility.IMPOSSIBLE, f"{source} {path}: {ipc:.1f} instructions per cycle", {"ipc": ipc}


def _zeros(window: WindowSeries) -> Findings:
    """Judge a counting tool that gives only zeros while a NIC is busy: it counts nothing."""
    nic = window.rate("nic.rx_bytes")
    if nic is None or nic < _BUSY_BYTES:
        return
    for source in sorted({source for source, _, _ in window.series if _owns_uncore(source)}):
        values = [one for (s, _, _), one in window.series.items() if s == source and one.count]
        if values and not any(one.total for one in values):
            text = f"{source}: all {len(values)} series are zero while the NIC receives {nic / 1e6:.1f} MB/s"
            yield Plausibility.IMPOSSIBLE, text, {"series": len(values), "nic_rx_bytes_per_s": nic}


def _owns_uncore(collector: str) -> bool:
    return collector in COLLECTORS and bool(load(COLLECTORS, collector).owns_uncore)


def _owners(window: WindowSeries) -> Findings:
    """Warn if several collectors that program uncore PMUs ran at once: they overwrite each other."""
    there = [each.collector for each in window.outcomes if each.status is not Status.ABSENT]
    owners = sorted(filter(_owns_uncore, there))
    if len(owners) > 1:
        text = f"{' and '.join(owners)} ran at once and may have programmed the same counters: run one at a time"
        yield Plausibility.SUSPICIOUS, text, {"owners": len(owners)}


def _node_against_host(window: WindowSeries) -> Findings:
    """Compare the IPC of each DUT lcore, as the node counted it, with that of other collectors for the same CPU.

    The node counts its own thread in user mode; perf, pcm and turbostat count all that runs on the CPU, in kernel mode
    too. On a core that nothing else uses they agree; a CPU cannot retire fewer instructions than one of its threads.
    """
    for counts in window.lcores:
        for source, found in _of_cpu(window, counts.cpu).items():
            ipc = _ipc(found)
            if ipc is not None and counts.cycles > 0 and counts.window_s > 0:
                yield _judge_ipc(counts, source, ipc, found)


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


def _judge_ipc(counts: LcoreCounts, source: str, ipc: float, found: dict[str, Series]) -> Finding:
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
        return Plausibility.IMPOSSIBLE, text, numbers
    if abs(own - ipc) > _AGREES_WITHIN * max(own, ipc):
        return Plausibility.SUSPICIOUS, f"{text}: something else ran on this CPU", numbers
    return Plausibility.OK, text, numbers


_RULES: dict[str, Callable[[WindowSeries], Findings]] = {
    "nic_iio": _nic_against_iio,
    "ddio_dram": _nic_against_dram,
    "iotlb": _lookups,
    "iotlb_sum": _iotlb_parts,
    "llc_sum": _llc,
    "partial_writes": _partial_writes,
    "channel_sum": _channels,
    "wrapped": _wrapped,
    "backwards": _backwards,
    "multiplexed": _multiplexed,
    "ipc": _instructions,
    "node_ipc": _node_against_host,
    "zeros": _zeros,
    "pmu_in_use": _owners,
}
