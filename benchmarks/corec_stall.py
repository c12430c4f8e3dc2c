#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure the loss when one of two cores at a shared queue stalls for 1 ms between reservation and completion flag
(docs/queue-sharing-and-notification.md).

build/corec-stall polls one ring with two threads, one core each, by apps/pmd/corec_protocol.h; the first thread stalls
every 5 ms. Each frame is WORK_NS of work. A stall explains this loss: what the stalled core would have taken meanwhile,
and what the other would have taken, less the rest of the ring, which it can still take. Windows with and without stalls
alternate. A window in which other programs had more than a tenth of a core is repeated.

Prints, with the 95 % interval of the median over N rounds, for rings of 512 and 4096 descriptors,
`ratio stall_loss_DESCRIPTORS ...`: lost frames over explained frames. Goal: at most 1.1. Ends with 1 when it is missed.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from eal import built
from ratio import Goal, between, options, print_ratio, run_main
from wire_bench import WINDOW_MS, Done, Undisturbed, two_cpus

from pollscope.base.errors import HostError

ROUNDS = 11
RINGS = (512, 4096)
BURST = 32  # apps/bench/corec_stall.c
WORK_NS, STALL_NS, EVERY_NS = 200, 1_000_000, 5_000_000
LIMIT_S = 60.0
GOAL = Goal(most=1.1)


def numbers(places: int, stall_ns: int) -> list[int]:
    """Run one window of corec-stall and return the numbers that it prints.

    Raises:
        HostError: the program is not built, or fails.
    """
    program = built("corec-stall")
    words = [str(word) for word in (program, places, WORK_NS, stall_ns, EVERY_NS, WINDOW_MS * 1_000_000)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode != 0:
        raise HostError(f"corec-stall ends with {done.returncode}: {done.stderr.strip()[-200:]}", program)
    return [int(word) for word in done.stdout.split()]


def measured(undisturbed: Undisturbed, places: int, stall_ns: int) -> tuple[float, int, int]:
    """Return the frames of a window, the stalls in it, and the length of all stalls in ns."""
    found: list[int] = []

    def window() -> Sequence[Done]:
        found[:] = numbers(places, stall_ns)
        return [Done(*found[:2]), Done(*found[2:4])]

    both = undisturbed(lambda: list(window()))
    return sum(each.per_cpu_s for each in both) * WINDOW_MS / 1e3, found[4], found[5]


def explained(frames: float, places: int, stalls: int, stalled_ns: int) -> float:
    """Return the frames that stalls cost, of the `frames` that two equal cores take in a window without stalls."""
    one_core = frames / 2 * stalled_ns / (WINDOW_MS * 1e6)
    return one_core + max(0.0, one_core - stalls * (places - BURST))


def loss_ratios(places: int) -> list[float]:
    """Return lost over explained frames of each round."""
    undisturbed, ratios = Undisturbed(), []
    quiet = partial(measured, undisturbed, places, 0)
    for (frames, stalls, stalled_ns), before, after in between(
        ROUNDS, quiet, lambda _: measured(undisturbed, places, STALL_NS)
    ):
        without = statistics.mean((before[0], after[0]))
        ratios.append((without - frames) / explained(without, places, stalls, stalled_ns))
        print(f"{places}: {without:.0f} frames, {frames:.0f} with {stalls} stalls", file=sys.stderr)
    return ratios


def main() -> int:
    options(__doc__).parse_args()
    os.sched_setaffinity(0, two_cpus())
    medians = [print_ratio(f"stall_loss_{places}", loss_ratios(places), GOAL).value for places in RINGS]
    return 0 if all(map(GOAL.is_met, medians)) else 1


if __name__ == "__main__":
    run_main(main)
