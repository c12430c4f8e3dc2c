# SPDX-License-Identifier: BSD-3-Clause
"""Recover known costs, polling tax and saturation rate from what a probe would sample of a simulated thread."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from polling_thread import TSC_HZ, PollingThread

from pollscope.metrics.probed import COLUMNS, ProbedClasses, ProbedThread, SampledValue, probed_classes

WINDOWS, WINDOW_CYCLES, BETWEEN_CYCLES = 24, 1.5e5, 3e5
POINTS_2 = 0.02
LIGHT, HALF, NEARLY_ALL, TOO_MUCH = 1e5, 1e7, 2.5e7, 2e8


def sampled(**costs: Any) -> tuple[PollingThread, ProbedThread]:
    thread = PollingThread(**costs)
    rows = thread.observe(WINDOWS, WINDOW_CYCLES, BETWEEN_CYCLES)
    stamp = SampledValue(thread.stamp, 2.0)
    return thread, ProbedThread(
        rows,
        TSC_HZ,
        stamp,
        thread.sent_stamp,
        thread.max_burst,
        thread.queues,
        thread.loaded,
        thread.own_pps if thread.packets else 0.0,
    )


def classes(probed: ProbedThread) -> ProbedClasses:
    found = probed_classes(probed)
    assert isinstance(found, ProbedClasses), found
    return found


def whole(probed: ProbedThread, *columns: str) -> float:
    """Return the sum of columns over all windows."""
    return sum(float(probed.blocks[:, COLUMNS.index(column)].sum()) for column in columns)


@pytest.mark.parametrize(
    "costs",
    [
        {"pps": 0.0},
        {"pps": LIGHT},
        {"pps": 3e6},
        {"pps": HALF},
        {"pps": NEARLY_ALL},
        {"pps": TOO_MUCH},
        {"pps": 5e6, "queues": 8, "loaded": 8},
        {"pps": 5e6, "queues": 64, "loaded": 4},
        {"pps": TOO_MUCH, "queues": 8, "loaded": 1},
        {"pps": HALF, "stamp": 0.0},
        {"pps": HALF, "stamp": 90.0},
        {"pps": HALF, "sent_stamp": 60.0},
        {"pps": 3e6, "interruption_cycles": 2e5},
    ],
    ids=str,
)
def test_tax_is_that_of_the_thread_at_its_own_pace(costs: dict[str, Any]) -> None:
    thread, probed = sampled(**costs)
    found = classes(probed)
    # The simulated time between windows has no interruptions: they take time from empty polls.
    assert found.tax.value == pytest.approx(1 - thread.true_useful_share, abs=POINTS_2)
    assert abs(found.tax.value - (1 - thread.true_useful_share)) <= found.tax.error + 0.005


def test_costs_are_those_that_were_planted() -> None:
    thread, probed = sampled(pps=HALF)
    found = classes(probed)
    assert isinstance(found.empty_poll_cycles, SampledValue)
    assert isinstance(found.busy_poll_cycles, SampledValue)
    assert isinstance(found.packet_cycles, SampledValue)
    assert found.empty_poll_cycles.value == pytest.approx(thread.empty, rel=0.01)
    assert found.busy_poll_cycles.value == pytest.approx(thread.receive[0] + thread.process[0], rel=0.02)
    assert found.packet_cycles.value == pytest.approx(thread.receive[1] + thread.process[1], rel=0.02)


def test_polls_are_counted_at_the_own_pace() -> None:
    thread, probed = sampled(pps=5e6, queues=8, loaded=8)
    found = classes(probed)
    assert found.poll_rate_hz == pytest.approx(thread.polls / thread.own_cycles * TSC_HZ, rel=0.02)
    sampled_burst = whole(probed, "eb_n", "bb_n") / whole(probed, "eb", "bb")
    assert found.burst == pytest.approx(thread.packets / thread.busy_polls, rel=0.02)
    assert found.burst < sampled_burst


@pytest.mark.parametrize(
    "costs",
    [{"pps": 3e6}, {"pps": HALF}, {"pps": NEARLY_ALL}, {"pps": 5e6, "queues": 64, "loaded": 4}],
    ids=str,
)
def test_saturation_rate_is_told_from_lower_loads(costs: dict[str, Any]) -> None:
    """The truth is the rate that the same thread reaches with full queues."""
    _, probed = sampled(**costs)
    overloaded, _ = sampled(**{**costs, "pps": TOO_MUCH})
    found = classes(probed)
    assert isinstance(found.saturation_pps, SampledValue), found.saturation_pps
    assert found.saturation_pps.value == pytest.approx(overloaded.own_pps, rel=0.05)
    assert found.at_least_pps is not None and found.at_least_pps <= overloaded.own_pps


def test_saturated_thread_says_its_present_rate() -> None:
    thread, probed = sampled(pps=TOO_MUCH, queues=8, loaded=1)
    found = classes(probed)
    assert isinstance(found.saturation_pps, SampledValue)
    assert found.saturation_pps.value == pytest.approx(thread.own_pps, rel=0.05)


def test_single_packets_give_a_lower_bound_of_the_saturation_rate() -> None:
    thread, probed = sampled(pps=LIGHT, scatter=0.5)
    found = classes(probed)
    assert isinstance(found.saturation_pps, str)
    assert "or more" in found.saturation_pps
    assert found.at_least_pps is not None and found.at_least_pps < thread.true_saturation_pps


def test_without_counts_of_the_port_a_full_queue_widens_the_interval() -> None:
    thread, probed = sampled(pps=TOO_MUCH, queues=8, loaded=1)
    found = classes(replace(probed, rx_pps=None))
    assert found.tax.error > 0.05
    assert abs(found.tax.value - (1 - thread.true_useful_share)) <= found.tax.error + 0.005


def test_windows_that_met_more_load_than_the_whole_observation_do_not_lower_the_tax() -> None:
    """Traffic comes in full bursts for a quarter of the time, and by chance all windows lie there."""
    thread, probed = sampled(pps=TOO_MUCH)
    full = probed.blocks[1:]  # in the first one the queue fills
    found = classes(replace(probed, blocks=full, rx_pps=thread.own_pps / 4))
    assert found.useful.value == pytest.approx(thread.true_useful_share / 4, rel=0.05)


def test_idle_thread_has_no_useful_cycles_and_no_saturation_rate() -> None:
    _, probed = sampled(pps=0.0)
    found = classes(probed)
    assert found.tax == SampledValue(1.0, 0.0)
    assert found.empty_fraction == 1.0
    assert isinstance(found.saturation_pps, str) and "no packet" in found.saturation_pps


def test_packets_that_no_sample_saw_are_an_error_of_the_tax() -> None:
    _, probed = sampled(pps=0.0)
    found = classes(replace(probed, rx_pps=1e4))
    assert found.tax.error >= 1e4 * 1000 / TSC_HZ


def test_single_packet_beside_scattered_empty_polls_has_no_cost() -> None:
    """The empty poll after it took less than the mean, so that the packet seems to cost nothing."""
    _, probed = sampled(pps=0.0)
    blocks = probed.blocks.copy()
    spent = {"eb": 1, "eb_c": 60, "eb_c2": 60**2, "eb_n": 1, "eb_n2": 1, "eb_nc": 60}
    spent |= {"be": 1, "be_c": 60, "be_c2": 60**2, "be_m": 1, "be_m2": 1, "be_mc": 60, "sampled_cycles": 120}
    for name, value in spent.items():
        blocks[0, COLUMNS.index(name)] += value
    found = classes(replace(probed, blocks=blocks, rx_pps=1.0, loaded_queues=1))
    assert found.tax.value == pytest.approx(1)
    assert isinstance(found.saturation_pps, str) and "1 packet in the samples" in found.saturation_pps
    assert found.at_least_pps is None


def test_short_observation_is_refused() -> None:
    _, probed = sampled(pps=HALF)
    found = probed_classes(replace(probed, blocks=probed.blocks[:3]))
    assert isinstance(found, str) and "longer" in found
    assert isinstance(probed_classes(replace(probed, blocks=np.zeros((9, probed.blocks.shape[1])))), str)
