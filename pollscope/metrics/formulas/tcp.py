# SPDX-License-Identifier: BSD-3-Clause
"""Compute the metrics of TCP flows: completion times, retransmissions, and reordering as the kernel saw it."""

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from pollscope.base.errors import UsageError
from pollscope.base.units import human_number
from pollscope.metrics.formulas import Compute
from pollscope.metrics.record import NS_PER_S, NotMeasured, Part, TrialObservations, keys_of, nonzero, positive

# Payload of a full segment at an MTU of 1500, with time stamps (RFC 7323), and its headers including Ethernet's.
SEGMENT_BYTES, HEADERS_BYTES = 1448, 66


def _found(trial: TrialObservations) -> Part:
    if "tcp" not in keys_of(trial.part("result")):
        raise NotMeasured("no TCP flows were sent (flow_size)")
    return trial.part("result", "tcp")


def _column(trial: TrialObservations, name: str) -> list[float]:
    """Return one number per flow."""
    values = _found(trial)["flows"][name].numbers()
    if not values:
        raise UsageError("has no flow", f"result.tcp.flows.{name}")
    return values


def _percentile(percent: float) -> Callable[[Sequence[float]], float]:
    """Return a function for a percentile over flows: the smallest value with so many percent at or below it."""

    def of(values: Sequence[float]) -> float:
        needed = math.ceil(100 / (100 - percent) - 1e-9)
        if len(values) < needed:
            few = "1 flow is" if len(values) == 1 else f"{len(values)} flows are"
            raise NotMeasured(f"{few} too few for p{human_number(percent, 6)} (at least {needed})")
        return sorted(values)[math.ceil(percent / 100 * len(values)) - 1]

    return of


def _completion(statistic: Callable[[Sequence[float]], float]) -> Compute:
    return lambda trial: statistic(_column(trial, "completion_ns"))


def _per_flow(name: str) -> Compute:
    return lambda trial: fmean(_column(trial, name))


def _payload_bytes(trial: TrialObservations) -> float:
    flows = len(_column(trial, "completion_ns"))
    return flows * trial.part("params", "flow_size").number()


def _duration_s(trial: TrialObservations) -> float:
    return positive(_found(trial)["duration_ns"]) / NS_PER_S


def _retransmitted_share(trial: TrialObservations) -> float:
    sent = nonzero(sum(_column(trial, "segments")), "no segment with data was sent")
    return sum(_column(trial, "retransmissions")) / sent


def _path_loss_share(trial: TrialObservations) -> float:
    pump, *workers = _found(trial)["path"].items()  # the pump forwards frames from the kernel
    came = nonzero(pump["packets"].number(), "no frame came to the DUT")
    return 1 - sum(each["packets"].number() - each["dropped"].number() for each in workers) / came


def _bottleneck_share(trial: TrialObservations) -> float:
    bottleneck = _found(trial)["bottleneck"]
    frames_bits = 8 * _payload_bytes(trial) * (SEGMENT_BYTES + HEADERS_BYTES) / SEGMENT_BYTES
    limited_bits = frames_bits - 8 * bottleneck["bucket_bytes"].number()
    if limited_bits <= 0:
        raise NotMeasured("the flows are so small that the bottleneck passes them all at once")
    return limited_bits / positive(bottleneck["rate_bps"]) / _duration_s(trial)


TCP: dict[str, Compute] = {
    "flow_completion_mean_ns": _completion(fmean),
    "flow_completion_p50_ns": _completion(_percentile(50)),
    "flow_completion_p90_ns": _completion(_percentile(90)),
    "flow_completion_p99_ns": _completion(_percentile(99)),
    "flow_completion_max_ns": _completion(max),
    "goodput_bps": lambda trial: 8 * _payload_bytes(trial) / _duration_s(trial),
    "retransmissions_per_flow": _per_flow("retransmissions"),
    "spurious_retransmissions_per_flow": _per_flow("spurious_retransmissions"),
    "retransmitted_share": _retransmitted_share,
    "reordering_events_per_flow": _per_flow("reordering_events"),
    "reordering_seen_share": lambda trial: fmean(events > 0 for events in _column(trial, "reordering_events")),
    "reordering_degree_max": lambda trial: max(_column(trial, "reordering")),
    "path_loss_share": _path_loss_share,
    "bottleneck_share": _bottleneck_share,
}
