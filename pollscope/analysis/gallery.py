# SPDX-License-Identifier: BSD-3-Clause
"""Show every row of the papers on one page: drawn from the available runs, or absent with the reason."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pollscope import __version__
from pollscope.analysis.claims.evaluate import rows_of
from pollscope.analysis.claims.model import load_claims
from pollscope.analysis.claims.reasons import known_reasons
from pollscope.analysis.explain import RuleOutcome, explain_paper
from pollscope.analysis.figures import figure_of, inline_model_error, inline_svg, inline_table, model_error
from pollscope.analysis.figures.data import no_data
from pollscope.analysis.figures.figure import PaperFigure, TableFigure
from pollscope.analysis.page import page_html
from pollscope.analysis.papers import EVERY_ROW, citation, load_paper, rows_without_figure
from pollscope.analysis.point_values import factors, measured
from pollscope.analysis.run_section import DrawnFigure, drawn, run_mark
from pollscope.base.names import figure_rows, papers
from pollscope.base.units import human_number
from pollscope.spec import known_specs, load_file
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

# Reason for a row of which pollscope has only claims or values.
_NO_SPEC = "No spec of it ships with pollscope, so there is nothing to run yet."
_RANK = {"measured": 0, "modelled": 1, "absent": 2}
_CHIP_COLUMNS = ("statement", "allowed", "on the chip", "verdict", "what would have to differ")
_OUTCOMES = {
    RuleOutcome.LIMITS: "limits",
    RuleOutcome.OPEN: "may limit",
    RuleOutcome.CLEAR: "does not limit",
    RuleOutcome.ABSENT: "absent",
}
_NOT_GIVEN = "No run of it is among those given."
ABSENT, STATED, MODELLED, TESTED = "absent", "the paper's table", "modelled", "held by tests"
_ON_CHIP = "The paper's statements on its modelled chip (`docs/results.md#hyperplane`): nothing here is measured."
_PAPER = "intra-host paper"  # in the sources of stages


@dataclass(frozen=True)
class Badge:
    """The origin of a shown row (measured, modelled, absent): its word and its CSS class."""

    text: str

    @property
    def kind(self) -> str:
        """Return `modelled`, `absent`, or `measured`, which stands for every result of a run on a machine."""
        return self.text if self.text in (ABSENT, MODELLED) else "measured"


@dataclass(frozen=True)
class WordTable:
    """A table of words: what it shows, its columns, and its lines."""

    caption: str
    columns: Sequence[str]
    lines: list[tuple[str, ...]]


@dataclass(frozen=True)
class GalleryRow:
    """Hold one row of a paper, with a badge per figure or `absent`, and the reason why there is no figure.

    `stated` are the paper's values as name and text, `table` its statements on a modelled chip, or its steps.
    """

    row: str
    title: str
    badges: list[Badge]
    figures: list[DrawnFigure]
    reason: str = ""
    stated: list[tuple[str, str]] = field(default_factory=list)
    table: WordTable | None = None


@dataclass(frozen=True)
class PaperGallery:
    """The rows of one paper."""

    name: str
    short: str
    citation: str
    rows: list[GalleryRow]

    def by_badge(self) -> list[tuple[Badge, list[str]]]:
        """Return each badge with its rows: measured ones first, absent ones last."""
        found: dict[Badge, list[str]] = {}
        for row in self.rows:
            for badge in row.badges:
                found.setdefault(badge, []).append(row.row)
        return sorted(found.items(), key=lambda each: _RANK[each[0].kind])


def paper_rows(paper: str) -> list[str]:
    """Return the rows of a paper: those with a figure in their order, then those without."""
    drawn_rows = [row for row in figure_rows() if figure_of(row).paper == paper]
    claimed = [claim.row for claim in load_claims() if claim.paper == paper]
    known = load_paper(paper)
    named = [*known.without_figure, *(row for row in known.stated if row != EVERY_ROW)]
    return list(dict.fromkeys([*drawn_rows, *claimed, *named]))


def runs_of_rows(rows: Sequence[str], runs: Sequence[RunFolder]) -> dict[str, list[RunFolder]]:
    """Return row -> the runs with data that its figure can show, measured before modelled."""
    found: dict[str, list[RunFolder]] = {row: [] for row in rows}
    for run in sorted(runs, key=lambda each: each.modelled):
        for row in rows_of(run):
            if row in found and not _misfit(row, run):
                found[row].append(run)
    return found


def first_measured(by_row: Mapping[str, Sequence[RunFolder]]) -> list[RunFolder]:
    """Return the first measured run of each row, without duplicates: models are compared with these."""
    firsts = (next((run for run in own if not run.modelled), None) for own in by_row.values())
    return list({run.path: run for run in firsts if run is not None}.values())


def why_absent(row: str, runs: Sequence[RunFolder], reasons: Mapping[str, str]) -> str:
    """Return why a row has no figure; `reasons`: row -> why no run of it could be made here."""
    if row in rows_without_figure():
        return f"It is no figure. {rows_without_figure()[row].shown_by}"
    for run in runs:
        if row in rows_of(run) and (misfit := _misfit(row, run)):
            return f"The run {run.run_id} does not show it: {misfit}."
    if row not in known_specs():
        return _NO_SPEC
    where = ", ".join(each for each in load_file(known_specs()[row]).spec.testbeds if each != "model")
    measures = f"`pollscope run {row}` measures it{f' (testbeds: {where})' if where else ''}."
    needs = known_reasons().get(row) or ""
    return " ".join(each for each in (reasons.get(row, _NOT_GIVEN), measures, needs) if each)


def _misfit(row: str, run: RunFolder) -> str:
    figure = figure_of(row) if row in figure_rows() else None
    if not isinstance(figure, PaperFigure):
        return "pollscope draws no figure of this row from runs"
    data = measured(current_table(run))
    if data.empty:
        return no_data(run)
    return figure.misfit({name: data[f"factor.{name}"].nunique() for name in factors(data)})


def paper_gallery(
    paper: str, runs: Sequence[RunFolder], reasons: Mapping[str, str], judged: Sequence[Mapping[str, Any]] = ()
) -> PaperGallery:
    """Return every row of a paper, drawn from runs, with its statements on a modelled chip (models.hyperplane)."""
    known, rows = load_paper(paper), paper_rows(paper)
    by_row = runs_of_rows(rows, runs)
    shown = [_row(row, by_row[row], runs, reasons, known.stated.get(row, {})) for row in rows]
    for place, row in enumerate(shown):
        if statements := [_chip_line(each) for each in judged if each["row"] == row.row]:
            # Without figures the row counts as modelled.
            badges = row.badges if row.figures else [Badge(MODELLED)]
            shown[place] = replace(row, badges=badges, table=WordTable(_ON_CHIP, _CHIP_COLUMNS, statements))
    return PaperGallery(paper, known.short, citation(paper), shown)


def _row(
    row: str,
    own: Sequence[RunFolder],
    runs: Sequence[RunFolder],
    reasons: Mapping[str, str],
    stated: Mapping[str, object],
) -> GalleryRow:
    figure = figure_of(row) if row in figure_rows() else None
    title = figure.title if figure is not None else _asked(row)
    texts = [(name.replace("_", " "), str(value)) for name, value in stated.items()]
    if isinstance(figure, TableFigure):
        table = drawn(inline_table(figure), f"{row}. {title}", f"g-{row.lower()}")
        return GalleryRow(row, title, [Badge(STATED)], [table], "", texts)
    if row in rows_without_figure():
        badge, steps = table_of(row)
        return GalleryRow(row, title, [badge], [], rows_without_figure()[row].shown_by, texts, steps)
    if figure is None or not own:
        return GalleryRow(row, title, [Badge(ABSENT)], [], why_absent(row, runs, reasons), texts)
    inlines = [(run, inline_svg(figure, run)) for run in own]
    shown = [(run, inline, run_mark(run, current_table(run))) for run, inline in inlines if not inline.absent]
    if not shown:
        run, inline = inlines[0]
        reason = f"The run {run.run_id} could not measure it: {inline.absent}."
        return GalleryRow(row, title, [Badge(ABSENT)], [], reason, texts)
    figures = [
        drawn(inline, f"{figure.heading} ({mark})", f"g{number}-{row.lower().replace('.', '-')}")
        for number, (_, inline, mark) in enumerate(shown)
    ]
    figures += _error(figure, [run for run, _, _ in shown])
    marks = dict.fromkeys(mark for _, _, mark in shown)
    return GalleryRow(row, title, [Badge(mark) for mark in marks], figures, "", texts)


def table_of(row: str) -> tuple[Badge, WordTable]:
    """Return the table of a row without a figure: its steps and their tests, or what limits by its paper's numbers."""
    known = rows_without_figure()[row]
    if known.steps:
        return Badge(TESTED), WordTable(known.title, known.columns, [tuple(each) for each in known.steps])
    (paper,) = (paper for paper in papers() if row in load_paper(paper).without_figure)
    points = explain_paper(paper)
    stages = zip(*(point.findings for point in points), strict=True)
    lines = [
        (at[0].stage, *(f"{_OUTCOMES[each.kind]}: {'; '.join(each.evidence)}" for each in at), at[0].source)
        for at in stages
        if _PAPER in at[0].source
    ]
    return Badge(STATED), WordTable(known.title, ["stage", *(point.label for point in points), "source"], lines)


def _asked(row: str) -> str:
    """Return the title of a row without a figure, or of its spec; empty where there is none."""
    if row in rows_without_figure():
        return rows_without_figure()[row].title
    return load_file(known_specs()[row]).spec.title if row in known_specs() else ""


def _chip_line(each: Mapping[str, Any]) -> tuple[str, ...]:
    interval = f" ({human_number(each['low'])} to {human_number(each['high'])})" if each["low"] < each["high"] else ""
    ends = [human_number(each[end]) for end in ("from", "to")]
    between = " to ".join(dict.fromkeys(ends))
    allowed = between if math.isfinite(each["to"]) else f"{ends[0]} or more"
    lever = ""
    if "lever" in each:
        value = each["would_do"]
        would = "no value within a factor of ten suffices" if value is None else f"{human_number(value)} would do"
        lever = f"{each['lever']} is {human_number(each['is'])}: {would}"
    return each["statement"], allowed, f"{human_number(each['chip'])}{interval}", each["verdict"], lever


def _error(figure: PaperFigure, own: Sequence[RunFolder]) -> list[DrawnFigure]:
    """Draw measured and modelled values in one figure, where a row has both at the same points."""
    measured_first = [run for run in own if not run.modelled][:1]
    for real in measured_first:
        for computed in (run for run in own if run.modelled):
            if error := model_error(figure, real, computed):
                return [drawn(inline_model_error(error), error.heading, f"ge-{figure.row.lower().replace('.', '-')}")]
    return []


def gallery_html(galleries: Sequence[PaperGallery]) -> str:
    """Return the page as text; everything that comes from a run is escaped."""
    rows = [row for gallery in galleries for row in gallery.rows]
    badges = sorted((badge for row in rows for badge in row.badges), key=lambda badge: _RANK[badge.kind])
    counts = Counter(badge.text for badge in badges)
    letters = "".join(figure.svg for row in rows for figure in row.figures)
    return page_html(
        "gallery.html.j2",
        letters,
        papers=galleries,
        tally=list(counts.items()),
        version=__version__,
    )
