#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What it costs and what it brings when cores share one receive queue without a lock (docs/corec.md).

Frames go round between the two ports of a net_crossover pair. Each core polls RX queue 0 of both ports, looks up the
route of what it gets, rewrites MAC addresses and TTL, and sends it on through a TX queue of its own; so it also plays
the DMA engine of both NICs, in every loop alike. Loops take turns within a round, rates are frames for each second that
a core was had, and a window in which something else had more than a tenth of a core is repeated.

Prints, each with the 95 % interval of the median over N rounds,
`ratio corec_one_core ...`: one core, rx=corec over rx=standard;
`ratio corec_two_cores ...`: two cores with rx=corec over one with rx=standard;
`ratio locked_two_cores ...`, `ratio trylock_two_cores ...`: the same with the standard path behind a lock that is
waited for, or that is passed by when taken;
`ratio corec_over_locked ...`, `ratio corec_over_trylock ...`: two cores each;
`ratio two_processes ...`: two processes, one core each with rx=standard and its own pair, over one: the ceiling;
`ratio corec_of_ceiling ...`: two cores with rx=corec over those two processes.
Each round says on standard error how many frames the bare loop of line_limit.py moves from one core to the other: below
CHEAP_MPPS a cache line between them is dear, and what two cores reach is printed and not judged. Of the rounds on cheap
ground there are the same ratios with `cheap_` in front, and a line `ground ...` says how many these are.
Ends with 1 when corec_one_core is below 0.95 or cheap_corec_two_cores below 1.5 or cheap_corec_over_locked below 1.2.
"""

import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from itertools import compress
from pathlib import Path

from ratio import print_ratio
from wire_bench import Done, Undisturbed, WireBench, two_cpus

from pollscope.base.errors import PollscopeError

ROUNDS = 11
CHEAP_MPPS = 70.0
WANTED = {"corec_one_core": 0.95}
WANTED_ON_CHEAP_GROUND = {"cheap_corec_two_cores": 1.5, "cheap_corec_over_locked": 1.2}


def rate(done: list[Done]) -> float:
    """Of all workers together, in packets a second."""
    return sum(each.per_cpu_s for each in done)


def together(first: WireBench, second: WireBench) -> list[Done]:
    """Both processes at once."""
    for each in (first, second):
        each.start("standard", "0")
    return first.finish() + second.finish()


def measure_rounds(log: Path) -> tuple[Mapping[str, list[float]], list[float]]:
    """Ratios of all rounds by name, and what the bare loop moved in each, in packets a second."""
    ratios: dict[str, list[float]] = defaultdict(list)
    undisturbed, cpus, ground = Undisturbed(), two_cpus(), []
    with ExitStack() as stack:
        pair = stack.enter_context(WireBench("both", cpus, log))
        first, second = (stack.enter_context(WireBench(f"cpu{cpu}", [cpu], log)) for cpu in cpus)

        def pps(loop: str, workers: str) -> float:
            return rate(undisturbed(partial(pair.run, loop, workers)))

        before = pps("standard", "0")
        for _ in range(ROUNDS):
            one = pps("corec", "0")
            after = pps("standard", "0")
            two = {loop: pps(loop, "01") for loop in ("corec", "locked", "trylock")}
            ceiling = rate(undisturbed(partial(together, first, second)))
            ground.append(undisturbed(partial(pair.run, "bare", "01"))[1].per_cpu_s)
            standard = pps("standard", "0")
            ratios["corec_one_core"].append(2 * one / (before + after))
            for loop, together_pps in two.items():
                ratios[f"{loop}_two_cores"].append(2 * together_pps / (after + standard))
            ratios["corec_over_locked"].append(two["corec"] / two["locked"])
            ratios["corec_over_trylock"].append(two["corec"] / two["trylock"])
            ratios["two_processes"].append(2 * ceiling / (after + standard))
            ratios["corec_of_ceiling"].append(two["corec"] / ceiling)
            mpps = [f"{value / 1e6:.1f}" for value in (one, standard, *two.values(), ceiling)]
            mpps.append(f"{ground[-1] / 1e6:.0f}")
            names = ("corec 1", "standard 1", "corec 2", "locked 2", "trylock 2", "processes 2", "ground")
            print(", ".join(map(" ".join, zip(names, mpps, strict=True))), "Mpps", file=sys.stderr)
            before = standard
    return ratios, ground


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        ratios, ground = measure_rounds(Path(folder) / "stderr.log")
    cheap = [pps / 1e6 >= CHEAP_MPPS for pps in ground]
    span = f"{min(ground) / 1e6:.0f} to {max(ground) / 1e6:.0f}"
    print(f"ground cheap in {sum(cheap)} of {len(cheap)} rounds: the bare loop moves {span} Mpps between the cores")
    if any(cheap):
        ratios = {**ratios, **{f"cheap_{name}": list(compress(values, cheap)) for name, values in ratios.items()}}
    medians = {name: print_ratio(name, values).value for name, values in ratios.items()}
    wanted = WANTED | (WANTED_ON_CHEAP_GROUND if any(cheap) else {})
    return 0 if all(medians[name] >= least for name, least in wanted.items()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"corec: {error}")
