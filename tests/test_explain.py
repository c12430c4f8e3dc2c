# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope explain`: constructed records whose limit is known, a paper's own table, recorded runs, and bad input."""

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic
from command_line import pollscope

from pollscope.analysis.explain import Diagnosis, RuleOutcome, StageFinding, explain_paper, explain_run
from pollscope.analysis.explain.diagnosis import RULES, diagnose
from pollscope.analysis.explain.observations import CoreLoad, PointObservations
from pollscope.metrics.accounting import WOULD_TELL
from pollscope.models.pcie import PcieLink, forwarded_pps
from pollscope.store.results_table import derive_table
from pollscope.store.run_folder import read_run

CHECKOUT = Path(__file__).resolve().parent.parent
RX, TX = "net_crossover0_b", "net_crossover1_a"
HOST_NETWORK = {
    "PCIe link",
    "PCIe credits",
    "PCIe tags",
    "work requests",
    "IOTLB walks",
    "IIO queueing",
    "NIC's MTT cache",
    "DDIO capacity",
}
PARAMS = {"cores": 1, "burst": 32, "rx_desc": 512, "queues": 1, "shape": "FB", "feed": "wire", "workload": "io"}
PARAMS |= {"organisation": "scale-out", "saturate": True, "extra_cycles": 0, "dispatchers": None, "ring_size": 1024}


def limits(found: Diagnosis) -> list[str]:
    return [finding.stage for finding in found.of(RuleOutcome.LIMITS)]


def of(found: Diagnosis, stage: str) -> StageFinding:
    return next(finding for finding in found.findings if finding.stage == stage)


def record(
    name: str, params: Mapping[str, Any], missed: float = 0.0, busy: float = 0.6, queue: int = 0, **dut: Any
) -> dict[str, Any]:
    """Return a trial with this share of missed packets and this busy share of its core."""
    params = {**PARAMS, **params}
    queues = params["queues"]
    made = synthetic.trial(name, "p", int(name[1:]), {"queues": queues}, queues=queues, useful_share=busy, **dut)
    made["params"] = params
    received = made["result"]["ports"][RX]["stats"]["ipackets"]
    made["result"]["ports"][RX]["stats"]["imissed"] = round(missed / (1 - missed) * received)
    packets = [0] * queues
    packets[queue] = received
    made["result"]["ports"][RX]["rx_queue_packets"] = packets
    return made


def explained(folder: Path, records: Sequence[Mapping[str, Any]], **meta: Any) -> list[Diagnosis]:
    run = synthetic.run_of(folder, records, **meta)
    return explain_run(run, derive_table(run))


def three(params: Mapping[str, Any], **changes: Any) -> list[dict[str, Any]]:
    return [record(f"t{repeat}", params, **changes) for repeat in range(3)]


def alone(folder: Path, params: Mapping[str, Any], **changes: Any) -> Diagnosis:
    [found] = explained(folder, three(params, **changes))
    return found


def worker(busy: float, cpu: int = 1, error: float = 0.0) -> CoreLoad:
    return CoreLoad(f"worker on CPU {cpu}", "worker", busy, 0.0, error)


def at(
    values: Mapping[str, float], *cores: CoreLoad, params: Mapping[str, Any] | None = None, **more: Any
) -> Diagnosis:
    """Return the diagnosis of a point with these numbers, cores, and changes to PARAMS."""
    known = {name: [value] for name, value in values.items()}
    loads = [cores] if cores else ()
    return diagnose(PointObservations("p", {**PARAMS, **(params or {})}, known, loads=loads, **more))


@pytest.mark.parametrize("lcores", [1, 2])
def test_a_core_that_waits_for_a_ready_queue_is_not_busy(tmp_path: Path, lcores: int) -> None:
    records = three({"notification": "qwait", "load_of_max": 1.0}, missed=0.1)
    for each in records:
        (lcore,) = each["result"]["dut"]["lcores"]
        timed = {"samples": 1000, "cycles": 1e6, "squared_cycles": 1e3}
        lcore["waiting"] = {"count": 10, "cycles": 0.9 * synthetic.WINDOW_CYCLES, "sleeps": 0}
        lcore["notices"] = {"empty": {"samples": 0, "cycles": 0.0, "squared_cycles": 0.0}, "busy_polls": timed}
        lcore["polls"] |= {"empty": 0, "refill_failed": 0}
        lcore["event_cycles"] = 0
        each["result"]["dut"]["lcores"] = [{**lcore, "cpu": 2 + core} for core in range(lcores)]
    found = explained(tmp_path / "run", records)[0]
    assert of(found, "core cycles").kind is RuleOutcome.CLEAR
    assert "doorbells identify the next queue" in of(found, "sweep over the queues").evidence[0]


# A change to a healthy trial, and the stages that must be named for it.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "a busy core": ({}, {"missed": 0.3, "busy": 0.98}, ["core cycles"]),
    "a core with a little time left that loses": ({}, {"missed": 0.3, "busy": 0.88}, ["core cycles"]),
    "a core that keeps up": ({"saturate": None, "load_pps": 1e6}, {"busy": 0.3}, ["offered load"]),
    "saturated, and none is missed": ({}, {"busy": 0.3}, ["generator"]),
    "missed beside idle polls": ({}, {"missed": 0.3, "busy": 0.3}, ["RX ring"]),
    "one queue of 16, full at each busy poll": (
        {"queues": 16},
        {"missed": 0.3, "busy": 0.3, "polls": 270_000, "queue": 3},
        ["sweep over the queues"],
    ),
    "the host has the core, and as much is missed": (
        {},
        {"missed": 0.1, "busy": 0.3, "interrupted_share": 0.09},
        ["host takes the core"],
    ),
    "no generator": ({"feed": "infinite"}, {"busy": 0.98}, ["core cycles"]),
    "nothing is sent": ({"saturate": None, "load_pps": 0.0}, {"busy": 0.0, "pps": 0.0}, ["offered load"]),
}


@pytest.mark.parametrize("case", CASES)
def test_constructed_records_have_the_limit_that_they_were_made_with(tmp_path: Path, case: str) -> None:
    params, changes, expected = CASES[case]
    found = alone(tmp_path / "run", params, **changes)
    assert limits(found) == expected, [finding for finding in found.findings if finding.kind is not RuleOutcome.CLEAR]
    assert found.trials == 3


def test_each_pair_has_its_own_limit(tmp_path: Path) -> None:
    """One DUT misses a third of what comes, the other, at the same point, nothing."""
    missed = {"first": 0.3, "second": 0.0}
    records = [
        record(f"t{number}", {}, missed=share, busy=0.97 if share else 0.2) | {"pair": pair}
        for number, (pair, share) in enumerate(list(missed.items()) * 3)
    ]
    first, second = explained(tmp_path / "run", records)
    assert (first.label, second.label) == ("pair first, queues 1", "pair second, queues 1")
    assert "core cycles" in limits(first)
    assert "core cycles" not in limits(second)


def test_a_busy_core_that_misses_nothing_may_carry_more_in_larger_bursts(tmp_path: Path) -> None:
    load = {"saturate": None, "load_of_max": 0.5}
    found = alone(tmp_path / "half", load, busy=0.98)
    assert limits(found) == ["offered load"]
    assert of(found, "core cycles").kind is RuleOutcome.OPEN
    assert limits(alone(tmp_path / "whole", {**load, "load_of_max": 1.0}, busy=0.98)) == ["core cycles"]


def test_a_late_generator_limits_a_dut_with_time_left(tmp_path: Path) -> None:
    records = three({"saturate": None, "load_pps": 1e6}, busy=0.3)
    for each in records:
        generator = each["result"]["gen"]["lcores"][0]
        generator["intended"], generator["unsent"] = 2 * generator["sent"], generator["sent"]
    [found] = explained(tmp_path / "run", records)
    assert limits(found) == ["generator"]
    assert "50 %" in " ".join(of(found, "generator").evidence)


def test_a_generator_whose_cpu_the_host_takes_is_not_called_slow(tmp_path: Path) -> None:
    """Seen on a busy host: at 20 kpps 4 % were not sent, while the generator's CPU was away for as long."""
    records = three({"saturate": None, "load_pps": 2e4}, busy=0.1)
    for each in records:
        generator = each["result"]["gen"]["lcores"][0]
        generator["intended"], generator["unsent"] = generator["sent"] / 0.96, generator["sent"] / 24
        generator["host_gaps"]["in_over_100us_ns"] = 0.04e9 * synthetic.WINDOW_CYCLES / synthetic.TSC_HZ
    [found] = explained(tmp_path / "run", records)
    assert limits(found) == ["offered load"]
    assert of(found, "generator").kind is RuleOutcome.OPEN
    assert "Generator away 4 %" in of(found, "generator").evidence[1]


def test_waits_for_a_lock_are_no_work(tmp_path: Path) -> None:
    shared = {"organisation": "locked", "cores": 2}
    records = three(shared, missed=0.3, busy=0.98)
    for each in records:
        lcore = each["result"]["dut"]["lcores"][0]
        lcore["lock"] = {"waits": 1000, "cycles": synthetic.WINDOW_CYCLES // 2}
    [found] = explained(tmp_path / "run", records)
    assert limits(found) == ["shared queue"]
    assert "50 %" in of(found, "shared queue").evidence[0]


def test_the_core_that_an_unfair_lock_favours_is_not_said_to_limit(tmp_path: Path) -> None:
    shared = {"organisation": "locked", "cores": 2}
    records = three(shared, missed=0.3, busy=0.98)
    for each in records:
        favoured = each["result"]["dut"]["lcores"][0]
        starved = {**favoured, "cpu": favoured["cpu"] + 1}
        starved["lock"] = {"waits": 1000, "cycles": synthetic.WINDOW_CYCLES // 4}
        each["result"]["dut"]["lcores"].append(starved)
    [found] = explained(tmp_path / "run", records)
    assert limits(found) == ["shared queue"]
    assert of(found, "core cycles").kind is RuleOutcome.OPEN


def test_few_mbufs_and_a_full_tx_queue_are_named(tmp_path: Path) -> None:
    records = three({}, missed=0.0, busy=0.3)
    for each in records:
        each["result"]["ports"][RX]["stats"]["rx_nombuf"] = 100_000
        each["result"]["dut"]["lcores"][0]["tx_dropped"] = 100_000
    [found] = explained(tmp_path / "run", records)
    assert set(limits(found)) >= {"mbuf pool", "TX queue"}


def test_a_busy_worker_behind_a_full_ring_is_the_limit_and_not_its_dispatcher() -> None:
    values = {"ring_full_share": 0.9, "imissed_share": 0.0, "rx_pps": 1e7, "tx_dropped_share": 0.0}
    values |= {"interrupted_share": 0.0, "rx_nombuf_share": 0.0}
    params = {"organisation": "scale-up", "dispatchers": 1, "feed": "infinite", "extra_cycles": 2000}
    more: dict[str, Any] = {"params": params, "busy_polls_filled": [1.0]}
    dispatcher = CoreLoad("dispatcher on CPU 2", "dispatcher", 1.0, 0.0)
    found = at(values, worker(0.99), dispatcher, **more)
    assert limits(found) == ["core cycles"]
    assert of(found, "core cycles").evidence[0].startswith("worker on CPU 1 is busy for 99 %")
    assert limits(at(values, worker(0.5), dispatcher, **more)) == ["ring between cores"]


@pytest.mark.parametrize(("missed", "limit"), [(0.0, []), (0.05, ["RX ring"])])
def test_only_packets_without_a_descriptor_are_missed_by_the_rx_ring(missed: float, limit: list[str]) -> None:
    """Packets that find no room behind the dispatcher have left the RX ring, which only the dispatcher reads."""
    values = {"imissed_share": missed, "ring_full_share": 0.05, "rx_pps": 1e7, "tx_dropped_share": 0.0}
    values |= {"interrupted_share": 0.0, "rx_nombuf_share": 0.0, "offered_pps": 1e7}
    dispatcher = CoreLoad("dispatcher on CPU 2", "dispatcher", 0.5, 0.0)
    params = {"organisation": "scale-up", "dispatchers": 1}
    found = at(values, worker(0.99), dispatcher, params=params, busy_polls_filled=[0.2])
    assert [stage for stage in limits(found) if stage == "RX ring"] == limit
    said = of(found, "RX ring").evidence[0]
    assert ("while dispatcher on CPU 2 is busy for 50 % only" in said) is bool(limit)
    assert of(found, "generator").evidence[0].startswith("Missed" if missed else "Dropped")


def test_the_host_is_shown_with_the_packets_that_are_lost_meanwhile() -> None:
    values = {"imissed_share": 0.0, "ring_full_share": 0.05, "rx_pps": 1e7, "interrupted_share": 0.3}
    found = at(values, worker(0.5), params={"organisation": "scale-up", "dispatchers": 1}, busy_polls_filled=[0.2])
    assert of(found, "host takes the core").kind is RuleOutcome.LIMITS
    assert "5 %" in of(found, "host takes the core").evidence[1]


@pytest.mark.parametrize(
    ("rates", "kind"),
    [
        ({"rx_pps": 1e7}, RuleOutcome.CLEAR),
        ({"rx_pps": 1e4}, RuleOutcome.LIMITS),
        ({"offered_pps": 1e7}, RuleOutcome.CLEAR),
        ({}, RuleOutcome.ABSENT),
    ],
)
def test_discards_of_a_port_are_held_against_what_came_to_it(rates: dict[str, float], kind: RuleOutcome) -> None:
    found = at({"imissed_share": 0.0, "nic_rx_port_discards_per_s": 1e3, **rates}, worker(0.3))
    assert of(found, "NIC port").kind is kind


# Windows of two clocks may differ by a twentieth.
@pytest.mark.parametrize(
    ("came", "evidence"), [(2e6, "80 % of the sent packets did not reach the DUT's port"), (9.5e6, "")]
)
def test_packets_lost_on_the_path_are_not_the_generators_limit(came: float, evidence: str) -> None:
    """The generator receives nothing, so that nobody knows of a loss but by what came to the DUT."""
    found = at({"offered_pps": 1e7, "imissed_share": 0.0, "rx_pps": came}, worker(0.3))
    assert ("generator" in limits(found)) == (not evidence)
    assert evidence in " ".join(of(found, "generator").evidence)


@pytest.mark.parametrize(
    ("params", "lifted"),
    [
        ({}, "in the testbed's file), or `feed: infinite`, which fills the rings without a wire"),
        ({"organisation": "corec"}, "in the testbed's file)"),
        ({"saturate": None, "load_of_max": 1.0}, "in the testbed's file)"),
        ({"generator": "agent", "organisation": "corec"}, "a generator core of more lcores (`generator: core`)"),
    ],
)
def test_a_saturated_generator_is_the_wire_of_the_virtual_nic(
    tmp_path: Path, params: Mapping[str, Any], lifted: str
) -> None:
    records = three(params, busy=0.3)
    for each in records:
        generator = each["result"]["gen"]["lcores"][0]
        generator["intended"], generator["unsent"] = 2 * generator["sent"], generator["sent"]
    [found] = explained(tmp_path / "run", records)
    evidence = of(found, "generator").evidence
    assert "the wire is the limit: 1 generator lcore writes all frames into the DUT's rings" in evidence
    assert evidence[-1].endswith(lifted)
    for each in records:
        each["params"]["generator_sleep"] = 200_000  # its sleep is the limit
    [asleep] = explained(tmp_path / "asleep", records)
    assert "wire" not in " ".join(of(asleep, "generator").evidence)


@pytest.mark.parametrize(("sent", "slower"), [(4e7, True), (2e7, False)])
def test_a_wire_that_more_receiving_cores_slow_down_is_said_to(sent: float, slower: bool) -> None:
    """Seen on 16 CPUs: 15.8 Mpps into one core, 12.7 into two."""
    alone = PointObservations("one", PARAMS, {"offered_pps": [sent]})
    values = {"imissed_share": 0.0, "offered_pps": 3e7, "rx_pps": 3e7}
    four = at(values, worker(0.3), params={"cores": 4}, wire_lcores=2, before=alone)
    evidence = " ".join(of(four, "generator").evidence)
    assert "2 generator lcores write all frames" in evidence
    assert ("with 1 DUT core it sent more (" in evidence) == slower


def test_a_real_nic_has_no_such_wire(tmp_path: Path) -> None:
    hello = {"ports": [{"name": RX, "driver": "mlx5_pci"}]}
    records = three({}, busy=0.3)
    [found] = explained(tmp_path / "run", records, node_hello=hello)
    assert limits(found) == ["generator"]
    assert "wire" not in " ".join(of(found, "generator").evidence)


@pytest.mark.parametrize(("away", "limit"), [(0.9, ["core cycles", "host takes the core"]), (0.1, ["core cycles"])])
def test_a_sending_core_is_limited_by_a_host_that_takes_most_of_its_time(away: float, limit: list[str]) -> None:
    """Seen on emulated machines of a busy host: 88 % away, and the host was said not to limit."""
    values = {"interrupted_share": away, "tx_pps": 1e5, "tx_dropped_share": 0.0, "rx_nombuf_share": 0.0}
    assert limits(at(values, worker(1.0), params={"workload": "tx"})) == limit


@pytest.mark.parametrize("queues", [1, 2])
def test_a_driver_need_not_count_packets_by_queue(tmp_path: Path, queues: int) -> None:
    """Those of real NICs give null (node-protocol.md); of several queues the fullest is then not known."""
    records = three({"queues": queues}, missed=0.3, busy=0.3)
    [counted] = explained(tmp_path / "counted", records)
    for each in records:
        each["result"]["ports"][RX]["rx_queue_packets"] = [None] * queues
    [found] = explained(tmp_path / "not", records)
    sweep, known = of(found, "sweep over the queues"), of(counted, "sweep over the queues")
    assert (sweep == known) == (queues == 1)


LOSING = {"imissed_share": 0.2, "offered_pps": 1e7, "rx_pps": 8e6, "interrupted_share": 0.0}


def test_the_busiest_core_decides_not_the_mean() -> None:
    cores = worker(0.2), worker(0.99, cpu=2), worker(0.2, cpu=3)
    found = at(LOSING, *cores, params={"cores": 3}, busy_polls_filled=[0.9])
    assert limits(found) == ["core cycles"]
    assert "CPU 2" in of(found, "core cycles").evidence[0]


@pytest.mark.parametrize(
    ("busy", "kind"), [(0.97, RuleOutcome.LIMITS), (0.91, RuleOutcome.ABSENT), (0.5, RuleOutcome.CLEAR)]
)
def test_a_core_whose_cycles_are_not_known_well_is_judged_by_both_ends(busy: float, kind: RuleOutcome) -> None:
    finding = of(at(LOSING, worker(busy, error=0.03), busy_polls_filled=[0.5]), "core cycles")
    assert finding.kind is kind
    if kind is RuleOutcome.ABSENT:
        assert finding.evidence == (f"cycles are known to +-3 % of the time only, which decides: {WOULD_TELL}",)


@pytest.mark.parametrize("lcores", [1, 2])
@pytest.mark.parametrize(("busy", "kind"), [(0.99, RuleOutcome.LIMITS), (0.92, RuleOutcome.ABSENT)])
def test_timed_intervals_that_miss_the_window_invalidate_only_dependent_findings(
    tmp_path: Path, lcores: int, busy: float, kind: RuleOutcome
) -> None:
    """A core that always has work is busy whatever a busy poll costs: 2.2 % were seen in runs of 200 ms."""
    records = three({}, missed=0.3, busy=0.6)
    for each in records:
        (lcore,) = each["result"]["dut"]["lcores"]
        # Empty polls become rarer, and their cycles go to the loop, except 3 % that no timed interval contains.
        empty = lcore["polls"]["empty"]
        kept = round(empty * (1 - busy - 0.03) / (0.7 * 0.4))
        lcore["polls"]["empty"] = max(0, kept)
        each["result"]["dut"]["lcores"] = [{**lcore, "cpu": 2 + core} for core in range(lcores)]
    [found] = explained(tmp_path / "run", records)
    assert of(found, "core cycles").kind is kind


@pytest.mark.parametrize(("idle", "kind"), [(0.04, RuleOutcome.LIMITS), (0.12, RuleOutcome.ABSENT)])
def test_a_core_with_unknown_tax_is_judged_by_bounds_of_its_empty_polls(
    tmp_path: Path, idle: float, kind: RuleOutcome
) -> None:
    records = three({}, missed=0.3, busy=0.6)
    for each in records:
        (lcore,) = each["result"]["dut"]["lcores"]
        lcore["polls"]["empty"] = round(lcore["polls"]["empty"] * idle / (0.7 * 0.4))
        lcore["empty_poll_cycles"] *= 0.4  # timed intervals give 2.5 times that; it is unknown which value is right
    run = synthetic.run_of(tmp_path / "run", records)
    table = derive_table(run)
    assert all(str(reason).endswith(WOULD_TELL) for reason in table["absent.tax_share"])
    assert of(explain_run(run, table)[0], "core cycles").kind is kind


def test_a_full_line_is_distinguished_from_a_slow_generator() -> None:
    values = {"rx_line_bps": 9.9e9, "tx_line_bps": 1e9, "imissed_share": 0.0, "offered_pps": 1.4e7}
    found = at(values, links=[("the RX line", "rx_line_bps", 1e10), ("TX", "tx_line_bps", 1e10)])
    assert "line" in limits(found)
    assert "99 %" in of(found, "line").evidence[0]


def test_packets_lost_outside_the_dut_do_not_count_as_received() -> None:
    values = {"imissed_share": 0.0, "offered_pps": 1e7, "rx_pps": 1e7, "loss_share": 0.2}
    load = {"saturate": None, "load_pps": 1e7}
    for params, stage in ((load, "offered load"), ({}, "generator")):
        found = at(values, worker(0.3), params=params)
        assert limits(found) == []
        assert of(found, stage).kind is RuleOutcome.OPEN
        assert "Loss, end to end 20 %, which no counter of the DUT shows" in of(found, stage).evidence[0]
    assert limits(at(values, worker(0.3), params={**load, "workload": "drop"})) == ["offered load"]
    assert "NIC port" in limits(at({**values, "nic_rx_port_discards_per_s": 2e6}, worker(0.3), params=load))


def test_a_modelled_point_is_marked(tmp_path: Path) -> None:
    records = [{**record(f"t{repeat}", {}, missed=0.3, busy=0.98), "modelled": True} for repeat in range(2)]
    run = synthetic.run_of(tmp_path / "run", records, testbed={"name": "model", "kind": "model"})
    [found] = explain_run(run, derive_table(run))
    assert found.summary == "modelled, limited by: core cycles"
    assert found.to_json()["modelled"] is True
    assert of(found, "DDIO capacity").evidence == ("a simulation has none",)


def test_an_empty_feed_is_no_load() -> None:
    assert limits(at({"rx_pps": 0.0}, params={"feed": "none"})) == ["offered load"]


def test_contradicting_trials_give_no_finding(tmp_path: Path) -> None:
    missed = (0.0, 0.3, 0.0, 0.3, 0.0)
    records = [record(f"t{repeat}", {}, missed=share, busy=0.3) for repeat, share in enumerate(missed)]
    [found] = explained(tmp_path / "run", records)
    assert limits(found) == []
    assert of(found, "RX ring").evidence[0] == (
        "the trials do not agree: by their means it limits, one by one it limits in 2 of 5"
    )
    assert found.summary.startswith("not known what limits it; it may be: ")


def test_a_limit_that_the_means_contradict_is_not_stated(tmp_path: Path) -> None:
    records = [record(f"t{repeat}", {}, missed=share, busy=0.3) for repeat, share in enumerate((0.0, 0.3, 0.0, 0.0))]
    [found] = explained(tmp_path / "run", records)
    assert limits(found) == []
    unsure = {stage: of(found, stage) for stage in ("generator", "RX ring")}
    assert {finding.kind for finding in unsure.values()} == {RuleOutcome.OPEN}
    assert unsure["generator"].evidence[0].endswith("by their means it does not limit, one by one it limits in 3 of 4")
    assert unsure["RX ring"].evidence[0].endswith("by their means it limits, one by one it limits in 1 of 4")
    assert not any("misses none" in text for finding in found.findings for text in finding.evidence)


def test_a_loss_is_not_explained_by_the_longest_of_sampled_gaps(tmp_path: Path) -> None:
    found = alone(tmp_path / "run", {}, missed=0.3, busy=0.3)
    evidence = " ".join(of(found, "RX ring").evidence)
    assert "Longest stretch 10 us" in evidence
    assert "maximum" not in evidence


def test_copying_of_the_virtual_nic_is_a_stage_of_its_own() -> None:
    values = {"offered_pps": 1e6, "rx_pps": 1e6, "imissed_share": 0.3, "cycles_per_packet_useful": 53.1}
    found = at({**values, "wire_share": 0.69}, worker(0.98))
    assert limits(found) == ["copying of the virtual NIC"]
    said = " ".join(of(found, "copying of the virtual NIC").evidence)
    assert "dma: swap" in said and "feed: infinite" in said
    assert of(found, "core cycles").kind is RuleOutcome.CLEAR
    assert limits(at({**values, "wire_share": 0.2}, worker(0.98))) == ["core cycles"]


def test_a_busy_core_that_loses_nothing_says_how_much_is_left() -> None:
    values = {"imissed_share": 0.0, "offered_pps": 1e6, "rx_pps": 1e6}
    for busy, left in ((0.95, "5 % of its time is left"), (0.4, "60 % of its time is left")):
        found = at(values, worker(busy), params={"saturate": None, "load_pps": 1e6})
        assert left in of(found, "core cycles").evidence[0]


def test_unmeasured_values_are_absent_with_their_reason(tmp_path: Path) -> None:
    found = alone(tmp_path / "run", {}, missed=0.3, busy=0.98)
    absent = {finding.stage: finding.evidence for finding in found.of(RuleOutcome.ABSENT)}
    assert set(absent) >= HOST_NETWORK
    assert {absent[stage] for stage in HOST_NETWORK} == {("the virtual NIC has none",)}
    assert "counts it (the spec may name pcm-memory" in absent["DRAM"][0]
    assert all(finding.evidence and finding.evidence[0] for finding in found.findings)


def test_without_cycles_few_empty_polls_show_a_busy_core() -> None:
    values, why = {"imissed_share": 0.2, "offered_pps": 1e7}, "accounting count has no cycles"
    assert limits(at({**values, "empty_poll_fraction": 0.01}, no_loads=why)) == ["core cycles"]
    many = at({**values, "empty_poll_fraction": 0.9}, no_loads=why)
    assert of(many, "core cycles").evidence == (why,)
    assert limits(many) == []


def test_the_papers_own_numbers_lead_to_its_four_findings() -> None:
    one, two = explain_paper("intrahost")
    tags, walks, iio, mtt = (
        of(two, stage) for stage in ("PCIe tags", "IOTLB walks", "IIO queueing", "NIC's MTT cache")
    )
    # 1: not the tags.
    assert (of(one, "PCIe tags").kind, tags.kind) == (RuleOutcome.CLEAR, RuleOutcome.CLEAR)
    assert "Outstanding reads (IOTLB) 97.4 reads, 38 % of 256 tags" in tags.evidence[0]
    assert tags.evidence[1] == "NIC reads without a completion buffer 0 clocks"
    # 2: latency grows by 52 %; with the rate that is 1.9 times the reads, an identity and no cause.
    assert iio.kind is RuleOutcome.OPEN
    assert "1.63 us -> 2.47 us, x1.52" in iio.evidence[0]
    assert iio.evidence[1] == "rate x1.25 and latency x1.52 imply x1.9 reads under way"
    # 3: the share of misses stays, their number rises.
    assert walks.kind is RuleOutcome.OPEN
    assert walks.evidence[1] == "no read meets more walks than before"
    assert "x1.26" in walks.evidence[2]
    # 4: MTT misses rise by 47 %.
    assert mtt.kind is RuleOutcome.OPEN
    assert "x1.47" in mtt.evidence[0]
    # Nothing in the table distinguishes these, so none is named as the limit.
    assert limits(one) == limits(two) == []
    assert of(two, "work requests").kind is RuleOutcome.OPEN


def host_network(label: str = "2", before: PointObservations | None = None, **values: float) -> PointObservations:
    known = {name: [value] for name, value in values.items()}
    return PointObservations(label, {"workload": "tx"}, known, before=before)


@pytest.mark.parametrize(
    ("clocks", "reads", "kind"),
    [(5.0, 40.0, RuleOutcome.LIMITS), (0.0, 250.0, RuleOutcome.LIMITS), (0.0, 160.0, RuleOutcome.OPEN)],
)
def test_tags_limit_where_reads_wait_for_a_completion_buffer(clocks: float, reads: float, kind: RuleOutcome) -> None:
    point = host_network(nic_pcie_no_completion_clocks=clocks, outstanding_reads_nic=reads)
    assert of(diagnose(point), "PCIe tags").kind is kind


def test_the_largest_measured_number_of_reads_is_held_against_the_tags() -> None:
    point = host_network(outstanding_reads_nic=40.0, outstanding_reads_iio=250.0)
    assert of(diagnose(point), "PCIe tags").kind is RuleOutcome.LIMITS
    assert "250" in of(diagnose(point), "PCIe tags").evidence[0]


def test_a_point_without_iommu_decides_about_walks() -> None:
    numbers = {"iotlb_miss_share": 0.3, "iotlb_misses_per_s": 1e7, "nic_pcie_latency_ns": 2000.0}
    for rate, kind in ((3e7, RuleOutcome.LIMITS), (2.02e7, RuleOutcome.CLEAR)):
        off = host_network("off", tx_pps=rate, nic_pcie_latency_ns=1500.0)
        strict = PointObservations(
            "strict", {}, {name: [value] for name, value in {**numbers, "tx_pps": 2e7}.items()}, without_iommu=off
        )
        found = of(diagnose(strict), "IOTLB walks")
        assert found.kind is kind
        assert found.evidence[1] == "PCIe latency 2 us -> 1.5 us"


# Farshin et al. (USENIX ATC 2020): a Xeon Gold 6140, 11 ways of 2.25 MB; descriptors and ways -> share of hits.
@pytest.mark.parametrize(
    ("frame", "descriptors", "ways", "hits", "kind"),
    [
        (1500, 128, None, 0.979, RuleOutcome.CLEAR),
        (1500, 4096, None, 0.393, RuleOutcome.OPEN),
        (1024, 4096, "2 ways", 0.634, RuleOutcome.OPEN),
        (1024, 4096, "0x7e0", 0.999, RuleOutcome.CLEAR),
        (1024, 4096, 0x7C0, 0.996, RuleOutcome.CLEAR),
    ],
)
def test_ddio_hits_are_shown_beside_the_expectation_from_rings_and_ways(
    frame: int, descriptors: int, ways: str | int | None, hits: float, kind: RuleOutcome
) -> None:
    params = {"frame": frame, "rx_desc": descriptors, "queues": 1, "knob.ddio_ways": ways}
    received = {"rx_pps": [1e6], "rx_bps": [8e6 * frame], "dma_write_llc_hit_share": [hits]}
    counted = {**received, "dram_write_bytes_per_packet": [(1 - hits) * frame]}
    cache: dict[str, Any] = {"llc_bytes": 11 * 2.25 * 2**20, "llc_ways": 11}
    found = of(diagnose(PointObservations("p", params, counted, **cache)), "DDIO capacity")
    low, high = re.findall(r"by the model ([\d.]+) % to ([\d.]+) % of writes hit", found.evidence[1])[0]
    assert float(low) - 2.5 <= 100 * hits <= float(high)
    assert found.kind is kind
    assert ("assumed" in found.evidence[1]) == (ways is None)
    blind = of(diagnose(PointObservations("p", params, **cache)), "DDIO capacity")
    assert blind.kind is RuleOutcome.ABSENT, "a model alone tells nothing"
    assert found.evidence[1] in blind.evidence[0]
    tenth = of(diagnose(PointObservations("p", params, llc_bytes=cache["llc_bytes"])), "DDIO capacity")
    assert "a tenth of the LLC" in tenth.evidence[0]


def test_a_link_may_limit_where_the_packets_of_the_model_fill_it() -> None:
    link = PcieLink(3, 8)
    params = {"frame": 64, "workload": "io"}
    for share, kind in ((0.9, RuleOutcome.OPEN), (0.3, RuleOutcome.CLEAR)):
        rate = share * forwarded_pps(link, 64)
        point = PointObservations("p", params, {"rx_pps": [rate], "tx_pps": [rate]}, nic_link=link)
        found = of(diagnose(point), "PCIe link")
        assert found.kind is kind
        assert found.evidence[0].startswith(f"by the model packets with their descriptors take {100 * share:.0f} % of")
    mixed = PointObservations("p", {"frame": "imix"}, {"rx_pps": [1e6]}, nic_link=link)
    assert of(diagnose(mixed), "PCIe link").evidence == ("the models know frames of one size only",)


@pytest.mark.parametrize(
    ("stalled", "kind"), [(0.3, RuleOutcome.LIMITS), (0.03, RuleOutcome.OPEN), (0.0, RuleOutcome.CLEAR)]
)
def test_credits_limit_where_the_nic_waits_for_them(stalled: float, kind: RuleOutcome) -> None:
    point = host_network(nic_pcie_write_stalled_share=stalled, outstanding_writes_cha=90.0, cha_write_latency_ns=400.0)
    found = of(diagnose(point), "PCIe credits")
    assert found.kind is kind
    assert "Outstanding writes (CHA) 90 writes" in found.evidence


def test_walks_are_as_long_as_counted_and_the_iotlb_reaches_as_far_as_its_entries() -> None:
    known = {"iotlb_miss_share": [0.3], "iotlb_misses_per_s": [1e7], "page_walks_under_way": [4.0]}
    params = {"workload": "tx", "cores": 2, "tx_desc": 1024, "page_size": "4 KiB"}
    found = of(diagnose(PointObservations("p", params, known)), "IOTLB walks")
    assert "a walk of 400 ns has 4 of them under way at once, as counted" in found.evidence
    assert found.evidence[-1] == (
        "by the model 64 entries of 4 KiB reach 256 KiB; buffers of the rings take 4.25 MiB, so 94.1 % of look-ups miss"
    )
    assert found.kind is RuleOutcome.OPEN


def test_collectors_of_a_run_show_link_tags_and_work_requests(tmp_path: Path) -> None:
    """The configuration space of a NIC, a firmware query and counters, as their parsers leave them in a trial."""
    done = {"status": "ok", "reason": "", "cpu_share": 0.0}
    link = {"link_speed": 8e9, "link_width": 8, "max_payload": 256, "max_read_request": 512, "tags": 256}
    kept = {
        "pcie": {**done, "means": {}, "states": {"device:0000:4b:00.0": link}},
        "mlxconfig": {**done, "means": {}, "states": {"device:4b:00.0": {"LOG_MAX_OUTSTANDING_WQE": 7}}},
        "pcm-iio": {**done, "means": {"iotlb.lookups": {"value": 39.45e6, "unit": "1/s", "units": 1}}},
        "neohost": {**done, "means": {"pcie_latency_mean": {"value": 2468e-9, "unit": "s", "units": 1}}},
    }
    records = [record("t0", {"frame": 64}, busy=0.3) | {"collectors": kept}]
    text = json.dumps(records).replace(RX, "0000:4b:00.0").replace(TX, "0000:4b:00.1").replace("net_crossover", "mlx5")
    ports = [{"name": "0000:4b:00.0", "driver": "mlx5_pci", "link_bps": None}]
    run = synthetic.run_of(tmp_path / "run", json.loads(text), node_hello={"ports": ports})
    [found] = explain_run(run, derive_table(run))
    assert of(found, "PCIe link").evidence[0].endswith("read requests 512 B)")
    assert "97.4 reads, 38 % of 256 tags" in of(found, "PCIe tags").evidence[0]
    assert "76.1 % of 128 work requests" in of(found, "work requests").evidence[0]


def test_latency_that_stays_is_no_queueing() -> None:
    before = host_network("1", nic_pcie_latency_ns=1000.0, tx_pps=1e7, nic_mtt_l0_miss_share=0.05)
    now = host_network("2", before, nic_pcie_latency_ns=1020.0, tx_pps=2e7, nic_mtt_l0_miss_share=0.05)
    assert of(diagnose(now), "IIO queueing").kind is RuleOutcome.CLEAR
    assert of(diagnose(now), "NIC's MTT cache").kind is RuleOutcome.CLEAR


def test_every_rule_names_its_source_and_what_refutes_it() -> None:
    assert len({rule.stage for rule in RULES}) == len(RULES)
    assert all(rule.source and rule.refuted_by for rule in RULES)


RECORDED = {
    # Nothing is named where the trials do not agree, because the host disturbed them.
    ("s-f5-polling-tax", "queues 1, lookups 1, load 0 %"): ["offered load"],
    ("s-f5-polling-tax", "queues 1, lookups 1, load 50 %"): ["host takes the core"],
    ("s-f5-polling-tax", "queues 1, lookups 1, load 100 %"): [],
    ("s-f5-polling-tax", "queues 8, lookups 1, load 0 %"): ["offered load"],
    ("s-f5-polling-tax", "queues 8, lookups 1, load 50 %"): [],
    ("s-f5-polling-tax", "queues 8, lookups 1, load 100 %"): [],
    ("s-f10a-single-flow", "queues 1, shape SQ, feed infinite"): ["core cycles"],
    ("s-f10a-single-flow", "queues 1, shape SQ, feed wire"): ["core cycles"],
    ("s-f10a-single-flow", "queues 64, shape SQ, feed infinite"): ["sweep over the queues"],
    ("s-f10a-single-flow", "queues 64, shape SQ, feed wire"): [],
    ("s-f10a-single-flow", "queues 512, shape FB, feed infinite"): ["core cycles"],
    ("s-f10a-single-flow", "queues 512, shape FB, feed wire"): [],
    ("s-f10a-single-flow", "queues 512, shape SQ, feed infinite"): ["sweep over the queues"],
    ("s-f10a-single-flow", "queues 512, shape SQ, feed wire"): ["sweep over the queues"],
    **{("s-f8-poll-rate", f"queues {queues}, rx_desc 512"): ["offered load"] for queues in (1, 8, 64, 512)},
}


def test_recorded_runs_are_explained() -> None:
    found: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys(folder for folder, _ in RECORDED):
        run = read_run(CHECKOUT / "data" / "runs" / name)
        found |= {(name, each.label): limits(each) for each in explain_run(run, derive_table(run))}
    assert found == RECORDED


def test_the_command_shows_evidence_and_reasons(tmp_path: Path) -> None:
    shutil.copytree(CHECKOUT / "data" / "runs" / "s-f10a-single-flow", tmp_path / "run")
    done = pollscope("explain", "run", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    [at] = [i for i, line in enumerate(lines) if line.startswith("queues 512, shape SQ, feed infinite")]
    assert lines[at].endswith("limited by: sweep over the queues")
    assert "the fullest queue gives 100 % of what its polls can take (32 each)" in lines[at + 1]
    assert any(line.strip().startswith("refuted if ") for line in lines)
    assert lines[lines.index("absent at every point:") + 1].endswith("absent, because the virtual NIC has none")
    full = pollscope("explain", "run", "--all", cwd=tmp_path).stdout
    assert "does not limit: no queue is shared" in full
    assert "no queue is shared" not in done.stdout


def test_a_point_without_traffic_names_its_poll_rate_and_a_host_that_takes_the_core(tmp_path: Path) -> None:
    trials = synthetic.repeated({"queues": 4}, pps=0.0, useful_share=0.0)
    waits = {"name": "noise:waiting", "text": "lcore 1 waited for its CPU"}
    flagged = [{**trial, "status": "flagged", "flags": [waits]} for trial in trials]
    synthetic.write_run(tmp_path / "quiet", trials)
    synthetic.write_run(tmp_path / "run", flagged)
    shown = pollscope("explain", "run", cwd=tmp_path).stdout
    assert shown.count("nothing is sent") == 1 and "limited by: offered load" not in shown
    assert f"({len(trials)} trials, {len(trials)} flagged): Poll rate while running " in shown
    assert f"may limit: {len(trials)} of {len(trials)} trials are flagged for it" in shown
    assert "host takes the core" not in pollscope("explain", "quiet", cwd=tmp_path).stdout


def test_json_has_every_finding(tmp_path: Path) -> None:
    done = pollscope("explain", str(CHECKOUT / "data" / "runs" / "s-f8-poll-rate"), "--json", cwd=tmp_path)
    [run] = json.loads(done.stdout)
    assert [point["limited_by"] for point in run["points"]] == [["offered load"]] * 4
    stages = [finding["stage"] for finding in run["points"][0]["findings"]]
    assert stages == [rule.stage for rule in RULES]
    assert {finding["kind"] for finding in run["points"][0]["findings"]} == {"limits", "not", "absent"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "no run is given (name run folders, or --paper"),
        (["nowhere"], "nowhere"),
        (
            ["--paper", "hyperplane"],
            "the paper has no table of counters to explain (name a run, or --paper intrahost)",
        ),
        (["--paper", "nobody"], "there is no paper 'nobody'"),
    ],
)
def test_bad_usage_is_one_line(tmp_path: Path, arguments: list[str], error: str) -> None:
    done = pollscope("explain", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert error in done.stderr


def test_a_run_without_a_measured_point_has_nothing_to_explain(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path / "run", [{**synthetic.trial(), "status": "failed", "reason": "hung"}])
    done = pollscope("explain", "run", cwd=tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0,
        "  no point was measured, so there is nothing to explain",
    )


def test_a_record_that_contradicts_the_protocol_is_refused(tmp_path: Path) -> None:
    broken = record("t0", {})
    broken["result"]["dut"]["lcores"][0]["cpu"] = "one"
    synthetic.write_run(tmp_path / "run", [broken])
    done = pollscope("explain", "run", cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "result.dut.lcores[0].cpu: is 'one', not a number" in done.stderr
