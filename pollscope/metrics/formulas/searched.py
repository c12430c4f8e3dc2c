# SPDX-License-Identifier: BSD-3-Clause
"""The rates that a search for the maximum throughput found."""

from collections.abc import Mapping

from pollscope.base.units import human_share
from pollscope.metrics.formulas import Compute
from pollscope.metrics.record import NotMeasured, Part, TrialObservations


def _searched(loss_ratio: float) -> Compute:
    def compute(trial: TrialObservations) -> float:
        if not isinstance(trial.record.value, Mapping) or "search" not in trial.record.value:
            raise NotMeasured("a search finds it (maximum.method: mlrsearch), no single trial")
        for goal in trial.part("search", "goals").items():
            if goal["loss_ratio"].number() == loss_ratio:
                return _throughput(goal)
        raise NotMeasured(f"the search was not asked for a loss ratio of {human_share(loss_ratio, 6)}")

    return compute


def _throughput(goal: Part) -> float:
    try:
        return goal["throughput_pps"].number()
    except NotMeasured:
        raise NotMeasured(f"the search found none: {goal['reason'].text()}") from None


SEARCHED: dict[str, Compute] = {"throughput_loss_0_pps": _searched(0.0), "throughput_loss_0_5_pps": _searched(0.005)}
