# SPDX-License-Identifier: BSD-3-Clause
"""Judging the claims of a run's rows by the run's table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from pollscope.analysis.claims.model import (
    LOAD,
    Claim,
    LargestFall,
    Linear,
    Range,
    Ratio,
    RisesAbove,
    TrendOver,
    Where,
    is_load,
    load_claims,
)
from pollscope.analysis.claims.predicates import judge
from pollscope.analysis.claims.verdict import Finding, Verdict, VerdictKind
from pollscope.analysis.ground import counts_text, of_samples, whole_mix
from pollscope.analysis.papers import differences
from pollscope.analysis.samples import Sample, absence, data_of, factors, level_text, samples
from pollscope.analysis.saturation import saturated_generator_points, unreached_points, unsaturated_points
from pollscope.metrics import metric_dictionary
from pollscope.results_table import current_table
from pollscope.run_folder import RunFolder

# Of the reasons why points were left out.
MOST_REASONS = 2
# Predicates that compare points with each other.
COMPARING = (TrendOver, Ratio, LargestFall, RisesAbove, Linear)


def evaluate_run(run: RunFolder, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """A verdict for every claim of the rows that the run measures.

    Raises:
        UsageError: the run folder contradicts its formats.
    """
    table = current_table(run)
    rows = rows_of(run)
    chosen = [claim for claim in (load_claims() if claims is None else claims) if claim.row in rows]
    return [Verdict(claim, run.run_id, _finding(claim, run, table), differences(claim.paper, run)) for claim in chosen]


def rows_of(run: RunFolder) -> list[str]:
    """The paper rows that a run measures."""
    rows = run.meta.get("rows")
    return [str(row) for row in rows] if isinstance(rows, list) and rows else [str(run.meta["row"])]


def _finding(claim: Claim, run: RunFolder, table: pd.DataFrame) -> Finding:
    claim = _with_real_load(claim, factors(table))
    data = data_of(table, claim.metric)
    if data.empty:
        counted = f" ({len(table)} trials, all failed or none measured)" if len(table) else ""
        return _not_measurable(f"the run has no trial that is data{counted}", _left_out(claim, run))
    selected = _selected(data, claim.where)
    if selected.empty:
        return _not_measurable(f"the run has no point with {_where_text(claim.where)}", _left_out(claim, run))
    if claim.needs_load:
        unfit = unsaturated_points(table) | unreached_points(table) | saturated_generator_points(run, table)
        left_out = [unfit[point] for point in selected["point"].unique() if point in unfit]
        selected = selected[~selected["point"].isin(unfit)]
        if selected.empty:
            return _not_measurable(f"no point stands for its load; {left_out[0]}")
    found = samples(_without_zipped(selected, claim, run), claim.metric)
    if not found:
        title = metric_dictionary()[claim.metric].title
        return _not_measurable(f"{title} ({claim.metric}) is absent, because {absence(selected, claim.metric)}")
    finding = _on_its_ground(judge(claim.predicate, found, metric_dictionary()[claim.metric]), claim, found)
    if finding.kind is not VerdictKind.NOT_MEASURABLE:
        return finding
    # The levels that the predicate needs are not there: perhaps because the testbed has no room for them.
    return replace(finding, sentence=" ".join([finding.sentence, *_left_out(claim, run)]))


def _on_its_ground(finding: Finding, claim: Claim, found: Sequence[Sample]) -> Finding:
    """The finding with what is to be said of the ground under its trials.

    Points that stand on different ground differ for that reason alone: a claim that compares them is not decided.
    """
    stand = of_samples(found)
    if not stand.text or stand.same is None:
        return finding
    mix = counts_text(whole_mix(found))
    if stand.same:
        return replace(finding, sentence=f"{finding.sentence} Its trials are pooled over several grounds ({mix}).")
    text = f"Its points stand on different ground ({mix})"
    if isinstance(claim.predicate, COMPARING) and finding.kind in (VerdictKind.AGREES, VerdictKind.DISAGREES):
        sentence = f"{finding.sentence} {text}, which alone can make such a difference, or hide it."
        return replace(finding, kind=VerdictKind.INCONCLUSIVE, sentence=sentence)
    return replace(finding, sentence=f"{finding.sentence} {text}.")


def _not_measurable(reason: str, why: Sequence[str] = ()) -> Finding:
    return Finding(VerdictKind.NOT_MEASURABLE, " ".join([reason[0].upper() + reason[1:] + ".", *why]))


def _left_out(claim: Claim, run: RunFolder) -> list[str]:
    """A sentence on why points that the claim speaks of were left out of the run, if any were."""
    every = run.meta.get("left_out", [])
    entries = [entry for entry in every if _speaks_of(claim, entry.get("factors"))] or ([] if run.trials else every)
    if not entries:
        return []
    reasons = list(dict.fromkeys(str(entry["reason"]) for entry in entries))
    more = f"; {len(reasons) - MOST_REASONS} further reasons" if len(reasons) > MOST_REASONS else ""
    plural = "s" if len(entries) > 1 else ""
    return [f"{len(entries)} point{plural} left out: {'; '.join(reasons[:MOST_REASONS])}{more}."]


def _speaks_of(claim: Claim, levels: Mapping[str, object] | None) -> bool:
    if levels is None:
        return False
    return all(name in levels and _fits(levels[name], condition) for name, condition in claim.where.items())


def _with_real_load(claim: Claim, present: list[str]) -> Claim:
    """`load` replaced by the load factor that the run has swept."""
    real = next((name for name in present if is_load(name)), LOAD)
    where = {real if name == LOAD else name: condition for name, condition in claim.where.items()}
    predicate = claim.predicate
    if getattr(predicate, "factor", None) == LOAD:
        predicate = predicate.model_copy(update={"factor": real})
    return claim.model_copy(update={"where": where, "predicate": predicate})


def _without_zipped(data: pd.DataFrame, claim: Claim, run: RunFolder) -> pd.DataFrame:
    """The rows without the factors that move together with the predicate's: they are one thing, told by its name."""
    factor = getattr(claim.predicate, "factor", None)
    zipped = [group for group in run.meta.get("spec", {}).get("zip", []) if factor in group]
    columns = [f"factor.{name}" for group in zipped for name in group if name != factor]
    return data.drop(columns=[column for column in columns if column in data.columns])


def _selected(data: pd.DataFrame, where: Where) -> pd.DataFrame:
    for name, condition in where.items():
        column = f"factor.{name}"
        if column not in data.columns:
            return data.iloc[:0]
        data = data[[_fits(level, condition) for level in data[column]]]
    return data


def _fits(level: object, condition: float | int | str | Range) -> bool:
    if isinstance(level, str) or isinstance(condition, str):
        return level == condition
    value = float(level)  # type: ignore[arg-type]
    return condition.contains(value) if isinstance(condition, Range) else math.isclose(value, condition, abs_tol=1e-9)


def _where_text(where: Where) -> str:
    def one(name: str, condition: float | int | str | Range) -> str:
        if isinstance(condition, Range):
            return f"{name} {condition.text(lambda level: level_text(name, level))}"
        return f"{name} {level_text(name, condition)}"

    return " and ".join(one(name, condition) for name, condition in where.items())
