# SPDX-License-Identifier: BSD-3-Clause
"""Test reordering as the node counts it (apps/lib/sequence.h) against a plain reference of RFC 4737.

`pytest tests/test_reordering.py --sequences 1000000` compares a million generated sequences.
"""

import struct
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reordering import Arrival, Reordering, reordering

NUMBER_BITS = 40
FLOWS = 3
BATCH = 20_000


def counted(build_dir: Path, sequences: Sequence[Sequence[Arrival]], flows: int = FLOWS) -> list[dict[str, object]]:
    """Return the counts of the C code for each sequence."""
    parts = []
    for arrivals in sequences:
        packets = [number | flow << NUMBER_BITS for number, flow in arrivals]
        parts.append(struct.pack(f"<II{len(packets)}Q", len(packets), flows, *packets))
    done = subprocess.run([build_dir / "tests-sequence"], input=b"".join(parts), capture_output=True, check=True)
    words = iter(memoryview(done.stdout).cast("Q"))
    return [_next_result(words) for _ in sequences]


def _next_result(words: Iterator[int]) -> dict[str, object]:
    names = ("unique", "duplicated", "reordered_in_total", "reordered", "too_old")
    result: dict[str, object] = {name: next(words) for name in names}
    for name in ("extent", "distance", "degree"):
        result[name] = {next(words): next(words) for _ in range(next(words))}
    result["refused"], result["degree_refused"] = next(words), next(words)
    signed = ((next(words), next(words)) for _ in range(next(words)))
    result["displaced"] = {by - 2**64 if by >= 2**63 else by: packets for by, packets in signed}
    return result


def expected(arrivals: Sequence[Arrival]) -> dict[str, object]:
    """Return the reference's counts of one sequence; short ones stay in bounds, so nothing is too old or refused."""
    return {**vars(reordering(arrivals)), "too_old": 0, "refused": 0, "degree_refused": 0}


def generated(count: int, seed: int) -> list[list[Arrival]]:
    """Return sequences of up to 12 packets of three flows that overtake one another, get lost and are doubled."""
    chance = np.random.default_rng(seed)
    # One row per sequence, one column per copy of a packet; copies that never arrive sort to the end of their row.
    numbers = np.arange(12).repeat(2)
    sent = numbers < chance.integers(1, 13, (count, 1))
    arrives = sent & (chance.random((count, 24)) < np.tile([0.9, 0.15], 12))
    width = chance.choice([0.5, 2, 6, 20], (count, 1))
    order = np.argsort(np.where(arrives, numbers + width * chance.random((count, 24)), np.inf), axis=1)
    arrived = numbers[order].tolist()
    flows = np.take_along_axis(chance.integers(0, FLOWS, (count, 12)), numbers[order], axis=1).tolist()
    lengths = arrives.sum(axis=1).tolist()
    return [list(zip(*row, strict=True))[:length] for *row, length in zip(arrived, flows, lengths, strict=True)]


def test_a_batch_of_generated_sequences_agrees(build_dir: Path, request: pytest.FixtureRequest) -> None:
    left = request.config.getoption("--sequences")
    seed, reordered = 0, 0
    while left > 0:
        batch = generated(min(BATCH, left), seed)
        for arrivals, found in zip(batch, counted(build_dir, batch), strict=True):
            assert found == expected(arrivals), arrivals
            reordered += bool(found["reordered"])
        left, seed = left - len(batch), seed + 1
    assert reordered > request.config.getoption("--sequences") / 4, "most sequences are in order and prove little"


ARRIVALS = st.lists(st.tuples(st.integers(0, 40), st.just(0)), max_size=60).map(
    lambda arrivals: [(number, number % FLOWS) for number, _ in arrivals]
)


@settings(max_examples=30, deadline=None)
@given(sequences=st.lists(ARRIVALS, min_size=1, max_size=20))
def test_any_sequence_agrees(build_dir: Path, sequences: list[list[Arrival]]) -> None:
    assert counted(build_dir, sequences) == [expected(arrivals) for arrivals in sequences]


def test_long_sequences_agree(build_dir: Path) -> None:
    """1024 flows leave 64 arrivals each: entries are overwritten again and again, extents stay below."""
    chance = np.random.default_rng(5)
    order = np.argsort(np.arange(600) + 30 * chance.random(600)).tolist()
    arrivals = [(number + 2**39, 11) for number in order]
    (found,) = counted(build_dir, [arrivals], flows=1024)
    assert found == expected(arrivals)
    extents = found["extent"]
    assert isinstance(extents, dict) and 20 < max(extents) < 64


def test_extents_beyond_the_ring_are_refused_and_counted(build_dir: Path) -> None:
    """65536 flows leave 16 arrivals each: packet 0 comes 15, 16, 17 and 40 arrivals after packet 1."""
    late = [[(number, 7) for number in (*range(1, behind + 1), 0)] for behind in (15, 16, 17, 40)]
    found = counted(build_dir, late, flows=65536)
    assert [each["extent"] for each in found] == [{15: 1}, {16: 1}, {}, {}]
    assert [each["refused"] for each in found] == [0, 0, 1, 1]
    assert [each["degree_refused"] for each in found] == [0, 0, 1, 1]
    assert [each["reordered"] for each in found] == [1, 1, 1, 1]


def test_a_degree_is_exact_where_the_extent_is_beyond_the_ring(build_dir: Path) -> None:
    """All five come more than 16 places late; only of two are all 16 higher that lie directly before."""
    arrivals = [(number, 7) for number in (*range(5, 45), 3, 0, 4, 2, 1)]
    (found,) = counted(build_dir, [arrivals], flows=65536)
    assert reordering(arrivals).degree == Counter({40: 1, 41: 1, 0: 1, 1: 1, 2: 1})
    assert found["degree"] == {0: 1, 1: 1, 2: 1}
    assert (found["degree_refused"], found["refused"]) == (2, 5)


def test_examples_of_the_definitions() -> None:
    """The reference itself: packets 1 2 3 7 8 9 10 4 5 6 11, worked out by hand."""
    found = reordering([(number, 0) for number in (1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11)])
    assert found == Reordering(
        11, 0, 3, 3, Counter({4: 1, 5: 1, 6: 1}), Counter({4: 3}), Counter({4: 1, 0: 2}), Counter({-3: 4, 4: 3})
    )
