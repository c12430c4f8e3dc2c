# SPDX-License-Identifier: BSD-3-Clause
"""Map the names that tools give to counters to pollscope's names (configs/counters.yaml)."""

from functools import cache
from typing import Any

from ruamel.yaml import YAML

from pollscope.base.paths import data_folder
from pollscope.collectors.sample import Kind


def counter_names(tool: str) -> dict[str, Any]:
    """Return the names of the counters of a tool, or of one of its tables."""
    return _tables()[tool]


def counter_metrics(tool: str) -> dict[str, tuple[Any, ...]]:
    """Return the same for counters with a name, a unit, a kind, and possibly a factor."""
    return {
        column: (name, unit, Kind(kind), *factor) for column, (name, unit, kind, *factor) in _tables()[tool].items()
    }


@cache
def _tables() -> dict[str, dict[str, Any]]:
    tables: dict[str, dict[str, Any]] = YAML(typ="safe").load(data_folder("configs") / "counters.yaml")
    return tables
