# SPDX-License-Identifier: BSD-3-Clause
"""Search for the highest rate that a DUT forwards at given loss ratios, by the MLRsearch package.

The algorithm is that of draft-ietf-bmwg-mlrsearch as the package implements it (draft 05 in version 1.2.1). This module
gives the package a range of loads and only trials that are valid for their load, and returns how the search ended.
Trials come from a function; the module does not depend on nodes.

A trial is not valid for its load if the generator did not send what was due: unsent packets must not count as lost.
Such a trial is repeated, and a generator that falls short repeatedly ends the search without a result. The search
depends only on its settings and the counts of its trials, not on the clock. An interrupted search is therefore replayed
with the recorded counts and continues after them.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pollscope.base.units import human_rate, human_share, human_time

if TYPE_CHECKING:
    from pollscope.spec.model import Spec

# How often a trial with too many unsent packets is made. A host that takes a core away now and then spares one of them.
TRIES = 5
# A saturated DUT leaves packets in the ring until the NIC runs out of descriptors. If it misses less than this share,
# it kept up, and the generator was the limit.
SATURATED_MISSED_SHARE = 0.01
# The search begins this far above the rate of the saturated DUT, because overload can lower that rate.
_HEADROOM = 1.5
# A generator that paces less than this times the rate of the saturated DUT cannot show the DUT's limit.
_LEAST_HEADROOM = 1.02
# The rate that a generator really reached is requested again, reduced by this factor.
_BACK_OFF = 0.98
# Lowest load of a search as a share of the highest: MLRsearch works on a logarithmic grid and needs one above 0.
_LOWEST_SHARE = 1e-3
# CSIT decides about a load by 21 trials of 1 s.
_DURATION_SUM_WINDOWS = 21
# The expected number of trials comes from a search on a model whose capacity varies by this share from trial to trial.
MODEL_NOISE, MODEL_RATE_PPS, MODEL_SEED = 0.004, 1e6, 1


@dataclass(frozen=True)
class Settings:
    """The goals and limits of a search.

    Attributes:
        loss_ratios: one goal each, 0..1.
        exceed_ratio: share of the time at a load in which trials may lose more than the goal allows.
        width: how close below the lowest failing load the result lies, as a share of it.
        window_ns: length of a trial.
        duration_sum_ns: trial time that decides about a load.
        at_most_ns: a search that needs more trial time is given up.
        highest_pps: no load above this is tried; None: found by saturating the DUT.
        most_unsent: a trial with a larger share of unsent packets is not valid for its load.
    """

    loss_ratios: tuple[float, ...]
    exceed_ratio: float
    width: float
    window_ns: int
    duration_sum_ns: int
    at_most_ns: int
    highest_pps: float | None = None
    most_unsent: float = 0.01


@dataclass(frozen=True)
class SearchCounts:
    """The counts of one trial of a search, with its ramp-up, read after the drain.

    Attributes:
        sent: packets that left the generator.
        lost: of these, packets that did not come back because of the DUT.
        unsent_share: packets that were due and not sent, as a share of those due.
        offered_pps: rate that was really sent.
        received_pps: rate that the DUT received.
        missed_share: packets that found no descriptor at the DUT, as a share of those that arrived there.
        gap_share: share of the time in which the generator's core was taken away.
    """

    sent: int
    lost: int
    unsent_share: float = 0.0
    offered_pps: float = 0.0
    received_pps: float = 0.0
    missed_share: float = 0.0
    gap_share: float = 0.0


def settings_of(spec: "Spec") -> Settings:
    """Return the settings of a spec with `maximum.method: mlrsearch`."""
    maximum = spec.maximum
    window_ns = maximum.window_ns or spec.trial.window_ns
    return Settings(
        loss_ratios=maximum.loss_ratios,
        exceed_ratio=maximum.exceed_ratio,
        width=maximum.width,
        window_ns=window_ns,
        duration_sum_ns=maximum.duration_sum_ns or _DURATION_SUM_WINDOWS * window_ns,
        at_most_ns=maximum.at_most_ns,
        highest_pps=maximum.highest_pps,
        most_unsent=maximum.most_unsent,
    )


# Makes one trial: load in packets per second, or None for as fast as the generator can; window in ns.
Measure = Callable[[float | None, int], SearchCounts]


@dataclass(frozen=True)
class GoalFound:
    """The result for one loss ratio; `throughput_pps` is None, with a reason, if no rate was found."""

    loss_ratio: float
    throughput_pps: float | None
    lower_pps: float | None
    upper_pps: float | None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the counts in the form of a trial record."""
        return {**vars(self), "reason": self.reason or None}


@dataclass(frozen=True)
class Found:
    """How a search ended: `outcome` is `found`, `generator-bound` or `out-of-time`, the latter two with a reason."""

    outcome: str
    goals: tuple[GoalFound, ...]
    reason: str = ""
    highest_pps: float | None = None


class _Ended(Exception):
    """The search ends without a result."""

    def __init__(self, outcome: str, reason: str) -> None:
        super().__init__(reason)
        self.outcome, self.reason = outcome, reason


def search(settings: Settings, measure: Measure) -> Found:
    """Search for every loss ratio of the settings at once.

    Args:
        settings: goals and limits.
        measure: makes a trial; its exceptions are not caught and end the search.
    """
    trials = _Trials(settings, measure)
    highest: float | None = None
    try:
        highest = _highest(settings, trials)
        goals = _search_between(settings, highest, trials)
    except _Ended as ended:
        none = tuple(GoalFound(ratio, None, None, None, ended.reason) for ratio in settings.loss_ratios)
        return Found(ended.outcome, none, ended.reason, highest)
    bound = [goal for goal in goals if goal.throughput_pps is None and goal.upper_pps is None]
    if bound:
        return Found("generator-bound", goals, bound[0].reason, highest)
    return Found("found", goals, "", highest)


class _Trials:
    """Trials for the package: only those that are valid for their load, within the allowed time."""

    def __init__(self, settings: Settings, measure: Measure) -> None:
        self._settings, self._measure = settings, measure
        self._spent_ns = 0
        self._sent_shares: dict[float, list[float]] = {}

    def once(self, load_pps: float | None) -> SearchCounts:
        """Make one trial, whether or not the generator reaches the load."""
        self._spent_ns += self._settings.window_ns
        if self._spent_ns > self._settings.at_most_ns:
            most = human_time(self._settings.at_most_ns / 1e9)
            raise _Ended("out-of-time", f"the search was not done after {most} of trials (maximum.at_most)")
        return self._measure(load_pps, self._settings.window_ns)

    def until_good(self, load_pps: float) -> list[SearchCounts]:
        """Repeat a trial until the generator sends what is due, at most TRIES times; the last trial decides."""
        tried: list[SearchCounts] = []
        while len(tried) < TRIES and not (tried and tried[-1].unsent_share <= self._settings.most_unsent):
            tried.append(self.once(load_pps))
        return tried

    def good(self, load_pps: float) -> SearchCounts:
        """Return a trial in which the generator sent what was due."""
        tried = self.until_good(load_pps)
        if tried[-1].unsent_share > self._settings.most_unsent:
            raise _Ended("generator-bound", _behind(load_pps, tried))
        return tried[-1]

    def sent_share(self, load_pps: float) -> float:
        """Return the mean share of a load that was really sent."""
        return fmean(self._sent_shares[load_pps])

    def loss(self, load_pps: float) -> tuple[int, int]:
        """Return the packets sent at a load, and how many of them were lost."""
        counts = self.good(load_pps)
        if counts.sent == 0:
            text = f"no packet was sent at {human_rate(load_pps)}: the window is too short"
            raise _Ended("generator-bound", text)
        self._sent_shares.setdefault(load_pps, []).append(1 - counts.unsent_share)
        return counts.sent, counts.lost


def _behind(load_pps: float, tried: Sequence[SearchCounts]) -> str:
    best = min(tried, key=lambda counts: counts.unsent_share)
    text = (
        f"the generator could not send {human_rate(load_pps)}: in {len(tried)} trials it left at least "
        f"{human_share(best.unsent_share)} of the packets unsent"
    )
    if best.gap_share > best.unsent_share / 2:
        text += f", and its core was taken away for {human_share(best.gap_share)} of the time"
    return text


def _highest(settings: Settings, trials: _Trials) -> float:
    """Return the load from which the search goes down: above the DUT's rate, and within the generator's."""
    if settings.highest_pps is not None:
        trials.good(settings.highest_pps)
        return settings.highest_pps
    full = trials.once(None)
    if full.received_pps == 0:
        raise _Ended("generator-bound", "the DUT took no packet when it was saturated: the window is too short")
    if full.missed_share < SATURATED_MISSED_SHARE:
        raise _Ended(
            "generator-bound",
            f"of {human_rate(full.offered_pps)}, all that the generator can send, the DUT missed "
            f"{human_share(full.missed_share)}, so its limit lies higher",
        )
    load = min(full.offered_pps, _HEADROOM * full.received_pps)
    reason = f"{human_rate(full.offered_pps)}, all that the generator can send, is too little more"
    while load >= _LEAST_HEADROOM * full.received_pps:
        tried = trials.until_good(load)
        if tried[-1].unsent_share <= settings.most_unsent:
            return load
        reason = _behind(load, tried)
        # Pacing costs a generator more than sending as fast as it can.
        load = min(load, max(counts.offered_pps for counts in tried)) * _BACK_OFF
    raise _Ended("generator-bound", f"{reason}; the DUT took {human_rate(full.received_pps)} when it was saturated")


def _search_between(settings: Settings, highest: float, trials: _Trials) -> tuple[GoalFound, ...]:
    from pollscope.plan.mlrsearch import search_between  # takes 1 to 2 s to load

    found = search_between(settings, highest * _LOWEST_SHARE, highest, trials.loss)
    return tuple(_goal_found(bounds, highest, trials) for bounds in found)


def _goal_found(bounds: GoalFound, highest: float, trials: _Trials) -> GoalFound:
    ratio, low, high = bounds.loss_ratio, bounds.lower_pps, bounds.upper_pps
    loss = f"a loss ratio of {human_share(ratio, 6)}"
    if low is None:
        lowest = human_rate(highest * _LOWEST_SHARE)
        return GoalFound(ratio, None, None, high, f"no rate from {lowest} on was forwarded with at most {loss}")
    if high is None:
        reason = f"the highest rate of the search, {human_rate(highest)}, was forwarded with at most {loss}"
        return GoalFound(ratio, None, low, None, reason)
    # Counted in packets that were really sent: with 1 % unsent, only 99 % of the load was forwarded.
    return GoalFound(ratio, (bounds.throughput_pps or 0.0) * trials.sent_share(low), low, high)


@cache
def expected_trials(settings: Settings) -> int:
    """Return how many trials such a search needs on a DUT whose capacity varies a little from trial to trial."""
    chance = random.Random(MODEL_SEED)
    made = 0

    def model(load_pps: float | None, window_ns: int) -> SearchCounts:
        nonlocal made
        made += 1
        capacity = MODEL_RATE_PPS * (1 - abs(chance.gauss(0, MODEL_NOISE)))
        load = 4 * MODEL_RATE_PPS if load_pps is None else load_pps
        sent = round(load * window_ns / 1e9)
        lost = max(0, sent - int(capacity * window_ns / 1e9))
        return SearchCounts(sent, lost, 0.0, load, min(load, capacity), lost / sent if sent else 0.0)

    search(settings, model)
    return made
