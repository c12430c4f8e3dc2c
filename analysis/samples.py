# SPDX-License-Identifier: BSD-3-Clause
"""Samples of a metric from the results table: which trials count, at which levels, and how levels are written."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from pollscope.analysis.statistics import Estimate, mean_estimate
from pollscope.formulas.searched import SEARCHED
from pollscope.spec.model import KNOB_PREFIX, Parameters

# Factors whose levels are shares and are shown in percent.
SHARE_FACTORS = ("load_of_max", "load_of_line", "concentrated_share", "background_probability")
Level = float | int | str | bool


@dataclass(frozen=True)
class Sample:
    """The values of one metric at one point, in the order of measurement, and the ground that each stands on."""

    levels: Mapping[str, Level]
    values: tuple[float, ...]
    error: float = 0.0  # mean half-width of the 95 % intervals that single trials have by themselves
    grounds: tuple[str, ...] = ()

    @property
    def estimate(self) -> Estimate:
        """Mean with its interval, which holds the spread of the trials and what each does not know by itself."""
        return mean_estimate(self.values).widened(self.error)

    def label(self, *but: str) -> str:
        """The levels in words, without the factors in `but`: 'queues 4, load 50 %'."""
        return levels_text({name: level for name, level in self.levels.items() if name not in but})


def measured(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that are data: measured trials that are not failed (docs/store-format.md).

    Trials on other ground are none where every point was seen often enough on the main one (docs/ground.md).
    """
    rows = on_any_ground(table)
    return rows[~rows["other_ground"]]


def on_any_ground(table: pd.DataFrame) -> pd.DataFrame:
    """The measured trials that are not failed, whatever ground they stand on."""
    return table[(table["kind"] == "measure") & table["status"].isin(["ok", "flagged"])]


def data_of(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows that are data for a metric: searches for what only a search finds, measured trials for all else."""
    if metric not in SEARCHED:
        return measured(table)
    return table[(table["kind"] == "maximum") & table["status"].isin(["ok", "flagged"])]


def factors(table: pd.DataFrame) -> list[str]:
    """The factors that have a level somewhere in the table: knobs, then in the order of the spec's parameters."""
    knobs = [
        str(name).removeprefix("factor.") for name in table.columns if str(name).startswith(f"factor.{KNOB_PREFIX}")
    ]
    known = knobs + [name for name in Parameters.model_fields if f"factor.{name}" in table.columns]
    return [name for name in known if table[f"factor.{name}"].notna().any()]


def samples(table: pd.DataFrame, metric: str) -> list[Sample]:
    """One sample per point at which the metric was measured, ordered by levels; rows are used as they are given."""
    names = factors(table)
    present = table[table[f"metric.{metric}"].notna()]
    if present.empty:
        return []
    if not names:
        return [_sample({}, present, metric)]
    columns = [f"factor.{name}" for name in names]
    found = []
    for levels, rows in present.groupby(columns, sort=True, dropna=False):
        known = {name: _plain(level) for name, level in zip(names, levels, strict=True) if not _is_missing(level)}
        found.append(_sample(known, rows, metric))
    return found


# Metrics whose trials come with an error of their own, and where it stands.
ERRORS = {
    **dict.fromkeys(("tax_share", "tax_share_running", "useful_share"), "tax_share_error"),
    **dict.fromkeys(("empty_poll_share", "loop_share"), "empty_poll_share_error"),
}


def _error(rows: pd.DataFrame, metric: str) -> float:
    column = f"metric.{ERRORS.get(metric)}"
    errors = rows[column].dropna() if column in rows else rows.iloc[:0, 0]
    return float(errors.mean()) if len(errors) else 0.0


def _sample(levels: Mapping[str, Level], rows: pd.DataFrame, metric: str) -> Sample:
    values = tuple(float(value) for value in rows[f"metric.{metric}"])
    return Sample(levels, values, _error(rows, metric), tuple(str(label) for label in rows["ground"]))


def _is_missing(level: object) -> bool:
    return level is None or (isinstance(level, float) and math.isnan(level))


def _plain(level: object) -> Level:
    value = level.item() if hasattr(level, "item") else level
    if isinstance(value, float) and value.is_integer() and abs(value) > 1:
        return int(value)  # a column of whole numbers that has a hole somewhere is stored as floats
    if not isinstance(value, float | int | str | bool):
        raise TypeError(f"BUG: a level is {value!r}")
    return value


def groups(found: Sequence[Sample], factor: str) -> Iterator[tuple[str, list[Sample]]]:
    """Samples that differ in one factor only: label of the other levels, and the samples by rising level."""
    by_rest: dict[str, list[Sample]] = {}
    for sample in found:
        if factor in sample.levels:
            by_rest.setdefault(sample.label(factor), []).append(sample)
    for label, members in by_rest.items():
        yield label, sorted(members, key=lambda sample: _rank(sample.levels[factor]))


def _rank(level: Level) -> tuple[float, str]:
    """Numbers by value, `4 ways` by its number, other text after them."""
    if not isinstance(level, str):
        return float(level), ""
    number, _, _ = level.partition(" ")
    return (float(number), level) if number.isdecimal() else (math.inf, level)


def absence(table: pd.DataFrame, metric: str) -> str:
    """Why a metric is absent in these rows: the reason that most of them give."""
    reasons = table[f"absent.{metric}"].dropna()
    if reasons.empty:
        return "there is no trial for it"
    return str(reasons.value_counts().index[0])


def level_text(factor: str, level: Level) -> str:
    """A level for humans: shares in percent, rates with a prefix."""
    if factor in SHARE_FACTORS:
        return f"{100 * float(level):g} %"
    if factor == "load_pps":
        rate = float(level)
        return f"{rate / 1e6:g} Mpps" if rate >= 1e6 else f"{rate / 1e3:g} kpps" if rate >= 1e3 else f"{rate:g} pps"
    return f"{level:g}" if isinstance(level, float) else str(level)


FACTOR_WORDS = {"load_of_max": "load", "load_of_line": "load", "load_pps": "load"}


def levels_text(levels: Mapping[str, Level]) -> str:
    """Levels in words: 'queues 4, load 50 %'."""
    words = {name: FACTOR_WORDS.get(name, name.removeprefix(KNOB_PREFIX)) for name in levels}
    return ", ".join(f"{words[name]} {level_text(name, level)}" for name, level in levels.items())
