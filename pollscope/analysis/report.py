# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained HTML page about runs: warnings first, then verdicts, figures, claims, points, host."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from pollscope import __version__
from pollscope.analysis.claims import Verdict, evaluate_run
from pollscope.analysis.claims.evaluate import rows_of
from pollscope.analysis.collected import Delivery, MeansTable, deliveries, means_tables
from pollscope.analysis.compare import compare_knobs
from pollscope.analysis.figures import figures_of, inline_comparison, inline_svg, refused_figures
from pollscope.analysis.figures.files import font_face
from pollscope.analysis.figures.style import GRID, INK, MUTED, PAPER
from pollscope.analysis.ground import GroundTable, ground_table
from pollscope.analysis.host_facts import HostFacts
from pollscope.analysis.papers import citation
from pollscope.analysis.point_values import absence, by_point, data_of, factors, levels_text, measured
from pollscope.analysis.quality import Caution, cautions, left_out, rules_text
from pollscope.analysis.searches import Throughput, throughputs
from pollscope.base.errors import HostError
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

TEMPLATES = Path(__file__).parent / "templates"
# Colours of a figure that follow the page from light to dark.
PAGE_COLOURS = {INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--line)", PAPER: "var(--paper)"}
POINT_METRICS = (
    "tax_share_running",
    "tax_share",
    "interrupted_share",
    "useful_share",
    "tax_share_ovs",
    "tax_share_testpmd",
    "poll_rate_running_hz",
    "poll_rate_hz",
    "rx_pps",
    "tx_pps",
    "offered_pps",
    "imissed_share",
    "loss_share",
    "cycles_per_packet_all",
    "sweep_time_ns",
    "latency_p50_ns",
    "latency_p99_ns",
    "ipc",
    "corunner_rate_running_hz",
    "corunner_rate_hz",
    "corunner_bytes_per_s",
    "corunner_hop_ns",
    "corunner_ipc",
    "ipc_with_corunner",
    "corunner_frequency_hz",
)
LATENCY_METRICS = (
    "latency_floor_ns",
    *(f"latency_{statistic}_ns" for statistic in ("mean", "p50", "p90", "p99", "p999", "max")),
    *(f"latency_sent_{statistic}_ns" for statistic in ("mean", "p50", "p90", "p99", "p999", "max")),
)
ORDER_METRICS = (
    "loss_share",
    "lossy_flows_share",
    "worst_flow_loss_share",
    "duplicated_share",
    "reordered_share",
    "reordered_by_3_share",
    "reordering_extent_mean",
    "reordering_extent_p99",
    "reordering_extent_max",
    "reordering_distance_mean",
    "reordering_distance_max",
)
# Titles as a reader sees them; each table has the metrics that at least one point has.
TABLES = {"Every point": POINT_METRICS, "Latency": LATENCY_METRICS, "Loss and order": ORDER_METRICS}


@dataclass(frozen=True)
class DrawnFigure:
    """A figure inside the page."""

    heading: str
    title: str
    svg: Markup
    caption: str


@dataclass(frozen=True)
class PointTable:
    """Every point of a run with those metrics of a kind that at least one point has."""

    title: str
    factors: list[str]
    metrics: list[str]
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class RunSection:
    """All that the page says about one run."""

    run: RunFolder
    title: str
    rows: list[str]
    mark: str
    cautions: list[Caution]
    verdicts: list[Verdict]
    differs: list[str]
    citation: str
    figures: list[DrawnFigure]
    tables: list[PointTable]
    throughputs: list[Throughput]
    collectors: list[Delivery]
    collected: list[MeansTable]
    ground: GroundTable
    left_out: list[dict[str, Any]]
    bad_trials: list[dict[str, Any]]
    absences: list[tuple[str, str]]
    facts: list[tuple[str, str]]
    spec_text: str


def write_report(runs: Sequence[RunFolder], target: Path) -> Path:
    """Write the page and return its path.

    Raises:
        UsageError: a run folder contradicts its formats.
        HostError: the file cannot be written.
    """
    html = report_html(runs)
    new = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        new.write_text(html, encoding="utf-8")
        new.replace(target)
    except OSError as error:
        raise HostError(f"cannot be written: {error.strerror}", str(target), "choose another file with --out") from None
    return target


def report_html(runs: Sequence[RunFolder]) -> str:
    """The page as text; everything that comes from a run is escaped."""
    sections = [_section(run, number) for number, run in enumerate(runs)]
    letters = "".join(figure.svg for section in sections for figure in section.figures)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("report.html.j2")
    fonts = Markup(font_face(letters)) if letters else ""
    return page.render(sections=sections, version=__version__, fonts=fonts, metrics=metric_dictionary().metrics)


def _section(run: RunFolder, number: int) -> RunSection:
    table = current_table(run)
    verdicts = evaluate_run(run)
    papers = sorted({verdict.claim.paper for verdict in verdicts if verdict.claim.paper})
    return RunSection(
        run=run,
        title=str(run.meta.get("title") or run.meta["spec_name"]),
        rows=rows_of(run),
        mark=_mark(run, table),
        cautions=[*cautions(run, table), *(Caution("figure", text) for text in refused_figures(run))],
        verdicts=verdicts,
        differs=list(dict.fromkeys(line for verdict in verdicts for line in verdict.differs)),
        citation="; ".join(citation(paper) for paper in papers),
        figures=[*_figures(run, number), *_comparisons(run, number)],
        tables=[found for title in TABLES if (found := _points(table, title)).rows],
        throughputs=throughputs(run),
        collectors=deliveries(run),
        collected=means_tables(run),
        ground=ground_table(run),
        left_out=left_out(run),
        bad_trials=_bad_trials(table),
        absences=_absences(table, bool(run.meta.get("collectors"))),
        facts=_facts(run),
        spec_text=str(run.meta.get("spec_text", "")),
    )


def _mark(run: RunFolder, table: pd.DataFrame) -> str:
    if bool(table["modelled"].any()):
        return "modelled"
    facts = HostFacts(run.meta)
    return "emulated machines" if facts.emulated else "emulated NIC" if facts.virtual_nic else "hardware"


def _figures(run: RunFolder, number: int) -> list[DrawnFigure]:
    found = []
    for figure in figures_of(run):
        svg, caption = inline_svg(figure, run)
        prefix = f"r{number}-{figure.row.lower()}-"
        drawn = Markup(_embedded(svg, prefix, figure.title))
        found.append(DrawnFigure(figure.heading, figure.title, drawn, caption))
    return found


def _comparisons(run: RunFolder, number: int) -> list[DrawnFigure]:
    """The sides of each knob that the run turned to a few levels."""
    found = []
    for knob, differences in compare_knobs(run).items():
        title = f"Levels of {knob}, all else equal"
        svg, caption = inline_comparison(differences, run)
        drawn = Markup(_embedded(svg, f"r{number}-compare-{knob}-", title))
        found.append(DrawnFigure(title, title, drawn, caption))
    return found


def _embedded(svg: str, prefix: str, title: str) -> str:
    """SVG as a part of the page: own ids, colours of the page, a name for screen readers, no XML prologue."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}", svg)
    svg = re.sub(r'(xlink:href|href)="#', rf'\1="#{prefix}', svg)
    for colour, variable in PAGE_COLOURS.items():
        svg = svg.replace(colour, variable)
    # Width and height of paper give way to the page's; the view box keeps the proportions.
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1, flags=re.DOTALL)
    return svg.replace("<svg", f'<svg role="img" aria-label="{Markup.escape(title)}"', 1)


def _points(table: pd.DataFrame, title: str) -> PointTable:
    data = measured(table)
    present = [name for name in TABLES[title] if data[f"metric.{name}"].notna().any()]
    rows: dict[str, dict[str, Any]] = {}
    for name in present:
        for sample in by_point(data, name):
            label = levels_text(sample.levels) or "all"
            row = rows.setdefault(
                label, {"label": label, "levels": sample.levels, "n": len(sample.values), "cells": {}}
            )
            row["cells"][name] = _cell(name, sample.estimate.value, sample.estimate.low, sample.estimate.high)
    return PointTable(title, factors(data), present, list(rows.values()))


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
    """Absent metrics; those of collectors only when the run had any, or every page would list them all."""
    if measured(table).empty:
        return []
    metrics = metric_dictionary().metrics
    rows = {name: data_of(table, name) for name in metrics if collected or metrics[name].group != "counted"}
    return [(name, absence(data, name)) for name, data in rows.items() if data[f"metric.{name}"].isna().all()]


def _facts(run: RunFolder) -> list[tuple[str, str]]:
    """Host, build, node, knobs and noise as name and text, nested values as JSON."""
    parts = (
        "host",
        "build",
        "node_hello",
        "testbed",
        "overrides",
        "seed",
        "noise",
        "maxima",
        "knobs_before",
        "knobs_after",
    )
    found = [("pollscope", str(run.meta.get("pollscope", ""))), ("format", str(run.meta["format"]))]
    found.append(("rules of judgement", rules_text(run)))
    for part in parts:
        value = run.meta.get(part)
        if isinstance(value, Mapping):
            found += [(f"{part}: {name}", _text(inner)) for name, inner in value.items()]
        elif value is not None:
            found.append((part, _text(value)))
    return found


def _text(value: object) -> str:
    if isinstance(value, Mapping) and set(value) == {"absent"}:
        return f"absent, because {value['absent']}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
