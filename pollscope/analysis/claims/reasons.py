# SPDX-License-Identifier: BSD-3-Clause
"""Read why results of a row differ from its paper, if experiments have shown it (data/reproductions.yaml)."""

from collections.abc import Iterable
from functools import cache

from ruamel.yaml import YAML

from pollscope.base.paths import data_folder

PAGE = "docs/results.md"
# The section of the page on a paper, by the letter that begins the paper's rows.
_SECTIONS = {"S": "socc19", "C": "corec", "H": "hyperplane", "I": "intrahost"}


@cache
def known_reasons() -> dict[str, str | None]:
    """Return the reason of each row in a sentence; None if no experiment has shown one."""
    text = (data_folder("data") / "reproductions.yaml").read_text(encoding="utf-8")
    return dict(YAML(typ="safe").load(text))


def anchor(row: str) -> str:
    """Return the section on the row's paper, `docs/results.md#socc19`; empty for rows of no paper."""
    return f"{PAGE}#{_SECTIONS[row[0]]}" if row in known_reasons() else ""


def reason(row: str) -> str:
    """Return why a claim of a row may disagree here, with a link to the experiments; empty for rows of no paper."""
    if row not in known_reasons():
        return ""
    return f"{known_reasons()[row] or 'no experiment has shown a cause yet.'} ({anchor(row)})"


def pages(rows: Iterable[str]) -> list[str]:
    """Return one line per row of a paper with a link to its experiments, whatever its verdicts are."""
    known = [row for row in dict.fromkeys(rows) if anchor(row)]
    return [f"Experiments on {row}, here and on modelled machines: {anchor(row)}" for row in known]
