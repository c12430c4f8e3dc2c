# SPDX-License-Identifier: BSD-3-Clause
"""Check the step from timed intervals with known costs to classes: values, errors, and reasons for absence."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import synthetic_run as synthetic
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from synthetic_run import Costs, TimedInterval

from pollscope.analysis.compare import compare_levels
from pollscope.analysis.point_values import by_point
from pollscope.metrics import accounting
from pollscope.metrics.accounting import (
    CALIBRATION_ERROR,
    FIT_ERROR,
    MISFIT_SHARE,
    MOST_ERROR_SHARE,
    TIMED_INTERVAL_ERROR,
    Classes,
    MeasuredCycles,
    NoClasses,
    classes,
)
from pollscope.metrics.derive import SHARE_TOLERANCE, derive_trial
from pollscope.metrics.formulas.dut import ERRORS
from pollscope.metrics.noise import misfit_flags
from pollscope.metrics.record import NotMeasured, TrialObservations
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import read_run

LOOP, STAMPS, SAMPLING = 1000, 50, 3000
COSTS = Costs(10.0, 30.0, 100.0, 40.0)


class Counts(NamedTuple):
    """Event counts of a window."""

    polls: int = 20_000_000
    busy_polls: int = 1_000_000
    transitions: int = 400_000
    packets: int = 6_000_000


BUSY, RARE = Counts(transitions=500_000, packets=10_000_000), Counts(busy_polls=100, transitions=100, packets=100)


def lcore(blocks: Sequence[Sequence[TimedInterval]], counts: Counts, total: float, **changes: Any) -> dict[str, Any]:
    """Return the report of an lcore about its cycles."""
    return {
        "accounting": "sampled",
        "cycles": {"total": total},
        "polls": {
            "empty": counts.polls - counts.busy_polls,
            "partial": counts.busy_polls,
            "full": 0,
            "race_lost": 0,
            "refill_failed": 0,
        },
        "transitions": counts.transitions,
        "rx_packets": counts.packets,
        "waited_cycles": 0,
        "event_cycles": LOOP,
        "sampling_cycles": SAMPLING,
        "stamps": STAMPS,
        "stamp_cycles": synthetic.STAMP_CYCLES,
        "interruptions": {"count": 0, "cycles": 0},
        "empty_poll_cycles": {"absent": "packets came while it was calibrated"},
        "timed_intervals": synthetic.timed_intervals_part(blocks),
    } | changes


def window(costs: Costs, counts: Counts) -> float:
    """Return its cycles, including loop and instrumentation."""
    return costs.of(*counts) + LOOP + SAMPLING + STAMPS * synthetic.STAMP_CYCLES


def runs_of_polls(rng: np.random.Generator, count: int, polled: float = 0.2) -> NDArray[np.int64]:
    """Return polls, busy polls, transitions and packets of random runs; some are quiet, others have trains."""
    polls = 1 << rng.integers(0, 10, count)
    busy_polls = rng.binomial(polls, polled * rng.random(count) * (rng.random(count) < 0.6))
    transitions = rng.binomial(busy_polls, rng.random(count))
    return np.stack([polls, busy_polls, transitions, busy_polls + rng.poisson(5.0 * busy_polls)], axis=1)


def timed(events: NDArray[np.int64], costs: Costs, factor: NDArray[np.float64] | float = 1.0) -> NDArray[np.float64]:
    """Return the cycles of runs of polls."""
    polls, busy_polls, transitions, packets = events.T.astype(float)
    found: NDArray[np.float64] = factor * (
        costs.empty_poll * (polls - busy_polls)
        + costs.switch * transitions
        + costs.busy_poll * busy_polls
        + costs.packet * packets
    )
    return found


def in_blocks(events: NDArray[np.int64], cycles: NDArray[np.float64], blocks: int = 16) -> list[list[TimedInterval]]:
    """Return timed intervals with their stamp, dealt to the blocks of a window in the order of time."""
    table = [(*map(int, run), synthetic.STAMP_CYCLES + float(spent)) for run, spent in zip(events, cycles, strict=True)]
    return [table[len(table) * b // blocks : len(table) * (b + 1) // blocks] for b in range(blocks)]


def exact(costs: Costs, seed: int = 1, count: int = 3000) -> list[list[TimedInterval]]:
    events = runs_of_polls(np.random.default_rng(seed), count)
    return in_blocks(events, timed(events, costs))


def determined(found: Classes | NoClasses) -> Classes:
    """Return classes, which always add up to the window."""
    assert isinstance(found, Classes), found
    parts = found.empty_poll.value + found.loop + found.instrumentation + found.packets.value
    assert parts == pytest.approx(found.total, rel=1e-12)
    return found


def classed(
    counts: Counts, blocks: Sequence[Sequence[TimedInterval]] | None = None, more: float = 0.0, **changes: Any
) -> Classes | NoClasses:
    """Return the classes of a window with COSTS and so many more cycles."""
    blocks = exact(COSTS) if blocks is None else blocks
    return classes(lcore(blocks, counts, window(COSTS, counts) + more, **changes))


def reason(found: Classes | NoClasses) -> str:
    assert isinstance(found, NoClasses), found
    return found.reason


def number(value: MeasuredCycles | str) -> MeasuredCycles:
    assert isinstance(value, MeasuredCycles), value
    return value


# A transition can have a negative cost, if a busy poll and the empty poll before it overlap.
TRUE_COSTS = st.builds(
    lambda empty, switch, busy_poll, packet: Costs(empty, switch * busy_poll, busy_poll, packet),
    st.floats(2, 500),
    st.floats(-0.9, 20),
    st.floats(5, 5000),
    st.floats(1, 3000),
)


LOST_CYCLES = 400.0


def losing(counts: Counts, lost: int, share: float = 0.1) -> dict[str, Any]:
    """Return an lcore that loses polls of LOST_CYCLES each to another one."""
    rng = np.random.default_rng(3)
    events = runs_of_polls(rng, 3000)
    losses = rng.binomial(events[:, 0] - events[:, 1], share) * (rng.random(len(events)) < 0.5)
    spent = timed(events, COSTS) + losses * (LOST_CYCLES - COSTS.empty_poll)
    left = iter(losses)
    blocks = [[(*one, float(next(left))) for one in block] for block in in_blocks(events, spent)]
    found = lcore(blocks, counts, window(COSTS, counts) + lost * (LOST_CYCLES - COSTS.empty_poll))
    found["polls"] |= {"empty": counts.polls - counts.busy_polls - lost, "race_lost": lost}
    return found


def test_lost_polls_are_no_empty_ones() -> None:
    """They cost what timed intervals show, belong to the loop, and leave the costs of empty polls and packets as they
    are."""
    counts, lost = Counts(), 500_000
    found, alone = determined(classes(losing(counts, lost))), determined(classed(counts))
    assert found.empty_poll_cycles == pytest.approx(COSTS.empty_poll, rel=1e-6)
    assert found.loop == pytest.approx(alone.loop + lost * LOST_CYCLES, rel=1e-6)
    assert found.packets.value == pytest.approx(alone.packets.value, rel=1e-6)
    empties = counts.polls - counts.busy_polls - lost
    assert found.empty_poll.value == pytest.approx(empties * COSTS.empty_poll, rel=1e-6)


def test_lost_polls_of_unknown_cost_make_the_tax_absent() -> None:
    """The tax is known only if lost polls are so few that their cost does not matter."""
    counts = Counts()
    assert "lost to another core" in reason(classes(losing(counts, 500_000, share=0.0)))
    few = determined(classes(losing(counts, 3, share=0.0)))
    assert few.loop < LOOP + 10 * accounting.MOST_LOST_POLL_CYCLES


@given(costs=TRUE_COSTS, seed=st.integers(0, 1000))
def test_known_costs_are_recovered(costs: Costs, seed: int) -> None:
    counts = Counts()
    away = 0.1 * window(costs, counts)  # outside the polling, which is known well enough even with cheap busy polls
    interruptions = {"count": 9, "cycles": away}
    known = lcore(exact(costs, seed), counts, window(costs, counts) + away, interruptions=interruptions)
    found = determined(classes(known))
    empty = (counts.polls - counts.busy_polls) * costs.empty_poll
    busy_polls = costs.busy_poll * counts.busy_polls + costs.packet * counts.packets
    near = 1e-6 * found.total
    assert found.empty_poll_cycles == pytest.approx(costs.empty_poll, rel=1e-6)
    assert found.empty_poll.value == pytest.approx(empty, abs=near)
    assert found.empty_poll.error == pytest.approx(TIMED_INTERVAL_ERROR * empty, rel=1e-3, abs=near)
    assert number(found.useful).value == pytest.approx(busy_polls, abs=near)
    assert number(found.interaction).value == pytest.approx(costs.switch * counts.transitions, abs=near)
    assert found.packets.value == pytest.approx(busy_polls + costs.switch * counts.transitions, abs=near)
    assert abs(float(found.misfit)) < near


def autocorrelated(rng: np.random.Generator, count: int, size: float, memory: float) -> NDArray[np.float64]:
    """Return a stationary AR(1) process around 1 with standard deviation `size`."""
    from scipy.signal import lfilter  # takes half a second, and every worker collects this file

    steps = rng.normal(0, size * math.sqrt(1 - memory**2), count)
    steps[0] = rng.normal(0, size)
    found: NDArray[np.float64] = 1 + lfilter([1.0], [1.0, -memory], steps)
    return found


class Simulated(NamedTuple):
    found: Classes
    empty: float
    busy_polls: float


def simulated(seed: int, memory: float) -> Simulated:
    """Return a window of runs whose costs drift together; each 20th is a timed interval, the truth covers all."""
    rng = np.random.default_rng(seed)
    events = runs_of_polls(rng, 60_000)
    factor = autocorrelated(rng, len(events), 0.05, memory)
    sliced = slice(0, None, 20)
    # Timed intervals have additional noise from the state of the caches.
    noise = 1 + rng.normal(0, 0.05, len(events[sliced]))
    blocks = in_blocks(events[sliced], timed(events[sliced], COSTS, factor[sliced] * noise))
    alone = COSTS._replace(empty_poll=0.0, switch=0.0)
    empty_alone = COSTS._replace(switch=0.0, busy_poll=0.0, packet=0.0)
    counts = Counts(*(int(column) for column in events.sum(axis=0)))
    total = timed(events, COSTS, factor).sum() + LOOP + SAMPLING + STAMPS * synthetic.STAMP_CYCLES
    return Simulated(
        determined(classes(lcore(blocks, counts, float(total)))),
        float(timed(events, empty_alone, factor).sum()),
        float(timed(events, alone, factor).sum()),
    )


@pytest.mark.parametrize(
    "memory", [pytest.param(0.0, marks=pytest.mark.thorough), 0.9, pytest.param(0.98, marks=pytest.mark.thorough)]
)
def test_intervals_cover_the_truth(monkeypatch: pytest.MonkeyPatch, memory: float) -> None:
    """Remove the error common to all timed intervals, so that only sampling counts."""
    monkeypatch.setattr(accounting, "TIMED_INTERVAL_ERROR", 0.0)
    runs = [simulated(seed, memory) for seed in range(100)]
    empty = [abs(run.found.empty_poll.value - run.empty) <= run.found.empty_poll.error for run in runs]
    busy_polls = [
        abs(number(run.found.useful).value - run.busy_polls) <= number(run.found.useful).error for run in runs
    ]
    for inside in (empty, busy_polls):
        assert 0.88 <= np.mean(inside) <= 0.995


def test_a_cost_that_drifts_is_known_as_well_as_one_that_holds_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timed intervals sample the drift: blocks in the order of time distinguish it from noise, shuffled ones do not."""
    monkeypatch.setattr(accounting, "TIMED_INTERVAL_ERROR", 0.0)
    ratios, counts = [], Counts()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        events = runs_of_polls(rng, 3000)
        cycles = timed(events, COSTS, autocorrelated(rng, len(events), 0.05, 0.998))
        shuffled = rng.permutation(len(events))
        errors = [
            determined(classed(counts, in_blocks(events[order], cycles[order]))).empty_poll.error
            for order in (np.arange(len(events)), shuffled)
        ]
        ratios.append(errors[0] / errors[1])
    assert np.median(ratios) < 0.7


def test_the_cost_of_an_empty_poll_holds_what_timed_intervals_have_in_common() -> None:
    counts = Counts()
    found = determined(classed(counts))
    assert found.empty_poll.error == pytest.approx(TIMED_INTERVAL_ERROR * found.empty_poll.value, rel=1e-6)
    assert found.packets.error == found.empty_poll.error


def test_busy_polls_that_all_follow_an_empty_poll_are_not_separated_from_the_interaction() -> None:
    events = runs_of_polls(np.random.default_rng(2), 3000)
    events[:, 2] = events[:, 1]
    counts = Counts(transitions=Counts().busy_polls)
    found = determined(classed(counts, in_blocks(events, timed(events, COSTS))))
    for unknown in (found.useful, found.interaction):
        assert isinstance(unknown, str)
        assert "their interaction is not known" in unknown
    # The tax is known nevertheless, and so is the sum of busy polls and interaction.
    assert found.packets.value == pytest.approx(130.0 * counts.busy_polls + 40.0 * counts.packets, rel=1e-6)
    assert abs(float(found.misfit)) < 1e-6 * found.total


def test_noise_that_hides_the_interaction_is_a_reason_with_numbers() -> None:
    rng = np.random.default_rng(3)
    events = runs_of_polls(rng, 800)
    cycles = timed(events, COSTS, 1 + rng.normal(0, 1.0, len(events)))
    quiet = events[:, 1] == 0
    cycles[quiet] = timed(events[quiet], COSTS)
    counts = Counts()
    found = determined(classed(counts, in_blocks(events, cycles)))
    assert isinstance(found.useful, str)
    assert "separated only to +-" in found.useful
    assert found.empty_poll.value == pytest.approx(10.0 * (counts.polls - counts.busy_polls), rel=1e-6)


def few_timed_intervals() -> list[list[TimedInterval]]:
    return [block[:3] for block in exact(COSTS)]


def few_blocks() -> list[list[TimedInterval]]:
    return [*exact(COSTS)[:5], *([[]] * 11)]


def without_busy_polls() -> list[list[TimedInterval]]:
    return [[one for one in block if one[1] == 0] for block in exact(COSTS)]


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        (few_timed_intervals(), "only 48 timed intervals: the window is too short"),
        (few_blocks(), "the window is too short"),
        (without_busy_polls(), "the timed intervals have only 0 busy polls"),
        ([[]] * 16, "only 0 timed intervals"),
    ],
    ids=["timed_intervals", "blocks", "busy_polls", "none"],
)
def test_too_few_timed_intervals_are_a_reason(blocks: list[list[TimedInterval]], reason: str) -> None:
    counts = Counts()
    known = lcore(blocks, counts, window(COSTS, counts), empty_poll_cycles=10.0)
    # The calibrated cost is less certain; its error would exceed the limit for the tax.
    known["polls"]["empty"] = 1_000_000
    found = determined(classes(known))
    for unknown in (found.useful, found.misfit, found.interaction):
        assert isinstance(unknown, str)
        assert reason in unknown


def test_a_calibrated_cost_has_the_error_of_a_host_state_that_moves() -> None:
    counts = Counts(polls=1_400_000)
    found = determined(classed(counts, few_timed_intervals(), empty_poll_cycles=11.0))
    assert found.empty_poll.value == 11.0 * 400_000
    assert found.empty_poll.error == pytest.approx(CALIBRATION_ERROR * 11.0 * 400_000)


@pytest.mark.parametrize(
    ("calibrated", "reaches_down"),
    [(9.8, 10 - 0.99 * 9.8), (9.95, 0.0), (10.4, 0.0)],
    ids=["cheaper", "same", "more expensive"],
)
def test_a_tax_reaches_down_to_what_an_empty_poll_costs_where_nothing_comes(
    calibrated: float, reaches_down: float
) -> None:
    """Busy polls make later empty polls more expensive; the calibrated cost scatters by 1 %."""
    found = determined(classed(BUSY, empty_poll_cycles=calibrated))
    empty = BUSY.polls - BUSY.busy_polls
    assert found.empty_poll.value == pytest.approx(10.0 * empty)
    assert found.empty_poll.error == pytest.approx(
        math.hypot(TIMED_INTERVAL_ERROR * 10.0, reaches_down) * empty, rel=1e-3
    )


@pytest.mark.parametrize(("queues", "error"), [(8, 0.1), (64, 1.5)])
def test_busy_polls_of_many_queues_may_leave_more_than_timed_intervals_show(queues: int, error: float) -> None:
    """At 1000 queues and 10 % load, 7.0 % of the cycles were useful, but timed intervals gave 4.6 +-0.5 %."""
    counts = Counts(polls=10_000_000, busy_polls=1000, transitions=750, packets=7500)
    true = COSTS.of(counts.busy_polls, *counts[1:])
    found = determined(classed(counts, queues=queues))
    assert found.packets.value == pytest.approx(true, rel=1e-3)
    assert found.packets.error == pytest.approx(error * true, rel=0.02)


def test_so_few_empty_polls_that_their_cost_does_not_matter() -> None:
    counts = Counts(polls=1_000_100)
    found = determined(classed(counts, few_timed_intervals()))
    assert abs(found.empty_poll.value - 100 * 10.0) <= found.empty_poll.error < 0.002 * found.total


@given(
    polls=st.integers(1, 10**9),
    total=st.integers(10**6, 10**12),
    interrupted=st.integers(0, 10**5),
    cost=st.floats(0.1, 1000),
    seed=st.integers(0, 50),
)
def test_without_a_busy_poll_nothing_is_useful_and_nothing_is_estimated(
    polls: int, total: int, interrupted: int, cost: float, seed: int
) -> None:
    """All polls together took the remainder, whatever timed intervals say about an empty poll."""
    away = {"interruptions": {"count": 1, "cycles": interrupted}}
    quiet = [[one for one in block if one[1] == 0] for block in exact(COSTS._replace(empty_poll=cost), seed, 500)]
    found = determined(classes(lcore(quiet, Counts(polls, 0, 0, 0), total, empty_poll_cycles=cost, **away)))
    assert found.packets == found.useful == found.interaction == MeasuredCycles(0.0, 0.0)
    assert found.loop == LOOP + interrupted
    assert found.misfit == 0
    assert found.empty_poll.error == 0
    assert found.empty_poll_cycles * polls == pytest.approx(found.empty_poll.value)


def test_a_window_without_a_poll_is_all_loop() -> None:
    found = determined(classes(lcore([[]] * 16, Counts(0, 0, 0, 0), 10**6)))
    assert found.empty_poll == found.packets == MeasuredCycles(0.0, 0.0)


@given(
    size=st.floats(0, 0.5),
    seed=st.integers(0, 1000),
    stretch=st.floats(0.8, 3.0),
    waited=st.integers(0, 10**7),
    locked=st.integers(0, 10**7),
)
def test_classes_always_add_up_to_the_window(size: float, seed: int, stretch: float, waited: int, locked: int) -> None:
    """A difference from the timed intervals is reported as a misfit, and nothing is adjusted for it."""
    rng = np.random.default_rng(seed)
    events = runs_of_polls(rng, 1500)
    cycles = timed(events, COSTS, autocorrelated(rng, len(events), size, 0.8).clip(0.01))
    counts = Counts()
    more = (stretch - 1) * window(COSTS, counts) + waited + locked
    lock = {"waits": 1, "cycles": locked}
    found = classed(counts, in_blocks(events, cycles), more, waited_cycles=waited, lock=lock)
    if isinstance(found, NoClasses):
        assert "known to" in found.reason or "exceed the window" in found.reason
        return
    determined(found)
    assert found.loop == LOOP + locked
    assert found.empty_poll.value == found.empty_poll_cycles * (counts.polls - counts.busy_polls)
    if isinstance(found.useful, MeasuredCycles):
        assert found.useful.value + number(found.interaction).value == pytest.approx(found.packets.value)
        assert found.useful.value > waited


def test_a_window_that_is_a_little_too_short_is_not_cut_to_fit() -> None:
    """With few packets, and empty polls 1 % more expensive than known, packets cost less than 0 within the error."""
    blocks = [[one for one in block if one[1] == 0] for block in exact(COSTS._replace(empty_poll=10.1))]
    away = 30_000_000.0  # outside the polling, which is thus known to less than 2 % of the window
    found = determined(classed(RARE, blocks, away, interruptions={"count": 9, "cycles": away}))
    assert found.packets.value < 0
    assert abs(found.packets.value) < found.packets.error


# 100 million cycles, of which packets take 2 %.
LIGHT = Counts(polls=10_000_000, busy_polls=4000, transitions=3000, packets=30_000)


def test_at_light_load_timed_intervals_are_preferred_to_the_remainder() -> None:
    """Unseen short interrupts take 0.5 % of the window, a quarter of what packets take, and belong to the loop."""
    true, interrupts = COSTS.of(LIGHT.busy_polls, *LIGHT[1:]), 0.005 * window(COSTS, LIGHT)
    found = determined(classed(LIGHT, more=interrupts))
    assert found.packets.value == pytest.approx(true, rel=1e-6)
    assert found.packets.error == pytest.approx(FIT_ERROR * true, rel=1e-3)
    assert found.loop == pytest.approx(LOOP + interrupts, rel=1e-3)
    assert found.misfit == pytest.approx(-interrupts, rel=1e-3), "the unexplained rest is reported"


def rarely_polled(seed: int) -> tuple[Classes | NoClasses, float]:
    """Return the classes of a window with rare busy polls of random cost, and their true cost together."""
    rng = np.random.default_rng(seed)
    polls = 1 << rng.integers(0, 10, 60_000)
    busy_polls = rng.binomial(polls, 2e-5 * 2.0 ** rng.integers(0, 4))
    events = np.stack([polls, busy_polls, busy_polls, busy_polls], axis=1)
    spent = np.array([rng.exponential(1000.0, n).sum() for n in busy_polls])
    cycles = timed(events, Costs(10.0, 0.0, 0.0, 0.0), autocorrelated(rng, len(events), 0.1, 0.9998)) + spent
    blocks = in_blocks(events[::20], cycles[::20])
    counts = Counts(*(int(column) for column in events.sum(axis=0)))
    return classes(lcore(blocks, counts, cycles.sum() + LOOP + SAMPLING + STAMPS * synthetic.STAMP_CYCLES)), spent.sum()


@pytest.mark.thorough
def test_rare_busy_polls_still_give_a_tax_near_1() -> None:
    """Timed intervals have few busy polls, and the cost of an empty poll is uncertain."""
    found = [rarely_polled(seed) for seed in range(25)]
    given_ = [(one, true) for one, true in found if isinstance(one, Classes) and one.by_timed_intervals]
    assert len(given_) > 8, "too few to count"
    assert any(one.empty_poll.error == one.packets.error for one, _ in given_), "none was left to the empty polls"
    inside = [abs(one.packets.value - true) <= one.packets.error for one, true in given_]
    assert np.mean(inside) >= 0.95
    for one, _ in given_:
        assert one.packets.error <= MOST_ERROR_SHARE * one.total
        assert one.empty_poll.error <= MOST_ERROR_SHARE * one.total


def test_at_light_load_timed_intervals_take_nothing_from_the_loop() -> None:
    """Timed intervals that exceed the remainder contradict the window; then the window counts."""
    short, away = 0.005 * window(COSTS, LIGHT), 0.1 * window(COSTS, LIGHT)
    found = determined(classed(LIGHT, more=away - short, interruptions={"count": 9, "cycles": away}))
    assert found.loop == LOOP + away
    assert found.packets.value == pytest.approx(COSTS.of(LIGHT.busy_polls, *LIGHT[1:]) - short, rel=1e-6)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        # The few quiet intervals of a busy window took 18 cycles per poll; 10 were calibrated and true (64 queues).
        (classed(BUSY, empty_poll_cycles=8.0), "a longer window or a quieter machine would help"),
        (classed(BUSY, empty_poll_cycles=6.0), "a longer window or a quieter machine would help"),
        (
            classed(Counts(polls=100_000_000), few_timed_intervals(), empty_poll_cycles=10.0),
            "known to 10 +-10 cycles only, which is 73.8 % of the window (limit 1.9 %)",
        ),
        (
            classed(Counts(), few_timed_intervals()),
            "no timed interval stayed empty, and arriving packets prevented the calibration of an empty poll",
        ),
        (classes({"accounting": "full", "cycles": {"total": 5}}), "accounting mode full takes no timed intervals"),
        (classed(RARE, exact(COSTS._replace(empty_poll=11.0))), "empty polls at 11 cycles"),
        (classed(RARE, exact(COSTS._replace(empty_poll=11.0))), "exceed the window by 10.0 %"),
    ],
)
def test_a_tax_that_is_not_known_is_absent_with_the_reason(found: Classes | NoClasses, said: str) -> None:
    assert said in reason(found)


@pytest.mark.parametrize("away", [0.05, -0.05, 0.021, -0.021, 0.019, -0.019, 0.0])
def test_a_misfit_above_2_percent_flags_the_trial(away: float) -> None:
    """Timed intervals miss a part of the window, or exceed it."""
    record = synthetic.trial(useful_share=0.6)
    record["result"]["dut"]["lcores"][0]["event_cycles"] += round(away * synthetic.WINDOW_CYCLES)
    metrics, _ = derive_trial(record)
    assert metrics["accounting_misfit_share"] == pytest.approx(away, abs=1e-9)
    flags = misfit_flags(metrics)
    assert bool(flags) == (abs(away) > MISFIT_SHARE)
    for flag in flags:
        assert flag["name"] == "accounting:misfit"
        assert f"misses the window by {100 * away:+.1f} %" in flag["text"]
        assert "\n" not in flag["text"]
    assert not misfit_flags(metrics, shared=0.05), "a generator on the same CPU may have taken that"


def test_an_interval_over_repeats_holds_the_trials_own_error(tmp_path: Path) -> None:
    """Repeats that agree to the last digit know the cost of an empty poll no better than their timed intervals."""
    trials = [synthetic.trial(f"t{k}", "p0", k, {"queues": 1}, useful_share=0.6 + 1e-5 * k) for k in range(3)]
    run = synthetic.write_run(tmp_path / "run", trials)
    table = current_table(read_run(run))
    # The former only a plug-in samples, the latter takes 20 trials.
    for metric in ERRORS.keys() - {"saturation_pps", "undisturbed_cycles_per_packet"}:
        (sample,) = by_point(table, metric)
        cycles = table["metric.cycles_per_packet_all"].mean()
        whole = cycles if "packet" in metric else cycles / 2 if metric.endswith("_ns") else 1  # 2 GHz
        assert sample.error == pytest.approx(TIMED_INTERVAL_ERROR * 0.28 * whole, rel=1e-3)
        for end in (sample.estimate.low, sample.estimate.high):
            assert abs(end - sample.estimate.value) >= sample.error
    (rate,) = by_point(table, "poll_rate_hz")
    assert rate.error == 0
    assert not rate.estimate.has_interval, "three equal repeats do not know their spread"


def test_the_error_of_a_share_of_the_running_time_is_one_too(tmp_path: Path) -> None:
    """The host takes 20 % of the window, so that an error is that much more of the rest."""
    trials = [
        synthetic.trial(f"t{k}", "p0", k, {"queues": 1}, useful_share=0.3, interrupted_share=0.2) for k in range(3)
    ]
    table = current_table(read_run(synthetic.write_run(tmp_path / "run", trials)))
    (whole,), (running,) = (by_point(table, name) for name in ("tax_share", "tax_share_running"))
    assert running.error == pytest.approx(whole.error / 0.8)
    assert running.error > 0.01 * (1 - 0.3)


@pytest.mark.parametrize(("missing", "kept"), [(0.008, True), (0.0185, False)])
def test_an_estimated_share_below_zero_by_less_than_its_error_is_kept(missing: float, kept: bool) -> None:
    """Omitted or cut to 0 it would bias the mean of several trials; further below it contradicts itself."""
    record = synthetic.trial(useful_share=0.001)
    record["result"]["dut"]["lcores"][0]["event_cycles"] += round(missing * synthetic.WINDOW_CYCLES)
    metrics, absences = derive_trial(record)
    if kept:
        assert metrics["useful_share"] == pytest.approx(0.001 - missing, abs=1e-6)
        assert -metrics["tax_share_error"] < metrics["useful_share"] < -SHARE_TOLERANCE
    else:
        assert "a share lies between 0 and 1" in absences["useful_share"]


def test_a_record_gives_its_series_and_made_packets_to_the_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are weighted by their polls, and a workload that makes its packets receives none."""
    record = synthetic.trial(useful_share=0.6)
    (given,) = record["result"]["dut"]["lcores"]
    given |= {"packets": 777, "rx_packets": 0, "series": {"cycles": [10, 30], "sweeps": [5, 6]}}
    seen: list[Any] = []

    def classes(lcore: Any) -> NoClasses:
        seen.append(lcore)
        return NoClasses("seen")

    monkeypatch.setattr("pollscope.metrics.record.classes", classes)
    with pytest.raises(NotMeasured, match="seen"):
        _ = TrialObservations(record).accounts
    assert seen[0]["packets"] == 777
    assert {name: values.tolist() for name, values in seen[0]["series"].items()} == {
        "cycles": [10, 30],
        "sweeps": [5, 6],
    }


@pytest.mark.parametrize("metric", ["tax_share", "cycles_per_packet_useful"])
def test_a_ratio_of_two_sides_holds_the_error_of_their_trials(tmp_path: Path, metric: str) -> None:
    """Without the trials' own error, repeats that agree to the last digit would make any difference significant."""
    share = {1: 0.6, 2: 0.603}
    trials = [
        synthetic.trial(f"t{q}{k}", f"p{q}", k, {"queues": q}, useful_share=share[q] + 1e-6 * k)
        for q in share
        for k in range(3)
    ]
    run = read_run(synthetic.write_run(tmp_path / "run", trials))
    (found,) = compare_levels(run, "queues", [metric])
    assert not found.beyond_noise
    (wide,) = compare_levels(run, "queues", ["poll_rate_hz"])
    assert (wide.ratio.value, wide.ratio.has_interval) == (1, False)


def test_two_independent_errors_are_added_as_such(tmp_path: Path) -> None:
    spread = (-0.01, 0.0, 0.01)
    trials = [synthetic.trial(f"t{k}", "p0", k, {"queues": 1}, useful_share=0.6 + d) for k, d in enumerate(spread)]
    (sample,) = by_point(current_table(read_run(synthetic.write_run(tmp_path / "run", trials))), "tax_share")
    repeats = 4.302653 * 0.01 / math.sqrt(3)
    together = math.hypot(repeats, sample.error, sample.resolution / 2)
    assert sample.estimate.high - sample.estimate.value == pytest.approx(together, rel=1e-6)
