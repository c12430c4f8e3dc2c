# SPDX-License-Identifier: BSD-3-Clause
"""Every row of the papers on one page: measured, modelled, a paper's table, or absent with the reason."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic_run as synthetic
from chromium import Chromium
from command_line import pollscope
from shipped_specs import shipped
from test_figures import poll_trials, tax_trials
from test_report_browser import CONTRASTS, CUT, LEAST_CONTRAST, UNFOLD, WIDTHS_PX

from pollscope.analysis.figures import figure_of
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.analysis.figures.model_error import ModelError, model_error
from pollscope.analysis.gallery import STATED, TESTED, PaperGallery, gallery_html, paper_gallery, paper_rows, table_of
from pollscope.analysis.papers import load_paper, rows_without_figure
from pollscope.base.names import figure_rows, papers
from pollscope.cli import modelled
from pollscope.cli.modelled import NO_MODEL, NOT_MODELLED, measured_runs, modelled_runs, models_of
from pollscope.models.hyperplane import chip, judged
from pollscope.spec import Overrides, known_specs, load_file
from pollscope.store.run_folder import RunFolder

AS_GIVEN: dict[str, Any] = {"overrides": {"quick": False, "set": []}}
REASONS = {"S-F12": "The model cannot compute it: `tx` has no <costs>."}


def _say_nothing(_text: str) -> None:
    pass


def run_of(folder: Path, row: str, trials: list[dict[str, Any]], **meta: Any) -> RunFolder:
    return synthetic.run_of(folder, trials, run_id=f"run-{folder.name}", row=row, rows=[row], **meta)


@pytest.fixture(scope="module", autouse=True)
def _specs_once() -> Iterator[None]:
    """Read each shipped spec once: three tests ask for all rows of a paper."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pollscope.analysis.gallery.load_file", shipped)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunFolder]:
    folder = tmp_path_factory.mktemp("runs")
    computed = [trial | {"modelled": True} for trial in poll_trials()]
    left_out = [{"point": "p", "reason": "no room for 16 cores", "factors": {}}]
    return [
        run_of(folder / "model", "S-F8", computed),
        run_of(folder / "poll", "S-F8", poll_trials()),
        run_of(folder / "tax", "S-F5", tax_trials()),
        run_of(folder / "wrong", "S-F9", [synthetic.trial("t", factors={"burst": 1})]),
        run_of(folder / "none", "S-F13", [], left_out=left_out),
    ]


@pytest.fixture(scope="module")
def galleries(runs: list[RunFolder]) -> list[PaperGallery]:
    return [paper_gallery(paper, runs, REASONS) for paper in papers()]


@pytest.fixture(scope="module")
def page(galleries: list[PaperGallery]) -> str:
    return gallery_html(galleries)


def test_every_row_of_every_paper_has_a_place() -> None:
    rows = [row for paper in papers() for row in paper_rows(paper)]
    assert len(rows) == len(set(rows))
    assert {row for row in figure_rows() if figure_of(row).paper is not None} <= set(rows)
    assert all(set(load_paper(paper).stated) <= set(paper_rows(paper)) for paper in papers())


def test_rows_are_measured_modelled_or_absent_with_the_reason(galleries: list[PaperGallery]) -> None:
    rows = {row.row: row for gallery in galleries for row in gallery.rows}
    badges = {name: [badge.kind for badge in row.badges] for name, row in rows.items()}
    assert badges["S-F8"] == ["measured", "modelled"]
    assert [figure.heading.rpartition("(")[2] for figure in rows["S-F8"].figures][1] == "modelled)"
    error = rows["S-F8"].figures[2]
    assert error.heading == "S-F8. The model against what was measured"
    # The modelled trials of this test are the measured ones.
    assert "Poll rate while running: 1 (1 to 1) at " in error.caption
    assert all(word in error.svg for word in ("measured", "modelled"))
    assert len(rows["S-F5"].figures) == 1, "no model computed its points"
    assert badges["S-F5"] == badges["I-LL"] == ["measured"]
    assert rows["I-LL"].badges[0].text == "the paper's table"
    assert rows["S-F9"].reason.startswith("The run run-wrong does not show it: it shows queues")
    assert "no room for 16 cores" in rows["S-F13"].reason
    assert rows["S-F12"].reason.startswith(f"{REASONS['S-F12']} `pollscope run S-F12` measures it (testbeds: ")
    assert rows["S-F12"].reason.endswith("so receiver and sender are equal.")  # as in data/reproductions.yaml
    assert rows["C-T2"].reason.startswith("No run of it is among those given. `pollscope run C-T2` measures it")
    assert ("peak throughput ratio mean", "4.1") in rows["H-F8"].stated
    for name, row in rows.items():
        assert bool(row.figures) != bool(row.reason), name
        assert (row.table is None) == (name not in rows_without_figure()), "no chip was asked"
        assert (badges[name] == ["absent"]) == (not row.figures and row.table is None), name


def test_a_run_that_could_not_count_what_the_row_shows_measures_nothing(tmp_path: Path) -> None:
    trials = [synthetic.trial(f"{load}", factors={"load_of_max": load}) for load in (0.0, 1.0)]
    run = run_of(tmp_path / "alone", "H-F11b", trials)
    rows = {row.row: row for row in paper_gallery("hyperplane", [run], {}).rows}
    assert [badge.kind for badge in rows["H-F11b"].badges] == ["absent"]
    assert rows["H-F11b"].figures == []
    assert rows["H-F11b"].reason.startswith("The run run-alone could not measure it: ")
    assert rows["H-FRONTIER"].title


@pytest.fixture(scope="module")
def error(tmp_path_factory: pytest.TempPathFactory) -> ModelError:
    """Return the error of a model that agrees."""
    folder = tmp_path_factory.mktemp("error")
    real = run_of(folder / "real", "S-F5", tax_trials())
    computed = run_of(folder / "computed", "S-F5", [trial | {"modelled": True} for trial in tax_trials()])
    figure = figure_of("S-F5")
    assert isinstance(figure, PaperFigure)
    found = model_error(figure, real, computed)
    assert found is not None
    return found


def test_the_error_of_a_share_is_a_difference(error: ModelError) -> None:
    """Of a tax of 0 there is no ratio, and leaving it out would flatter the model."""
    assert "Polling tax while running: modelled less measured, 0 to 0 percentage points at " in error.words()


def test_a_place_without_a_metric_shows_no_panel(error: ModelError) -> None:
    one = [each for each in error.differences if each.metric == error.differences[0].metric]
    three = [replace(each, metric=metric) for metric in ("rx_pps", "tx_pps", "poll_rate_running_hz") for each in one]
    figure = replace(error, differences=three).draw()
    assert [axes.get_visible() for axes in figure.axes] == [True, True, True, False]


def test_rows_without_a_figure_have_a_table(galleries: list[PaperGallery], page: str) -> None:
    rows = {row.row: row for gallery in galleries for row in gallery.rows}
    badges = {name: [badge.text for badge in rows[name].badges] for name in rows_without_figure()}
    assert badges == {"C-ALG": [TESTED], "H-API": [TESTED], "I-DIAG": [STATED]}
    for name, known in rows_without_figure().items():
        row = rows[name]
        assert (row.title, row.reason) == (known.title, known.shown_by)
        assert row.table is not None and {len(line) for line in row.table.lines} == {len(row.table.columns)}
        assert f'aria-label="{name} in a table"' in page


@pytest.mark.parametrize(
    ("row", "code", "tests"),
    [
        ("C-ALG", "apps/pmd/corec_protocol.h", ("tests/test_corec.py", "apps/tests/driver_corec.c")),
        ("H-API", "apps/qwait/qwait.h", ("tests/test_qwait.py", "apps/tests/unit_qwait.c")),
    ],
)
def test_the_functions_and_tests_of_each_step_exist(
    checkout: Path, row: str, code: str, tests: tuple[str, ...]
) -> None:
    _, table = table_of(row)
    assert table.columns[-2:] == ["here", "shown by"]
    source, shown = (checkout / code).read_text(), "".join((checkout / name).read_text() for name in tests)
    for *_, here, by in table.lines:
        functions, named = re.findall(r"`(\w+)\(\)`", here), re.findall(r"`(\w+)`", by)
        assert functions and all(re.search(rf"^\w.*\b{name}\(", source, re.MULTILINE) for name in functions), here
        assert named and all(f" {name}(" in shown for name in named), by


def test_the_papers_four_findings_stand_in_its_diagnosis() -> None:
    _, table = table_of("I-DIAG")
    said = {stage: (one, two, source) for stage, one, two, source in table.lines}
    assert [stage for stage, (_, two, _) in said.items() if two.startswith("may limit")] == [
        "work requests",
        "IOTLB walks",
        "IIO queueing",
        "NIC's MTT cache",
    ]
    assert said["PCIe tags"][1].startswith("does not limit")
    for finding in (1, 2, 3, 4):
        assert any(f"section 4.1, finding {finding}" in source for _, _, source in said.values())


def test_the_contents_say_what_each_row_is(galleries: list[PaperGallery], page: str) -> None:
    socc19 = next(gallery for gallery in galleries if gallery.name == "socc19")
    found = [(badge.kind, rows) for badge, rows in socc19.by_badge()]
    assert dict(found)["modelled"] == ["S-F8"]
    assert {"S-F5", "S-F8"} <= set(dict(found)["measured"])
    assert found[-1][0] == "absent"
    assert page.count("<h4>") == len(socc19.rows[[row.row for row in socc19.rows].index("S-F8")].figures) == 3


@pytest.mark.parametrize("machine", modelled.MACHINES)
def test_no_machine_fixes_a_factor_that_the_row_sweeps(machine: str) -> None:
    """A chip whose cores take one packet at a time is asked for rows that sweep bursts, too."""
    loaded = load_file(known_specs()["S-F17a"], modelled.overrides_of("S-F17a", machine))
    assert loaded.spec.levels["burst"] == (1, 32)


def test_statements_on_the_chip_stand_in_their_rows() -> None:
    gallery = paper_gallery("hyperplane", [], {}, judged(chip(), ["H-F8", "H-F11a"]))
    rows = {row.row: row for row in gallery.rows}
    assert [badge.kind for badge in rows["H-F8"].badges] == ["modelled"]
    tables = {name: row.table for name, row in rows.items()}
    assert tables["H-F8"] is not None and tables["H-F11a"] is not None
    ((statement, allowed, found, verdict, lever),) = tables["H-F8"].lines
    assert statement.endswith(": 4.1")
    assert (allowed, found, verdict, lever) == ("3.7 to 4.5", "5.27", "disagrees", "poll_ns is 170: 130 would do")
    assert tables["H-F11a"].lines[0][1] == "1 or more"
    assert (tables["H-F12"], [badge.kind for badge in rows["H-F12"].badges]) == (None, ["absent"])
    assert "poll_ns is 170: 130 would do" in gallery_html([gallery])


def test_the_page_stands_alone_and_is_escaped(page: str) -> None:
    outside = re.findall(r'(?:src|href)="(?!#|data:)([^"]*)"', page)
    assert [link for link in outside if not link.startswith("http://www.w3.org/")] == []
    assert page.count("<script") == page.count("</script") == 1, "the figures' own"
    assert "<code>tx</code> has no &lt;costs&gt;." in page
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(identifiers)


def test_recorded_runs_stand_in_for_rows_that_were_not_measured_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ("S-F5", "S-F8", "C-T2")
    assert {run.meta["row"] for run in measured_runs(None, rows)} == set(rows)
    synthetic.write_run(tmp_path / "results" / "s" / "r", poll_trials(), row="S-F8", rows=["S-F8"], run_id="own")
    ids = {str(run.meta["row"]): run.run_id for run in measured_runs(None, rows)}
    assert set(ids) == set(rows)
    assert ids["S-F8"] == "own"


def test_the_model_computes_what_it_can_once_and_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ("factors.queues=[1]", "factors.shape=[FB]", "trial.window=2 ms", "trial.warmup=1 ms")
    monkeypatch.setattr(modelled, "OVERRIDES", Overrides(True, (*small, "repeats={count: 1}")))
    said: list[str] = []
    found, reasons = modelled_runs(["S-F9", "I-LL"], tmp_path, said.append)
    assert [run.modelled for run in found] == [True]
    assert reasons == {}  # the page itself names rows without a spec
    again, _ = modelled_runs(["S-F9"], tmp_path, said.append)
    assert [run.run_id for run in again] == [run.run_id for run in found]
    assert len(said) == 1
    monkeypatch.setattr(modelled, "OVERRIDES", Overrides(True))
    found, reasons = modelled_runs(["C-F7"], tmp_path, said.append)
    assert (found, reasons) == ([], {"C-F7": NO_MODEL})


def test_a_row_without_costs_of_any_machine_gives_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modelled, "MACHINES", {"model": ()})
    found, reasons = modelled_runs(["C-T3"], tmp_path, _say_nothing)
    assert found == []
    assert reasons["C-T3"].startswith(f"{NOT_MODELLED} no point is left: model.yaml has no costs of workload ipsec")


@pytest.mark.thorough
def test_hyperplane_and_the_xeon_are_computed_by_their_own_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modelled, "OVERRIDES", Overrides(True, ("trial.window=1 ms", "repeats={count: 1}")))
    found, reasons = modelled_runs(["C-T3", "H-F13"], tmp_path, _say_nothing)
    assert [run.meta["testbed"]["name"] for run in found] == ["model-xeon-4110", "model-hyperplane"]
    assert reasons == {}


@pytest.mark.thorough
def test_models_are_held_against_the_points_of_measured_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    measured = measured_runs(None, ["S-F8"])
    computed = models_of(measured, tmp_path, _say_nothing)
    assert [run.modelled for run in computed] == [True]
    queues = [{trial["factors"]["queues"] for trial in run.trials} for run in (*measured, *computed)]
    # The measured run has more queues than the model knows costs for.
    assert queues[1] <= queues[0]
    assert max(queues[1]) >= 512
    old = synthetic.run_of(tmp_path / "old", poll_trials(), row="S-F8", spec_text="format: 0", **AS_GIVEN)
    assert models_of([old], tmp_path, _say_nothing) == []


@pytest.mark.thorough
def test_the_command_writes_one_page(tmp_path: Path) -> None:
    done = pollscope("gallery", "--no-model", "--out", "page.html", cwd=tmp_path)
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", ["page.html"])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<p class="tally">' in text
    assert all(f'id="row-{row}"' in text for paper in papers() for row in paper_rows(paper))
    assert re.search(r"\b2\d virtual NIC", text)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    refused = pollscope("gallery", "--out", "page.pdf", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


@pytest.mark.thorough
def test_a_paper_is_drawn_row_by_row(tmp_path: Path) -> None:
    """Without a run: the newest of each spec below ./results, and what is recorded of others."""
    run_of(tmp_path / "results/s/own", "S-F8", poll_trials())
    done = pollscope("figures", "--paper", "socc19", "--no-model", "--out", "drawn", cwd=tmp_path)
    assert done.returncode == 0
    assert "run-own" in (tmp_path / "drawn/S-F8.svg").read_text(encoding="utf-8")
    assert {"S-F5.svg", "S-F8.png", "S-F10a.csv"} <= {Path(line).name for line in done.stdout.split()}
    absent = dict(line.split(": ", 1) for line in done.stderr.splitlines())
    recorded = {str(run.meta["row"]) for run in measured_runs(None, paper_rows("socc19"))}
    recorded -= {"S-F5w"}  # which has no figure of the paper
    assert set(absent) == set(paper_rows("socc19")) - recorded
    assert all(reason.startswith("absent. ") for reason in absent.values())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("width_px", WIDTHS_PX)
def test_the_page_fits_its_window(chromium: Chromium, page: str, width_px: int) -> None:
    assert chromium.measured(page, width_px, UNFOLD + CUT % ".wide, pre, .skip") == []


def test_the_page_can_be_read_in_the_dark_and_heard(chromium: Chromium, page: str) -> None:
    dark = page.replace("(prefers-color-scheme: dark)", "all")
    found = chromium.measured(dark, WIDTHS_PX[2], UNFOLD + CONTRASTS)
    assert [(ratio, what) for ratio, what in found if ratio < LEAST_CONTRAST] == []
    script = """return [...document.querySelectorAll('figure svg')].map(svg =>
      [svg.getAttribute('aria-label'), document.getElementById(svg.getAttribute('aria-describedby')).textContent,
       svg.getBoundingClientRect().height]);"""
    figures = chromium.measured(page, WIDTHS_PX[2], script)
    assert len(figures) == len(re.findall(r"<figure ", page)) >= 5
    assert all(label and words and height > 100 for label, words, height in figures)
