# SPDX-License-Identifier: BSD-3-Clause
"""Test the warning of rings that hold more packets than the search resolves."""

import pytest

from pollscope.plan.search import Found, GoalFound, Settings
from pollscope.run.search_trials import hidden_overload
from pollscope.spec.model import Parameters

SETTINGS = Settings(
    loss_ratios=(0.005,), exceed_ratio=0.5, width=0.01, window_ns=10**9, duration_sum_ns=10**9, at_most_ns=10**11
)


def found(pps: float | None) -> Found:
    return Found("found", (GoalFound(0.005, pps, pps, pps),))


@pytest.mark.parametrize(("descriptors", "warned"), [(1000, False), (1001, True)])
def test_rings_that_hold_more_than_the_search_width_are_reported(descriptors: int, warned: bool) -> None:
    warning = hidden_overload(Parameters(rx_desc=descriptors), SETTINGS, found(100e3))
    assert (warning is not None) is warned
    assert warning is None or ("1001 packets" in warning and "maximum.window" in warning)


def test_without_a_rate_there_is_nothing_to_compare_with() -> None:
    assert hidden_overload(Parameters(rx_desc=4096), SETTINGS, found(None)) is None
