# SPDX-License-Identifier: BSD-3-Clause
"""One self-contained HTML page about runs: tally, cautions, contents, a section for each run, glossary."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from pollscope import __version__
from pollscope.analysis.figures.files import font_face
from pollscope.analysis.point_values import factor_title
from pollscope.analysis.report_common import by_reason, common, glossary, page_title, tally
from pollscope.analysis.run_section import run_section
from pollscope.base.errors import HostError
from pollscope.store.run_folder import RunFolder

TEMPLATES = Path(__file__).parent / "templates"


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
    sections = [run_section(run, number) for number, run in enumerate(runs)]
    letters = "".join(figure.svg for section in sections for figure in section.figures)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "by_reason": by_reason,
        "factor_title": factor_title,
        "tally": tally,
        "with_code": with_code,
    }
    return environment.get_template("report.html.j2").render(
        sections=sections,
        common=common(sections),
        title=page_title(sections),
        verdicts=[verdict for section in sections for verdict in section.verdicts],
        version=__version__,
        fonts=Markup(font_face(letters)) if letters else "",
        glossary=glossary(sections),
    )


def with_code(text: str) -> Markup:
    """The text escaped, with what stands between backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))
