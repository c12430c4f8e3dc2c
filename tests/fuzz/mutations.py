# SPDX-License-Identifier: BSD-3-Clause
"""Edit a tool's output: characters, lines, cells of tables, and JSON documents.

Character edits alone rarely get past a header; edits that keep the shape (a column left out everywhere, a value of
another kind in a JSON document) reach what comes behind it.
"""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

SPICE = (
    "",
    ",",
    ";",
    "\n",
    "\r",
    "\t",
    "|",
    "-1",
    "-1.00",
    "nan",
    "-nan%",
    "inf",
    "N/A",
    "-2147483648",
    "18446744073709551615",
    "281474976710656",
    "1e999",
    "1e-7",
    "{",
    "}",
    '"',
    "(Total)",
    "\x1b[2J",
    "\0",
    "é",
    "١٢",
    "999999999999999999999999",
    "<not counted>",
    "<not supported>",
    " K",
    "  30 M ",
    "%",
    "::",
    "1_0",
    "0x1f",
    "007",
    "+5",
    "1,234",
    "0,85",
)
ODD_JSON: tuple[Any, ...] = (None, True, -1, 1e308, float("nan"), "", "x", "12", [], [1], {}, {"name": 3}, 2**64, 0.5)
_DELIMITERS = ",;|\t"
Edit = Callable[[random.Random, str], str]


def mutate(source: random.Random, text: str, others: list[str]) -> str:
    """Apply one to six random edits; sometimes rows of another output of the same tool come in between."""
    for _ in range(source.randint(1, 6)):
        text = source.choice(EDITS)(source, text)
    if source.random() < 0.05:
        text = _spliced(source, text, source.choice(others))
    return text


def _spiced(source: random.Random, text: str) -> str:
    place, length = source.randrange(len(text) + 1), source.randint(0, 8)
    return text[:place] + source.choice(SPICE) + text[place + length :]


def _one_character(source: random.Random, text: str) -> str:
    place = source.randrange(len(text) + 1)
    return text[:place] + chr(source.randrange(1, 0x250)) + text[place + 1 :]


def _line_again(source: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    lines.insert(source.randrange(len(lines)), source.choice(lines))
    return "".join(lines)


def _line_gone(source: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    del lines[source.randrange(len(lines))]
    return "".join(lines)


def _cut_off(source: random.Random, text: str) -> str:
    """Cut the text off, mostly near the end, so that the header stays."""
    keep = source.randrange(len(text) + 1) if source.random() < 0.2 else len(text) - source.randint(0, 200)
    return text[: max(keep, 0)]


def _other_numbers(source: random.Random, text: str) -> str:
    share = source.random()
    return re.sub(
        r"\d+",
        lambda found: str(source.randrange(10 ** min(len(found[0]) + 1, 25))) if source.random() < share else found[0],
        text,
    )


def _split(line: str) -> tuple[str | None, list[str]]:
    """Return delimiter and cells; None: by blanks."""
    delimiter = max(_DELIMITERS, key=line.count)
    return (delimiter, line.split(delimiter)) if delimiter in line else (None, line.split())


def _cell_edit(source: random.Random, text: str) -> str:
    """Replace, double, drop or exchange one cell in one line."""
    lines = text.split("\n")
    place = source.randrange(len(lines))
    delimiter, cells = _split(lines[place])
    if not cells:
        return text
    one, other, what = source.randrange(len(cells)), source.randrange(len(cells)), source.randrange(4)
    if what == 0:
        cells[one] = source.choice(SPICE)
    elif what == 1:
        cells.insert(one, cells[other])
    elif what == 2:
        del cells[one]
    else:
        cells[one], cells[other] = cells[other], cells[one]
    lines[place] = (" " if delimiter is None else delimiter).join(cells)
    return "\n".join(lines)


def _column_edit(source: random.Random, text: str) -> str:
    """Drop, double or empty one column in every line that has it, as another version of the tool may."""
    column, what, lines = source.randrange(40), source.randrange(3), []
    for line in text.split("\n"):
        delimiter, cells = _split(line)
        if delimiter is not None and column < len(cells):
            cells[column : column + 1] = [[], [cells[column]] * 2, [""]][what]
        lines.append(line if delimiter is None else delimiter.join(cells))
    return "\n".join(lines)


def _other_delimiter(source: random.Random, text: str) -> str:
    old, new = source.sample([",", ";", "\t", "|", " "], 2)
    return text.replace(old, new)


def _json_edit(source: random.Random, text: str) -> str:
    """Change the kind of a value, or remove or add a key, in one document (a line, or the whole)."""
    lines = text.split("\n")
    places = [index for index, line in enumerate(lines) if line.lstrip().startswith("{")]
    place = source.choice(places) if places else 0
    for whole in (False, True):
        try:
            document = json.loads(text if whole else lines[place])
        except (ValueError, RecursionError):
            continue
        edit_node(source, document)
        if whole:
            return json.dumps(document)
        lines[place] = json.dumps(document)
        return "\n".join(lines)
    return text


def edit_node(source: random.Random, node: Any, odd: Sequence[Any] = ODD_JSON) -> None:
    """Descend at random and change one entry."""
    while isinstance(node, (dict, list)) and node:
        key = source.choice(list(node)) if isinstance(node, dict) else source.randrange(len(node))
        if not isinstance(node[key], (dict, list)) or not node[key] or source.random() < 0.2:
            what = source.randrange(4)
            if what == 0:
                del node[key]
            elif what == 1 and isinstance(node, dict):
                node[source.choice(["name", "x", "", "é"])] = node.pop(key)
            else:
                node[key] = source.choice(odd)
            return
        node = node[key]


def _spliced(source: random.Random, text: str, other: str) -> str:
    lines, more = text.splitlines(keepends=True), other.splitlines(keepends=True)
    place, first = source.randrange(len(lines) + 1), source.randrange(len(more) + 1)
    return "".join(lines[:place] + more[first : first + source.randint(1, 20)] + lines[place:])


EDITS: tuple[Edit, ...] = (
    _spiced,
    _one_character,
    _line_again,
    _line_gone,
    _cut_off,
    _other_numbers,
    _cell_edit,
    _cell_edit,
    _column_edit,
    _other_delimiter,
    _json_edit,
)
