# SPDX-License-Identifier: BSD-3-Clause
"""Check the program that times the generator's own loop (apps/bench/gen_cost.c)."""

import subprocess
from pathlib import Path

import pytest

KINDS = ["saturated", "constant", "poisson"]
SLOTS = 25_000  # packets per trial: 50 us at 500 Mpps


def run(build_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = str(build_dir / "gen-cost")
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.thorough
@pytest.mark.measure
def test_the_cost_of_a_packet_is_printed(build_dir: Path) -> None:
    done = run(build_dir)
    assert done.returncode == 0, done.stderr
    costs = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, _ in costs] == KINDS
    assert all(float(cycles) > 0 for _, cycles in costs)


@pytest.mark.parametrize("kind", ["constant", "poisson"])
def test_all_due_packets_are_sent(build_dir: Path, kind: str) -> None:
    """The instructions of a trial then belong to a known number of packets."""
    done = run(build_dir, kind, "3")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == pytest.approx(3 * SLOTS, rel=0.03)


@pytest.mark.parametrize("arguments", [("constant",), ("never", "1"), ("constant", "0"), ("constant", "1", "2")])
def test_bad_usage_is_refused(build_dir: Path, arguments: tuple[str, ...]) -> None:
    done = run(build_dir, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: gen-cost")
