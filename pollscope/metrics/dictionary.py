# SPDX-License-Identifier: BSD-3-Clause
"""The one metric dictionary: names, definitions and units of every derived number.

`configs/metrics.yaml` is the source. Tables, checks, axis labels and docs/reference-metrics.md (`make tables`) are made
from it.
"""

import math
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from ruamel.yaml import YAML

from pollscope.base.errors import UsageError
from pollscope.base.paths import data_folder
from pollscope.base.units import human, human_ns, human_number, human_share, with_unit
from pollscope.stats.estimates import RESOLUTION

# Number of names that a message suggests for an unknown one.
_MOST_CLOSE = 8
# Amounts with these short units, and rates, have SI prefixes; all others are written out: `1,500 polls`.
_SCALED = ("B", "Hz", "W", "bit/s", "pps")


class Metric(BaseModel):
    """Describe one metric: its definition, how it is computed, and the unit in which it is stored."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    group: str
    title: str
    definition: str
    caveats: str = ""
    type: Literal["float", "int"]
    unit: str
    short_unit: str
    better: Literal["lower", "higher", "neither"]
    signed: bool = False
    source: str

    @property
    def label(self) -> str:
        """Return the title with the unit, for an axis or a table head: 'Poll rate (polls/s)', 'Loss (%)'."""
        unit = "%" if self.unit == "share" else self.short_unit
        return f"{self.title} ({unit})" if unit else self.title

    def text(self, value: float, like: float | None = None) -> str:
        """Return the value rounded for a reader, with its unit: '41.3 %', '12.5 Mpps'.

        Args:
            value: in the metric's unit.
            like: the prefix is that of this value, so that values beside each other have the same one.
        """
        if self.unit == "share":
            return human_share(value)
        if self.unit == "ns":
            return human_ns(value, like)
        if self.type == "int" and float(value).is_integer():  # a mean of them need not be one
            return with_unit(f"{value:,.0f}", self.short_unit)
        if self.short_unit in _SCALED or self.short_unit.endswith("/s"):
            return human(value, self.short_unit, like=like)
        return with_unit(human_number(value), self.short_unit)

    def resolution(self, value: float) -> float:
        """Return the resolution at a value.

        It is at least one count, one nanosecond, one event per second, or one of 100,000 packets or polls.
        """
        counts = self.type == "int" or self.unit in ("ns", "Hz") or self.unit.endswith("/s")
        step = 1e-5 if self.unit == "share" else float(counts)
        return max(step, RESOLUTION * abs(value))

    @property
    def limits(self) -> tuple[float, float]:
        """Return the metric's natural bounds: 0 and 1 of a share, 0 and infinity of an amount."""
        if self.signed:
            return -math.inf, math.inf
        return 0.0, 1.0 if self.unit == "share" else math.inf


class MetricDictionary(BaseModel):
    """All metrics by name, in the order of the file, and the titles of their groups, some with a text below them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    groups: dict[str, str]
    introductions: dict[str, str] = {}
    metrics: dict[str, Metric]

    def __getitem__(self, name: str) -> Metric:
        """Return the metric with this name.

        Raises:
            UsageError: there is none; the message suggests close names, or the page that lists all.
        """
        if name not in self.metrics:
            asked, name = name, name.lower()
            word = name.split("_")[0]
            close = [known for known in self.metrics if word and known.startswith(word)][:_MOST_CLOSE]
            close = close or get_close_matches(name, self.metrics, n=_MOST_CLOSE)
            remedy = f"did you mean {' or '.join(close)}?" if close else "docs/reference-metrics.md has all"
            raise UsageError(f"no metric is called '{asked}'", remedy=remedy)
        return self.metrics[name]


def parse_dictionary(path: Path) -> MetricDictionary:
    """Read and check a metric dictionary.

    Raises:
        UsageError: unknown or missing keys, or a group that has no title.
    """
    raw = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    raw["metrics"] = {name: {"name": name, **fields} for name, fields in raw["metrics"].items()}
    try:
        dictionary = MetricDictionary.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(first["msg"], f"{path}: {'.'.join(str(part) for part in first['loc'])}") from None
    for group in dictionary.introductions:
        if group not in dictionary.groups:
            raise UsageError(f"introduction of group '{group}', which has no title", str(path))
    for metric in dictionary.metrics.values():
        if metric.group not in dictionary.groups:
            raise UsageError(f"group '{metric.group}' of metric '{metric.name}' has no title", str(path))
    return dictionary


@cache
def metric_dictionary() -> MetricDictionary:
    """Return the dictionary that ships with pollscope (configs/metrics.yaml)."""
    return parse_dictionary(data_folder("configs") / "metrics.yaml")


@cache
def shown_metrics(place: str) -> tuple[str, ...]:
    """Return the metrics that a place shows if none is asked for (configs/shown-metrics.yaml)."""
    return tuple(_shown()[place])


@cache
def report_tables() -> dict[str, tuple[str, ...]]:
    """Return the metrics of each table of the report, by its title."""
    return {str(title): tuple(names) for title, names in _shown()["report"].items()}


@cache
def _shown() -> Any:
    return YAML(typ="safe").load(data_folder("configs") / "shown-metrics.yaml")
