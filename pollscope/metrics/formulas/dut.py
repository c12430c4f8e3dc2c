# SPDX-License-Identifier: BSD-3-Clause
"""Compute the metrics of the DUT: cycles, polls, packets, costs, PMU."""

import math
from collections.abc import Callable

from pollscope.base.names import DROP_ON_PURPOSE
from pollscope.base.units import human_number
from pollscope.metrics.formulas import Compute
from pollscope.metrics.probed import SampledValue
from pollscope.metrics.record import (
    NS_PER_S,
    TAX_CLASSES,
    NotMeasured,
    TrialObservations,
    at,
    keys_of,
    nonzero,
    timed_parts,
)
from pollscope.metrics.steady import warm_up

# Bytes that a frame takes on the line and drivers do not count: FCS 4, preamble and start 8, gap 12.
_LINE_OVERHEAD_BYTES = 24


def _cycle_share(*classes: str) -> Compute:
    return lambda trial: sum(trial.cycles[name] for name in classes) / trial.cycles["total"]


def _poll_fraction(outcome: str) -> Compute:
    def fraction(trial: TrialObservations) -> float:
        polls = trial.polls.get(outcome)
        return (trial.dut_sum("polls", outcome) if polls is None else polls) / trial.poll_count

    return fraction


def _claim_lost_fraction(trial: TrialObservations) -> float:
    lost = trial.dut_sum("polls", "race_lost")
    claims = lost + trial.dut_sum("polls", "partial") + trial.dut_sum("polls", "full")
    return lost / nonzero(claims, "no poll found packets")


def _shared(trial: TrialObservations, name: str) -> float:
    """Return the sum over all notified lcores."""
    found = [lcore["sharing"][name].number() for lcore in trial.lcores if "sharing" in keys_of(lcore)]
    if not found:
        raise NotMeasured("no core was notified of queues")
    return sum(found)


def _vain_wakeup_fraction(trial: TrialObservations) -> float:
    vain = _shared(trial, "vain_wakes")
    return vain / nonzero(trial.dut_sum("waiting", "count"), "no core waited")


def _bits(of: Callable[[TrialObservations, str], float], way: str, overhead_bytes: int) -> Compute:
    return lambda trial: 8 * (of(trial, f"{way}_bytes") + overhead_bytes * of(trial, f"{way}_packets")) / trial.window_s


def _calibrated(name: str) -> Compute:
    return lambda trial: trial.part("calibration", name, "median").number()


def _stamp_cycles(trial: TrialObservations) -> float:
    """Return the cost of a time stamp; as a difference of two loops it may be negative on a busy host."""
    cycles = trial.part("calibration", "stamp_cycles", "median").estimate()
    if cycles < 0:
        raise NotMeasured(
            f"calibrated as {human_number(cycles)} cycles, less than this host's noise: the trial counts them as 0"
        )
    return cycles


def _pmu_ratio(scope: str, above: str, below: str) -> Compute:
    return lambda trial: (
        trial.pmu(scope, above) / nonzero(trial.pmu(scope, below), f"the PMU counted no {below} ({scope})")
    )


def _pmu_rate(event: str) -> Compute:
    return lambda trial: trial.pmu("window", event) / trial.window_s


def _running_s(trial: TrialObservations) -> float:
    """Return the mean time that an lcore ran, each counted to its own end."""
    return trial.running_cycles / trial.tsc_hz / len(trial.lcores)


def _sampled_gap_share(trial: TrialObservations) -> float:
    gaps = trial.dut_sum("timed_intervals", "left_out_cycles")
    return gaps / nonzero(gaps + trial.dut_sum("timed_intervals", "cycles"), "no interval was timed")


def _busy_cycles_testpmd(trial: TrialObservations) -> float:
    """Return the cycles of calls that returned packets, between stamps, as testpmd counts them."""
    return sum(sum(timed_parts(lcore).values()) for lcore in trial.lcores)


def _tax_share_testpmd(trial: TrialObservations) -> float:
    spent = (_busy_cycles_testpmd(trial) + trial.waiting_cycles) / trial.total_cycles
    if spent > 1:
        waits = " with the waits between them" if trial.waiting_cycles else ""
        raise NotMeasured(
            f"timed one at a time, busy polls{waits} take {100 * spent:.1f} % of the window: they overlap in the loop"
        )
    return 1 - spent


def _tax_share_error(trial: TrialObservations) -> float:
    errors = [one.classes.packets.error for one in trial.accounts]
    return math.hypot(*errors) / trial.cycles["total"]


def _cycles_per_packet_useful_error(trial: TrialObservations) -> float:
    return _tax_share_error(trial) * trial.cycles["total"] / trial.packets


def _misfit_share(trial: TrialObservations) -> float:
    """Return the largest misfit of one lcore: those of two lcores must not cancel."""
    known = [one.misfit / one.total for one in trial.accounts if not isinstance(one.classes.misfit, str)]
    return max(known, key=abs) if known else trial.accounts[0].misfit


def _tax_share_running(trial: TrialObservations) -> float:
    tax = sum(trial.cycles[name] for name in TAX_CLASSES) - trial.interrupted_cycles
    return tax / trial.running_cycles


def moved_counter(trial: TrialObservations) -> str:
    """Return the counter of moved packets: those sent, unless the workload drops some or all on purpose."""
    return "rx_packets" if trial.part("config", "dut", "workload").text() in DROP_ON_PURPOSE else "tx_packets"


def _moved_pps(trial: TrialObservations) -> float:
    counter = moved_counter(trial)
    return (trial.sent(counter) if counter == "tx_packets" else trial.received(counter)) / trial.window_s


def _moved_pps_without_tax(trial: TrialObservations) -> float:
    if trial.part("config", "dut", "workload").text() == "tx":
        return _moved_pps(trial)
    return _moved_pps(trial) / nonzero(1 - _tax_share_running(trial), "all cycles are polling tax")


def _longest_iteration_ns(trial: TrialObservations) -> float:
    longest = [entry["cycles"].number() for lcore in trial.lcores for entry in lcore["longest"].items()]
    return nonzero(max(longest, default=0), "no iteration was stamped") / trial.tsc_hz * NS_PER_S


def _sweep_time_ns(trial: TrialObservations) -> float:
    """Return the mean time of a sweep; waits lie between sweeps and do not count."""
    sweeping = nonzero(max(0.0, trial.running_cycles - trial.waiting_cycles), "the DUT's lcores did nothing but wait")
    return NS_PER_S * sweeping / trial.tsc_hz / trial.iterations


def _probed(name: str) -> Callable[[TrialObservations], list[SampledValue]]:
    """Return a function that returns an estimate per thread.

    The function raises NotMeasured with the reason of the first thread that lacks it.
    """

    def of(trial: TrialObservations) -> list[SampledValue]:
        found = []
        for each in trial.probed:
            value = getattr(each, name)
            if isinstance(value, str):
                raise NotMeasured(value)
            found.append(value)
        return found

    return of


def _mean_per_thread(name: str) -> Compute:
    """Return the mean over threads, each weighted by its packets."""

    def mean(trial: TrialObservations) -> float:
        weights = [each.rx_pps for each in trial.probed]
        values = [each.value for each in _probed(name)(trial)]
        total = sum(weight * value for weight, value in zip(weights, values, strict=True))
        return total / nonzero(sum(weights), "no packet came")

    return mean


# Metrics whose error a single trial knows, and the metric that holds the error; tax_share_error is a share of the whole
# window, also for a share of the time in which the lcores ran (OF_RUNNING_TIME).
ERRORS = {
    **dict.fromkeys(("tax_share", "tax_share_running", "useful_share"), "tax_share_error"),
    **dict.fromkeys(("empty_poll_share", "loop_share"), "empty_poll_share_error"),
    **dict.fromkeys(("cycles_per_packet_useful", "undisturbed_cycles_per_packet"), "cycles_per_packet_useful_error"),
    "service_time_ns": "service_time_error_ns",
    "saturation_pps": "saturation_error_pps",
}
OF_RUNNING_TIME = frozenset({"tax_share_running"})


def own_error(metric: str) -> Compute | None:
    """Return how the error of a metric is computed in one trial; None if it is not known."""
    error = DUT.get(ERRORS.get(metric, ""))
    if error is None or metric not in OF_RUNNING_TIME:
        return error
    return lambda trial: error(trial) * trial.total_cycles / trial.running_cycles


# Metrics that come from timed intervals: a misfit of the accounting says nothing about all others.
ACCOUNTED = frozenset(ERRORS) | {
    "accounting_misfit_share",
    "interaction_share",
    "tax_share_ovs",
    "receive_share",
    "process_share",
    "transmit_share",
    "moved_pps_without_tax",
    "ipc_useful",
    "ipc_polling",
    *ERRORS.values(),
}

DUT: dict[str, Compute] = {
    "tax_share": _cycle_share(*TAX_CLASSES),
    "tax_share_running": _tax_share_running,
    "tax_share_error": _tax_share_error,
    "interaction_share": lambda trial: sum(one.interaction.value for one in trial.accounts) / trial.cycles["total"],
    "empty_poll_share_error": lambda trial: (
        math.hypot(*[one.classes.empty_poll.error for one in trial.accounts]) / trial.cycles["total"]
    ),
    "accounting_misfit_share": _misfit_share,
    "wire_share": _cycle_share("wire"),
    # Measured completely, so it is known even if the other classes are not.
    "waiting_share": lambda trial: trial.waiting_cycles / trial.total_cycles,
    "useful_share": _cycle_share("useful"),
    "receive_share": lambda trial: trial.useful_part_share("receive"),
    "process_share": lambda trial: trial.useful_part_share("process"),
    "transmit_share": lambda trial: trial.useful_part_share("transmit"),
    "empty_poll_share": _cycle_share("empty_poll"),
    "loop_share": lambda trial: (trial.cycles["loop"] - trial.interrupted_cycles) / trial.cycles["total"],
    "interrupted_share": lambda trial: trial.interrupted_cycles / trial.total_cycles,
    "instrumentation_share": _cycle_share("instrumentation"),
    "tax_share_ovs": lambda trial: sum(one.idle_iterations for one in trial.accounts) / trial.total_cycles,
    "tax_share_testpmd": _tax_share_testpmd,
    "tax_share_reported": lambda trial: 1 - trial.part("result", "dut", "reported_busy_share").number(),
    "poll_rate_hz": lambda trial: sum(trial.polls.values()) / trial.window_s,
    "poll_rate_running_hz": lambda trial: trial.poll_count / _running_s(trial),
    "poll_rate_per_queue_hz": lambda trial: sum(trial.polls.values()) / trial.window_s / trial.rx_queues,
    "iteration_rate_hz": lambda trial: trial.iterations / trial.window_s / len(trial.lcores),
    "sweep_time_ns": _sweep_time_ns,
    "idle_iteration_share": lambda trial: trial.dut_sum("idle_iterations") / trial.iterations,
    "empty_poll_fraction": _poll_fraction("empty"),
    "full_poll_fraction": _poll_fraction("full"),
    "race_lost_fraction": _poll_fraction("race_lost"),
    "claim_lost_fraction": _claim_lost_fraction,
    "stolen_fraction": lambda trial: _shared(trial, "stolen") / trial.poll_count,
    "vain_wakeup_fraction": _vain_wakeup_fraction,
    "refill_failed_fraction": _poll_fraction("refill_failed"),
    "rx_pps": lambda trial: trial.received("rx_packets") / trial.window_s,
    "tx_pps": lambda trial: trial.sent("tx_packets") / trial.window_s,
    "moved_pps": _moved_pps,
    "moved_pps_without_tax": _moved_pps_without_tax,
    "rx_bps": _bits(TrialObservations.received, "rx", 0),
    "tx_bps": _bits(TrialObservations.sent, "tx", 0),
    "rx_line_bps": _bits(TrialObservations.received, "rx", _LINE_OVERHEAD_BYTES),
    "tx_line_bps": _bits(TrialObservations.sent, "tx", _LINE_OVERHEAD_BYTES),
    "cycles_per_packet_busy": lambda trial: _busy_cycles_testpmd(trial) / trial.packets,
    "cycles_per_packet_useful": lambda trial: trial.cycles["useful"] / trial.packets,
    "cycles_per_packet_useful_error": _cycles_per_packet_useful_error,
    "service_time_ns": lambda trial: NS_PER_S * trial.cycles["useful"] / trial.packets / trial.tsc_hz,
    "service_time_error_ns": lambda trial: NS_PER_S * _cycles_per_packet_useful_error(trial) / trial.tsc_hz,
    "cycles_per_packet_all": lambda trial: trial.total_cycles / trial.packets,
    **{name: _calibrated(name) for name in ("empty_poll_overlapped_cycles", "empty_poll_serialised_cycles")},
    **{name: _calibrated(name) for name in ("idle_iteration_cycles", "sweep_cycles")},
    "stamp_cycles": _stamp_cycles,
    "ipc": _pmu_ratio("window", "instructions", "cycles"),
    "ipc_useful": _pmu_ratio("useful", "instructions", "cycles"),
    "ipc_polling": _pmu_ratio("polling", "instructions", "cycles"),
    "llc_loads_per_s": _pmu_rate("llc_loads"),
    "llc_load_misses_per_s": _pmu_rate("llc_misses"),
    "llc_load_hits_per_s": lambda trial: (
        (trial.pmu("window", "llc_loads") - trial.pmu("window", "llc_misses")) / trial.window_s
    ),
    "llc_loads_per_poll": lambda trial: trial.pmu("window", "llc_loads") / trial.poll_count,
    "l1d_misses_per_s": _pmu_rate("l1d_misses"),
    "l1d_miss_share": _pmu_ratio("window", "l1d_misses", "l1d_loads"),
    "l2_misses_per_s": _pmu_rate("l2_misses"),
    "l2_misses_per_poll": lambda trial: trial.pmu("window", "l2_misses") / trial.poll_count,
    "involuntary_switches": lambda trial: trial.dut_sum("os", "involuntary_switches"),
    "steal_ticks": lambda trial: trial.part("host", "steal_ticks").number(),
    "burst_mean": lambda trial: trial.dut_sum("rx_packets") / nonzero(trial.busy_polls, "no poll returned a packet"),
    "saturation_pps": lambda trial: sum(each.value for each in _probed("saturation_pps")(trial)),
    "saturation_error_pps": lambda trial: math.hypot(*(each.error for each in _probed("saturation_pps")(trial))),
    "busy_poll_marginal_cycles": _mean_per_thread("busy_poll_cycles"),
    "packet_marginal_cycles": _mean_per_thread("packet_cycles"),
    "sampled_gap_share": _sampled_gap_share,
    "longest_iteration_ns": _longest_iteration_ns,
    "pmu_multiplexed_share": lambda trial: max(
        at(lcore, ("pmu", "multiplexed_share")).number() for lcore in trial.lcores
    ),
    "warmup_left_ns": lambda trial: NS_PER_S * warm_up(trial).cut_s,
}
