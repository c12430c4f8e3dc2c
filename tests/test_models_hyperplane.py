# SPDX-License-Identifier: BSD-3-Clause
"""QWAIT, its monitoring set and HyperPlane's chip: against exact formulas, against each other, and what is refused."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from pollscope.base.errors import UsageError
from pollscope.models import hyperplane, queues
from pollscope.models.simulate import Arrivals, Outcome, PollingCores, QwaitCores, Service, simulate
from pollscope.stats.estimates import Estimate

CHECKOUT = Path(__file__).resolve().parent.parent
CHIP = hyperplane.chip()


def holds(outcome: Outcome, exact_ns: float) -> None:
    """Return whether the mean is exact within 3.5 half-widths of its 95 % interval."""
    mean = outcome.mean_ns
    assert mean is not None
    assert mean.value == pytest.approx(exact_ns, abs=3.5 * (mean.high - mean.low) / 2)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("ready_sets", [1, 4])
def test_notified_cores_are_servers_with_one_qwait_more_per_service(load: float, ready_sets: int) -> None:
    """One set: M/M/4 of its own order; four sets: four times M/D/1."""
    cores = 4
    exponential = ready_sets == 1
    service = Service(1000.0, "exponential") if exponential else Service(950.0)
    system = QwaitCores(
        Arrivals(load * cores * 1e6), service, cores, 64, ready_sets, qwait_ns=0.0 if exponential else 50.0
    )
    outcome = simulate(system, 4e7, 1e6, seed=7, parts=4)
    if exponential:
        holds(outcome, 1000 + queues.mmc_wait_ns(load * cores * 1e6, 1000.0, cores))
    else:
        holds(outcome, 1000 + queues.md1_wait_ns(load * 1e6, 1000.0))
    assert outcome.busy_share == pytest.approx(load, rel=0.02)
    assert outcome.refused == 0


def test_at_light_load_a_notified_core_takes_the_sum_of_its_steps() -> None:
    system = QwaitCores(Arrivals(1e3), Service(1000.0), queues=1000, qwait_ns=50, notice_ns=5, wake_up_ns=500)
    outcome = simulate(system, 1e9, seed=3)
    assert outcome.mean_ns is not None
    assert outcome.mean_ns.value == pytest.approx(1555, rel=0.01)
    assert outcome.times.percentile(50) == pytest.approx(1555, rel=0.001)


def test_a_ready_set_in_software_pays_for_every_ready_queue() -> None:
    system = QwaitCores(Arrivals(10e6), Service(500.0), queues=100, room=8, per_ready_ns=5)
    outcome = simulate(system, 1e7, 1e6, seed=2)
    served = outcome.arrived - outcome.refused
    # All queues have packets: 500 ns and 100 times 5.
    assert served / outcome.window_ns * 1e9 == pytest.approx(1e6, rel=0.01)


def test_ready_queues_are_served_in_turn() -> None:
    """A queue with a hundred times the traffic of the others waits for its turn among them; they do not wait for it."""
    weights = (100.0, *(1.0,) * 9)
    result = simulate(QwaitCores(Arrivals(2e6), Service(1000.0), queues=10, weights=weights, room=64), 5e7, 1e6, seed=4)
    # The others are served completely: each brings 1/109 of 2 Mpps, which is below a tenth of 1 Mpps.
    brought = 9 / 109 * 2e6
    assert (result.arrived - result.refused) / result.window_ns * 1e9 == pytest.approx(1e6, rel=0.01)
    assert result.refused / result.window_ns * 1e9 == pytest.approx(1e6, rel=0.02)
    assert result.times.percentile(5) < 10_000 < result.times.percentile(50)
    assert brought < 0.9e6


def test_a_queue_of_priority_is_served_as_if_alone() -> None:
    """Two queues with 70 % of a core's time each: with strict order only one of them waits for its ring to empty."""
    system = QwaitCores(Arrivals(1.4e6), Service(1000.0), queues=2, room=64)
    strict, fair = (simulate(replace(system, order=order), 2e8, 1e7) for order in ("strict", "round-robin"))
    assert strict.served == pytest.approx(fair.served, rel=1e-3)
    # The first queue has 70 % of the served packets: M/D/1 plus at most the rest of one service.
    assert strict.times.percentile(65) < 12_000
    assert strict.times.percentile(80) > 100_000
    assert fair.times.percentile(10) > 100_000, "both rings are full"


def test_weights_share_a_core() -> None:
    """Three packets of one queue for one of the other: full rings of 64 take 64 / (3 / 4) and 64 / (1 / 4) services."""
    system = QwaitCores(Arrivals(4e6), Service(1000.0), queues=2, room=64, turns=(3, 1))
    found = simulate(system, 1e8, 2e6)
    assert found.times.percentile(50) == pytest.approx(64_000 * 4 / 3, rel=0.03)
    assert found.times.percentile(90) == pytest.approx(64_000 * 4, rel=0.03)
    assert found.times.percentile(74) < 150_000 < found.times.percentile(76), "three of four are the first queue's"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("queues_of_core", [1, 64, 1000])
def test_a_poller_without_load_waits_for_half_a_sweep(queues_of_core: int) -> None:
    found = hyperplane.light(CHIP, "steer", queues_of_core, "spin")
    poll_ns, task_ns = CHIP.poll_ns(queues_of_core), CHIP.task_ns("steer", 1)
    assert found.mean_ns is not None
    exact_ns = task_ns + queues_of_core * poll_ns / 2
    # At 0.5 % load almost no packet waits for another.
    assert found.mean_ns.value == pytest.approx(exact_ns, rel=0.02)
    assert found.times.percentile(99) == pytest.approx(task_ns + 0.99 * queues_of_core * poll_ns, rel=0.05)


@pytest.mark.parametrize("shape", ["FB", "SQ"])
def test_the_peak_is_what_an_overloaded_core_does(shape: hyperplane.Shape) -> None:
    number = 200
    task_ns = CHIP.task_ns("encap", number if shape == "FB" else 1)
    weights = None if shape == "FB" else (1.0, *(0.0,) * (number - 1))
    system = PollingCores(
        Arrivals(3e6), Service(task_ns), queues=number, weights=weights, burst=1, empty_poll_ns=CHIP.poll_ns(number)
    )
    outcome = simulate(system, 2e7, 1e6, seed=1)
    sent_pps = sum(core.sent for core in outcome.cores) / outcome.window_ns * 1e9
    assert sent_pps == pytest.approx(hyperplane.peak_pps(CHIP, "encap", shape, number, "spin"), rel=0.01)


def test_shapes_have_the_empty_polls_that_the_paper_counts() -> None:
    """Four empty queues for a busy one under PC, less those with a packet at 5 % of the polls; none under FB."""
    assert hyperplane.turn("FB", 1000) == (1000, 0)
    assert list(hyperplane.turn("PC", 1000)) == pytest.approx([240, 760])
    assert list(hyperplane.turn("NC", 1000)) == pytest.approx([145, 855])
    assert hyperplane.turn("SQ", 1000) == (1, 999)


def test_a_notified_core_keeps_its_peak_and_a_poller_does_not() -> None:
    def peak(shape: hyperplane.Shape, number: int, how: hyperplane.Notification) -> float:
        return hyperplane.peak_pps(CHIP, "encap", shape, number, how)

    assert peak("SQ", 1000, "qwait") == peak("SQ", 1, "qwait")
    assert peak("SQ", 1000, "spin") < 0.01 * peak("SQ", 1, "spin")
    # Data of 4,000 queues do not fit into 16 MiB of LLC.
    assert CHIP.task_ns("encap", 4000) > CHIP.task_ns("encap", 2000)
    assert CHIP.poll_ns(4000) > CHIP.poll_ns(1000) > CHIP.poll_ns(512) == CHIP["poll_ns"]


Place = tuple[int, int]  # way, row


def add(held: dict[Place, int], places: Mapping[int, Sequence[Place]], doorbell: int, rows_seen: int) -> bool:
    """Add a doorbell to a cuckoo table, breadth first; return whether it found a place (Pagh and Rodler 2001)."""
    seen: list[tuple[Place, int | None]] = [(place, None) for place in places[doorbell]]
    for number, (place, source) in enumerate(seen):
        if place not in held:
            while source is not None:
                held[place] = held[seen[source][0]]
                place, source = seen[source]
            held[place] = doorbell
            return True
        others = [(other, number) for other in places[held[place]] if other[0] != place[0]]
        seen += others[: rows_seen - len(seen)]
    return False


def failed_share(ways: int, doorbells: int, rows_seen: int = 64, tables: int = 20) -> float:
    """Return the share of doorbells that find no place among 1024 entries at their first address (section IV-A)."""
    failed = 0
    for table in range(tables):
        random, held, places = np.random.default_rng([1, table]), dict[Place, int](), dict[int, list[Place]]()
        for doorbell in range(doorbells):
            for address in range(100):
                places[doorbell] = list(enumerate(random.integers(0, 1024 // ways, ways).tolist()))
                if add(held, places, doorbell, rows_seen):
                    break
                failed += address == 0
        assert sorted(held.values()) == list(range(doorbells)), "each is held once"
        assert all(place in places[doorbell] for place, doorbell in held.items())
    return failed / (tables * doorbells)


def test_ways_decide_how_full_a_monitoring_set_can_be() -> None:
    """Cuckoo hashing fails above 50 % with two ways, above 97.7 % with four (Fotakis et al. 2005)."""
    assert failed_share(2, 512) < 0.002
    assert failed_share(2, 930) > 0.1
    assert failed_share(4, 930) < 0.003
    assert failed_share(4, 1000) > 0.01
    assert failed_share(4, 930, rows_seen=8) > 0.01


def test_statements_of_the_paper_are_judged_and_needed_changes_are_named() -> None:
    by_text = {statement.text: statement for statement in hyperplane.statements()}
    rows = {"H-F3a", "H-F3b", "H-F3c", "H-F8", "H-F9", "H-F10", "H-F11a", "H-F11b", "H-F12", "H-F13"}
    assert {statement.row for statement in hyperplane.statements()} == rows
    throughput = next(each for each in hyperplane.statements() if each.row == "H-F8")
    assert throughput.verdict(throughput.of(CHIP)) == "disagrees"
    needed = throughput.needed(CHIP)
    assert needed is not None
    assert 100 < needed < CHIP["poll_ns"]
    found = throughput.of(CHIP.having("poll_ns", needed))
    assert throughput.verdict(found) == "agrees"
    fitted = by_text["with C1 spinning is faster up to 6 queues"]
    assert fitted.verdict(fitted.of(CHIP)) == "consistent by construction"
    assert fitted.verdict(fitted.of(CHIP.having("poll_ns", 20.0))) == "disagrees"
    wide = Estimate(4.1, 3.0, 5.0, 8, "a test")
    assert throughput.verdict(wide) == "inconclusive"
    hopeless = hyperplane.Statement("H-F8", "t", 1e9, 2e9, "wake_up_ns", throughput.of)
    assert hopeless.needed(CHIP) is None


def test_every_parameter_says_where_it_comes_from() -> None:
    file = CHECKOUT / "configs/platforms/hyperplane-chip.yaml"
    given = YAML(typ="safe").load(file.read_text())
    assert set(CHIP.origins.values()) == {"stated", "assumed", "fitted"}
    assert all(each["source"] for each in given.values())
    # A fitted value has a statement that agrees by construction alone.
    levers = {each.lever for each in hyperplane.statements() if each.fitted}
    assert {name for name, origin in CHIP.origins.items() if origin == "fitted"} <= levers


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("clock_hz: {value: 1, origin: stated, source: x}", "is missing"),
        ("clock_hz: 3", "clock_hz"),
        ("clock_hz: {value: 0, origin: stated, source: x}", "needs a value above 0"),
        ("clock_hz: {value: 1, origin: guessed, source: x}", "clock_hz"),
        ("{}", "is missing"),
    ],
)
def test_a_bad_chip_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "chip.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        hyperplane.chip(file)
    assert said in str(caught.value)
    assert "chip.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("words", [["--set", "colour=1"], ["--set", "poll_ns"], ["--chip", "nowhere.yaml"]])
def test_a_slip_on_the_command_line_is_one_line(words: list[str]) -> None:
    command = [sys.executable, "benchmarks/hyperplane_rows.py", *words]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("hyperplane_rows: ")
    assert words[-1].partition("=")[0] in line


def test_notified_cores_wait_if_no_packets_come() -> None:
    found = simulate(QwaitCores(Arrivals(0.0), Service(1000.0), queues=4), 1e6)
    assert (found.arrived, found.served, found.busy_share) == (0, 0, 0.0)
