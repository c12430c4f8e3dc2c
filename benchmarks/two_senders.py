#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure how much two cores that send on net_crossover do together, over one of them alone with the same queues.

Each core has a TX queue and, if it receives, an RX queue of its own. The ports have two of each in all cases, so frames
take the same path (RSS, descriptors reserved by compare-and-swap) for one core and for two. The rate of one is the mean
of the two cores. One core, two cores and two separate processes alternate within a round. Rates are frames per second
of CPU time. A window in which other programs had more than a tenth of a core is repeated.

Prints, each with the 95 % interval of the median over N rounds,
`ratio two_senders_drop ...`: both send into one full RX ring that no core polls. Goal: at least 1.7;
`ratio two_senders_home ...`: both forward, with RSS, and get back on their own RX queue what they sent. Goal: at least
1.7;
`ratio two_senders_mixed ...`: both forward, and RSS spreads what each sends over both RX queues;
`ratio two_feeds ...`: both forward what feed=infinite gives, each with an RX mempool of its own. Goal: at least 1.85;
`ratio two_feeds_one_pool ...`: the same with one mempool, as most applications have it;
`ratio two_processes ...`: two processes, one core each, do as in two_feeds: the ceiling of the machine.
Ends with 1 when a goal is missed.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from corec import together
from ratio import Goal, main_of
from wire_bench import Done, Undisturbed, WireBench, two_cpus

ROUNDS = 11
LOOPS = {
    "two_senders_drop": "drop",
    "two_senders_home": "home",
    "two_senders_mixed": "mixed",
    "two_feeds": "infinite",
    "two_feeds_one_pool": "one-pool",
}
GOALS = {"two_senders_drop": Goal(1.7), "two_senders_home": Goal(1.7), "two_feeds": Goal(1.85)}

Measure = Callable[[], list[Done]]


def gain(undisturbed: Undisturbed, both: Measure, alone: tuple[Measure, Measure], name: str) -> float:
    """Return the rate of both over the mean of their rates alone."""
    one = [undisturbed(measure)[0].per_cpu_s for measure in alone]
    two = [done.per_cpu_s for done in undisturbed(both)]
    mpps = [f"{pps / 1e6:.1f}" for pps in (*one, *two)]
    print(f"{name}: alone {mpps[0]} and {mpps[1]} Mpps, together {mpps[2]} + {mpps[3]}", file=sys.stderr)
    return sum(two) / (sum(one) / len(one))


def measure() -> Mapping[str, list[float]]:
    """Return the gains of all rounds by name."""
    gains: dict[str, list[float]] = {name: [] for name in (*LOOPS, "two_processes")}
    undisturbed = Undisturbed()
    cpus = two_cpus()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        log = Path(folder) / "stderr.log"
        pair = stack.enter_context(WireBench(cpus, log))
        first, second = (stack.enter_context(WireBench([cpu], log)) for cpu in cpus)
        for _ in range(ROUNDS):
            for name, loop in LOOPS.items():
                alone = (partial(pair.run, loop, "0"), partial(pair.run, loop, "1"))
                gains[name].append(gain(undisturbed, partial(pair.run, loop, "01"), alone, name))
            own = (partial(first.run, "infinite", "0"), partial(second.run, "infinite", "0"))
            both = gain(undisturbed, partial(together, first, second, "infinite"), own, "two_processes")
            gains["two_processes"].append(both)
    return gains


if __name__ == "__main__":
    main_of(__doc__, measure, GOALS)
