#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Count what is lost when one of two cores at a shared queue stalls (docs/queue-sharing-and-notification.md).

build/corec-stall polls one ring with two threads by apps/pmd/corec_protocol.h, a core each; the first one stalls every
5 ms. Each frame is WORK_NS of work. A stall explains this loss: what the stalled core would have taken meanwhile, and
what the other one would have, less the rest of the ring, which it may still take. Windows with and without stalls take
turns; one in which something else had more than a tenth of a core is repeated.

Prints, with the 95 % interval of the median over N rounds, for rings of 512 and 4096 descriptors,
`ratio stall_loss_PLACES ...`: the frames lost over those that the stalls explain.
Ends with 1 when one is above 1.1.
"""

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from ratio import between, print_ratio
from wire_bench import WINDOW_MS, Done, Undisturbed, two_cpus

from pollscope.base.errors import HostError, PollscopeError
from pollscope.base.paths import node_program

ROUNDS = 11
RINGS = (512, 4096)
BURST = 32  # apps/bench/corec_stall.c
WORK_NS, STALL_NS, EVERY_NS = 200, 1_000_000, 5_000_000
LIMIT_S = 60.0
TOLERANCE = 0.1


def numbers(places: int, stall_ns: int) -> list[int]:
    """What one window of corec-stall prints.

    Raises:
        HostError: it is not built, or it fails.
    """
    program = node_program().with_name("corec-stall")
    if not program.is_file():
        raise HostError("the helper is not built", str(program), "make build")
    words = [str(word) for word in (program, places, WORK_NS, stall_ns, EVERY_NS, WINDOW_MS * 1_000_000)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode != 0:
        raise HostError(f"corec-stall ends with {done.returncode}: {done.stderr.strip()[-200:]}", str(program))
    return [int(word) for word in done.stdout.split()]


def measured(undisturbed: Undisturbed, places: int, stall_ns: int) -> tuple[float, int, int]:
    """Frames in a window, stalls in it, and their length together in ns."""
    found: list[int] = []

    def window() -> Sequence[Done]:
        found[:] = numbers(places, stall_ns)
        return [Done(*found[:2]), Done(*found[2:4])]

    both = undisturbed(lambda: list(window()))
    return sum(each.per_cpu_s for each in both) * WINDOW_MS / 1e3, found[4], found[5]


def explained(frames: float, places: int, stalls: int, stalled_ns: int) -> float:
    """Frames that stalls cost, of the `frames` that two equal cores take in a window without any."""
    one_core = frames / 2 * stalled_ns / (WINDOW_MS * 1e6)
    return one_core + max(0.0, one_core - stalls * (places - BURST))


def loss_ratios(places: int) -> list[float]:
    """Lost over explained, of each round."""
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
    os.sched_setaffinity(0, two_cpus())
    medians = [print_ratio(f"stall_loss_{places}", loss_ratios(places)).value for places in RINGS]
    return 0 if max(medians) <= 1 + TOLERANCE else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"corec_stall: {error}")
