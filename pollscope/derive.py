# SPDX-License-Identifier: BSD-3-Clause
"""From a raw trial record to the metrics of the dictionary.

Every metric of the dictionary ends either in the metrics or in the absences, with a reason; nothing is guessed. A
record that contradicts the node protocol (docs/node-protocol.md) is an error of one line.
"""

import math
from collections.abc import Mapping

from pollscope.counted import COUNTED
from pollscope.errors import UsageError, one_line
from pollscope.formulas import Compute
from pollscope.formulas.corunner import CORUNNER
from pollscope.formulas.distributions import DISTRIBUTIONS
from pollscope.formulas.dut import DUT
from pollscope.formulas.searched import SEARCHED
from pollscope.formulas.traffic import TRAFFIC
from pollscope.histogram import BeyondRange
from pollscope.metrics import metric_dictionary
from pollscope.record import NotMeasured, Trial
from pollscope.steady import rate_after_cut, warm_up

# A share that lies further outside 0..1 contradicts itself; estimates from sampled sweeps may miss by a little.
SHARE_TOLERANCE = 0.005
# A loss may be negative (foreign packets), and so may a rate error, an interaction and a misfit; other shares may not.
SIGNED_SHARES = {"rate_error", "loss_share", "interaction_share", "accounting_misfit_share"}
COMPUTE: dict[str, Compute] = {**DUT, **TRAFFIC, **CORUNNER, **DISTRIBUTIONS, **SEARCHED, **COUNTED}
# Rates that leave out a warm-up which reached into the window: counter of the parts, and of which time it is a rate.
CUT = {
    "rx_pps": ("rx_packets", "all"),
    "rx_bps": ("rx_packets", "all"),
    "tx_pps": ("tx_packets", "all"),
    "poll_rate_hz": ("sweeps", "all"),
    "poll_rate_per_queue_hz": ("sweeps", "all"),
    "iteration_rate_hz": ("sweeps", "all"),
    "poll_rate_running_hz": ("sweeps", "running"),
}


def _cut_warm_up(trial: Trial, metrics: dict[str, float]) -> None:
    """Takes the part of the window that was still warm-up out of the rates."""
    if not metrics.get("warmup_left_ns"):
        return
    parts = warm_up(trial).parts
    for name, (counter, time) in CUT.items():
        if name in metrics:
            metrics[name] *= rate_after_cut(trial, parts, counter, time == "running")
    if "sweep_time_ns" in metrics:
        metrics["sweep_time_ns"] /= rate_after_cut(trial, parts, "sweeps", running=True)


def derive_trial(record: Mapping[str, object]) -> tuple[dict[str, float], dict[str, str]]:
    """Compute every metric of the dictionary from one line of `trials.jsonl` (docs/store-format.md).

    Returns:
        Metrics by name in base units, and for every other metric of the dictionary the reason why it is absent.

    Raises:
        UsageError: the record contradicts the protocol; the message names the trial and the key.
    """
    metrics: dict[str, float] = {}
    absences: dict[str, str] = {}
    if record.get("status") != "failed" and "search" in record:
        return _derive_search(record)
    if record.get("status") == "failed" or record.get("result") is None:
        reason = one_line(f"the trial failed: {record.get('reason') or 'no result was stored'}")
        return {}, dict.fromkeys(metric_dictionary().metrics, reason)
    trial = Trial(record)
    for name in metric_dictionary().metrics:
        try:
            metrics[name] = _plausible(name, COMPUTE[name](trial))
        except (NotMeasured, BeyondRange) as absent:
            absences[name] = one_line(str(absent))
        except UsageError as error:
            raise UsageError(error.what, f"trial {record.get('trial')}: {error.where}", error.remedy) from None
    _cut_warm_up(trial, metrics)
    return metrics, absences


def _derive_search(record: Mapping[str, object]) -> tuple[dict[str, float], dict[str, str]]:
    """A search has no window of its own: all that it has are the rates that it found."""
    elsewhere = "a search is no trial; its trials (kind `search`) have it"
    metrics: dict[str, float] = {}
    absences = dict.fromkeys(metric_dictionary().metrics, elsewhere)
    for name, compute in SEARCHED.items():
        try:
            metrics[name] = compute(Trial(record))
            del absences[name]
        except NotMeasured as absent:
            absences[name] = one_line(str(absent))
    return metrics, absences


def _plausible(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise NotMeasured(f"the record gives {value}, which is no number")
    unit = metric_dictionary()[name].unit
    low = -math.inf if name in SIGNED_SHARES else -SHARE_TOLERANCE
    high = math.inf if name in ("rate_error", "accounting_misfit_share") else 1 + SHARE_TOLERANCE
    if unit == "share" and not low <= value <= high:
        raise NotMeasured(f"the record gives {value:.4g}, but a share lies between 0 and 1")
    return value
