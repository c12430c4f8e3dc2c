# SPDX-License-Identifier: BSD-3-Clause
"""Host noise against the limits of a spec: sentences with numbers, in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pollscope.accounting import MISFIT_SHARE
from pollscope.spec.model import Noise


@dataclass(frozen=True)
class _Limit:
    """A limit of the spec, the metric that it limits, and what a reader is told."""

    key: str
    metric: str
    sentence: str


_LIMITS = (
    _Limit(
        "max_gaps_over_100us_per_s",
        "generator_gaps_over_100us_per_s",
        "the generator's core was away for more than 100 us {value:.0f} times a second; the spec allows {limit:g}",
    ),
    _Limit(
        "max_steal_ticks",
        "steal_ticks",
        "the hypervisor took {value:.0f} ticks from the measuring cores; the spec allows {limit:g}",
    ),
    _Limit(
        "max_involuntary_switches",
        "involuntary_switches",
        "the kernel took the DUT's cores {value:.0f} times for something else; the spec allows {limit:g}",
    ),
)


def trial_flags(limits: Noise, record: Mapping[str, Any], metrics: Mapping[str, float]) -> list[dict[str, str]]:
    """What a trial is flagged with: one entry `{name, text}` per limit that it is above.

    Args:
        limits: of the spec.
        record: of the trial.
        metrics: of the trial; one that is absent cannot be above its limit.
    """
    return [
        *_waiting(limits, record),
        *_corunner_waiting(limits, record),
        *_above_limits(limits, metrics),
        *_misfit(metrics),
    ]


def _misfit(metrics: Mapping[str, float]) -> list[dict[str, str]]:
    misfit = metrics.get("accounting_misfit_share", 0.0)
    if abs(misfit) <= MISFIT_SHARE:
        return []
    text = (
        f"what visits and packets cost in slices misses the window by {100 * misfit:+.1f} % of it (limit "
        f"{100 * MISFIT_SHARE:g} %): the ground moved, or costs do not add up"
    )
    return [{"name": "accounting:misfit", "text": text}]


def _waiting(limits: Noise, record: Mapping[str, Any]) -> list[dict[str, str]]:
    start, waits = record["start"], record["host"].get("waits_ns", {})
    duration_ns = start["warmup_ns"] + start["window_ns"]
    flags = []
    for lcore, wait_ns in waits.items():
        if wait_ns > limits.max_waiting * duration_ns:
            text = (
                f"lcore {lcore} waited for its CPU for {100 * wait_ns / duration_ns:.3g} % of the trial, because "
                f"something else ran there (limit {100 * limits.max_waiting:g} %): this looks like polling or like loss"
            )
            flags.append({"name": "noise:waiting", "text": text})
    return flags


def _corunner_waiting(limits: Noise, record: Mapping[str, Any]) -> list[dict[str, str]]:
    workers = record.get("corunner", {}).get("result", {}).get("workers", [])
    window_ns = record["start"]["window_ns"]
    return [
        {
            "name": "noise:corunner-waiting",
            "text": f"{worker['name']} waited for CPU {worker['cpu']} for {100 * waited_ns / window_ns:.2g} % of the "
            f"window, because something else ran there (limit {100 * limits.max_waiting:g} %)",
        }
        for worker in workers
        if isinstance(waited_ns := worker.get("waited_ns"), float) and waited_ns > limits.max_waiting * window_ns
    ]


def _above_limits(limits: Noise, metrics: Mapping[str, float]) -> list[dict[str, str]]:
    return [
        {"name": f"noise:{limit.metric}", "text": limit.sentence.format(value=metrics[limit.metric], limit=allowed)}
        for limit in _LIMITS
        if (allowed := getattr(limits, limit.key)) is not None and metrics.get(limit.metric, 0.0) > allowed
    ]


def host_warnings(limits: Noise, noise: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is said about the noise that was measured before the run."""
    allowed = limits.max_gaps_over_100us_per_s
    warnings = []
    for cpu in noise:
        gaps_per_s = cpu["over_100us"] / (cpu["duration_ns"] / 1e9)
        if allowed is not None and gaps_per_s > allowed:
            warnings.append(
                f"CPU {cpu['cpu']} was away for more than 100 us {gaps_per_s:.0f} times a second before the run "
                f"(longest {cpu['longest_ns'] / 1e6:.2g} ms); the spec allows {allowed:g}: expect flagged trials"
            )
    return warnings
