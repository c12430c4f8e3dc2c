# SPDX-License-Identifier: BSD-3-Clause
"""What every HTML page has in common: its templates and filters, and that it is there whole or not at all."""

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from pollscope.base.replacing import written

TEMPLATES = Path(__file__).parent / "templates"


def environment() -> Environment:
    """Templates of pages, which escape what they are given."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["with_code"] = with_code
    return made


def with_code(text: str) -> Markup:
    """The text escaped, with what stands between backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def write_page(html: str, target: Path) -> Path:
    """Writes a page by atomic replacement and returns its path.

    Raises:
        HostError: the file cannot be written.
    """
    with written(target) as new:
        new.write_text(html, encoding="utf-8")
    return target
