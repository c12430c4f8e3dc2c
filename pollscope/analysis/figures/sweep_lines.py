# SPDX-License-Identifier: BSD-3-Clause
"""Compute the lines of a figure that a user asked for (`Show`): their samples, and the base of ratios."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import pandas as pd
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pollscope.analysis.figures.data import FEEDS, FigureData
from pollscope.analysis.figures.style import crowd
from pollscope.analysis.point_values import (
    PAIR,
    Level,
    PointValues,
    by_point,
    factors,
    level_rank,
    levels_text,
    measured,
)
from pollscope.base.errors import UsageError
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.spec.model import Show
from pollscope.spec.points import level_text
from pollscope.stats.estimates import Estimate
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

# A factor that spans this much has a logarithmic axis, as in the papers' figures over queues.
_DECADES = 100
# More lines cannot be distinguished (style.LINES, style.MARKERS).
MOST_LINES = 8
# Default panels: a rate and the tax; metrics that leave out time taken away from the DUT come first.
RATES = ("rx_pps", "tx_pps", "poll_rate_running_hz", "poll_rate_hz")
_TAXES = ("tax_share_running", "tax_share")
Samples = Sequence[PointValues]


@dataclass(frozen=True)
class SweepLine:
    """Hold one line of a panel: its name, its rising levels along x, and the estimates there."""

    name: str
    x: list[Level]
    y: list[Estimate]


def default_show(run: RunFolder, asked: Mapping[str, Any] | None = None) -> Show | None:
    """Return the figure to draw if none is asked for, or complete `asked` (keys of `Show`).

    The first factor lies along x. The panels are a rate and the tax. Further factors become lines while there are few
    lines; the rest are held at their first levels.
    """
    given = dict(asked or {})
    data = measured(current_table(run))
    swept = [name for name in _in_order_of_spec(run, factors(data)) if data[f"factor.{name}"].nunique() > 1]
    swept = [name for name in swept if name not in given.get("at", {})]
    x = given.get("x") or next((name for name in swept if name not in given.get("by", ())), None)
    y = given.get("y") or _present(data)
    if x is None or not y:
        return None
    together = _zipped_with(run, {x, *given.get("by", ())})
    swept = [name for name in swept if name not in together]
    by = tuple(given["by"]) if given.get("by") else _few(data, [name for name in swept if name != x])
    at = {name: _levels(data[f"factor.{name}"])[0] for name in swept if name not in (x, *by)}
    places = _levels(data[f"factor.{x}"]) if f"factor.{x}" in data else []
    log = given.get("log") or (("x",) if _spread(places) else ())
    whole = {"x": x, "y": y, "by": by, "at": at | given.get("at", {}), "ratio_to": given.get("ratio_to"), "log": log}
    return Show.model_validate(whole)


def _spread(levels: Sequence[Level]) -> bool:
    """Return whether levels belong on a logarithmic axis: they crowd on a linear one, or span decades."""
    if any(isinstance(level, str) for level in levels):
        return False
    numbers = [float(level) for level in levels]
    return crowd(numbers) or (len(numbers) > 2 and 1 <= numbers[0] <= numbers[-1] / _DECADES)


def _present(data: pd.DataFrame) -> tuple[str, ...]:
    """Return a rate that is not zero everywhere, and the tax."""
    rates = (name for name in RATES if data[f"metric.{name}"].fillna(0).any())
    taxes = (name for name in _TAXES if data[f"metric.{name}"].notna().any())
    return tuple(name for name in (next(rates, None), next(taxes, None)) if name is not None)


def _few(data: pd.DataFrame, others: Sequence[str]) -> tuple[str, ...]:
    """Return the first factors whose levels make no more than MOST_LINES lines together."""
    by: list[str] = []
    lines = 1
    for name in others:
        lines *= data[f"factor.{name}"].nunique()
        if lines > MOST_LINES:
            break
        by.append(name)
    return tuple(by)


def _in_order_of_spec(run: RunFolder, names: Sequence[str]) -> list[str]:
    """Return the factors in the order of the spec, pairs last; the first of zipped factors stands for all."""
    try:
        written = list(YAML(typ="safe", pure=True).load(str(run.meta.get("spec_text", "")))["factors"])
    except (YAMLError, TypeError, KeyError):
        written = []
    zipped = {name for group in _zips(run) for name in group[1:]}
    ranked = sorted(names, key=lambda name: (name == PAIR, written.index(name) if name in written else len(written)))
    return [name for name in ranked if name not in zipped]


def _zips(run: RunFolder) -> list[list[str]]:
    return [list(group) for group in run.meta.get("spec", {}).get("zip", [])]


def _zipped_with(run: RunFolder, names: Set[str]) -> frozenset[str]:
    return frozenset(name for group in _zips(run) if names & set(group) for name in group) - names


def _levels(column: "pd.Series[Any]") -> list[Level]:
    found = [each.item() if hasattr(each, "item") else each for each in column.dropna().unique()]
    return sorted(found, key=level_rank)


def lines_of(show: Show, metric: str, data: FigureData) -> list[SweepLine]:
    """Return the lines of one panel.

    Raises:
        UsageError: a factor is neither held nor shown, there are more than MOST_LINES lines, or a level does not exist.
    """
    held = {name: _level_of(data, name, level) for name, level in show.at.items()}
    data.note_absence(metric)
    samples = [
        sample
        for sample in by_point(data.rows, metric)
        if show.x in sample.levels and all(sample.levels.get(name) == level for name, level in held.items())
    ]
    by = _line_factors(show, samples, data.run)
    lines: dict[str, list[PointValues]] = {}
    # Feeds have the order, and so the colours, of the papers' figures.
    feeds = list(FEEDS)
    samples.sort(key=lambda each: feeds.index(str(each.levels.get("feed", ""))) if "feed" in by else 0)
    for sample in sorted(samples, key=lambda each: level_rank(each.levels[show.x])):
        levels = {name: sample.levels[name] for name in by if name in sample.levels}
        lines.setdefault(levels_text(levels), []).append(sample)
    if len(lines) > MOST_LINES:
        what = f"{len(lines)} lines are too many to distinguish (at most {MOST_LINES})"
        raise UsageError(what, "--by", f"hold a factor at one level: --at {by[0]}=LEVEL")
    base = _base(show, samples, data.run)
    return [_line(name, found, show, metric, base, data) for name, found in lines.items()]


def _line_factors(show: Show, samples: Samples, run: RunFolder) -> list[str]:
    # The x axis and the factors with lines stand for the factors that are zipped with them.
    named = {show.x, *show.by}
    zipped = _zipped_with(run, named)
    every = dict.fromkeys(name for sample in samples for name in sample.levels)
    several = [
        name
        for name in every
        if name not in (show.x, *show.at, *zipped) and len({sample.levels.get(name) for sample in samples}) > 1
    ]
    # Pairs are different machines, so each has a line of its own even if it was not requested.
    left = [name for name in several if show.by and name not in (*show.by, PAIR)]
    if left:
        raise UsageError(f"'{left[0]}' also has several levels", "--by", f"--by {left[0]} or --at {left[0]}=LEVEL")
    return several


def _line(name: str, found: Samples, show: Show, metric: str, base: "_Base | None", data: FigureData) -> SweepLine:
    for each in found:
        data.note(metric, metric_dictionary()[metric].unit, each.levels, each.estimate)
    if base is None:
        return SweepLine(name, [each.levels[show.x] for each in found], [each.estimate for each in found])
    pairs = [(each, of) for each in found if (of := base.of(each)) is not None]
    y = [each.relative_to(of) for each, of in pairs]
    for (each, _), ratio in zip(pairs, y, strict=True):
        data.note(f"{metric} over that at {base.factor} {base.level}", "ratio", each.levels, ratio)
    return SweepLine(name, [each.levels[show.x] for each, _ in pairs], y)


@dataclass(frozen=True)
class _Base:
    """Hold the samples that all others are divided by: those at one level of a factor."""

    factor: str
    level: Level
    samples: Samples
    zipped: frozenset[str]

    def of(self, sample: PointValues) -> PointValues | None:
        """Return the sample at the base's level with the same levels of all other factors."""
        wanted = self._others(sample)
        at_level = (each for each in self.samples if each.levels.get(self.factor) == self.level)
        return next((each for each in at_level if self._others(each) == wanted), None)

    def _others(self, sample: PointValues) -> dict[str, Level]:
        return {name: level for name, level in sample.levels.items() if name not in (self.factor, *self.zipped)}


def _base(show: Show, samples: Samples, run: RunFolder) -> _Base | None:
    if show.ratio_to is None or not samples:  # without samples the panel shows why they are absent
        return None
    factor, equals, word = str(show.ratio_to).partition("=")
    names = [factor] if equals else [*show.by, show.x]
    word = word if equals else factor
    fitting = [(name, level) for name in names if (level := _find(samples, name, word)) is not None]
    if not fitting:
        offered = "; ".join(f"{name}: {_offered(samples, name)}" for name in names)
        raise UsageError(f"no point is at '{word}'", "--ratio-to", f"levels of {offered}")
    if len(fitting) > 1:
        both = " and ".join(name for name, _ in fitting)
        raise UsageError(f"{word} is a level of {both}", "--ratio-to", f"name the factor: {fitting[0][0]}={word}")
    factor, level = fitting[0]
    return _Base(factor, level, samples, _zipped_with(run, {factor}))


def _offered(samples: Samples, factor: str) -> str:
    levels = sorted({each.levels[factor] for each in samples if factor in each.levels}, key=level_rank)
    return ", ".join(level_text(factor, level) for level in levels) or "none"


def _level_of(data: FigureData, factor: str, word: Any) -> Level:
    samples = [PointValues({factor: level}, ()) for level in _levels(data.rows[f"factor.{factor}"])]
    found = _find(samples, factor, word)
    if found is None:
        remedy = f"its levels: {_offered(samples, factor)}"
        raise UsageError(f"{factor} has no level '{word}'", str(data.run.path), remedy)
    return found


def _find(samples: Samples, factor: str, word: Any) -> Level | None:
    """Return the level that a word or a number denotes: `8`, `0.5`, `50%`, `3 Mpps`."""
    text = str(word).replace(" ", "").lower()
    for level in (sample.levels[factor] for sample in samples if factor in sample.levels):
        if level == word or text in (str(level).lower(), level_text(factor, level).replace(" ", "").lower()):
            return level
    return None


def title_of(show: Show) -> str:
    """Return the content of the figure as a sentence without a full stop."""
    first, *others = (metric_dictionary()[name].title for name in show.y)
    titles = [first, *(title if title[1:2].isupper() else title[0].lower() + title[1:] for title in others)]
    by = f", by {' and '.join(map(factor_word, show.by))}" if show.by else ""
    at = f", at {levels_text(show.at)}" if show.at else ""
    ratio = f", relative to {base_words(show)}" if show.ratio_to is not None else ""
    return show.title or f"{' and '.join(titles)} against {factor_word(show.x)}{by}{at}{ratio}"


def base_words(show: Show) -> str:
    """Return the base of a ratio in words; a level alone belongs to the x axis unless lines have levels as well."""
    word = str(show.ratio_to)
    if "=" in word or show.by:
        return word.replace("=", " ")
    return f"{factor_word(show.x)} {word}"


def factor_word(factor: str) -> str:
    """Return a factor in words."""
    if factor.startswith("load_"):
        return "offered load"
    return factor.removeprefix("knob.").replace("_", " ")
