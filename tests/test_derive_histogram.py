# SPDX-License-Identifier: BSD-3-Clause
"""Test histograms in the public HdrHistogram layout."""

import base64
import struct
import zlib

import pytest
import synthetic_run as synthetic
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from pollscope.base.errors import UsageError
from pollscope.stats.histogram import BeyondRange, merged, parse_histogram, stored_form

VALUES = st.lists(st.integers(0, 3_000_000_000), min_size=1, max_size=60)


@given(values=VALUES, percent=st.sampled_from([1, 25, 50, 90, 99, 99.9, 100]))
def test_percentiles_are_those_of_the_public_algorithm(values: list[int], percent: float) -> None:
    reference = HdrHistogram(1, 3_600_000_000, 3)
    for value in values:
        reference.record_value(value)
    histogram = parse_histogram(synthetic.histogram(values), "h")
    assert histogram.percentile(percent) == min(reference.get_value_at_percentile(percent), max(values))
    assert histogram.mean == pytest.approx(sum(values) / len(values))


@settings(max_examples=30, deadline=None)
@given(first=VALUES, second=VALUES)
def test_merging_is_recording_everything_into_one(first: list[int], second: list[int]) -> None:
    both = merged([parse_histogram(synthetic.histogram(values), "h") for values in (first, second)], "h")
    assert both == parse_histogram(synthetic.histogram(first + second), "h")


def test_the_encoded_form_is_read_by_the_public_package() -> None:
    values = [3, 1000, 1001, 2_000_000]
    decoded = HdrHistogram.decode(parse_histogram(synthetic.histogram(values), "h").encoded())
    assert decoded.get_total_count() == 4
    assert decoded.get_count_at_value(3) == 1
    assert decoded.get_value_at_percentile(100) == pytest.approx(2_000_000, rel=1e-3)


@given(values=st.lists(st.integers(0, 3_000_000_000), max_size=60))
def test_the_stored_form_holds_the_same(values: list[int]) -> None:
    raw = synthetic.histogram(values)
    stored = stored_form({"latency": [raw], "burst": {"unit": "packets", "values": [[1, 2]]}})
    (found,) = stored["latency"]
    assert "counts" not in found
    assert found["hdr"].startswith("HISTFAAAA"), "the mark of the V2 compressed form"
    assert parse_histogram(found, "h") == parse_histogram(raw, "h")
    assert stored["burst"] == {"unit": "packets", "values": [[1, 2]]}
    assert stored_form(stored) == stored


def test_a_value_that_is_no_histogram_is_stored_unchanged() -> None:
    broken = synthetic.histogram([5, 6]) | {"total": 7}
    assert stored_form({"h": broken}) == {"h": broken}


HDR = stored_form(synthetic.histogram([5, 6, 700_000]))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"hdr": 5}, "not a text"),
        ({"hdr": ""}, "not a HdrHistogram"),
        ({"hdr": "HISTF"}, "not a HdrHistogram"),
        ({"hdr": HDR["hdr"][:-8]}, "not a HdrHistogram"),
        ({"hdr": "AAAA" + HDR["hdr"][4:]}, "not a HdrHistogram"),
        ({"hdr": HDR["hdr"][:40] + "xxxx" + HDR["hdr"][44:]}, "not a HdrHistogram"),
        ({"highest": 10**6}, "but the object says"),
        ({"total": 4}, "counts sum to 3"),
    ],
)
def test_an_impossible_stored_form_is_refused(change: dict[str, object], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        parse_histogram(HDR | change, "place")


@given(text=st.text(st.sampled_from("HISTFAB+/=az09"), max_size=80) | st.binary(max_size=60).map(lambda b: b.hex()))
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_histogram(HDR | {"hdr": text}, "place")


def test_a_truncated_histogram_does_not_affect_the_next() -> None:
    """Counts of a wider layout under the head of a narrow one: those that still fit are read before one does not."""
    narrow = stored_form(synthetic.histogram([3, 900]))
    wide = HdrHistogram(1, 2**40, 3)
    for value in (5, 6, 2**39):
        wide.record_value(value)
    packed = base64.b64decode(wide.encode())
    plain = bytearray(zlib.decompress(packed[8:]))
    struct.pack_into(">q", plain, 24, narrow["highest"])  # behind four numbers of 32 bits and the lowest value
    data = zlib.compress(bytes(plain))
    broken = base64.b64encode(packed[:4] + struct.pack(">I", len(data)) + data).decode()
    with pytest.raises(UsageError, match="not a HdrHistogram"):
        parse_histogram(narrow | {"hdr": broken}, "place")
    assert parse_histogram(narrow, "h").pairs() == parse_histogram(synthetic.histogram([3, 900]), "h").pairs()


def test_refused_values_are_never_guessed() -> None:
    histogram = parse_histogram(synthetic.histogram([10] * 90) | {"refused": 10}, "h")
    assert histogram.percentile(90) == 10
    for statistic in (lambda: histogram.percentile(91), lambda: histogram.mean, lambda: histogram.maximum):
        with pytest.raises(BeyondRange, match="10 values lie above"):
            statistic()


@pytest.mark.parametrize(
    "change",
    [
        {"significant_digits": 6},
        {"lowest": 0},
        {"highest": 1},
        {"counts": [[1, 0]]},
        {"counts": [[1, 2], [1, 2]]},
        {"counts": "x"},
        {"total": 3},
        {"max": 0},
        {"sum": None},
    ],
)
def test_an_impossible_histogram_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"^place"):
        parse_histogram(synthetic.histogram([5, 6]) | change, "place")


def test_different_layouts_are_not_merged() -> None:
    parts = [synthetic.histogram([5]), synthetic.histogram([5], highest=10**6)]
    with pytest.raises(UsageError, match="different layout"):
        merged([parse_histogram(part, "h") for part in parts], "h")
