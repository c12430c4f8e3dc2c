# SPDX-License-Identifier: BSD-3-Clause
"""Write figures as SVG, PDF and PNG files, and as SVG inside a page."""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib.font_manager as fonts
import pandas as pd
from fontTools import subset
from fontTools.ttLib import TTFont
from matplotlib.figure import Figure

from pollscope.analysis.figures.points import name_marks, titled
from pollscope.analysis.figures.style import FONT, PAPER, caption
from pollscope.base.errors import HostError
from pollscope.base.replacing import replacing

FORMATS = ("svg", "pdf", "png")
_PNG_DPI = 200
_MARGIN_INCH = 0.06
_WEIGHTS = ("normal", "bold")
_LATIN = frozenset(chr(code) for code in [*range(0x20, 0x7F), *range(0xA0, 0x100)])


@dataclass(frozen=True)
class Target:
    """Hold where a figure goes; panels without data are dropped, or stay with the reason (`keeps_absent`)."""

    folder: Path
    name: str
    formats: tuple[str, ...] = FORMATS
    with_caption: bool = True
    keeps_absent: bool = False

    def called(self, name: str) -> "Target":
        """Return the files of a figure, which have this name unless the user gave another."""
        return replace(self, name=self.name or name)


def save(figure: Figure, words: str, rows: Sequence[Mapping[str, Any]], target: Target) -> list[Path]:
    """Write a figure with its caption in every format, and its numbers as CSV; returns the paths.

    Raises:
        HostError: a file cannot be written.
    """
    if target.with_caption:
        caption(figure, words)
    folder = target.folder
    paths = [folder / f"{target.name}.{kind}" for kind in target.formats]
    data = folder / f"{target.name}.csv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(data) as new:
            pd.DataFrame(list(rows), dtype=object).to_csv(new, index=False)  # keep integers although a value is missing
        for path in paths:
            with replacing(path) as new:
                _draw(figure, new)
    except OSError as error:
        raise HostError(
            f"cannot be written: {error.strerror}", str(folder), "choose another folder with --out"
        ) from None
    return [*paths, data]


def _draw(figure: Figure, path: Path) -> None:
    if path.suffix == ".svg":
        svg = svg_text(figure, opaque=True)
        # Embed the used glyphs, so that it looks the same where the font is not installed.
        fonted = svg.replace("<defs>", f"<defs>\n  <style>{font_face(svg)}</style>", 1)
        path.write_text(fonted, encoding="utf-8")
        return
    # No date: the same data give the same file.
    extra = {"metadata": {"CreationDate": None}} if path.suffix == ".pdf" else {"dpi": _PNG_DPI}
    figure.savefig(path, bbox_inches="tight", pad_inches=_MARGIN_INCH, facecolor=PAPER, **extra)


def svg_text(figure: Figure, *, opaque: bool) -> str:
    """Return the figure as SVG without metadata; text stays text, and marks have titles."""
    buffer, marks = io.StringIO(), name_marks(figure)
    figure.savefig(
        buffer,
        format="svg",
        bbox_inches="tight",
        pad_inches=_MARGIN_INCH,
        facecolor=PAPER if opaque else "none",
        metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
    )
    return titled(re.sub(r"<metadata>.*?</metadata>\s*", "", buffer.getvalue(), flags=re.DOTALL), marks)


def font_face(text: str) -> str:
    """Return CSS with the figures' font as data URLs, reduced to Latin letters and the characters of `text`."""
    used = frozenset(character for character in text if character.isprintable()) | _LATIN
    return "".join(
        f"@font-face{{font-family:'{FONT}';font-weight:{weight};src:url(data:font/woff;base64,"
        f"{base64.b64encode(_subset(weight, used)).decode('ascii')}) format('woff')}}"
        for weight in _WEIGHTS
    )


@cache
def _subset(weight: str, characters: frozenset[str]) -> bytes:
    path = fonts.findfont(fonts.FontProperties(family=FONT, weight=weight))
    options = subset.Options(flavor="woff", layout_features=["kern"], name_IDs=[], notdef_outline=True)
    options.drop_tables += ["FFTM"]  # drop time stamps, of which fontTools would warn
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes={ord(character) for character in characters})
    font = TTFont(path, recalcTimestamp=False)
    cutter.subset(font)
    font.flavor = "woff"
    buffer = io.BytesIO()
    font.save(buffer)
    return buffer.getvalue()
