# SPDX-License-Identifier: BSD-3-Clause
"""Put a figure into words, for screen readers and for readers who cannot tell its lines apart."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pollscope.analysis.compare import Difference
from pollscope.analysis.point_values import levels_text
from pollscope.base.units import human_number
from pollscope.metrics.dictionary import metric_dictionary

_NOT_LEVELS = ("metric", "unit", "value", "low", "high", "n")
_MOST_DIFFERENCES = 5
# Distributions that figures draw whole: title, and a metric of the same unit.
DISTRIBUTIONS = {"latency_sent": ("Latency from departure", "latency_sent_max_ns")}


def in_words(drawn: Sequence[Mapping[str, Any]]) -> str:
    """Describe the smallest and the largest value of each drawn quantity, with their points (rows as in the CSV
    file).
    """
    quantities: dict[str, list[Mapping[str, Any]]] = {}
    # A figure may hold thousands of values, and some of them twice.
    for row in {tuple(row.items()): row for row in drawn}.values():
        mine = quantities.setdefault(str(row["metric"]), [])
        if math.isfinite(row["value"]):
            mine.append(row)
    sentences = [_quantity(name, rows) for name, rows in quantities.items() if rows]
    return " ".join(sentences) or "No value is drawn; the figure says why."


def _quantity(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    metric, _, rest = name.partition(" ")
    own = DISTRIBUTIONS[metric][0] if metric in DISTRIBUTIONS else metric_dictionary()[metric].title
    title = f"{own} {rest}".strip()
    least, greatest = (choose(rows, key=lambda row: float(row["value"])) for choose in (min, max))
    if len(rows) == 1:
        return f"{title}: {_value(least)}{_where(least)}."
    if least["value"] == greatest["value"]:
        return f"{title}: {_value(least)} at each of {len(rows)} points."
    ends = f"from {_value(least)}{_where(least)} to {_value(greatest)}{_where(greatest)}"
    return f"{title}: {len(rows)} values, {ends}."


def _value(row: Mapping[str, Any]) -> str:
    if row["unit"] == "ratio":
        return human_number(row["value"])
    metric = str(row["metric"]).partition(" ")[0]
    return metric_dictionary()[DISTRIBUTIONS[metric][1] if metric in DISTRIBUTIONS else metric].text(row["value"])


def _where(row: Mapping[str, Any]) -> str:
    levels = levels_text({name: level for name, level in row.items() if name not in _NOT_LEVELS})
    return f" at {levels}" if levels else ""


def comparison_in_words(differences: Sequence[Difference]) -> str:
    """Describe the differences that are larger than noise, the largest first."""
    beyond = [each for each in differences if each.beyond_noise and each.ratio.value > 0]
    beyond.sort(key=lambda each: -abs(math.log(each.ratio.value)))
    if not beyond:
        return f"None of {len(differences)} differences is larger than noise."
    largest = [
        f"{metric_dictionary()[each.metric].title}{f' at {each.point}' if each.point else ''}: {each.second_name} is "
        f"{human_number(each.ratio.value)} times {each.first_name}"
        for each in beyond[:_MOST_DIFFERENCES]
    ]
    more = f"; and {len(beyond) - len(largest)} more" if len(beyond) > len(largest) else ""
    return f"{'; '.join(largest)}{more}."
