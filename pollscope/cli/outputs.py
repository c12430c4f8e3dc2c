# SPDX-License-Identifier: BSD-3-Clause
"""Read where a command's files go: a folder, or one file whose ending gives its kind."""

from dataclasses import dataclass
from pathlib import Path

from pollscope.analysis.figures.files import FORMATS, Target
from pollscope.base.errors import UsageError


@dataclass(frozen=True)
class Out:
    """`--out` of a command that draws figures.

    Attributes:
        folder: of the files.
        name: of the only figure, when a file was named.
        formats: endings.
        with_caption: whether captions stand below the figures.
        keeps_absent: whether panels without data stay, with the reason.
    """

    folder: Path
    name: str | None
    formats: tuple[str, ...]
    with_caption: bool = True
    keeps_absent: bool = False

    def target(self, name: str) -> Target:
        """Return the files of a figure, which is called `name` if the user gave no name."""
        return Target(self.folder, self.name or name, self.formats, self.with_caption, self.keeps_absent)


def figure_out(path: Path, with_caption: bool = True, keeps_absent: bool = False) -> Out:
    """Read `--out`: `x.pdf` is one PDF; a path without an image suffix is a folder.

    Raises:
        UsageError: an ending of another kind of file.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind in FORMATS:
        return Out(path.parent, path.stem, (kind,), with_caption, keeps_absent)
    if kind in ("jpg", "jpeg", "gif", "eps", "ps", "tif", "tiff", "webp", "html", "htm", "csv"):
        raise UsageError(f"figures are not written as {kind.upper()}", f"--out {path}", f"one of: {', '.join(FORMATS)}")
    return Out(path, None, FORMATS, with_caption, keeps_absent)


def page_out(path: Path) -> Path:
    """Read `--out` of a page.

    Raises:
        UsageError: it names a folder, or a file that is no HTML.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        remedy = "name a file that ends in .html; a browser prints it as a PDF"
        raise UsageError("the report is one HTML page", f"--out {path}", remedy)
    return path
