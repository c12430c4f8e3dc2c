# SPDX-License-Identifier: BSD-3-Clause
"""Derive the metrics of the dictionary from a raw trial record.

Every metric of the dictionary ends either in the metrics or in the absences, with a reason; nothing is guessed. A
record that contradicts the node protocol (docs/internals/node-protocol.md) is reported as an error in one line.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from pollscope.base.errors import UsageError, one_line
from pollscope.base.units import human_number
from pollscope.metrics.counted import COUNTED, is_counted, reasons_without_collectors
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.formulas import Compute
from pollscope.metrics.formulas.corunner import CORUNNER
from pollscope.metrics.formulas.distributions import DISTRIBUTIONS
from pollscope.metrics.formulas.dut import DUT, moved_counter, own_error
from pollscope.metrics.formulas.searched import SEARCHED
from pollscope.metrics.formulas.tcp import TCP
from pollscope.metrics.formulas.traffic import TRAFFIC
from pollscope.metrics.record import NotMeasured, TrialObservations
from pollscope.metrics.steady import rate_after_cut, warm_up
from pollscope.metrics.undisturbed import COMPUTED
from pollscope.stats.histogram import BeyondRange

# A share that lies further outside 0..1 is impossible; an estimated one may also be off by its own error. It is kept
# unchanged: if it were clipped or left out, the mean of several trials near 0 would be wrong.
SHARE_TOLERANCE = 0.005
# A loss may be negative (foreign packets), and so may a rate error, an interaction and a misfit; other shares may not.
_SIGNED_SHARES = {"rate_error", "loss_share", "interaction_share", "accounting_misfit_share"}
_UNBOUNDED_SHARES = {"rate_error", "accounting_misfit_share"}
COMPUTE: dict[str, Compute] = {
    **DUT,
    **TRAFFIC,
    **TCP,
    **CORUNNER,
    **DISTRIBUTIONS,
    **SEARCHED,
    **COMPUTED,
    **COUNTED,
}
# Rates that exclude a warm-up that reached into the window, with the counter of the window's parts.
CUT = {
    **dict.fromkeys(("rx_pps", "rx_bps", "rx_line_bps"), "rx_packets"),
    **dict.fromkeys(("tx_pps", "tx_bps", "tx_line_bps"), "tx_packets"),
    **dict.fromkeys(("poll_rate_hz", "poll_rate_per_queue_hz", "iteration_rate_hz", "poll_rate_running_hz"), "sweeps"),
}
# The rate per time in which the lcores ran.
_OF_RUNNING_TIME = "poll_rate_running_hz"


def _cut_warm_up(trial: TrialObservations, metrics: dict[str, float]) -> None:
    """Remove the warm-up part of the window from the rates."""
    if not metrics.get("warmup_left_ns"):
        return
    parts = warm_up(trial).parts
    # Rates at ports; a ring between lcores is not a port.
    of = {"rx_packets": trial.readers, "tx_packets": trial.workers, "sweeps": trial.lcores}
    moved = {"moved_pps": moved_counter(trial)} if "moved_pps" in metrics else {}
    for name, counter in (CUT | moved).items():
        if name in metrics:
            metrics[name] *= rate_after_cut(trial, parts, counter, name == _OF_RUNNING_TIME, of[counter])
    if "sweep_time_ns" in metrics and trial.waiting_cycles == 0:  # waits are known of the whole window only
        metrics["sweep_time_ns"] /= rate_after_cut(trial, parts, "sweeps", running=True)


def derive_trial(record: Mapping[str, object]) -> tuple[dict[str, float], dict[str, str]]:
    """Derive the metrics of one line of `trials.jsonl` (docs/internals/store-format.md)."""
    return derive(record, TrialObservations(record))


def derive(record: Mapping[str, object], trial: TrialObservations) -> tuple[dict[str, float], dict[str, str]]:
    """Compute every metric of the dictionary from a record and what is found in it.

    Returns:
        Metrics by name in base units, and for every other metric of the dictionary the reason why it is absent.

    Raises:
        UsageError: the record contradicts the protocol; the message names the trial and the key.
    """
    metrics: dict[str, float] = {}
    absences: dict[str, str] = {}
    if record.get("status") != "failed" and "search" in record:
        return _derive_search(trial)
    if record.get("status") == "failed" or record.get("result") is None:
        reason = one_line(f"the trial failed: {record.get('reason') or 'no result was stored'}")
        return {}, dict.fromkeys(metric_dictionary().metrics, reason)
    if not is_counted(trial):
        absences.update(reasons_without_collectors())
    for one in _ways():
        if one.name in absences:
            continue
        try:
            metrics[one.name] = one.plausible(one.compute(trial), trial)
        except (NotMeasured, BeyondRange) as absent:
            # Share the strings: thousands of trials have the same few reasons.
            absences[one.name] = sys.intern(one_line(str(absent)))
        except UsageError as error:
            raise UsageError(error.what, f"trial {record.get('trial')}: {error.where}", error.remedy) from None
    _cut_warm_up(trial, metrics)
    return metrics, absences


def _derive_search(trial: TrialObservations) -> tuple[dict[str, float], dict[str, str]]:
    """Return the rates that a search found; a search has no window of its own."""
    elsewhere = "a search is not a trial; its trials (kind `search`) have it"
    metrics: dict[str, float] = {}
    absences = dict.fromkeys(metric_dictionary().metrics, elsewhere)
    for name, compute in SEARCHED.items():
        try:
            metrics[name] = compute(trial)
            del absences[name]
        except NotMeasured as absent:
            absences[name] = one_line(str(absent))
    return metrics, absences


@dataclass(frozen=True, slots=True)
class _Way:
    """How a metric is computed and, if it is a share, between which values it must lie.

    Attributes:
        own_error: computes the error of a single trial's estimate; None if it is not known.
    """

    name: str
    compute: Compute
    own_error: Compute | None
    is_share: bool
    low: float
    high: float

    def plausible(self, value: float, trial: TrialObservations) -> float:
        """Return the value if it is possible.

        Raises:
            NotMeasured: it is not a number, or a share outside 0..1.
        """
        if not math.isfinite(value):
            raise NotMeasured(f"the record gives {value}, which is not a number")
        if self.is_share and not self.low - SHARE_TOLERANCE <= value <= self.high + SHARE_TOLERANCE:
            tolerance = max(SHARE_TOLERANCE, self._error_of(trial))
            if not self.low - tolerance <= value <= self.high + tolerance:
                raise NotMeasured(f"the record gives {human_number(value, 4)}, but a share lies between 0 and 1")
        return value

    def _error_of(self, trial: TrialObservations) -> float:
        try:
            return self.own_error(trial) if self.own_error else 0.0
        except NotMeasured:
            return 0.0


@cache
def _ways() -> tuple[_Way, ...]:
    """Return the formulas of all metrics of the dictionary, in its order."""
    return tuple(
        _Way(
            name,
            COMPUTE[name],
            own_error(name),
            metric.unit == "share",
            -math.inf if name in _SIGNED_SHARES else 0.0,
            math.inf if name in _UNBOUNDED_SHARES else 1.0,
        )
        for name, metric in metric_dictionary().metrics.items()
    )
