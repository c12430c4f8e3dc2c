# SPDX-License-Identifier: BSD-3-Clause
"""Test the metric dictionary and its documentation."""

from pathlib import Path

import pytest

from pollscope.base.errors import UsageError
from pollscope.metrics.derive import COMPUTE
from pollscope.metrics.dictionary import metric_dictionary, parse_dictionary


def test_every_metric_is_computed_and_every_computation_is_defined() -> None:
    assert set(COMPUTE) == set(metric_dictionary().metrics)


UNITS = {"ns": "ns", "hz": "Hz", "pps": "packet/s", "bps": "bit/s", "share": "share"}  # by the end of a name


def test_every_metric_says_how_it_is_computed_whence_it_comes_and_in_its_name_the_unit() -> None:
    for metric in metric_dictionary().metrics.values():
        assert len(metric.definition) > 10, metric.name
        assert metric.source, metric.name
        assert metric.unit == UNITS.get(metric.name.rpartition("_")[2], metric.unit), metric.name


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("tax_share", 0.2345, "23.4 %"),
        ("poll_rate_hz", 412_345_678.0, "412 Mpolls/s"),
        ("rx_pps", 12_500_000.0, "12.5 Mpps"),
        ("latency_p99_ns", 1530.0, "1.53 us"),
        ("sweep_cycles", 4021.0, "4,021 cycles"),
        ("involuntary_switches", 3.0, "3"),
        ("ipc", 2.345, "2.35 IPC"),
    ],
)
def test_values_are_rounded_for_humans_only(name: str, value: float, text: str) -> None:
    assert metric_dictionary()[name].text(value).replace("M polls", "Mpolls") == text


def test_an_unknown_metric_names_close_ones() -> None:
    with pytest.raises(UsageError, match="tax_share_ovs"):
        metric_dictionary()["tax_shares"]


FIELDS = "title: t, definition: d, type: float, unit: u, short_unit: u, source: s"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("metrics: {x: {group: a}}\n", "Field required"),
        (f"metrics: {{x: {{group: b, better: lower, {FIELDS}}}}}\n", "has no title"),
        (f"metrics: {{x: {{group: a, better: best, {FIELDS}}}}}\n", "better"),
        ("introductions: {b: text}\nmetrics: {}\n", "introduction of group 'b'"),
    ],
)
def test_a_bad_dictionary_is_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "metrics.yaml"
    path.write_text(f"groups: {{a: A}}\n{text}", encoding="utf-8")
    with pytest.raises(UsageError, match=complaint):
        parse_dictionary(path)
