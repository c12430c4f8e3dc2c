# SPDX-License-Identifier: BSD-3-Clause
"""Judge a trial when its record is read (metrics, flags, status), and the drift of a run's baselines.

A record holds observations only; this module judges them. The runner calls it to decide whether to repeat a trial, and
every reader calls it again, so a better rule applies to old runs as well. Only the failure of a trial is recorded.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pollscope.base.names import Status
from pollscope.base.units import human_share
from pollscope.metrics.derive import derive
from pollscope.metrics.noise import Limits, misfit_flags, noise_flags
from pollscope.metrics.record import Flag, NotMeasured, Part, TrialObservations, at
from pollscope.metrics.shapes import shape_flags
from pollscope.metrics.steady import steadiness_flags


@dataclass(frozen=True)
class Judgement:
    """Hold the judgement on one trial.

    Attributes:
        status: status of the trial.
        reason: why it is not ok; empty if it is.
        flags: remarks for a reader; those that cause the status `flagged` come first.
        metrics: values by name, in base units.
        absences: for every other metric of the dictionary, why it is absent.
    """

    status: Status
    reason: str
    flags: tuple[Flag, ...]
    metrics: Mapping[str, float]
    absences: Mapping[str, str]


def judge(record: Mapping[str, Any], limits: Limits) -> Judgement:
    """Judge one line of trials.jsonl by the limits of its spec.

    Raises:
        UsageError: the record contradicts the protocol; the message names the trial and the key.
    """
    trial = TrialObservations(record)
    metrics, absences = derive(record, trial)
    if record["status"] == "failed":
        return Judgement("failed", str(record.get("reason", "")), (), metrics, absences)
    if record.get("result") is None:  # a search has no window of its own
        return Judgement("ok", "", (), metrics, absences)
    allowed = limits.max_waiting if _generator_sleeps(record) else 0.0
    grave = [*noise_flags(limits, record, metrics), *misfit_flags(metrics, allowed)]
    # These are not noise: the trial stays data, and its rates exclude the warm-up.
    noted = [*steadiness_flags(trial), *shape_flags(trial), *clock_flags(record)]
    reason = "; ".join(flag["text"] for flag in grave)
    return Judgement("flagged" if grave else "ok", reason, (*grave, *noted), metrics, absences)


def _generator_sleeps(record: Mapping[str, Any]) -> bool:
    with suppress(NotMeasured):
        return at(Part(record, ""), ("config", "gen", "sleep_ns")).number() > 0
    return False


def clock_flags(record: Mapping[str, Any]) -> list[Flag]:
    """Return flags of a trial whose lcores had no common clock; two hosts never have one, so they get no flag."""
    found = record["result"].get("clocks", {})
    return [{"name": "clock", "text": found["reason"]}] if "reason" in found else []


def drift_flags(baselines: Sequence[Judgement], metric: str, limit: float) -> list[list[Flag]]:
    """Return flags of each baseline of a run, in the order of measurement: whether it moved since the first one.

    A flagged baseline shows its disturbance, not a drift: it is compared with nothing.

    Args:
        baselines: judgements of one point on one pair.
        metric: to watch.
        limit: largest allowed change, as a share.
    """
    steady = [each.metrics[metric] for each in baselines if each.status == "ok" and metric in each.metrics]
    if not steady or steady[0] == 0:
        return [[] for _ in baselines]
    return [_drift_flag(each, metric, steady[0], limit) for each in baselines]


def _drift_flag(baseline: Judgement, metric: str, first: float, limit: float) -> list[Flag]:
    if baseline.status != "ok" or metric not in baseline.metrics:
        return []
    moved = baseline.metrics[metric] / first - 1
    if abs(moved) <= limit:
        return []
    text = (
        f"the baseline's {metric} moved by {100 * moved:+.1f} % since the start of the run "
        f"(limit {human_share(limit)}): the host has changed, compare only trials that lie close together"
    )
    return [{"name": "drift", "text": text}]
