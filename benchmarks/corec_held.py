#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Find from which critical section on a lock costs more than COREC (docs/queue-sharing-and-notification.md).

The loops are those of workload l3fwd in corec.py. Receiving a burst takes EXTRA cycles longer, under the lock where
there is one, and in parallel where there is none. Everything else stays the same, so only the share of time for which
the lock is held grows.

Prints, with the 95 % interval of the median over N rounds, for each EXTRA,
`ratio over_locked_EXTRA ...`: rx=corec over a spin lock, two cores each. Goal: from a tenth below `step` to a tenth
above `bound`.
With --details also the round-trip time of a cache line, and
`ratio held_EXTRA ...`: the share of a core's time, without waiting, for which it holds the lock;
`ratio step_EXTRA ...`, `ratio bound_EXTRA ...`: the gain of never waiting if all critical sections are equal, and if
their lengths are exponential (corec.py, `lock_bound`);
`ratio over_trylock_EXTRA ...`: rx=corec over a lock that is passed by when taken.
Ends with 1 when the goal is missed.
"""

import statistics
import sys
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path

from corec import LOCKS, lock_bound, rate, round_trip_line, share
from ratio import Goal, options, print_ratio, run_main
from wire_bench import Undisturbed, WireBench, two_cpus

ROUNDS = 7
EXTRA = (0, 250, 500, 1000, 2000, 4000)  # TSC cycles
TOLERANCE = 0.1


def measure(log: Path) -> dict[str, list[float]]:
    """Return the ratios of each round, by name; `line`: nanoseconds."""
    found: dict[str, list[float]] = defaultdict(list)
    undisturbed = Undisturbed()
    with WireBench(two_cpus(), log) as pair:
        for _ in range(ROUNDS):
            found["line"].append(1e9 / undisturbed(partial(pair.run, "line", "01"))[0].per_cpu_s)
            for extra in EXTRA:
                done = {
                    loop: undisturbed(partial(pair.run, f"{loop}-l3fwd", "01", extra))
                    for loop in ("corec", "held", "locked", "waited", "trylock")
                }
                waited = share(done["waited"])
                held = share(done["held"]) / (1 - waited)
                found[f"held_{extra}"].append(held)
                found[f"step_{extra}"].append(max(1.0, 2 * held))
                found[f"bound_{extra}"].append(lock_bound(held, 0.0))
                for lock in LOCKS:
                    found[f"over_{lock}_{extra}"].append(rate(done["corec"]) / rate(done[lock]))
    return found


def main() -> int:
    details = options(__doc__, details=True).parse_args().details
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder) / "stderr.log")
    print(round_trip_line(found.pop("line")), file=sys.stderr)
    medians = {name: statistics.median(ratios) for name, ratios in found.items()}
    met = []
    for extra in EXTRA:
        goal = Goal(medians[f"step_{extra}"] * (1 - TOLERANCE), medians[f"bound_{extra}"] * (1 + TOLERANCE))
        met.append(goal.is_met(print_ratio(f"over_locked_{extra}", found.pop(f"over_locked_{extra}"), goal).value))
    for name, ratios in found.items():
        if details:
            print_ratio(name, ratios)
    return 0 if all(met) else 1


if __name__ == "__main__":
    run_main(main)
