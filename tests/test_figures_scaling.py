# SPDX-License-Identifier: BSD-3-Clause
"""The figures of S-F13, S-F16, S-F17a, S-F17b, S-F18 and H-F3a on runs whose numbers are known."""

from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic_run as synthetic
from test_figures import run_of, svg_of, words

from pollscope.analysis.figures import figure_of
from pollscope.analysis.figures.figure import PaperFigure

ROWS = ("S-F13", "S-F16", "S-F17a", "S-F17b", "S-F18", "H-F3a")
LEVELS: dict[str, dict[str, list[Any]]] = {
    "S-F13": {"cores": [1, 2, 4, 8], "frame": [64, 256]},
    "S-F16": {
        "cores": [1, 2, 4, 8],
        "organisation": ["scale-out", "scale-up"],
        "ring_sync": ["default", "rts"],
        "feed": ["wire", "infinite"],
    },
    "S-F17a": {"cores": [2, 10], "organisation": ["scale-out", "scale-up"], "burst": [1, 32], "load_pps": [1e6, 2e7]},
    "S-F17b": {"cores": [2, 10], "organisation": ["scale-out", "scale-up"], "load_pps": [1e6, 2e7]},
    "S-F18": {"cores": [2, 10], "organisation": ["scale-out", "scale-up"], "placement": ["separate", "smt-pairs"]},
    "H-F3a": {"queues": [1, 500, 1000], "shape": ["FB", "PC", "NC", "SQ"]},
}
WORDS = {
    "S-F13": ("in proportion to one core", "SoCC'19: plateau from 3 to 7 cores", "256 B"),
    "S-F16": (
        "scale-up (one shared queue)",
        "scale-up, ring rts",
        "SoCC'19: scale-up peaks at 4 cores",
        "rings kept full",
    ),
    "S-F17a": (
        "Mean, 10 cores, bursts of up to 1",
        "99th percentile, 10 cores, bursts of up to 32",
        "SoCC'19: scale-up higher above 15 Mpps",
    ),
    "S-F17b": ("99th percentile, 10 cores", "scale-out (one queue per core)"),
    "S-F18": ("Forwarded by 10 logical cores (Mpps)", "SoCC'19: SMT pairs +45 % with scale-up", "SMT pairs"),
    "H-F3a": ("SQ (one queue)", "Relative to the fewest queues"),
}


def trials_at(points: Iterable[Mapping[str, Any]], repeats: int = 3) -> list[dict[str, Any]]:
    trials = []
    for levels, repeat in product(points, range(repeats)):
        point = ",".join(f"{name}={level}" for name, level in levels.items())
        trials.append(synthetic.trial(f"{point}:{repeat}", point, repeat, levels, pps=1e6 * (1 + repeat / 100)))
    return trials


def crossed(levels: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(levels, each, strict=True)) for each in product(*levels.values())]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("row", ROWS)
def test_a_full_run_is_drawn_beside_the_papers_values(row: str, tmp_path: Path) -> None:
    text = words(svg_of(run_of(tmp_path / "run", row, trials_at(crossed(LEVELS[row]))), row, tmp_path / "out"))
    for each in WORDS[row]:
        assert each in text


@pytest.mark.one_in(4)
@pytest.mark.parametrize("row", ROWS)
def test_one_point_with_one_trial_is_drawn(row: str, tmp_path: Path) -> None:
    point = {name: levels[0] for name, levels in LEVELS[row].items()}
    text = words(svg_of(run_of(tmp_path / "run", row, trials_at([point], 1)), row, tmp_path / "out"))
    assert "Mpps" in text


@pytest.mark.one_in(4)
@pytest.mark.parametrize("row", ROWS)
def test_a_run_without_trials_says_why(row: str, tmp_path: Path) -> None:
    reason = "needs 21 CPUs (10 workers, 10 dispatchers, 1 generator); this host has 2 to give"
    left_out = [{"point": "cores=10", "reason": reason, "factors": {"cores": 10}}]
    text = words(svg_of(run_of(tmp_path / "run", row, [], left_out=left_out), row, tmp_path / "out"))
    assert "could host none of its points" in text
    assert "needs 21 CPUs" in text


@pytest.mark.parametrize("row", ["S-F16", "S-F17a"])
def test_a_testbed_that_could_host_nothing_is_said_once(row: str, tmp_path: Path) -> None:
    left = [{"point": "cores=2", "reason": "needs 5 CPUs", "factors": {"cores": 2}}]
    text = words(svg_of(run_of(tmp_path / "run", row, [], left_out=left), row, tmp_path / "out"))
    assert text.count("needs 5 CPUs") == 2  # in the figure once, and in its caption


@pytest.mark.one_in(2)
@pytest.mark.parametrize("row", ["S-F13", "S-F16", "H-F3a", "S-F10a"])
def test_a_point_at_which_the_dut_kept_up_has_a_ring(row: str, tmp_path: Path) -> None:
    """Else a generator at its limit looks like cores that gain nothing."""
    levels = LEVELS.get(row, {"queues": [1, 8], "shape": ["SQ"]})
    trials = trials_at(crossed({name: found[:2] for name, found in levels.items()} | {"feed": ["wire"]}), 1)
    for saturate in (True, False):
        spec = {"parameters": {"saturate": saturate}}
        run = run_of(tmp_path / str(saturate), row, trials, spec=spec)
        text = words(svg_of(run, row, tmp_path / f"out-{saturate}"))
        assert ("ring: limit of the generator, not of the DUT" in text) == saturate


def test_intervals_of_shapes_at_one_number_of_queues_stand_beside_each_other(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", "H-F3a", trials_at(crossed(LEVELS["H-F3a"])))
    figure = figure_of("H-F3a")
    assert isinstance(figure, PaperFigure)
    absolute = figure.draw(figure.data(run)).axes[0]
    whiskers = [np.asarray(line.get_xdata())[0] for line in absolute.lines if len(np.asarray(line.get_xdata())) == 2]
    assert len(whiskers) == len(set(whiskers)) == 12
