# SPDX-License-Identifier: BSD-3-Clause
"""Divide the cycles of a polling lcore into classes, from what the lcore recorded (docs/validity.md).

A window consists of busy polls by themselves, empty polls by themselves, their interaction (what both take together
beyond the sum), the loop, and the instrumentation. Empty polls are counted and have the cost of an empty poll among
empty polls. The cost of busy polls is a slope over timed intervals: runs of polls that are timed from outside, each
with its numbers of empty polls, busy polls, packets, and empty-to-busy transitions. Errors are half-widths of 95 %
intervals by a jackknife over blocks of the window, because neighbouring intervals are not independent.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are first needed: that takes a second
from numpy.typing import NDArray

from pollscope.base.units import human_number, human_share

# Order of the sums in the node's report (apps/lib/accounting.h).
ONE, EMPTY, TRANSITIONS, BUSY_POLLS, PACKETS, CYCLES, LOST = range(7)
VARIABLES, QUIET_VARIABLES = 7, 3
# With fewer timed intervals or blocks, a confidence interval is meaningless.
MIN_TIMED_INTERVALS, MIN_BLOCKS = 64, 6
# Upper bound of the cost of a lost poll: a lost reservation of 32 descriptors whose lines another core holds. If lost
# polls take no more than NEGLIGIBLE_SHARE at this cost, no measured cost is needed.
MOST_LOST_POLL_CYCLES = 20_000.0
# A block with fewer timed intervals than this has no slope of its own.
_MIN_BLOCK_TIMED_INTERVALS = 16
# Noise in proportion to polls is largest in the longest timed intervals, which weigh most in the slope: it makes the
# variance up to 4.6 times larger (10 lengths: 1, 2, 4 ... 512 polls). With the factor 8, confidence intervals contained
# the truth in 95 % of simulated windows, whose blocks have few intervals that long.
_LONG_TIMED_INTERVAL_NOISE = 8.0
# With fewer timed iterations of a notified loop, there is no confidence interval.
_MIN_ITERATIONS = 30
# Numbers of busy polls in timed intervals, approximate because they are weighted. Fewer than the first give no cost;
# fewer than the second give one whose scatter is as large as its mean.
MIN_BUSY_POLLS, FEW_BUSY_POLLS = 2, 30
# A class whose error is above this share of the window is not separated from the others.
_SEPARABLE_SHARE = 0.02
# A trial is flagged if the classes by timed intervals miss the window by more than this share of it.
MISFIT_SHARE = 0.02
# Upper bound of an empty poll, including a miss to another core's cache. If empty polls take no more than the share at
# this cost, no measured cost is needed.
MOST_POLL_CYCLES, NEGLIGIBLE_SHARE = 1000.0, 0.002
# Relative error of a cost that was calibrated before the trial. A hypervisor may move virtual CPUs, and packets evict
# queue heads from the cache: 18.2 cycles calibrated and 34.8 immediately afterwards were seen.
CALIBRATION_ERROR = 1.0
# Scatter of calibrated costs in one host state (over the grid of benchmarks/accounting_truth.py).
_CALIBRATION_SCATTER = 0.01
# Up to this number of queues, whose heads all stay in the cache, busy polls do not slow empty polls (same grid). With
# more queues the effect may exist but be too small to detect.
_ROOMY_QUEUES = 16
# The cost of an empty poll differs between timed intervals and the loop by at most this share (same grid), beyond the
# spread of the intervals.
TIMED_INTERVAL_ERROR = 0.02
# Busy polls prolong all empty polls together by at most this multiple of their own cost (1.14, same grid).
_MOST_AFTERMATH_OF_BUSY_POLLS = 1.5
# The cost of busy polls differs between timed intervals and the loop by at most this share (same grid).
FIT_ERROR = 0.1
# A tax with a larger error is absent, so that a reported tax is less than 2 points off.
MOST_ERROR_SHARE = 0.019
WOULD_TELL = "a longer window or a quieter machine would help"
# Above this R squared (transitions on busy polls and packets), transitions add no information.
_COLLINEAR = 0.98
# Singular values below this share of the largest are rounding errors.
_SINGULAR = 1e-10

Sums = NDArray[np.float64]


@dataclass(frozen=True)
class MeasuredCycles:
    """Hold a number of cycles and the half-width of its 95 % interval."""

    value: float
    error: float


@dataclass(frozen=True)
class NoClasses:
    """Hold why there are no classes; with the cycles of all empty polls if the error of their cost is the reason."""

    reason: str
    empty_polls: MeasuredCycles | None = None


@dataclass(frozen=True)
class Classes:
    """Hold the cycles of one lcore by class.

    Attributes:
        total: cycles of the window.
        empty_poll: empty polls by themselves. If their error exceeds MOST_ERROR_SHARE and that of packets is smaller,
            the rest of the window after packets and loop.
        loop: reads of the TSC, decisions of the loop, waits for locks, lost polls, and time in which something else had
            the CPU. If timed intervals give the better cost of packets, the rest of the window.
        instrumentation: stamps and bookkeeping of samples.
        packets: busy polls by themselves and the interaction: the rest of the window, or the estimate by timed
            intervals, whichever is known better (the latter at light load).
        useful: busy polls by themselves; a reason if timed intervals cannot separate them from the interaction.
        by_timed_intervals: whether packets is the estimate by timed intervals.
        waiting: time in which nothing was ready, for loops that wait in this case.
        misfit: cycles by which the timed intervals miss the window's cycles for packets; or why that is not known.
        empty_poll_cycles: cost of one empty poll by itself.
    """

    total: float
    empty_poll: MeasuredCycles
    loop: float
    instrumentation: float
    packets: MeasuredCycles
    useful: MeasuredCycles | str
    misfit: float | str
    empty_poll_cycles: float
    by_timed_intervals: bool = False
    waiting: float = 0.0

    @property
    def interaction(self) -> MeasuredCycles | str:
        """Return the cycles of busy and empty polls together beyond the sum of both: below 0 where they overlap."""
        if isinstance(self.useful, str):
            return self.useful
        error = float(np.hypot(self.packets.error, self.useful.error))
        return MeasuredCycles(self.packets.value - self.useful.value, error)


def classes(lcore: Mapping[str, Any]) -> Classes | NoClasses:
    """Return the classes of one lcore of a result (docs/internals/node-protocol.md), or why it has none."""
    if "timed_intervals" not in lcore:
        mode = lcore.get("accounting")
        return NoClasses(
            "the run was thinned" if mode == "sampled" else f"accounting mode {mode} takes no timed intervals"
        )
    of_loop = _notified if "notices" in lcore else _swept_and_waited if "waiting" in lcore else _swept
    found = of_loop(lcore)
    return NoClasses(found) if isinstance(found, str) else found


def _swept_and_waited(lcore: Mapping[str, Any]) -> Classes | NoClasses | str:
    """Return the classes of a loop that polls all its queues in turn and waits when they are empty."""
    waiting = float(lcore["waiting"]["cycles"])
    total = float(lcore["cycles"]["total"])
    if waiting >= total:
        return "the lcore waited for all of the window"
    found = _swept({**lcore, "cycles": {"total": total - waiting}})
    return replace(found, total=total, waiting=waiting) if isinstance(found, Classes) else found


def _swept(lcore: Mapping[str, Any]) -> Classes | NoClasses | str:
    """Return the classes of a loop that polls all its queues in turn."""
    counts = _counts(lcore)
    total = float(lcore["cycles"]["total"])
    found = _empty_poll_cost(lcore, float(counts[EMPTY]) / total)
    if isinstance(found, str):
        return found
    cost, aftermath = found
    lost = _lost_polls(lcore, counts, cost.value)
    if isinstance(lost, str):
        return lost
    locked = float(lcore["lock"]["cycles"]) if "lock" in lcore else 0.0
    loop = float(lcore["event_cycles"]) + float(lcore["interruptions"]["cycles"]) + locked + lost.value
    instrumentation = float(lcore["sampling_cycles"]) + float(lcore["stamps"]) * float(lcore["stamp_cycles"])
    if counts[BUSY_POLLS] == 0:
        return _idle(total, float(counts[EMPTY]), loop, instrumentation)
    known = _Known(total, loop, lost.error, instrumentation)
    return _polled(lcore, counts, known, cost, aftermath)


class _Known(NamedTuple):
    """Hold the cycles of a window that are known without timed intervals."""

    total: float
    loop: float
    loop_error: float
    instrumentation: float


def _polled(
    lcore: Mapping[str, Any], counts: Sums, known: _Known, cost: MeasuredCycles, aftermath: float
) -> Classes | NoClasses | str:
    """Return the classes of a window with busy polls, by the cost of an empty poll and the timed intervals."""
    polls = float(counts[EMPTY])
    waited = float(lcore.get("waited_cycles", 0))
    left = known.total - polls * cost.value - known.loop - known.instrumentation
    busy_polls = _busy_polls(lcore, counts, cost.value, left - waited, known.total)
    most = (
        _MOST_AFTERMATH_OF_BUSY_POLLS * max(0.0, busy_polls.all.value)
        if isinstance(busy_polls.all, MeasuredCycles)
        else math.inf
    )
    empty = MeasuredCycles(polls * cost.value, math.hypot(polls * cost.error, min(polls * aftermath, most)))
    packets = MeasuredCycles(left, math.hypot(empty.error, known.loop_error))
    if packets.value < -max(empty.error, _SEPARABLE_SHARE * known.total):
        return (
            f"{human_number(counts[EMPTY])} empty polls at {human_number(cost.value)} cycles, with loop and "
            f"instrumentation, exceed the window by {-100 * packets.value / known.total:.1f} %: "
            "an empty poll had a different cost when it was measured"
        )
    misfit = busy_polls.all if isinstance(busy_polls.all, str) else busy_polls.all.value + waited - packets.value
    parts = _Parts(empty, known.loop, packets)
    if isinstance(busy_polls.all, MeasuredCycles):
        # Busy polls slow the empty polls after them. This belongs to the interaction, but timed intervals may count it
        # as empty polls.
        crowded = aftermath > 0 or float(lcore.get("queues", 0)) > _ROOMY_QUEUES
        unseen = min(polls * math.hypot(TIMED_INTERVAL_ERROR * cost.value, aftermath), most) if crowded else 0.0
        fitted = MeasuredCycles(busy_polls.all.value + waited, math.hypot(busy_polls.all.error, unseen))
        parts = _by_timed_intervals(parts, fitted, known.total - known.instrumentation)
    if parts.packets.error > MOST_ERROR_SHARE * known.total:
        return _poorly_known(cost.value, polls, empty, parts.packets.error / known.total)
    useful = busy_polls.alone
    if isinstance(useful, MeasuredCycles):
        useful = MeasuredCycles(useful.value + waited, useful.error)
    return Classes(
        known.total,
        parts.empty,
        parts.loop,
        known.instrumentation,
        parts.packets,
        useful,
        misfit,
        parts.empty.value / max(1.0, polls),
        parts.by_timed_intervals,
    )


def _poorly_known(poll_cycles: float, polls: float, empty: MeasuredCycles, share: float) -> NoClasses:
    poll_error = empty.error / max(1.0, polls)
    return NoClasses(
        f"the cost of an empty poll is known to {human_number(poll_cycles)} +-{human_number(poll_error, 2)} cycles "
        f"only, which is {human_share(share)} of the window (limit {human_share(MOST_ERROR_SHARE)}): {WOULD_TELL}",
        empty,
    )


@dataclass(frozen=True)
class _Parts:
    """Hold the parts of a window without its instrumentation (see Classes)."""

    empty: MeasuredCycles
    loop: float
    packets: MeasuredCycles
    by_timed_intervals: bool = False


def _by_timed_intervals(parts: _Parts, fitted: MeasuredCycles, cycles: float) -> _Parts:
    """Return the parts with the cost of packets by timed intervals, or unchanged if that cost is less certain."""
    if fitted.error >= parts.packets.error:
        return parts
    rest, empty = cycles - fitted.value, parts.empty
    if _SEPARABLE_SHARE * cycles < empty.error and abs(rest - parts.loop - empty.value) <= empty.error:
        return _Parts(MeasuredCycles(rest - parts.loop, fitted.error), parts.loop, fitted, True)
    if rest - empty.value < parts.loop:  # they contradict the window
        return parts
    return _Parts(empty, rest - empty.value, fitted, True)


def _notified(lcore: Mapping[str, Any]) -> Classes | str:
    """Return the classes of a notified loop, without timed intervals.

    Waiting is measured completely. The cost of notifications is timed in random iterations, as a latency. Packets are
    the rest of the window.
    """
    counts = _counts(lcore)
    total, waiting = float(lcore["cycles"]["total"]), float(lcore["waiting"]["cycles"])
    empty = _of_iterations(lcore["notices"]["empty"], float(counts[EMPTY]), total)
    notified = _of_iterations(lcore["notices"]["busy_polls"], float(counts[BUSY_POLLS]), total)
    if isinstance(empty, str):
        return f"cost of polls that found nothing: {empty}"
    if isinstance(notified, str):
        return f"cost of notifications: {notified}"
    instrumentation = float(lcore["sampling_cycles"]) + float(lcore["stamps"]) * float(lcore["stamp_cycles"])
    loop = float(lcore["event_cycles"]) + float(lcore["interruptions"]["cycles"]) + notified.value
    left = total - waiting - empty.value - loop - instrumentation
    error = math.hypot(empty.error, notified.error)
    none = MeasuredCycles(0.0, 0.0)
    polls = max(1.0, float(counts[EMPTY]))
    if counts[BUSY_POLLS] == 0:
        return Classes(
            total, empty, loop + left, instrumentation, none, none, 0.0, empty.value / polls, waiting=waiting
        )
    if left < -max(error, _SEPARABLE_SHARE * total):
        return f"the cost of notifications, timed one by one, exceeds the window by {-100 * left / total:.1f} %"
    if error > MOST_ERROR_SHARE * total:
        return f"the cost of notifications is known only to +-{100 * error / total:.1f} % of the window"
    alone = "a notified loop has no empty polls between busy polls, so their interaction is not known"
    packets = MeasuredCycles(left, error)
    return Classes(total, empty, loop, instrumentation, packets, alone, alone, empty.value / polls, waiting=waiting)


def _of_iterations(notice: Mapping[str, Any], iterations: float, total: float) -> MeasuredCycles | str:
    """Return the cycles of all iterations from those that were timed."""
    if iterations * MOST_POLL_CYCLES <= NEGLIGIBLE_SHARE * total:
        return MeasuredCycles(iterations * MOST_POLL_CYCLES / 2, iterations * MOST_POLL_CYCLES / 2)
    n = float(notice["samples"])
    if n < _MIN_ITERATIONS:
        return f"only {n:.0f} of {iterations:.0f} were timed: the window is too short"
    mean = float(notice["cycles"]) / n
    variance = max(0.0, float(notice["squared_cycles"]) / n - mean**2)
    return MeasuredCycles(
        iterations * mean, iterations * float(scipy.special.stdtrit(n - 1, 0.975)) * math.sqrt(variance / (n - 1))
    )


def _idle(total: float, polls: float, loop: float, instrumentation: float) -> Classes:
    """Return the classes of a window without busy polls: empty polls, and interrupts too short to be seen."""
    left, none = total - loop - instrumentation, MeasuredCycles(0.0, 0.0)
    if polls == 0:
        return Classes(total, none, loop + left, instrumentation, none, none, 0.0, 0.0)
    return Classes(total, MeasuredCycles(left, 0.0), loop, instrumentation, none, none, 0.0, left / polls)


def _counts(lcore: Mapping[str, Any]) -> Sums:
    """Return empty polls, transitions, busy polls, packets and lost polls of the window, in the order of variables."""
    polls = lcore["polls"]
    failed = polls["refill_failed"] if isinstance(polls["refill_failed"], int | float) else 0
    busy_polls = polls["partial"] + polls["full"]
    return np.array(
        [
            0,
            polls["empty"] + failed,
            lcore["transitions"],
            busy_polls,
            lcore.get("packets", lcore["rx_packets"]),
            0,
            polls["race_lost"],
        ],
        dtype=float,
    )


def _blocks(rows: Sequence[Sequence[float]] | Sums, variables: int) -> tuple[Sums, Sums]:
    """Return the number of timed intervals per block, and their sums of products as symmetric matrices."""
    table = np.asarray(rows, dtype=float)
    # Contiguous, because the memory order determines the rounding of sums.
    return table[:, 0], np.ascontiguousarray(table[:, _places(variables)])


@cache
def _places(variables: int) -> NDArray[np.int64]:
    """Return the column, in a row of sums, of each element of the symmetric matrix; column 0 is another number."""
    places = np.zeros((variables, variables), np.int64)
    rows, columns = np.triu_indices(variables)
    places[rows, columns] = places[columns, rows] = np.arange(1, len(rows) + 1)
    return places


def _half_width(replicates: Sums) -> float:
    """Return the half-width of a 95 % jackknife interval (Efron, Tibshirani, Introduction to the Bootstrap, ch. 11)."""
    n = len(replicates)
    deviation = np.sqrt((n - 1) / n * np.sum((replicates - replicates.mean()) ** 2))
    return float(scipy.special.stdtrit(n - 1, 0.975) * deviation)


def _empty_poll_cost(lcore: Mapping[str, Any], polls_per_cycle: float) -> tuple[MeasuredCycles, float] | str:
    """Return the cost of an empty poll among empty polls, and the cycles by which busy polls before it may prolong it.

    The cost comes from timed intervals without busy polls, or else from the calibration before the trial.
    """
    if polls_per_cycle * MOST_POLL_CYCLES <= NEGLIGIBLE_SHARE:
        return MeasuredCycles(MOST_POLL_CYCLES / 2, MOST_POLL_CYCLES / 2), 0.0
    timed_intervals, sums = _blocks(lcore["timed_intervals"]["quiet"], QUIET_VARIABLES)
    reported = lcore.get("empty_poll_cycles")
    calibrated = float(reported) if isinstance(reported, int | float) and reported > 0 else None
    if timed_intervals.sum() >= MIN_TIMED_INTERVALS and np.count_nonzero(timed_intervals) >= MIN_BLOCKS:
        found = _cost_by_blocks(lcore, timed_intervals, sums) or _pooled_cost(timed_intervals, sums)
        found = MeasuredCycles(found.value, math.hypot(found.error, TIMED_INTERVAL_ERROR * found.value))
        if found.value > 0 and (calibrated is None or found.error <= CALIBRATION_ERROR * calibrated):
            return found, _aftermath(found.value, calibrated)
    if calibrated is not None:
        return MeasuredCycles(calibrated, CALIBRATION_ERROR * calibrated), 0.0
    return "no timed interval stayed empty, and arriving packets prevented the calibration of an empty poll"


def _aftermath(cycles: float, calibrated: float | None) -> float:
    """Return how much longer an empty poll of the intervals may take than one by itself, down to the calibration."""
    if calibrated is None or cycles <= (1 + _CALIBRATION_SCATTER) * calibrated:
        return 0.0
    return cycles - (1 - _CALIBRATION_SCATTER) * calibrated


def _pooled_cost(timed_intervals: Sums, sums: Sums) -> MeasuredCycles:
    """Return one slope over all blocks, which is correct if the cost is constant over the window."""
    whole = sums.sum(0)
    return MeasuredCycles(float(_slopes(whole)), _half_width(_slopes(whole - sums[timed_intervals > 0])))


def _cost_by_blocks(lcore: Mapping[str, Any], timed_intervals: Sums, sums: Sums) -> MeasuredCycles | None:
    """Return the mean of the blocks' slopes weighted by polls, which is correct even if the cost changes in the window.

    Timed intervals begin at random moments, so those of a block are a random sample of its polls. A change of the cost
    between or within blocks is therefore no error, and the confidence interval is that of sampling.
    """
    if timed_intervals.min() < _MIN_BLOCK_TIMED_INTERVALS:
        return None
    weights = _polls_by_block(lcore, len(sums))
    half_width = float(scipy.special.ndtri(0.975)) * math.sqrt(
        float(weights**2 @ _slope_variances(timed_intervals, sums))
    )
    return MeasuredCycles(float(weights @ _slopes(sums)), half_width)


def _polls_by_block(lcore: Mapping[str, Any], blocks: int) -> Sums:
    """Return each block's share of the window's polls, from the series of sweeps; equal shares without a series."""
    series = lcore.get("series", {})
    cycles, sweeps = (np.asarray(series.get(name, ()), dtype=float) for name in ("cycles", "sweeps"))
    if len(cycles) < blocks or len(cycles) != len(sweeps) or sweeps.sum() <= 0 or cycles.sum() <= 0:
        return np.full(blocks, 1 / blocks)
    done = np.concatenate([[0.0], np.cumsum(sweeps)])
    time = np.concatenate([[0.0], np.cumsum(cycles)])
    edges = np.interp(np.linspace(0, time[-1], blocks + 1), time, done)
    shares: Sums = np.diff(edges) / done[-1]
    return shares


def _slopes(sums: Sums) -> Sums:
    """Return the cycles per poll from the sums of 1, polls and cycles; 0 if all intervals had as many polls."""
    n, x, y, xx, xy = sums[..., 0, 0], sums[..., 0, 1], sums[..., 0, 2], sums[..., 1, 1], sums[..., 1, 2]
    spread = n * xx - x * x
    known = spread > 1e-9 * n * xx
    slopes: Sums = np.where(known, (n * xy - x * y) / np.where(known, spread, 1), 0.0)
    return slopes


def _slope_variances(timed_intervals: Sums, sums: Sums) -> Sums:
    """Return the variances of _slopes(), for noise in proportion to polls; infinite if numbers of polls are equal."""
    n, x, y = sums[:, 0, 0], sums[:, 0, 1], sums[:, 0, 2]
    xx, xy, yy = sums[:, 1, 1] - x * x / n, sums[:, 1, 2] - x * y / n, sums[:, 2, 2] - y * y / n
    known = xx > 0
    spread = np.where(known, xx, 1)
    variances = _LONG_TIMED_INTERVAL_NOISE * np.maximum(0.0, yy - xy * xy / spread) / spread / (timed_intervals - 2)
    return np.where(known, variances, math.inf)


@dataclass(frozen=True)
class _BusyPolls:
    """Hold busy polls with and without their interaction, by timed intervals; or why that is not known."""

    all: MeasuredCycles | str
    alone: MeasuredCycles | str


def _busy_polls(
    lcore: Mapping[str, Any], counts: Sums, empty_poll_cycles: float, measured: float, total: float
) -> "_BusyPolls":
    timed_intervals, sums = _blocks(lcore["timed_intervals"]["blocks"], VARIABLES)
    used, whole = timed_intervals > 0, sums.sum(0)
    if timed_intervals.sum() < MIN_TIMED_INTERVALS or np.count_nonzero(used) < MIN_BLOCKS or whole[ONE, ONE] <= 0:
        few = f"only {timed_intervals.sum():.0f} timed intervals: the window is too short"
        return _BusyPolls(few, few)
    met = float(timed_intervals.sum() * whole[ONE, BUSY_POLLS] / whole[ONE, ONE])
    rare = f"the timed intervals have only {met:.0f} busy polls: the load is too low or the window too short"
    if met < MIN_BUSY_POLLS:
        return _BusyPolls(rare, rare)
    coefficients, replicates = _with_replicates(sums[used], whole, empty_poll_cycles)
    fitted = float(_fitted(coefficients, counts))
    scatter = fitted * float(scipy.special.stdtrit(met - 1, 0.975)) / math.sqrt(met) if met < FEW_BUSY_POLLS else 0.0
    everything = MeasuredCycles(
        fitted, math.hypot(_half_width(_fitted(replicates, counts)), FIT_ERROR * fitted, scatter)
    )
    if met < FEW_BUSY_POLLS:
        return _BusyPolls(everything if fitted > 0 else rare, rare)
    if _transitions_explained_by_busy_polls(whole) > _COLLINEAR:
        alike = "nearly every busy poll follows an empty poll, or nearly none does: their interaction is not known"
        return _BusyPolls(everything, alike)
    useful = MeasuredCycles(
        float(_of_busy_polls(coefficients, counts)), _half_width(_of_busy_polls(replicates, counts))
    )
    if useful.error <= _SEPARABLE_SHARE * total:
        return _BusyPolls(everything, useful)
    reason = (
        "busy polls and their interaction with empty polls are separated only to "
        f"+-{100 * useful.error / total:.1f} % of the window; together they are {100 * measured / total:.1f} %"
    )
    return _BusyPolls(everything, reason)


def _lost_polls(lcore: Mapping[str, Any], counts: Sums, empty_poll_cycles: float) -> MeasuredCycles | str:
    """Return polls that lost their packets to another core, by timed intervals: neither empty nor busy polls."""
    lost, total = float(counts[LOST]), float(lcore["cycles"]["total"])
    if lost * MOST_LOST_POLL_CYCLES <= NEGLIGIBLE_SHARE * total:
        return MeasuredCycles(lost * MOST_LOST_POLL_CYCLES / 2, lost * MOST_LOST_POLL_CYCLES / 2)
    timed_intervals, sums = _blocks(lcore["timed_intervals"]["blocks"], VARIABLES)
    used, whole = timed_intervals > 0, sums.sum(0)
    met = float(timed_intervals.sum() * whole[ONE, LOST] / whole[ONE, ONE]) if whole[ONE, ONE] > 0 else 0.0
    if np.count_nonzero(used) < MIN_BLOCKS or met < FEW_BUSY_POLLS:
        seen = f"about {met:.0f} of {lost:.0f} polls lost to another core"
        return f"timed intervals contain only {seen}: their cost is not known"
    coefficients, replicates = _with_replicates(sums[used], whole, empty_poll_cycles)
    return MeasuredCycles(lost * max(0.0, float(coefficients[LOST])), lost * _half_width(replicates[:, LOST]))


def _fitted(coefficients: Sums, counts: Sums) -> Any:
    """Return the cycles of busy polls with their interaction, by the timed intervals."""
    return coefficients[..., TRANSITIONS : PACKETS + 1] @ counts[TRANSITIONS : PACKETS + 1]


def _transitions_explained_by_busy_polls(sums: Sums) -> float:
    """Return R squared of transitions on 1, busy polls and packets."""
    others = [ONE, BUSY_POLLS, PACKETS]
    normal, target = sums[np.ix_(others, others)], sums[others, TRANSITIONS]
    spread = sums[TRANSITIONS, TRANSITIONS] - sums[ONE, TRANSITIONS] ** 2 / sums[ONE, ONE]
    if spread <= 0:
        return 1.0
    explained = target @ np.linalg.lstsq(normal, target, rcond=1e-12)[0]
    return float(1 - (sums[TRANSITIONS, TRANSITIONS] - explained) / spread)


def _of_busy_polls(coefficients: Sums, counts: Sums) -> Any:
    return coefficients[..., [BUSY_POLLS, PACKETS]] @ counts[[BUSY_POLLS, PACKETS]]


def _with_replicates(blocks: Sums, whole: Sums, empty_poll_cycles: float) -> tuple[Sums, Sums]:
    """Return the coefficients of all blocks, and one row of them per left-out block."""
    found = _coefficients(np.concatenate([whole[None], whole - blocks]), empty_poll_cycles)
    return found[0], found[1:]


def _coefficients(sums: Sums, empty_poll_cycles: float) -> Sums:
    """Fit cycles, less those of the empty polls, by 1, transitions, busy polls, packets and lost polls.

    Args:
        sums: sums of products, one matrix per row of the result.
        empty_poll_cycles: cost of one empty poll.
    """
    kept = [ONE, TRANSITIONS, BUSY_POLLS, PACKETS, LOST]
    normal = sums[:, kept][:, :, kept]
    target = sums[:, kept, CYCLES] - empty_poll_cycles * sums[:, kept, EMPTY]
    scale = np.sqrt(np.diagonal(normal, axis1=1, axis2=2))
    scale = np.where(scale == 0, 1, scale)
    left, sizes, right = np.linalg.svd(normal / (scale[:, :, None] * scale[:, None, :]))
    known = sizes > _SINGULAR * sizes[:, :1]  # the rest are linear combinations of these
    parts = np.einsum("bji,bj->bi", left, target / scale) / np.where(known, sizes, 1) * known
    found = np.zeros((len(sums), VARIABLES))
    found[:, kept] = np.einsum("bji,bj->bi", right, parts) / scale
    found[:, EMPTY] = empty_poll_cycles
    return found
