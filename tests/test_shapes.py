# SPDX-License-Identifier: BSD-3-Clause
"""Check the share of empty polls under a shape, and the flag of a trial that had another one."""

import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollscope.metrics.record import TrialObservations
from pollscope.metrics.shapes import empty_per_busy, empty_share, hot_queues, polls_of_shape, shape_flags
from pollscope.node.requests import Wiring, configure_request
from pollscope.spec.model import Parameters

WIRING = Wiring(generator_lcores=(1,), dut_lcores=(2,), gen_tx="a", dut_rx="b", dut_tx="c", gen_rx="d")


def params(**changes: Any) -> Parameters:
    return Parameters().model_copy(update=changes)


@pytest.mark.parametrize(
    ("shape", "queues", "hot", "ratio"),
    [
        ("FB", 500, 500, 0.0),
        ("PC", 500, 100, 0.76 / 0.24),
        ("PC", 1, 1, 0.0),
        ("PC", 3, 1, (2 * 0.95) / (1 + 2 * 0.05)),
        ("NC", 500, 100, 0.76 / 0.24),
        ("NC", 1000, 100, (900 * 0.95) / (100 + 900 * 0.05)),
        ("NC", 60, 60, 0.0),
        ("SQ", 500, 1, 499.0),
        ("SQ", 1, 1, 0.0),
    ],
)
def test_empty_polls_for_each_busy_one(shape: str, queues: int, hot: int, ratio: float) -> None:
    asked = params(shape=shape, queues=queues).model_dump()
    assert hot_queues(asked) == hot
    assert empty_per_busy(asked) == pytest.approx(ratio)


@given(
    queues=st.integers(1, 1024),
    share=st.floats(0, 1),
    probability=st.floats(0, 1),
    number=st.integers(1, 1024),
    shape=st.sampled_from(["FB", "PC", "NC", "SQ"]),
)
def test_shares_of_any_shape(queues: int, share: float, probability: float, number: int, shape: str) -> None:
    asked = params(
        shape=shape,
        queues=queues,
        concentrated_share=share,
        concentrated_queues=number,
        background_probability=probability,
    ).model_dump()
    hot = hot_queues(asked)
    assert 1 <= hot <= queues
    ratio = empty_per_busy(asked)
    assert 0 <= ratio <= queues - 1 + 1e-9
    if shape == "FB" or (shape != "SQ" and probability == 1):
        assert ratio == 0
    if shape != "SQ":  # a more likely packet never gives more empty polls
        likelier = empty_per_busy({**asked, "background_probability": min(1.0, probability + 0.1)})
        assert likelier <= ratio + 1e-9


def test_the_formula_is_what_drawn_queue_polls_show() -> None:
    rng, queues, hot, probability = random.Random(1), 50, 10, 0.05
    empty = sum(rng.random() >= (1 if queue < hot else probability) for _ in range(4000) for queue in range(queues))
    assert empty / (4000 * queues) == pytest.approx(empty_share(queues, hot, probability), abs=0.005)


def record(empty: int, busy: int, gaps_ns: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a SYNTHETIC record: one DUT lcore on 10 queues, of which 2 are hot; half a second."""
    shape = {
        "hot": [3, 7],
        "cold": 8,
        "probability": 0.05,
        "queue_polls": 1000.0,
        "hot_sent": 80_000,
        "hot_asked": 64_000.0,
        "cold_sent": 410,
        "cold_unsent": 0,
        "cold_asked": 410.0,
        **changes,
    }
    shape = {key: value for key, value in shape.items() if value is not None}
    lcore = {"source": "rx-queues", "polls": {"empty": empty, "partial": 0, "full": busy}}
    return {
        "trial": "t",
        "params": params(shape="PC", queues=10).model_dump(),
        "config": {"dut": {"rx_port": "b"}, "ports": [{"name": "b", "rx_queues": 10}]},
        "result": {
            "window": {"start_tsc": 0, "end_tsc": 500, "tsc_hz": 1000},
            "dut": {"lcores": [lcore]},
            "gen": {"lcores": [{"shape": shape, "host_gaps": {"in_over_100us_ns": gaps_ns}}]},
        },
    }


def notified(empty: int, waited: float) -> dict[str, Any]:
    """Return a trial of a notified core that waited for this share of its cycles."""
    changed = record(empty, 10_000 - empty)
    for lcore in changed["result"]["dut"]["lcores"]:
        lcore |= {"notices": {}, "waiting": {"count": 5, "cycles": int(waited * 1e6), "sleeps": 0}}
        lcore["cycles"] = {"total": 10**6}
    return changed


EMPTIER = "PC: 90.0 % of the polls were empty where the shape has 76.0 %"
FULLER = "PC: 60.0 % of the polls were empty where the shape has 76.0 %"


@pytest.mark.parametrize(
    ("trial", "said"),
    [
        (record(7600, 2400), ()),
        (record(7990, 2010), ()),
        (record(9000, 1000, hot_sent=30_000), (EMPTIER, "generator was the limit", "60 kpps", "128 kpps")),
        (record(9000, 1000), (EMPTIER, "a part of the window only$")),  # and no gap
        (record(9000, 1000, gaps_ns=2_000_000), ("took the generator's core away for 2 ms",)),
        # Late cold packets are named whatever the polls say.
        (record(7600, 2400, cold_unsent=100), ("gave up 100 packets for cold queues",)),
        (record(6000, 4000, cold_sent=900), (f"{FULLER}; cold queues got 900 packets",)),
        (record(6000, 4000), (f"^{FULLER}$",)),
        (record(7900, 2100, queue_polls={"absent": "not reported"}), ("^cold queues got no packets: not reported$",)),
        (notified(0, 0.01), ()),  # it polls no empty queue
        (notified(0, 0.4), ("the cores waited in 40.0 % of the cycles",)),
    ],
)
def test_a_trial_of_another_shape_is_flagged_with_the_cause(trial: dict[str, Any], said: tuple[str, ...]) -> None:
    flags = shape_flags(TrialObservations(trial))
    assert [flag["name"] for flag in flags] == ["shape"] * bool(said)
    assert all(re.search(part, flags[0]["text"]) for part in said)


def test_polls_are_held_against_those_of_the_shape() -> None:
    found = polls_of_shape(TrialObservations(record(7600, 2400)))
    assert (found.polls, found.empty, found.expected) == pytest.approx((10_000, 7600, 7600))


def test_fed_packets_count_and_each_lcore_has_its_own_queues() -> None:
    both = record(0, 0)
    lcore = both["result"]["dut"]["lcores"][0]
    # queues 0, 2, 4, ... with one hot queue more than the other lcore, and twice its polls
    both["result"]["dut"]["lcores"] = [
        {**lcore, "polls": {"empty": 1140, "partial": 800, "full": 60}},
        {**lcore, "polls": {"empty": 950, "partial": 50, "full": 0}},
    ]
    del both["result"]["gen"]
    both["result"]["feed"] = {"hot": [2, 4], "cold": 8, "probability": 0.05}
    found = polls_of_shape(TrialObservations(both))
    assert found.expected == pytest.approx(2000 * 0.95 * 3 / 5 + 1000 * 0.95)
    assert shape_flags(TrialObservations(both)) == []
    both["params"]["organisation"] = "locked"
    assert polls_of_shape(TrialObservations(both)).expected == pytest.approx(3000 * 0.76)


@pytest.mark.parametrize("missing", ["gen", "dut"])
def test_nothing_is_said_where_there_is_nothing_to_compare(missing: str) -> None:
    trial = record(9999, 1)
    del trial["result"][missing]
    assert shape_flags(TrialObservations(trial)) == []
    older = record(9999, 1)
    del older["result"]["gen"]["lcores"][0]["shape"]
    assert shape_flags(TrialObservations(older)) == []


def test_the_shape_goes_to_the_source_of_the_packets() -> None:
    asked = {"shape": "PC", "shape_seed": 5, "background_probability": 0.1, "burst": 16}
    wire = configure_request(params(**asked), WIRING)
    assert "feed" not in wire
    assert wire["gen"].items() >= {"shape": "PC", "shape_seed": 5, "busy_poll_packets": 16}.items()
    fed = configure_request(params(**asked, feed="infinite", saturate=True, arrivals_seed=9), WIRING)
    assert "gen" not in fed
    assert fed["feed"].items() >= {"port": "b", "shape": "PC", "background_probability": 0.1, "seed": 9}.items()
    silent = configure_request(params(**asked, feed="none", saturate=True), WIRING)
    assert not {"gen", "feed"} & silent.keys()
