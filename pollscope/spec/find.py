# SPDX-License-Identifier: BSD-3-Clause
"""Finds specs by path, by folder, by name, or by paper row ("S-F5"), names and rows in any case."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pollscope.base.document import read_text
from pollscope.base.errors import UsageError
from pollscope.base.paths import data_folder

_SUFFIXES = (".yaml", ".yml")
# The keys at the top of a spec that name it, with the lines that belong to them.
_NAMING = re.compile(r"^(?:name|row|rows):.*\n?(?:[ \t#-].*\n?|\n)*", re.MULTILINE)


def find_specs(word: str) -> list[Path]:
    """Return the spec files that a word on the command line names.

    Raises:
        UsageError: nothing found; lists near misses.
    """
    path = Path(word)
    shipped = data_folder("experiments").parent / path
    if path.parts[:1] == ("experiments",) and not path.exists() and shipped.exists():  # outside a checkout
        path = shipped
    if not word.strip():
        raise UsageError("is not a spec", "''", "give a file, a folder, a row or a name")
    if word.lower() == "latest" or (path / "run.json").exists():
        raise UsageError("is a run, not a spec", word, f"`pollscope run --resume {word}` continues it")
    if path.is_dir():
        return _in_folder(path)
    if path.is_file():
        return [path]
    if path.is_symlink():
        raise UsageError("is a link to what is not there", word, f"it leads to {path.readlink()}")
    if path.suffix in _SUFFIXES or "/" in word:
        raise UsageError("there is no such spec", word, _near(path))
    known = known_specs()
    word = next((name for name in known if name.lower() == word.lower()), word)
    if word not in known:
        by_lower = {name.lower(): name for name in known}
        close = [by_lower[name] for name in get_close_matches(word.lower(), by_lower, n=3, cutoff=0.5)]
        rows = ", ".join(sorted(name for name in known if name[0].isupper()))
        close = [each.name for each in _beside(Path()) if each.stem.lower() == word.lower()] or close
        remedy = f"did you mean {' or '.join(close)}?" if close else f"rows: {rows}; or give a file"
        raise UsageError("is neither a file, a folder, nor a row or name of a spec", word, remedy)
    path = known[word]
    return [path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path]


def _in_folder(folder: Path) -> list[Path]:
    found = sorted(path for suffix in _SUFFIXES for path in folder.rglob(f"*{suffix}") if path.is_file())
    if not found:
        raise UsageError("the folder holds no spec (*.yaml)", str(folder), "`pollscope new NAME` writes one")
    return found


def _near(path: Path) -> str:
    """Return a remedy for a missing file: a file beside it with a similar name."""
    close = get_close_matches(path.name, [each.name for each in _beside(path.parent)], n=1)
    return f"did you mean {path.parent / close[0]}?" if close else f"`pollscope new {path.stem}` writes one"


def _beside(folder: Path) -> list[Path]:
    return [each for suffix in _SUFFIXES for each in sorted(folder.glob(f"*{suffix}"))]


def known_specs() -> dict[str, Path]:
    """Return the specs with this name or paper row, in this folder and among those that ship with pollscope."""
    return dict(_known())


def _known() -> Iterator[tuple[str, Path]]:
    folders = (Path("experiments"), data_folder("experiments"))
    for path in dict.fromkeys(path.resolve() for folder in folders for path in sorted(folder.rglob("*.yaml"))):
        for name in _names(path):
            yield name, path


def _names(path: Path) -> list[str]:
    # Only looks for names: a spec with errors is still found, and then says what is wrong with it.
    if not path.is_file():  # a FIFO would keep its reader waiting
        return []
    try:
        text = read_text(path)
    except UsageError:
        return []
    # Reading the few lines of the names takes a tenth of the time of all. Where they are not alone to be understood
    # (quoted keys, JSON, aliases), the whole is read.
    return _names_in("".join(_NAMING.findall(text))) or _names_in(text)


def _names_in(text: str) -> list[str]:
    try:
        head = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError):
        return []
    if not isinstance(head, dict):
        return []
    rows = head.get("rows")
    names = [head.get("name"), head.get("row"), *(rows if isinstance(rows, list) else [])]
    return [name for name in names if isinstance(name, str)]
