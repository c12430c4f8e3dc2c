# SPDX-License-Identifier: BSD-3-Clause
"""Check that no number a reader sees is impossible or unreadable, over the whole range of each unit."""

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollscope.analysis.point_values import PointValues
from pollscope.base import units
from pollscope.metrics.dictionary import Metric, metric_dictionary
from pollscope.stats.estimates import mean_estimate

# `base/units.py` is the formatter; tools are given their interval in seconds.
OTHER_FORMATS = ("base/units.py", "collectors/sources/pcm.py", "collectors/sources/turbostat.py")
AMOUNTS = st.floats(min_value=-1e21, max_value=1e21, allow_nan=False)
UNITS = ("pps", "bit/s", "B/s", "W", "Hz", "polls/s", "misses/s", "")
# One metric of each unit and type represents all of them.
KINDS = list({(metric.unit, metric.type): metric for metric in metric_dictionary().metrics.values()}.values())
PLAIN = re.compile(r"(about 0|-?\d{1,3}(,\d{3})*|-?\d+\.\d+|-?0)( [^\d\s].*)?")


def magnitude(text: str) -> float:
    """Return the number that a text shows, in the base unit."""
    number, _, unit = text.partition(" ")
    prefixes = {"E": 1e18, "P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3}
    return float(number.replace(",", "")) * prefixes.get(unit[:1], 1.0)


@given(value=AMOUNTS, unit=st.sampled_from(UNITS))
def test_amounts_are_plain_and_true(value: float, unit: str) -> None:
    text = units.human(value, unit)
    assert PLAIN.fullmatch(text), text
    if "about" not in text and not (unit.startswith("p") and abs(value) < 1000):
        assert magnitude(text) == pytest.approx(value, rel=0.006)


@given(value=AMOUNTS, metric=st.sampled_from(KINDS))
def test_every_kind_of_metric_is_plain(value: float, metric: Metric) -> None:
    text = metric.text(value)
    assert PLAIN.fullmatch(text), text
    assert not re.search(r"\d[eE][+-]?\d", text)
    assert not re.match(r"1 (packets|reads|ticks|clocks|cycles)\b", text)


@pytest.mark.parametrize("metric", KINDS, ids=lambda metric: f"{metric.unit}-{metric.type}")
@pytest.mark.parametrize(("value", "text"), [(math.nan, "absent"), (math.inf, "unbounded"), (-math.inf, "unbounded")])
def test_values_that_are_no_numbers_are_named_as_such(metric: Metric, value: float, text: str) -> None:
    assert metric.text(value) == text


@given(seconds=st.floats(min_value=0, max_value=1e9), size=st.floats(min_value=0, max_value=2.0**70))
def test_times_and_sizes_are_plain(seconds: float, size: float) -> None:
    assert re.fullmatch(r"\d+(\.\d+)? (ns|us|ms|s)|about 0 ns|\d+ (min|h) \d+ (s|min)", units.human_time(seconds))
    assert re.fullmatch(r"[\d,]+(\.\d+)? ([KMGTPE]i)?B", units.human_size(size))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.55e12, "bit/s", "1.55 Tbit/s"),
        (999.9996, "pps", "1 kpps"),
        (12_500_000, "pps", "12.5 Mpps"),
        (1, "packets", "1 packet"),
        (0.000012, "W", "0.000012 W"),
        (1e-12, "W", "about 0 W"),
    ],
)
def test_amounts_as_a_reader_would_write_them(value: float, unit: str, text: str) -> None:
    assert units.human(value, unit) == text


SHARES = st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=12)
TIMES = st.lists(st.floats(min_value=0, max_value=1e12), min_size=1, max_size=9)


@given(values=SHARES, error=st.floats(min_value=0, max_value=1))
def test_intervals_of_shares_stay_shares(values: list[float], error: float) -> None:
    estimate = PointValues({}, tuple(values), error, limits=metric_dictionary()["tax_share"].limits).estimate
    if estimate.has_interval:
        assert 0 <= estimate.low <= estimate.value + 1e-12
        assert estimate.value - 1e-12 <= estimate.high <= 1


def test_a_share_over_another_is_no_more_than_both_can_be() -> None:
    part = PointValues({}, (0.01, 0.02, 0.9), limits=(0.0, 1.0))
    whole = PointValues({}, (1.0, 1.0, 1.0), limits=(0.0, 1.0))
    ratio = part.over(whole)
    assert (ratio.low, ratio.high) == (0.0, 1.0)
    assert ratio.value == pytest.approx(0.31)
    of_rates = PointValues({}, part.values, limits=(0.0, math.inf)).over(whole)
    assert 1 < of_rates.high < math.inf, "only what has a most is held to it"


def test_shares_that_missed_zero_by_their_error_are_zero_together() -> None:
    estimate = PointValues({}, (-0.001, 0.0005, -0.0002), 0.002, limits=(0.0, 1.0)).estimate
    assert (estimate.value, estimate.low) == (0.0, 0.0)
    assert 0 < estimate.high < 0.01


def test_a_negative_loss_is_shown_as_it_is() -> None:
    """Foreign packets were counted, so that 0 is no limit."""
    loss = PointValues({}, (-0.02, -0.021, -0.019), limits=metric_dictionary()["loss_share"].limits)
    assert loss.estimate.value == pytest.approx(-0.02)
    assert loss.over(PointValues({}, (0.01, 0.0101, 0.0099), limits=loss.limits)).value == pytest.approx(-2)


def test_a_tail_below_the_mean_is_negative() -> None:
    for name in ("latency_tail_ns", "latency_sent_tail_ns"):
        assert PointValues({}, (-50.0, -60.0, -40.0), limits=metric_dictionary()[name].limits).estimate.value == -50


@given(values=TIMES)
def test_intervals_of_latencies_are_not_negative(values: list[float]) -> None:
    estimate = mean_estimate(values, limits=metric_dictionary()["latency_p99_ns"].limits)
    if estimate.has_interval:
        assert 0 <= estimate.low <= estimate.value * (1 + 1e-9)


def test_an_interval_inside_its_limits_is_students() -> None:
    values = (0.40, 0.42, 0.44, 0.41, 0.43)
    assert mean_estimate(values, limits=(0.0, 1.0)) == mean_estimate(values)


def test_a_signed_value_keeps_its_negative_end() -> None:
    assert metric_dictionary()["rate_error"].limits == (-math.inf, math.inf)
    assert mean_estimate((0.001, -0.001, 0.002, 0.0, 0.001), limits=(-math.inf, math.inf)).low < 0


def _exponents(tree: ast.AST) -> Iterator[ast.FormattedValue]:
    """Return f-strings whose format may give an exponent, except those that are read back (`float(...)`)."""
    read_back = {
        id(part)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "float"
        for part in ast.walk(call)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.FormattedValue) or node.format_spec is None or id(node) in read_back:
            continue
        if any(
            str(part.value).endswith(("e", "g"))
            for part in ast.walk(node.format_spec)
            if isinstance(part, ast.Constant)
        ):
            yield node


def test_no_sentence_writes_numbers_past_the_formatter(checkout: Path) -> None:
    """`{cycles:.3g}` is `1.09e+03` one day."""
    package = checkout / "pollscope"
    wrong = [
        f"{path.relative_to(package)}:{node.lineno}"
        for path in sorted(package.rglob("*.py"))
        if not str(path).endswith(OTHER_FORMATS)
        for node in _exponents(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert wrong == []


def test_the_check_for_exponents_finds_one() -> None:
    assert len(list(_exponents(ast.parse("f'{a:.3g} {b:g} {c:,.0f} {d:.1f}'; float(f'{e:.4g}')")))) == 2


@pytest.mark.parametrize(("value", "text"), [(-0.0, "0"), (0.0, "0"), (1090.4, "1,090"), (15_320_000.0, "15,300,000")])
def test_no_zero_is_negative_and_no_number_an_exponent(value: float, text: str) -> None:
    assert units.human_number(value) == text


def test_thousands_are_grouped_whatever_the_digits() -> None:
    assert [units.human_number(value, 6) for value in (1e3, 12345.6, 1e5)] == ["1,000", "12,345.6", "100,000"]


@pytest.mark.parametrize(
    ("probability", "text"), [(1, "p = 1"), (0.0312, "p = 0.031"), (0.0001, "p = 0.0001"), (1e-300, "p < 0.0001")]
)
def test_probabilities_are_plain(probability: float, text: str) -> None:
    assert units.human_p(probability) == text
