# SPDX-License-Identifier: BSD-3-Clause
"""Sweeps three knobs of a tree until it is killed: `knob_sweeper.py ROOT SEED`; a line on stdout says that it began."""

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


def main(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    print("sweeping", flush=True)
    while True:
        with KnobSession(f"sweep {seed}", KnobHost.at(root)) as session:
            for _ in range(chance.randint(1, 8)):
                point = {key: chance.choice(levels) for key, levels in LEVELS.items() if chance.random() < 0.8}
                session.apply(point)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
