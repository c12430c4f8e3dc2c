# SPDX-License-Identifier: BSD-3-Clause
"""Summarise the searches of a run: one line per point and loss ratio, with the goal of the search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pollscope.analysis.point_values import PAIR, levels_text
from pollscope.base.units import human_rate, human_share, human_time
from pollscope.stats.estimates import Estimate, mean_estimate
from pollscope.store.results_table import last_attempts
from pollscope.store.run_folder import RunFolder


@dataclass(frozen=True)
class Throughput:
    """Hold the rate at one point and loss ratio, and the reason why a search found none.

    `bounds` are the lowest lower and the highest upper bound of the searches that found a rate, in packets per second.
    """

    label: str
    loss_ratio: float
    estimate: Estimate | None
    bounds: tuple[float, float] | None
    searches: int
    trials: int
    goal: str
    reason: str

    @property
    def text(self) -> str:
        """Return the rate with its interval, or a text that no rate was found.

        Searches walk on a grid of loads, so several may find the very same rate: the interval is at least as wide as
        from the load that passed to the one that failed.
        """
        if self.estimate is None or self.bounds is None:
            return "none"
        known = self.estimate.has_interval
        low = min(self.bounds[0], self.estimate.low) if known else self.bounds[0]
        high = max(self.bounds[1], self.estimate.high) if known else self.bounds[1]
        rate, ends = human_rate(self.estimate.value), f"{human_rate(max(0.0, low))} to {human_rate(high)}"
        count = "one search" if self.searches == 1 else f"{self.searches} searches"
        return f"{rate} ({ends})" if known else f"{rate} ({count}, bounds {ends})"


def throughputs(run: RunFolder) -> list[Throughput]:
    """Return the rates that the searches of a run found, in the order of measurement."""
    by_place: dict[tuple[object, object], list[Mapping[str, Any]]] = {}
    for record in last_attempts(run.trials):
        if record["kind"] == "maximum" and "search" in record:
            by_place.setdefault((record.get(PAIR), record["point"]), []).append(record)
    return [line for records in by_place.values() for line in _of_point(records)]


def _of_point(records: Sequence[Mapping[str, Any]]) -> list[Throughput]:
    searches = [record["search"] for record in records]
    pair = {PAIR: records[0][PAIR]} if PAIR in records[0] else {}
    label = levels_text({**pair, **records[0]["factors"]}) or "all"
    ratios = [goal["loss_ratio"] for goal in searches[0]["goals"]]
    return [_at_ratio(label, searches, index, ratio) for index, ratio in enumerate(ratios)]


def _at_ratio(label: str, searches: Sequence[Mapping[str, Any]], index: int, ratio: float) -> Throughput:
    goals = [search["goals"][index] for search in searches]
    found = [goal for goal in goals if goal["throughput_pps"] is not None]
    reasons = [f"{search['outcome']}: {goal['reason']}" for search, goal in zip(searches, goals, strict=True)]
    return Throughput(
        label=label,
        loss_ratio=ratio,
        estimate=mean_estimate([goal["throughput_pps"] for goal in found]) if found else None,
        bounds=(min(goal["lower_pps"] for goal in found), max(goal["upper_pps"] for goal in found)) if found else None,
        searches=len(searches),
        trials=sum(len(search["trials"]) for search in searches),
        goal=_goal_text(searches[0]),
        reason=next((text for text, goal in zip(reasons, goals, strict=True) if goal["reason"]), ""),
    )


def _goal_text(search: Mapping[str, Any]) -> str:
    window, duration_sum = (human_time(search[name] / 1e9) for name in ("window_ns", "duration_sum_ns"))
    return (
        f"trials of {window}, {duration_sum} of them decide about a load, "
        f"exceed ratio {human_share(search['exceed_ratio'])}, width {human_share(search['width'])}, {search['method']}"
    )
