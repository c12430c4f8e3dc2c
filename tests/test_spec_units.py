# SPDX-License-Identifier: BSD-3-Clause
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pollscope.base import units
from pollscope.base.fields import expand_levels, frame_mix, read_frame
from pollscope.spec.points import Level, level_text, point_text

DIMENSIONS = [units.TIME, units.SIZE, units.RATE, units.SHARE, units.CYCLES]


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("100 ms", units.TIME, 100_000_000),
        ("1.5s", units.TIME, 1_500_000_000),
        ("2 min", units.TIME, 120_000_000_000),
        ("0 ns", units.TIME, 0),
        ("64 B", units.SIZE, 64),
        ("1 KiB", units.SIZE, 1024),
        ("1 kB", units.SIZE, 1000),
        ("3 Mpps", units.RATE, 3e6),
        (0, units.RATE, 0.0),
        ("14.88 Mpps", units.RATE, 14.88e6),
        ("25 %", units.SHARE, 0.25),
        ("0.1 %", units.SHARE, 0.001),
        (2000, units.CYCLES, 2000),
        ("2 kcycles", units.CYCLES, 2000),
    ],
)
def test_values_are_read_exactly(text: object, dimension: units.Dimension, value: float) -> None:
    read = units.parse(text, dimension)
    assert read == value
    assert isinstance(read, int) == dimension.whole


@pytest.mark.parametrize(
    "text", ["", "ms", "1", 1, True, None, "1 m", "1 MS", "1,5 s", "0x10 s", "1 s s", [], "nan s", "inf s", "0.5 ns"]
)
def test_no_time(text: object) -> None:
    with pytest.raises(ValueError, match="ns"):
        units.parse(text, units.TIME)


@pytest.mark.parametrize(
    ("factor", "level", "text"),
    [
        ("wait_after", 1_000_000, "1 ms"),
        ("wait_after", 123_456, "123.456 us"),
        ("load_of_max", 0.25, "25 %"),
        ("load_pps", 3e6, "3 Mpps"),
        ("flow_size", 100_000, "100 kB"),
        ("task_data", 4096, "4 KiB"),
        ("extra_cycles", 2000, "2000"),
        ("service_long_cycles", None, "None"),
        ("knob.turbo", True, "True"),
    ],
)
def test_a_level_has_the_unit_of_its_parameter(factor: str, level: Level, text: str) -> None:
    assert level_text(factor, level) == text


def test_a_point_for_a_reader() -> None:
    assert point_text({"queues": 4, "wait_after": 1_000_000, "load_of_max": 0.25}) == (
        "queues=4,wait_after=1 ms,load_of_max=25 %"
    )


@given(st.integers(0, 10**12), st.sampled_from(DIMENSIONS), st.data())
def test_every_unit_scales_by_its_factor(number: int, dimension: units.Dimension, data: st.DataObject) -> None:
    unit = data.draw(st.sampled_from(sorted(dimension.factors)))
    expected = number * dimension.factors[unit]
    assert math.isclose(units.parse(f"{number} {unit}", dimension), float(expected), rel_tol=1e-12)


@given(st.text(max_size=12), st.sampled_from(DIMENSIONS))
def test_any_text_is_read_or_refused_with_what_is_allowed(text: str, dimension: units.Dimension) -> None:
    try:
        units.parse(text, dimension)
    except ValueError as error:
        refusal = str(error)
    else:
        return
    assert next(iter(dimension.factors)) in refusal or "whole number" in refusal


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 20))
def test_linear_ranges_start_and_end_where_they_say(first: int, length: int, step: int) -> None:
    levels = expand_levels({"from": f"{first} %", "to": f"{first + length} %", "step": f"{step} %"})
    assert isinstance(levels, list)
    values = [units.parse(level, units.SHARE) for level in levels]
    assert values[0] == first / 100
    assert values[-1] == (first + length) / 100
    assert values == sorted(set(values))
    assert all(b - a <= step / 100 + 1e-12 for a, b in pairwise(values))


@given(st.integers(1, 100), st.integers(0, 1000), st.integers(2, 10))
def test_logarithmic_ranges_multiply(first: int, length: int, times: int) -> None:
    levels = expand_levels({"from": first, "to": first + length, "times": times})
    assert isinstance(levels, list)
    assert levels[0] == first
    assert levels[-1] == first + length
    assert all(b == a * times for a, b in pairwise(levels[:-1]))
    assert all(isinstance(level, int) for level in levels)


@given(st.integers(1, 64), st.integers(0, 6), st.integers(1, 8))
def test_octaves_stay_whole_and_grow(first: int, octaves: int, per_octave: int) -> None:
    levels = expand_levels({"from": first, "to": first * 2**octaves, "per_octave": per_octave})
    assert isinstance(levels, list)
    assert levels == sorted(set(levels))
    assert len(levels) <= octaves * per_octave + 1
    assert all(first * 2**octave in levels for octave in range(octaves + 1))


def test_shares_of_a_range_have_no_binary_dust() -> None:
    levels = expand_levels({"from": "0 %", "to": "100 %", "step": "10 %"})
    assert isinstance(levels, list)
    assert [units.parse(level, units.SHARE) for level in levels] == [i / 10 for i in range(11)]


def test_frames() -> None:
    assert frame_mix(read_frame("64 B")) == [{"bytes": 64, "weight": 1}]
    assert [entry["weight"] for entry in frame_mix(read_frame("imix"))] == [7, 4, 1]
    mix = read_frame([{"size": "64 B", "weight": 2}, {"size": "1518 B", "weight": 1}])
    assert mix == "64:2,1518:1"
    assert frame_mix(mix) == [{"bytes": 64, "weight": 2}, {"bytes": 1518, "weight": 1}]
    for wrong in ("9001 B", "64", 64, [], [{"size": "64 B", "weight": 0}], "IMIX"):
        with pytest.raises(ValueError, match=r"."):
            read_frame(wrong)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.human_rate(999_999), "1 Mpps"),
        (units.human_rate(999_499), "999 kpps"),
        (units.human_rate(999.9), "1 kpps"),
        (units.human(1.2e13, "cycles"), "12 T cycles"),
        (units.human_size(1023.9 * 2**10), "1 MiB"),
        (units.human_size(1001 * 2**20), "1,001 MiB"),
        (units.human_size(1023.7), "1 KiB"),
        (units.human_ns(999_999), "1 ms"),
        (units.human_ns(999.9), "1 us"),
        (units.human_number(999.9), "1,000"),
        (units.human_time(0.9999), "1 s"),
        (units.human_time(3599.7), "1 h 0 min"),
        (units.human_time(59.7), "1 min 0 s"),
        (units.human_time(0.45), "450 ms"),
        (units.human_time(12.2), "12 s"),
        (units.human_time(200), "3 min 20 s"),
        (units.human_time(7500), "2 h 5 min"),
    ],
)
def test_numbers_for_readers_that_are_rounded_up_get_the_next_prefix(text: str, expected: str) -> None:
    assert text == expected
