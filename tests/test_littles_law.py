# SPDX-License-Identifier: BSD-3-Clause
"""Test Little's law: the intra-host paper's numbers from its own table, any other table, and refused quantities."""

import math
from pathlib import Path

import pytest
import synthetic_run as synthetic
from command_line import pollscope
from hypothesis import given
from hypothesis import strategies as st
from test_figures import words

from pollscope.analysis.littles_law import (
    TxPoint,
    in_flight,
    paper_scaling,
    paper_walk_share,
    points_of_run,
    scaling,
    three_ways,
    walk_share,
)
from pollscope.analysis.papers import stated
from pollscope.analysis.tables import law_table
from pollscope.base.errors import UsageError
from pollscope.stats.littles_law import outstanding_requests


def test_the_papers_numbers_follow_from_its_table() -> None:
    one, two = paper_scaling()
    assert (round(one.reads), round(two.reads)) == (51, 96)
    assert (one.tag_share, two.tag_share) == pytest.approx((0.198, 0.376), abs=0.001)
    # The table prints 1.26 beside rates rounded to 0.01 Mpps, whose ratio is 1.2546.
    assert two.rate_ratio == pytest.approx(1.26, abs=0.006)
    assert two.latency_growth == pytest.approx(0.52, abs=0.005)
    assert (one.rate_ratio, one.latency_growth) == (1, 0)


def test_the_table_agrees_with_itself() -> None:
    """Derived columns of the printed table follow from the others, so no digit was mistyped."""
    table = stated("intrahost", "I-T1")
    for column in (0, 1):
        hits, misses = table["iotlb_hits_per_s"][column], table["iotlb_misses_per_s"][column]
        assert misses / (hits + misses) == pytest.approx(table["iotlb_miss_share"][column], abs=0.0005)
    mtt = table["mtt_l0_miss_share"]
    assert mtt[1] / mtt[0] == pytest.approx(1.47, abs=0.005)


def test_the_columns_of_a_run_are_its_numbers_of_cores(tmp_path: Path) -> None:
    trials = [trial for cores in (1, 2) for trial in synthetic.repeated({"cores": cores}, 2, cores * 1e6)]
    for record in trials:
        counted = (("neohost", "pcie_latency_mean", 1e-6), ("pcm-iio", "dma_read", 64e6))
        record["collectors"] = {
            name: {
                "status": "ok",
                "reason": "",
                "means": {metric: {"value": value * record["factors"]["cores"], "unit": "", "units": 1}},
            }
            for name, metric, value in counted
        }
    one, two = points_of_run(synthetic.run_of(tmp_path / "run", trials))
    assert (one.tx_cores, one.rate_bits_per_s) == (1, 8 * 64e6)
    assert (two.tx_cores, two.tx_rate_pps) == (2, 2e6)
    assert (one.latency_ns, two.latency_ns) == pytest.approx((1000, 2000))
    with pytest.raises(
        UsageError, match="no trial has pcie_dma_read_bytes_per_s at these levels, because no collector"
    ):
        points_of_run(synthetic.run_of(tmp_path / "bare", [each | {"collectors": {}} for each in trials]))


def test_any_measured_table() -> None:
    # 8 Gb/s in reads of 100 B are 10 M reads per second; at 1 us each, 10 are in progress.
    points = [TxPoint(1, 10e6, 8e9, 1000), TxPoint(4, 20e6, 16e9, 4000)]
    first, last = scaling(points, request_bytes=100, tag_limit=32)
    assert (first.reads, last.reads) == pytest.approx((10, 80))
    assert last.tag_share == pytest.approx(2.5), "more than the tags allow: rate, latency or size is wrong"
    assert (last.rate_ratio, last.latency_growth) == (2, 3)
    assert list(law_table([first, last])["outstanding_reads"]) == pytest.approx([10, 80])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((-1.0, 1.0, 64), "rate_bits_per_s is -1.0"),
        ((math.nan, 1.0, 64), "rate_bits_per_s is nan"),
        ((1.0, math.inf, 64), "latency_ns is inf"),
        ((1.0, 1.0, 0), "request_bytes is 0"),
    ],
)
def test_an_invalid_quantity_is_refused(arguments: tuple[float, float, float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        outstanding_requests(*arguments)


def test_a_table_without_a_start_is_refused() -> None:
    with pytest.raises(ValueError, match="no point"):
        scaling([], 64, 256)
    with pytest.raises(ValueError, match="tag_limit is 0"):
        scaling([TxPoint(1, 1, 1, 1)], 64, 0)
    with pytest.raises(ValueError, match="first point"):
        scaling([TxPoint(1, 0, 1, 1)], 64, 256)


def test_three_ways_stand_side_by_side() -> None:
    found = three_ways().pivot(index="way", columns="tx_cores", values="outstanding_reads").round()
    assert {way: list(reads) for way, reads in found.T.items()} == {
        "NIC bandwidth / read size": [51, 96],
        "IOTLB look-ups": [51, 97],
        "pcm-iio bytes / read size": [38, 71],
    }
    rates = three_ways().set_index(["way", "tx_cores"])["reads_per_s"]
    assert rates["IOTLB look-ups", 1] == pytest.approx(31.55e6)
    assert rates["NIC bandwidth / read size", 1] == pytest.approx(31.2e6, rel=0.002)
    last = three_ways().iloc[1]
    assert (last["tags_share"], last["wqes_share"]) == (
        pytest.approx(0.376, abs=0.001),
        pytest.approx(0.753, abs=0.001),
    )


@given(st.floats(1, 1e12), st.floats(1, 1e9), st.integers(1, 4096))
def test_counts_and_bytes_agree(rate: float, time_ns: float, size: int) -> None:
    assert in_flight(rate, time_ns) == pytest.approx(outstanding_requests(8 * size * rate, time_ns, size))


def test_walks_explain_what_they_can() -> None:
    # Half of 10 M reads/s miss, then all of 20 M: walks of 100 ns are 0.5 and 2 in flight, 50 and 100 ns per read.
    found = walk_share((5e6, 20e6), (10e6, 20e6), (1000, 1200), walk_ns=100)
    assert [*found.in_flight, *found.latency_ns] == pytest.approx([0.5, 2, 50, 100])
    assert [found.growth_share, found.walk_ns_needed] == pytest.approx([0.25, 250])


def test_walks_of_unchanged_length_do_not_explain_the_papers_841_ns() -> None:
    found = paper_walk_share(walk_ns=330)
    assert found.in_flight == pytest.approx((3.71, 4.66), abs=0.01)
    assert found.growth_share < 0.001, "the share of reads that miss hardly grew, 35.65 to 35.82 %"
    assert found.walk_ns_needed == pytest.approx((841 + 330 * 0.3566) / 0.3582, rel=0.001)


def test_walks_without_quantities_are_refused() -> None:
    with pytest.raises(ValueError, match="latency did not grow: 2 ns and 1 ns"):
        walk_share((1, 1), (1, 1), (2, 1), 1)
    with pytest.raises(ValueError, match="numbers above 0"):
        walk_share((0, 1), (1, 1), (1, 2), 1)
    with pytest.raises(ValueError, match="latency_ns is -1"):
        walk_share((1, 1), (1, 1), (1, 2), -1)


def test_the_command_draws_the_table_without_a_run(tmp_path: Path) -> None:
    done = pollscope("figures", "--paper", "intrahost", "--no-model", "--out", "drawn", cwd=tmp_path)
    assert done.returncode == 0
    assert all(": absent. " in line for line in done.stderr.splitlines())
    assert {Path(line).name for line in done.stdout.split()} >= {
        "I-LL.svg",
        "I-LL.png",
        "I-T1-table.svg",
        "I-T1-table.pdf",
    }
    text = words((tmp_path / "drawn" / "I-LL.svg").read_text(encoding="utf-8"))
    for word in ("From the paper's table", "51", "96", "20 % of the tags", "38 % of the tags", "+52 %", "256 tags"):
        assert word in text
