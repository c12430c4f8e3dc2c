# SPDX-License-Identifier: BSD-3-Clause
"""Read the counters of a program's plug-in and ports repeatedly, and derive what each thread did."""

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from pollscope.base.errors import HostError
from pollscope.base.units import counted
from pollscope.host.telemetry_socket import TelemetrySocket
from pollscope.metrics.probed import COLUMNS, ProbedClasses, ProbedThread, probed_classes
from pollscope.node.probe import Probe, ProbeInfo, QueueCounts, ThreadCounts, callback_cost, row_between

_WRAP = 1 << 64
_PORT_COUNTERS = ("ipackets", "opackets", "imissed", "ibytes", "obytes")


@dataclass(frozen=True)
class CounterReading:
    """The counters at a moment. If the queues were not read, `queues` are those of an earlier reading."""

    t_ns: int
    threads: Mapping[int, ThreadCounts]
    queues: Mapping[tuple[int, int], QueueCounts]
    ports: Mapping[int, Mapping[str, int]]


@dataclass(frozen=True)
class QueueShare:
    """Describe the traffic of one RX queue between two readings, in the sampled windows.

    Attributes:
        shared: whether several threads polled it, so that the port's packets cannot be divided among them.
        pps: packets per second over the whole time: the port's rate, divided among queues by sampled packets. None if
            the port does not count them, or has a queue that no sample saw polled: another process may poll it.
    """

    port: int
    queue: int
    thread: int
    shared: bool
    polls: int
    full: int
    packets: int
    busy_polls: int
    pps: float | None


@dataclass(frozen=True)
class ThreadShare:
    """Describe what one thread did between two readings.

    Attributes:
        probed: what was sampled.
        classes: shares and costs; the reason where there are none.
        longest_gap_ns: longest time between two polls since the plug-in was loaded.
    """

    counts: ThreadCounts
    probed: ProbedThread
    classes: ProbedClasses | str
    queues: Sequence[QueueShare]
    interruptions_per_s: float
    longest_gap_ns: float


def thread_names(threads: Collection[ThreadCounts]) -> dict[int, str]:
    """Return the names of threads by index; with the tid where threads that EAL did not start share a name."""
    names = Counter(each.name for each in threads if each.lcore is None)
    return {
        each.index: f"{each.name}-{each.tid}" if each.lcore is None and names[each.name] > 1 else each.name
        for each in threads
    }


class Observer:
    """Read the counters of one program.

    Args:
        connection: to the program.
        probe: an entered session.
    """

    def __init__(self, connection: TelemetrySocket, probe: Probe) -> None:
        self._connection, self._probe = connection, probe
        self.info: ProbeInfo = probe.info()
        self._queues: Mapping[tuple[int, int], QueueCounts] = {}

    def read(self, with_queues: bool = True) -> CounterReading:
        """Return the counters now.

        Raises:
            HostError: the program has ended.
        """
        threads = {each.index: each for each in self._probe.threads()}
        if with_queues:
            self._queues = {(each.port, each.queue): each for each in self._probe.queues()}
        return CounterReading(time.monotonic_ns(), threads, self._queues, self._ports())

    def cautions(self) -> list[str]:
        """Return what this observation lacks, for a reader; nothing once the program has ended."""
        try:
            after = self._probe.info()
        except HostError:
            return []
        skipped, lost = after.skipped_windows - self.info.skipped_windows, after.lost_threads
        found = [
            (skipped, f"Skipped: {counted(skipped, 'sampling window')}, because threads stayed in removed callbacks."),
            (lost, f"Not counted: {counted(lost, 'polling thread')}, because there are too many."),
        ]
        return [text for number, text in found if number > 0]

    def _ports(self) -> dict[int, dict[str, int]]:
        try:
            ports = self._connection.value("/ethdev/list") or []
            found = {int(port): self._connection.value(f"/ethdev/stats,{port}") for port in ports}
        except (OSError, TypeError, ValueError, OverflowError) as error:
            raise HostError(f"the program is gone or does not answer: {error}", str(self._connection.path)) from error
        return {
            port: {name: stats[name] for name in _PORT_COUNTERS if type(stats.get(name)) is int}
            for port, stats in found.items()
            if isinstance(stats, dict)
        }


def shares(readings: Sequence[CounterReading], info: ProbeInfo) -> list[ThreadShare]:
    """Return what the threads that polled did from the first to the last of several readings."""
    first, last = readings[0], readings[-1]
    seconds = (last.t_ns - first.t_ns) / 1e9
    queues = _queue_shares(first, last, seconds)
    found = []
    for index, counts in last.threads.items():
        own = [each for each in queues if each.thread == index]
        blocks = np.array(
            [
                row_between(before.threads.get(index), after.threads[index])
                for before, after in pairwise(readings)
                if index in after.threads
            ]
        )
        # A thread without a queue has polled one that another thread polled later.
        if len(blocks) and blocks.sum() > 0 and (own or any(each.shared for each in queues)):
            found.append(_thread_share(first.threads.get(index), counts, blocks, own, info, seconds))
    return sorted(found, key=lambda each: (each.counts.lcore is None, each.counts.lcore, each.counts.tid))


def _queue_shares(first: CounterReading, last: CounterReading, seconds: float) -> list[QueueShare]:
    grown: list[QueueShare] = []
    unseen = set()
    for key, after in last.queues.items():
        before = first.queues.get(key)
        polls, full, packets, busy = (
            (new - old) % _WRAP
            for new, old in zip(_numbers(after), _numbers(before) if before else (0, 0, 0, 0), strict=True)
        )
        shared = after.moves != (before.moves if before else 0)
        if polls and after.thread >= 0:
            grown.append(QueueShare(after.port, after.queue, after.thread, shared, polls, full, packets, busy, None))
        else:
            unseen.add(after.port)
    of_port: dict[int, list[int]] = {}
    for each in grown:
        of_port.setdefault(each.port, []).append(each.packets)
    rates = {port: None if port in unseen else _rate(first, last, port, "ipackets", seconds) for port in of_port}
    return [replace(each, pps=_share(rates[each.port], each.packets, of_port[each.port])) for each in grown]


def _numbers(counts: QueueCounts) -> tuple[int, int, int, int]:
    return counts.polls, counts.full, counts.packets, sum(counts.sizes)


def _rate(first: CounterReading, last: CounterReading, port: int, name: str, seconds: float) -> float | None:
    """Return a rate of a port; None where it does not count, or its counters were set back."""
    before, after = first.ports.get(port, {}).get(name), last.ports.get(port, {}).get(name)
    if before is None or after is None or after < before or seconds <= 0:
        return None
    return (after - before) / seconds


def port_rates(readings: Sequence[CounterReading]) -> dict[int, dict[str, float]]:
    """Return the rates of each port's counters per second."""
    first, last = readings[0], readings[-1]
    seconds = (last.t_ns - first.t_ns) / 1e9
    found = {
        port: {name: _rate(first, last, port, name, seconds) for name in counters}
        for port, counters in last.ports.items()
    }
    return {port: {name: rate for name, rate in each.items() if rate is not None} for port, each in found.items()}


def _share(rate: float | None, packets: int, of_port: Sequence[int]) -> float | None:
    """Return a queue's part of a port's rate by sampled packets; an equal part if no sample saw a packet."""
    if rate is None:
        return None
    sampled = sum(of_port)
    return rate * packets / sampled if sampled else rate / len(of_port)


def _thread_share(
    before: ThreadCounts | None,
    after: ThreadCounts,
    blocks: np.ndarray[Any, np.dtype[np.float64]],
    queues: Sequence[QueueShare],
    info: ProbeInfo,
    seconds: float,
) -> ThreadShare:
    rates = [None if each.shared else each.pps for each in queues] or [None]
    sampled = dict(zip(COLUMNS, blocks.sum(axis=0), strict=True))
    probed = ProbedThread(
        blocks,
        info.tsc_hz,
        callback_cost(before, after, info),
        info.tx_callback_cycles,
        after.max_burst,
        max(1, len(queues)),
        max(1, sum(each.packets > 0 for each in queues)),
        None if None in rates else sum(rate for rate in rates if rate is not None),
    )
    sampled_s = sampled["sampled_cycles"] / info.tsc_hz
    return ThreadShare(
        after,
        probed,
        probed_classes(probed),
        queues,
        sampled["interruptions"] / sampled_s if sampled_s else 0.0,
        after.longest_cycles / info.tsc_hz * 1e9,
    )


def thread_result(
    readings: Sequence[CounterReading],
    thread: ThreadShare,
    threads: Sequence[ThreadShare],
    rates: Mapping[int, Mapping[str, float]],
    info: ProbeInfo,
    window_s: float | None = None,
) -> dict[str, Any]:
    """Return the result of one thread. It gets a share of its ports' bytes and sent packets, by its share of received
    packets.

    `window_s`: the window for which rates are reported; default: from the first reading to the last.
    """
    cycles = round((window_s or (readings[-1].t_ns - readings[0].t_ns) / 1e9) * info.tsc_hz)
    seconds = cycles / info.tsc_hz
    known = all(each.probed.rx_pps is not None for each in threads)
    received = sum(each.probed.rx_pps or 0.0 for each in threads) if known else 0.0
    polled = {queue.port for each in threads for queue in each.queues}
    totals = {
        "tx_packets": _total(rates, "opackets", rates),
        "tx_bytes": _total(rates, "obytes", rates),
        "rx_bytes": _total(rates, "ibytes", polled),
    }
    part = (thread.probed.rx_pps or 0.0) / received if received else 0.0
    moved = {name: rate * seconds * part for name, rate in totals.items() if rate is not None and received}
    return {
        "window": {"start_tsc": 0, "end_tsc": cycles, "tsc_hz": info.tsc_hz},
        "dut": {"lcores": [_lcore(thread, cycles, seconds, moved)]},
        "ports_per_s": {str(port): dict(each) for port, each in rates.items()},
    }


def _total(rates: Mapping[int, Mapping[str, float]], name: str, ports: Collection[int]) -> float | None:
    found = [rates[port][name] for port in ports if name in rates.get(port, {})]
    return sum(found) if found else None


def _lcore(thread: ThreadShare, cycles: int, seconds: float, moved: Mapping[str, float]) -> dict[str, Any]:
    counts, probed = thread.counts, thread.probed
    sampled = dict(zip(COLUMNS, probed.blocks.sum(axis=0), strict=True))
    share = cycles / sampled["sampled_cycles"] if sampled["sampled_cycles"] else 0.0
    return {
        **({} if counts.lcore is None else {"lcore": counts.lcore}),
        "cpu": counts.cpu,
        "thread": counts.name,
        "accounting": "probe",
        "queues": probed.queues,
        "cycles": {"total": cycles},
        # Sampled, and extended to the window.
        "interruptions": {
            "count": sampled["interruptions"] * share,
            "cycles": sampled["interrupted_cycles"] * share,
        },
        **({} if probed.rx_pps is None else {"rx_packets": probed.rx_pps * seconds}),
        **moved,
        "probe": {
            "tsc_hz": probed.tsc_hz,
            "callback_cycles": vars(probed.callback_cycles),
            "tx_callback_cycles": probed.tx_callback_cycles,
            "max_burst": probed.max_burst,
            "queues": probed.queues,
            "loaded_queues": probed.loaded_queues,
            "rx_pps": {"absent": "the packets that the ports count cannot be divided among the threads"}
            if probed.rx_pps is None
            else probed.rx_pps,
            "blocks": probed.blocks.tolist(),
        },
    }
