# SPDX-License-Identifier: BSD-3-Clause
"""The figures of S-F9, S-F10a, S-F10b, H-F3b and H-F3c on runs whose numbers are known."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic
from test_figures import run_of, svg_of, words

from pollscope.analysis.figures import figure_of, inline_svg
from pollscope.analysis.figures.data import figure_data
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.finish import finish
from pollscope.analysis.figures.pooled import pooled_latencies
from pollscope.analysis.figures.style import look
from pollscope.analysis.saturation import saturated_generator_points
from pollscope.store.results_table import current_table

QUEUES = (1, 64, 512)


def shaped_trials(row_shapes: tuple[str, ...], missed: int = 0) -> list[dict[str, Any]]:
    trials = []
    for shape in row_shapes:
        for queues in QUEUES:
            for repeat in range(3):
                point = f"queues={queues},shape={shape}"
                levels = {"queues": queues, "shape": shape}
                record = synthetic.trial(f"{point}:{repeat}", point, repeat, levels, pps=1e6 + repeat, queues=queues)
                record["result"]["ports"]["net_crossover0_b"]["stats"]["imissed"] = missed
                trials.append(record)
    return trials


def latency_trials(spread_ns: int = 1000) -> list[dict[str, Any]]:
    """Return latencies from 1 us to 1 us + queues x spread."""
    trials = []
    for queues in (10, 100):
        for repeat in range(2):
            record = synthetic.trial(f"{queues}:{repeat}", f"queues={queues}", repeat, {"queues": queues})
            latencies = synthetic.histogram(range(1000, 1000 + queues * spread_ns, spread_ns), "ns")
            record["result"]["gen"]["lcores"][0]["latency_ns"]["from_sent"] = latencies
            trials.append(record)
    return trials


def test_latency_is_drawn_for_both_shapes_with_the_papers_values(tmp_path: Path) -> None:
    text = words(svg_of(run_of(tmp_path / "run", "S-F9", shaped_trials(("SQ", "FB"))), "S-F9", tmp_path / "out"))
    for word in (
        "traffic in all queues",
        "all traffic in one queue",
        "Latency from departure, median",
        "SoCC'19: more than 6 times at 512 queues",
    ):
        assert word in text
    assert text.count("SoCC'19") == 1, "nothing is stated for the median"


def test_a_distribution_is_described_in_words(tmp_path: Path) -> None:
    """Of 100 queues the slowest packet took 100 us, of 10 queues the fastest one 1 us (latency_trials)."""
    figure = figure_of("H-F3c")
    assert isinstance(figure, PaperFigure)
    description = inline_svg(figure, run_of(tmp_path / "run", "H-F3c", latency_trials())).words
    assert description.startswith("Latency from departure: ")
    assert "from 1 us" in description.replace("µ", "u")
    assert "to 100 us" in description.replace("µ", "u")


@pytest.mark.thorough
def test_without_one_queue_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    trials = [record for record in shaped_trials(("SQ",)) if record["factors"]["queues"] > 1]
    text = words(svg_of(run_of(tmp_path / "run", "S-F9", trials), "S-F9", tmp_path / "out"))
    assert "the run has no point with queues 1" in text


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("row", "workload", "label", "stated"),
    [
        ("C-T2", "l3fwd-lpm", "Forwarded", "16.43 Mpps with DPDK, 17.68, 26.4, 35.35 and 37.66 Mpps with"),
        ("C-T3", "ipsec", "Processed", "5.04 Mpps with DPDK, 5.07, 8.18, 10.9 and 15.3 Mpps with"),
    ],
)
def test_cores_at_one_queue_are_lines_beside_what_the_table_states(
    tmp_path: Path, row: str, workload: str, label: str, stated: str
) -> None:
    trials = []
    for organisation, cores in (("scale-out", 1), ("corec", 1), ("corec", 2)):
        point = f"cores={cores},organisation={organisation}"
        for repeat in range(3):
            levels = {"cores": cores, "organisation": organisation}
            record = synthetic.trial(f"{point}:{repeat}", point, repeat, levels, pps=cores * 1e6 + repeat)
            record["config"]["dut"]["workload"] = workload
            trials.append(record)
    text = words(svg_of(run_of(tmp_path / "run", row, trials), row, tmp_path / "out"))
    for word in (f"{label} (Mpps)", "standard path, one core", "corec", stated):
        assert word in text


@pytest.mark.thorough
def test_values_of_a_table_lie_within_the_axis_if_one_core_was_measured(tmp_path: Path) -> None:
    trials = [
        synthetic.trial(f"corec:{repeat}", "corec", repeat, {"cores": 1, "organisation": "corec"}, pps=1e6 + repeat)
        for repeat in range(3)
    ]
    drawn = figure_of("C-T2")
    assert isinstance(drawn, PaperFigure)
    with look():
        axes = drawn.draw(figure_data("C-T2", run_of(tmp_path / "run", "C-T2", trials))).axes[0]
    least, most = axes.get_xlim()
    assert least < 1 and most > 4 and list(axes.get_xticks()) == [4, 3, 2, 1]


def shared_trials() -> list[dict[str, Any]]:
    """Return trials of four cores with one queue each, and of four at one queue, whose packets take half as long."""
    trials = []
    for organisation, queues in (("scale-out", 4), ("corec", 1)):
        for load in (0.81, 0.95):
            for repeat in range(3):
                levels = {"queues": queues, "cores": 4, "organisation": organisation, "load_of_max": load}
                point = ",".join(f"{name}={level}" for name, level in levels.items())
                record = synthetic.trial(f"{point}:{repeat}", point, repeat, levels, pps=load * 1e7 + repeat)
                latencies = synthetic.histogram(range(500 * (1 + queues), 1000 * (1 + queues), 50), "ns")
                record["result"]["gen"]["lcores"][0]["latency_ns"]["from_sent"] = latencies
                trials.append(record)
    return trials


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("row", "label", "stated"),
    [
        ("C-F5", "Mean latency (µs)", "flat up to 37 Mpps"),
        ("C-F6", "load 95 %", "35 Mpps on 4 cores and 30 Mpps on 8 cores"),
    ],
)
def test_latency_of_one_queue_is_drawn_beside_one_queue_per_core(
    tmp_path: Path, row: str, label: str, stated: str
) -> None:
    text = words(svg_of(run_of(tmp_path / "run", row, shared_trials()), row, tmp_path / "out"))
    for word in ("4 cores", label, "one queue per core", "one queue for all cores (corec)", stated):
        assert word in text


@pytest.mark.thorough
def test_order_of_traces_stands_beside_the_table(tmp_path: Path) -> None:
    trials = []
    for cores, late in ((1, []), (2, [3, 5])):
        for repeat in range(3):
            levels = {"cores": cores, "trace": "traces/made-1.pcap"}
            record = synthetic.trial(f"{cores}:{repeat}", f"cores={cores}", repeat, levels, pps=1e6)
            record["result"]["gen"]["lcores"][0]["sequence"] = synthetic.sequence(late)
            trials.append(record)
    text = words(svg_of(run_of(tmp_path / "run", "C-T4", trials), "C-T4", tmp_path / "out"))
    for word in ("Reordered", "Displaced", "Largest distance", "made-1", "0.29 to 1.00 % and 8 to 45 packets"):
        assert word in text


@pytest.mark.thorough
def test_distributions_of_organisations_are_not_mixed(tmp_path: Path) -> None:
    data = figure_data("C-F6", run_of(tmp_path / "run", "C-F6", shared_trials()))
    found = pooled_latencies(data, ("organisation", "load_of_max"))
    assert list(found) == [("corec", 0.81), ("corec", 0.95), ("scale-out", 0.81), ("scale-out", 0.95)]
    assert found["corec", 0.95].percentile(99.9) <= 2000 < found["scale-out", 0.95].smallest


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("row", "shapes", "value"),
    [
        ("S-F10a", ("SQ", "FB"), "SoCC'19: 1.6 Mpps at 512 queues"),
        ("S-F10b", ("FB",), "SoCC'19: above 10 Mpps from 64 to 512 queues"),
    ],
)
def test_throughput_shows_the_stated_value_and_why_llc_is_absent(
    tmp_path: Path, row: str, shapes: tuple[str, ...], value: str
) -> None:
    text = words(svg_of(run_of(tmp_path / "run", row, shaped_trials(shapes, missed=10**6)), row, tmp_path / "out"))
    assert value in text
    assert synthetic.NO_PMU in text
    assert "limit of the generator" not in text


def sized_trials() -> list[dict[str, Any]]:
    """Return trials of a core that only sends, and of one that only receives and misses a tenth of the small
    packets."""
    trials = []
    for workload in ("tx", "rx"):
        for size in (64, 1518):
            for repeat in range(2):
                name = f"workload={workload},frame={size}"
                record = synthetic.trial(f"{name}:{repeat}", name, repeat, {"workload": workload, "frame": size})
                missed = 10**5 if size == 64 else 0
                record["result"]["ports"]["net_crossover0_b"]["stats"]["imissed"] = missed
                trials.append(record)
    return trials


@pytest.mark.thorough
def test_single_core_rates_are_drawn_by_size(tmp_path: Path) -> None:
    text = words(svg_of(run_of(tmp_path / "run", "S-F12", sized_trials()), "S-F12", tmp_path / "out"))
    for word in (
        "a core that only sends",
        "a core that only receives",
        "SoCC'19: below 100",
        "Dropped at the RX",
    ):
        assert word in text
    assert "absent" not in text


@pytest.mark.thorough
def test_without_a_receiving_core_the_caption_says_why(tmp_path: Path) -> None:
    trials = [record for record in sized_trials() if record["factors"]["workload"] == "tx"]
    text = words(svg_of(run_of(tmp_path / "run", "S-F12", trials), "S-F12", tmp_path / "out"))
    assert "Absent, so not drawn: Dropped at the RX port, because" in text


@pytest.mark.thorough
def test_points_that_the_generator_limits_are_marked(tmp_path: Path) -> None:
    meta = {"spec": {"name": "synthetic", "parameters": {"saturate": True}}}
    run = run_of(tmp_path / "run", "S-F10a", shaped_trials(("SQ",)), **meta)
    assert "limit of the generator, not of the DUT" in words(svg_of(run, "S-F10a", tmp_path / "out"))


@pytest.mark.thorough
def test_feeds_are_lines_of_their_own_and_only_the_wire_has_a_generator(tmp_path: Path) -> None:
    meta = {"spec": {"name": "synthetic", "parameters": {"saturate": True}}}
    trials = [
        record
        | {"trial": f"{record['trial']}:{feed}", "point": f"{record['point']},feed={feed}"}
        | {"factors": record["factors"] | {"feed": feed}}
        for feed in ("wire", "infinite")
        for record in shaped_trials(("SQ",), missed=10**6 if feed == "wire" else 0)
    ]
    run = run_of(tmp_path / "run", "S-F10a", trials, **meta)
    text = words(svg_of(run, "S-F10a", tmp_path / "out"))
    assert "packets of a generator" in text
    assert "rings kept full by the virtual NIC" in text
    assert "limit of the generator" not in text
    assert saturated_generator_points(run, current_table(run)) == {}


@pytest.mark.thorough
def test_llc_loads_are_drawn_where_they_are_counted(tmp_path: Path) -> None:
    trials = shaped_trials(("FB",))
    for record in trials:
        counts = {"instructions": 2, "cycles": 1, "llc_loads": 10**6, "llc_misses": 10**5}
        record["result"]["dut"]["lcores"][0]["pmu"] = {"window": counts, "multiplexed_share": 0.0}
    text = words(svg_of(run_of(tmp_path / "run", "S-F10b", trials), "S-F10b", tmp_path / "out"))
    assert "load misses" in text
    assert "absent" not in text


def test_a_distribution_holds_every_packet_of_its_trials(tmp_path: Path) -> None:
    trials = latency_trials()
    trials.append(trials[0] | {"trial": "broken", "status": "failed", "reason": "hung"})
    found = pooled_latencies(figure_data("H-F3c", run_of(tmp_path / "run", "H-F3c", trials)), ["queues"])
    assert {at: histogram.samples for at, histogram in found.items()} == {(10,): 20, (100,): 200}
    curve = found[10,].cumulative()
    assert curve[0][0] == pytest.approx(1000, rel=0.001) and curve[0][1] == 0.1
    assert curve[-1] == (found[10,].largest, 1.0)
    assert [share for _, share in curve] == sorted(share for _, share in curve)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("row", "word"), [("H-F3b", "99th percentile"), ("H-F3c", "100 queues")])
def test_light_load_figures(tmp_path: Path, row: str, word: str) -> None:
    assert word in words(svg_of(run_of(tmp_path / "run", row, latency_trials()), row, tmp_path / "out"))


@pytest.mark.thorough
def test_the_caption_does_not_claim_that_latency_leaves_interruptions_out(tmp_path: Path) -> None:
    trials = latency_trials()
    for record in trials:
        record["result"]["dut"]["lcores"][0]["interruptions"]["cycles"] = synthetic.WINDOW_CYCLES // 20
    text = words(svg_of(run_of(tmp_path / "run", "H-F3b", trials), "H-F3b", tmp_path / "out"))
    assert "is part of these numbers" in text
    assert "is left out" not in text


def test_a_tiny_tax_is_drawn_tiny(tmp_path: Path) -> None:
    trials = []
    for lookups, repeat in itertools.product((1, 4), range(3)):
        levels = {"queues": 1, "lookups": lookups, "load_of_max": 1.0}
        point = f"queues=1,lookups={lookups},load_of_max=1.0"
        trials.append(synthetic.trial(f"{point}:{repeat}", point, repeat, levels, useful_share=0.98))
    figure = figure_of("S-F5")
    assert isinstance(figure, PaperFigure)
    with look():
        drawn = figure.draw(figure.data(run_of(tmp_path / "run", "S-F5", trials)))
        finish(drawn)
    (work,) = (axes for axes in drawn.axes if axes.get_title(loc="left") == "Full load, by work")
    assert work.get_ylim()[1] >= 5


@pytest.mark.thorough
def test_ways_to_several_cores_stand_side_by_side(tmp_path: Path) -> None:
    trials = []
    for organisation, buffers, shape, flows in (
        ("scale-out", "posted", "FB", 1024),
        ("rebalanced", "posted", "SQ", 1024),
        ("scale-out", "split", "SQ", 1),
        ("corec", "posted", "SQ", 1),
    ):
        for repeat in range(3):
            levels = {"organisation": organisation, "rx_buffers": buffers, "shape": shape, "flows": flows}
            point = ",".join(f"{name}={level}" for name, level in levels.items())
            record = synthetic.trial(f"{point}:{repeat}", point, repeat, levels, pps=1e6 + repeat)
            record["result"]["ports"][record["config"]["dut"]["rx_port"]]["posted_bytes"] = 2**20
            trials.append(record)
    text = words(svg_of(run_of(tmp_path / "run", "C-RIVALS", trials), "C-RIVALS", tmp_path / "out"))
    for word in ("balanced", "one flow", "RSS++", "rxBisect", "one queue, corec", "Posted buffers (MiB)"):
        assert word in text
    assert "lock that is waited for" not in text
    assert "a single core has no other" in text
