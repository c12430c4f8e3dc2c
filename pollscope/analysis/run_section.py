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
from pollscope.analysis.quality import Caution, cautions, left_out, rules_text
from pollscope.analysis.searches import Throughput, throughputs
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.formulas.searched import SEARCHED
from pollscope.metrics.undisturbed import DISTURBED, UNDISTURBED
from pollscope.spec.points import level_text
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

# Colours of a figure that follow the page from light to dark.
_PAGE_COLOURS = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--line)", PAPER: "var(--paper)"}
STATISTICS = ("mean", "p50", "p90", "p99", "p999", "max")
# Titles as a reader sees them, each table narrow enough for paper; it has the metrics that at least one point has.
TABLES = {
    "Cycles by point": (
        "tax_share_running",
        "tax_share",
        "interrupted_share",
        "useful_share",
        "tax_share_ovs",
        "tax_share_testpmd",
        "cycles_per_packet_all",
        "ipc",
    ),
    "Rates by point": (
        "poll_rate_running_hz",
        "undisturbed_poll_rate_hz",
        "poll_rate_hz",
        "sweep_time_ns",
        "rx_pps",
        "undisturbed_rx_pps",
        "tx_pps",
        "undisturbed_tx_pps",
        "offered_pps",
        "imissed_share",
        "loss_share",
    ),
    "Co-runner by point": (
        "corunner_rate_running_hz",
        "corunner_rate_hz",
        "corunner_bytes_per_s",
        "corunner_hop_ns",
        "corunner_ipc",
        "ipc_with_corunner",
        "corunner_frequency_hz",
    ),
    "Latency by point": ("latency_floor_ns", *(f"latency_{statistic}_ns" for statistic in STATISTICS)),
    "Latency since sending, by point": tuple(f"latency_sent_{statistic}_ns" for statistic in STATISTICS),
    "Latency by the NIC's clock, by point": (
        "latency_nic_mean_ns",
        "latency_nic_p50_ns",
        "latency_nic_p99_ns",
        "latency_nic_error_ns",
        "latency_beyond_nic_ns",
    ),
    "Loss by point": ("loss_share", "lossy_flows_share", "worst_flow_loss_share", "duplicated_share"),
    "Order by point": (
        "reordered_share",
        "reordered_total_share",
        "displaced_share",
        "displacement_mean",
        "reordered_by_3_share",
        "reordering_extent_mean",
        "reordering_extent_p99",
        "reordering_extent_max",
        "reordering_distance_mean",
        "reordering_distance_max",
    ),
}


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
    """Return the points of a run by rising levels, with the metrics of a kind that at least one point has.

    Attributes:
        title: what the table is about.
        factors: those that differ between points, one column each.
        constants: the levels that all points share, in words.
        metrics: one column each.
        rows: of each point its `levels` as text, `n` trials, and `cells` by metric.
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
    return _section(run, number, table)


def _section(run: RunFolder, number: int, table: pd.DataFrame) -> RunSection:
    verdicts = evaluate_run(run)
    papers = sorted({verdict.claim.paper for verdict in verdicts if verdict.claim.paper})
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
        figures=[*_figures(run, number), *_comparisons(run, number)],
        tables=[found for title in TABLES if (found := _points(table, title)).rows],
        throughputs=throughputs(run),
        collectors=deliveries(run),
        collected=means_tables(run),
        host_state=host_state_table(run),
        left_out=left_out(run),
        bad_trials=_bad_trials(table),
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
    found = []
    for figure in figures_of(run):
        inline = inline_svg(figure, run)
        found.append(drawn(inline, figure.heading, f"r{number}-{figure.row.lower()}"))
    return found


def _comparisons(run: RunFolder, number: int) -> list[DrawnFigure]:
    """Return a figure per knob that compares the levels to which the run set it."""
    found = []
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


def _points(table: pd.DataFrame, title: str) -> PointTable:
    data = measured(table)
    present = [name for name in TABLES[title] if data[f"metric.{name}"].notna().any() and _is_shown(data, name)]
    names = factors(data)
    several = [name for name in names if data[f"factor.{name}"].nunique(dropna=False) > 1]
    rows: dict[tuple[tuple[str, Level], ...], dict[str, Any]] = {}
    for name in present:
        for sample in by_point(data, name):
            row = rows.setdefault(tuple(sample.levels.items()), {"n": len(sample.values), "cells": {}})
            row["cells"][name] = _cell(name, sample.estimate.value, sample.estimate.low, sample.estimate.high)
    ranked = sorted(rows, key=lambda levels: _rank(dict(levels), several))
    constants = {name: level for name, level in dict(ranked[0]).items() if name not in several} if ranked else {}
    texts = ({name: level_text(name, level) for name, level in levels} for levels in ranked)
    shown = [rows[levels] | {"levels": text} for levels, text in zip(ranked, texts, strict=True)]
    return PointTable(title, several, levels_text(constants), present, shown)


def _is_shown(data: pd.DataFrame, name: str) -> bool:
    """Return whether a metric says something of its own: an undisturbed one where trials were disturbed."""
    return name not in UNDISTURBED or bool((data[f"absent.{name}"] == DISTURBED).any())


def _rank(levels: Mapping[str, Level], names: Sequence[str]) -> list[tuple[bool, tuple[float, str]]]:
    """Return the rank of a point in a table: by its first factor, then by its second; points without a level first."""
    return [(name in levels, level_rank(levels[name]) if name in levels else (0.0, "")) for name in names]


def _cell(name: str, value: float, low: float, high: float) -> dict[str, str]:
    text = metric_dictionary()[name].text
    interval = f"{text(low)} to {text(high)}" if low != high and low > -float("inf") else ""
    return {"value": text(value), "interval": interval}


def _bad_trials(table: pd.DataFrame) -> list[dict[str, Any]]:
    bad = table[table["status"] != "ok"]
    return [
        {str(key): value for key, value in row.items()} for row in bad[["trial", "status", "reason"]].to_dict("records")
    ]


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
    parts = (
        "host",
        "build",
        "node_hello",
        "testbed",
        "overrides",
        "seed",
        "noise",
        "maxima",
    )
    found = [("pollscope", str(run.meta.get("pollscope", ""))), ("format", str(run.meta["format"]))]
    found.append(("rules of judgement", rules_text(run)))
    for part in parts:
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
