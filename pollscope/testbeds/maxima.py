# SPDX-License-Identifier: BSD-3-Clause
"""Keep the maxima that `load_of_max` refers to: per point, the median of its saturating trials or searches."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from pollscope.base.errors import TrialError
from pollscope.base.units import human_rate, human_share
from pollscope.plan.plan import Trial
from pollscope.store.trial_record import TrialRecord

# If the DUT misses less than this share at saturation, the generator was the limit.
_GENERATOR_BOUND_MISSED = 0.01
# But if less than this share of the sent packets reached the DUT's port, the path between them was the limit.
_ARRIVED_SHARE = 0.9


class Maxima:
    """The maxima of one run.

    Attributes:
        found: point -> `{pps, trials, generator_bound}`, of those that were needed so far.
    """

    def __init__(self, warnings: list[str]) -> None:
        self._warnings = warnings
        self._made: dict[str, dict[str, tuple[Mapping[str, float], list[dict[str, Any]]]]] = {}
        self.found: dict[str, dict[str, Any]] = {}

    def keep(self, record: TrialRecord, metrics: Mapping[str, float]) -> None:
        """Remember a trial that measured a maximum; of several attempts, the last one."""
        if record.kind == "maximum":
            # The first loss ratio's rate is 100 % load.
            goals = record.search["goals"][:1] if record.search is not None else []
            self._made.setdefault(record.point, {})[record.trial] = metrics, goals

    def has(self, trial: Trial) -> bool:
        """Return whether a trial of kind maximum was measured."""
        return trial.id in self._made.get(trial.point.id, {})

    def of(self, trial: Trial) -> float | None:
        """Return the maximum that a trial's load refers to; None if it refers to none.

        Raises:
            TrialError: it could not be measured.
        """
        point = trial.maximum_of
        if point is None:
            return None
        return min(self._pps(each) for each in trial.common_maxima or (point,))

    def _pps(self, point: str) -> float:
        if point not in self.found:
            self._find(point)
        return float(self.found[point]["pps"])

    def _find(self, point: str) -> None:
        made = self._made.get(point, {}).values()
        goals = [goal for _, found in made for goal in found]
        rates = [metrics["rx_pps"] for metrics, _ in made if "rx_pps" in metrics]
        rates = rates or [goal["throughput_pps"] for goal in goals if goal["throughput_pps"]]
        if not rates:
            why = next((f": {goal['reason']}" for goal in goals if goal["reason"]), "")
            raise TrialError(f"the maximum of '{point}' could not be measured, so its share is not known{why}")
        missed = [metrics["imissed_share"] for metrics, _ in made if "imissed_share" in metrics]
        bound = bool(missed) and median(missed) < _GENERATOR_BOUND_MISSED
        self.found[point] = {"pps": median(rates), "trials": len(rates), "generator_bound": bound}
        if bound:
            sent = [metrics["offered_pps"] for metrics, _ in made if "offered_pps" in metrics]
            self._warnings.append(_not_the_duts(point, median(rates), median(missed), median(sent or rates)))


def _not_the_duts(point: str, rate_pps: float, missed: float, sent_pps: float) -> str:
    """Return the warning for a maximum that the generator or the path limits."""
    if rate_pps < _ARRIVED_SHARE * sent_pps:
        return (
            f"maximum of the path at '{point}': of {human_rate(sent_pps)} that were sent {human_rate(rate_pps)} came "
            f"to the DUT, which missed only {human_share(missed, 2)}, so 100 % load is what the path to the DUT carries"
        )
    return (
        f"generator-bound maximum at '{point}': of {human_rate(rate_pps)} the DUT missed only "
        f"{human_share(missed, 2)}, so 100 % load is what the generator can do, not what the DUT can take"
    )
