# SPDX-License-Identifier: BSD-3-Clause
"""Compiled: cores that poll queues in turn, take bursts, and hand packets on or send them.

A core reads its queues (RX queues or rings) one after the other. A poll that finds nothing costs `empty_ns`. One that
finds packets takes up to a burst of them, works on all, and sends all together, as rx_burst, work and tx_burst do: a
packet leaves when the last one of its burst is done (or each by itself, as queueing theory has it). Dispatchers put what they took into a ring. Operations on a ring
that several cores share come one after another.

A core whose queues are all empty is parked: it wakes at the poll that it would have made next when a packet has come,
so idle time costs nothing to simulate.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pollscope.models.compiled import compiled
from pollscope.models.draws import Draws, Recorded, hiccup_length_ns, next_gap_ns, next_service_ns, poll_hiccup_ns, record

# What a core does at its next event.
POLLS, HANDS_ON, PUBLISHES, PARKED = range(4)
# Columns of `counted`, one row a core; the last two are of RX queues and rings as a whole, in row 0.
EMPTY, PARTIAL, FULL, TAKEN, SENT, RING_FULL, MISSED, ARRIVED = range(8)


class Layout(NamedTuple):
    """Which core reads what, and what it costs. Times in ns.

    Attributes:
        first, step, number: queues that a core reads: first, first + step, ...
        ring: where a core hands packets on; -1: it sends them.
        room: packets that fit into each queue.
        targets: RX queues, drawn with equal probability by every arrival of a batch.
        batch: packets that arrive together, for one RX queue.
        burst: most packets of a poll.
        empty_ns: of a poll that finds nothing, by core.
        visit_ns: of a poll that finds packets beside the packets, by core.
        packet_ns: of each packet before its service, by core (a dispatcher has no service).
        ring_ns: serial part of putting packets into a shared ring, or of taking them out, for each operation.
        ring_packet_ns: the same for each packet of it.
        path_ns: added to the time of each packet: wire, NIC, generator.
        together: the packets of a burst are sent when the last one is done.
    """

    first: NDArray[np.int64]
    step: NDArray[np.int64]
    number: NDArray[np.int64]
    ring: NDArray[np.int64]
    room: NDArray[np.int64]
    targets: int
    batch: int
    burst: int
    empty_ns: NDArray[np.float64]
    visit_ns: NDArray[np.float64]
    packet_ns: NDArray[np.float64]
    ring_ns: float
    ring_packet_ns: float
    path_ns: float
    together: bool


class Window(NamedTuple):
    """When what happens is counted, in ns from the start."""

    begin_ns: float
    end_ns: float


class State(NamedTuple):
    """What moves. Packets are the instants at which they arrived.

    Attributes:
        packets: by queue, a ring of its room.
        head, length: of each queue.
        held: by core, the packets of its burst.
        holds: how many.
        next_ns: instant of a core's next event; when parked, of its first poll that found nothing.
        phase: what that event is.
        turn: which of its queues a core polls next.
        free_ns: instant from which a ring can be read, and written to.
        idle_ns: time in empty polls in the window, by core.
    """

    packets: NDArray[np.float64]
    head: NDArray[np.int64]
    length: NDArray[np.int64]
    held: NDArray[np.float64]
    holds: NDArray[np.int64]
    next_ns: NDArray[np.float64]
    phase: NDArray[np.int64]
    turn: NDArray[np.int64]
    free_ns: NDArray[np.float64]
    idle_ns: NDArray[np.float64]


@compiled
def _reads(layout: Layout, core: int, queue: int) -> bool:
    steps = queue - layout.first[core]
    return bool(
        steps >= 0 and steps % layout.step[core] == 0 and steps // layout.step[core] < layout.number[core]
    )


@compiled
def _idle(state: State, window: Window, core: int, from_ns: float, to_ns: float) -> None:
    """Counts the time that a core spent in empty polls, as far as it lies in the window."""
    state.idle_ns[core] += max(0.0, min(to_ns, window.end_ns) - max(from_ns, window.begin_ns))


@compiled
def _wake(layout: Layout, draws: Draws, state: State, window: Window, core: int, now_ns: float) -> None:
    """A parked core makes the first poll that can see what came now."""
    poll_ns, empty_ns = state.next_ns[core], layout.empty_ns[core]
    polls = 0
    while poll_ns < now_ns:
        ahead = max(1, int(np.ceil((now_ns - poll_ns) / empty_ns)))
        struck = False
        if draws.poll_hiccup_probability > 0 and layout.ring[core] < 0:
            until = np.random.geometric(draws.poll_hiccup_probability)
            struck = until <= ahead
            ahead = min(ahead, until)
        _idle(state, window, core, poll_ns, poll_ns + ahead * empty_ns)
        polls += ahead
        poll_ns += ahead * empty_ns
        if struck:
            poll_ns += hiccup_length_ns(draws)
    state.next_ns[core] = poll_ns
    state.turn[core] = (state.turn[core] + polls) % layout.number[core]
    state.phase[core] = POLLS


@compiled
def _push(
    layout: Layout, draws: Draws, state: State, window: Window, queue: int, arrived_ns: float, now_ns: float
) -> bool:
    """A packet comes into a queue at this instant; false when there is no room."""
    room = layout.room[queue]
    if state.length[queue] == room:
        return False
    state.packets[queue, (state.head[queue] + state.length[queue]) % room] = arrived_ns
    state.length[queue] += 1
    for core in range(layout.first.size):
        if state.phase[core] == PARKED and _reads(layout, core, queue):
            _wake(layout, draws, state, window, core, now_ns)
    return True


@compiled
def _arrive(
    layout: Layout, draws: Draws, state: State, window: Window, counted: NDArray[np.int64], now_ns: float
) -> None:
    """A batch comes from the generator."""
    queue = np.random.randint(layout.targets) if layout.targets > 1 else 0
    counts = window.begin_ns <= now_ns < window.end_ns
    for _ in range(layout.batch):
        fits = _push(layout, draws, state, window, queue, now_ns, now_ns)
        if counts:
            counted[0, ARRIVED] += 1
            if not fits:
                counted[0, MISSED] += 1


@compiled
def _has_packets(layout: Layout, state: State, core: int) -> bool:
    for place in range(layout.number[core]):
        if state.length[layout.first[core] + place * layout.step[core]] > 0:
            return True
    return False


@compiled
def _shares(layout: Layout, core: int, queue: int) -> bool:
    """Whether the queue is a ring that another core reads, too."""
    if queue < layout.targets:
        return False
    for other in range(layout.first.size):
        if other != core and _reads(layout, other, queue):
            return True
    return False


@compiled
def _poll(layout: Layout, draws: Draws, state: State, window: Window, counted: NDArray[np.int64], core: int) -> None:
    now_ns = state.next_ns[core]
    queue = layout.first[core] + state.turn[core] * layout.step[core]
    taken = min(layout.burst, state.length[queue])
    if taken == 0:
        if not _has_packets(layout, state, core):
            state.phase[core] = PARKED
            return
        _idle(state, window, core, now_ns, now_ns + layout.empty_ns[core])
        state.next_ns[core] += layout.empty_ns[core]
        if layout.ring[core] < 0:
            state.next_ns[core] += poll_hiccup_ns(draws)
        state.turn[core] = (state.turn[core] + 1) % layout.number[core]
        return
    for place in range(taken):
        state.held[core, place] = state.packets[queue, (state.head[queue] + place) % layout.room[queue]]
    state.head[queue] = (state.head[queue] + taken) % layout.room[queue]
    state.length[queue] -= taken
    state.holds[core] = taken
    state.turn[core] = (state.turn[core] + 1) % layout.number[core]
    if window.begin_ns <= now_ns < window.end_ns:
        counted[core, FULL if taken == layout.burst else PARTIAL] += 1
        counted[core, TAKEN] += taken
    if _shares(layout, core, queue):
        now_ns = max(now_ns, state.free_ns[queue, 0]) + layout.ring_ns + taken * layout.ring_packet_ns
        state.free_ns[queue, 0] = now_ns
    state.next_ns[core] = now_ns + _work_ns(layout, draws, state, core)
    state.phase[core] = HANDS_ON


@compiled
def _work_ns(layout: Layout, draws: Draws, state: State, core: int) -> float:
    """What a burst costs its core."""
    taken = state.holds[core]
    work_ns = layout.visit_ns[core] + taken * layout.packet_ns[core]
    if layout.ring[core] >= 0:
        return work_ns
    work_ns += poll_hiccup_ns(draws)
    for place in range(taken):
        service_ns = next_service_ns(draws)
        work_ns += service_ns
        if not layout.together:
            # The burst is recorded at its end: those that left before it are given as much later an arrival.
            for before in range(place):
                state.held[core, before] += service_ns
    return work_ns


@compiled
def _hand_on(layout: Layout, state: State, window: Window, counted: NDArray[np.int64], core: int, stays: Recorded) -> None:
    """A burst is done: a worker sends it, a dispatcher waits for its turn at the ring."""
    now_ns, held = state.next_ns[core], state.holds[core]
    if layout.ring[core] >= 0:
        ring = layout.ring[core]
        done_ns = max(now_ns, state.free_ns[ring, 1]) + layout.ring_ns + held * layout.ring_packet_ns
        state.free_ns[ring, 1] = done_ns
        state.next_ns[core] = done_ns
        state.phase[core] = PUBLISHES
        return
    if window.begin_ns <= now_ns < window.end_ns:
        parts = stays.batch_sums.size
        part = min(parts - 1, int((now_ns - window.begin_ns) / (window.end_ns - window.begin_ns) * parts))
        for place in range(held):
            record(stays, now_ns - state.held[core, place] + layout.path_ns, part)
        counted[core, SENT] += held
    state.phase[core] = POLLS


@compiled
def _publish(layout: Layout, draws: Draws, state: State, window: Window, counted: NDArray[np.int64], core: int) -> None:
    """A dispatcher's burst can be read from the ring."""
    now_ns, ring = state.next_ns[core], layout.ring[core]
    for place in range(state.holds[core]):
        fits = _push(layout, draws, state, window, ring, state.held[core, place], now_ns)
        if not fits and window.begin_ns <= now_ns < window.end_ns:
            counted[core, RING_FULL] += 1
    state.phase[core] = POLLS


@compiled
def _soonest(state: State) -> int:
    """The core with the earliest event; -1 when all are parked."""
    found = -1
    for core in range(state.next_ns.size):
        if state.phase[core] != PARKED and (found < 0 or state.next_ns[core] < state.next_ns[found]):
            found = core
    return found


@compiled
def poll_and_work(
    seed: int,
    draws: Draws,
    layout: Layout,
    state: State,
    window: Window,
    stays: Recorded,
    counted: NDArray[np.int64],
) -> None:
    """Runs from empty queues to the end of the window.

    Args:
        seed: of this loop alone.
        draws: distributions; no gap (inf) is no traffic.
        layout: cores and queues.
        state: all zero; changed.
        window: when what happens is counted.
        stays: filled with the time from arrival to departure, path included, of packets that leave in the window.
        counted: filled, one row a core.
    """
    np.random.seed(seed)
    for core in range(layout.first.size):
        # Cores do not poll in step.
        state.next_ns[core] = np.random.random() * layout.empty_ns[core]
    arrival_ns = next_gap_ns(draws)
    while True:
        core = _soonest(state)
        if core < 0 or arrival_ns <= state.next_ns[core]:
            if arrival_ns >= window.end_ns:
                break
            _arrive(layout, draws, state, window, counted, arrival_ns)
            arrival_ns += next_gap_ns(draws)
            continue
        if state.next_ns[core] >= window.end_ns:
            break
        if state.phase[core] == POLLS:
            _poll(layout, draws, state, window, counted, core)
        elif state.phase[core] == HANDS_ON:
            _hand_on(layout, state, window, counted, core, stays)
        else:
            _publish(layout, draws, state, window, counted, core)
    for core in range(layout.first.size):
        if state.phase[core] == PARKED:
            _wake(layout, draws, state, window, core, window.end_ns)
        counted[core, EMPTY] = int(state.idle_ns[core] / layout.empty_ns[core] + 0.5)
