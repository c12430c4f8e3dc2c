#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure what two cores carry together by each way to distribute packets, under balanced and skewed flows
(docs/queue-sharing-and-notification.md).

Frames circulate between the two ports of a net_crossover pair, as in corec.py, so two CPUs are enough, and the work is
light. Row C-RIVALS also counts order, and needs a third CPU for its generator, or heavy work (its quick form). Flows:
256 over both queues (`even`), 256 that all hash to queue 0 (`skewed`), one (`one`). Ways: one queue per core (`rss`),
the same with RETA entries moved every 10 ms (`rebalanced`), one pool of 512 buffers for both queues (`shared`), pools
of 128 that are lent (`split`), and one queue for both cores (`corec`, `locked`, `trylock`), which see the same frames
in all three cases. Each core also plays the NICs, which hash every frame (`hashed`: also with one queue, so that all
ways pay for it alike).

Prints, with the 95 % interval of the median over N rounds,
`ratio rebalanced_over_rss_skewed ...`: frames per second of `rebalanced` over those of `rss`, with skewed flows. Goal:
at least 1.3.
With --details also a table of the frames per second of CPU time of both cores and of the imbalance (metric
core_imbalance), and
`ratio WAY_FLOWS ...`: its frames over those of `rss` with even flows in the same round.
Ends with 1 when the goal is missed.
"""

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from corec import rate
from ratio import Goal, options, print_ratio, run_main
from wire_bench import Done, Undisturbed, WireBench, two_cpus

ROUNDS = 11
FLOWS = ("even", "skewed", "one")
EACH = ("rss", "rebalanced", "shared", "split")
TOGETHER = ("corec-hashed", "locked-hashed", "trylock-hashed")
GOAL = Goal(least=1.3)


def imbalance(done: Sequence[Done]) -> float:
    """Return the metric core_imbalance: 0 if both did the same, 1 if one did everything."""
    frames = [each.frames for each in done]
    return abs(frames[0] - frames[1]) / (sum(frames) or 1)


def measure_rounds(log: Path) -> Mapping[str, list[list[Done]]]:
    """Return what both workers did in each round, by loop."""
    found: dict[str, list[list[Done]]] = defaultdict(list)
    undisturbed = Undisturbed()
    loops = [f"{way}-{flows}" for flows in FLOWS for way in EACH] + list(TOGETHER)
    with WireBench(two_cpus(), log) as pair:
        for number in range(ROUNDS):
            # Every other round runs backwards, so that no loop is always the first.
            for loop in loops if number % 2 == 0 else reversed(loops):
                found[loop].append(undisturbed(partial(pair.run, loop, "01")))
    return found


def main() -> int:
    details = options(__doc__, details=True).parse_args().details
    with tempfile.TemporaryDirectory() as folder:
        found = measure_rounds(Path(folder) / "stderr.log")
    if details:
        print_details(found)
    pairs = zip(found["rebalanced-skewed"], found["rss-skewed"], strict=True)
    gain = print_ratio("rebalanced_over_rss_skewed", [rate(ours) / rate(theirs) for ours, theirs in pairs], GOAL)
    return 0 if GOAL.is_met(gain.value) else 1


def print_details(found: Mapping[str, list[list[Done]]]) -> None:
    """Print all ways: a table, and their rates over that of `rss` with even flows."""
    base = [rate(done) for done in found["rss-even"]]
    print(f"{'':18}  Mpps  imbalance")
    for loop, rounds in found.items():
        mpps = statistics.median(rate(done) for done in rounds) / 1e6
        print(f"{loop:18} {mpps:5.0f}  {100 * statistics.median(map(imbalance, rounds)):8.1f} %")
    for loop, rounds in found.items():
        print_ratio(loop.replace("-", "_"), [rate(done) / first for done, first in zip(rounds, base, strict=True)])


if __name__ == "__main__":
    run_main(main)
