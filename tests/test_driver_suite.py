# SPDX-License-Identifier: BSD-3-Clause
"""Test net_crossover through the public ethdev API (apps/tests/driver_*.c), also under sanitizers."""

import os
import re
import subprocess
from pathlib import Path

import pytest

CASES_AT_LEAST = 183
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


def run_suite(folder: Path, *prefixes: str) -> subprocess.CompletedProcess[str]:
    """Run the suite; leak detection is off because EAL itself leaks, lost mbufs are found by the suite."""
    return subprocess.run(
        [folder / "tests-driver", *prefixes],
        env=os.environ | SANITIZERS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )


def assert_passed(done: subprocess.CompletedProcess[str]) -> None:
    counts = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
    assert counts is not None, done.stdout[-4000:]
    assert counts[2] == "0" and done.returncode == 0, done.stdout[-4000:]
    assert int(counts[1]) >= CASES_AT_LEAST


@pytest.mark.measure
def test_driver_suite_passes(build_dir: Path) -> None:
    assert_passed(run_suite(build_dir))


@pytest.mark.thorough
@pytest.mark.measure
def test_driver_suite_passes_under_sanitizers(asan_build_dir: Path) -> None:
    assert_passed(run_suite(asan_build_dir))


@pytest.mark.thorough
@pytest.mark.measure
def test_threads_are_safe_without_membarrier(build_dir: Path) -> None:
    """Where the kernel refuses membarrier(2), senders fence instead."""
    done = run_suite(build_dir, "--no-membarrier", "threads")
    assert re.search(r"^[1-9]\d* passed, 0 failed$", done.stdout, re.MULTILINE), done.stdout[-4000:]


def test_driver_suite_fails_if_nothing_was_run(build_dir: Path) -> None:
    done = run_suite(build_dir, "no-such-case")
    assert done.returncode == 1
    assert "0 passed, 0 failed" in done.stdout
