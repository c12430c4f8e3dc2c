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
# Of runs whose node knew of no lost polls.
# Fewer slices or blocks than these give no interval that means anything.
MIN_TIMED_INTERVALS, MIN_BLOCKS = 64, 6
# Lost polls so few that at this cost they are NEGLIGIBLE_SHARE at most need no measured one: a claim of 32 descriptors
# whose lines lie with another core, and lost.
MOST_LOST_POLL_CYCLES = 20_000.0
# Fewer slices of a block than these have no slope of their own.
_MIN_BLOCK_TIMED_INTERVALS = 16
# What takes its time by the poll scatters most in the longest slices, which weigh most in the slope: its variance is up
# to 4.6 times that of the same noise in each slice (10 lengths: 1, 2, 4 ... 512 polls). With 8, intervals held the
# truth in 95 % of simulated windows, whose blocks have few slices that long.
_LONG_TIMED_INTERVAL_NOISE = 8.0
# Fewer timed iterations of a notified loop give no interval.
_MIN_TURNS = 30
# By weight, so approximate. Fewer give no cost of a busy poll; few give one whose scatter is as large as its mean.
MIN_BUSY_POLLS, FEW_BUSY_POLLS = 2, 30
# A class whose error is above this share of the window is not told apart from the others.
_SEPARABLE_SHARE = 0.02
# The classes by slices may miss the window by so much of it before the trial is flagged.
MISFIT_SHARE = 0.02
# No empty poll takes longer, a miss to another core's cache included; so few that even then they are this share at most
# need no measured cost.
MOST_POLL_CYCLES, NEGLIGIBLE_SHARE = 1000.0, 0.002
# By so much the cost that was calibrated before the trial may be another one in it, as a share: with a hypervisor that
# moves virtual CPUs, and queue heads that packets push out of the cache, 18.2 cycles calibrated and 34.8 right after it
# were seen.
CALIBRATION_ERROR = 1.0
# In one host state calibrated costs scatter by about this share (over the grid of
# benchmarks/accounting_truth.py).
_CALIBRATION_SCATTER = 0.01
# Busy polls do not slow the empty polls of so few queues, whose heads all stay in the cache (same grid). With more
# queues the effect may be too small to see.
_ROOMY_QUEUES = 16
# The cost of an empty poll differs between timed intervals and the loop by at most this share (same grid), beyond the
# spread of the intervals.
TIMED_INTERVAL_ERROR = 0.02
# All empty polls together take at most so many times the cost of the busy polls before them longer (1.14, same grid).
_MOST_AFTERMATH_OF_BUSY_POLLS = 1.5
# The cost of busy polls differs between timed intervals and the loop by at most this share (same grid).
FIT_ERROR = 0.1
# A tax that is known worse than this is absent, so that a given one is less than 2 points off.
MOST_ERROR_SHARE = 0.019
WOULD_TELL = "a longer window or a quieter machine would tell"
# Above this R squared (transitions on busy polls and packets), transitions tell nothing beyond busy polls.
_COLLINEAR = 0.98
# Singular values below this share of the largest are rounding.
_SINGULAR = 1e-10

Sums = NDArray[np.float64]


@dataclass(frozen=True)
class MeasuredCycles:
    """A number of cycles and the half-width of its 95 % interval."""

    value: float
    error: float


@dataclass(frozen=True)
class NoClasses:
    """Why there are no classes; with the cycles of all empty polls where it is their cost that is known too badly."""

    reason: str
    empty_polls: MeasuredCycles | None = None


@dataclass(frozen=True)
class Classes:
    """Where the cycles of one lcore went.

    Attributes:
        total: cycles of the window.
        empty_poll: the empty polls by themselves; where their cost is known worse than MOST_ERROR_SHARE and that of
            packets better, what these and the loop leave.
        loop: looks at the TSC, decisions of the loop, waits for locks, lost polls, and time in which something else had
            the CPU; where slices know better what packets cost, all that is left.
        instrumentation: stamps and bookkeeping of what was sampled.
        packets: busy polls by themselves and the interaction: the rest of the window, or the estimate by timed
            intervals, whichever is known better (the latter at light load).
        useful: busy polls by themselves; a reason where timed intervals cannot separate them from the interaction.
        by_timed_intervals: whether packets is the estimate by timed intervals.
        waiting: time in which nothing was ready, of a loop that waits then.
        misfit: cycles by which the timed intervals miss the window's cycles for packets; or why that is not known.
        empty_poll_cycles: of one, by itself.
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
    """The classes of one lcore of a result (docs/internals/node-protocol.md), or the reason why it has none."""
    if "timed_intervals" not in lcore:
        return NoClasses(f"accounting mode {lcore.get('accounting')} takes no timed intervals")
    of_loop = _told if "notices" in lcore else _swept_and_waited if "waiting" in lcore else _swept
    found = of_loop(lcore)
    return NoClasses(found) if isinstance(found, str) else found


def _swept_and_waited(lcore: Mapping[str, Any]) -> Classes | NoClasses | str:
    """Of a loop that polls all its queues in turn and waits when nothing comes: what it did not wait is as ever."""
    waiting = float(lcore["waiting"]["cycles"])
    total = float(lcore["cycles"]["total"])
    if waiting >= total:
        return "the lcore waited for all of the window"
    found = _swept({**lcore, "cycles": {"total": total - waiting}})
    return replace(found, total=total, waiting=waiting) if isinstance(found, Classes) else found


def _swept(lcore: Mapping[str, Any]) -> Classes | NoClasses | str:
    """Of a loop that polls all its queues in turn."""
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
    """Cycles of a window that need no slices: all; the loop's own, and their error; the instrumentation's."""

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
            "an empty poll cost something else when that was found"
        )
    misfit = busy_polls.all if isinstance(busy_polls.all, str) else busy_polls.all.value + waited - packets.value
    parts = _Parts(empty, known.loop, packets)
    if isinstance(busy_polls.all, MeasuredCycles):
        # Busy polls slow the empty polls after them. The interaction holds that; intervals may count it as empty.
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
    """The parts of so many cycles by what slices say of the packets; as they were where that is known no better."""
    if fitted.error >= parts.packets.error:
        return parts
    rest, empty = cycles - fitted.value, parts.empty
    if _SEPARABLE_SHARE * cycles < empty.error and abs(rest - parts.loop - empty.value) <= empty.error:
        return _Parts(MeasuredCycles(rest - parts.loop, fitted.error), parts.loop, fitted, True)
    if rest - empty.value < parts.loop:  # they contradict the window
        return parts
    return _Parts(empty, rest - empty.value, fitted, True)


def _told(lcore: Mapping[str, Any]) -> Classes | str:
    """Of a loop that is told which queue is next: nothing is estimated from slices.

    Waiting is measured whole. What being told costs is timed in random turns, as a latency; packets are all that is
    left.
    """
    counts = _counts(lcore)
    total, waiting = float(lcore["cycles"]["total"]), float(lcore["waiting"]["cycles"])
    empty = _of_turns(lcore["notices"]["empty"], float(counts[EMPTY]), total)
    told = _of_turns(lcore["notices"]["busy_polls"], float(counts[BUSY_POLLS]), total)
    if isinstance(empty, str):
        return f"polls that found nothing: {empty}"
    if isinstance(told, str):
        return f"notification of the next queue: {told}"
    instrumentation = float(lcore["sampling_cycles"]) + float(lcore["stamps"]) * float(lcore["stamp_cycles"])
    loop = float(lcore["event_cycles"]) + float(lcore["interruptions"]["cycles"]) + told.value
    left = total - waiting - empty.value - loop - instrumentation
    error = math.hypot(empty.error, told.error)
    none = MeasuredCycles(0.0, 0.0)
    polls = max(1.0, float(counts[EMPTY]))
    if counts[BUSY_POLLS] == 0:
        return Classes(
            total, empty, loop + left, instrumentation, none, none, 0.0, empty.value / polls, waiting=waiting
        )
    if left < -max(error, _SEPARABLE_SHARE * total):
        return f"notification of the next queue, timed per iteration, exceeds the window by {-100 * left / total:.1f} %"
    if error > MOST_ERROR_SHARE * total:
        return (
            f"the cost of notification of the next queue is known to +-{100 * error / total:.1f} % of the window only"
        )
    alone = "a notified loop has no empty polls between busy polls, so their interaction is not known"
    packets = MeasuredCycles(left, error)
    return Classes(total, empty, loop, instrumentation, packets, alone, alone, empty.value / polls, waiting=waiting)


def _of_turns(notice: Mapping[str, Any], turns: float, total: float) -> MeasuredCycles | str:
    """Cycles of `turns` turns from those that were timed."""
    if turns * MOST_POLL_CYCLES <= NEGLIGIBLE_SHARE * total:
        return MeasuredCycles(turns * MOST_POLL_CYCLES / 2, turns * MOST_POLL_CYCLES / 2)
    n = float(notice["samples"])
    if n < _MIN_TURNS:
        return f"only {n:.0f} of {turns:.0f} were timed: the window is too short"
    mean = float(notice["cycles"]) / n
    variance = max(0.0, float(notice["squared_cycles"]) / n - mean**2)
    return MeasuredCycles(
        turns * mean, turns * float(scipy.special.stdtrit(n - 1, 0.975)) * math.sqrt(variance / (n - 1))
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
    """Number of slices by block, and their sums of products as symmetric matrices."""
    table = np.asarray(rows, dtype=float)
    # In the order of its axes, on which it depends how sums over it are rounded.
    return table[:, 0], np.ascontiguousarray(table[:, _places(variables)])


@cache
def _places(variables: int) -> NDArray[np.int64]:
    """Where a row of sums, behind its number of slices, has each element of the symmetric matrix."""
    places = np.zeros((variables, variables), np.int64)
    rows, columns = np.triu_indices(variables)
    places[rows, columns] = places[columns, rows] = np.arange(1, len(rows) + 1)
    return places


def _half_width(replicates: Sums) -> float:
    """Of the 95 % interval of a jackknife's estimate (Efron, Tibshirani, An Introduction to the Bootstrap, ch. 11)."""
    n = len(replicates)
    deviation = np.sqrt((n - 1) / n * np.sum((replicates - replicates.mean()) ** 2))
    return float(scipy.special.stdtrit(n - 1, 0.975) * deviation)


def _empty_poll_cost(lcore: Mapping[str, Any], polls_per_cycle: float) -> tuple[MeasuredCycles, float] | str:
    """Cycles of an empty poll among empty polls: from slices that stayed empty, else as calibrated before the trial.

    With the cycles that it may take longer than one by itself, because of busy polls before it.
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
    return "no timed interval stayed empty, and the cost of an empty poll could not be calibrated because packets came"


def _aftermath(cycles: float, calibrated: float | None) -> float:
    """Return how much longer an empty poll of the intervals may take than one by itself, down to the calibration."""
    if calibrated is None or cycles <= (1 + _CALIBRATION_SCATTER) * calibrated:
        return 0.0
    return cycles - (1 - _CALIBRATION_SCATTER) * calibrated


def _pooled_cost(timed_intervals: Sums, sums: Sums) -> MeasuredCycles:
    """One slope over all blocks: right where the cost holds still over the window."""
    whole = sums.sum(0)
    return MeasuredCycles(float(_slopes(whole)), _half_width(_slopes(whole - sums[timed_intervals > 0])))


def _cost_by_blocks(lcore: Mapping[str, Any], timed_intervals: Sums, sums: Sums) -> MeasuredCycles | None:
    """A slope for each block, weighted with its polls: right also where the cost changes in the window.

    Slices begin at random moments, so each block's are a random sample of its polls: that the cost changes from block
    to block, or within one, is no error, and the interval is that of sampling.
    """
    if timed_intervals.min() < _MIN_BLOCK_TIMED_INTERVALS:
        return None
    weights = _polls_by_block(lcore, len(sums))
    half_width = float(scipy.special.ndtri(0.975)) * math.sqrt(
        float(weights**2 @ _slope_variances(timed_intervals, sums))
    )
    return MeasuredCycles(float(weights @ _slopes(sums)), half_width)


def _polls_by_block(lcore: Mapping[str, Any], blocks: int) -> Sums:
    """Shares of the window's polls in its blocks, from its series of sweeps; even ones where there is none."""
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
    """Cycles per poll from the sums of 1, polls and cycles, of one or many; 0 where all had as many polls."""
    n, x, y, xx, xy = sums[..., 0, 0], sums[..., 0, 1], sums[..., 0, 2], sums[..., 1, 1], sums[..., 1, 2]
    spread = n * xx - x * x
    known = spread > 1e-9 * n * xx
    slopes: Sums = np.where(known, (n * xy - x * y) / np.where(known, spread, 1), 0.0)
    return slopes


def _slope_variances(timed_intervals: Sums, sums: Sums) -> Sums:
    """Of _slopes(), with the noise of a slice in proportion to its polls; infinite where all had as many."""
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
        return f"timed intervals met about {met:.0f} of {lost:.0f} polls lost to another core: their cost is not known"
    coefficients, replicates = _with_replicates(sums[used], whole, empty_poll_cycles)
    return MeasuredCycles(lost * max(0.0, float(coefficients[LOST])), lost * _half_width(replicates[:, LOST]))


def _fitted(coefficients: Sums, counts: Sums) -> Any:
    """Cycles of all that has to do with packets, by the slices."""
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
    """Coefficients of the whole, and a row of them for each block that is left out."""
    found = _coefficients(np.concatenate([whole[None], whole - blocks]), empty_poll_cycles)
    return found[0], found[1:]


def _coefficients(sums: Sums, empty_poll_cycles: float) -> Sums:
    """Fit cycles, less those of the empty polls, by 1, transitions, busy polls, packets and lost polls.

    Args:
        sums: of products, a matrix for each row of the result.
        empty_poll_cycles: of one empty poll.
    """
    kept = [ONE, TRANSITIONS, BUSY_POLLS, PACKETS, LOST]
    normal = sums[:, kept][:, :, kept]
    target = sums[:, kept, CYCLES] - empty_poll_cycles * sums[:, kept, EMPTY]
    scale = np.sqrt(np.diagonal(normal, axis1=1, axis2=2))
    scale = np.where(scale == 0, 1, scale)
    left, sizes, right = np.linalg.svd(normal / (scale[:, :, None] * scale[:, None, :]))
    known = sizes > _SINGULAR * sizes[:, :1]  # all else is made of the others
    parts = np.einsum("bji,bj->bi", left, target / scale) / np.where(known, sizes, 1) * known
    found = np.zeros((len(sums), VARIABLES))
    found[:, kept] = np.einsum("bji,bj->bi", right, parts) / scale
    found[:, EMPTY] = empty_poll_cycles
    return found
