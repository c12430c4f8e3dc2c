# SPDX-License-Identifier: BSD-3-Clause
"""Estimate means of repeats at two levels, trials within runs (Kalibera & Jones, Rigorous benchmarking, ISMM 2013).

Trials of one run share its memory addresses, its CPUs and its host state. Therefore the interval of a mean over several
runs counts runs. More trials per run reduce only the part of the scatter that trials cause.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pollscope.stats.estimates import CONFIDENCE, NO_LIMITS, Estimate, Values, mean_estimate

FEWEST_RUNS = 2


@dataclass(frozen=True)
class Hierarchy:
    """Hold the estimate of repeats at two levels.

    Attributes:
        mean: mean of the runs' means, with an interval over the runs (estimates.mean_estimate).
        between_runs: standard deviation between runs (T_2 of the source); 0 if the scatter of trials explains it.
        between_trials: standard deviation of the trials within a run (T_1); nan with one trial per run.
        trials_a_run: harmonic mean of the trials per run.
        optimal_trials: trials per run that narrow the interval most for their time; None if runs do not scatter (fewer
            trials gain nothing) or if it is unknown.
    """

    mean: Estimate
    between_runs: float
    between_trials: float
    trials_a_run: float
    optimal_trials: int | None


def hierarchy(
    runs: Sequence[Sequence[float]],
    run_over_trial_time: float = 1.0,
    limits: tuple[float, float] = NO_LIMITS,
) -> Hierarchy:
    """Estimate the mean and the parts of the scatter.

    All runs have the same weight, however many trials they have.

    Args:
        runs: the trials of each run; at least two runs with at least one finite value each.
        run_over_trial_time: time to start a run, as a multiple of the time of a trial.
        limits: range of values that the quantity can have.

    Raises:
        ValueError: fewer than two runs, a run without trials, a value that is no number, or a time that is not above 0.
    """
    samples = [np.asarray(run, dtype=float) for run in runs]
    if len(samples) < FEWEST_RUNS or not all(len(each) for each in samples):
        raise ValueError(f"needs {FEWEST_RUNS} runs and a trial in each, not {[len(each) for each in samples]} trials")
    if not all(np.isfinite(each).all() for each in samples) or not 0 < run_over_trial_time < math.inf:
        raise ValueError("needs finite values, and a time above 0")
    means = np.array([each.mean() for each in samples])
    of_means = float(means.var(ddof=1))
    trials = len(samples) / sum(1 / len(each) for each in samples)
    within = _within(samples)
    between = of_means - (0.0 if math.isnan(within) else within / trials)
    return Hierarchy(
        mean_estimate(means.tolist(), CONFIDENCE, limits),
        math.sqrt(max(0.0, between)),
        math.sqrt(within),
        trials,
        _optimal(within, between, run_over_trial_time),
    )


def _within(samples: Sequence[Values]) -> float:
    """Return the variance of the trials of one run, pooled over runs; nan if no run has two."""
    freedom = sum(len(each) - 1 for each in samples)
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in samples)
    return squares / freedom if freedom else math.nan


def _optimal(within: float, between: float, run_over_trial_time: float) -> int | None:
    """Return the square root of cost ratio x variance ratio, rounded up (section 6.2 of the source)."""
    if math.isnan(within) or between <= 0:
        return None
    return max(1, math.ceil(math.sqrt(run_over_trial_time * within / between)))
