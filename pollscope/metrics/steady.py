# SPDX-License-Identifier: BSD-3-Clause
"""Decide whether the DUT had settled when the window opened, from the parts of the window that the node reports.

Two rates are examined, over the time that the DUT's cores ran: packets received, and sweeps (the speed of the loop).
Parts in which the host took a core away say nothing about a warm-up and are left out of the test. Rates are computed
after the end of the warm-up; shares of cycles, histograms and percentiles are not kept by parts and include it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pollscope.base.errors import UsageError
from pollscope.base.units import human_number, human_share, human_time
from pollscope.metrics.record import Flag, NotMeasured, Part, TrialObservations, at
from pollscope.stats.change_point import FEWEST_VALUES, ChangePoint, early_change, median
from pollscope.stats.estimates import bimodality_warning

COUNTERS = ("cycles", "rx_packets", "tx_packets", "sweeps", "interrupted_cycles")
# A part with a larger share of time taken away is left out of the test, and so is the next, which drains the backlog.
_MOST_TAKEN_AWAY = 0.05
# A change of level after this share of the window is not a warm-up: rates keep the whole window, and two levels are
# reported.
_LONGEST_WARM_UP = 1 / 3
RATES = {"rx_packets": "packets received per second", "sweeps": "sweeps per second"}
Columns = Mapping[str, npt.NDArray[np.float64]]


@dataclass(frozen=True)
class WarmUp:
    """Hold the part of the window that was still warm-up.

    Attributes:
        cut_s: seconds from the window's start; 0: none.
        parts: that many parts of the window.
        text: a sentence with numbers; empty when there is nothing to say.
    """

    cut_s: float
    parts: int
    text: str


def _series_of(trial: TrialObservations) -> list[Columns]:
    """Return the parts of the window of each DUT lcore that receives from a port, as arrays of equal length.

    Raises:
        NotMeasured: the node did not report them, or the lcores' parts do not coincide.
        UsageError: they contradict the protocol.
    """
    lcores = list(trial.once(_columns_by_lcore).values())
    if any(len(columns["cycles"]) == 0 for columns in lcores):
        raise NotMeasured("the window was too short for parts")
    if len({len(columns["cycles"]) for columns in lcores}) > 1:
        raise NotMeasured("the parts of the lcores' windows do not coincide: a host gap removed some of them")
    return lcores


def _columns_by_lcore(trial: TrialObservations) -> dict[str, Columns]:
    """Return the parts of each DUT lcore, by its place in the record."""
    return {lcore.path: _columns(at(lcore, ("series",))) for lcore in trial.lcores}


def _columns(part: Part) -> Columns:
    columns = {name: part[name].array() for name in COUNTERS}
    if len({len(values) for values in columns.values()}) > 1:
        raise UsageError("its arrays have different lengths", part.path)
    return columns


def warm_up(trial: TrialObservations) -> WarmUp:
    """Test the window of a trial.

    Raises:
        NotMeasured: the window cannot be tested, with the reason.
    """
    lcores, quiet, found = trial.once(_changes)
    early = [(name, change) for name, change in found if change.count <= _LONGEST_WARM_UP * quiet.sum()]
    if not early:
        return WarmUp(0.0, 0, "")
    name, change = max(early, key=lambda each: each[1].count)
    parts = int(np.flatnonzero(quiet)[change.count])
    cut_s = float(np.mean([columns["cycles"][:parts].sum() for columns in lcores])) / trial.tsc_hz
    return WarmUp(cut_s, parts, _text(name, change, cut_s))


def _changes(trial: TrialObservations) -> tuple[list[Columns], npt.NDArray[np.bool_], list[tuple[str, ChangePoint]]]:
    """Return the parts, a mask of those without host gaps, and the changes of level among those."""
    lcores = _series_of(trial)
    quiet = _quiet(lcores)
    if quiet.sum() < FEWEST_VALUES:
        raise NotMeasured(f"only {quiet.sum()} parts of the window are free of host gaps: too few to test the warm-up")
    found = [(name, change) for name in RATES if (change := early_change(rates(lcores, name)[quiet]))]
    return lcores, quiet, found


def _text(name: str, change: ChangePoint, cut_s: float) -> str:
    return (
        f"the warm-up had not ended: in the first {human_time(cut_s)} of the window {RATES[name]} were "
        f"{human_share(abs(change.change))} {'above' if change.change > 0 else 'below'} the rest (rank test, "
        f"z = {human_number(change.z, 2)}); rates leave that part out, cycle shares and latency still contain it"
    )


def rates(lcores: Sequence[Columns], name: str) -> npt.NDArray[np.float64]:
    """Return counts per cycle in which the lcore ran, summed over lcores; one value per part."""
    ran = [np.maximum(columns["cycles"] - columns["interrupted_cycles"], 1.0) for columns in lcores]
    total = sum(columns[name] / cycles for columns, cycles in zip(lcores, ran, strict=True))
    return np.asarray(total)


def rate_after_cut(
    trial: TrialObservations, parts: int, name: str, running: bool, of: Sequence[Part] | None = None
) -> float:
    """Return a rate after the first parts of the window, as a multiple of the rate over the whole window.

    Args:
        trial: with parts.
        parts: how many are left out, fewer than there are.
        name: of the counter.
        running: a rate of the time in which the lcores ran, instead of all time.
        of: the lcores that the rate is of; default: all.
    """
    whole = behind = 0.0
    by_lcore = trial.once(_columns_by_lcore)
    for columns in [by_lcore[lcore.path] for lcore in (trial.lcores if of is None else of)]:
        cycles = columns["cycles"] - columns["interrupted_cycles"] if running else columns["cycles"]
        whole += columns[name].sum() / max(1.0, cycles.sum())
        behind += columns[name][parts:].sum() / max(1.0, cycles[parts:].sum())
    return behind / whole if whole else 1.0


def _quiet(lcores: Sequence[Columns]) -> npt.NDArray[np.bool_]:
    cycles = [np.maximum(columns["cycles"], 1.0) for columns in lcores]
    taken = np.max([columns["interrupted_cycles"] / c for columns, c in zip(lcores, cycles, strict=True)], axis=0)
    # A part much longer than the others contains a gap, whether or not the node noticed it.
    long = np.max([c / median(c) for c in cycles], axis=0) > 1.5
    disturbed = (taken > _MOST_TAKEN_AWAY) | long
    after = np.concatenate([[False], disturbed[:-1]])
    return np.asarray(~(disturbed | after))


def _two_levels(trial: TrialObservations) -> str:
    """Return a sentence if a rate had two levels in the window, as two modes or in sequence; else empty.

    Raises:
        NotMeasured: the window cannot be tested, with the reason.
    """
    lcores, quiet, changes = trial.once(_changes)
    for name, words in RATES.items():
        if text := bimodality_warning(rates(lcores, name)[quiet] * trial.tsc_hz):
            return f"{words} had two levels within the window: {text}"
    for name, change in changes:
        if change.count > _LONGEST_WARM_UP * quiet.sum():
            return (
                f"{RATES[name]} changed their level within the window, too late for a warm-up: before, they were "
                f"{human_share(abs(change.change))} {'above' if change.change > 0 else 'below'} what they were after"
            )
    return ""


def steadiness_flags(trial: TrialObservations) -> list[Flag]:
    """Return the flags `warm-up` and `two-levels` of a trial, as `{name, text}`."""
    flags: list[Flag] = []
    try:
        found = warm_up(trial)
        if found.text:
            flags.append({"name": "warm-up", "text": found.text})
        levels = "" if found.text else _two_levels(trial)
        if levels:
            flags.append({"name": "two-levels", "text": levels})
    except NotMeasured:
        return []  # the metric warmup_left_ns is absent with the reason
    return flags
