# SPDX-License-Identifier: BSD-3-Clause
"""Render the HTML pages: escaped text, one style and one script that the page's own policy allows, written at once."""

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from pollscope.analysis.figures.files import font_face
from pollscope.base.replacing import written

TEMPLATES = Path(__file__).parent / "templates"


def page_html(template: str, svgs: str, filters: dict[str, Any] | None = None, **values: Any) -> str:
    """Return a self-contained page whose text is escaped.

    Its Content-Security-Policy admits the page's own style and script by their hashes. A script that gets into the page
    in spite of the escaping does not run, and the page loads nothing from elsewhere.
    """
    pages = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"with_code": with_code} | (filters or {})
    style = (font_face(svgs) if svgs else "") + pages.get_template("style.css.j2").render()
    script = (TEMPLATES / "figures.js").read_text(encoding="utf-8")
    policy = (
        "default-src 'none'; img-src data:; font-src data:; base-uri 'none'; form-action 'none'; "
        # matplotlib sets the colours of its marks by style attributes, which can load nothing under this policy.
        f"style-src-attr 'unsafe-inline'; style-src-elem {_hash(style)}; script-src {_hash(script)}"
    )
    return pages.get_template(template).render(policy=policy, style=Markup(style), script=Markup(script), **values)


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def with_code(text: str) -> Markup:
    """Return the text escaped, with the parts between backticks as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def write_page(html: str, target: Path) -> Path:
    """Write a page by atomic replacement and return its path."""
    with written(target) as new:
        new.write_text(html, encoding="utf-8")
    return target
