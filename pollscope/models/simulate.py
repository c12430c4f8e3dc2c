# SPDX-License-Identifier: BSD-3-Clause
"""Simulate systems that have no formula: servers at one queue, and cores that poll many.

A simulation consists of independent parts with seeds of their own, whose results are merged in order. The result is
therefore identical on any number of CPUs. Parts run as threads, because the compiled loops release the interpreter.
numba is imported, and the loops are compiled, only at the first simulation.
"""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray
from pydantic import Field

from pollscope.base.errors import UsageError
from pollscope.models.checked import (
    NS_PER_S,
    Count,
    NotNegative,
    Positive,
    Share,
    Whole,
    at_least,
    checked,
    model,
    stable,
)
from pollscope.stats.estimates import Estimate, mean_estimate
from pollscope.stats.histogram import LARGEST_VALUE, BucketLayout, Histogram, merged

if TYPE_CHECKING:
    from pollscope.models import polling_loop as loop
    from pollscope.models.draws import Draws, Recorded

# As in the node's histograms. A packet that takes longer than a minute counts as refused.
_LAYOUT = BucketLayout(lowest=1, highest=60_000_000_000, significant_digits=3)
# Batches of a window whose means count as independent: 20 to 30 are recommended (Schmeiser 1982).
_BATCHES = 24


def _check_weights(model: str, weights: tuple[float, ...] | None, queues: int) -> None:
    """Refuse weights of which all are zero, or whose number is not that of the queues."""
    if weights is not None and not sum(weights):
        raise UsageError("is 0, allowed is a number above 0", f"{model}: sum_of_weights")
    if weights is not None and len(weights) != queues:
        raise UsageError(f"are {len(weights)} for {queues} queues", f"{model}: weights")


@model
class Service:
    """Describe the service time of a packet, without hiccups.

    Attributes:
        mean_ns: mean time; with two lengths the short one.
        kind: fixed, exponential, or one of two lengths.
        long_ns: the long length.
        long_probability: share of packets with the long length.
    """

    mean_ns: NotNegative
    kind: Literal["fixed", "exponential", "two-lengths"] = "fixed"
    long_ns: NotNegative = 0.0
    long_probability: Share = 0.0

    @property
    def average_ns(self) -> float:
        """Return the mean over both lengths."""
        longer_ns = self.long_ns - self.mean_ns if self.kind == "two-lengths" else 0.0
        return self.mean_ns + self.long_probability * longer_ns


@model
class Hiccups:
    """Describe hiccups, which delay packets.

    Attributes:
        probability: probability that a packet is delayed.
        lengths_ns: possible delays, all with equal probability.
        random: draw exponential delays with these means.
    """

    probability: Share = 0.0
    lengths_ns: Annotated[tuple[NotNegative, ...], Field(min_length=1)] = (0.0,)
    random: bool = False

    @property
    def average_ns(self) -> float:
        """Return the mean delay over all packets, delayed or not."""
        return self.probability * sum(self.lengths_ns) / len(self.lengths_ns)


@model
class Arrivals:
    """Describe the arrivals.

    Attributes:
        rate_pps: packets per second; 0 is no traffic.
        random: Poisson arrivals instead of constant gaps.
        batch: packets that arrive together, for one queue.
        turn_ns: time of an iteration in which the generator sends all due batches.
        sent_ns: extra time of such an iteration per packet.
        most: maximum of packets per iteration.
    """

    rate_pps: NotNegative
    random: bool = True
    batch: Count = 1
    turn_ns: NotNegative = 0.0
    sent_ns: NotNegative = 0.0
    most: Count = 512

    @property
    def gap_ns(self) -> float:
        """Return the mean time between two batches."""
        return self.batch * NS_PER_S / self.rate_pps if self.rate_pps else math.inf


@model
class SharedServers:
    """Describe servers at one queue in order of arrival: M/M/c, M/D/c, M/G/c.

    Attributes:
        arrivals: one at a time.
        service: of a packet.
        servers: how many.
        hiccups: part of the service.
        quantity: what is recorded: `stay`, the time in the system, or `wait`, that until service begins.
    """

    arrivals: Arrivals
    service: Service
    servers: Count = 1
    hiccups: Hiccups = Hiccups()
    quantity: Literal["stay", "wait"] = "stay"

    def __post_init__(self) -> None:
        if not self.arrivals.rate_pps:
            raise UsageError("is 0, allowed is a number above 0", "SharedServers: rate_pps")
        if self.arrivals.batch > 1:
            raise UsageError("serve packets that come one at a time", "SharedServers", "PollingCores have batches")
        each_ns = self.service.average_ns + self.hiccups.average_ns
        stable("SharedServers", self.arrivals.rate_pps * each_ns / NS_PER_S / self.servers)


@model
class PollingCores:
    """Describe cores that poll queues in turn and take bursts (see pollscope.models.polling_loop). Times in ns.

    Attributes:
        arrivals: spread over the RX queues.
        service: of a packet by a worker.
        cores: workers.
        queues: RX queues.
        weights: of each RX queue in the traffic; None: all alike.
        dispatchers: cores that read the RX queues and put packets into rings; 0: workers read the RX queues.
        shared: one ring that all workers read (without dispatchers: all workers read every RX queue), instead of
            one for each.
        burst: packets of a poll at most.
        rx_room: packets that fit into an RX queue.
        ring_room: packets that fit into a ring.
        empty_poll_ns: cost of a poll that finds nothing.
        busy_poll_ns: of one that finds packets, beside the packets.
        packet_ns: of a packet at a worker, before its service.
        dispatch_ns: of a packet at a dispatcher.
        empty_ring_poll_ns: of a poll of an empty ring; None: as of an empty RX queue.
        ring_busy_poll_ns: of a poll that finds packets in a ring, beside the packets.
        ring_ns: serial part of an operation on a shared ring.
        ring_packet_ns: the same for each packet of it.
        ring_contended_ns: extra time of an operation that had to wait for its turn.
        path_ns: added to the time of each packet: wire, NIC, generator.
        together: packets of a burst leave when the last one is done, instead of each by itself.
        hiccups: delays of workers.
    """

    arrivals: Arrivals
    service: Service
    cores: Count = 1
    queues: Count = 1
    weights: tuple[NotNegative, ...] | None = None
    dispatchers: Whole = 0
    shared: bool = False
    burst: Count = 32
    rx_room: Count = 512
    ring_room: Count = 1024
    empty_poll_ns: Positive = 10.0
    busy_poll_ns: NotNegative = 0.0
    packet_ns: NotNegative = 0.0
    dispatch_ns: NotNegative = 0.0
    empty_ring_poll_ns: Positive | None = None
    ring_busy_poll_ns: NotNegative = 0.0
    ring_ns: NotNegative = 0.0
    ring_packet_ns: NotNegative = 0.0
    ring_contended_ns: NotNegative = 0.0
    path_ns: NotNegative = 0.0
    together: bool = True
    hiccups: Hiccups = Hiccups()

    def __post_init__(self) -> None:
        _check_weights("PollingCores", self.weights, self.queues)
        # Each core that reads RX queues has at least one.
        at_least("PollingCores", self.dispatchers or (1 if self.shared else self.cores), queues=self.queues)

    @property
    def worker_empty_poll_ns(self) -> float:
        """Return the cost of a worker's empty poll; it polls a ring if there are dispatchers."""
        on_ring = self.dispatchers > 0 and self.empty_ring_poll_ns is not None
        return float(self.empty_ring_poll_ns or 0.0) if on_ring else float(self.empty_poll_ns)


@model
class QwaitCores:
    """Describe notified cores (see pollscope.models.qwait_loop). Times in ns.

    Attributes:
        arrivals: single packets, spread over the queues.
        service: service of a packet.
        cores: number of cores.
        queues: number of queues.
        ready_sets: number of ready sets that share cores and queues equally; 1: any core serves any queue.
        weights: weight of each queue in the traffic; None: equal.
        room: packets that fit into a queue.
        qwait_ns: from asking for a ready queue to its packet.
        notice_ns: from an arrival to the ready set while a core is halted.
        wake_up_ns: wake-up of a halted core.
        per_ready_ns: extra cost of a QWAIT per ready queue, for a ready set in software.
        order: the next ready queue: the one after the last one, or always the first.
        turns: with round-robin, maximum of packets per queue and turn; None: one.
    """

    arrivals: Arrivals
    service: Service
    cores: Count = 1
    queues: Count = 1
    ready_sets: Count = 1
    weights: tuple[NotNegative, ...] | None = None
    room: Count = 512
    qwait_ns: NotNegative = 0.0
    notice_ns: NotNegative = 0.0
    wake_up_ns: NotNegative = 0.0
    per_ready_ns: NotNegative = 0.0
    order: Literal["round-robin", "strict"] = "round-robin"
    turns: tuple[Count, ...] | None = None

    def __post_init__(self) -> None:
        model = "QwaitCores"
        _check_weights(model, self.weights, self.queues)
        if self.turns is not None and (self.order == "strict" or len(self.turns) != self.queues):
            raise UsageError(f"are {len(self.turns)} for {self.queues} queues ({self.order})", f"{model}: turns")
        if self.arrivals.batch > 1:
            raise UsageError("take packets that come one at a time", model, "PollingCores have batches")
        if self.cores % self.ready_sets or self.queues % self.ready_sets:
            what = f"{self.cores} cores and {self.queues} queues cannot be divided among {self.ready_sets}"
            raise UsageError(what, f"{model}: ready_sets", "give a number that divides both")


@dataclass(frozen=True)
class Core:
    """Hold the counts of one core in the windows of all parts.

    Attributes:
        partial_polls: polls that found packets, fewer than a burst.
        full_polls: those that found a burst.
        taken: packets that it took out of its queues.
        sent: packets that it sent.
        ring_full: packets that it dropped because the ring was full.
        idle_ns: time in empty polls.
        waits_ns: time in waits for a ring.
        empty_polls: polls that found nothing.
    """

    partial_polls: int
    full_polls: int
    taken: int
    sent: int
    ring_full: int
    idle_ns: float
    waits_ns: float
    empty_polls: int


@dataclass(frozen=True)
class Outcome:
    """Hold the results of a simulation, over all its parts.

    Attributes:
        times: times of packets in the system (including the path, if any), or their waits.
        mean_ns: mean of these with the 95 % interval of batch means; None if no packet was recorded.
        arrived: packets that arrived in the window.
        refused: arrived packets for which there was no room.
        window_ns: counted simulated time, over all parts.
        cores: counts of polling cores, workers before dispatchers.
        busy_share: for notified cores, the share of time in which they were not halted.
        served: for notified cores, packets whose service ended in the window; fewer than arrived while queues fill.
    """

    times: Histogram
    mean_ns: Estimate | None
    arrived: int
    refused: int
    window_ns: float
    cores: Sequence[Core] = field(default=())
    busy_share: float | None = None
    served: int | None = None


System = SharedServers | PollingCores | QwaitCores


@checked
def simulate(
    system: System,
    window_ns: Positive,
    warmup_ns: NotNegative = 0.0,
    seed: Whole = 1,
    parts: Count = 1,
    workers: int | None = None,
) -> Outcome:
    """Simulate a system.

    Args:
        system: what is simulated.
        window_ns: simulated time that is counted, in each part.
        warmup_ns: simulated time before it, in each part: a system begins empty.
        seed: the same gives the same bits.
        parts: independent simulations that are put together.
        workers: parts that run at once; None: as many as this process has CPUs. Changes nothing but the time it takes.

    Raises:
        UsageError: a number is negative, no number or impossible.
    """
    randoms = [np.random.Generator(np.random.PCG64(each)) for each in np.random.SeedSequence(seed).spawn(parts)]
    with ThreadPoolExecutor(workers or len(os.sched_getaffinity(0))) as pool:
        found = list(pool.map(_runner(system, window_ns, warmup_ns), randoms))
    return _joined(system, found, window_ns)


@dataclass(frozen=True)
class _Part:
    """Hold recorded quantities and counts of one part."""

    recorded: "Recorded"
    arrived: int
    refused: int
    counts: "loop.Counts | None" = None
    busy_ns: NDArray[np.float64] | None = None
    served: int | None = None


def _runner(system: System, window_ns: float, warmup_ns: float) -> Callable[[np.random.Generator], _Part]:
    if isinstance(system, SharedServers):
        return lambda random: _servers(system, window_ns, warmup_ns, random)
    if isinstance(system, QwaitCores):
        return lambda random: _notified(system, window_ns, warmup_ns, random)
    return lambda random: _cores(system, window_ns, warmup_ns, random)


def _servers(system: SharedServers, window_ns: float, warmup_ns: float, random: np.random.Generator) -> _Part:
    from pollscope.models.servers_loop import serve

    recorded = _empty()
    draws = _draws(system.arrivals, system.service, system.hiccups)
    waits = system.quantity == "wait"
    arrived = serve(random, draws, np.zeros(system.servers), warmup_ns, window_ns, waits, recorded)
    return _Part(recorded, arrived, 0)


def _cores(system: PollingCores, window_ns: float, warmup_ns: float, random: np.random.Generator) -> _Part:
    from pollscope.models import polling_loop

    layout, stays = _layout(system), _empty()
    cores = layout.first.size
    counts = polling_loop.Counts(
        np.zeros((cores, polling_loop.ARRIVED + 1), np.int64), np.zeros((cores, polling_loop.WAITS + 1))
    )
    draws = _draws(system.arrivals, system.service, system.hiccups)
    window = polling_loop.Window(float(warmup_ns), float(warmup_ns + window_ns))
    polling_loop.poll_and_work(random, draws, layout, _state(layout, system.burst), window, stays, counts)
    arrived, missed = (int(counts.events[0, column]) for column in (polling_loop.ARRIVED, polling_loop.MISSED))
    return _Part(stays, arrived, missed, counts)


def _notified(system: QwaitCores, window_ns: float, warmup_ns: float, random: np.random.Generator) -> _Part:
    from pollscope.models import qwait_loop

    stays, counts, busy_ns = _empty(), np.zeros(qwait_loop.SEEN + 1, np.int64), np.zeros(system.cores)
    sets, queues = system.ready_sets, system.queues
    firsts = np.arange(sets + 1, dtype=np.int64) * (queues // sets)
    layout = qwait_loop.Ready(
        below=_below(queues, system.weights),
        queue_set=np.repeat(np.arange(sets, dtype=np.int64), queues // sets),
        core_set=np.repeat(np.arange(sets, dtype=np.int64), system.cores // sets),
        first=firsts,
        qwait_ns=float(system.qwait_ns),
        notice_ns=float(system.notice_ns),
        wake_up_ns=float(system.wake_up_ns),
        per_ready_ns=float(system.per_ready_ns),
        strict=system.order == "strict",
        turns=np.array(system.turns or (1,) * queues, dtype=np.int64),
    )
    state = qwait_loop.ReadyState(
        packets=np.zeros((queues, system.room)),
        head=np.zeros(queues, np.int64),
        length=np.zeros(queues, np.int64),
        ready=np.zeros(sets, np.int64),
        last=firsts[1:] - 1,
        left=np.zeros(sets, np.int64),
        held_ns=np.zeros(system.cores),
        done_ns=np.full(system.cores, np.inf),
    )
    draws = _draws(system.arrivals, system.service, Hiccups())
    warmup, window = float(warmup_ns), float(window_ns)
    qwait_loop.notify_and_work(random, draws, layout, state, warmup, window, stays, counts, busy_ns)
    arrived, missed, served = (int(counts[each]) for each in (qwait_loop.ARRIVED, qwait_loop.MISSED, qwait_loop.SERVED))
    return _Part(stays, arrived, missed, busy_ns=busy_ns, served=served)


def _below(queues: int, weights: tuple[float, ...] | None) -> NDArray[np.float64]:
    """Return the share of the traffic up to each queue."""
    shares = np.ones(queues) if weights is None else np.array(weights, dtype=np.float64)
    below: NDArray[np.float64] = np.cumsum(shares) / shares.sum()
    below[below >= below[-1]] = 1.0  # a rounding error must not leave a gap above the last queue with traffic
    return below


def _draws(arrivals: Arrivals, service: Service, hiccups: Hiccups) -> "Draws":
    from pollscope.models import draws

    kinds = {"fixed": draws.FIXED, "exponential": draws.EXPONENTIAL, "two-lengths": draws.TWO_LENGTHS}
    return draws.Draws(
        gap_ns=arrivals.gap_ns,
        random_gaps=arrivals.random and arrivals.rate_pps > 0,
        service_kind=kinds[service.kind],
        service_ns=float(service.mean_ns),
        long_ns=float(service.long_ns),
        long_probability=float(service.long_probability),
        hiccup_probability=float(hiccups.probability),
        hiccup_ns=np.array(hiccups.lengths_ns, dtype=np.float64),
        random_hiccups=hiccups.random,
    )


def _layout(system: PollingCores) -> "loop.Layout":
    """Lay out cores and queues as arrays: workers before dispatchers, RX queues before rings."""
    from pollscope.models import polling_loop as loop

    workers, dispatchers, queues = system.cores, system.dispatchers, system.queues
    rings = 0 if not dispatchers else 1 if system.shared else workers
    if dispatchers:
        reads = [(queues + worker % rings, 1, 1) for worker in range(workers)]
        reads += _dealt(queues, dispatchers)
    else:
        reads = [(0, 1, queues)] * workers if system.shared else _dealt(queues, workers)
    first, step, number = (np.array(column, dtype=np.int64) for column in zip(*reads, strict=True))
    rings_of = [-1] * workers + [queues + dispatcher % max(1, rings) for dispatcher in range(dispatchers)]
    below = _below(queues, system.weights)
    serial = system.shared and dispatchers > 0
    return loop.Layout(
        first=first,
        step=step,
        number=number,
        ring=np.array(rings_of, dtype=np.int64),
        room=np.concatenate([np.full(queues, system.rx_room), np.full(rings, system.ring_room)]).astype(np.int64),
        serial=np.concatenate([np.zeros(queues), np.full(rings, serial)]).astype(np.bool_),
        below=below,
        batch=system.arrivals.batch,
        turn_ns=float(system.arrivals.turn_ns),
        sent_ns=float(system.arrivals.sent_ns),
        most=system.arrivals.most,
        burst=system.burst,
        empty_ns=_both(system, system.worker_empty_poll_ns, system.empty_poll_ns),
        busy_poll_ns=_both(
            system, system.ring_busy_poll_ns if dispatchers else system.busy_poll_ns, system.busy_poll_ns
        ),
        packet_ns=_both(system, system.packet_ns, system.dispatch_ns),
        ring_ns=float(system.ring_ns),
        ring_packet_ns=float(system.ring_packet_ns),
        ring_contended_ns=float(system.ring_contended_ns),
        path_ns=float(system.path_ns),
        together=system.together,
    )


def _both(system: PollingCores, workers: float, dispatchers: float) -> NDArray[np.float64]:
    """Return an array with the workers' cost for each worker, then the dispatchers' cost for each dispatcher."""
    return np.array([workers] * system.cores + [dispatchers] * system.dispatchers, dtype=np.float64)


def _dealt(queues: int, readers: int) -> list[tuple[int, int, int]]:
    """Return first queue, step and number of queues of each reader, with queues assigned in rotation."""
    return [(reader, readers, (queues - reader - 1) // readers + 1) for reader in range(readers)]


def _state(layout: "loop.Layout", burst: int) -> "loop.State":
    from pollscope.models import polling_loop as loop

    cores, queues = layout.first.size, layout.room.size
    return loop.State(
        packets=np.zeros((queues, int(layout.room.max()))),
        head=np.zeros(queues, np.int64),
        length=np.zeros(queues, np.int64),
        held=np.zeros((cores, burst)),
        holds=np.zeros(cores, np.int64),
        next_ns=np.zeros(cores),
        phase=np.zeros(cores, np.int64),
        scan_ns=np.zeros(cores),
        turn=np.zeros(cores, np.int64),
        ahead=np.zeros(cores, np.int64),
        free_ns=np.zeros((queues, 2)),
    )


def _empty() -> "Recorded":
    from pollscope.models.draws import Recorded

    numbers = np.array([0, 0, LARGEST_VALUE, 0], dtype=np.int64)
    return Recorded(np.zeros(_counts_length(), np.int64), numbers, np.zeros(_BATCHES), np.zeros(_BATCHES, np.int64))


@cache
def _counts_length() -> int:
    return int(HdrHistogram(_LAYOUT.lowest, _LAYOUT.highest, _LAYOUT.significant_digits).counts_len)


def _joined(system: System, parts: Sequence[_Part], window_ns: float) -> Outcome:
    """Merge all parts in their order."""
    recorded = [part.recorded for part in parts]
    counts = [part.counts for part in parts if part.counts is not None]
    busy = [part.busy_ns for part in parts if part.busy_ns is not None]
    return Outcome(
        times=merged([_histogram(each) for each in recorded], "simulation"),
        mean_ns=_mean(recorded),
        arrived=sum(part.arrived for part in parts),
        refused=sum(part.refused for part in parts),
        window_ns=window_ns * len(parts),
        cores=_cores_of(system, counts) if isinstance(system, PollingCores) else (),
        busy_share=float(np.mean(busy)) / window_ns if busy else None,
        served=sum(part.served or 0 for part in parts) if busy else None,
    )


def _cores_of(system: PollingCores, counts: Sequence["loop.Counts"]) -> Sequence[Core]:
    """Sum the counts of each core over all parts."""
    events, spent_ns = (
        np.sum([each.events for each in counts], axis=0),
        np.sum([each.spent_ns for each in counts], axis=0),
    )
    empty_ns = _both(system, system.worker_empty_poll_ns, system.empty_poll_ns)
    return [
        Core(partial, full, taken, sent, ring_full, idle_ns, waits_ns, round(idle_ns / poll_ns))
        for (partial, full, taken, sent, ring_full, *_), (idle_ns, waits_ns), poll_ns in zip(
            events.tolist(), spent_ns.tolist(), empty_ns.tolist(), strict=True
        )
    ]


def _histogram(recorded: "Recorded") -> Histogram:
    indices = np.flatnonzero(recorded.counts)
    beyond, total_value, smallest, largest = (int(each) for each in recorded.numbers)
    smallest = smallest if len(indices) else 0
    return Histogram("ns", _LAYOUT, indices, recorded.counts[indices], smallest, largest, total_value, beyond)


def _mean(recorded: Sequence["Recorded"]) -> Estimate | None:
    """Return the mean with the interval of batch means over all parts; None if nothing was recorded."""
    sums = np.concatenate([each.batch_sums for each in recorded])
    counts = np.concatenate([each.batch_counts for each in recorded])
    if not counts.any():
        return None
    means = sums[counts > 0] / counts[counts > 0]
    interval = mean_estimate(list(means))
    value = float(sums.sum() / counts.sum())
    shift = value - interval.value
    return Estimate(value, interval.low + shift, interval.high + shift, interval.n, f"batch means, {interval.method}")
