# SPDX-License-Identifier: BSD-3-Clause
"""Check the words of the figures of rows, and the papers' values in them, on runs whose numbers are known."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import synthetic_run as synthetic
from synthetic_run import crossed, repeated
from test_figures import drawn, run_of, tax_trials, text_of

from pollscope.analysis.figures import inline_svg
from pollscope.analysis.figures.data import figure_data
from pollscope.analysis.figures.finish import finish
from pollscope.analysis.figures.pooled import pooled_latencies
from pollscope.analysis.figures.style import look
from pollscope.analysis.saturation import saturated_generator_points
from pollscope.store.results_table import current_table

PORT = "net_crossover0_b"
Trials = list[dict[str, Any]]
SATURATE = {"spec": {"name": "synthetic", "parameters": {"saturate": True}}}


def at_each(points: list[dict[str, Any]], repeats: int = 3, **more: Any) -> Trials:
    return [trial for levels in points for trial in repeated(levels, repeats, **({"spread": 1e-6} | more))]


def missing(trials: Trials, missed: int) -> Trials:
    for record in trials:
        record["result"]["ports"][PORT]["stats"]["imissed"] = missed
    return trials


def shaped(*shapes: str, missed: int = 0, **more: Any) -> Trials:
    levels = {"queues": (1, 64, 512), "shape": shapes} | {name: [level] for name, level in more.items()}
    return missing(at_each(crossed(levels)), missed)


def with_latencies(trials: Trials, latencies_ns: Callable[[Mapping[str, Any]], range]) -> Trials:
    for record in trials:
        found = synthetic.histogram(latencies_ns(record["factors"]), "ns")
        record["result"]["gen"]["lcores"][0]["latency_ns"]["from_sent"] = found
    return trials


def latency_trials() -> Trials:
    """Return latencies from 1 us to 1 us + queues x 1 us."""
    trials = at_each(crossed({"queues": (10, 100)}), 2, queues=1)
    return with_latencies(trials, lambda levels: range(1000, 1000 + 1000 * levels["queues"], 1000))


def interrupted(trials: Trials) -> Trials:
    for record in trials:
        record["result"]["dut"]["lcores"][0]["interruptions"]["cycles"] = synthetic.WINDOW_CYCLES // 20
    return trials


def shared_trials() -> Trials:
    """Return trials of four cores with one queue each, and of four at one queue, whose packets take half as long."""
    points = [
        {"queues": queues, "cores": 4, "organisation": organisation, "load_of_max": load}
        for organisation, queues in (("scale-out", 4), ("corec", 1))
        for load in (0.81, 0.95)
    ]
    return with_latencies(at_each(points), lambda at: range(500 * (1 + at["queues"]), 1000 * (1 + at["queues"]), 50))


def one_queue() -> Trials:
    """Return packets in proportion to the cores that take them from one queue, beside a core of the standard path."""
    points = (("scale-out", 1), ("corec", 1), ("corec", 2))
    return [
        trial
        for organisation, cores in points
        for trial in repeated({"cores": cores, "organisation": organisation}, pps=cores * 1e6, spread=1e-6)
    ]


def traces() -> Trials:
    trials = at_each(crossed({"cores": (1, 2), "trace": ["traces/made-1.pcap"]}))
    for record in trials:
        late = [3, 5] if record["factors"]["cores"] == 2 else []
        record["result"]["gen"]["lcores"][0]["sequence"] = synthetic.sequence(late)
    return trials


def sized(*workloads: str) -> Trials:
    """Return trials of a core that only sends or only receives; a tenth of the small packets is missed."""
    trials = at_each(crossed({"workload": workloads, "frame": (64, 1518)}), 2)
    return missing([each for each in trials if each["factors"]["frame"] == 64], 10**5) + [
        each for each in trials if each["factors"]["frame"] != 64
    ]


def counting(trials: Trials, **counts: int) -> Trials:
    for record in trials:
        window = {"window": {"instructions": 2_000_000, "cycles": 1_000_000, **counts}, "multiplexed_share": 0.0}
        record["result"]["dut"]["lcores"][0]["pmu"] = window
    return trials


def varied(trials: Trials, **levels: Any) -> Trials:
    """Return the trials at further levels."""
    ending = ",".join(f"{name}={level}" for name, level in levels.items())
    return [
        {**each, "trial": f"{each['trial']}:{ending}", "point": f"{each['point']},{ending}"}
        | {"factors": each["factors"] | levels}
        for each in trials
    ]


def fed() -> Trials:
    return varied(shaped("SQ", missed=10**6), feed="wire") + varied(shaped("SQ"), feed="infinite")


def rivals() -> Trials:
    names = ("organisation", "rx_buffers", "shape", "flows")
    points = [
        ("scale-out", "posted", "FB", 1024),
        ("rebalanced", "posted", "SQ", 1024),
        ("scale-out", "split", "SQ", 1),
        ("corec", "posted", "SQ", 1),
    ]
    trials = at_each([dict(zip(names, point, strict=True)) for point in points])
    for record in trials:
        record["result"]["ports"][record["config"]["dut"]["rx_port"]]["posted_bytes"] = 2**20
    return trials


def beside(levels: Mapping[str, Any], done: float, hz: float | None = None) -> Trials:
    """Return the trials of a point with a co-runner that did this much work in the window."""
    trials, absent = repeated(levels), {"absent": "no such counter"}
    for repeat, record in enumerate(trials):
        worker = {"name": "corunner", "cpu": 0, "work": "matmul", "unit": "iterations", "done": done + repeat}
        worker |= {"longest_step_ns": 1.0, "waited_ns": 0.0, "pmu": absent}
        worker |= {"frequency_hz": absent if hz is None else hz + repeat}
        record["corunner"] = {"result": {"window": record["result"]["window"], "workers": [worker]}}
    return trials


def multiplications() -> Trials:
    return [
        trial
        for feed in ("none", "infinite")
        for core, done in {"idle": 1000.0, "dut": 800.0, "stress-ng": 900.0}.items()
        for trial in beside({"corunner_place": "other-core", "feed": feed, "dut_core": core}, done)
    ]


def frequencies(name: str, hz: Mapping[Any, float]) -> Trials:
    """Return the frequency of a co-runner by spinning cores, or by the work and the number of the DUT's cores."""
    return [
        trial
        for at, value in hz.items()
        for trial in beside({name: at} if name else {"cores": at[1], "dut_core": at[0]}, 1000.0, value)
    ]


def routers(feeds: Mapping[str, float]) -> Trials:
    """Return a router that a multiplication slows down to these shares, by feed; "": the run has no such factor."""
    return [
        trial
        for feed, share in feeds.items()
        for corunner, pps in (("none", 1e6), ("matmul", share * 1e6))
        for trial in repeated(
            ({"feed": feed} if feed else {}) | {"corunner": corunner, "corunner_place": "smt-sibling"},
            pps=pps,
            spread=0.001,
        )
    ]


def without_a_tax() -> Trials:
    """Return trials at whose full load only busy polls timed one by one are known."""
    trials = tax_trials()
    for record in (each for each in trials if each["factors"]["load_of_max"] == 1.0):
        lcore = record["result"]["dut"]["lcores"][0]
        lcore["empty_poll_cycles"] = {"absent": "packets came while it was calibrated"}
        lcore["timed_intervals"]["quiet"] = [[0] * len(block) for block in lcore["timed_intervals"]["quiet"]]
    return trials


class Shown(NamedTuple):
    """Words that a row's figure of these trials has and has not, divided by bars; some of them so many times."""

    row: str
    trials: Callable[[], Trials]
    there: str
    absent: str = ""
    times: Mapping[str, int] = {}
    meta: Mapping[str, Any] = {}


SWEPT: dict[str, dict[str, list[Any]]] = {
    "S-F13": {"cores": [1, 2, 4, 8], "frame": [64, 256]},
    "S-F16": {
        "cores": [1, 2, 4, 8],
        "organisation": ["scale-out", "scale-up"],
        "ring_sync": ["default", "rts"],
        "feed": ["wire", "infinite"],
    },
    "S-F17a": {"cores": [2, 10], "organisation": ["scale-out", "scale-up"], "burst": [1, 32], "load_pps": [1e6, 2e7]},
    "S-F17b": {"cores": [2, 10], "organisation": ["scale-out", "scale-up"], "load_pps": [1e6, 2e7]},
    "S-F18": {"cores": [2, 10], "organisation": ["scale-out", "scale-up"], "placement": ["separate", "smt-pairs"]},
    "H-F3a": {"queues": [1, 500, 1000], "shape": ["FB", "PC", "NC", "SQ"]},
}


def swept(row: str) -> Trials:
    return at_each(crossed(SWEPT[row]), spread=0.01)


ALWAYS = [
    # Nothing is stated for the median.
    Shown(
        "S-F9",
        lambda: shaped("SQ", "FB"),
        "traffic in all queues | all traffic in one queue | Latency from departure, median | "
        "SoCC'19: more than 6 times at 512 queues",
        times={"SoCC'19": 1},
    ),
    Shown(
        "C-T2",
        one_queue,
        "Forwarded (Mpps) | standard path, one core | corec | "
        "16.43 Mpps with DPDK, 17.68, 26.4, 35.35 and 37.66 Mpps with",
    ),
    Shown(
        "C-F5",
        shared_trials,
        "4 cores | Mean latency (µs) | one queue per core | one queue for all cores (corec) | flat up to 37 Mpps",
    ),
    Shown(
        "S-F10a",
        lambda: shaped("SQ", "FB", missed=10**6),
        f"SoCC'19: 1.6 Mpps at 512 queues | {synthetic.NO_PMU}",
        "limit of the generator",
    ),
    Shown("H-F3b", latency_trials, "99th percentile"),
    Shown("H-F3c", latency_trials, "100 queues"),
    Shown(
        "S-F10b",
        lambda: shaped("FB", missed=10**6),
        f"SoCC'19: above 10 Mpps from 64 to 512 queues | {synthetic.NO_PMU}",
        "limit of the generator",
    ),
    Shown("H-F3a", lambda: swept("H-F3a"), "SQ (one queue) | Relative to the fewest queues"),
    Shown(
        "S-F7a",
        multiplications,
        "on another core | SoCC'19, on the SMT sibling | full queues | Absent, so not drawn: IPC, because",
        times={"0.80": 2, "0.90": 1},
    ),
    Shown("S-F7b", lambda: routers({"infinite": 0.58, "wire": 0.75}), "0.58 | 0.75 | full rings | generator"),
    Shown("S-F13", lambda: swept("S-F13"), "in proportion to one core | SoCC'19: plateau from 3 to 7 cores | 256 B"),
    Shown(
        "S-F18",
        lambda: swept("S-F18"),
        "Forwarded by 10 logical cores (Mpps) | SoCC'19: SMT pairs +45 % with scale-up | SMT pairs",
    ),
    Shown("S-F6", tax_trials, f"absent, because {synthetic.NO_PMU}"),
    # In the caption, and as a watermark that is not lost with it.
    Shown("S-F5", lambda: [each | {"modelled": True} for each in tax_trials()], "", times={"MODELLED": 2}),
]
THOROUGH = [
    Shown(
        "C-T3",
        lambda: [each | {"params": {"workload": "ipsec"}} for each in one_queue()],
        "Processed (Mpps) | standard path, one core | corec | 5.04 Mpps with DPDK, 5.07, 8.18, 10.9 and 15.3 Mpps with",
    ),
    Shown(
        "S-F10b",
        lambda: counting(shaped("FB"), llc_loads=10**6, llc_misses=10**5),
        "load misses",
        "absent",
    ),
    Shown("S-F17b", lambda: swept("S-F17b"), "99th percentile, 10 cores | scale-out (one queue per core)"),
    Shown("S-F12", lambda: sized("tx"), "Absent, so not drawn: Dropped at the RX port, because"),
    Shown(
        "S-F9",
        lambda: [each for each in shaped("SQ") if each["factors"]["queues"] > 1],
        "the run has no point with queues 1",
    ),
    Shown(
        "C-F6",
        shared_trials,
        "4 cores | load 95 % | one queue per core | one queue for all cores (corec) | "
        "35 Mpps on 4 cores and 30 Mpps on 8 cores",
    ),
    Shown(
        "C-T4",
        traces,
        "Reordered | Displaced | Largest distance | made-1 | 0.29 to 1.00 % and 8 to 45 packets",
    ),
    Shown(
        "S-F12",
        lambda: sized("tx", "rx"),
        "a core that only sends | a core that only receives | SoCC'19: below 100 | Dropped at the RX",
        "absent",
    ),
    # Only the wire has a generator.
    Shown(
        "S-F10a",
        fed,
        "packets of a generator | rings kept full by the virtual NIC",
        "limit of the generator",
        meta=SATURATE,
    ),
    # Latency does not leave interruptions out.
    Shown("H-F3b", lambda: interrupted(latency_trials()), "is part of these numbers", "is left out"),
    Shown(
        "C-RIVALS",
        rivals,
        "balanced | one flow | RSS++ | rxBisect | one queue, corec | Posted buffers (MiB) | a single core has no other",
        "lock that is waited for",
    ),
    Shown("S-F7b", lambda: routers({"": 0.58}), "Throughput | 0.58 | on the SMT sibling | with matmul"),
    Shown(
        "S-T4.2",
        lambda: frequencies("spinning_cores", {0: 3.0e9, 8: 2.7e9}),
        "3.45 | 3.25 | 0.942 | 2.95 | 3.00, 1.000 | 2.70, 0.900 | left out",
    ),
    # Polled queues are compared with the same cores left idle.
    Shown(
        "S-T4.2",
        lambda: frequencies("", {("idle", 1): 3.0e9, ("idle", 8): 2.9e9, ("dut", 1): 2.95e9, ("dut", 8): 2.61e9}),
        "3.00, 1.000 | 2.95, 0.983 | 2.61, 0.900 | left out",
    ),
    Shown("S-T4.2", lambda: beside({"spinning_cores": 0}, 1000.0), "Frequency absent, because | no such counter"),
    # Heavier work has a panel of its own and no bar.
    Shown(
        "S-F5",
        lambda: varied(tax_trials(), lookups=1) + varied(tax_trials([1.0]), lookups=16),
        "Full load, by work | Look-ups of a packet",
    ),
    Shown("S-F5", tax_trials, "Empty polls", "Full load, by work"),
    Shown("S-F5", without_a_tax, "Useful cycles"),
    Shown("S-F6", lambda: counting(tax_trials()), "1 queue | SoCC'19: average, 2 to 2.6"),
    Shown(
        "S-F16",
        lambda: swept("S-F16"),
        "scale-up (one shared queue) | scale-up, ring rts | SoCC'19: scale-up peaks at 4 cores | rings kept full",
    ),
    Shown(
        "S-F17a",
        lambda: swept("S-F17a"),
        "Mean, 10 cores, bursts of up to 1 | 99th percentile, 10 cores, bursts of up to 32 | "
        "SoCC'19: scale-up higher above 15 Mpps",
    ),
]


@pytest.mark.parametrize(
    "shown",
    [*ALWAYS, *(pytest.param(each, marks=pytest.mark.thorough) for each in THOROUGH)],
    ids=lambda each: each.row,
)
def test_a_figure_has_these_words(shown: Shown, tmp_path: Path) -> None:
    text = text_of(tmp_path, shown.row, shown.trials(), **shown.meta)
    assert [word for word in shown.there.split(" | ") if word not in text] == []
    assert [word for word in filter(None, shown.absent.split(" | ")) if word in text] == []
    assert {word: text.count(word) for word in shown.times} == shown.times


@pytest.mark.one_in(4)
@pytest.mark.parametrize("row", SWEPT)
def test_one_point_with_one_trial_is_drawn(row: str, tmp_path: Path) -> None:
    point = {name: levels[0] for name, levels in SWEPT[row].items()}
    assert "Mpps" in text_of(tmp_path, row, repeated(point, 1))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("row", SWEPT)
def test_a_testbed_that_could_host_nothing_is_said_once(row: str, tmp_path: Path) -> None:
    left_out = [{"point": "cores=10", "reason": "needs 21 CPUs; this host has 2", "factors": {"cores": 10}}]
    text = text_of(tmp_path, row, [], left_out=left_out)
    assert "could host none of its points" in text
    assert text.count("needs 21 CPUs") == 2  # in the figure once, and in its caption


@pytest.mark.one_in(2)
@pytest.mark.parametrize("row", ["S-F13", "S-F16", "H-F3a", "S-F10a"])
def test_a_point_at_which_the_dut_kept_up_has_a_ring(row: str, tmp_path: Path) -> None:
    """Else a generator at its limit looks like cores that gain nothing."""
    levels = SWEPT.get(row, {"queues": [1, 8], "shape": ["SQ"]})
    trials = at_each(crossed({name: found[:2] for name, found in levels.items()} | {"feed": ["wire"]}), 1)
    for saturate in (True, False):
        text = text_of(tmp_path / str(saturate), row, trials, spec={"parameters": {"saturate": saturate}})
        assert ("ring: limit of the generator, not of the DUT" in text) == saturate


def test_without_a_generator_none_is_the_limit(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", "S-F10a", fed(), **SATURATE)
    assert saturated_generator_points(run, current_table(run)) == {}


def test_a_distribution_is_described_in_words(tmp_path: Path) -> None:
    """Of 100 queues the slowest packet took 100 us, of 10 queues the fastest one 1 us (latency_trials)."""
    described = inline_svg(drawn("H-F3c"), run_of(tmp_path / "run", "H-F3c", latency_trials())).words
    assert described.startswith("Latency from departure: ")
    assert "from 1 us" in described.replace("µ", "u")
    assert "to 100 us" in described.replace("µ", "u")


@pytest.mark.thorough
def test_values_of_a_table_lie_within_the_axis_if_one_core_was_measured(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", "C-T2", repeated({"cores": 1, "organisation": "corec"}, spread=1e-6))
    with look():
        axes = drawn("C-T2").draw(figure_data("C-T2", run)).axes[0]
    least, most = axes.get_xlim()
    assert least < 1 and most > 4 and list(axes.get_xticks()) == [4, 3, 2, 1]


@pytest.mark.thorough
def test_distributions_of_organisations_are_not_mixed(tmp_path: Path) -> None:
    data = figure_data("C-F6", run_of(tmp_path / "run", "C-F6", shared_trials()))
    found = pooled_latencies(data, ("organisation", "load_of_max"))
    assert list(found) == [("corec", 0.81), ("corec", 0.95), ("scale-out", 0.81), ("scale-out", 0.95)]
    assert found["corec", 0.95].percentile(99.9) <= 2000 < found["scale-out", 0.95].smallest


def test_a_distribution_holds_every_packet_of_its_trials(tmp_path: Path) -> None:
    trials = latency_trials()
    trials.append(trials[0] | {"trial": "broken", "status": "failed", "reason": "hung"})
    found = pooled_latencies(figure_data("H-F3c", run_of(tmp_path / "run", "H-F3c", trials)), ["queues"])
    assert {at: histogram.samples for at, histogram in found.items()} == {(10,): 20, (100,): 200}
    curve = found[10,].cumulative()
    assert curve[0][0] == pytest.approx(1000, rel=0.001) and curve[0][1] == 0.1
    assert curve[-1] == (found[10,].largest, 1.0)
    assert [share for _, share in curve] == sorted(share for _, share in curve)


def test_a_tiny_tax_is_drawn_tiny(tmp_path: Path) -> None:
    points = crossed({"queues": [1], "lookups": (1, 4), "load_of_max": [1.0]})
    figure, run = drawn("S-F5"), run_of(tmp_path / "run", "S-F5", at_each(points, useful_share=0.98))
    with look():
        shown = figure.draw(figure.data(run))
        finish(shown)
    (work,) = (axes for axes in shown.axes if axes.get_title(loc="left") == "Full load, by work")
    assert work.get_ylim()[1] >= 5


@pytest.mark.thorough
def test_a_load_whose_tax_is_absent_has_no_bar_and_no_marks(tmp_path: Path) -> None:
    """Busy polls timed one by one are known nevertheless, but testpmd's definition has no bar to mark."""
    data = figure_data("S-F5", run_of(tmp_path / "run", "S-F5", without_a_tax()))
    names = ("tax_share", "tax_share_testpmd")
    known = [{sample.levels["load_of_max"] for sample in data.by_point(name)} for name in names]
    assert [1.0 in loads for loads in known] == [False, True]


def test_intervals_of_shapes_at_one_number_of_queues_stand_beside_each_other(tmp_path: Path) -> None:
    figure = drawn("H-F3a")
    absolute = figure.draw(figure.data(run_of(tmp_path / "run", "H-F3a", swept("H-F3a")))).axes[0]
    whiskers = [np.asarray(line.get_xdata())[0] for line in absolute.lines if len(np.asarray(line.get_xdata())) == 2]
    assert len(whiskers) == len(set(whiskers)) == 12
