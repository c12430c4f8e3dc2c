# SPDX-License-Identifier: BSD-3-Clause
"""What programs of this folder have in common: taking turns, and the one way in which they print a figure."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn, TypeVar

from pollscope.base.errors import PollscopeError
from pollscope.stats.estimates import Estimate, median_estimate

T = TypeVar("T")


def print_ratio(name: str, ratios: Sequence[float]) -> Estimate:
    """Prints `ratio NAME MEDIAN LOW HIGH N` and returns the median with its 95 % interval.

    Fewer than six values have no such interval: their extremes are printed.
    """
    estimate = median_estimate(ratios)
    low, high = (estimate.low, estimate.high) if estimate.has_interval else (min(ratios), max(ratios))
    print(f"ratio {name} {estimate.value:.4f} {low:.4f} {high:.4f} {estimate.n}", flush=True)
    return estimate


def between(rounds: int, plain: Callable[[], T], changed: Callable[[int], T]) -> Iterator[tuple[T, T, T]]:
    """`changed` of every round, and `plain` before and after it, so that drift cancels; one plain serves both sides."""
    before = plain()
    for each in range(rounds):
        found = changed(each)
        after = plain()
        yield found, before, after
        before = after


def main_of(measure: Callable[[], Mapping[str, Sequence[float]]], tolerance: float) -> NoReturn:
    """Prints what `measure` found and ends: with 1 when a median is off 1 by more than the tolerance."""
    try:
        estimates = [print_ratio(name, ratios) for name, ratios in measure().items()]
    except PollscopeError as error:
        sys.exit(f"{sys.argv[0]}: {error}")
    sys.exit(0 if all(abs(estimate.value - 1) <= tolerance for estimate in estimates) else 1)
