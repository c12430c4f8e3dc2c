# SPDX-License-Identifier: BSD-3-Clause
"""Statistics of histograms: latency, its floor, lateness, iterations, reordering."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from pollscope.base.errors import UsageError
from pollscope.base.units import human_number
from pollscope.metrics.formulas import Compute
from pollscope.metrics.formulas.traffic import require_receiver
from pollscope.metrics.record import NotMeasured, TrialObservations
from pollscope.stats.histogram import Histogram


def _percentile(histogram: Histogram, percent: float) -> float:
    """Return a percentile if there are enough samples for one to lie beyond it."""
    needed = math.ceil(100 / (100 - percent) - 1e-9)
    if histogram.samples < needed:
        raise NotMeasured(
            f"{histogram.samples} samples are too few for p{human_number(percent, 6)} (at least {needed})"
        )
    return histogram.percentile(percent)


_Statistic = Callable[[Histogram], float]
STATISTICS: dict[str, _Statistic] = {
    "mean": lambda histogram: histogram.mean,
    "p50": lambda histogram: _percentile(histogram, 50),
    "p90": lambda histogram: _percentile(histogram, 90),
    "p99": lambda histogram: _percentile(histogram, 99),
    "p999": lambda histogram: _percentile(histogram, 99.9),
    "max": lambda histogram: histogram.maximum,
}


def _order(name: str, statistic: str) -> Compute:
    def compute(trial: TrialObservations) -> float:
        require_receiver(trial)
        histogram = trial.gen_histogram("sequence", name, may_be_empty=True)
        if histogram.samples == 0:
            raise NotMeasured("no packet was reordered within its flow")
        return STATISTICS[statistic](histogram)

    return compute


def _dut_cycles(name: str, statistic: str) -> Compute:
    def compute(trial: TrialObservations) -> float:
        histogram = trial.dut_histogram(name)
        if histogram.unit != "cycles":
            raise UsageError(f"the histogram {name} has the unit '{histogram.unit}', allowed is cycles", "result")
        return STATISTICS[statistic](histogram)

    return compute


def _dut_ns(name: str, statistic: str) -> Compute:
    def compute(trial: TrialObservations) -> float:
        histogram = trial.dut_histogram(name)
        return trial.in_ns(STATISTICS[statistic](histogram), histogram.unit)

    return compute


def _require_steady_clock(trial: TrialObservations) -> None:
    found = trial.part("result").value
    clocks = found.get("clocks", {}) if isinstance(found, Mapping) else {}
    if clocks.get("steady") is False:
        raise NotMeasured(str(clocks["reason"]))


def _gen_ns(keys: Sequence[str], statistic: str) -> Compute:
    def compute(trial: TrialObservations) -> float:
        if keys[0] == "latency_ns":
            require_receiver(trial)
            _require_steady_clock(trial)
        histogram = trial.gen_histogram(*keys)
        return trial.in_ns(STATISTICS[statistic](histogram), histogram.unit)

    return compute


def _histogram_metrics() -> Iterator[tuple[str, Compute]]:
    for statistic in ("mean", "p99", "max"):
        yield f"reordering_extent_{statistic}", _order("extent", statistic)
    for statistic in ("mean", "max"):
        yield f"reordering_distance_{statistic}", _order("distance", statistic)
    # No maximum: both hold only a sample of the intervals, and longest_iteration_ns holds the longest of all.
    for statistic in ("p50", "p99"):
        yield f"iteration_cycles_{statistic}", _dut_cycles("iteration_cycles", statistic)
        yield f"poll_gap_{statistic}_ns", _dut_ns("poll_gap_cycles", statistic)
    for statistic in STATISTICS:
        yield f"latency_{statistic}_ns", _gen_ns(("latency_ns", "from_intended"), statistic)
        yield f"latency_sent_{statistic}_ns", _gen_ns(("latency_ns", "from_sent"), statistic)
    yield "generator_lateness_p99_ns", _gen_ns(("lateness_ns",), "p99")


def _floor(trial: TrialObservations, statistic: str) -> float:
    histogram = trial.floor_histogram()
    return trial.in_ns(STATISTICS[statistic](histogram), histogram.unit)


def _by_nic(statistic: str) -> Compute:
    def compute(trial: TrialObservations) -> float:
        require_receiver(trial)
        return STATISTICS[statistic](trial.nic_histogram("latency_ns"))

    return compute


def _nic_error(trial: TrialObservations) -> float:
    stamps = trial.nic_stamps()
    return stamps["clock_step_ns"].number() + stamps["clocks_apart_ns"].number()


DISTRIBUTIONS: dict[str, Compute] = dict(_histogram_metrics())
DISTRIBUTIONS |= {
    "latency_tail_ns": lambda trial: DISTRIBUTIONS["latency_p99_ns"](trial) - DISTRIBUTIONS["latency_mean_ns"](trial),
    "latency_sent_tail_ns": lambda trial: (
        DISTRIBUTIONS["latency_sent_p99_ns"](trial) - DISTRIBUTIONS["latency_sent_mean_ns"](trial)
    ),
    **{f"latency_nic_{statistic}_ns": _by_nic(statistic) for statistic in ("mean", "p50", "p99")},
    "latency_nic_error_ns": _nic_error,
    "latency_beyond_nic_ns": lambda trial: (
        trial.nic_histogram("software_ns").mean - trial.nic_histogram("latency_ns").mean
    ),
    "latency_floor_ns": lambda trial: _floor(trial, "p50"),
    "latency_floor_p99_ns": lambda trial: _floor(trial, "p99"),
}
