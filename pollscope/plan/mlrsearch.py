# SPDX-License-Identifier: BSD-3-Clause
"""Search with the MLRsearch package. Import this module only for a search: the package takes 1 to 2 s to load."""

from collections.abc import Callable, Iterator

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal

from pollscope.plan.search import GoalFound, Settings

# Coarser targets before the final one, and growth of steps while a bound is sought (values of CSIT).
PRECEDING_TARGETS, EXPANSION = 2, 2
# Makes a trial at a load in packets per second; returns packets sent, and how many of them were lost.
_MeasureLoss = Callable[[float], tuple[int, int]]


class _Measurer(AbstractMeasurer):  # type: ignore[misc]
    def __init__(self, measure: _MeasureLoss) -> None:
        self._measure = measure

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        """Answer the question of the package."""
        sent, lost = self._measure(intended_load)
        # Offered and lost only: with the intended count the package would take unsent packets for lost ones.
        return MeasurementResult(
            intended_duration=intended_duration, intended_load=intended_load, offered_count=sent, loss_count=lost
        )


def search_between(settings: Settings, lowest: float, highest: float, measure: _MeasureLoss) -> Iterator[GoalFound]:
    """Yield bounds and conditional throughput for every loss ratio of the settings, between two loads."""
    goals = {ratio: _goal(settings, ratio) for ratio in settings.loss_ratios}
    config = Config(
        goals=list(goals.values()),
        min_load=lowest,
        max_load=highest,
        search_duration_max=float("inf"),  # wall-clock time; the caller counts trial time instead
        warmup_duration=0.0,
    )
    found = MultipleLossRatioSearch(config=config).search(measurer=_Measurer(measure), debug=lambda _text: None)
    for ratio, goal in goals.items():
        result = found[goal]
        bounds = (result.relevant_lower_bound, result.relevant_upper_bound)
        low, high = (None if bound is None else float(bound) for bound in bounds)
        yield GoalFound(ratio, float(result.conditional_throughput or 0.0), low, high)


def _goal(settings: Settings, loss_ratio: float) -> SearchGoal:
    return SearchGoal(
        loss_ratio=loss_ratio,
        exceed_ratio=settings.exceed_ratio,
        relative_width=settings.width,
        initial_trial_duration=settings.window_ns / 1e9,
        final_trial_duration=settings.window_ns / 1e9,
        duration_sum=settings.duration_sum_ns / 1e9,
        preceding_targets=PRECEDING_TARGETS,
        expansion_coefficient=EXPANSION,
        fail_fast=False,
    )
