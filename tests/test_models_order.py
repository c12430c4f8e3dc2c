# SPDX-License-Identifier: BSD-3-Clause
"""The order in which packets leave cores at one queue: against what is known exactly, and RFC 4737 by its text."""

import numpy as np
import pytest
from reordering import reordering

from pollscope.models import order
from pollscope.models.order import OneQueue, reordered_share, saturated_exponential
from pollscope.models.simulate import Service

EXPONENTIAL = Service(1000.0, "exponential")


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("cores", "exact"), [(1, 0.0), (2, 1 / 4), (4, 57 / 128), (8, None)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_exponential_work_that_always_waits_is_known_exactly(cores: int, exact: float | None, seed: int) -> None:
    wanted = saturated_exponential(cores)
    assert exact is None or wanted == pytest.approx(exact)
    found = reordered_share(OneQueue(cores, EXPONENTIAL), seed)
    # Three half-widths: the 95 % interval itself leaves out one value in twenty.
    assert abs(found.value - wanted) <= 3 * (found.high - found.low) / 2


def test_constant_work_keeps_the_order_one_by_one_and_not_in_bursts() -> None:
    assert reordered_share(OneQueue(4, Service(1000.0), 0.8)).high == 0
    assert reordered_share(OneQueue(4, Service(1000.0), 0.8, burst=32)).low > 0.1
    assert reordered_share(OneQueue(1, Service(1000.0), 0.8, burst=32)).high == 0


def test_two_lengths_reorder_at_most_the_long_ones() -> None:
    found = reordered_share(OneQueue(4, Service(1000.0, "two-lengths", 11_000.0, 0.01), 0.5))
    assert 0.009 < found.value < 0.011


def test_more_flows_reorder_less() -> None:
    shares = [reordered_share(OneQueue(4, EXPONENTIAL, 0.8, flows=flows)).value for flows in (1, 4, 64)]
    assert shares == sorted(shares, reverse=True)
    assert shares[2] < shares[0] / 10


def test_the_same_seed_gives_the_same_bits() -> None:
    system = OneQueue(2, EXPONENTIAL, 0.7, burst=4, flows=3)
    assert reordered_share(system, 5) == reordered_share(system, 5)
    assert reordered_share(system, 5) != reordered_share(system, 6)


def test_the_share_is_that_of_rfc_4737(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the plain reference, which looks at a list of numbers and flows in the order of arrival."""
    monkeypatch.setattr(order, "PACKETS", 300)
    system = OneQueue(3, EXPONENTIAL, 0.9, burst=4, flows=5)
    flows = np.random.Generator(np.random.PCG64(7)).integers(5, size=300)
    left_ns = order._departures_ns(system, _after_flows(7))
    arrivals = [(int(packet), int(flows[packet])) for packet in np.lexsort((np.arange(300), left_ns))]
    share = order._share(system, np.random.Generator(np.random.PCG64(7)))
    assert share == reordering(arrivals).reordered / 300 > 0


def _after_flows(seed: int) -> np.random.Generator:
    """Return the generator in its state after the flows were drawn."""
    random = np.random.Generator(np.random.PCG64(seed))
    random.integers(5, size=300)
    return random
