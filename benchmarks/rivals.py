#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare what two cores carry by each way to bring them packets (docs/queue-sharing-and-notification.md).

Frames go round between the two ports of a net_crossover pair, as in corec.py, so two CPUs will do, and work is light;
row C-RIVALS counts order, too, and needs a third CPU for its generator, or heavy work (its quick form). Flows: 256 over
both queues (`even`), 256 that all hash to queue 0 (`skewed`), one (`one`). Ways: a queue a core (`rss`), the same with
entries of the RETA moved every 10 ms (`rebalanced`), one supply of 512 buffers for both queues (`shared`), supplies of
128 that are lent (`split`), and one queue for both cores (`corec`, `locked`, `trylock`), which meet the same in all
three. Each core also plays the NICs, which hash every frame (`hashed`: also where there is one queue, so that all ways
pay for it alike).

Prints a table of frames for each second that a core was had, both together, and of the imbalance (as metric
core_imbalance), medians over N rounds, and, each with its 95 % interval,
`ratio WAY_FLOWS ...`: its frames over those of `rss` with even flows in the same round.
Ends with 1 when `rebalanced` carries less than 1.3 times what `rss` does of skewed flows.
"""

import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from ratio import print_ratio
from wire_bench import Done, Undisturbed, WireBench, two_cpus

from pollscope.base.errors import PollscopeError

ROUNDS = 11
FLOWS = ("even", "skewed", "one")
EACH = ("rss", "rebalanced", "shared", "split")
TOGETHER = ("corec-hashed", "locked-hashed", "trylock-hashed")
WANTED_GAIN = 1.3


def rate(done: Sequence[Done]) -> float:
    """Of both workers together, in packets a second."""
    return sum(each.per_cpu_s for each in done)


def imbalance(done: Sequence[Done]) -> float:
    """As metric core_imbalance: 0 where both did the same, 1 where one did everything."""
    frames = [each.frames for each in done]
    return abs(frames[0] - frames[1]) / (sum(frames) or 1)


def measure_rounds(log: Path) -> Mapping[str, list[list[Done]]]:
    """What both workers did in each round, by loop."""
    found: dict[str, list[list[Done]]] = defaultdict(list)
    undisturbed = Undisturbed()
    loops = [f"{way}-{flows}" for flows in FLOWS for way in EACH] + list(TOGETHER)
    with WireBench("both", two_cpus(), log) as pair:
        for number in range(ROUNDS):
            # Every other round backwards, so that none is always the first.
            for loop in loops if number % 2 == 0 else reversed(loops):
                found[loop].append(undisturbed(partial(pair.run, loop, "01")))
    return found


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = measure_rounds(Path(folder) / "stderr.log")
    base = [rate(done) for done in found["rss-even"]]
    print(f"{'':18}  Mpps  imbalance")
    for loop, rounds in found.items():
        mpps = statistics.median(rate(done) for done in rounds) / 1e6
        print(f"{loop:18} {mpps:5.0f}  {100 * statistics.median(map(imbalance, rounds)):8.1f} %")
    for loop, rounds in found.items():
        print_ratio(loop.replace("-", "_"), [rate(done) / first for done, first in zip(rounds, base, strict=True)])
    pairs = zip(found["rebalanced-skewed"], found["rss-skewed"], strict=True)
    gain = print_ratio("rebalanced_over_rss_skewed", [rate(ours) / rate(theirs) for ours, theirs in pairs])
    return 0 if gain.value >= WANTED_GAIN else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"rivals: {error}")
