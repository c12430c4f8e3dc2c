# SPDX-License-Identifier: BSD-3-Clause
"""From raw trial records to the metrics of the dictionary, and to the table `results.parquet`.

Every metric of the dictionary ends either in the metrics or in the absences, with a reason; nothing is guessed. A
record that contradicts the node protocol (docs/node-protocol.md) is an error of one line.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from pollscope import __version__
from pollscope.counted import COUNTED, corunner_ipc
from pollscope.errors import UsageError, one_line
from pollscope.histogram import BeyondRange, Histogram
from pollscope.metrics import metric_dictionary
from pollscope.places import data_folder
from pollscope.record import NS_PER_S, TAX_CLASSES, NotMeasured, Part, Trial, at, nonzero, positive
from pollscope.run_folder import RunFolder, read_run
from pollscope.steady import rate_after_cut, warm_up

# A share that lies further outside 0..1 contradicts itself; estimates from sampled sweeps may miss by a little.
SHARE_TOLERANCE = 0.005
# A loss may be negative (foreign packets) and so may a rate error; every other share lies between 0 and 1.
SIGNED_SHARES = {"rate_error", "loss_share"}
# What a frame takes on the line beside the bytes that a driver counts: FCS 4, preamble and start 8, gap 12.
LINE_OVERHEAD_BYTES = 24
# Duplicate acknowledgments from which a TCP sender takes a segment for lost (RFC 5681 section 3.2).
TCP_DUPLICATE_ACKS = 3

Compute = Callable[[Trial], float]
COMPUTE: dict[str, Compute] = {}


def metric(name: str) -> Callable[[Compute], Compute]:
    """Registers the function that computes a metric of the dictionary."""

    def register(function: Compute) -> Compute:
        COMPUTE[name] = function
        return function

    return register


def _cycle_share(*classes: str) -> Compute:
    return lambda trial: sum(trial.cycles[name] for name in classes) / trial.cycles["total"]


def _useful_part(name: str) -> Compute:
    return lambda trial: trial.useful_part_share(name)


def _poll_fraction(outcome: str) -> Compute:
    return lambda trial: trial.dut_sum("polls", outcome) / trial.poll_count


def _rx_bits(overhead_bytes: int) -> Compute:
    return lambda trial: (
        8 * (trial.received("rx_bytes") + overhead_bytes * trial.received("rx_packets")) / trial.window_s
    )


def _tx_bits(overhead_bytes: int) -> Compute:
    return lambda trial: 8 * (trial.sent("tx_bytes") + overhead_bytes * trial.sent("tx_packets")) / trial.window_s


def _gen_rate(key: str) -> Compute:
    return lambda trial: trial.gen_sum(key) / _generator_s(trial)


def _calibrated(name: str) -> Compute:
    return lambda trial: trial.part("calibration", name, "median").number()


def _pmu_ratio(scope: str, above: str, below: str) -> Compute:
    return lambda trial: (
        trial.pmu(scope, above) / nonzero(trial.pmu(scope, below), f"the PMU counted no {below} ({scope})")
    )


def _pmu_rate(event: str) -> Compute:
    return lambda trial: trial.pmu("window", event) / trial.window_s


def _gap_rate(key: str) -> Compute:
    return lambda trial: trial.gen_sum("host_gaps", key) / trial.window_s


COMPUTE |= {
    "tax_share": _cycle_share(*TAX_CLASSES),
    # Interruptions and useful cycles are estimated apart; a busy core's estimates can overlap by parts of a per cent.
    "tax_share_running": lambda trial: max(0.0, 1 - trial.cycles["useful"] / trial.running_cycles),
    "useful_share": _cycle_share("useful"),
    "receive_share": _useful_part("receive"),
    "process_share": _useful_part("process"),
    "transmit_share": _useful_part("transmit"),
    "empty_poll_share": _cycle_share("empty_poll"),
    "loop_share": lambda trial: (trial.cycles["loop"] - trial.interrupted_cycles) / trial.cycles["total"],
    "interrupted_share": lambda trial: trial.interrupted_cycles / trial.total_cycles,
    "instrumentation_share": _cycle_share("instrumentation"),
    "tax_share_ovs": lambda trial: trial.dut_sum("idle_iteration_cycles") / trial.total_cycles,
    "tax_share_testpmd": lambda trial: 1 - trial.dut_sum("busy_cycles_testpmd") / trial.total_cycles,
    "poll_rate_hz": lambda trial: sum(trial.polls.values()) / trial.window_s,
    "poll_rate_running_hz": lambda trial: trial.poll_count / _running_s(trial),
    "poll_rate_per_queue_hz": lambda trial: sum(trial.polls.values()) / trial.window_s / trial.rx_queues,
    "iteration_rate_hz": lambda trial: trial.dut_sum("iterations") / trial.window_s / len(trial.lcores),
    "sweep_time_ns": lambda trial: NS_PER_S * _running_s(trial) * len(trial.lcores) / trial.iterations,
    "idle_iteration_share": lambda trial: trial.dut_sum("idle_iterations") / trial.iterations,
    "empty_poll_fraction": _poll_fraction("empty"),
    "full_poll_fraction": _poll_fraction("full"),
    "race_lost_fraction": _poll_fraction("race_lost"),
    "refill_failed_fraction": _poll_fraction("refill_failed"),
    "rx_pps": lambda trial: trial.received("rx_packets") / trial.window_s,
    "tx_pps": lambda trial: trial.sent("tx_packets") / trial.window_s,
    "rx_bps": _rx_bits(0),
    "tx_bps": _tx_bits(0),
    "rx_line_bps": _rx_bits(LINE_OVERHEAD_BYTES),
    "tx_line_bps": _tx_bits(LINE_OVERHEAD_BYTES),
    "offered_pps": _gen_rate("sent"),
    "intended_pps": _gen_rate("intended"),
    "cycles_per_packet_busy": lambda trial: trial.dut_sum("busy_cycles_testpmd") / trial.packets,
    "cycles_per_packet_useful": lambda trial: trial.cycles["useful"] / trial.packets,
    "cycles_per_packet_all": lambda trial: trial.total_cycles / trial.packets,
    "empty_poll_overlapped_cycles": _calibrated("empty_poll_overlapped_cycles"),
    "empty_poll_serialised_cycles": _calibrated("empty_poll_serialised_cycles"),
    "idle_iteration_cycles": _calibrated("idle_iteration_cycles"),
    "sweep_cycles": _calibrated("sweep_cycles"),
    "stamp_cycles": _calibrated("stamp_cycles"),
    "ipc": _pmu_ratio("window", "instructions", "cycles"),
    "ipc_useful": _pmu_ratio("useful", "instructions", "cycles"),
    "ipc_polling": _pmu_ratio("polling", "instructions", "cycles"),
    "llc_loads_per_s": _pmu_rate("llc_loads"),
    "llc_load_misses_per_s": _pmu_rate("llc_misses"),
    "l1d_misses_per_s": _pmu_rate("l1d_misses"),
    "l1d_miss_share": _pmu_ratio("window", "l1d_misses", "l1d_loads"),
    "l2_misses_per_s": _pmu_rate("l2_misses"),
    "l2_misses_per_poll": lambda trial: trial.pmu("window", "l2_misses") / trial.poll_count,
    "generator_gaps_over_10us_per_s": _gap_rate("over_10us"),
    "generator_gaps_over_100us_per_s": _gap_rate("over_100us"),
    "corunner_frequency_hz": lambda trial: _own(trial, "frequency_hz").number(),
    "corunner_longest_step_ns": lambda trial: _own(trial, "longest_step_ns").number(),
    "involuntary_switches": lambda trial: trial.dut_sum("os", "involuntary_switches"),
    "steal_ticks": lambda trial: trial.part("host", "steal_ticks").number(),
}


def _running_s(trial: Trial) -> float:
    """Seconds in which the lcores ran, mean over lcores."""
    return trial.window_s * trial.running_cycles / trial.total_cycles


@metric("warmup_left_ns")
def _warmup_left_ns(trial: Trial) -> float:
    return NS_PER_S * warm_up(trial).cut_s


@metric("corunner_rate_hz")
def _corunner_rate_hz(trial: Trial) -> float:
    worker = trial.corunner
    unit = worker["unit"].text()
    if unit == "bytes":
        raise NotMeasured("memory-stream counts bytes: corunner_bytes_per_s")
    return worker["bogo_ops_per_s"].number() if unit == "bogo_ops" else worker["done"].number() / trial.window_s


@metric("corunner_rate_running_hz")
def _corunner_rate_running_hz(trial: Trial) -> float:
    if trial.corunner["unit"].text() == "bytes":
        raise NotMeasured("memory-stream counts bytes: corunner_bytes_per_s")
    return _own(trial, "done").number() / _corunner_running_s(trial)


def _corunner_running_s(trial: Trial) -> float:
    """Seconds of the window in which the co-runner had its CPU."""
    waited_s = _own(trial, "waited_ns").number() / NS_PER_S
    return nonzero(max(0.0, trial.window_s - waited_s), "the co-runner never had its CPU")


def _corunner_done(trial: Trial, unit: str, work: str) -> float:
    """What the co-runner has done, if it counts in this unit."""
    found = trial.corunner["unit"].text()
    if found != unit:
        raise NotMeasured(f"the co-runner counts {found}; only {work} counts {unit}")
    return trial.corunner["done"].number()


@metric("corunner_hop_ns")
def _corunner_hop_ns(trial: Trial) -> float:
    hops = nonzero(_corunner_done(trial, "hops", "pointer-chase"), "the co-runner made no hop")
    return _corunner_running_s(trial) * NS_PER_S / hops


@metric("corunner_bytes_per_s")
def _corunner_bytes_per_s(trial: Trial) -> float:
    return _corunner_done(trial, "bytes", "memory-stream") / trial.window_s


def _own(trial: Trial, key: str) -> Part:
    """A measured value of the co-runner; stress-ng is a program of its own, in which nothing is measured."""
    if trial.corunner["unit"].text() == "bogo_ops":
        raise NotMeasured("stress-ng is not measured from inside")
    return trial.corunner[key]


@metric("corunner_ipc")
def _corunner_ipc(trial: Trial) -> float:
    try:
        pmu = _own(trial, "pmu")
        return pmu["instructions"].number() / nonzero(pmu["cycles"].number(), "the PMU counted no cycle")
    except NotMeasured as absent:
        return _by_collector(trial, absent)


def _by_collector(trial: Trial, absent: NotMeasured) -> float:
    """The co-runner's IPC by perf-corunner; without that collector its own reason for the absence counts."""
    try:
        return corunner_ipc(trial)
    except NotMeasured:
        raise absent from None


@metric("ipc_with_corunner")
def _ipc_with_corunner(trial: Trial) -> float:
    alone = COMPUTE["ipc"](trial)
    params = trial.part("params").value
    if not isinstance(params, Mapping) or params.get("corunner", "none") == "none":
        return alone
    return alone + _corunner_ipc(trial)


@metric("burst_mean")
def _burst_mean(trial: Trial) -> float:
    bursts = trial.polls["partial"] + trial.polls["full"]
    return trial.dut_sum("rx_packets") / nonzero(bursts, "no poll returned a packet")


def _generator_s(trial: Trial) -> float:
    # Generator lcores run side by side, so rates add up and the windows are equal: the mean is the window.
    duration = trial.gen_sum("duration_tsc") / len(trial.generators)
    return nonzero(duration, "the generator's window has no length") / trial.generator_tsc_hz


@metric("unsent_share")
def _unsent_share(trial: Trial) -> float:
    return trial.gen_sum("unsent") / nonzero(trial.gen_sum("intended"), "no packet was due in the window")


@metric("loss_share")
def _loss_share(trial: Trial) -> float:
    _require_receiver(trial)
    sent = nonzero(trial.gen_sum("total", "sent"), "the generator sent nothing")
    return 1 - (trial.gen_sum("total", "rx_packets") - trial.gen_sum("sequence", "duplicated")) / sent


@metric("reordered_share")
def _reordered_share(trial: Trial) -> float:
    return trial.gen_sum("sequence", "reordered") / _first_copies(trial)


@metric("reordered_by_3_share")
def _reordered_by_3_share(trial: Trial) -> float:
    _require_receiver(trial)
    degree = trial.gen_histogram("sequence", "degree", may_be_empty=True)
    return degree.at_least(TCP_DUPLICATE_ACKS) / _first_copies(trial)


@metric("duplicated_share")
def _duplicated_share(trial: Trial) -> float:
    _require_receiver(trial)
    received = nonzero(trial.gen_sum("total", "rx_packets"), "the generator received nothing")
    return trial.gen_sum("sequence", "duplicated") / received


def _first_copies(trial: Trial) -> float:
    _require_receiver(trial)
    copies = trial.gen_sum("total", "rx_packets") - trial.gen_sum("sequence", "duplicated")
    return nonzero(max(copies, 0.0), "the generator received nothing")


@metric("lossy_flows_share")
def _lossy_flows_share(trial: Trial) -> float:
    _require_receiver(trial)
    return trial.gen_sum("sequence", "flows", "lossy") / nonzero(
        trial.gen_sum("sequence", "flows", "sent"), "the generator sent nothing"
    )


@metric("worst_flow_loss_share")
def _worst_flow_loss_share(trial: Trial) -> float:
    _require_receiver(trial)
    return max(_worst_loss(lcore["sequence"]["flows"]) for lcore in trial.generators)


def _worst_loss(flows: Part) -> float:
    if flows["lossy"].number() == 0:
        return 0.0
    return flows["worst_loss"]["lost"].number() / positive(flows["worst_loss"]["sent"])


def _order(name: str, statistic: str) -> Compute:
    def compute(trial: Trial) -> float:
        _require_receiver(trial)
        histogram = trial.gen_histogram("sequence", name, may_be_empty=True)
        if histogram.samples == 0:
            raise NotMeasured("no packet was reordered within its flow")
        return STATISTICS[statistic](histogram)

    return compute


def _require_receiver(trial: Trial) -> None:
    generator = trial.part("config", "gen").value
    if isinstance(generator, Mapping) and generator.get("rx_port") is None:
        raise NotMeasured("the generator does not receive in this set-up (gen.rx_port is null)")
    dut = trial.part("config", "dut").value
    if isinstance(dut, Mapping) and dut.get("workload") in ("drop", "rx"):
        raise NotMeasured("the workload drops every packet on purpose")


@metric("imissed_share")
def _imissed_share(trial: Trial) -> float:
    missed = trial.rx_port["imissed"].number()
    arrived = trial.rx_port["ipackets"].number() + missed
    return missed / nonzero(arrived, "no packet arrived at the DUT's RX port")


@metric("rx_nombuf_share")
def _rx_nombuf_share(trial: Trial) -> float:
    refused = trial.rx_port["rx_nombuf"].number()
    arrived = trial.rx_port["ipackets"].number() + trial.rx_port["imissed"].number() + refused
    return refused / nonzero(arrived, "no packet arrived at the DUT's RX port")


@metric("tx_dropped_share")
def _tx_dropped_share(trial: Trial) -> float:
    dropped = trial.sent("tx_dropped")
    return dropped / nonzero(dropped + trial.sent("tx_packets"), "the DUT sent nothing")


@metric("ring_full_share")
def _ring_full_share(trial: Trial) -> float:
    if not trial.dispatchers:
        raise NotMeasured("there is no ring: no lcore is a dispatcher")
    full = sum(lcore["ring_full"].number() for lcore in trial.dispatchers)
    return full / nonzero(trial.received("rx_packets"), "the dispatchers received no packet in the window")


@metric("rate_error")
def _rate_error(trial: Trial) -> float:
    rate = trial.part("start", "rate")
    if isinstance(rate.value, Mapping) and "pps" not in rate.value:
        raise NotMeasured("no rate in packets per second was asked for")
    asked = nonzero(rate["pps"].number(), "no traffic was asked for")
    return trial.gen_sum("sent") / _generator_s(trial) / asked - 1


@metric("sampled_gap_share")
def _sampled_gap_share(trial: Trial) -> float:
    gaps = trial.dut_sum("cycles_sampled", "host_gap_cycles")
    return gaps / nonzero(gaps + trial.dut_sum("cycles_sampled", "cycles"), "no sweep was sampled")


@metric("longest_iteration_ns")
def _longest_iteration_ns(trial: Trial) -> float:
    longest = [entry["cycles"].number() for lcore in trial.lcores for entry in lcore["longest"].items()]
    return nonzero(max(longest, default=0), "no iteration was stamped") / trial.tsc_hz * NS_PER_S


@metric("generator_gap_longest_ns")
def _generator_gap_longest_ns(trial: Trial) -> float:
    return max(at(lcore, ("host_gaps", "longest_ns")).number() for lcore in trial.generators)


@metric("pmu_multiplexed_share")
def _pmu_multiplexed_share(trial: Trial) -> float:
    return max(at(lcore, ("pmu", "multiplexed_share")).number() for lcore in trial.lcores)


def _percentile(histogram: Histogram, percent: float) -> float:
    """A percentile, if there are enough samples for one to lie beyond it."""
    needed = math.ceil(100 / (100 - percent) - 1e-9)
    if histogram.samples < needed:
        raise NotMeasured(f"{histogram.samples} samples are too few for p{percent:g} (at least {needed})")
    return histogram.percentile(percent)


def _searched(loss_ratio: float) -> Compute:
    def compute(trial: Trial) -> float:
        if not isinstance(trial.record.value, Mapping) or "search" not in trial.record.value:
            raise NotMeasured("a search finds it (maximum.method: mlrsearch), no single trial")
        for goal in trial.part("search", "goals").items():
            if goal["loss_ratio"].number() == loss_ratio:
                return _throughput(goal)
        raise NotMeasured(f"the search was not asked for a loss ratio of {100 * loss_ratio:g} %")

    return compute


def _throughput(goal: Part) -> float:
    try:
        return goal["throughput_pps"].number()
    except NotMeasured:
        raise NotMeasured(f"the search found none: {goal['reason'].text()}") from None


SEARCHED = {"throughput_loss_0_pps": _searched(0.0), "throughput_loss_0_5_pps": _searched(0.005)}
COMPUTE |= SEARCHED


Statistic = Callable[[Histogram], float]
STATISTICS: dict[str, Statistic] = {
    "mean": lambda histogram: histogram.mean,
    "p50": lambda histogram: _percentile(histogram, 50),
    "p90": lambda histogram: _percentile(histogram, 90),
    "p99": lambda histogram: _percentile(histogram, 99),
    "p999": lambda histogram: _percentile(histogram, 99.9),
    "max": lambda histogram: histogram.maximum,
}


@metric("latency_tail_ns")
def _latency_tail_ns(trial: Trial) -> float:
    return COMPUTE["latency_p99_ns"](trial) - COMPUTE["latency_mean_ns"](trial)


@metric("latency_floor_ns")
def _latency_floor_ns(trial: Trial) -> float:
    return _floor(trial, "p50")


@metric("latency_floor_p99_ns")
def _latency_floor_p99_ns(trial: Trial) -> float:
    return _floor(trial, "p99")


@metric("latency_sent_tail_ns")
def _latency_sent_tail_ns(trial: Trial) -> float:
    return COMPUTE["latency_sent_p99_ns"](trial) - COMPUTE["latency_sent_mean_ns"](trial)


def _floor(trial: Trial, statistic: str) -> float:
    histogram = trial.floor_histogram()
    return trial.in_ns(STATISTICS[statistic](histogram), histogram.unit)


def _dut_cycles(name: str, statistic: str) -> Compute:
    return lambda trial: STATISTICS[statistic](trial.dut_histogram(name))


def _dut_ns(name: str, statistic: str) -> Compute:
    def compute(trial: Trial) -> float:
        histogram = trial.dut_histogram(name)
        return trial.in_ns(STATISTICS[statistic](histogram), histogram.unit)

    return compute


def _gen_ns(keys: Sequence[str], statistic: str) -> Compute:
    def compute(trial: Trial) -> float:
        if keys[0] == "latency_ns":
            _require_receiver(trial)
        histogram = trial.gen_histogram(*keys)
        return trial.in_ns(STATISTICS[statistic](histogram), histogram.unit)

    return compute


def _histogram_metrics() -> Iterator[tuple[str, Compute]]:
    for statistic in ("mean", "p99", "max"):
        yield f"reordering_extent_{statistic}", _order("extent", statistic)
    for statistic in ("mean", "max"):
        yield f"reordering_distance_{statistic}", _order("distance", statistic)
    for statistic in ("p50", "p99", "max"):
        yield f"iteration_cycles_{statistic}", _dut_cycles("iteration_cycles", statistic)
        yield f"visit_gap_{statistic}_ns", _dut_ns("visit_gap_cycles", statistic)
    for statistic in STATISTICS:
        yield f"latency_{statistic}_ns", _gen_ns(("latency_ns", "from_intended"), statistic)
        yield f"latency_sent_{statistic}_ns", _gen_ns(("latency_ns", "from_sent"), statistic)
    yield "generator_lateness_p99_ns", _gen_ns(("lateness_ns",), "p99")


COMPUTE |= dict(_histogram_metrics())
COMPUTE |= COUNTED


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
    high = math.inf if name == "rate_error" else 1 + SHARE_TOLERANCE
    if unit == "share" and not low <= value <= high:
        raise NotMeasured(f"the record gives {value:.4g}, but a share lies between 0 and 1")
    return value


TABLE_FILE = "results.parquet"
KEYS = ("run_id", "row", "point", "repeat", "kind", "trial", "status", "testbed", "modelled")


def derive_table(run: RunFolder) -> pd.DataFrame:
    """The table of docs/store-format.md: one row per trial, its last attempt, in the order of measurement.

    Columns: the keys, `factor.NAME`, `metric.NAME` (float, NaN when absent) and `absent.NAME` (the reason, else null).

    Raises:
        UsageError: a trial contradicts the protocol.
    """
    rows = [_table_row(run, record) for record in last_attempts(run.trials)]
    metrics = list(metric_dictionary().metrics)
    factors = sorted({column for row in rows for column in row if column.startswith("factor.")})
    columns = [*KEYS, *factors, *(f"metric.{name}" for name in metrics), *(f"absent.{name}" for name in metrics)]
    table = pd.DataFrame(rows, columns=columns)
    kinds = {f"metric.{name}": "float64" for name in metrics} | {f"absent.{name}": "str" for name in metrics}
    return table.astype(kinds | dict.fromkeys(("run_id", "row", "point", "kind", "trial", "status", "testbed"), "str"))


def last_attempts(trials: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """The trials without those that were measured again later under the same name."""
    return list({record["trial"]: record for record in trials}.values())


def _table_row(run: RunFolder, record: Mapping[str, object]) -> dict[str, object]:
    try:
        metrics, absences = derive_trial(record)
    except UsageError as error:
        raise UsageError(error.what, f"{run.path / 'trials.jsonl'}: {error.where}", error.remedy) from None
    factors = record["factors"]
    if not isinstance(factors, Mapping):
        raise UsageError("factors is not an object", f"{run.path / 'trials.jsonl'}: trial {record['trial']}")
    return (
        {"run_id": run.run_id, "row": run.meta["row"]}
        | {key: record[key] for key in KEYS[2:]}
        | {f"factor.{name}": level for name, level in factors.items()}
        | ({"factor.pair": record["pair"]} if "pair" in record else {})
        | {f"metric.{name}": value for name, value in metrics.items()}
        | {f"absent.{name}": reason for name, reason in absences.items()}
    )


def write_table(run_folder: Path) -> Path:
    """Derive `results.parquet` of a run folder, by atomic replacement, and return its path.

    Raises:
        UsageError: no run folder, or one that contradicts the formats.
    """
    table = derive_table(read_run(run_folder))
    table.attrs["pollscope"] = __version__
    path, new = run_folder / TABLE_FILE, run_folder / f".{TABLE_FILE}.{os.getpid()}"
    table.to_parquet(new, index=False)
    new.replace(path)
    return path


def read_table(run_folders: Sequence[Path]) -> pd.DataFrame:
    """The tables of several runs one below the other; each is derived anew when it is missing or out of date.

    Raises:
        UsageError: no run folder, or one that contradicts the formats.
    """
    return pd.concat([current_table(read_run(folder)) for folder in run_folders], ignore_index=True)


def current_table(run: RunFolder) -> pd.DataFrame:
    """The table of a run, derived anew when it is missing or out of date.

    A run folder that cannot be written to (an archive) is derived in memory.

    Raises:
        UsageError: a trial contradicts the protocol.
    """
    path = run.path / TABLE_FILE
    if _is_current(path, run.path / "trials.jsonl"):
        table = pd.read_parquet(path)
        if table.attrs.get("pollscope") == __version__ and len(table) == len(last_attempts(run.trials)):
            return table
    if not os.access(run.path, os.W_OK):
        return derive_table(run)
    return pd.read_parquet(write_table(run.path))


def _is_current(table: Path, trials: Path) -> bool:
    if not table.exists():
        return False
    # The dictionary and the code that derives decide what the table holds, as the trials do.
    code = [Path(__file__).parent / name for name in ("counted.py", "derive.py", "record.py")]
    sources = [trials, data_folder("configs") / "metrics.yaml", *code]
    return table.stat().st_mtime_ns > max(source.stat().st_mtime_ns for source in sources if source.exists())
