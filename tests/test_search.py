# SPDX-License-Identifier: BSD-3-Clause
"""Test the search for a throughput, on made-up DUTs whose limit is known."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pollscope.plan.search import TRIES, Found, GoalFound, SearchCounts, Settings, expected_trials, search
from pollscope.run.search_trials import hidden_overload
from pollscope.spec.model import Parameters

SECOND = 1_000_000_000


def deviation(chance: random.Random) -> float:
    return abs(chance.gauss(0, 0.004))


def settings(**changes: Any) -> Settings:
    usual: dict[str, Any] = {
        "loss_ratios": (0.0, 0.005),
        "exceed_ratio": 0.5,
        "width": 0.005,
        "window_ns": SECOND,
        "duration_sum_ns": 5 * SECOND,
        "at_most_ns": 1200 * SECOND,
    }
    return Settings(**{**usual, **changes})


class MadeUp:
    """A DUT that takes `capacity` less a share drawn for each trial, behind a generator that reaches `generator`.

    `loads` lists what was asked for; None is 'as fast as the generator can'.
    """

    def __init__(self, capacity: float, generator: float, shortfall: Callable[[], float] = lambda: 0.0) -> None:
        self.capacity, self.generator, self.shortfall = capacity, generator, shortfall
        self.loads: list[float | None] = []

    def __call__(self, load: float | None, window_ns: int) -> SearchCounts:
        self.loads.append(load)
        due = self.generator if load is None else load
        offered = min(due, self.generator)
        sent = round(offered * window_ns / SECOND)
        taken = min(sent, int(self.capacity * (1 - self.shortfall()) * window_ns / SECOND))
        unsent = 1 - offered / due
        return SearchCounts(
            sent, sent - taken, unsent, offered, taken * SECOND / window_ns, (sent - taken) / max(1, sent)
        )


def throughputs(found: Found) -> list[float]:
    assert found.outcome == "found", found.reason
    return [goal.throughput_pps for goal in found.goals if goal.throughput_pps is not None]


@hypothesis_settings(deadline=None)
@given(
    capacity=st.floats(2e3, 5e7),
    surplus=st.floats(1.2, 50),
    width=st.sampled_from([0.002, 0.005, 0.02]),
    windows=st.integers(1, 21),
)
def test_finds_the_limit_of_any_dut(capacity: float, surplus: float, width: float, windows: int) -> None:
    dut = MadeUp(capacity, surplus * capacity)
    found = search(settings(width=width, duration_sum_ns=windows * SECOND), dut)
    none, half_percent = throughputs(found)
    whole_packets = 1 / capacity  # a trial sends and takes whole packets
    assert capacity * (1 - width - 2 * whole_packets) <= none <= capacity * (1 + 2 * whole_packets)
    assert capacity * (1 - width - 2 * whole_packets) <= half_percent <= capacity * (1 + 2 * whole_packets)
    for goal in found.goals:
        assert goal.lower_pps is not None and goal.upper_pps is not None
        assert goal.lower_pps < goal.upper_pps <= goal.lower_pps * (1 + 1.1 * width)


@hypothesis_settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), loss=st.sampled_from([0.001, 0.003, 0.01, 0.05]))
def test_a_dut_that_varies_is_found_within_its_spread(seed: int, loss: float) -> None:
    chance = random.Random(seed)
    dut = MadeUp(1e6, 3e6, lambda: abs(chance.gauss(0, loss)))
    none, half_percent = throughputs(search(settings(duration_sum_ns=21 * SECOND), dut))
    assert 1e6 * (1 - 4 * loss - 0.006) < none <= 1e6 * 1.0001
    assert none <= half_percent * (1 + loss), "more loss allowed is less throughput only by what the DUT varies"


@hypothesis_settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), at_each=st.floats(1e-6, 1e-4))
def test_a_dut_that_loses_at_any_load_has_no_rate_without_loss(seed: int, at_each: float) -> None:
    """A constant small loss: nothing at loss ratio 0, nearly all of the capacity at 0.5 %."""
    dut = MadeUp(1e7, 3e7)

    def leaky(load: float | None, window_ns: int) -> SearchCounts:
        counts = dut(load, window_ns)
        extra = max(1, int(counts.sent * at_each))
        return SearchCounts(**{**vars(counts), "lost": min(counts.sent, counts.lost + extra)})

    found = search(settings(), leaky)
    none, half_percent = found.goals
    assert found.outcome == "found"
    assert none.throughput_pps is None and none.reason.startswith("no rate from ")
    assert half_percent.throughput_pps is not None and half_percent.throughput_pps > 0.99e7


def test_unsent_packets_are_not_lost_ones() -> None:
    """A generator that leaves 0.5 % unsent in every trial does not make the DUT look lossy, nor faster than it is."""
    dut = MadeUp(1e6, 1e7)

    def sloppy(load: float | None, window_ns: int) -> SearchCounts:
        counts = dut(None if load is None else 0.995 * load, window_ns)
        return counts if load is None else SearchCounts(**{**vars(counts), "unsent_share": 0.005})

    none, half_percent = throughputs(search(settings(), sloppy))
    # In packets that were sent: the DUT's limit, not half a per cent above it.
    assert 0.994e6 < none <= 1.0001e6 and 0.994e6 < half_percent <= 1.0001e6


def test_a_generator_slower_than_the_dut_is_no_result() -> None:
    found = search(settings(), MadeUp(1e6, 0.9e6))
    assert found.outcome == "generator-bound"
    assert all(goal.throughput_pps is None and goal.reason == found.reason for goal in found.goals)
    assert "900 kpps, all that the generator can send, the DUT missed 0 %" in found.reason


def test_a_generator_that_paces_less_than_it_sends_saturated_gives_no_result() -> None:
    dut = MadeUp(1e6, 5e6)

    def slow_pacing(load: float | None, window_ns: int) -> SearchCounts:
        if load is not None:
            return SearchCounts(990_000, 0, unsent_share=1 - 0.99e6 / load, offered_pps=0.99e6, gap_share=0.0)
        return dut(load, window_ns)

    found = search(settings(), slow_pacing)
    assert found.outcome == "generator-bound"
    assert "could not send" in found.reason and "the DUT took 1 Mpps" in found.reason


def test_a_generator_that_can_pace_a_little_more_than_the_dut_takes_suffices() -> None:
    dut = MadeUp(1e6, 5e6)

    def slow_pacing(load: float | None, window_ns: int) -> SearchCounts:
        dut.generator = 5e6 if load is None else 1.1e6
        return dut(load, window_ns)

    none, _ = throughputs(search(settings(), slow_pacing))
    assert 0.994e6 < none <= 1e6


def test_a_generator_that_falls_short_now_and_then_is_asked_again() -> None:
    chance, dut = random.Random(1), MadeUp(1e6, 5e6)

    def interrupted(load: float | None, window_ns: int) -> SearchCounts:
        counts = dut(load, window_ns)
        if load is not None and chance.random() < 0.3:
            return SearchCounts(
                counts.sent, counts.sent, unsent_share=0.2, offered_pps=counts.offered_pps, gap_share=0.2
            )
        return counts

    none, _ = throughputs(search(settings(), interrupted))
    assert 0.994e6 < none <= 1e6, "what such a trial lost has no say"


def test_repeated_shortfall_ends_the_search_and_names_the_gaps() -> None:
    dut = MadeUp(1e6, 5e6)

    def noisy_below(load: float | None, window_ns: int) -> SearchCounts:
        counts = dut(load, window_ns)
        far_down = load is not None and load < 1.2e6
        return SearchCounts(**{**vars(counts), "unsent_share": 0.05, "gap_share": 0.05}) if far_down else counts

    found = search(settings(), noisy_below)
    assert found.outcome == "generator-bound"
    assert f"in {TRIES} trials it left at least 5 %" in found.reason
    assert "its core was taken away for 5 % of the time" in found.reason


def test_a_highest_load_that_is_forwarded_is_no_result() -> None:
    dut = MadeUp(1e6, 5e6)
    found = search(settings(highest_pps=0.5e6), dut)
    assert found.outcome == "generator-bound"
    assert "the highest rate of the search, 500 kpps, was forwarded" in found.reason
    assert max(load for load in dut.loads if load is not None) <= 0.5e6 and None not in dut.loads


def test_a_search_that_takes_too_long_is_given_up() -> None:
    dut = MadeUp(1e6, 5e6)
    found = search(settings(at_most_ns=4 * SECOND), dut)
    assert found.outcome == "out-of-time" and "after 4 s of trials" in found.reason
    assert len(dut.loads) == 4


def test_the_same_counts_give_the_same_search() -> None:
    """A resumed search relies on this: it asks for the same loads if it gets the same counts."""

    def once() -> list[float | None]:
        chance = random.Random(5)
        dut = MadeUp(1e6, 5e6, lambda: abs(chance.gauss(0, 0.01)))
        search(settings(), dut)
        return dut.loads

    assert once() == once()


@pytest.mark.parametrize(("windows", "width"), [(1, 0.005), (21, 0.005), (21, 0.02), (60, 0.005)])
def test_the_expected_number_of_trials_is_about_right(windows: int, width: float) -> None:
    wanted = settings(duration_sum_ns=windows * SECOND, width=width)
    made = []
    for seed in range(20):
        dut = MadeUp(3e5, 4e6, partial(deviation, random.Random(seed)))
        search(wanted, dut)
        made.append(len(dut.loads))
    assert min(made) * 0.6 < expected_trials(wanted) < max(made) * 1.4


def test_a_dut_that_took_nothing_when_it_was_saturated_has_no_rate() -> None:
    found = search(settings(), MadeUp(0.0, 1e6))
    assert (found.outcome, found.goals[0].throughput_pps) == ("generator-bound", None)
    assert found.reason == "the DUT took no packet when it was saturated: the window is too short"


def test_a_generator_barely_faster_than_the_dut_is_reported() -> None:
    found = search(settings(), MadeUp(1e6, 1.0125e6))
    assert found.outcome == "generator-bound"
    assert found.reason.startswith("1.01 Mpps, all that the generator can send, is too little more; the DUT took 1 M")


WIDE = settings(loss_ratios=(0.005,), width=0.01, duration_sum_ns=SECOND)


def found_at(pps: float | None) -> Found:
    return Found("found", (GoalFound(0.005, pps, pps, pps),))


@pytest.mark.parametrize(("descriptors", "warned"), [(1000, False), (1001, True)])
def test_rings_that_hold_more_than_the_search_width_are_reported(descriptors: int, warned: bool) -> None:
    warning = hidden_overload(Parameters(rx_desc=descriptors), WIDE, found_at(100e3))
    assert (warning is not None) is warned
    assert warning is None or ("1001 packets" in warning and "maximum.window" in warning)


def test_without_a_rate_there_is_nothing_to_compare_with() -> None:
    assert hidden_overload(Parameters(rx_desc=4096), WIDE, found_at(None)) is None
