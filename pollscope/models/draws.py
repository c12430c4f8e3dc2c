# SPDX-License-Identifier: BSD-3-Clause
"""Draw gaps, service times and hiccups in compiled loops, and record histograms and means of batches.

Random numbers come from a numpy Generator that belongs to one loop alone.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pollscope.models.compiled import compiled

FIXED, EXPONENTIAL, TWO_LENGTHS = range(3)


class Draws(NamedTuple):
    """Distributions of a trial. All times in ns.

    Attributes:
        gap_ns: mean time between two arrivals (of a batch each).
        random_gaps: exponential instead of constant.
        service_kind: FIXED, EXPONENTIAL or TWO_LENGTHS.
        service_ns: mean service of a packet; TWO_LENGTHS: the short one.
        long_ns: the long one, drawn with long_probability.
        long_probability: share of long services.
        hiccup_probability: that a packet is held up.
        hiccup_ns: how long; drawn with equal probability.
        random_hiccups: exponential with that mean.
    """

    gap_ns: float
    random_gaps: bool
    service_kind: int
    service_ns: float
    long_ns: float
    long_probability: float
    hiccup_probability: float
    hiccup_ns: NDArray[np.float64]
    random_hiccups: bool


class Recorded(NamedTuple):
    """The recorded values of one quantity in the window.

    Attributes:
        counts: HdrHistogram's counts array with 3 significant digits, from 1 ns on.
        numbers: values above the range, sum of the whole ns, smallest, largest.
        batch_sums: sum of the values by part of the window, in ns.
        batch_counts: number of values by part of the window.
    """

    counts: NDArray[np.int64]
    numbers: NDArray[np.int64]
    batch_sums: NDArray[np.float64]
    batch_counts: NDArray[np.int64]


# HdrHistogram with 3 significant digits: 2048 values per bucket; in all but the first, only the upper half is used.
_SUB_BUCKETS, _HALF_MAGNITUDE = 2048, 10


@compiled
def _histogram_index(value: int) -> int:
    """Return the index of a value in HdrHistogram's counts array."""
    # The exponent of a double is the place of the highest bit, without a loop.
    highest_bit = int(np.float64(value | (_SUB_BUCKETS - 1)).view(np.int64) >> 52) - 1023
    bucket = highest_bit - _HALF_MAGNITUDE
    return ((bucket + 1) << _HALF_MAGNITUDE) + (value >> bucket) - (1 << _HALF_MAGNITUDE)


@compiled
def record(into: Recorded, value_ns: float, part: int) -> None:
    """Add one value to histogram and batch."""
    whole_ns = int(value_ns + 0.5)
    place = _histogram_index(whole_ns)
    if place >= into.counts.size:
        into.numbers[0] += 1
        return
    into.counts[place] += 1
    numbers = into.numbers
    numbers[1] += whole_ns
    numbers[2] = min(numbers[2], whole_ns)
    numbers[3] = max(numbers[3], whole_ns)
    into.batch_sums[part] += value_ns
    into.batch_counts[part] += 1


@compiled
def next_gap_ns(random: np.random.Generator, draws: Draws) -> float:
    """Draw the time until the next arrival."""
    return random.standard_exponential() * draws.gap_ns if draws.random_gaps else draws.gap_ns


@compiled
def next_service_ns(random: np.random.Generator, draws: Draws) -> float:
    """Draw the service time of a packet, with its hiccup if it has one."""
    service_ns = draws.service_ns
    if draws.service_kind == EXPONENTIAL:
        service_ns = random.standard_exponential() * service_ns
    elif draws.service_kind == TWO_LENGTHS and random.random() < draws.long_probability:
        service_ns = draws.long_ns
    if draws.hiccup_probability > 0 and random.random() < draws.hiccup_probability:
        length_ns = draws.hiccup_ns[int(random.random() * draws.hiccup_ns.size)]
        service_ns += random.standard_exponential() * length_ns if draws.random_hiccups else length_ns
    return service_ns
