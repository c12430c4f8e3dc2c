#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How much two cores that send on net_crossover do together, over one of them alone with the same queues.

Each core has a TX queue and, where it receives, an RX queue of its own; ports have two of each whoever works, so
frames go the same way (with RSS, descriptors claimed by compare-and-swap) for one core and for two. What one does is
the mean of the two cores. Both turns, and two processes that have nothing in common, follow each other within a round;
rates are frames for each second that a core was had, and a window in which something else had more than a tenth of it
is repeated.

Prints, each with the 95 % interval of the median over N rounds,
`ratio two_senders_drop ...`: both send into one full RX ring that nobody polls;
`ratio two_senders_home ...`: both forward, with RSS, and get back on their own RX queue what they sent;
`ratio two_senders_mixed ...`: both forward, and RSS spreads what each sends over the RX queues of both;
`ratio two_feeds ...`: both forward what feed=infinite gives, each with an RX mempool of its own;
`ratio two_feeds_one_pool ...`: the same with one mempool, as applications mostly have it;
`ratio two_processes ...`: two processes, one core each, do as in two_feeds. It is the machine's own ceiling.
Ends with 1 when the median of two_senders_drop or two_senders_home is below 1.7, or that of two_feeds below 1.85.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ratio import print_ratio
from wire_bench import Done, Undisturbed, WireBench, two_cpus

from pollscope.base.errors import PollscopeError

ROUNDS = 11
LOOPS = {
    "two_senders_drop": "drop",
    "two_senders_home": "home",
    "two_senders_mixed": "mixed",
    "two_feeds": "infinite",
    "two_feeds_one_pool": "one-pool",
}
WANTED = {"two_senders_drop": 1.7, "two_senders_home": 1.7, "two_feeds": 1.85}

Measure = Callable[[], list[Done]]


def together(first: WireBench, second: WireBench, loop: str) -> list[Done]:
    """Both processes at once; their windows overlap but for the time that a request takes."""
    for each in (first, second):
        each.start(loop, "0")
    return first.finish() + second.finish()


def gain(undisturbed: Undisturbed, both: Measure, alone: tuple[Measure, Measure], name: str) -> float:
    """The rate of both over the mean of those that they have alone."""
    one = [undisturbed(measure)[0].per_cpu_s for measure in alone]
    two = [done.per_cpu_s for done in undisturbed(both)]
    mpps = [f"{pps / 1e6:.1f}" for pps in (*one, *two)]
    print(f"{name}: alone {mpps[0]} and {mpps[1]} Mpps, together {mpps[2]} + {mpps[3]}", file=sys.stderr)
    return sum(two) / (sum(one) / len(one))


def measure_rounds(log: Path) -> Mapping[str, list[float]]:
    """Gains of all rounds by name."""
    gains: dict[str, list[float]] = {name: [] for name in (*LOOPS, "two_processes")}
    undisturbed = Undisturbed()
    cpus = two_cpus()
    with ExitStack() as stack:
        pair = stack.enter_context(WireBench("both", cpus, log))
        first, second = (stack.enter_context(WireBench(f"cpu{cpu}", [cpu], log)) for cpu in cpus)
        for _ in range(ROUNDS):
            for name, loop in LOOPS.items():
                alone = (partial(pair.run, loop, "0"), partial(pair.run, loop, "1"))
                gains[name].append(gain(undisturbed, partial(pair.run, loop, "01"), alone, name))
            own = (partial(first.run, "infinite", "0"), partial(second.run, "infinite", "0"))
            both = gain(undisturbed, partial(together, first, second, "infinite"), own, "two_processes")
            gains["two_processes"].append(both)
    return gains


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        gains = measure_rounds(Path(folder) / "stderr.log")
    medians = {name: print_ratio(name, values).value for name, values in gains.items()}
    return 0 if all(medians[name] >= wanted for name, wanted in WANTED.items()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"two_senders: {error}")
