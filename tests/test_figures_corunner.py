# SPDX-License-Identifier: BSD-3-Clause
"""The figures of S-F7a, S-F7b and S-T4.2 on runs whose numbers are known."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic
from test_figures import run_of, svg_of, words

RATES = {"idle": 1000.0, "dut": 800.0, "stress-ng": 900.0}


def beside(levels: Mapping[str, Any], repeat: int, done: float, hz: float | None = None) -> dict[str, Any]:
    """Return a trial with a co-runner that did this much work in the window."""
    point = ",".join(f"{name}={level}" for name, level in levels.items())
    record = synthetic.trial(f"{point}:{repeat}", point, repeat, levels, pps=1e6)
    absent = {"absent": "no such counter"}
    worker = {"name": "corunner", "cpu": 0, "work": "matmul", "unit": "iterations", "done": done + repeat}
    worker |= {"longest_step_ns": 1.0, "waited_ns": 0.0, "pmu": absent, "frequency_hz": hz or absent}
    record["corunner"] = {"result": {"window": record["result"]["window"], "workers": [worker]}}
    return record


def test_the_multiplication_is_drawn_relative_to_an_idle_neighbour(tmp_path: Path) -> None:
    trials = [
        beside({"corunner_place": "other-core", "feed": feed, "dut_core": core}, repeat, done)
        for feed in ("none", "infinite")
        for core, done in RATES.items()
        for repeat in range(3)
    ]
    text = words(svg_of(run_of(tmp_path / "run", "S-F7a", trials), "S-F7a", tmp_path / "out"))
    assert text.count("0.80") == 2 and text.count("0.90") == 1
    for word in ("on another core", "SoCC'19, on the SMT sibling", "full queues", "Absent, so not drawn: IPC, because"):
        assert word in text


@pytest.mark.thorough
def test_the_router_is_drawn_relative_to_itself_alone(tmp_path: Path) -> None:
    trials = []
    for corunner, pps in (("none", 1e6), ("matmul", 0.58e6)):
        for repeat in range(3):
            levels = {"corunner_place": "smt-sibling", "corunner": corunner}
            name = f"corunner={corunner}:{repeat}"
            trials.append(synthetic.trial(name, name[:-2], repeat, levels, pps=pps * (1 + repeat / 1000)))
    text = words(svg_of(run_of(tmp_path / "run", "S-F7b", trials), "S-F7b", tmp_path / "out"))
    for word in ("Throughput", "0.58", "on the SMT sibling", "with matmul"):
        assert word in text


@pytest.mark.thorough
def test_frequencies_stand_beside_the_stated_ones(tmp_path: Path) -> None:
    trials = [
        beside({"spinning_cores": cores}, repeat, 1000.0, hz + repeat)
        for cores, hz in ((0, 3.0e9), (8, 2.7e9))
        for repeat in range(3)
    ]
    text = words(svg_of(run_of(tmp_path / "run", "S-T4.2", trials), "S-T4.2", tmp_path / "out"))
    for word in ("3.45", "3.25", "0.942", "2.95", "3.00, 1.000", "2.70, 0.900", "left out"):
        assert word in text


@pytest.mark.thorough
def test_polled_queues_are_compared_with_the_same_cores_left_idle(tmp_path: Path) -> None:
    hz = {("idle", 1): 3.0e9, ("idle", 8): 2.9e9, ("dut", 1): 2.95e9, ("dut", 8): 2.61e9}
    trials = [
        beside({"cores": cores, "dut_core": core}, repeat, 1000.0, value + repeat)
        for (core, cores), value in hz.items()
        for repeat in range(3)
    ]
    text = words(svg_of(run_of(tmp_path / "run", "S-T4.2", trials), "S-T4.2", tmp_path / "out"))
    for word in ("3.00, 1.000", "2.95, 0.983", "2.61, 0.900", "left out"):
        assert word in text


def test_a_generator_and_the_virtual_nic_are_bars_of_their_own(tmp_path: Path) -> None:
    trials = []
    for feed, fall in (("infinite", 0.58), ("wire", 0.75)):
        for corunner, pps in (("none", 1e6), ("matmul", fall * 1e6)):
            for repeat in range(3):
                levels = {"feed": feed, "corunner": corunner, "corunner_place": "smt-sibling"}
                name = ",".join(levels.values())
                trials.append(synthetic.trial(f"{name}:{repeat}", name, repeat, levels, pps=pps * (1 + repeat / 1000)))
    text = words(svg_of(run_of(tmp_path / "run", "S-F7b", trials), "S-F7b", tmp_path / "out"))
    for word in ("0.58", "0.75", "full rings", "generator"):
        assert word in text


@pytest.mark.thorough
def test_without_frequencies_the_reason_is_shown(tmp_path: Path) -> None:
    trials = [beside({"spinning_cores": 0}, repeat, 1000.0) for repeat in range(3)]
    text = words(svg_of(run_of(tmp_path / "run", "S-T4.2", trials), "S-T4.2", tmp_path / "out"))
    assert "Frequency absent, because" in text and "no such counter" in text
