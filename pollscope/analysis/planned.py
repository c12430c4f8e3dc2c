# SPDX-License-Identifier: BSD-3-Clause
"""Describe what a run measured less than its spec requests, and by which options."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import pandas as pd

from pollscope.analysis.point_values import factor_title
from pollscope.base.errors import UsageError
from pollscope.base.units import counted
from pollscope.spec import load_text
from pollscope.spec.points import level_text
from pollscope.store.run_folder import RunFolder

_MOST_LEVELS = 6


def missing_levels(run: RunFolder, data: pd.DataFrame) -> dict[str, list[Any]]:
    """Return, per factor, the levels that the spec asks for and no row of `data` has.

    The spec is the file as given, so levels that `--quick` or `--set` left out are missing, as are those that the
    testbed had no room for. Nothing is missing of a spec that this version cannot read.
    """
    found = {}
    for factor, levels in _levels(str(run.meta.get("spec_text", ""))).items():
        column = f"factor.{factor}"
        if column in data.columns:
            measured = data[column].dropna().unique()
            found[factor] = [level for level in levels if not any(_same(level, each) for each in measured)]
    return {factor: levels for factor, levels in found.items() if levels}


@cache
def _levels(text: str) -> Mapping[str, tuple[Any, ...]]:
    try:
        return load_text(text, "run.json: spec_text").spec.levels
    except UsageError:
        return {}


def _same(one: object, other: object) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return str(one) == str(other)
    return math.isclose(float(one), float(other), abs_tol=1e-9)  # type: ignore[arg-type]


def missing_text(factor: str, levels: list[Any]) -> str:
    """Return `queues 16, 64 and 3 more`."""
    shown = ", ".join(level_text(factor, level) for level in levels[:_MOST_LEVELS])
    more = f" and {len(levels) - _MOST_LEVELS} more" if len(levels) > _MOST_LEVELS else ""
    return f"{factor_title(factor)} {shown}{more}"


def shortened_text(run: RunFolder, data: pd.DataFrame) -> str:
    """Return the options and left-out points that make a run less than its spec; empty where nothing does."""
    overrides = run.meta.get("overrides")
    asked = overrides if isinstance(overrides, Mapping) else {}
    options = ["--quick"] if asked.get("quick") else []
    options += [f"--set '{setting}'" for setting in asked.get("set", [])]
    verb = "modelled" if run.modelled else "measured"
    said = [f"{verb.capitalize()} with {' '.join(options)}."] if options else []
    if missing := missing_levels(run, data):
        said.append(f"Not {verb}: {'; '.join(missing_text(*each) for each in missing.items())}.")
    if left_out := run.meta.get("left_out", []):
        said.append(f"{counted(len(left_out), 'point')} left out; the first: {left_out[0]['reason']}.")
    return " ".join(said)
