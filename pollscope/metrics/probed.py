# SPDX-License-Identifier: BSD-3-Clause
"""Divide the cycles of a foreign program's polling thread into classes, from what the probe plug-in sampled.

In short windows at random moments the plug-in stamps every RX poll. An interval lasts from the stamp of one poll to
that of the next: it contains the processing of the packets that the poll before returned, and then the poll itself.
There are four kinds, because each of the two polls was empty or busy. With e, the mean interval between two empty
polls (an empty poll among empty polls, loop control included), the useful cycles of a window are

    U = (all intervals with a busy poll) - e * (those of them that end in an empty poll)

and each interval is shortened by the cost of a stamp. Costs are fitted to the intervals: a busy poll costs a, and b
more per packet. An lcore saturates where every poll of its loaded queues is full.

Stamps slow the program while they are on. A program with spare time then polls less often and finds larger bursts, and
a saturated one receives fewer packets. The share of useful cycles at the program's own pace therefore follows from the
packets per second of the whole observation, which the ports count, and from the size of bursts at that pace. Packets
arrive in groups of a size that explains the sampled bursts (Poisson, if that size is 1), and the time from one poll of
a queue to the next follows from e, a and b. Half of this correction is counted as error.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from pollscope.base.units import counted, human_number, human_rate

Sums = NDArray[np.float64]
# Sums over the intervals of one part of the observation, in the order of a row. Kinds of interval: the first letter is
# the poll before (e empty, b busy), the second the poll that ends it. n: packets of the ending poll, m: packets of the
# poll before, c: cycles, x2: sum of squares, xy: sum of products.
COLUMNS = (
    *("windows", "sampled_cycles", "interruptions", "interrupted_cycles", "tx_bursts"),
    *("ee", "ee_c", "ee_c2"),
    *("eb", "eb_c", "eb_c2", "eb_n", "eb_n2", "eb_nc"),
    *("be", "be_c", "be_c2", "be_m", "be_m2", "be_mc"),
    *("bb", "bb_c", "bb_c2", "bb_n", "bb_n2", "bb_nc", "bb_m", "bb_m2", "bb_mc", "bb_mn"),
)
_PLACE = {name: place for place, name in enumerate(COLUMNS)}
_CONFIDENCE = 0.95
MIN_BLOCKS, MOST_BLOCKS = 4, 16
# With fewer intervals between empty polls, the cost of an empty poll is not estimated.
_MIN_EMPTY_POLLS = 30
# Upper bound of an empty poll, in cycles, if it could not be measured.
_MOST_EMPTY_POLL_CYCLES = 1000.0
# With a smaller standard deviation of burst sizes, costs per poll and per packet cannot be separated.
_LEAST_BURST_SPREAD = 0.05
# A saturation rate with a wider interval is absent.
_MOST_RELATIVE_ERROR = 0.25
# Groups in which packets arrive: the smallest size (regular arrivals), and steps of the two searches.
_LEAST_GROUP, _BISECTIONS, _STEPS = 0.01, 40, 100
# Bursts at least this full suggest that packets wait in the queues.
_FULL = 0.9


@dataclass(frozen=True)
class SampledValue:
    """Hold a value and the half-width of its 95 % interval."""

    value: float
    error: float


@dataclass(frozen=True)
class ProbedThread:
    """Hold what was sampled of one polling thread.

    Attributes:
        blocks: one row of COLUMNS per part of the observation.
        tsc_hz: frequency of the TSC.
        callback_cycles: cost of the stamp of an RX poll, in place.
        tx_callback_cycles: cost of the callback of a burst that is sent.
        max_burst: packets that one poll asks for.
        queues: RX queues that the thread polls.
        loaded_queues: those of them that had packets.
        rx_pps: packets per second over the whole observation; None where ports do not count them.
    """

    blocks: Sums
    tsc_hz: float
    callback_cycles: SampledValue
    tx_callback_cycles: float
    max_burst: float
    queues: float
    loaded_queues: float
    rx_pps: float | None = None


@dataclass(frozen=True)
class ProbedClasses:
    """Hold shares of all TSC cycles of a thread, and costs in cycles. A text is the reason why a value is absent.

    Attributes:
        useful: cycles for packets; the polling tax is the rest.
        interrupted: something else had the CPU.
        stamped: cost of the stamps, as a share of the sampled time.
        empty_poll_cycles: one empty poll among empty polls, loop control included.
        busy_poll_cycles, packet_cycles: a busy poll costs the former, and each packet the latter more.
        rx_pps: packets per second.
        burst: packets per busy poll.
        poll_rate_hz: polls per second at the program's own pace.
        empty_fraction: share of empty polls in these.
        saturation_pps: packet rate at which the thread has no time left.
        at_least_pps: lower bound of that rate, by the present cost of a packet; None if that is not known.
    """

    useful: SampledValue
    interrupted: float
    stamped: float
    empty_poll_cycles: SampledValue | str
    busy_poll_cycles: SampledValue | str
    packet_cycles: SampledValue | str
    rx_pps: float
    burst: float
    poll_rate_hz: float | str
    empty_fraction: float | str
    saturation_pps: SampledValue | str
    at_least_pps: float | None

    @property
    def tax(self) -> SampledValue:
        """Return the polling tax."""
        return SampledValue(1 - self.useful.value, self.useful.error)


def probed_classes(thread: ProbedThread) -> ProbedClasses | str:
    """Return the classes of a thread, or the reason why it has none."""
    blocks = _merged(thread.blocks)
    if len(blocks) < MIN_BLOCKS:
        return f"the thread polled in {len(blocks)} parts of the observation (at least {MIN_BLOCKS}): observe it longer"
    whole = _Totals(blocks.sum(axis=0), thread)
    useful = _useful(blocks, whole, thread)
    rate = whole.sampled_pps if thread.rx_pps is None else thread.rx_pps
    empty = _empty_poll(blocks, whole, thread)
    # One packet may seem to cost nothing beside empty polls that scatter.
    known = whole.packets > 0 and whole.cycles_per_packet > 0
    at_least = whole.capacity_hz / whole.cycles_per_packet if known else None
    busy_poll, packet = _costs(blocks, whole, thread)
    burst, poll_rate, empty_fraction = _polls(whole, rate, useful.value, empty)
    return ProbedClasses(
        useful,
        1 - whole.running_share,
        whole.stamp_cycles / whole["sampled_cycles"],
        empty,
        busy_poll,
        packet,
        rate,
        burst,
        poll_rate,
        empty_fraction,
        _saturation(blocks, whole, thread, at_least),
        at_least,
    )


class OwnPace(NamedTuple):
    """The pace of a thread: share of useful cycles, cycles per poll, packets per busy poll, share of empty polls."""

    useful_share: float
    poll_cycles: float
    burst: float
    empty_fraction: float

    def scaled(self, running_share: float) -> "OwnPace":
        """Return the pace of a thread that runs for a share of the time."""
        return self._replace(useful_share=self.useful_share * running_share)


class _Costs(NamedTuple):
    empty: float
    busy: float
    packet: float


def _burst(group: float, packets: float) -> float:
    """Return the packets per busy poll if groups of packets arrive at random, and `packets` per poll on average."""
    groups = packets / group
    return max(1.0, packets / -math.expm1(-groups) if groups > 0 else group)


def _group_size(burst: float, packets: float) -> float:
    """Return the size of groups that explains the packets per busy poll and per poll."""
    low, high = _LEAST_GROUP, max(2 * _LEAST_GROUP, burst)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _burst(middle, packets) < burst else (low, middle)
    return (low + high) / 2


def _own_pace(costs: _Costs, packets_per_cycle: float, loaded: float, group: float, max_burst: float) -> OwnPace:
    """Return the pace at which a thread with these costs polls; `loaded` is the share of its queues with packets."""
    # From full bursts downwards: at the rate of saturation every size of burst would keep up, and queues are full.
    cycles = costs.empty * (1 - loaded) + loaded * (costs.busy + costs.packet * max_burst)
    useful, burst, busy = 0.0, 1.0, 0.0
    for _ in range(_STEPS):
        packets = packets_per_cycle * cycles / loaded
        burst = min(max_burst, _burst(group, packets))
        busy = loaded * min(1.0, packets / burst)
        useful = max(0.0, busy * (costs.busy + costs.packet * burst))
        cycles = (cycles + costs.empty * (1 - busy) + useful) / 2
    return OwnPace(useful / max(cycles, 1e-9), cycles, burst, 1 - busy)


class _Totals:
    """Sums over several blocks, and values derived from them."""

    def __init__(self, row: Sums, thread: ProbedThread) -> None:
        self._row, self._thread = row, thread
        stamp = thread.callback_cycles.value
        self.packets = self["eb_n"] + self["bb_n"]
        self.busy_polls = self["eb"] + self["bb"]
        self.burst = self.packets / self.busy_polls if self.busy_polls else 0.0
        sent_cycles = thread.tx_callback_cycles * self["tx_bursts"]
        self.stamp_cycles = stamp * (self["ee"] + self["eb"] + self["be"] + self["bb"]) + sent_cycles
        self.empty_poll_cycles = max(0.0, self["ee_c"] / self["ee"] - stamp) if self["ee"] >= _MIN_EMPTY_POLLS else 0.0
        busy_cycles = self["eb_c"] + self["be_c"] + self["bb_c"] - sent_cycles
        busy_cycles -= stamp * (self["eb"] + self["be"] + self["bb"])
        self.useful_cycles = max(0.0, busy_cycles - self.empty_poll_cycles * self["be"])
        # Bursts are sent after a busy poll.
        self._after_busy_cycles = stamp + sent_cycles / max(1.0, self["be"] + self["bb"])

    def __getitem__(self, name: str) -> float:
        return float(self._row[_PLACE[name]])

    @property
    def sampled_pps(self) -> float:
        return self.packets / self["sampled_cycles"] * self._thread.tsc_hz

    @property
    def capacity_hz(self) -> float:
        """Return the cycles per second that interruptions leave."""
        return self._thread.tsc_hz * self.running_share

    @property
    def others_cycles(self) -> float:
        """Return the cycles for queues without load per poll of a loaded one."""
        loaded = max(1.0, self._thread.loaded_queues)
        return self.empty_poll_cycles * max(0.0, self._thread.queues - loaded) / loaded

    @property
    def cycles_per_packet(self) -> float:
        """Return the cycles per packet if all polls of loaded queues were as busy as those that were."""
        return self.useful_cycles / self.packets + self.others_cycles / self.burst

    @property
    def least_useful_share(self) -> float:
        """Return the share of useful cycles while stamps slow the program."""
        return self.useful_cycles / self["sampled_cycles"]

    @property
    def stamped_useful_share(self) -> float:
        """Return the share of useful cycles without the stamps, if these leave the packets per poll as they are."""
        return self.useful_cycles / max(1.0, self["sampled_cycles"] - self.stamp_cycles)

    @property
    def running_share(self) -> float:
        """Return the share of cycles in which the thread ran."""
        return 1 - self["interrupted_cycles"] / self["sampled_cycles"]

    def by_rate(self) -> float:
        """Return the share of useful cycles at the rate of the whole observation and the sampled size of bursts."""
        rate = self._thread.rx_pps
        if rate is None or not self.packets:
            full = self.burst >= _FULL * self._thread.max_burst
            return (self.least_useful_share + self.stamped_useful_share) / 2 if full else self.least_useful_share
        by_ports = self.useful_cycles / self.packets * rate / self._thread.tsc_hz
        return min(by_ports, self.stamped_useful_share)

    def useful_share(self) -> float:
        """Return the share of useful cycles at the program's own pace."""
        pace = self.own_pace()
        return self.by_rate() if pace is None else pace.useful_share

    def own_pace(self) -> "OwnPace | None":
        """Return the pace of the thread without stamps; None where costs cannot be fitted."""
        found = self.fitted()
        if found is None or not self.packets:
            return None
        rate = self.sampled_pps if self._thread.rx_pps is None else self._thread.rx_pps
        polls = self["ee"] + self["eb"] + self["be"] + self["bb"]
        loaded = self._thread.loaded_queues / self._thread.queues
        empty = self.empty_poll_cycles or max(0.0, found[0])
        group = _group_size(self.burst, self.packets / (polls * loaded))
        return _own_pace(_Costs(empty, *found), rate / self.capacity_hz, loaded, group, self._thread.max_burst).scaled(
            self.running_share
        )

    def fitted(self) -> tuple[float, float] | None:
        """Return the cycles per busy poll and per packet; None where burst sizes are too alike."""
        if self.busy_polls < 2:
            return None
        spread = (self["eb_n2"] + self["bb_n2"]) / self.busy_polls - self.burst**2
        if spread < _LEAST_BURST_SPREAD**2:
            return None
        stamp, empty = self._thread.callback_cycles.value, self.empty_poll_cycles
        after = self._after_busy_cycles
        # Unknowns: of the ending poll 1 and n, of the poll before 1 and m.
        ending = [[self["eb"] + self["bb"], self.packets], [self.packets, self["eb_n2"] + self["bb_n2"]]]
        before_n, before_n2 = self["be_m"] + self["bb_m"], self["be_m2"] + self["bb_m2"]
        before = [[self["be"] + self["bb"], before_n], [before_n, before_n2]]
        both = np.array([[self["bb"], self["bb_m"]], [self["bb_n"], self["bb_mn"]]])
        cycles = [
            self["eb_c"] - stamp * self["eb"] + self["bb_c"] - after * self["bb"],
            self["eb_nc"] - stamp * self["eb_n"] + self["bb_nc"] - after * self["bb_n"],
            self["be_c"] - (after + empty) * self["be"] + self["bb_c"] - after * self["bb"],
            self["be_mc"] - (after + empty) * self["be_m"] + self["bb_mc"] - after * self["bb_m"],
        ]
        matrix = np.block([[np.array(ending), both], [both.T, np.array(before)]])
        # Where every poll is busy, receiving and processing cannot be separated; their sum can.
        receive, receive_more, process, process_more = np.linalg.lstsq(matrix, np.array(cycles), rcond=1e-12)[0]
        return float(receive + process), float(receive_more + process_more)

    def saturation_pps(self) -> float:
        """Return the packet rate of full bursts from all loaded queues; NaN where it is not known."""
        found = self.fitted()
        if found is None:
            if self.burst < _FULL * self._thread.max_burst:
                return math.nan
            per_burst = self.useful_cycles / self.busy_polls * self._thread.max_burst / self.burst
        else:
            per_burst = found[0] + found[1] * self._thread.max_burst
        cycles = per_burst + self.others_cycles
        return self.capacity_hz * self._thread.max_burst / cycles if cycles > 0 else math.nan


def _merged(blocks: Sums) -> Sums:
    """Return at most MOST_BLOCKS blocks, none of which is without a sampled cycle."""
    kept = blocks[blocks[:, _PLACE["sampled_cycles"]] > 0]
    if len(kept) <= MOST_BLOCKS:
        return kept
    return np.array([part.sum(axis=0) for part in np.array_split(kept, MOST_BLOCKS)])


def _jackknife(blocks: Sums, thread: ProbedThread, of: Callable[[_Totals], float]) -> float:
    """Return the half-width of the 95 % interval of a function of the sums; NaN where a part has no value."""
    n, total = len(blocks), blocks.sum(axis=0)
    without = np.array([of(_Totals(total - block, thread)) for block in blocks])
    deviation = math.sqrt((n - 1) / n * float(np.square(without - without.mean()).sum()))
    return float(scipy.stats.t.ppf((1 + _CONFIDENCE) / 2, n - 1)) * deviation


def _useful(blocks: Sums, whole: _Totals, thread: ProbedThread) -> SampledValue:
    share = min(whole.useful_share(), whole.running_share)
    errors = [
        _jackknife(blocks, thread, _Totals.useful_share),
        _by_stamp(blocks, thread, _Totals.useful_share),
        (share - whole.by_rate()) / 2,
    ]
    if thread.rx_pps is None and whole.burst >= _FULL * thread.max_burst:
        errors.append((whole.stamped_useful_share - whole.least_useful_share) / 2)
    if thread.rx_pps and not whole.packets:
        errors.append(min(1.0, thread.rx_pps * _MOST_EMPTY_POLL_CYCLES / thread.tsc_hz))
    if whole["ee"] < _MIN_EMPTY_POLLS:
        errors.append(_MOST_EMPTY_POLL_CYCLES * whole["be"] / whole["sampled_cycles"])
    return SampledValue(share, math.hypot(*errors))


def _by_stamp(blocks: Sums, thread: ProbedThread, of: Callable[[_Totals], float]) -> float:
    """Return by how much the error of the calibrated stamp moves a value."""
    stamp, total = thread.callback_cycles, blocks.sum(axis=0)
    moved = [
        of(_Totals(total, ProbedThread(**{**vars(thread), "callback_cycles": SampledValue(stamp.value + by, 0.0)})))
        for by in (-stamp.error, stamp.error)
    ]
    return abs(moved[1] - moved[0]) / 2


def _empty_poll(blocks: Sums, whole: _Totals, thread: ProbedThread) -> SampledValue | str:
    if whole["ee"] < _MIN_EMPTY_POLLS:
        count = human_number(whole["ee"])
        return f"{count} sampled empty polls follow another one (at least {_MIN_EMPTY_POLLS})"
    error = _jackknife(blocks, thread, lambda totals: totals.empty_poll_cycles)
    return SampledValue(whole.empty_poll_cycles, math.hypot(error, thread.callback_cycles.error))


def _costs(blocks: Sums, whole: _Totals, thread: ProbedThread) -> tuple[SampledValue | str, SampledValue | str]:
    """Return the cost of a busy poll, and of each of its packets."""
    found = whole.fitted()
    if found is None:
        alike = (
            f"bursts had {human_number(whole.burst)} packets with little spread" if whole.packets else "no packet came"
        )
        reason = f"{alike}: costs per poll and per packet cannot be separated"
        return reason, reason
    estimates = []
    for place, value in enumerate(found):

        def cost(totals: _Totals, place: int = place) -> float:
            again = totals.fitted()
            return math.nan if again is None else again[place]

        error = math.hypot(_jackknife(blocks, thread, cost), _by_stamp(blocks, thread, cost))
        estimates.append(SampledValue(value, error))
    if any(math.isnan(each.error) for each in estimates):
        reason = "burst sizes differ in a few parts of the observation only: observe it longer"
        return reason, reason
    return estimates[0], estimates[1]


def _polls(
    whole: _Totals, rate: float, useful: float, empty: SampledValue | str
) -> tuple[float, float | str, float | str]:
    """Return packets per busy poll, polls per second, and the share of empty ones, all at the thread's own pace."""
    pace = whole.own_pace()
    burst = whole.burst if pace is None else pace.burst
    busy = rate / burst if burst else 0.0
    if isinstance(empty, str):
        if whole["ee"] + whole["be"] > 0:
            return burst, empty, empty
        return burst, busy, 0.0
    if empty.value <= empty.error:
        reason = (
            f"an empty poll takes {human_number(empty.value)} +-{human_number(empty.error, 2)} cycles, which is known "
            "too badly to estimate the polls without stamps"
        )
        return burst, reason, reason
    empties = max(0.0, whole.running_share - useful) * whole.capacity_hz / whole.running_share / empty.value
    return burst, empties + busy, empties / (empties + busy) if empties + busy else 0.0


def _saturation(blocks: Sums, whole: _Totals, thread: ProbedThread, at_least: float | None) -> SampledValue | str:
    if at_least is None:
        came = f"{counted(whole.packets, 'packet')} in the samples" if whole.packets else "no packet came"
        return f"{came}, so the cost of a packet is not known"
    value = whole.saturation_pps()
    if math.isnan(value):
        return (
            f"bursts had {human_number(whole.burst)} packets with little spread, so the cost of full ones is unknown; "
            f"it saturates at {human_rate(at_least)} or more"
        )
    errors = [_jackknife(blocks, thread, _Totals.saturation_pps), _by_stamp(blocks, thread, _Totals.saturation_pps)]
    error = math.hypot(*errors)
    if not error <= _MOST_RELATIVE_ERROR * value:
        return (
            f"known only to {human_rate(value)} +-{human_rate(error) if math.isfinite(error) else 'any rate'}; "
            f"it saturates at {human_rate(at_least)} or more"
        )
    return SampledValue(value, error)
