# SPDX-License-Identifier: BSD-3-Clause
"""Check the properties that all programs of benchmarks/ share."""

import importlib
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"
PROGRAMS = sorted(path.name for path in FOLDER.glob("*.py") if 'if __name__ == "__main__"' in path.read_text())
LIMIT_S = 60.0


@pytest.mark.one_in(4)
@pytest.mark.parametrize("program", PROGRAMS)
def test_help_is_shown_and_nothing_is_measured(program: str, tmp_path: Path) -> None:
    """`PATH` without the programs that a benchmark starts, so that one that starts anyway fails."""
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(FOLDER.parent)}
    done = subprocess.run(
        [sys.executable, FOLDER / program, "--help"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["usage:", program]), done.stderr[-500:]


def test_each_figure_is_followed_by_its_goal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    ratio = importlib.import_module("ratio")
    assert ratio.print_ratio("speed", [1.0, 2.0, 4.0], ratio.Goal(least=3)).value == 2
    assert capsys.readouterr() == ("ratio speed 2.0000 1.0000 4.0000 3\n", "  goal: at least 3, missed\n")
    assert [str(ratio.Goal(0.5, 2)), str(ratio.Goal(most=1))] == ["0.5 to 2", "at most 1"]
    assert [ratio.Goal(0.5, 2).is_met(value) for value in (0.4, 0.5, 2, 2.1)] == [False, True, True, False]


MAKE_FOLDER = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from eal import file_prefix
from pollscope.host.eal_folders import runtime_folder
(runtime_folder() / file_prefix()[1]).mkdir(parents=True)
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_folder_of_eal_stays_behind(tmp_path: Path) -> None:
    environment = {**os.environ, "RUNTIME_DIRECTORY": str(tmp_path), "PYTHONPATH": str(FOLDER.parent)}
    left = []
    for end in ("killed", "returns"):
        subprocess.run([sys.executable, "-c", MAKE_FOLDER, str(FOLDER), end], env=environment, check=False)
        left.append(len(list((tmp_path / "dpdk").iterdir())))
    assert left == [1, 0], "the next benchmark removes the folder of a killed one, and its own"


@pytest.mark.parametrize(("before", "after", "steady"), [(50e6, 54e6, True), (50e6, 56e6, False), (100e6, 50e6, False)])
def test_a_limit_that_changes_within_a_pair_is_discarded(
    monkeypatch: pytest.MonkeyPatch, before: float, after: float, steady: bool
) -> None:
    """One pair in five came from a host that moved a CPU in between, and then the driver beat its limit by far."""
    monkeypatch.syspath_prepend(str(FOLDER))
    assert importlib.import_module("line_limit").is_steady(before, after) is steady


def _window(packets: int, block: str, cycles: int = 0) -> dict[str, Any]:
    lcore = {"rx_packets": packets, "series": {"rx_packets": [packets // 4] * 4}}
    window = {"start_tsc": 0, "end_tsc": 2_000_000}
    result = {"window": window, "dut": {"lcores": [lcore]}}
    return {"result": result, "config": {"extra_cycles": cycles}, "block": block}


def test_aa_tells_where_the_variance_sits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is twice as fast in the second block, and each configuration has its own rate."""
    monkeypatch.syspath_prepend(str(FOLDER))
    aa = importlib.import_module("aa")
    rates = [("0", 1000, 0), ("0", 900, 1), ("0", 900, 1), ("0", 1000, 0), ("1", 2000, 0), ("1", 1800, 1)]
    found = aa.spreads([_window(packets, block, cycles) for block, packets, cycles in rates])
    assert found["within"] == 0
    assert found["windows"] == pytest.approx(math.log(2) / 2, rel=0.01)  # one of two neighbours is in the next block
    assert found["configurations"] == pytest.approx(math.log(1 / 0.9) / math.sqrt(2))
    assert found["blocks"] == pytest.approx(math.log(2) / math.sqrt(2))
    assert aa.extra_cycles([_window(1000, "0")], 10) == round(2000 / 9)


@pytest.mark.thorough
@pytest.mark.measure
def test_aa_runs_from_spec_to_verdict(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, FOLDER / "aa.py", "1", "--seconds", "0.5"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(FOLDER.parent), "POLLSCOPE_STATE_DIR": str(tmp_path)},
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    figures = {line.split()[1]: line.split() for line in done.stdout.splitlines()}
    assert {"aa_disagrees", "aa_half_width", "aa_half_width_10s", "aa_sd_blocks"} <= set(figures), done.stderr
    assert all(figure[0] == "ratio" and len(figure) == 6 for figure in figures.values())
