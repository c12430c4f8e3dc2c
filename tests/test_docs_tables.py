# SPDX-License-Identifier: BSD-3-Clause
"""Check that generated tables of docs/, and figures in texts, match the code, recorded runs and the modelled chip."""

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ruamel.yaml import YAML

from pollscope.analysis.papers import load_paper
from pollscope.base.errors import UsageError
from pollscope.base.names import papers
from pollscope.models.hyperplane import chip, statements
from pollscope.store.run_folder import read_meta

CHECKOUT = Path(__file__).resolve().parent.parent
DOCS = CHECKOUT / "docs"
SLOW = ("reproduce.md", "results.md")  # judging all recorded runs takes a minute
# Rows that are done, and that lack CPUs or a firm verdict; their runs are judged within seconds.
CROSS_SECTION = {"S-F10b": "done", "C-T4": "CPUs", "H-F3b": "firm verdict"}
# Page, text, the recorded run's row and metric, its point, the point that it is divided by, and the unit.
MEASURED: Sequence[tuple[str, str, str, str, dict[str, Any], dict[str, Any], float]] = (
    (
        "README.md",
        "8.0 % of its cycles are polling tax at half load (4.7 to 11.2, n = 9)",
        *("TAX", "tax_share_running", {"queues": 8, "load_of_max": 0.5}, {}, 0.01),
    ),
    (
        "README.md",
        "1.2 % at full load (0.5 to 1.8, n = 9)",
        *("TAX", "tax_share_running", {"queues": 8, "load_of_max": 1.0}, {}, 0.01),
    ),
    (
        "docs/results.md",
        "1.0015 (1.0002 to 1.0028; n = 7) of the time of one",
        *("C-T5", "flow_completion_mean_ns", {"cores": 2}, {"cores": 1}, 1.0),
    ),
)
# A line of docs/results.md, and how the statement about the chip begins (data/chip-statements.yaml).
ON_CHIP = (
    ("| H-F8 | QWAIT over spinning, mean | 4.1 | 5.3 |", "throughput of QWAIT over spinning, mean of tasks", 1.0),
    ("| QWAIT over spinning, PC, saturation | 1.23 | 1.40 |", "PC: saturation of QWAIT over spinning", 1.0),
    ("QWAIT shared over separate | 1.11 | 1.10 |", "PC, imbalance of 10 %: QWAIT scale-up over QWAIT", 1.0),
    ("FB, half load, p99 | 3.2 | 9.1 (8.3 to 9.9) |", "FB, half load: tail of spinning over QWAIT", 1.0),
    ("spinning over C1 without load, p99 | 8.9 | 10.1 (9.1 to 11.0) |", "zero load: tail of spinning over", 1.0),
    ("software ready set, PC | less severe | 81 % left |", "PC: the same, less severe than FB", 0.01),
)
NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", DOCS / "tables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(path.name, marks=pytest.mark.thorough if path.name in SLOW else ())
        for path in sorted(DOCS.glob("*.md"))
    ],
)
def test_the_tables_of_a_page_match_the_code(tables: ModuleType, page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert tables.with_tables(text) == text, "make tables"


@pytest.mark.parametrize("row", CROSS_SECTION)
def test_a_line_matches_the_recorded_runs(tables: ModuleType, row: str) -> None:
    """Check lines of three rows, because all take a minute."""
    (body,) = (body for _, body, _ in tables.VERDICTS.findall(text_of("docs/reproduce.md")) if f"| {row} |" in body)
    head, *lines = body.splitlines()
    (line,) = (line for line in lines if line.startswith(f"| {row} |"))
    assert tables.with_verdicts(line, head) == line, "make tables"
    assert line.split("|")[-3].strip() == CROSS_SECTION[row]


def test_what_decides_a_row_has_the_numbers_of_its_run(tables: ModuleType) -> None:
    words = YAML(typ="safe").load(DOCS / "recorded-runs.yaml")["S-F10b"]
    assert f"| S-F10b | {tables.filled(words)} |" in text_of("docs/results.md"), "make tables"
    why = "one core keeps {C-T2.one-core-loses-nothing} of the standard path's rate on VM-R"
    assert tables.filled(why) in text_of("data/reproductions.yaml")


def test_every_table_stands_on_one_page(tables: ModuleType) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    found = [each[2] for each in tables.PLACE.finditer(pages)]
    assert sorted(found) == sorted(tables.TABLES)


def test_every_row_of_a_paper_has_a_line(tables: ModuleType) -> None:
    """All rows but those of our own stand in docs/reproduce.md; a row that is no figure has a table in the gallery."""
    rows = {row for paper in papers() for row in load_paper(paper).setup if row != "every row"}
    rows |= {row for paper in papers() for row in load_paper(paper).without_figure}
    assert rows <= tables.rows_of_tables()


def test_every_recorded_run_has_a_line(tables: ModuleType) -> None:
    shown = tables.rows_of_tables() | set(re.findall(r"^\| ([^|,]*) \|", text_of("docs/results.md"), re.MULTILINE))
    for path in tables.RUNS.glob("*"):
        meta = read_meta(path)
        assert {meta["row"], meta["spec_name"]} & shown, path.name


def test_a_machine_without_a_name_is_refused(tables: ModuleType) -> None:
    (path,) = tables.recorded()["S-F10b"]
    meta = read_meta(path)
    assert tables.machine_of(meta) == "VM-R"
    meta["host"]["caches"]["L3"] *= 2
    with pytest.raises(UsageError, match="no machine has an L2 of 512 KiB and an LLC of 64 MiB"):
        tables.machine_of(meta)


@pytest.mark.parametrize(
    ("needs", "missing"),
    [("SMT, 5 to 21 CPUs", "SMT"), ("5 to 21 CPUs", "CPUs"), ("2 CPUs, PMU", "recorded run"), ("pair with x", "pair")],
)
def test_a_row_without_a_run_lacks_what_it_needs_first(tables: ModuleType, needs: str, missing: str) -> None:
    assert tables.done("S-F18", needs) == missing


@pytest.mark.parametrize("case", MEASURED, ids=lambda case: f"{case[0]}: {case[1]}")
def test_figures_in_texts_are_those_of_recorded_runs(
    tables: ModuleType, case: tuple[str, str, str, str, dict[str, Any], dict[str, Any], float]
) -> None:
    page, text, row, metric, levels, below, unit = case
    assert text in text_of(page).replace("\n", " ")
    (one,) = tables.points(row, metric, levels)
    found = one.over(*tables.points(row, metric, below)) if below else one.estimate
    compare(text, [found.value / unit, found.low / unit, found.high / unit, len(one.values)])


@pytest.mark.parametrize(("line", "statement", "unit"), ON_CHIP)
def test_figures_of_the_chip_are_those_of_the_model(line: str, statement: str, unit: float) -> None:
    assert line in text_of("docs/results.md")
    (found,) = (each.of(chip()) for each in statements() if each.text.startswith(statement))
    compare(line.split("|")[-2], [found.value / unit, found.low / unit, found.high / unit])


def text_of(page: str) -> str:
    return (CHECKOUT / page).read_text(encoding="utf-8")


def compare(text: str, found: Sequence[float]) -> None:
    """Compare each number of a text with what was found, at its own precision."""
    printed = NUMBER.findall(text)
    assert printed == [f"{value:.{len(word.partition('.')[2])}f}" for word, value in zip(printed, found, strict=False)]
