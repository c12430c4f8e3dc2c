# SPDX-License-Identifier: BSD-3-Clause
"""Simulate, compiled, notified cores that serve ready queues and halt when none is ready (HyperPlane's QWAIT).

A ready set holds the queues that have packets. An idle core queries it, which takes `qwait_ns`, and serves one
packet of the next ready queue after the one that was served last (round robin), of one queue several times in turn
where queues have weights (weighted round robin), or of the first ready queue (strict priority). When none is ready the
core halts. A packet that arrives then is noticed after `notice_ns`, and a sleeping core needs `wake_up_ns` more.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pollscope.models.compiled import compiled
from pollscope.models.draws import Draws, Recorded, next_gap_ns, next_service_ns, record

# Columns of `counts`: packets that arrived, found no room, were served; ready queues seen by all QWAITs.
ARRIVED, MISSED, SERVED, SEEN = range(4)


class Ready(NamedTuple):
    """Queues, cores and ready sets; other names are those of QwaitCores.

    Attributes:
        below: share of the traffic up to each queue, itself included; the last is 1.
        queue_set: ready set of each queue; those of a set are adjacent.
        core_set: ready set that a core asks.
        first: first queue of each set, followed by the number of queues.
        strict: the first ready queue of a set is served, whichever was served last.
    """

    below: NDArray[np.float64]
    queue_set: NDArray[np.int64]
    core_set: NDArray[np.int64]
    first: NDArray[np.int64]
    qwait_ns: float
    notice_ns: float
    wake_up_ns: float
    per_ready_ns: float
    strict: bool
    turns: NDArray[np.int64]


class ReadyState(NamedTuple):
    """Hold the variable state.

    Attributes:
        packets: by queue, the instants at which its packets arrived, a ring.
        head, length: of each queue.
        ready: number of queues with packets, by set.
        last: queue that was served last, by set.
        left: packets that it may still give in this turn, by set.
        held_ns: by core, the arrival of the packet that it works on.
        done_ns: by core, when it is done; inf: halted.
    """

    packets: NDArray[np.float64]
    head: NDArray[np.int64]
    length: NDArray[np.int64]
    ready: NDArray[np.int64]
    last: NDArray[np.int64]
    left: NDArray[np.int64]
    held_ns: NDArray[np.float64]
    done_ns: NDArray[np.float64]


@compiled
def _next_ready(layout: Ready, state: ReadyState, ready_set: int) -> int:
    """Return the queue to serve next: the current one while its turn lasts, then round-robin; strict: the first."""
    first, number = layout.first[ready_set], layout.first[ready_set + 1] - layout.first[ready_set]
    place = number - 1 if layout.strict else state.last[ready_set] - first
    if not layout.strict and state.left[ready_set] > 0 and state.length[first + place] > 0:
        state.left[ready_set] -= 1
        return int(first + place)
    for step in range(1, number + 1):
        queue = first + (place + step) % number
        if state.length[queue] > 0:
            state.left[ready_set] = layout.turns[queue] - 1
            return int(queue)
    return -1


@compiled
def _serve(
    random: np.random.Generator,
    layout: Ready,
    draws: Draws,
    state: ReadyState,
    counts: NDArray[np.int64],
    core: int,
    now_ns: float,
) -> float:
    """Let a core ask for a packet and take it; return its service time, 0 if the core halts."""
    ready_set = layout.core_set[core]
    if state.ready[ready_set] == 0:
        state.done_ns[core] = np.inf
        return 0.0
    queue = _next_ready(layout, state, ready_set)
    seen = state.ready[ready_set]
    counts[SEEN] += seen
    state.held_ns[core] = state.packets[queue, state.head[queue]]
    state.head[queue] = (state.head[queue] + 1) % state.packets.shape[1]
    state.length[queue] -= 1
    state.last[ready_set] = queue
    if state.length[queue] == 0:
        state.ready[ready_set] -= 1
    service_ns = layout.qwait_ns + seen * layout.per_ready_ns + next_service_ns(random, draws)
    state.done_ns[core] = now_ns + service_ns
    return float(service_ns)


@compiled
def _arrive(
    random: np.random.Generator,
    layout: Ready,
    draws: Draws,
    state: ReadyState,
    counts: NDArray[np.int64],
    now_ns: float,
    inside: bool,
    busy_ns: NDArray[np.float64],
) -> None:
    """Let a packet arrive; a halted core of its set, if there is one, takes it."""
    queue = int(np.searchsorted(layout.below, random.random(), side="right")) if layout.below.size > 1 else 0
    room, ready_set = state.packets.shape[1], layout.queue_set[queue]
    counts[ARRIVED] += 1 if inside else 0
    if state.length[queue] == room:
        counts[MISSED] += 1 if inside else 0
        return
    state.packets[queue, (state.head[queue] + state.length[queue]) % room] = now_ns
    state.length[queue] += 1
    state.ready[ready_set] += 1 if state.length[queue] == 1 else 0
    for core in range(layout.core_set.size):
        if state.done_ns[core] == np.inf and layout.core_set[core] == ready_set:
            wakes_ns = now_ns + layout.notice_ns + layout.wake_up_ns
            took_ns = _serve(random, layout, draws, state, counts, core, wakes_ns)
            busy_ns[core] += took_ns if inside else 0.0
            break


@compiled
def notify_and_work(
    random: np.random.Generator,
    draws: Draws,
    layout: Ready,
    state: ReadyState,
    warmup_ns: float,
    window_ns: float,
    stays: Recorded,
    counts: NDArray[np.int64],
    busy_ns: NDArray[np.float64],
) -> None:
    """Run from empty queues to the end of the window.

    Args:
        random: of this loop alone.
        draws: distributions.
        layout: queues, cores and ready sets.
        state: all zero, cores halted; changed.
        warmup_ns: before the window.
        window_ns: the window.
        stays: filled with the time from arrival to the end of service of packets that leave in the window.
        counts: filled, of the window (SEEN of the whole run).
        busy_ns: filled by core, with what was begun in the window.
    """
    end_ns, parts = warmup_ns + window_ns, stays.batch_sums.size
    arrival_ns = next_gap_ns(random, draws)
    while True:
        core = int(np.argmin(state.done_ns))
        now_ns = min(arrival_ns, state.done_ns[core])
        if now_ns >= end_ns:
            break
        inside = now_ns >= warmup_ns
        if arrival_ns <= state.done_ns[core]:
            _arrive(random, layout, draws, state, counts, now_ns, inside, busy_ns)
            arrival_ns += next_gap_ns(random, draws)
            continue
        if inside:
            counts[SERVED] += 1
            part = min(parts - 1, int((now_ns - warmup_ns) / window_ns * parts))
            record(stays, now_ns - state.held_ns[core], part)
        took_ns = _serve(random, layout, draws, state, counts, core, now_ns)
        busy_ns[core] += took_ns if inside else 0.0
