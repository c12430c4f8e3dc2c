# SPDX-License-Identifier: BSD-3-Clause
"""Judge the claims of a run's rows by the run's table."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import pandas as pd
from pydantic import ValidationError

from pollscope.analysis.claims.model import Claim, claims_of, own_claim
from pollscope.analysis.claims.predicates import judge
from pollscope.analysis.claims.verdict import Finding, Verdict, VerdictKind
from pollscope.analysis.host_metadata import HostMetadata
from pollscope.analysis.host_state import counts_text, of_samples, whole_mix
from pollscope.analysis.papers import differences
from pollscope.analysis.planned import missing_levels, missing_text
from pollscope.analysis.point_values import (
    PAIR,
    absence,
    by_point,
    data_of,
    factors,
    places,
    several_pairs,
    unfair_samples,
)
from pollscope.analysis.saturation import saturated_generator_points, unreached_points, unsaturated_points
from pollscope.base.errors import UsageError
from pollscope.base.units import counted, human_share
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.record import Part
from pollscope.metrics.undisturbed import UNDISTURBED
from pollscope.spec.model import LOADS, Parameters
from pollscope.spec.point_checks import OF_QWAIT
from pollscope.spec.points import level_text
from pollscope.spec.predicates import (
    LOAD,
    AverageRatio,
    EveryTrial,
    Need,
    OwnClaim,
    Range,
    Ratio,
    RatioOfRatios,
    Where,
    Within,
)
from pollscope.stats.estimates import CONFIDENCE, STOPPED_CONFIDENCE
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

# If more than this share of all trials are flagged, the others have to give the same verdict, with so many per point.
_MOST_FLAGGED, _FEWEST_CLEAN = 0.5, 6
# So large a share of the points of an average hardly moves it.
_FEW_POINTS = 0.1
# Most reasons for left-out points that one sentence lists.
MOST_REASONS = 2
# Predicates that judge each point by itself; all others compare points.
_NOT_COMPARING = (Within, EveryTrial)
# Kinds that compare block by block.
_BY_BLOCK = (Ratio, AverageRatio, RatioOfRatios)
# The feed decides what is measured, so its levels stay separate even if the spec zips it with another factor.
_NEVER_ZIPPED = ("feed",)
_NEEDS: Mapping[Need, str] = {"line": "a line", "pcie": "PCIe", "ddio": "DDIO"}
_DECIDED = (VerdictKind.AGREES, VerdictKind.DISAGREES)
# This row belongs to no paper: it holds the results that every healthy testbed must show.
SANITY = "SANITY"


def evaluate_run(run: RunFolder, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """Return a verdict for every claim of the rows that the run measures and for the claims of its own spec.

    Raises:
        UsageError: the run folder contradicts its formats.
    """
    table = current_table(run)
    rows = rows_of(run)
    chosen = claims_of(rows) if claims is None else [claim for claim in claims if claim.row in rows]
    chosen += own_claims(run) if claims is None else []
    confidence = level_of(run)
    judged = [Verdict(claim, run.run_id, _finding(claim, run, table, confidence), [], run.modelled) for claim in chosen]
    found = _controlled(judged, lambda number, level: _finding(chosen[number], run, table, level), confidence)
    return [
        replace(
            verdict,
            finding=_by_construction(claim, run, finding),
            differs=differences(claim.paper, claim.row, run),
        )
        for claim, verdict, finding in zip(chosen, judged, found, strict=True)
    ]


def _controlled(judged: Sequence[Verdict], again: Callable[[int, float], Finding], confidence: float) -> list[Finding]:
    """Return the findings; of the disagreements, those that do not stand out among all claims tested stay open.

    The step-up procedure of Benjamini and Hochberg (1995) keeps the largest number k of claims that disagree at k/m of
    the error, m being the claims tested. Judging claim by number again at that level takes the place of a p value.
    """
    tested = sum(verdict.tested for verdict in judged)
    alone = [number for number, each in enumerate(judged) if each.tested and each.kind is VerdictKind.DISAGREES]
    kept, before = alone, tested
    while kept and len(kept) < before:
        before, level = len(kept), 1 - (1 - confidence) * len(kept) / tested
        kept = [number for number in kept if again(number, level).kind is VerdictKind.DISAGREES]
    text = f"By itself this would disagree, but it does not stand out among the {tested} claims tested"
    text += f" (false discovery rate {human_share(1 - CONFIDENCE)})."
    return [
        verdict.finding.saying(text, VerdictKind.INCONCLUSIVE)
        if number in alone and number not in kept
        else verdict.finding
        for number, verdict in enumerate(judged)
    ]


def _by_construction(claim: Claim, run: RunFolder, finding: Finding) -> Finding:
    """Return the finding, weakened to CONSISTENT if the model's costs were fitted to this row or claim."""
    fitted = HostMetadata(run.meta).fitted
    source, what = (fitted.get(claim.id), "claim") if claim.id in fitted else (fitted.get(claim.row), "row")
    if finding.kind is not VerdictKind.AGREES or source is None:
        return finding
    return finding.saying(f"The model's costs come from this {what} ({source}).", VerdictKind.CONSISTENT)


def rows_of(run: RunFolder) -> list[str]:
    """Return the paper rows that a run measures; none if its spec asks a question of its own."""
    rows = run.meta.get("rows") or [run.meta["row"]]
    return [str(row) for row in rows if row is not None]


def own_claims(run: RunFolder) -> list[Claim]:
    """Return the claims that the run's spec states.

    Raises:
        UsageError: run.json holds one that no spec could state.
    """
    stated = run.meta.get("spec", {}).get("claims", [])
    try:
        return [own_claim(str(run.meta["spec_name"]), OwnClaim.model_validate(each)) for each in stated]
    except ValidationError as error:
        raise UsageError(
            f"cannot be read: {error.errors()[0]['msg']}", f"{run.path / 'run.json'}: spec.claims"
        ) from None


def _finding(claim: Claim, run: RunFolder, table: pd.DataFrame, confidence: float = CONFIDENCE) -> Finding:
    claim = _with_real_load(claim, factors(table))
    lacking = _lacking(claim, run)
    if lacking:
        return _not_measurable(lacking, _left_out(claim, run))
    data = data_of(table, claim.metric, claim.beside)
    if data.empty:
        made = f" ({len(table)} trials, all failed or none measured)" if len(table) else ""
        return _not_measurable(f"the run has no valid trial{made}", _left_out(claim, run))
    selected = _selected(data, claim.where, run)
    if selected.empty:
        return _not_measurable(f"the run has no point with {_where_text(claim.where)}", _left_out(claim, run))
    unfit = _unfit(claim, run, table, selected)
    selected = selected[~places(selected).isin(unfit)]
    if selected.empty:
        return _not_measurable(f"no point is suitable for a judgement: {next(iter(unfit.values()))}")
    finding = _of_all(claim, _without_zipped(selected, claim, run), confidence)
    there = selected[f"metric.{claim.metric}"].notna().groupby(places(selected), sort=False).any()
    if there.any() and (without := [str(place) for place, known in there.items() if not known]):
        more = f" and at {counted(len(without) - 1, 'further point')}" if without[1:] else ""
        why = absence(selected[places(selected).isin(without)], claim.metric)
        finding = finding.saying(f"Left out: no trial has the metric at {without[0]}{more}, because {why}.")
    if unfit:
        finding = finding.saying(f"Left out: {next(iter(unfit.values()))}.")
    if finding.numbers and (text := _stopping_text(run, confidence)):
        finding = finding.saying(text)
    finding = _of_all_levels(claim, run, selected, finding)
    if several_pairs(table) and not several_pairs(selected):
        finding = finding.saying(f"Only pair {selected[f'factor.{PAIR}'].iloc[0]} has it.")
    # Levels that the predicate needs are missing, perhaps because the testbed has no room for them.
    missing = _left_out(claim, run) if finding.kind is VerdictKind.NOT_MEASURABLE else []
    return finding.saying(" ".join(missing)) if missing else finding


def _unfit(claim: Claim, run: RunFolder, table: pd.DataFrame, selected: pd.DataFrame) -> dict[str, str]:
    """Return the places of the selected trials that do not stand for their point, and why."""
    metrics = [metric for metric in (claim.beside, claim.metric) if metric is not None and claim.row != SANITY]
    unfit = {place: why for metric in metrics for place, why in unfair_samples(selected, metric).items()}
    if claim.needs_load:
        unfit |= unsaturated_points(table) | unreached_points(run, table) | saturated_generator_points(run, table)
    return {str(place): unfit[place] for place in places(selected).unique() if place in unfit}


def _of_all_levels(claim: Claim, run: RunFolder, selected: pd.DataFrame, finding: Finding) -> Finding:
    """Return the finding; it is inconclusive if the claim is about an average and levels of it are missing."""
    predicate = claim.predicate
    if not isinstance(predicate, AverageRatio) or finding.kind not in _DECIDED:
        return finding
    missing = {
        factor: [level for level in levels if _fits(level, claim.where[factor])] if factor in claim.where else levels
        for factor, levels in missing_levels(run, selected).items()
        if factor != predicate.factor
    }
    lacks = "; ".join(missing_text(factor, levels) for factor, levels in missing.items() if levels)
    if not lacks:
        return finding
    text = f"The claim states an average over all levels, and these were not measured: {lacks}."
    return finding.saying(text, VerdictKind.INCONCLUSIVE)


def _lacking(claim: Claim, run: RunFolder) -> str:
    """Return what the claim needs and the run's testbed lacks; empty if it lacks nothing."""
    host = HostMetadata(run.meta)
    if "fast-link" in claim.needs and host.slow_link:
        return f"the claim is about packets spaced as at 10 Gbit/s, and on this testbed {host.slow_link}"
    wanted = " and ".join(_NEEDS[need] for need in claim.needs if need in _NEEDS)
    if wanted and host.without_hardware:
        return f"the claim is about {wanted}, and {host.without_hardware}"
    # Claims of our own specs are about counts and directions, which an emulator has to show as well.
    if claim.paper and host.emulated:
        return "the claim is about hardware, and times, rates and caches of emulated machines are the emulator's"
    return ""


def _stopped(run: RunFolder) -> bool:
    """Return whether trials were repeated until an interval was narrow."""
    repeats = run.meta.get("spec", {}).get("repeats")
    return isinstance(repeats, Mapping) and isinstance(repeats.get("until"), Mapping)


def level_of(run: RunFolder) -> float:
    """Return the level of intervals that fits the rule which ended the repeats.

    Raises:
        UsageError: run.json holds no such number.
    """
    return STOPPED_CONFIDENCE if _stopped(run) else _looks(run)[1]


def _looks(run: RunFolder) -> tuple[int, float]:
    """Return how often the run looked at its claims, and the level of intervals at the last look.

    Raises:
        UsageError: run.json holds no such numbers.
    """
    looks = run.meta.get("looks")
    if looks is None:
        return 0, CONFIDENCE
    entry = Part(looks, f"{run.path / 'run.json'}: looks")
    return len(list(entry["made"].items())), entry["confidence"].number()


def _stopping_text(run: RunFolder, confidence: float) -> str:
    """Return a sentence on the rule that ended the repeats; empty if their number was fixed."""
    level, (looks, _) = human_share(confidence), _looks(run)
    if _stopped(run):
        return f"Trials were repeated until an interval was narrow, so intervals have the level {level}."
    return f"The run looked at its claims {counted(looks, 'time')}, so intervals have the level {level}." * bool(looks)


def _of_all(claim: Claim, selected: pd.DataFrame, confidence: float) -> Finding:
    """Return the finding of all trials, qualified by flags, host states and the rule that ended the repeats."""
    finding = _judged(claim, selected, confidence)
    # A claim of row SANITY holds on a noisy host as well, so flags do not qualify it.
    if finding.flagged and finding.kind in _DECIDED and claim.row != SANITY:
        others = _judged(claim, selected[selected["status"] != "flagged"], confidence)
        finding = _without_flagged(finding, others, _FEW_POINTS * isinstance(claim.predicate, AverageRatio))
    elif finding.flagged and finding.kind is VerdictKind.INCONCLUSIVE:
        finding = finding.saying(f"{_flagged_text(finding)}.")
    return finding


def _judged(claim: Claim, selected: pd.DataFrame, confidence: float) -> Finding:
    found = by_point(selected, claim.metric, claim.beside)
    if not found:
        metric = claim.metric if selected[f"metric.{claim.metric}"].isna().all() else claim.beside or claim.metric
        title = metric_dictionary()[metric].title
        return _not_measurable(f"{title} ({metric}) is absent, because {absence(selected, metric)}")
    finding = judge(claim.predicate, found, metric_dictionary()[claim.metric], confidence)
    return _of_selected(_on_its_host_state(finding, claim), claim)


def _of_selected(finding: Finding, claim: Claim) -> Finding:
    """Return the finding; it is inconclusive if it compares levels that were selected by their values.

    No interval includes the error of the selection (docs/validity.md, the undisturbed level).
    """
    if claim.metric not in UNDISTURBED or isinstance(claim.predicate, _NOT_COMPARING) or finding.kind not in _DECIDED:
        return finding
    text = f"By its intervals it {finding.kind.value}, but these omit the error of selecting undisturbed trials."
    return finding.saying(text, VerdictKind.INCONCLUSIVE)


def _flagged_text(finding: Finding) -> str:
    are = "is" if finding.flagged == 1 else "are"
    return f"{finding.flagged} of {finding.trials} trials {are} flagged"


def _without_flagged(finding: Finding, others: Finding, few: float) -> Finding:
    """Return the finding; it is inconclusive if it rests on flagged trials alone or the others contradict it.

    Up to the share `few` of its points may consist of flagged trials mostly.
    """
    disturbed = f"{finding.flagged} of {finding.trials} trials disturbed"
    if others.kind is VerdictKind.NOT_MEASURABLE:
        text = f"{disturbed}, and the verdict ({finding.kind.value}) rests on those alone."
        return finding.saying(text, VerdictKind.INCONCLUSIVE)
    text = f"{_flagged_text(finding)}; without them: {others.kind.value}"
    most_are = finding.flagged > _MOST_FLAGGED * finding.trials
    # The trials that are not flagged suffice by themselves if there are enough of them, at every point.
    least = min((len(each.values) for each in others.behind), default=0)
    alone = least >= _FEWEST_CLEAN and len(others.behind) == len(finding.behind)
    if others.kind is finding.kind and (alone or not most_are):
        return finding.saying(f"{text}.")
    if most_are:
        return finding.saying(f"{disturbed}; without them: {others.kind.value}.", VerdictKind.INCONCLUSIVE)
    most = [each for each in finding.behind if each.flagged > _MOST_FLAGGED * len(each.values)]
    if others.kind not in _DECIDED and len(most) <= few * len(finding.behind):
        return finding.saying(f"{text}.")
    at = "".join(f"; {each.flagged} of {len(each.values)} at {each.label() or 'all'}" for each in most[:1])
    return finding.saying(f"{text}{at}.", VerdictKind.INCONCLUSIVE)


def _on_its_host_state(finding: Finding, claim: Claim) -> Finding:
    """Return the finding with a sentence on the host states of its trials.

    Points of different host states may differ for that reason alone, so a claim that compares them stays undecided.
    """
    compares = isinstance(claim.predicate, _BY_BLOCK)
    compared = {str(getattr(claim.predicate, key, "")) for key in ("factor", "across")} if compares else set[str]()
    footing = of_samples(finding.behind, compared)
    if not footing.text or footing.same is None or finding.kind is VerdictKind.NOT_MEASURABLE:
        return finding
    mix = counts_text(whole_mix(finding.behind))
    if footing.same:
        return finding.saying(f"Its trials are pooled over several host states ({mix}).")
    text = f"Its points were measured in different host states ({mix})"
    # A claim of row SANITY must hold in any host state.
    if not isinstance(claim.predicate, _NOT_COMPARING) and finding.kind in _DECIDED and claim.row != SANITY:
        return finding.saying(f"{text}, which alone can cause or hide such a difference.", VerdictKind.INCONCLUSIVE)
    return finding.saying(f"{text}.")


def _not_measurable(reason: str, why: Sequence[str] = ()) -> Finding:
    return Finding(VerdictKind.NOT_MEASURABLE, " ".join([reason[0].upper() + reason[1:] + ".", *why]))


def _left_out(claim: Claim, run: RunFolder) -> list[str]:
    """Return a sentence on why points of the claim were left out of the run; nothing if none were."""
    every = run.meta.get("left_out", [])
    entries = [
        entry
        for entry in every
        if (levels := entry.get("factors")) is not None
        and all(name in levels and _fits(levels[name], condition) for name, condition in claim.where.items())
    ] or ([] if run.trials else every)
    if not entries:
        return []
    reasons = list(dict.fromkeys(str(entry["reason"]) for entry in entries))
    more = f"; {len(reasons) - MOST_REASONS} further reasons" if len(reasons) > MOST_REASONS else ""
    return [f"{counted(len(entries), 'point')} left out: {'; '.join(reasons[:MOST_REASONS])}{more}."]


def _with_real_load(claim: Claim, present: list[str]) -> Claim:
    """Replace `load` by the load factor that the run has swept."""
    real = next((name for name in present if name in LOADS), LOAD)
    where = {real if name == LOAD else name: condition for name, condition in claim.where.items()}
    predicate = claim.predicate
    if getattr(predicate, "factor", None) == LOAD:
        predicate = predicate.model_copy(update={"factor": real})
    return claim.model_copy(update={"where": where, "predicate": predicate})


def _without_zipped(data: pd.DataFrame, claim: Claim, run: RunFolder) -> pd.DataFrame:
    """Drop the factors that are zipped with the predicate's factor: the predicate's factor stands for them."""
    kept = {getattr(claim.predicate, key, None) for key in ("factor", "across")}
    zipped = [group for group in run.meta.get("spec", {}).get("zip", []) if kept & set(group)]
    columns = [f"factor.{name}" for group in zipped for name in group if name not in (*kept, *_NEVER_ZIPPED)]
    return data.drop(columns=[column for column in columns if column in data.columns])


def _selected(data: pd.DataFrame, where: Where, run: RunFolder) -> pd.DataFrame:
    # Parameters that the run did not sweep. One that is missing in an older run had today's default.
    fixed = Parameters().model_dump(mode="json") | run.meta.get("spec", {}).get("parameters", {})
    for name, condition in where.items():
        column = f"factor.{name}"
        if column not in data.columns and name in fixed:
            data = data if _fits(fixed[name], condition) else data.iloc[:0]
        elif column not in data.columns:
            return data.iloc[:0]
        else:
            fits = pd.Series([_fits(level, condition) for level in data[column]], data.index, dtype=bool)
            # A condition on the waiting of notified cores does not apply to other cores.
            if name in OF_QWAIT and "factor.notification" in data.columns:
                fits |= data["factor.notification"] != "qwait"
            data = data[fits]
    return data


def _fits(level: object, condition: float | int | str | Range) -> bool:
    if level is None or isinstance(condition, str):
        return level == condition
    try:
        value = float(level)  # type: ignore[arg-type]  # a factor whose other levels are words has texts: "64", "imix"
    except ValueError:
        return False
    return condition.contains(value) if isinstance(condition, Range) else math.isclose(value, condition, abs_tol=1e-9)


def _where_text(where: Where) -> str:
    def one(name: str, condition: float | int | str | Range) -> str:
        if isinstance(condition, Range):
            return f"{name} {condition.text(lambda level: level_text(name, level))}"
        return f"{name} {level_text(name, condition)}"

    return " and ".join(one(name, condition) for name, condition in where.items())
