# SPDX-License-Identifier: BSD-3-Clause
"""Histograms in the layout of the public HdrHistogram algorithm, as the node writes them and as they are stored.

A histogram is the object H of node-protocol.md, with sparse `counts`; the store has the same counts as `hdr`, in
HdrHistogram's V2 compressed form (store-format.md). The meaning of a counts-array index and the compressed form
come from the `hdrh` package, so that any HdrHistogram tool reads what is stored.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import Any

import numpy as np
from hdrh.codec import (
    HdrCookieException,
    HdrHistogramEncoder,
    HdrHistogramSettingsException,
    HdrLengthException,
)
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from pollscope.base.errors import UsageError

Integers = NDArray[np.int64]
# `lowest` and `highest` end in 63-bit integers of other HdrHistogram implementations.
LARGEST_VALUE = 2**63 - 1
# Exceptions of the package for a text that is not a histogram.
_UNREADABLE = (
    ArithmeticError,
    HdrCookieException,
    HdrHistogramSettingsException,
    HdrLengthException,
    IndexError,
    RuntimeError,
    TypeError,
    ValueError,
    zlib.error,
)


class BeyondRange(Exception):
    """The requested quantity depends on values above the histogram's range, which it refused."""


@dataclass(frozen=True)
class BucketLayout:
    """Parameters that give each counts-array index its value range."""

    lowest: int
    highest: int
    significant_digits: int


@cache
def _empty(layout: BucketLayout) -> HdrHistogram:
    return HdrHistogram(layout.lowest, layout.highest, layout.significant_digits)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Recorded values of one quantity.

    `indices` are those of the counts array in which there are values, rising, `counts` how many; `smallest`, `largest`
    and `total_value` (the sum of all values) are exact, independent of the buckets. `refused` values were larger than
    `layout.highest`: they count in a rank, but their size is not known.
    """

    unit: str
    layout: BucketLayout
    indices: Integers
    counts: Integers
    smallest: int
    largest: int
    total_value: int
    refused: int = 0

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same."""
        return isinstance(other, Histogram) and self._held() == other._held()

    def _held(self) -> tuple[object, ...]:
        ends = self.smallest, self.largest, self.total_value, self.refused
        return (self.unit, self.layout, self.pairs(), *ends)

    @cached_property
    def samples(self) -> int:
        """Return the number of values, refused ones included."""
        return int(self.counts.sum()) + self.refused

    @property
    def mean(self) -> float:
        """Return the exact mean; the histogram must not be empty.

        Raises:
            BeyondRange: a value was refused.
        """
        return self._known(self.total_value) / self.samples

    @property
    def maximum(self) -> int:
        """Return the exact largest value; the histogram must not be empty.

        Raises:
            BeyondRange: a value was refused.
        """
        return self._known(self.largest)

    def _known(self, value: int) -> int:
        if self.refused:
            raise BeyondRange(
                f"{self.refused} values lie above the histogram's range of {self.layout.highest} {self.unit}"
            )
        return value

    def percentile(self, percent: float) -> int:
        """Return the largest value of the percentile's bucket, limited to the largest recorded value.

        The rank is that of HdrHistogram: round(percent / 100 x samples), at least 1. The histogram must not be empty.

        Raises:
            BeyondRange: the percentile lies among refused values.
        """
        rank = max(1, int(percent / 100 * self.samples + 0.5))
        place = int(self._cumulative.searchsorted(rank))
        return self._up_to(int(self.indices[place])) if place < len(self.indices) else self._known(self.largest)

    def at_least(self, value: int) -> int:
        """Return the number of values in the bucket of `value` or above, refused ones included."""
        first = _empty(self.layout).get_counts_array_index(value)
        return int(self.counts[self.indices >= first].sum()) + self.refused

    def cumulative(self) -> list[tuple[int, float]]:
        """Return the distribution function: (largest value of a bucket, share of values up to there).

        Refused values lie beyond the last point, so that the last share is 1 only without them. Empty without samples.
        """
        curve = zip(self.indices.tolist(), self._cumulative.tolist(), strict=True)
        return [(self._up_to(index), seen / self.samples) for index, seen in curve]

    @cached_property
    def _cumulative(self) -> Integers:
        """Return the number of values at each index or below."""
        return np.cumsum(self.counts)

    def _up_to(self, index: int) -> int:
        """Return the largest value of a bucket, limited to the largest of all."""
        layout = _empty(self.layout)
        return min(int(layout.get_highest_equivalent_value(layout.get_value_from_index(index))), self.largest)

    def pairs(self) -> list[tuple[int, int]]:
        """Return index and count of each bucket that is not empty."""
        return list(zip(self.indices.tolist(), self.counts.tolist(), strict=True))

    def encoded(self) -> bytes:
        """Return the histogram in HdrHistogram's compressed V2 form, base64, as other tools read it."""
        result = HdrHistogram(self.layout.lowest, self.layout.highest, self.layout.significant_digits)
        for index, count in self.pairs():  # record_value() would look for the index of its value
            result.counts[index] = count
        if len(self.indices):
            ends = int(self.indices[0]), int(self.indices[-1])
            result.set_internal_tacking_values(*ends, int(self.counts.sum()))
        return bytes(result.encode())


def parse_histogram(raw: object, place: str) -> Histogram:
    """Check and read one H object.

    Args:
        raw: the decoded JSON object.
        place: its position, for the error message.

    Raises:
        UsageError: a key is missing or the counts contradict the layout or the total.
    """
    if not isinstance(raw, Mapping):
        raise UsageError("is not a histogram object", place)
    lowest, highest, digits = [_positive(raw, key, place) for key in ("lowest", "highest", "significant_digits")]
    layout = BucketLayout(lowest, highest, digits)
    if layout.significant_digits > 5 or layout.highest < 2 * layout.lowest:
        raise UsageError(f"impossible histogram layout {layout}", place)
    indices, counts = _decoded(raw["hdr"], layout, place) if "hdr" in raw else _counts(raw.get("counts"), layout, place)
    filled, total = len(indices) > 0, int(counts.sum())
    if total != raw.get("total"):
        raise UsageError(f"counts sum to {total}, but total says {raw.get('total')}", place)
    refused = _natural(raw, "refused", place) if "refused" in raw else 0
    smallest, largest, total_value = (_natural(raw, key, place) if filled else 0 for key in ("min", "max", "sum"))
    if not smallest <= largest <= total_value and filled:
        raise UsageError(f"min {smallest}, max {largest} and sum {total_value} contradict each other", place)
    return Histogram(str(raw.get("unit")), layout, indices, counts, smallest, largest, total_value, refused)


def stored_form(value: Any) -> Any:
    """Return the JSON value with each histogram's counts as `hdr`, the compressed V2 form, instead of `counts`.

    An invalid histogram stays unchanged; its reader reports the error.
    """
    if isinstance(value, list):
        return [stored_form(each) for each in value]
    if not isinstance(value, dict):
        return value
    if not {"counts", "significant_digits"} <= value.keys():
        return {key: stored_form(each) for key, each in value.items()}
    try:
        histogram = parse_histogram(value, "")
    except UsageError:
        return value
    others = {key: each for key, each in value.items() if key != "counts"}
    return {**others, "hdr": histogram.encoded().decode("ascii")}


def merged(histograms: Sequence[Histogram], place: str) -> Histogram:
    """Return one histogram of all values.

    Raises:
        UsageError: units or layouts differ, so the buckets do not mean the same.
    """
    first, *others = histograms
    if not others:
        return first
    if any((other.unit, other.layout) != (first.unit, first.layout) for other in others):
        raise UsageError("histograms of different layout cannot be merged", place)
    indices, places = np.unique(np.concatenate([each.indices for each in histograms]), return_inverse=True)
    counts = np.zeros(len(indices), np.int64)
    np.add.at(counts, places, np.concatenate([each.counts for each in histograms]))
    filled = [histogram for histogram in histograms if len(histogram.indices)]
    return Histogram(
        first.unit,
        first.layout,
        indices,
        counts,
        min((histogram.smallest for histogram in filled), default=0),
        max((histogram.largest for histogram in filled), default=0),
        sum(histogram.total_value for histogram in filled),
        sum(histogram.refused for histogram in histograms),
    )


def _counts(raw: object, layout: BucketLayout, place: str) -> tuple[Integers, Integers]:
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        raise UsageError("counts is not a list", place)
    length = _empty(layout).counts_len
    found = _right_counts(raw, length)
    if found is None:
        raise UsageError(f"counts has a wrong or a double entry, allowed is [index below {length}, count]", place)
    indices = np.array(sorted(found), np.int64)
    return indices, np.array([found[index] for index in indices.tolist()], np.int64)


def _right_counts(raw: Sequence[Any], length: int) -> dict[int, int] | None:
    """Return the counts if all are valid; a large run has millions of entries."""
    try:
        counts = dict(raw)
    except (TypeError, ValueError):
        return None
    if len(counts) < len(raw) or not set(map(type, chain(counts, counts.values()))) <= {int}:
        return None
    if not counts:
        return counts
    inside = min(counts) >= 0 and max(counts) < length
    return counts if inside and min(counts.values()) > 0 and max(counts.values()) <= LARGEST_VALUE else None


def _decoded(text: object, layout: BucketLayout, place: str) -> tuple[Integers, Integers]:
    if not isinstance(text, str):
        raise UsageError(f"hdr is {type(text).__name__}, not a text", place)
    try:
        read = HdrHistogramEncoder.decode(text)
        head = read.payload
        found = BucketLayout(head.lowest_trackable_value, head.highest_trackable_value, head.significant_figures)
        if found != layout:
            raise UsageError(f"hdr has the layout {found}, but the object says {layout}", place)
        ends = read.init_counts(_empty(layout).counts_len)
    except _UNREADABLE as error:
        raise UsageError(
            f"hdr is not a HdrHistogram in V2 compressed form: {str(error) or 'its header is another'}", place
        ) from error
    first, last = ends["min_nonzero_index"], ends["max_nonzero_index"]
    if first < 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    counts = np.frombuffer(memoryview(read.counts), np.uint64)[first : last + 1]
    places = np.flatnonzero(counts)
    return places + first, counts[places].astype(np.int64)


def _natural(raw: Mapping[str, object], key: str, place: str) -> int:
    value = raw.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageError(f"{key} is {value!r}, not a natural number", place)
    return value


def _positive(raw: Mapping[str, object], key: str, place: str) -> int:
    value = _natural(raw, key, place)
    if not 1 <= value <= LARGEST_VALUE:
        raise UsageError(f"{key} is {value}, allowed is 1 to 2^63-1", place)
    return value
