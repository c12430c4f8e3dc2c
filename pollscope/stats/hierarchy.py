# SPDX-License-Identifier: BSD-3-Clause
"""Estimate means of repeats at two levels, trials within runs (Kalibera & Jones, Rigorous benchmarking, ISMM 2013).

Trials of one run share its memory addresses, its CPUs and its host state. Therefore the interval of a mean over several
runs counts runs. More trials per run reduce only the part of the scatter that trials cause.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pollscope.stats.estimates import CONFIDENCE, NO_LIMITS, Estimate, mean_estimate

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


def hierarchy(runs: Sequence[Sequence[float]], limits: tuple[float, float] = NO_LIMITS) -> Hierarchy:
    """Estimate the mean and the parts of the scatter.

    All runs have the same weight, however many trials they have. To start a run takes the time of a trial.

    Args:
        runs: the trials of each run; at least two runs with at least one finite value each.
        limits: range of values that the quantity can have.

    Raises:
        ValueError: fewer than two runs, a run without trials, or a value that is no number.
    """
    samples = [np.asarray(run, dtype=float) for run in runs]
    if len(samples) < FEWEST_RUNS or not all(len(each) for each in samples):
        raise ValueError(f"needs {FEWEST_RUNS} runs and a trial in each, not {[len(each) for each in samples]} trials")
    if not all(np.isfinite(each).all() for each in samples):
        raise ValueError("needs finite values")
    means = np.array([each.mean() for each in samples])
    of_means = float(means.var(ddof=1))
    trials = len(samples) / sum(1 / len(each) for each in samples)
    # The variance of the trials of one run, pooled over runs; nan if no run has two.
    freedom = sum(len(each) - 1 for each in samples)
    within = sum(float(((each - each.mean()) ** 2).sum()) for each in samples) / freedom if freedom else math.nan
    between = of_means - (0.0 if math.isnan(within) else within / trials)
    optimal = None
    if not math.isnan(within) and between > 0:  # the variance ratio, at a cost ratio of 1 (section 6.2 of the source)
        optimal = max(1, math.ceil(math.sqrt(within / between)))
    mean = mean_estimate(means.tolist(), CONFIDENCE, limits)
    return Hierarchy(mean, math.sqrt(max(0.0, between)), math.sqrt(within), trials, optimal)
