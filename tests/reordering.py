# SPDX-License-Identifier: BSD-3-Clause
"""Implement RFC 4737 plainly, straight from its text, as a reference for apps/lib/sequence.h.

Everything is computed from the whole list of arrivals, with no bound and no cleverness.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

Arrival = tuple[int, int]  # number, flow


@dataclass
class Reordering:
    """Counts of one sequence of arrivals; the counters are value -> packets reordered within their flow."""

    unique: int = 0
    duplicated: int = 0
    reordered_in_total: int = 0
    reordered: int = 0
    extent: Counter[int] = field(default_factory=Counter)
    distance: Counter[int] = field(default_factory=Counter)
    degree: Counter[int] = field(default_factory=Counter)
    displaced: Counter[int] = field(default_factory=Counter)


def first_copies(arrivals: Sequence[Arrival]) -> list[Arrival]:
    """Return first copies only (section 3: of several copies only the first to arrive is considered)."""
    return list(dict.fromkeys(arrivals))


def is_reordered(numbers: Sequence[int], i: int) -> bool:
    """Return s[i] < NextExp, where NextExp is one above the highest number that arrived before (section 3)."""
    next_expected = max(numbers[:i], default=-1) + 1
    return numbers[i] < next_expected


def extent(numbers: Sequence[int], i: int) -> int:
    """Return i - j, with j the smallest index for which s[j] > s[i] (section 4.2)."""
    return i - next(j for j in range(i) if numbers[j] > numbers[i])


def distance(numbers: Sequence[int], i: int) -> int:
    """Return by how many positions it is late: packets with higher numbers that arrived before."""
    return sum(number > numbers[i] for number in numbers[:i])


def degree(numbers: Sequence[int], i: int) -> int:
    """Return the largest n for which all of the n packets directly before have higher numbers (section 5)."""
    n = 0
    while n < i and numbers[i - n - 1] > numbers[i]:
        n += 1
    return n


def displacements(numbers: Sequence[int]) -> list[int]:
    """Return place of arrival less place of sending, among the packets that arrived (RFC 5236 section 4)."""
    places = {number: place for place, number in enumerate(sorted(numbers))}
    return [i - places[number] for i, number in enumerate(numbers)]


def reordering(arrivals: Sequence[Arrival]) -> Reordering:
    """Return all counts of one sequence of arrivals."""
    unique = first_copies(arrivals)
    result = Reordering(len(unique), len(arrivals) - len(unique))
    everything = [number for number, _ in unique]
    result.reordered_in_total = sum(is_reordered(everything, i) for i in range(len(everything)))
    for flow in {flow for _, flow in unique}:
        numbers = [number for number, of in unique if of == flow]
        result.displaced.update(by for by in displacements(numbers) if by)
        for i in range(len(numbers)):
            if is_reordered(numbers, i):
                result.reordered += 1
                result.extent[extent(numbers, i)] += 1
                result.distance[distance(numbers, i)] += 1
                result.degree[degree(numbers, i)] += 1
    return result
