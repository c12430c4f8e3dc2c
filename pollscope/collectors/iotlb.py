# SPDX-License-Identifier: BSD-3-Clause
"""Use the same names for IOTLB counts of all sources: pcm-iio, uncore IIO events, the VT-d PMU, the AMD PMU.

`iotlb.lookups`, `iotlb.hits`, `iotlb.misses`, `iotlb.miss_share`, `iotlb.page_walks`, `iotlb.walk_latency`. Skylake
counts hits and misses, Ice Lake and later lookups and misses, the VT-d PMU lookups and hits: the third is derived.
Every IOTLB miss starts a page walk. Mean walk latency is Little's law: occupancy (walks in flight, summed over cycles)
/ walks, in IOMMU cycles. The counters of one row of pcm-iio were taken one after the other: a derived count below zero
is absent, not zero.
"""

from collections.abc import Iterable, Iterator

from pollscope.collectors.sample import Kind, Reading, SourceMetric, Value, reading

_NAMES = ("iotlb_lookups", "iotlb_hits", "iotlb_misses")
Number = int | float


def derive(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Yield all readings; after a unit's last IOTLB count of one time, also yield its derived reading.

    perf prints one event per row, so the counts of a unit are gathered until the time stamp changes (one interval in
    memory).
    """
    gathered: dict[str, dict[str, tuple[SourceMetric, Value, str]]] = {}
    now: int | None = None
    for item in readings:
        if item.t_ns != now:
            yield from _flush(now, gathered)
            gathered, now = {}, item.t_ns
        counts = {
            metric.name: (metric, value, item.reasons.get(index, ""))
            for index, (metric, value) in enumerate(zip(item.metrics, item.values, strict=False))
            if metric.name in _NAMES or metric.name == "page_walk_occupancy"
        }
        known = gathered.get(item.unit_path, {})
        if counts.keys() & known.keys():
            # the same unit appears again at the same time: this is the next sample
            yield from _flush(now, {item.unit_path: known})
            gathered[item.unit_path] = known = {}
        yield item
        if counts:
            gathered[item.unit_path] = {**known, **counts}
    yield from _flush(now, gathered)


def _flush(t_ns: int | None, gathered: dict[str, dict[str, tuple[SourceMetric, Value, str]]]) -> Iterator[Reading]:
    for path, counts in gathered.items():
        present = [metric for name, (metric, _, _) in counts.items() if name in _NAMES]
        if present:
            values = {name: value for name, (_, value, _) in counts.items() if isinstance(value, (int, float))}
            why = "; ".join(f"{name}: {reason}" for name, (_, value, reason) in counts.items() if value is None)
            yield reading(t_ns, path, _derived(values, present[0], why))


def _derived(counts: dict[str, Number], like: SourceMetric, why: str) -> Iterator[tuple[SourceMetric, Value, str]]:
    lookups, hits, misses = (counts.get(name) for name in _NAMES)
    if lookups is None and hits is not None and misses is not None:
        lookups = hits + misses
    hits = hits if hits is not None else _difference(lookups, misses)
    misses = misses if misses is not None else _difference(lookups, hits)
    inconsistent = "more misses or hits than lookups: the counters were not taken at the same time"
    reason = why or (
        inconsistent if lookups is not None and None in (hits, misses) else "two of three counts are needed"
    )
    for name, value in (("lookups", lookups), ("hits", hits), ("misses", misses), ("page_walks", misses)):
        yield SourceMetric(f"iotlb.{name}", like.unit, like.kind), value, reason
    share = misses / lookups if lookups and misses is not None and misses <= lookups else None
    yield SourceMetric("iotlb.miss_share", "1", Kind.GAUGE), share, reason if lookups else why or "no lookups"
    occupancy = counts.get("page_walk_occupancy")
    latency = occupancy / misses if occupancy is not None and misses else None
    missing = "this source counts no page-walk occupancy" if occupancy is None else "no page walks"
    yield SourceMetric("iotlb.walk_latency", "cycles", Kind.GAUGE), latency, missing


def _difference(whole: Number | None, part: Number | None) -> Number | None:
    return None if whole is None or part is None or part > whole else whole - part
