# SPDX-License-Identifier: BSD-3-Clause
"""Sweep the knobs of a tree until killed: `knob_sweeper.py ROOT`, with one seed per line on standard input.

Each sweep is a process of its own, forked because a start takes longer than a sweep lives: its pid is a line on
standard output, its exit code the next one.
"""

import os
import random
import sys
from pathlib import Path

from pollscope.knobs import KnobHost, KnobSession

LEVELS = {
    "ddio": ("on", "off"),
    "ddio_ways": (2, 4, 8, 11),
    "governor": ("performance", "powersave"),
    "hugepages@node1/2048kB": (512, 0, 1024),
}


def sweep(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    while True:
        with KnobSession(f"sweep {seed}", KnobHost.at(root)) as session:
            for _ in range(chance.randint(1, 8)):
                point = {key: chance.choice(levels) for key, levels in LEVELS.items() if chance.random() < 0.8}
                session.apply(point)


def main(root: Path) -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            sweep(root, int(line))
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
