# SPDX-License-Identifier: BSD-3-Clause
"""Simulate, compiled, cores that poll queues in turn, take bursts, and hand packets on or send them.

A core reads its queues (RX queues or rings) one after the other. A poll that finds nothing costs `empty_ns`. One that
finds packets takes up to a burst of them, works on all, and sends all together, as with rx_burst, work and tx_burst: a
packet leaves when the last one of its burst is done (or each by itself, as in queueing theory). Dispatchers put what
they took into a ring. Operations on a ring that several cores share come one after another.

Empty polls are not simulated one by one: a core that scans knows which poll is the first that finds a packet, and a
packet that comes meanwhile may be found by an earlier one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pollscope.models.compiled import compiled
from pollscope.models.draws import Draws, Recorded, next_gap_ns, next_service_ns, record

# Next event of a core.
FINDS, HANDS_ON, PUBLISHES = range(3)
# Columns of `events`, one row per core.
PARTIAL, FULL, TAKEN, SENT, RING_FULL, MISSED, ARRIVED = range(7)
# Columns of `spent_ns`, one row per core: in empty polls, waiting for a ring.
IDLE, WAITS = range(2)


class Layout(NamedTuple):
    """Describe which core reads which queues, and its costs; other names are those of PollingCores and Arrivals.

    Attributes:
        first, step, number: queues that a core reads: first, first + step, ...
        ring: where a core hands packets on; -1: it sends them.
        room: packets that fit into each queue.
        serial: queues whose readers take turns.
        below: share of the traffic up to each RX queue, itself included; the last is 1.
        empty_ns, busy_poll_ns, packet_ns: by core. A dispatcher has no service.
    """

    first: NDArray[np.int64]
    step: NDArray[np.int64]
    number: NDArray[np.int64]
    ring: NDArray[np.int64]
    room: NDArray[np.int64]
    serial: NDArray[np.bool_]
    below: NDArray[np.float64]
    batch: int
    turn_ns: float
    sent_ns: float
    most: int
    burst: int
    empty_ns: NDArray[np.float64]
    busy_poll_ns: NDArray[np.float64]
    packet_ns: NDArray[np.float64]
    ring_ns: float
    ring_packet_ns: float
    ring_contended_ns: float
    path_ns: float
    together: bool


class Window(NamedTuple):
    """The time in which events are counted, in ns from the start."""

    begin_ns: float
    end_ns: float


class State(NamedTuple):
    """Hold the variable state. A packet is represented by its time of arrival.

    Attributes:
        packets: by queue, a ring of its room.
        head, length: of each queue.
        held: by core, the packets of its burst.
        holds: how many.
        next_ns: instant of a core's next event; inf: none until a packet comes.
        phase: what that event is.
        scan_ns: instant of the first poll of a core's scan.
        turn: the queue of that poll.
        ahead: empty polls of the scan before the event.
        free_ns: instant from which a ring can be read, and written to.
    """

    packets: NDArray[np.float64]
    head: NDArray[np.int64]
    length: NDArray[np.int64]
    held: NDArray[np.float64]
    holds: NDArray[np.int64]
    next_ns: NDArray[np.float64]
    phase: NDArray[np.int64]
    scan_ns: NDArray[np.float64]
    turn: NDArray[np.int64]
    ahead: NDArray[np.int64]
    free_ns: NDArray[np.float64]


class Counts(NamedTuple):
    """Hold the counts in the window, by core.

    Attributes:
        events: numbers, columns PARTIAL to ARRIVED; the last two of the RX queues as a whole, in row 0.
        spent_ns: times, columns IDLE and WAITS.
    """

    events: NDArray[np.int64]
    spent_ns: NDArray[np.float64]


@compiled
def _spend(counts: Counts, window: Window, core: int, column: int, from_ns: float, to_ns: float) -> None:
    """Add the part of a time that lies in the window."""
    counts.spent_ns[core, column] += max(0.0, min(to_ns, window.end_ns) - max(from_ns, window.begin_ns))


@compiled
def _inside(window: Window, now_ns: float) -> bool:
    return window.begin_ns <= now_ns < window.end_ns


@compiled
def _scan(layout: Layout, state: State, core: int, now_ns: float) -> None:
    """Let a core begin to poll: determine the first poll that will find a packet."""
    state.scan_ns[core], state.phase[core] = now_ns, FINDS
    state.next_ns[core] = np.inf
    number = layout.number[core]
    for ahead in range(number):
        place = (state.turn[core] + ahead) % number
        if state.length[layout.first[core] + place * layout.step[core]] > 0:
            state.ahead[core] = ahead
            state.next_ns[core] = now_ns + ahead * layout.empty_ns[core]
            break


@compiled
def _notice(layout: Layout, state: State, core: int, queue: int, now_ns: float) -> None:
    """Let a packet arrive at a queue that a core may be scanning: its scan may end earlier."""
    steps = queue - layout.first[core]
    number = layout.number[core]
    if state.phase[core] != FINDS or steps < 0 or steps % layout.step[core]:
        return
    place = steps // layout.step[core]
    if place >= number:
        return
    empty_ns = layout.empty_ns[core]
    done = max(0, int(np.ceil((now_ns - state.scan_ns[core]) / empty_ns)))
    ahead = done + (place - state.turn[core] - done) % number
    found_ns = state.scan_ns[core] + ahead * empty_ns
    if found_ns < state.next_ns[core]:
        state.ahead[core], state.next_ns[core] = ahead, found_ns


@compiled
def _push(layout: Layout, state: State, queue: int, arrived_ns: float, now_ns: float) -> bool:
    """Add a packet to a queue at this instant; return false if there is no room."""
    room = layout.room[queue]
    if state.length[queue] == room:
        return False
    state.packets[queue, (state.head[queue] + state.length[queue]) % room] = arrived_ns
    state.length[queue] += 1
    for core in range(layout.first.size):
        _notice(layout, state, core, queue, now_ns)
    return True


@compiled
def _arrive(
    random: np.random.Generator, layout: Layout, state: State, window: Window, counts: Counts, now_ns: float
) -> None:
    """Let a batch arrive from the generator."""
    queue = 0
    if layout.below.size > 1:
        queue = int(np.searchsorted(layout.below, random.random(), side="right"))
    inside = _inside(window, now_ns)
    for _ in range(layout.batch):
        fits = _push(layout, state, queue, now_ns, now_ns)
        if inside:
            counts.events[0, ARRIVED] += 1
            if not fits:
                counts.events[0, MISSED] += 1


@compiled
def _busy_poll(
    random: np.random.Generator, layout: Layout, draws: Draws, state: State, window: Window, counts: Counts, core: int
) -> None:
    """End a scan by the poll that was to find packets; another core may have taken them first."""
    _spend(counts, window, core, IDLE, state.scan_ns[core], state.next_ns[core])
    state.turn[core] = (state.turn[core] + state.ahead[core]) % layout.number[core]
    now_ns = state.next_ns[core]
    queue = layout.first[core] + state.turn[core] * layout.step[core]
    taken = min(layout.burst, state.length[queue])
    if taken == 0:
        _scan(layout, state, core, now_ns)
        return
    for place in range(taken):
        state.held[core, place] = state.packets[queue, (state.head[queue] + place) % layout.room[queue]]
    state.head[queue] = (state.head[queue] + taken) % layout.room[queue]
    state.length[queue] -= taken
    state.holds[core] = taken
    state.turn[core] = (state.turn[core] + 1) % layout.number[core]
    if _inside(window, now_ns):
        counts.events[core, FULL if taken == layout.burst else PARTIAL] += 1
        counts.events[core, TAKEN] += taken
    if layout.serial[queue]:
        now_ns = _in_turn(layout, state, window, counts, core, queue, 0, now_ns)
    state.next_ns[core] = now_ns + _work_ns(random, layout, draws, state, core)
    state.phase[core] = HANDS_ON


@compiled
def _in_turn(
    layout: Layout, state: State, window: Window, counts: Counts, core: int, ring: int, end: int, now_ns: float
) -> float:
    """Let a core wait for and use one end of a shared ring; return when it is done."""
    turn_ns = max(now_ns, state.free_ns[ring, end])
    _spend(counts, window, core, WAITS, now_ns, turn_ns)
    own_ns = layout.ring_ns + state.holds[core] * layout.ring_packet_ns
    state.free_ns[ring, end] = turn_ns + own_ns + (layout.ring_contended_ns if turn_ns > now_ns else 0.0)
    return float(state.free_ns[ring, end])


@compiled
def _work_ns(random: np.random.Generator, layout: Layout, draws: Draws, state: State, core: int) -> float:
    """Return the time that a burst takes of its core."""
    taken = state.holds[core]
    work_ns = float(layout.busy_poll_ns[core] + taken * layout.packet_ns[core])
    if layout.ring[core] >= 0:
        return work_ns
    for place in range(taken):
        service_ns = next_service_ns(random, draws)
        work_ns += service_ns
        if not layout.together:
            # The burst is recorded at its end, so the arrival of packets that left earlier is moved by that difference.
            for before in range(place):
                state.held[core, before] += service_ns
    return work_ns


@compiled
def _send(layout: Layout, state: State, window: Window, counts: Counts, core: int, stays: Recorded) -> None:
    """Let a worker's finished burst leave."""
    now_ns, held = state.next_ns[core], state.holds[core]
    if _inside(window, now_ns):
        parts = stays.batch_sums.size
        part = min(parts - 1, int((now_ns - window.begin_ns) / (window.end_ns - window.begin_ns) * parts))
        for place in range(held):
            record(stays, now_ns - state.held[core, place] + layout.path_ns, part)
        counts.events[core, SENT] += held


@compiled
def _publish(layout: Layout, state: State, window: Window, counts: Counts, core: int) -> None:
    """Make a dispatcher's burst readable in the ring."""
    now_ns, ring = state.next_ns[core], layout.ring[core]
    for place in range(state.holds[core]):
        fits = _push(layout, state, ring, state.held[core, place], now_ns)
        if not fits and _inside(window, now_ns):
            counts.events[core, RING_FULL] += 1


@compiled
def _step(
    random: np.random.Generator,
    layout: Layout,
    draws: Draws,
    state: State,
    window: Window,
    counts: Counts,
    core: int,
    stays: Recorded,
) -> None:
    """Process the next event of a core."""
    phase, now_ns = state.phase[core], state.next_ns[core]
    if phase == FINDS:
        _busy_poll(random, layout, draws, state, window, counts, core)
    elif phase == HANDS_ON and layout.ring[core] >= 0:
        state.next_ns[core] = now_ns
        if layout.serial[layout.ring[core]]:
            state.next_ns[core] = _in_turn(layout, state, window, counts, core, layout.ring[core], 1, now_ns)
        state.phase[core] = PUBLISHES
    else:
        if phase == PUBLISHES:
            _publish(layout, state, window, counts, core)
        else:
            _send(layout, state, window, counts, core, stays)
        _scan(layout, state, core, now_ns)


@compiled
def poll_and_work(
    random: np.random.Generator,
    draws: Draws,
    layout: Layout,
    state: State,
    window: Window,
    stays: Recorded,
    counts: Counts,
) -> None:
    """Run from empty queues to the end of the window.

    Args:
        random: of this loop alone.
        draws: distributions; no gap (inf) is no traffic.
        layout: cores and queues.
        state: all zero; changed.
        window: when what happens is counted.
        stays: filled with the time from arrival to departure, path included, of packets that leave in the window.
        counts: filled.
    """
    cores = layout.first.size
    for core in range(cores):
        # Cores do not poll synchronously.
        _scan(layout, state, core, random.random() * layout.empty_ns[core])
    due_ns = next_gap_ns(random, draws)
    sends_ns = due_ns
    while True:
        core = int(np.argmin(state.next_ns))
        now_ns = min(sends_ns, state.next_ns[core])
        if now_ns >= window.end_ns:
            break
        if sends_ns <= state.next_ns[core]:
            sent = 0
            while due_ns <= sends_ns and (sent == 0 or sent + layout.batch <= layout.most):
                _arrive(random, layout, state, window, counts, sends_ns)
                due_ns += next_gap_ns(random, draws)
                sent += layout.batch
            sends_ns = max(due_ns, sends_ns + layout.turn_ns + sent * layout.sent_ns)
        else:
            _step(random, layout, draws, state, window, counts, core, stays)
    for core in range(cores):
        if state.phase[core] == FINDS:
            _spend(counts, window, core, IDLE, state.scan_ns[core], window.end_ns)
