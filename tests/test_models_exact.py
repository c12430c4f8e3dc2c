# SPDX-License-Identifier: BSD-3-Clause
"""The exact formulas: published values, limits in which one becomes another, and what they refuse."""

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from pollscope.models import queues
from pollscope.models.polling import CyclicQueues, cached_poll_ns

US = 1000.0  # the unit of service in most of these


def rate(utilisation: float, servers: int = 1) -> float:
    """Return the rate that keeps servers of 1 us service busy for this share of the time."""
    return utilisation * servers * 1e6


@pytest.mark.parametrize(
    ("servers", "load", "mean", "p99"),
    # In units of the mean service; textbook values, recomputed independently.
    [
        (1, 0.8, 4.0, 21.91),
        (4, 0.8, 0.7455, 5.11),
        (16, 0.8, 0.0953, 1.068),
        (1, 0.95, 19.0, 91.08),
        (16, 0.95, 0.975, 5.45),
    ],
)
def test_exponential_service(servers: int, load: float, mean: float, p99: float) -> None:
    assert queues.mmc_wait_ns(rate(load, servers), US, servers) == pytest.approx(mean * US, rel=2e-3)
    assert queues.mmc_wait_percentile_ns(rate(load, servers), US, servers, 99) == pytest.approx(p99 * US, rel=2e-3)


def test_published_erlang_values() -> None:
    # Erlang B tables: 10 circuits at 5 erlang block 1.84 %; Erlang C of the same: 3.61 %.
    assert queues.erlang_b(10, 5.0) == pytest.approx(0.01838, rel=1e-3)
    assert queues.erlang_c(10, 5.0) == pytest.approx(0.03611, rel=1e-3)
    assert queues.erlang_b(1000, 1000.0) == pytest.approx(0.0248, rel=5e-3)


@given(st.floats(0.01, 0.99))
def test_special_cases_are_those_of_the_general_formula(load: float) -> None:
    assert queues.mm1_wait_ns(rate(load), US) == pytest.approx(queues.mmc_wait_ns(rate(load), US, 1))
    assert queues.md1_wait_ns(rate(load), US) == pytest.approx(queues.mm1_wait_ns(rate(load), US) / 2)
    assert queues.mdc_wait_ns(rate(load), US, 1) == pytest.approx(queues.md1_wait_ns(rate(load), US))
    assert queues.batch_mg1_wait_ns(rate(load), 1, US, US**2) == pytest.approx(queues.md1_wait_ns(rate(load), US))


@given(st.floats(0.01, 0.9), st.integers(2, 64))
def test_more_servers_wait_less(load: float, servers: int) -> None:
    assert queues.mmc_wait_ns(rate(load, servers), US, servers) < queues.mm1_wait_ns(rate(load), US)


def test_deterministic_service_of_several_servers() -> None:
    assert queues.mdc_wait_ns(rate(0.8, 4), US, 4) == pytest.approx(0.386 * US, rel=1e-2)
    assert queues.mdc_wait_ns(rate(0.95, 16), US, 16) == pytest.approx(0.494 * US, rel=1e-2)


@pytest.mark.parametrize(("number", "switch", "gated", "limited"), [(16, 0.05, 6.09, 7.63), (64, 0.02, 7.24, 7.87)])
def test_cyclic_polling(number: int, switch: float, gated: float, limited: float) -> None:
    # Exponential service, utilisation 0.8; an independent simulation confirmed the values to 0.2 %.
    found = CyclicQueues(number, rate(0.8), US, 2 * US**2, switch * US)
    assert (found.gated_wait_ns, found.limited_wait_ns) == pytest.approx((gated * US, limited * US), rel=2e-3)
    assert found.cycle_ns == pytest.approx(number * switch * US / 0.2)


def test_the_papers_hiccup() -> None:
    """1 Mpps over 10 cores: 0.1 Mpps each, of which 1 % take 1 us longer."""
    assert queues.mg1_wait_ns(0.1e6, 10.0, 0.01 * 1000.0**2) == pytest.approx(0.5, rel=2e-3)


def test_an_idle_queue_does_not_wait() -> None:
    assert queues.mmc_wait_ns(0.0, US, 4) == queues.md1_wait_ns(0.0, US) == queues.mdc_wait_ns(0.0, US, 4) == 0
    assert queues.mmc_wait_percentile_ns(0.0, US, 4, 99) == 0
    assert CyclicQueues(8, 0.0, US, US**2, 10.0).gated_wait_ns == 40.0  # half a sweep


def test_polls_of_more_queues_than_a_cache_holds_cost_the_next_level() -> None:
    sizes = (32 * 1024, 1 << 20, 32 << 20)
    assert cached_poll_ns(227, sizes, 0.4) == 0  # 227 x 144 B fit into the L1
    assert cached_poll_ns(228, sizes, 0.4) == pytest.approx(2.25 * 10 / 12 * 0.4)  # with one more queue no poll hits
    assert cached_poll_ns(1024, (1, 1, 72 << 10), 0.4) == pytest.approx(2.25 * (55 + 145 / 2) / 12 * 0.4)  # half fits
    assert cached_poll_ns(512, (1, 1, 1), 0.4) == pytest.approx(2.25 * 200 / 12 * 0.4, rel=1e-3)  # all from memory


def exact_mdc_wait(servers: int, load: float) -> float:
    """Mean wait in services, from the number in the system at times a service apart: max(n - c, 0) + Poisson."""
    most, due = 400, load * servers
    arrivals = scipy.stats.poisson.pmf(np.arange(most), due)
    moves = np.zeros((most, most))
    for number in range(most):
        left = max(number - servers, 0)
        moves[number, left:] = arrivals[: most - left]
        moves[number, -1] += 1 - moves[number].sum()
    balance = moves.T - np.eye(most)
    balance[-1] = 1
    shares = np.linalg.solve(balance, np.eye(most)[-1])
    return float(np.maximum(np.arange(most) - servers, 0) @ shares / due)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("servers", [2, 4, 8, 16])
@pytest.mark.parametrize("load", [0.5, 0.7, 0.9])
def test_the_approximation_of_constant_service_is_as_good_as_it_says(servers: int, load: float) -> None:
    found = queues.mdc_wait_ns(rate(load, servers), US, servers) / US
    assert found == pytest.approx(exact_mdc_wait(servers, load), rel=0.013)


@pytest.mark.parametrize(("servers", "above"), [(2, 0.05), (16, 0.51)])
def test_the_approximation_of_constant_service_is_too_high_at_low_load(servers: int, above: float) -> None:
    found = queues.mdc_wait_ns(rate(0.2, servers), US, servers) / US
    assert found / exact_mdc_wait(servers, 0.2) - 1 == pytest.approx(above, abs=0.01)
