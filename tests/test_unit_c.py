# SPDX-License-Identifier: BSD-3-Clause
"""Run the C unit tests (apps/tests/unit_*.c), and compare the C histogram with the public HdrHistogram."""

import json
import random
import re
import subprocess
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram


def test_unit_program_passes(build_dir: Path) -> None:
    done = subprocess.run([build_dir / "tests-unit"], capture_output=True, text=True, timeout=120, check=False)
    counts = re.fullmatch(r"(\d+) passed, (\d+) failed", done.stdout.splitlines()[-1])
    assert counts is not None, done.stdout
    assert counts[2] == "0" and done.returncode == 0, done.stdout
    assert int(counts[1]) >= 40


def test_unit_program_refuses_unknown_suite(build_dir: Path) -> None:
    command = [str(build_dir / "tests-unit"), "no-such-suite"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "no-such-suite" in done.stderr


PARAMETERS = [(1, 10_000_000_000, 3), (1, 3_600_000_000, 2), (100, 1_000_000, 4), (1, 2, 1), (7, 1 << 40, 5)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("lowest", "highest", "digits"), PARAMETERS)
def test_histogram_equals_hdrhistogram(build_dir: Path, lowest: int, highest: int, digits: int) -> None:
    """Every value lands on the same index, and every percentile is the same."""
    chance = random.Random(digits)
    values = [int(highest ** chance.random()) for _ in range(5000)] + [0, lowest, highest]
    values += [2**k + d for k in range(highest.bit_length() - 1) for d in (-1, 0, 1)]
    theirs = HdrHistogram(lowest, highest, digits)
    for value in values:
        assert theirs.record_value(value)

    command = [str(build_dir / "tests-histogram"), str(lowest), str(highest), str(digits)]
    text = "\n".join(map(str, values))
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=True)
    ours, *percentiles = done.stdout.splitlines()
    counts = dict(json.loads(ours)["counts"])
    assert counts == {i: theirs.counts[i] for i in range(theirs.counts_len) if theirs.counts[i]}
    assert json.loads(ours)["total"] == len(values)
    assert json.loads(ours)["sum"] == sum(values)
    step = 10 if theirs.counts_len > 10**6 else 1  # the Python implementation searches from the first count each time
    assert [int(p) for p in percentiles[::step]] == [theirs.get_value_at_percentile(p) for p in range(0, 101, step)]
