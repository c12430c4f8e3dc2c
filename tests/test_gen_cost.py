# SPDX-License-Identifier: BSD-3-Clause
"""Check the program that times the generator's own loop (apps/bench/gen_cost.c), and bad usage of such programs."""

import subprocess
from pathlib import Path

import pytest

KINDS = ["saturated", "constant", "poisson"]
SLOTS = 25_000  # packets per trial: 50 us at 500 Mpps


def run(build_dir: Path, *arguments: str, program: str = "gen-cost") -> subprocess.CompletedProcess[str]:
    command = [str(build_dir / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


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


@pytest.mark.parametrize(
    "command",
    [
        *("gen-cost constant", "gen-cost never 1", "gen-cost constant 0", "gen-cost constant 1 2"),
        *("corec-stall", "corec-stall 5 1 1 1 1", "corec-stall 8 1 long 1 1", "corec-stall 8 1 1 0 1"),
        *("tests-corec-stress 0", "tests-corec-stress 10 8 3", "tests-corec-stress 10 8 8 x", "tests-corec-stress -1"),
        *("tests-qwait-stress 0", "tests-qwait-stress 10 0", "tests-qwait-stress x"),
    ],
)
def test_bad_usage_is_refused(build_dir: Path, command: str) -> None:
    program, *arguments = command.split()
    done = run(build_dir, *arguments, program=program)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: ")
