#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Find the held section from which a lock costs more than COREC (docs/queue-sharing-and-notification.md).

Loops of workload l3fwd as in corec.py. Receiving a burst takes some cycles longer than it does (EXTRA), under the lock
where there is one and beside the other core's where there is none. Everything else stays as it is, so the share of
a core's time for which the lock is held grows, and nothing but that.

Prints the ground as corec.py does, and, each with the 95 % interval of the median over the N rounds, for each of EXTRA,
`ratio held_EXTRA ...`: the share of a core's time, but for waiting, for which it holds the lock;
`ratio step_EXTRA ...`, `ratio bound_EXTRA ...`: what never to wait brings then, if all stays at the lock are alike, and
if they differ as exponential ones do (corec.py, `lock_bound`);
`ratio over_{locked,trylock}_EXTRA ...`: rx=corec over that, two cores each.
Ends with 1 when a median over `locked` is not between a tenth below the first and a tenth above the second.
"""

import sys
import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path

from corec import LOCKS, host_state_line, lock_bound, rate, share
from ratio import print_ratio
from wire_bench import Undisturbed, WireBench, two_cpus

from pollscope.base.errors import PollscopeError

ROUNDS = 7
EXTRA = (0, 250, 500, 1000, 2000, 4000)  # TSC cycles
TOLERANCE = 0.1


def measure(log: Path) -> dict[str, list[float]]:
    """Ratios of each round, by name; `line`: nanoseconds."""
    found: dict[str, list[float]] = defaultdict(list)
    undisturbed = Undisturbed()
    with WireBench("both", two_cpus(), log) as pair:
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
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder) / "stderr.log")
    print(host_state_line(found.pop("line")))
    medians = {name: print_ratio(name, ratios).value for name, ratios in found.items()}
    as_predicted = all(
        medians[f"step_{extra}"] * (1 - TOLERANCE)
        <= medians[f"over_locked_{extra}"]
        <= medians[f"bound_{extra}"] * (1 + TOLERANCE)
        for extra in EXTRA
    )
    return 0 if as_predicted else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"corec-held: {error}")
