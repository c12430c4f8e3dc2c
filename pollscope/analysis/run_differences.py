# SPDX-License-Identifier: BSD-3-Clause
"""List differences between two runs besides their results: spec, host, build, knobs."""

from collections.abc import Iterator, Mapping
from typing import Any

from pollscope.store.run_folder import RunFolder

# Parts of run.json that affect results; `host` also holds values that change by themselves.
PARTS = ("spec", "testbed", "host", "build", "generator", "knobs_before")
# Keys of the host and the spec that change from run to run without effect, or that other lines report.
_MOVING = (
    "boot_id",
    "uptime_s",
    "load_average",
    "free_bytes",
    "free",
    "name",
    "title",
    "notes",
    "source",
    "show",
    "claims",
)
MOST_LINES = 12


def differences_of(first: RunFolder, second: RunFolder) -> list[str]:
    """Return one line per difference (`parameters.burst: 32 in A, 64 in B`): the first few, and a count of the rest."""
    lines = [
        f"{path}: {_text(left)} in A, {_text(right)} in B"
        for part in PARTS
        for path, left, right in _apart(part, first.meta.get(part), second.meta.get(part))
    ]
    versions = [each.meta.get("pollscope") for each in (first, second)]
    if versions[0] != versions[1]:
        lines.append(f"pollscope: {_text(versions[0])} in A, {_text(versions[1])} in B")
    more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"and {more} more, see run.json of both"] if more > 0 else [])]


def _apart(path: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in dict.fromkeys([*left, *right]):
            if key not in _MOVING:
                yield from _apart(f"{path}.{key}", left.get(key), right.get(key))
    elif _still(left) != _still(right):
        yield path.removeprefix("spec."), left, right


def _still(value: Any) -> Any:
    """Return a list of tables (hugepages by size) without the keys that change by themselves."""
    if not isinstance(value, list):
        return value
    return [
        {key: each[key] for key in each if key not in _MOVING} if isinstance(each, dict) else each for each in value
    ]


def _text(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return f"[{', '.join(map(str, value))}]"
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
