# SPDX-License-Identifier: BSD-3-Clause
"""Test a run without a paper row: its figures, its own claims, and its names on the command line."""

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic
from command_line import pollscope
from shipped_specs import EXPERIMENTS, shipped

from pollscope.analysis.claims import evaluate_run
from pollscope.analysis.figures import asked_figure, figure_of, figures_of, refused_figures, save_figure
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.files import Target
from pollscope.base.errors import UsageError
from pollscope.base.names import figure_rows
from pollscope.store.find import find_run, find_runs
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

SPEC_TEXT = "factors: {burst: [1, 8, 32], queues: [1, 2]}\n"
RISES = {
    "id": "rises",
    "statement": "Larger bursts carry more.",
    "metric": "rx_pps",
    "predicate": {"kind": "trend", "factor": "burst", "direction": "rises"},
}


def burst_trials(bursts: Sequence[int] = (1, 8, 32), queues: Sequence[int] = (1, 2)) -> list[dict[str, Any]]:
    return [
        trial
        for at in synthetic.crossed({"queues": queues, "burst": bursts})
        for trial in synthetic.repeated(at, 4, 1e5 * at["burst"] * at["queues"], 1e-4, queues=at["queues"])
    ]


def own_run(folder: Path, row: str | None = None, claims: Sequence[Any] = (), **meta: Any) -> RunFolder:
    spec = {"name": "bursts", "claims": list(claims), **meta.pop("spec", {})}
    rows = [] if row is None else [row]
    described = {"row": row, "rows": rows, "paper": None, "spec": spec, "spec_name": "bursts", "spec_text": SPEC_TEXT}
    return synthetic.run_of(folder, burst_trials(), **{**described, **meta})


def numbers(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_run_without_a_row_has_a_figure_of_its_first_factor(tmp_path: Path) -> None:
    run = own_run(tmp_path)
    assert current_table(run)["row"].isna().all()
    (figure,) = figures_of(run)
    assert figure.row == "rx_pps-tax_share_running-by-burst"
    assert figure.title == "Received by the DUT and polling tax while running against burst, by queues"


def test_the_spec_says_what_is_shown(tmp_path: Path) -> None:
    show = [{"x": "queues", "y": ["rx_pps"], "by": ["burst"], "title": "Mine"}]
    assert [figure.title for figure in figures_of(own_run(tmp_path, spec={"show": show}))] == ["Mine"]


def test_a_borrowed_row_refuses_a_figure_that_does_not_fit(tmp_path: Path) -> None:
    run = own_run(tmp_path, "S-F8")
    assert [figure.paper for figure in figures_of(run)] == [None]
    assert refused_figures(run) == [
        "The figure of S-F8 is not drawn: it has no place for the factor burst, so its lines would mix levels."
    ]
    (sentence,) = refused_figures(own_run(tmp_path / "load", "S-F5"))
    assert "it shows load_of_max, which this run does not have as a factor" in sentence


@pytest.mark.one_in(3)
@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_every_shipped_spec_fits_the_figure_of_its_row(path: Path) -> None:
    spec = shipped(path).spec
    swept = {name: len(levels) for name, levels in spec.levels.items()}
    figures = [figure_of(row) for row in spec.all_rows if row in figure_rows()]
    assert [each.misfit(swept) for each in figures if isinstance(each, PaperFigure)] == [""] * len(figures)


def test_the_command_draws_what_is_asked_for_with_its_numbers(tmp_path: Path) -> None:
    own_run(tmp_path / "results" / "bursts" / "20260101T000000Z-abcdef")
    done = pollscope(
        "figures", "latest", "--x", "burst", "--y", "rx_pps", "--by", "queues", "--ratio-to", "1", "--out", "o.pdf",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.endswith("pollscope: --ratio-to: 1 is a level of queues and burst (name the factor: queues=1)\n")
    arguments = ["--x", "burst", "--y", "rx_pps,tax_share", "--ratio-to", "burst=8", "--log", "x", "--width", "column"]
    done = pollscope("figures", "bursts", *arguments, "--no-caption", "--out", "o.pdf", cwd=tmp_path)
    assert (done.returncode, done.stdout.split()) == (0, ["o.pdf", "o.csv"])
    assert (tmp_path / "o.pdf").read_bytes().startswith(b"%PDF")
    ratios = [row for row in numbers(tmp_path / "o.csv") if row["metric"] == "rx_pps over that at burst 8"]
    by_levels = {(row["queues"], row["burst"]): float(row["value"]) for row in ratios}
    assert by_levels[("1", "32")] == pytest.approx(4, rel=0.01)
    assert by_levels[("2", "8")] == 1


@pytest.mark.thorough
def test_the_numbers_beside_a_figure_say_what_is_absent_and_why(tmp_path: Path) -> None:
    own_run(tmp_path / "run")
    done = pollscope("figures", "run", "--x", "burst", "--y", "ipc,rx_pps", "--out", "o.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    missing = [row for row in numbers(tmp_path / "o.csv") if row["absent"]]
    assert [(row["metric"], row["value"]) for row in missing] == [("ipc", "")]
    assert {(row["queues"], row["n"]) for row in numbers(tmp_path / "o.csv") if row["value"]} == {
        ("1", "4"),
        ("2", "4"),
    }
    done = pollscope("figures", "run", "--x", "burst", "--y", "ipc", "--out", "p.png", cwd=tmp_path)
    assert (done.returncode, [row["metric"] for row in numbers(tmp_path / "p.csv")]) == (0, ["ipc"])


def test_claims_of_the_spec_are_judged(tmp_path: Path) -> None:
    falls = {**RISES, "id": "falls", "predicate": {**RISES["predicate"], "direction": "falls"}}  # type: ignore[dict-item]
    found = [each.to_json() for each in evaluate_run(own_run(tmp_path, claims=[RISES, falls]))]
    verdicts = {each["claim"]: (each["row"], each["verdict"]) for each in found}
    assert verdicts == {"bursts.rises": (None, "agrees"), "bursts.falls": (None, "disagrees")}


def test_a_report_shows_own_figure_and_claims(tmp_path: Path) -> None:
    run = own_run(tmp_path / "run", claims=[RISES])
    done = pollscope("report", run.path, "--out", "page.html", cwd=tmp_path)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert done.returncode == 0
    assert "Received by the DUT and polling tax while running against burst, by queues" in page
    assert "Larger bursts carry more." in page
    assert "None" not in page.replace("NoneType", "").split("<h2>Host")[0]


def test_figures_that_differ_in_lines_or_held_levels_are_different_files(tmp_path: Path) -> None:
    run = own_run(tmp_path / "run")
    asked: tuple[dict[str, Any], ...] = ({}, {"by": ("queues",)}, {"at": {"queues": "1"}}, {"at": {"queues": "4"}})
    names = [asked_figure(run, {"x": "burst", "y": ("rx_pps",)} | each, narrow=False).row for each in asked]
    assert names == [
        "rx_pps-by-burst",
        "rx_pps-by-burst-lines-queues",
        "rx_pps-by-burst-at-queues-1",
        "rx_pps-by-burst-at-queues-4",
    ]


def test_runs_are_found_by_latest_folder_name_and_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = own_run(tmp_path / "results" / "bursts" / "20260101T000000Z-aaaaaa").path
    newest = own_run(tmp_path / "results" / "bursts" / "20260102T000000Z-aaaaaa").path
    other = own_run(tmp_path / "results" / "other" / "20260101T120000Z-b0b0b0").path
    monkeypatch.chdir(tmp_path)
    assert find_run("latest").resolve() == newest
    assert find_run("results/bursts").resolve() == newest
    assert find_run("BURSTS").resolve() == newest
    (tmp_path / "mine.yaml").write_text(
        "format: 1\nname: other\ntitle: t\nparameters: {saturate: true}\nfactors: {burst: [1]}\n"
    )
    assert find_run("mine.yaml").resolve() == other
    of_row = synthetic.write_run(
        tmp_path / "results" / "tax" / "20260101T000000Z-cccccc", burst_trials(), rows=["S-F5"]
    )
    assert find_run("s-f5").resolve() == of_row
    shutil.rmtree(of_row)
    assert find_run("20260101T120000Z-b0b0b0").resolve() == find_run("B0B0B0").resolve() == other
    assert [path.resolve() for path in find_runs("results")] == [newest, other]
    assert [find_run(word).resolve() for word in ("latest~1", "bursts~1", "latest~2")] == [other, first, first]
    with pytest.raises(UsageError, match="there is no run 2 before the newest"):
        find_run("bursts~2")
    assert [path.resolve() for path in find_runs([str(first), str(first)])] == [first]


def test_a_folder_means_the_measured_run_though_a_modelled_one_is_newer(tmp_path: Path) -> None:
    measured = own_run(tmp_path / "bursts" / "20260101T000000Z-aaaaaa").path
    model = own_run(tmp_path / "bursts" / "20260102T000000Z-aaaaaa").path
    meta = json.loads((model / "run.json").read_text())
    (model / "run.json").write_text(json.dumps(meta | {"testbed": meta["testbed"] | {"kind": "model"}}))
    assert find_runs(tmp_path) == find_runs(tmp_path / "bursts") == [measured]
    shutil.rmtree(measured)
    assert find_runs(tmp_path) == [model]


@pytest.mark.thorough
def test_a_row_means_its_newest_measured_run_and_says_so(tmp_path: Path) -> None:
    """A modelled run that is newer does not replace it; alone it is taken, and named as modelled."""
    folder = tmp_path / "results" / "tax"
    model = synthetic.write_run(
        folder / "20260102T000000Z-aaaaaa",
        burst_trials(),
        rows=["S-F5"],
        testbed={"name": "model", "kind": "model", "shared_tsc": False, "file": "model.yaml"},
    )
    alone = pollscope("claims", "S-F5", cwd=tmp_path)
    assert f"S-F5: results/tax/{model.name} (modelled: no measured run of it is here)" in alone.stderr
    measured = synthetic.write_run(folder / "20260101T000000Z-cccccc", burst_trials(), rows=["S-F5"])
    beside = pollscope("claims", "S-F5", cwd=tmp_path)
    assert f"S-F5: results/tax/{measured.name}\n" in beside.stderr


def test_of_several_runs_the_newest_of_each_spec_is_used(checkout: Path) -> None:
    runs = checkout / "data" / "runs"
    assert sorted(find_runs(runs)) == sorted(path.parent for path in runs.glob("*/run.json"))


@pytest.mark.parametrize(
    ("word", "complaint"),
    [("burst", "did you mean bursts?"), ("latest", "holds no run folder"), ("empty", "holds no run folder")],
)
def test_an_unknown_run_name_is_answered_with_a_hint(tmp_path: Path, word: str, complaint: str) -> None:
    if word == "burst":
        own_run(tmp_path / "results" / "bursts" / "20260101T000000Z-aaaaaa")
    (tmp_path / "empty").mkdir()
    done = pollscope("report", word, cwd=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr


def test_a_claim_in_run_json_that_no_spec_could_state_is_an_error(tmp_path: Path) -> None:
    run = own_run(tmp_path / "run", claims=[{"id": "x"}])
    done = pollscope("claims", run.path, "--json", cwd=tmp_path)
    assert done.returncode == 2
    assert "run.json: spec.claims: cannot be read" in done.stderr


@pytest.mark.thorough
def test_a_quick_run_without_a_shown_level_still_has_a_report(tmp_path: Path) -> None:
    show = [
        {"x": "queues", "y": ["rx_pps"], "at": {"burst": 4}, "title": "At four"},
        {"x": "burst", "y": ["rx_pps"], "ratio_to": "burst=4", "title": "Over four"},
    ]
    run = own_run(tmp_path / "run", spec={"show": show})
    figures, refused = figures_of(run), refused_figures(run)
    assert [figure.title for figure in figures] == [
        "Received by the DUT and polling tax while running against burst, by queues"
    ]
    assert refused == [
        "The figure 'At four' that the spec asks for is not drawn: burst has no level '4'.",
        "The figure 'Over four' that the spec asks for is not drawn: no point is at '4'.",
    ]
    assert refused_figures(run, "socc19") == []
    done = pollscope("report", "run", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "burst has no level" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def zipped_run(folder: Path, **spec: Any) -> RunFolder:
    trials = [
        {**record, "factors": {**record["factors"], "rx_desc": 1024 // record["factors"]["burst"]}}
        for record in burst_trials(queues=(1,))
    ]
    described = {"name": "bursts", "zip": [["burst", "rx_desc"]], **spec}
    meta: dict[str, Any] = {"row": None, "rows": [], "paper": None, "spec": described, "spec_text": SPEC_TEXT}
    return synthetic.run_of(folder, trials, **meta)


def test_a_ratio_along_zipped_factors_has_every_point(tmp_path: Path) -> None:
    run = zipped_run(tmp_path, show=[{"x": "burst", "y": ["rx_pps"], "ratio_to": "burst=1"}])
    (figure,) = figures_of(run)
    save_figure(figure, run, Target(tmp_path, "ratio", ("svg",), with_caption=False))
    ratios = [row for row in numbers(tmp_path / "ratio.csv") if row["unit"] == "ratio"]
    assert [round(float(row["value"])) for row in ratios] == [1, 8, 32]


def test_a_factor_zipped_with_x_makes_no_lines(tmp_path: Path) -> None:
    assert asked_figure(zipped_run(tmp_path), {"x": "rx_desc", "y": ("rx_pps",)}, narrow=False).title == (
        "Received by the DUT against rx desc"
    )
