# SPDX-License-Identifier: BSD-3-Clause
"""Simulate, compiled, servers at one queue, first come first served; a free server begins at once."""

import numpy as np
from numpy.typing import NDArray

from pollscope.models.compiled import compiled
from pollscope.models.draws import Draws, Recorded, next_gap_ns, next_service_ns, record


@compiled
def _occupied_until(free_ns: NDArray[np.float64], until_ns: float) -> None:
    """Occupy the server that is free first until then: replace the root of the heap."""
    place, servers = 0, free_ns.size
    while True:
        child = 2 * place + 1
        if child >= servers:
            break
        if child + 1 < servers and free_ns[child + 1] < free_ns[child]:
            child += 1
        if free_ns[child] >= until_ns:
            break
        free_ns[place] = free_ns[child]
        place = child
    free_ns[place] = until_ns


@compiled
def serve(
    random: np.random.Generator,
    draws: Draws,
    free_ns: NDArray[np.float64],
    warmup_ns: float,
    window_ns: float,
    waits: bool,
    recorded: Recorded,
) -> int:
    """Run from an empty queue; record packets that arrive in the window, and return their number.

    Args:
        random: of this loop alone.
        draws: distributions.
        free_ns: when each server is free, all zero; changed.
        warmup_ns: before the window.
        window_ns: the window.
        waits: record the time until service begins instead of the time in the system.
        recorded: filled with it.
    """
    arrived, last, end_ns = 0, recorded.batch_sums.size - 1, warmup_ns + window_ns
    parts_per_ns = recorded.batch_sums.size / window_ns
    now_ns = next_gap_ns(random, draws)
    while now_ns < end_ns:
        begin_ns = max(now_ns, free_ns[0])
        done_ns = begin_ns + next_service_ns(random, draws)
        _occupied_until(free_ns, done_ns)
        if now_ns >= warmup_ns:
            arrived += 1
            part = min(last, int((now_ns - warmup_ns) * parts_per_ns))
            record(recorded, (begin_ns if waits else done_ns) - now_ns, part)
        now_ns += next_gap_ns(random, draws)
    return arrived
