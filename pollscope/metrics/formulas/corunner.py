# SPDX-License-Identifier: BSD-3-Clause
"""Compute the metrics of the program beside the DUT."""

from collections.abc import Mapping

from pollscope.metrics.counted import corunner_ipc
from pollscope.metrics.formulas import Compute
from pollscope.metrics.formulas.dut import DUT
from pollscope.metrics.record import NS_PER_S, NotMeasured, Part, TrialObservations, nonzero


def _own(trial: TrialObservations, key: str) -> Part:
    """Return a measured value of the co-runner; stress-ng is a separate program that measures none."""
    if trial.corunner["unit"].text() == "bogo_ops":
        raise NotMeasured("stress-ng does not report measurements")
    return trial.corunner[key]


def _corunner_running_s(trial: TrialObservations) -> float:
    """Return the seconds of the window in which the co-runner had its CPU."""
    waited_s = _own(trial, "waited_ns").number() / NS_PER_S
    return nonzero(max(0.0, trial.window_s - waited_s), "the co-runner never had its CPU")


def _corunner_done(trial: TrialObservations, unit: str, work: str) -> float:
    """Return the co-runner's count, if it counts in this unit."""
    found = trial.corunner["unit"].text()
    if found != unit:
        raise NotMeasured(f"the co-runner counts {found}; only {work} counts {unit}")
    return trial.corunner["done"].number()


def _by_collector(trial: TrialObservations, reason: str) -> float:
    """Return the co-runner's IPC by perf-corunner; if that is absent, prefer the collector's reason."""
    try:
        return corunner_ipc(trial)
    except NotMeasured:
        raise NotMeasured(reason) from None


def _corunner_rate_hz(trial: TrialObservations) -> float:
    worker = trial.corunner
    unit = worker["unit"].text()
    if unit == "bytes":
        raise NotMeasured("memory-stream counts bytes: corunner_bytes_per_s")
    return worker["bogo_ops_per_s"].number() if unit == "bogo_ops" else worker["done"].number() / trial.window_s


def _corunner_rate_running_hz(trial: TrialObservations) -> float:
    if trial.corunner["unit"].text() == "bytes":
        raise NotMeasured("memory-stream counts bytes: corunner_bytes_per_s")
    return _own(trial, "done").number() / _corunner_running_s(trial)


def _corunner_hop_ns(trial: TrialObservations) -> float:
    hops = nonzero(_corunner_done(trial, "hops", "pointer-chase"), "the co-runner made no hop")
    return _corunner_running_s(trial) * NS_PER_S / hops


def _corunner_ipc(trial: TrialObservations) -> float:
    try:
        pmu = _own(trial, "pmu")
        return pmu["instructions"].number() / nonzero(pmu["cycles"].number(), "the PMU counted no cycle")
    except NotMeasured as absent:
        return _by_collector(trial, str(absent))


def _ipc_with_corunner(trial: TrialObservations) -> float:
    alone = DUT["ipc"](trial)
    params = trial.part("params").value
    if not isinstance(params, Mapping) or params.get("corunner", "none") == "none":
        return alone
    return alone + _corunner_ipc(trial)


CORUNNER: dict[str, Compute] = {
    "corunner_frequency_hz": lambda trial: _own(trial, "frequency_hz").number(),
    "corunner_longest_step_ns": lambda trial: _own(trial, "longest_step_ns").number(),
    "corunner_rate_hz": _corunner_rate_hz,
    "corunner_rate_running_hz": _corunner_rate_running_hz,
    "corunner_hop_ns": _corunner_hop_ns,
    "corunner_bytes_per_s": lambda trial: _corunner_done(trial, "bytes", "memory-stream") / trial.window_s,
    "corunner_ipc": _corunner_ipc,
    "ipc_with_corunner": _ipc_with_corunner,
}
