# SPDX-License-Identifier: BSD-3-Clause
"""The simulator against the exact formulas, against itself, against another simulator, and what it refuses."""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pollscope.models import queues
from pollscope.models.polling import CyclicQueues, gated_mean_wait_ns
from pollscope.models.simulate import Arrivals, Hiccups, Outcome, PollingCores, Service, SharedServers, simulate

US = 1000.0
PACKETS = 600_000


def rate(utilisation: float, servers: int = 1) -> float:
    """Return the rate that keeps servers of 1 us service busy for this share of the time."""
    return utilisation * servers * 1e6


def waits(load: float, servers: int = 1, service: Service | None = None) -> SharedServers:
    """Return servers with exponential service, unless another one is given."""
    service = service or Service(US, "exponential")
    return SharedServers(Arrivals(rate(load, servers)), service, servers, quantity="wait")


def polled(load: float, number: int, switch_ns: float, burst: int, **keys: object) -> PollingCores:
    """Simulate one core at several queues as in the theory of cyclic polling; a poll is gated one switch-over before
    it."""
    common = {
        "queues": number,
        "burst": burst,
        "empty_poll_ns": switch_ns,
        "busy_poll_ns": switch_ns,
        "together": False,
    }
    service = Service(US, "exponential")
    return PollingCores(Arrivals(rate(load)), service, rx_room=4096, **common, **keys)  # type: ignore[arg-type]


@dataclass
class Setting:
    """A system, and the exact mean of what the simulation records of it."""

    system: SharedServers | PollingCores
    exact_ns: float


def cyclic(load: float, number: int, switch_ns: float) -> CyclicQueues:
    return CyclicQueues(number, rate(load), US, 2 * US**2, switch_ns)


TWO_LENGTHS = Service(US, "two-lengths", long_ns=11 * US, long_probability=0.01)
TWO_MEAN, TWO_SQUARE = 0.99 * US + 0.11 * US, 0.99 * US**2 + 0.01 * (11 * US) ** 2
HICCUPS = Hiccups(0.001, (100 * US,))
HICCUP_MEAN, HICCUP_SQUARE = US + 0.1 * US, US**2 + 0.001 * (2 * US * 100 * US + (100 * US) ** 2)
HOT = (1.0, 1.0, *[0.05] * 14)

SETTINGS: dict[str, Setting] = {
    **{f"M/M/1 at {load}": Setting(waits(load), queues.mm1_wait_ns(rate(load), US)) for load in (0.2, 0.5, 0.8)},
    **{
        f"M/M/{servers} at {load}": Setting(waits(load, servers), queues.mmc_wait_ns(rate(load, servers), US, servers))
        for servers, load in ((2, 0.5), (4, 0.8), (16, 0.8), (64, 0.9))
    },
    **{
        f"M/D/1 at {load}": Setting(waits(load, service=Service(US)), queues.md1_wait_ns(rate(load), US))
        for load in (0.3, 0.6, 0.85)
    },
    "M/G/1 of two lengths": Setting(
        waits(0.6, service=TWO_LENGTHS), queues.mg1_wait_ns(rate(0.6), TWO_MEAN, TWO_SQUARE)
    ),
    "M/G/1 with hiccups": Setting(
        SharedServers(Arrivals(rate(0.5)), Service(US), hiccups=HICCUPS, quantity="wait"),
        queues.mg1_wait_ns(rate(0.5), HICCUP_MEAN, HICCUP_SQUARE),
    ),
    "one polled queue is a server with vacations": Setting(
        PollingCores(Arrivals(rate(0.7)), Service(US), burst=1, empty_poll_ns=500.0, rx_room=4096),
        queues.vacation_wait_ns(rate(0.7), US, US**2, 500.0, 500.0**2) + US,
    ),
    "batches of 8": Setting(
        PollingCores(Arrivals(rate(0.6), batch=8), Service(US), burst=1, empty_poll_ns=1.0, rx_room=4096),
        queues.batch_mg1_wait_ns(rate(0.6), 8, US, US**2) + US + 0.5,
    ),
    **{
        f"gated polling of {number} queues at {load}": Setting(
            polled(load, number, switch_ns, burst=4096), cyclic(load, number, switch_ns).gated_wait_ns + switch_ns + US
        )
        for load, number, switch_ns in ((0.8, 16, 50.0), (0.8, 64, 20.0), (0.3, 256, 20.0))
    },
    **{
        f"limited polling of {number} queues at {load}": Setting(
            polled(load, number, switch_ns, burst=1), cyclic(load, number, switch_ns).limited_wait_ns + switch_ns + US
        )
        for load, number, switch_ns in ((0.8, 16, 50.0), (0.5, 64, 20.0))
    },
    "gated polling, hot and cold queues": Setting(
        polled(0.7, 16, 50.0, burst=4096, weights=HOT),
        gated_mean_wait_ns([rate(0.7) * each / sum(HOT) for each in HOT], US, 2 * US**2, 50.0) + 50.0 + US,
    ),
    "gated polling, one queue of 32 with traffic": Setting(
        polled(0.5, 32, 20.0, burst=4096, weights=(0.0,) * 7 + (1.0,) + (0.0,) * 24),
        gated_mean_wait_ns([0.0] * 7 + [rate(0.5)] + [0.0] * 24, US, 2 * US**2, 20.0) + 20.0 + US,
    ),
}
SEEDS = (1, 2, 3)


def run(system: SharedServers | PollingCores, seed: int, packets: int = PACKETS) -> Outcome:
    window_ns = packets / system.arrivals.rate_pps * 1e9
    return simulate(system, window_ns, warmup_ns=window_ns / 10, seed=seed, workers=1)


@cache
def found(name: str) -> list[Outcome]:
    return [run(SETTINGS[name].system, seed) for seed in SEEDS]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", SETTINGS)
def test_the_simulated_mean_equals_the_exact_one(name: str) -> None:
    exact_ns = SETTINGS[name].exact_ns
    for outcome in found(name):
        mean = outcome.mean_ns
        assert mean is not None
        assert abs(mean.value - exact_ns) < 3.5 * (mean.high - mean.low) / 2, (mean, exact_ns)


@pytest.mark.thorough
def test_the_interval_covers_the_exact_mean_as_often_as_it_says() -> None:
    assert len(SETTINGS) >= 20
    covered = [
        outcome.mean_ns.low <= SETTINGS[name].exact_ns <= outcome.mean_ns.high
        for name in SETTINGS
        for outcome in found(name)
        if outcome.mean_ns
    ]
    # 60 intervals of 95 %: fewer than 52 inside happen once in 200 such sets.
    assert sum(covered) >= 52, covered


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("servers", "load"), [(1, 0.8), (4, 0.9), (16, 0.9)])
def test_percentiles_are_those_of_the_formula(servers: int, load: float) -> None:
    outcome = run(waits(load, servers), 7, 3_000_000)
    for percent in (90, 99):
        exact_ns = queues.mmc_wait_percentile_ns(rate(load, servers), US, servers, percent)
        assert outcome.times.percentile(percent) == pytest.approx(exact_ns, rel=0.05)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("servers", "load"), [(1, 0.5), (1, 0.8), (4, 0.7)])
def test_ciw_finds_the_same(servers: int, load: float) -> None:
    import ciw  # takes half a second, and every worker collects this file

    ciw.seed(3)
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(load * servers)],
        service_distributions=[ciw.dists.Exponential(1.0)],
        number_of_servers=[servers],
    )
    theirs = ciw.Simulation(network)
    theirs.simulate_until_max_customers(20_000)
    parts = np.array_split([each.waiting_time for each in theirs.get_all_records()][2000:], 20)
    means = np.array([part.mean() for part in parts]) * US
    error_ns = 3.5 * means.std(ddof=1) / math.sqrt(len(means))
    mean = run(waits(load, servers), 1).mean_ns
    assert mean is not None
    assert abs(mean.value - means.mean()) < error_ns + (mean.high - mean.low) / 2


def shared_servers(load: float, random: bool, service: Service, servers: int, hiccups: Hiccups) -> SharedServers:
    rate_pps = load * servers * 1e9 / (service.average_ns + hiccups.average_ns)
    return SharedServers(Arrivals(rate_pps, random), service, servers, hiccups)


systems = st.one_of(
    st.builds(
        shared_servers,
        st.floats(0.01, 0.99),
        st.booleans(),
        st.builds(Service, st.floats(10, 1000), st.sampled_from(["fixed", "exponential"])),
        st.integers(1, 20),
        st.builds(Hiccups, st.floats(0, 0.1), st.just((500.0,)), st.booleans()),
    ),
    st.builds(
        PollingCores,
        st.builds(Arrivals, st.floats(1e5, 3e7), st.booleans(), st.integers(1, 40)),
        st.builds(Service, st.floats(1, 1000), st.sampled_from(["fixed", "exponential"])),
        cores=st.integers(1, 4),
        queues=st.integers(4, 40),
        dispatchers=st.integers(0, 4),
        shared=st.booleans(),
        burst=st.integers(1, 64),
        rx_room=st.integers(1, 600),
        ring_room=st.integers(1, 600),
        empty_poll_ns=st.floats(1, 200),
        busy_poll_ns=st.floats(0, 200),
        dispatch_ns=st.floats(0, 50),
        ring_ns=st.floats(0, 50),
        ring_packet_ns=st.floats(0, 5),
        path_ns=st.floats(0, 1000),
        together=st.booleans(),
        hiccups=st.builds(Hiccups, st.floats(0, 0.1), st.just((500.0, 20.0)), st.booleans()),
    ),
)
WINDOW_NS = 300_000.0


@given(systems, st.integers(0, 2**32))
def test_without_arrivals_nothing_is_served(system: SharedServers | PollingCores, seed: int) -> None:
    outcome = simulate(system, WINDOW_NS, warmup_ns=10_000.0, seed=seed, workers=1)
    assert outcome == simulate(system, WINDOW_NS, warmup_ns=10_000.0, seed=seed, workers=1)
    assert 0 <= outcome.refused <= outcome.arrived
    if isinstance(system, SharedServers):
        assert outcome.times.samples == outcome.arrived - outcome.refused
        return
    shortest_ns = system.path_ns + (0 if system.service.kind == "exponential" else system.service.mean_ns)
    assert outcome.times.samples == sum(core.sent for core in outcome.cores)
    assert not outcome.times.samples or outcome.times.smallest >= math.floor(shortest_ns)
    in_flight = system.queues * system.rx_room + system.cores * system.ring_room
    in_flight += system.burst * (system.cores + system.dispatchers)
    readers = outcome.cores[system.cores :] if system.dispatchers else outcome.cores
    assert abs(outcome.arrived - outcome.refused - sum(core.taken for core in readers)) <= in_flight
    for core in outcome.cores:
        assert core.taken <= system.burst * (core.partial_polls + core.full_polls)
        assert core.idle_ns + core.waits_ns <= WINDOW_NS * (1 + 1e-9)


@settings(deadline=None, max_examples=10)
@given(systems, st.integers(1, 4))
def test_the_same_bits_on_any_number_of_cpus(system: SharedServers | PollingCores, workers: int) -> None:
    alone = simulate(system, WINDOW_NS, seed=4, parts=5, workers=1)
    assert simulate(system, WINDOW_NS, seed=4, parts=5, workers=workers) == alone
    assert alone.window_ns == 5 * WINDOW_NS


def test_another_seed_is_another_sample() -> None:
    first, second = (run(waits(0.8), seed, 10_000) for seed in (1, 2))
    assert first.times != second.times


def test_an_idle_core_polls_all_the_time() -> None:
    idle = PollingCores(Arrivals(0.0), Service(US), queues=8, empty_poll_ns=12.5)
    outcome = simulate(idle, 1e6, warmup_ns=100.0)
    (core,) = outcome.cores
    assert (core.empty_polls, core.idle_ns, core.taken, outcome.mean_ns) == (80_000, 1e6, 0, None)


def test_a_backlogged_queue_among_idle_ones_gets_one_burst_per_sweep() -> None:
    """The closed form of one hot queue: 32 packets in 63 empty polls, a busy poll and 32 services."""
    system = PollingCores(
        Arrivals(50e6), Service(20.0), queues=64, weights=(1.0,) + (0.0,) * 63, empty_poll_ns=10.0, busy_poll_ns=30.0
    )
    outcome = simulate(system, 1e7, warmup_ns=1e6)
    sweep_ns = 63 * 10.0 + 30.0 + 32 * 20.0
    assert outcome.cores[0].sent / 1e7 == pytest.approx(32 / sweep_ns, rel=1e-3)
    assert outcome.cores[0].idle_ns / 1e7 == pytest.approx(630.0 / sweep_ns, rel=1e-3)


def test_dispatchers_and_rings_bound_each_other() -> None:
    """With a serial part of 50 ns per packet a shared ring takes 20 Mpps, however many cores are behind it."""
    system = PollingCores(
        Arrivals(60e6),
        Service(10.0),
        cores=8,
        queues=8,
        dispatchers=8,
        shared=True,
        dispatch_ns=10.0,
        ring_packet_ns=50.0,
    )
    outcome = simulate(system, 1e7, warmup_ns=1e6)
    assert sum(core.sent for core in outcome.cores) / 1e7 == pytest.approx(0.02, rel=0.02)
    apart = replace(system, shared=False)
    assert sum(core.sent for core in simulate(apart, 1e7, warmup_ns=1e6).cores) / 1e7 == pytest.approx(0.06, rel=0.02)


def ten_behind_ten_ns(arrivals: Arrivals, hiccup: float, window_ns: float, **given: Any) -> float:
    """Return the mean time of a packet, at 10 workers behind 10 dispatchers, with this probability of 1 us more."""
    hiccups = Hiccups(hiccup, (1000.0,))
    system = PollingCores(arrivals, Service(0.0), cores=10, queues=10, dispatchers=10, hiccups=hiccups, **given)
    mean = simulate(system, window_ns, warmup_ns=2e5, seed=1).mean_ns
    assert mean is not None
    return mean.value


def hiccups_add_ns(shared: bool, batch: int, burst: int) -> float:
    """Return what hiccups with 1 % add at 1 Mpps."""
    costs = {"empty_poll_ns": 5.0, "busy_poll_ns": 45.0, "packet_ns": 11.6, "dispatch_ns": 10.0}
    costs |= {"ring_busy_poll_ns": 20.0, "shared": shared, "burst": burst}
    without, with_them = (ten_behind_ten_ns(Arrivals(1e6, batch=batch), each, 4e8, **costs) for each in (0.0, 0.01))
    return with_them - without


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("batch", "burst", "apart_ns", "shared_ns"),
    [
        # A packet pays its own 10 ns; behind others it waits 0.5 ns (Pollaczek-Khinchine), which a shared queue saves.
        (1, 32, 10.5, 10.0),
        # 28 % of bursts hold a hiccup, which delays the whole burst, from whatever queue.
        (32, 32, 320.0, 320.0),
        # One packet at a time: later packets wait in its own queue, or leave a shared queue to other cores.
        (32, 1, 131.0, 10.0),
    ],
)
def test_a_shared_queue_saves_time_when_hiccups_delay_packets(
    batch: int, burst: int, apart_ns: float, shared_ns: float
) -> None:
    assert hiccups_add_ns(False, batch, burst) == pytest.approx(apart_ns, rel=0.06)
    assert hiccups_add_ns(True, batch, burst) == pytest.approx(shared_ns, rel=0.06)


def figure_17(
    shared: bool, load_pps: float, hiccup: float, packet_ns: float = 2, contended_ns: float = 60, burst: int = 1
) -> float:
    """Return the mean time without the path; 32 packets come together.

    Args:
        shared: one ring for all.
        load_pps: offered.
        hiccup: probability of 1 us.
        packet_ns: serial part of an operation on the shared ring.
        contended_ns: more of it where cores wait.
        burst: packets that a core takes at once at most.
    """
    costs = {"empty_poll_ns": 20.0, "busy_poll_ns": 10.0, "packet_ns": 30.0, "dispatch_ns": 10.0}
    costs |= {"empty_ring_poll_ns": 10.0, "ring_busy_poll_ns": 10.0}
    costs |= {"ring_packet_ns": packet_ns, "ring_contended_ns": contended_ns}
    return ten_behind_ten_ns(Arrivals(load_pps, batch=32), hiccup, 2e6, shared=shared, burst=burst, **costs)


@pytest.mark.thorough
def test_the_cause_of_the_crossing_curves_in_figure_17() -> None:
    assert figure_17(True, 1e6, 0.01) < 0.75 * figure_17(False, 1e6, 0.01)
    # With hiccups the shared ring is the better one up to a higher load.
    assert figure_17(True, 10e6, 0.0) > figure_17(False, 10e6, 0.0)
    assert figure_17(True, 10e6, 0.01) < figure_17(False, 10e6, 0.01)
    # A serial part of the same cost on an idle ring removes the advantage.
    assert figure_17(True, 1e6, 0.01, 62, 0) > figure_17(False, 1e6, 0.01, 62, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("hiccup", [0.0, 0.01])
def test_a_shared_ring_is_ahead_without_load_unless_bursts_are_taken_whole(hiccup: float) -> None:
    ahead = [
        figure_17(True, 1e6, hiccup, burst=burst) / figure_17(False, 1e6, hiccup, burst=burst) for burst in (1, 16, 32)
    ]
    assert ahead[0] < 0.75 < ahead[1] < 1 < ahead[2]
