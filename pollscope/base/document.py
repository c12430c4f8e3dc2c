# SPDX-License-Identifier: BSD-3-Clause
"""Read a spec file as plain data with the position of each value, and apply `--set` and `--quick`."""

import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from pollscope.base.errors import UsageError

Path = tuple[str | int, ...]

# Of these, `quick` replaces single keys; of the others it replaces the whole value.
_MERGED_BY_KEY = ("parameters", "factors", "trial", "maximum", "noise")
_MOST_VALUES = 100_000
# Largest spec, testbed or inventory file. Sparse files can claim any size.
_MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class Document:
    """A spec as given.

    Attributes:
        name: the file's name, for messages.
        text: the file as read.
        data: plain dicts, lists and scalars.
        origins: path in `data` -> place in words ("FILE:LINE" or "--set KEY").
    """

    name: str
    text: str
    data: dict[str, Any]
    origins: Mapping[Path, str]

    def place(self, path: Path) -> str:
        """Return the line of a path, or of its nearest parent if it is missing."""
        while path and path not in self.origins:
            path = path[:-1]
        return self.origins.get(path, self.name)

    def locate(self, location: Path) -> Path:
        """Return the document path of a validator's location, without the parts that the validator added."""
        here: Any = self.data
        path: Path = ()
        for part in location:
            if part in _keys(here):
                here, path = here[part], (*path, part)
        return path


def _keys(node: Any) -> Collection[str | int]:
    if isinstance(node, dict):
        return node.keys()
    return range(len(node)) if isinstance(node, list) else ()


def read_text(path: FilePath) -> str:
    """Return the text of a user's file.

    Raises:
        UsageError: it cannot be read, is too large, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise UsageError(f"is larger than {_MOST_BYTES >> 20} MiB", str(path), "give a spec, testbed or inventory")
        return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8").read()
    except (OSError, UnicodeDecodeError) as error:
        reason, remedy = (error.strerror, "") if isinstance(error, OSError) else ("not UTF-8 text", "save it as UTF-8")
        raise UsageError(f"cannot be read: {reason}", str(path), remedy) from error


def parse(text: str, name: str) -> Document:
    """Read YAML 1.2.

    Raises:
        UsageError: not YAML, a key that is listed twice, or no mapping at the top.
    """
    try:
        tree = YAML(typ="rt").load(io.StringIO(text))
        _check_size(tree, name)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        what = _in_words((error.problem or str(error)).split("\n")[0])
        raise UsageError(f"not valid YAML: {what}", f"{name}:{line}") from error
    except (YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"not valid YAML: {' '.join(str(error).split())[:200]}", name) from error
    if not isinstance(tree, CommentedMap):
        raise UsageError("a spec is a mapping of keys to values", f"{name}:1", "see docs/reference-spec.md")
    origins = {path: f"{name}:{line}" for path, line in _lines(tree, ())}
    return Document(name, text, _plain(tree), {(): f"{name}:1", **origins})


def _check_size(tree: Any, place: str) -> None:
    """Refuse a document that aliases inflate: each alias counts as a copy of its target."""
    left = _MOST_VALUES
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        inside = node.values() if isinstance(node, Mapping) else node if isinstance(node, list | tuple | set) else ()
        left -= 1 + len(inside)
        if left < 0:
            what = f"holds more than {_MOST_VALUES} values, counting each alias as a copy of its target"
            raise UsageError(what, place, "write fewer aliases")
        nodes += inside


def _in_words(problem: str) -> str:
    """Return a clear message for an error of the YAML reader that does not say what to do."""
    if twice := re.match(r'found duplicate key "([^"]*)"', problem):
        return f"the key '{twice[1]}' is listed twice"
    if "'\\t'" in problem:
        return "a line is indented with a tab; use spaces"
    if "'<stream end>'" in problem:
        return "the file ends before a bracket or a quotation mark is closed"
    if problem == "but found another document":
        return "a second document begins here (---); one file holds one spec"
    return problem


def _lines(node: Any, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(node, CommentedMap):
        for key in node:
            yield (*path, key), _line(node.lc.key, key, node)
            yield from _lines(node[key], (*path, key))
    elif isinstance(node, CommentedSeq):
        for index, child in enumerate(node):
            yield (*path, index), _line(node.lc.item, index, node)
            yield from _lines(child, (*path, index))


def _line(lookup: Any, key: str | int, node: Any) -> int:
    try:
        return int(lookup(key)[0]) + 1
    except (KeyError, TypeError):  # a key that came in through an anchor has no line
        return int(node.lc.line) + 1


def _plain(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, Sequence) and not isinstance(node, str | bytes):
        return [_plain(value) for value in node]
    # Convert ruamel's subclasses of these types: the models are strict about types.
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node


def with_quick(document: Document, quick: Mapping[str, Any]) -> Document:
    """Apply a `quick` section, the document's own or a generated one, to the document."""
    for key, value in quick.items():
        entries = value.items() if key in _MERGED_BY_KEY and isinstance(value, dict) else [(None, value)]
        for name, entry in entries:
            path = (key,) if name is None else (key, name)
            document = _replaced(document, path, entry, _moved(document, ("quick", *path), path))
    return document


def _moved(document: Document, source: Path, target: Path) -> dict[Path, str]:
    found = {
        target + path[len(source) :]: place for path, place in document.origins.items() if path[: len(source)] == source
    }
    return found or {target: f"{document.name} with --quick"}  # a generated section has no lines


def with_setting(document: Document, setting: str) -> Document:
    """Apply `KEY=VALUE` to the document; the key is dotted, the value is YAML.

    Raises:
        UsageError: no `=`, a value that is not YAML, or a key below something that is no mapping.
    """
    key, equals, text = setting.partition("=")
    place = f"--set {setting}"
    if not equals or not all(key.split(".")):
        raise UsageError("is not KEY=VALUE", place, "for instance --set trial.window='200 ms'")
    try:
        value = YAML(typ="safe", pure=True).load(text)
        _check_size(value, place)
        value = _plain(value)
    except (YAMLError, ValueError, RecursionError) as error:
        raise UsageError("the value is not valid YAML", place) from error
    path = _setting_path(key)
    return _replaced(document, path, value, {path: place})


def _setting_path(key: str) -> Path:
    """Return the path of a dotted key; dots in the name of a knob (`factors.knob.mrrs@0000:17:00.0`) belong to it."""
    for start in (("factors", "knob"), ("knobs",)):
        parts = key.split(".", len(start))
        if tuple(parts[: len(start)]) == start and len(parts) > len(start):
            return (*start[:-1], f"knob.{parts[-1]}") if start[-1] == "knob" else (*start, parts[-1])
    return tuple(key.split("."))


def _replaced(document: Document, path: Path, value: Any, origins: Mapping[Path, str]) -> Document:
    data = _with(document.data, path, value, next(iter(origins.values()), document.name))
    kept = {old: place for old, place in document.origins.items() if old[: len(path)] != path}
    return Document(document.name, document.text, data, {**kept, **origins})


def _with(node: Any, path: Path, value: Any, place: str) -> Any:
    if not path:
        return value
    if not isinstance(node, dict):
        raise UsageError(f"'{path[0]}' cannot be set: what it belongs to is not a mapping", place)
    return {**node, path[0]: _with(node.get(path[0], {}), path[1:], value, place)}
