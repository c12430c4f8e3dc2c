# SPDX-License-Identifier: BSD-3-Clause
"""Print figures, take turns and read arguments in the same way for every program of this folder."""

import argparse
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn, TypeVar

from pollscope.base.errors import PollscopeError
from pollscope.stats.estimates import Estimate, median_estimate

T = TypeVar("T")


class Goal(NamedTuple):
    """The range in which a figure has to lie."""

    least: float = -math.inf
    most: float = math.inf

    def is_met(self, value: float) -> bool:
        return self.least <= value <= self.most

    def __str__(self) -> str:
        if self.most == math.inf:
            return f"at least {self.least:g}"
        return f"at most {self.most:g}" if self.least == -math.inf else f"{self.least:g} to {self.most:g}"


def options(description: str | None, details: bool = False) -> argparse.ArgumentParser:
    """Return a parser that shows the program's docstring as its help; with `--details` where the program has some."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if details:
        parser.add_argument("--details", action="store_true", help="also print figures that only explain the result")
    return parser


def print_ratio(name: str, ratios: Sequence[float], goal: Goal | None = None) -> Estimate:
    """Print `ratio NAME MEDIAN LOW HIGH N`, and the goal on standard error; return the median with its 95 % interval.

    Fewer than six values have no such interval, so their extremes are printed.
    """
    estimate = median_estimate(ratios)
    low, high = (estimate.low, estimate.high) if estimate.has_interval else (min(ratios), max(ratios))
    print(f"ratio {name} {estimate.value:.4f} {low:.4f} {high:.4f} {estimate.n}", flush=True)
    if goal is not None:
        print(f"  goal: {goal}, {'met' if goal.is_met(estimate.value) else 'missed'}", file=sys.stderr, flush=True)
    return estimate


def between(rounds: int, plain: Callable[[], T], changed: Callable[[int], T]) -> Iterator[tuple[T, T, T]]:
    """Yield `changed` of every round with `plain` before and after it, so that drift cancels."""
    before = plain()
    for each in range(rounds):
        found = changed(each)
        after = plain()
        yield found, before, after
        before = after


def seconds(command: Sequence[str | Path]) -> tuple[float, float]:
    """Return the CPU time of a command, and the time that passed."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu_s, time.perf_counter() - began


def main_of(
    description: str | None, measure: Callable[[], Mapping[str, Sequence[float]]], goals: Goal | Mapping[str, Goal]
) -> NoReturn:
    """Print what `measure` found and end the program, with status 1 when a median misses its goal."""
    options(description).parse_args()

    def main() -> bool:
        missed = False
        for name, ratios in measure().items():
            goal = goals if isinstance(goals, Goal) else goals.get(name, Goal())
            missed |= not goal.is_met(print_ratio(name, ratios, None if goal == Goal() else goal).value)
        return missed

    run_main(main)


def run_main(main: Callable[[], int | None]) -> NoReturn:
    """End the program with the status of `main`, or with the reason why it could not measure."""
    try:
        sys.exit(main())
    except PollscopeError as error:
        sys.exit(f"{Path(sys.argv[0]).stem}: {error}")
