# SPDX-License-Identifier: BSD-3-Clause
"""Write one self-contained HTML page about runs: findings, cautions, contents, a section per run, glossary."""

from collections.abc import Sequence
from pathlib import Path

from pollscope import __version__
from pollscope.analysis.findings import by_chance, findings, folded, run_command, tally
from pollscope.analysis.page import page_html, write_page
from pollscope.analysis.point_values import factor_title
from pollscope.analysis.report_common import by_reason, common, glossary, page_title
from pollscope.analysis.run_section import run_section
from pollscope.store.run_folder import RunFolder


def write_report(runs: Sequence[RunFolder], target: Path) -> Path:
    """Write the page and return its path.

    Raises:
        UsageError: a run folder contradicts its formats.
        HostError: the file cannot be written.
    """
    return write_page(report_html(runs), target)


def report_html(runs: Sequence[RunFolder]) -> str:
    """Return the page as text; everything that comes from a run is escaped."""
    sections = [run_section(run, number) for number, run in enumerate(runs)]
    verdicts = [verdict for section in sections for verdict in section.verdicts]
    return page_html(
        "report.html.j2",
        "".join(figure.svg for section in sections for figure in section.figures),
        {
            "by_reason": by_reason,
            "factor_title": factor_title,
            "run_command": run_command,
            "tally": tally,
            "by_chance": by_chance,
        },
        sections=sections,
        common=common(sections),
        title=page_title(sections),
        verdicts=verdicts,
        findings=findings(runs),
        folded=folded(verdicts),
        lead=next((figure for section in sections for figure in section.figures), None),
        version=__version__,
        glossary=glossary(sections),
    )
