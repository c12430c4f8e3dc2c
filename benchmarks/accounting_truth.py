#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check the cycle accounting against truths that no estimator has touched.

For each cell of a grid (queues, shape, arrivals, load, work) a script is made. It says how many packets each poll of
the DUT's loop finds. The node runs the script over the virtual NIC in rounds: with all polls, with the busy polls
alone, and with the empty polls alone (apps/tests/oracle.h). The shares of the empty polls, of the busy polls and of
their interaction are then ratios of measured times. The accounting sees only the passes with all polls, as it would see
a trial.

    ratio tax_error         error of the polling tax over all cells, in points of the window: median, least, largest,
                            cells. Goal: at most 2 points plus the interval of the cell
    ratio useful_shortfall  by how much useful cycles fall below the known work (a chain of dependent operations per
                            packet) and the interval, in points of the window; 0 where they do not
    ratio coverage          share of the cells whose truth lies in the 95 % interval of the estimate. Goal: at least 0.9

With --details the error is also printed per number of queues. Interruptions lie outside every pass, as they lie outside
the classes of a trial. Cells that a run would flag, because the sum of the timed intervals misses the window by more
than 2 %, are counted separately. `--full` runs every cell (ten minutes), otherwise a cross-section runs (about one);
`--csv FILE` writes the cells. Ends with 1 when a goal is missed.
"""

import csv
import itertools
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from dut_node import DutNode, dut_node
from numpy.typing import ArrayLike
from ratio import options, run_main

from pollscope.metrics.accounting import MISFIT_SHARE, MeasuredCycles, NoClasses, classes

QUEUES = (1, 8, 64, 512, 1000)
SHAPES = ("FB", "PC", "NC", "SQ")
ARRIVALS = ("constant", "poisson", "trains of 8", "trains of 32")
LOADS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)
WORKS = (0, 500, 2000)
QUICK = ((1, 64, 512, 1000), ("FB", "PC"), ("constant", "poisson", "trains of 32"), (0.1, 0.5, 1.0), (0, 2000))
TRAINS = {"constant": 1, "poisson": 1, "trains of 8": 8, "trains of 32": 32}
# A script is planned with these costs; its real load is measured.
EMPTY_CYCLES, BUSY_POLL_CYCLES, PACKET_CYCLES = 12.0, 100.0, 40.0
BURST = 32
SCRIPT_POLLS = 6000
# With at most half of all queues in use, empty polls ask queues of their own, so that none finds a later packet early.
BYSTANDER_QUEUES = 512
CELL_CYCLES = 6e8
TOLERANCE, COVERAGE = 0.02, 0.9


class Cell(NamedTuple):
    """A cell of the grid."""

    queues: int
    shape: str
    arrivals: str
    load: float
    work_cycles: int


class Result(NamedTuple):
    """Shares of the window; `absent_reason` says why the interaction is absent, or is empty."""

    cell: Cell
    empty: float
    busy_polls: float
    truth_error: float
    tax: float
    error: float
    interaction: float | None
    misfit: float | None
    shortfall: float
    timed_intervals: int
    absent_reason: str

    @property
    def off(self) -> float:
        return abs(self.tax - self.empty)

    @property
    def flagged(self) -> bool:
        """Return whether a run would flag the trial, because the timed intervals miss its window."""
        return self.misfit is not None and abs(self.misfit) > MISFIT_SHARE

    @property
    def covered(self) -> bool:
        return self.off <= float(np.hypot(self.error, self.truth_error)) + 1e-3


def hot_queues(cell: Cell, rng: random.Random) -> set[int]:
    count = {"FB": cell.queues, "PC": max(1, round(0.2 * cell.queues)), "NC": min(100, cell.queues), "SQ": 1}[
        cell.shape
    ]
    return set(rng.sample(range(cell.queues), count))


def full_load(cell: Cell, hot: set[int], rng: random.Random) -> Iterator[int]:
    """Yield bursts: hot queues are backlogged, the others have a packet in 5 % of the polls (HyperPlane, II-C)."""
    for poll in itertools.count():
        queue = poll % cell.queues
        cold = cell.shape in ("PC", "NC") and rng.random() < 0.05
        yield BURST if queue in hot else int(cold)


def offered(cell: Cell, hot: set[int], rng: random.Random) -> Iterator[int]:
    """Yield bursts: packets arrive at the hot or cold rate of their queue while the loop sweeps."""
    train = TRAINS[cell.arrivals]
    rate = cell.load / (PACKET_CYCLES + cell.work_cycles + BUSY_POLL_CYCLES / 4)
    weight = [1.0 if queue in hot else 0.05 * (cell.shape in ("PC", "NC")) for queue in range(cell.queues)]
    gap = [train * sum(weight) / (each * rate) if each and rate else float("inf") for each in weight]
    due = [rng.random() * each for each in gap]
    waiting, now = [0] * cell.queues, 0.0
    for poll in itertools.count():
        queue = poll % cell.queues
        while due[queue] <= now:
            waiting[queue] += train
            due[queue] += gap[queue] if cell.arrivals == "constant" else rng.expovariate(1 / gap[queue])
        burst = min(BURST, waiting[queue])
        waiting[queue] -= burst
        now += BUSY_POLL_CYCLES + burst * (PACKET_CYCLES + cell.work_cycles) if burst else EMPTY_CYCLES
        yield burst


def script(cell: Cell, ring: int) -> list[int]:
    """Return the packets of each poll; no queue gets more than its ring holds. One sweep if all queues are in use."""
    rng = random.Random(1)
    bursts = (full_load if cell.load >= 1 else offered)(cell, hot_queues(cell, rng), rng)
    if cell.queues > BYSTANDER_QUEUES:
        settled = list(itertools.islice(bursts, 5 * cell.queues))
        return settled[-cell.queues :]
    polls: list[int] = []
    held = [0] * cell.queues
    for poll, burst in enumerate(itertools.islice(bursts, max(SCRIPT_POLLS, 2 * cell.queues))):
        held[poll % cell.queues] += burst
        if held[poll % cell.queues] > ring - BURST:
            break
        polls.append(burst)
    return polls[: len(polls) // cell.queues * cell.queues]


def share_error(parts: ArrayLike, wholes: ArrayLike) -> float:
    """Return the half-width of the 95 % interval of sum(parts) / sum(wholes), measured in turns: a ratio estimate."""
    part, whole = np.asarray(parts, dtype=float), np.asarray(wholes, dtype=float)
    left = part - part.sum() / whole.sum() * whole
    return float(1.96 * left.std(ddof=1) / np.sqrt(len(left)) / whole.mean())


def uninterrupted_mean(times: ArrayLike) -> float:
    """Return the mean without interrupted passes: the clock of a core does not fall to a half."""
    found = np.asarray(times, dtype=float)
    return float(found[found < 2 * np.median(found)].mean())


def measure(node: DutNode, cell: Cell) -> Result | None:
    """Measure one cell; None if its script has no packet."""
    ring = 512 if cell.queues <= 64 else 128
    queues = 2 * cell.queues if cell.queues <= BYSTANDER_QUEUES else cell.queues
    bursts = script(cell, ring)
    packets, empty_polls = sum(bursts), bursts.count(0)
    if packets == 0:
        return None
    node.configure(
        {"workload": "io", "accounting": "sampled"},
        generator=True,
        rx_port={"rx_queues": queues, "rx_desc": ring},
        generator_adds={"flows": 2048},
    )
    idle = node.oracle([0] * len(bursts), cell.queues, 40, 0)
    poll_cycles = float(np.median(idle["cycles"]["all"])) / idle["chunks"] / len(bursts)  # as a trial's is
    tried = node.oracle(bursts, cell.queues, 5, cell.work_cycles)
    together = np.median(tried["cycles"]["all"]) + np.median(tried["cycles"]["busy"])
    passes = int(np.clip(CELL_CYCLES / together, 20, 8000))
    found = node.oracle(bursts, cell.queues, passes, cell.work_cycles)
    whole, busy, empty = (np.asarray(found["cycles"][kind], dtype=float) for kind in ("all", "busy", "empty"))
    empty = empty * empty_polls / max(1, found["polls"]["empty"]) if empty_polls else np.zeros_like(whole)
    scripts = found["chunks"] * passes
    return judge(
        cell,
        as_of_trial(found["lcore"], float(whole.sum()), empty_polls * scripts, poll_cycles),
        float(empty.sum() / whole.sum()),
        float(busy.sum() / whole.sum()),
        share_error(empty, whole),
        packets * scripts * uninterrupted_mean(found["work"]) if cell.work_cycles else 0.0,
    )


def as_of_trial(lcore: dict[str, Any], total: float, empty_polls: int, poll_cycles: float) -> dict[str, Any]:
    """Return the lcore's record whose window is the passes, without the time between them and interruptions."""
    return lcore | {
        "cycles": {"total": total},
        "polls": lcore["polls"] | {"empty": empty_polls, "refill_failed": 0},
        "interruptions": {"count": 0, "cycles": 0},
        "empty_poll_cycles": poll_cycles,
    }


def judge(
    cell: Cell, lcore: dict[str, Any], empty: float, busy_polls: float, truth_error: float, known_cycles: float
) -> Result:
    total = lcore["cycles"]["total"]
    timed_intervals = int(sum(block[0] for block in lcore["timed_intervals"]["blocks"]))
    found = classes(lcore)
    floor = known_cycles / total
    if isinstance(found, NoClasses):
        return Result(
            cell, empty, busy_polls, truth_error, np.nan, np.nan, None, None, np.nan, timed_intervals, found.reason
        )
    determined = isinstance(found.interaction, MeasuredCycles)
    # Events and sampling take their share of every pass, and the passes of the truth contain them.
    ran = total - lcore["event_cycles"] - found.instrumentation
    return Result(
        cell,
        empty,
        busy_polls,
        truth_error,
        1 - found.packets.value / ran,
        found.packets.error / ran,
        found.interaction.value / total if isinstance(found.interaction, MeasuredCycles) else None,
        found.misfit / total if isinstance(found.misfit, float) else None,
        max(0.0, floor - (found.packets.value + found.packets.error) / total),
        timed_intervals,
        "" if determined else str(found.interaction),
    )


def grid(full: bool) -> list[Cell]:
    """Return the cells; shapes differ only with several queues, arrivals only below full load."""
    axes = (QUEUES, SHAPES, ARRIVALS, LOADS, WORKS) if full else QUICK
    cells = (Cell(*levels) for levels in itertools.product(*axes))
    return [
        cell
        for cell in cells
        if (cell.queues > 1 or cell.shape == axes[1][0])
        and (0 < cell.load < 1 or cell.arrivals == axes[2][0])
        and (cell.load < 1 or cell.queues > 1 or cell.shape == axes[1][0])
    ]


def report(every: list[Result], details: bool) -> int:
    given = [one for one in every if np.isfinite(one.tax)]
    results = [one for one in given if not one.flagged]
    worst = 0.0
    for queues in sorted({one.cell.queues for one in results}):
        offs = [100 * one.off for one in results if one.cell.queues == queues]
        if details:
            print(f"ratio tax_error_{queues} {np.median(offs):.4f} {min(offs):.4f} {max(offs):.4f} {len(offs)}")
        worst = max(worst, max(max(0.0, one.off - one.error) for one in results if one.cell.queues == queues))
    offs = [100 * one.off for one in results]
    print(f"ratio tax_error {np.median(offs):.4f} {min(offs):.4f} {max(offs):.4f} {len(offs)}")
    print(f"  goal: every cell at most {100 * TOLERANCE:g} beyond its interval", file=sys.stderr)
    short = [100 * one.shortfall for one in results if one.cell.work_cycles]
    print(f"ratio useful_shortfall {np.median(short):.4f} {min(short):.4f} {max(short):.4f} {len(short)}")
    coverage = float(np.mean([one.covered for one in results]))
    print(f"ratio coverage {coverage:.4f} {coverage:.4f} {coverage:.4f} {len(results)}")
    print(f"  goal: at least {COVERAGE:g}", file=sys.stderr)
    far = max(results, key=lambda one: one.off)
    print(
        f"worst cell: {far.cell}: {100 * far.tax:.2f} +- {100 * far.error:.2f} %, truth {100 * far.empty:.2f} %; "
        f"{len(every) - len(given)} cells absent, {len(given) - len(results)} flagged for their misfit",
        file=sys.stderr,
    )
    return 1 if worst > TOLERANCE or coverage < COVERAGE else 0


def write_csv(path: Path, results: list[Result]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*Cell._fields, *Result._fields[1:]])
        writer.writerows([*one.cell, *one[1:]] for one in results)


def main() -> int:
    parser = options(__doc__, details=True)
    parser.add_argument("--full", action="store_true", help="every cell of the grid")
    parser.add_argument("--csv", type=Path, help="write the cells there")
    arguments = parser.parse_args()
    results: list[Result] = []
    cells = grid(arguments.full)
    with dut_node(feed="wire", program="tests-oracle-node") as node:
        for number, cell in enumerate(cells):
            found = measure(node, cell)
            if found:
                results.append(found)
            if sys.stderr.isatty() or number % 50 == 0:
                print(f"cell {number + 1} of {len(cells)}", file=sys.stderr)
    if arguments.csv:
        write_csv(arguments.csv, results)
    return report(results, arguments.details)


if __name__ == "__main__":
    run_main(main)
