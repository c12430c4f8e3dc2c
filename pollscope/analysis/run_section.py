# SPDX-License-Identifier: BSD-3-Clause
"""Prepare the section of one run in the report: cautions, verdicts, figures, points, host; lists and text, no HTML."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from pollscope.analysis.claims import Verdict, evaluate_run
from pollscope.analysis.claims.evaluate import rows_of
from pollscope.analysis.claims.reasons import pages
from pollscope.analysis.collected import Delivery, MeansTable, deliveries, means_tables
from pollscope.analysis.compare import compare_knobs
from pollscope.analysis.explain import Diagnosis, explain_run
from pollscope.analysis.figures import InlineFigure, figures_of, inline_comparison, inline_svg, refused_figures
from pollscope.analysis.figures.style import GRID, INK, MUTED, PAPER
from pollscope.analysis.host_metadata import HostMetadata
from pollscope.analysis.host_state import HostStateTable, host_state_table
from pollscope.analysis.papers import citation
from pollscope.analysis.point_values import (
    Level,
    absence,
    by_point,
    data_of,
    factors,
    level_rank,
    levels_text,
    measured,
)
from pollscope.analysis.quality import Caution, cautions, rules_text
from pollscope.analysis.searches import Throughput, throughputs
from pollscope.metrics.dictionary import metric_dictionary, report_tables
from pollscope.metrics.formulas.searched import SEARCHED
from pollscope.metrics.undisturbed import DISTURBED, UNDISTURBED
from pollscope.spec.points import level_text
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

# Colours of a figure that follow the page from light to dark.
_PAGE_COLOURS = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--line)", PAPER: "var(--paper)"}


@dataclass(frozen=True)
class DrawnFigure:
    """Hold a figure inside the page; `words` describe it to readers who cannot see it."""

    heading: str
    name: str
    svg: Markup
    caption: str
    words: str


@dataclass(frozen=True)
class PointTable:
    """Hold the points of a run by rising levels, with the metrics of a kind that at least one point has.

    Each row has its `levels` as text, `n` trials, and `cells` by metric; `constants` are the levels that all share.
    """

    title: str
    factors: list[str]
    constants: str
    metrics: list[str]
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class RunSection:
    """Hold the content of the page about one run."""

    run: RunFolder
    name: str
    title: str
    rows: list[str]
    mark: str
    cautions: list[Caution]
    verdicts: list[Verdict]
    whys: list[str]
    pages: list[str]
    differs: list[str]
    citation: str
    figures: list[DrawnFigure]
    tables: list[PointTable]
    limits: list[Diagnosis]
    throughputs: list[Throughput]
    collectors: list[Delivery]
    collected: list[MeansTable]
    host_state: HostStateTable
    left_out: list[dict[str, Any]]
    bad_trials: list[dict[str, Any]]
    absences: list[tuple[str, str]]
    metadata: list[tuple[str, str]]
    spec_text: str


def run_section(run: RunFolder, number: int) -> RunSection:
    """Return the section of a run; `number` makes the ids of its figures unique on the page.

    Raises:
        UsageError: the run folder contradicts its formats.
    """
    table = current_table(run)
    verdicts = evaluate_run(run)
    papers = sorted({verdict.claim.paper for verdict in verdicts if verdict.claim.paper})
    bad = table[table["status"] != "ok"]
    explained = {verdict.claim.row for verdict in verdicts if verdict.why}  # which names the place, too
    return RunSection(
        run=run,
        name=", ".join(rows_of(run)) or str(run.meta["spec_name"]),
        title=str(run.meta.get("title") or run.meta["spec_name"]),
        rows=rows_of(run),
        mark=run_mark(run, table),
        cautions=[*cautions(run, table), *(Caution("figure", text) for text in refused_figures(run))],
        verdicts=verdicts,
        whys=list(dict.fromkeys(verdict.why for verdict in verdicts if verdict.why)),
        pages=pages(verdict.claim.row for verdict in verdicts if verdict.claim.row not in explained),
        differs=list(dict.fromkeys(line for verdict in verdicts for line in verdict.differs)),
        citation="; ".join(citation(paper) for paper in papers),
        figures=_figures(run, number),
        tables=[found for shown in report_tables().items() if (found := _points(table, *shown)).rows],
        throughputs=throughputs(run),
        collectors=deliveries(run),
        collected=means_tables(run),
        host_state=host_state_table(run),
        left_out=list(run.meta.get("left_out", [])),
        bad_trials=[
            {str(key): value for key, value in row.items()}
            for row in bad[["trial", "status", "reason"]].to_dict("records")
        ],
        absences=_absences(table, bool(run.meta.get("collectors"))),
        metadata=_metadata(run),
        spec_text=str(run.meta.get("spec_text", "")),
        limits=explain_run(run, table),
    )


def run_mark(run: RunFolder, table: pd.DataFrame) -> str:
    """Return the origin of a run's numbers: modelled, from emulated parts, or from hardware."""
    if bool(table["modelled"].any()):
        return "modelled"
    metadata = HostMetadata(run.meta)
    return "emulated machines" if metadata.emulated else "virtual NIC" if metadata.virtual_nic else "hardware"


def _figures(run: RunFolder, number: int) -> list[DrawnFigure]:
    """Return the figures of a run, and one per knob that compares the levels to which the run set it."""
    found = [
        drawn(inline_svg(figure, run), figure.heading, f"r{number}-{figure.row.lower()}") for figure in figures_of(run)
    ]
    for knob, (name, differences) in enumerate(compare_knobs(run).items()):
        inline = inline_comparison(differences, run)
        found.append(drawn(inline, f"Levels of {name}, all else equal", f"r{number}-compare-{knob}"))
    return found


def drawn(inline: InlineFigure, heading: str, name: str) -> DrawnFigure:
    """Return a figure as a part of a page; `name`, which is of our own making, keeps its ids apart from others."""
    return DrawnFigure(heading, name, Markup(_embedded(inline.svg, name, heading)), inline.caption, inline.words)


def _embedded(svg: str, name: str, heading: str) -> str:
    """Return an SVG for the page: unique ids, colours of the page, a name for screen readers, no XML prologue."""
    prefix = f"{name}-"
    svg = re.sub(r"<style.*?</style>", "", svg[svg.index("<svg") :], flags=re.DOTALL)  # style.css.j2 has it
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}", svg)
    svg = re.sub(r'(xlink:href|href)="#', rf'\1="#{prefix}', svg)
    for colour, variable in _PAGE_COLOURS.items():
        svg = svg.replace(colour, variable)
    # Width and height of paper give way to the page's; the view box keeps the proportions.
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1, flags=re.DOTALL)
    label = f'aria-label="{Markup.escape(heading)}" aria-describedby="{prefix}words"'
    return svg.replace("<svg", f'<svg role="img" {label}', 1)


def _points(table: pd.DataFrame, title: str, metrics: Sequence[str]) -> PointTable:
    data = measured(table)
    # An undisturbed metric says something of its own where trials were disturbed.
    idle = {name for name in UNDISTURBED if not (data[f"absent.{name}"] == DISTURBED).any()}
    present = [name for name in metrics if data[f"metric.{name}"].notna().any() and name not in idle]
    names = factors(data)
    several = [name for name in names if data[f"factor.{name}"].nunique(dropna=False) > 1]
    rows: dict[tuple[tuple[str, Level], ...], dict[str, Any]] = {}
    for name in present:
        for sample in by_point(data, name):
            row = rows.setdefault(tuple(sample.levels.items()), {"n": len(sample.values), "cells": {}})
            found, text = sample.estimate, metric_dictionary()[name].text
            interval = (
                f"{text(found.low)} to {text(found.high)}" if found.has_interval and found.low != found.high else ""
            )
            row["cells"][name] = {"value": text(found.value), "interval": interval}

    def rank(levels: tuple[tuple[str, Level], ...]) -> list[tuple[bool, tuple[float, str]]]:
        known = dict(levels)  # points without a level of a factor come first
        return [(name in known, level_rank(known[name]) if name in known else (0.0, "")) for name in several]

    ranked = sorted(rows, key=rank)
    constants = {name: level for name, level in dict(ranked[0]).items() if name not in several} if ranked else {}
    texts = ({name: level_text(name, level) for name, level in levels} for levels in ranked)
    shown = [rows[levels] | {"levels": text} for levels, text in zip(ranked, texts, strict=True)]
    return PointTable(title, several, levels_text(constants), present, shown)


def _absences(table: pd.DataFrame, collected: bool) -> list[tuple[str, str]]:
    """Return absent metrics; those of collectors only if the run had any, or every page would list them all."""
    data = measured(table)
    if data.empty:
        return []
    metrics = metric_dictionary().metrics
    rows = {
        name: data_of(table, name) if name in SEARCHED else data
        for name in metrics
        if collected or metrics[name].group != "counted"
    }
    return [(name, absence(data, name)) for name, data in rows.items() if data[f"metric.{name}"].isna().all()]


def _metadata(run: RunFolder) -> list[tuple[str, str]]:
    """Return host, build, node, knobs and noise as name and text, with nested values as JSON."""
    found = [("pollscope", str(run.meta.get("pollscope", ""))), ("format", str(run.meta["format"]))]
    found.append(("rules of judgement", rules_text(run)))
    for part in ("host", "build", "node_hello", "testbed", "overrides", "seed", "noise", "maxima"):
        value = run.meta.get(part)
        if isinstance(value, Mapping):
            found += [(f"{part}: {name}", _text(inner)) for name, inner in value.items()]
        elif value is not None:
            found.append((part, _text(value)))
    return [*found, *_knob_metadata(run)]


def _knob_metadata(run: RunFolder) -> list[tuple[str, str]]:
    """Return the state of each knob before and after the run, once if it is the same."""
    before, after = (run.meta.get(f"knobs_{when}") or {} for when in ("before", "after"))
    found: list[tuple[str, str]] = []
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) == after.get(name):
            found.append((f"knob {name}, before and after", _text(before[name])))
        else:
            sides = (("before", before), ("after", after))
            found += [(f"knob {name}, {when}", _text(states[name])) for when, states in sides if name in states]
    return found


def _text(value: object) -> str:
    if isinstance(value, Mapping) and set(value) == {"absent"}:
        return f"absent, because {value['absent']}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
