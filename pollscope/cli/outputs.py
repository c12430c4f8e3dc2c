# SPDX-License-Identifier: BSD-3-Clause
"""Read where a command's files go: a folder, or one file whose ending gives its kind."""

from pathlib import Path

from pollscope.analysis.figures.files import FORMATS, Target
from pollscope.base.errors import UsageError


def figure_out(path: Path, with_caption: bool = True, keeps_absent: bool = False) -> Target:
    """Read `--out`: `x.pdf` is one PDF; a path without an image suffix is a folder.

    Raises:
        UsageError: an ending of another kind of file.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind in FORMATS:
        return Target(path.parent, path.stem, (kind,), with_caption, keeps_absent)
    if kind in ("jpg", "jpeg", "gif", "eps", "ps", "tif", "tiff", "webp", "html", "htm", "csv"):
        raise UsageError(f"figures are not written as {kind.upper()}", f"--out {path}", f"one of: {', '.join(FORMATS)}")
    return Target(path, "", FORMATS, with_caption, keeps_absent)


def page_out(path: Path) -> Path:
    """Read `--out` of a page, which is an HTML file."""
    if path.suffix.lower() not in (".html", ".htm"):
        remedy = "name a file that ends in .html; a browser prints it as a PDF"
        raise UsageError("the report is one HTML page", f"--out {path}", remedy)
    return path
