# SPDX-License-Identifier: BSD-3-Clause
"""Execute a plan: its blocks, further rounds until intervals are narrow, and extra blocks after a host-state change."""

import json
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event

from pollscope.base.errors import TrialError, UsageError
from pollscope.base.names import Status
from pollscope.base.units import counted, human_share
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.host_state import (
    UNKNOWN,
    Measured,
    Standing,
    judge_host_state,
    standing,
    trial_labels,
    wanted_in_one,
)
from pollscope.metrics.judgement import judge
from pollscope.metrics.record import NotMeasured
from pollscope.plan.plan import Plan, Trial
from pollscope.plan.search import SearchCounts
from pollscope.run.failure_budget import FailureBudget
from pollscope.run.looks import Judge, Looks, OpenClaim, points_of
from pollscope.run.progress import Progress
from pollscope.run.search_trials import StepFailed, counts_of, run_search
from pollscope.run.trace_identity import SameTraces
from pollscope.spec.points import Point
from pollscope.stats.estimates import STOPPED_CONFIDENCE, stopping_half_width
from pollscope.store.run_folder import resume_command
from pollscope.store.trial_record import TrialRecord
from pollscope.store.writer import RunWriter
from pollscope.testbeds import Testbed


@dataclass(frozen=True)
class Kept:
    """The part of a trial's last attempt that stays in memory; the whole record is on the disk."""

    status: Status
    attempt: int
    kind: str
    point: str
    repeat: int
    metrics: Mapping[str, float]
    reason: str
    counts: SearchCounts | None
    steps: tuple[str, ...]  # trials of a search
    measured: Measured


class Runner:
    """Execute a plan, from the start or resumed.

    Args:
        plan: the trials.
        testbed: measures the trials one after the other.
        writer: the run folder.
        progress: called before each trial.
        budget: tries that may fail, for all pairs of the run.
        stop: once set, no further trial begins (KeyboardInterrupt).
        judge_claims: finds the claims that are open, for `repeats: {until: verdicts}`.
    """

    def __init__(
        self,
        plan: Plan,
        testbed: Testbed,
        writer: RunWriter,
        progress: Progress,
        budget: FailureBudget,
        stop: Event | None = None,
        judge_claims: Judge | None = None,
    ) -> None:
        self.plan, self.testbed = plan, testbed
        self._writer, self._progress, self._budget, self._stop = writer, progress, budget, stop
        self._kept: dict[str, Kept] = {}
        self._stored_steps: dict[str, TrialRecord] = {}
        self._cause, self._failed_by_it = "", dict[str, str]()  # of trials in a row: trial -> point
        self._failures_of: dict[str, list[str]] = {}  # point -> reasons, since its last trial that did not fail
        self._traces = SameTraces()
        self._judge_claims = judge_claims
        self._stored: frozenset[str] = frozenset()  # trials of an interrupted part of the run
        self.warnings: list[str] = []

    def remember(self, records: Iterable[TrialRecord]) -> None:
        """Keep those trials of an interrupted run whose parameters agree with the plan."""
        planned = {trial.id: trial for trial in self._possible_trials()}
        for record in records:
            trial = planned.get(record.trial)
            if record.kind == "search":
                self._traces.check(record)
                self._stored_steps[record.trial] = record
            elif trial is not None and _same_params(record, trial):
                self._traces.check(record)
                self._keep(record, self._metrics_of(record))
        for kept in list(self._kept.values()):
            for step in kept.steps:
                if (stored := self._stored_steps.pop(step, None)) is not None:
                    self._keep(stored, self._metrics_of(stored))
        self._stored = frozenset(self._kept)

    def run(self) -> None:
        """Run all missing trials.

        Raises:
            HostError: the testbed cannot measure any further trial.
            TrialError: too many trials failed, or several in a row for one cause.
        """
        began_s = time.monotonic()
        there = [trial for trial in self.plan.trials if self._done(trial)]
        self._progress.skip(len(there), sum(trial.seconds for trial in there))
        for trial in self.plan.trials:
            self._make(trial)
        self._repeat_until()
        self._repeat_until_decided(began_s)
        self.testbed.end_block()
        self._repeat_on_same_host_state()

    def count(self, *statuses: str) -> int:
        """Return the number of trials that ended with one of these statuses."""
        return sum(kept.status in statuses for kept in self._kept.values())

    def failures(self) -> dict[str, str]:
        """Return trial -> reason for the failed trials."""
        return {trial: kept.reason for trial, kept in self._kept.items() if kept.status == "failed"}

    def further_ids(self) -> list[str]:
        """Return the trials that were added to the plan."""
        planned = {trial.id for trial in self.plan.trials}
        return [trial for trial in self._kept if trial not in planned]

    def _possible_trials(self) -> Iterable[Trial]:
        yield from self.plan.trials
        until = self.plan.spec.repeats.narrow
        if until is not None:
            for repeat in range(until.at_least, until.at_most):
                yield from self.plan.further_round(self.plan.points, repeat)
        if self.plan.spec.repeats.decided:
            for repeat in range(self.plan.spec.repeats.at_least, Looks.of(self.plan, self._writer.meta).declared):
                yield from self.plan.further_round(self.plan.points, repeat)
        for repeat in self._extra_repeats():
            yield from self.plan.further_round(self.plan.points, repeat)

    def _done(self, trial: Trial) -> bool:
        kept = self._kept.get(trial.id)
        return kept is not None and kept.status != "failed"

    def _make(self, trial: Trial) -> None:
        if self._done(trial):
            return
        self._budget.check()  # another pair may have exhausted it
        if trial.search_trials:
            self._search(trial)
        elif (reason := self._known_reason(trial.point)) is not None:
            self._give_up(trial, reason)
        else:
            self._measure(trial)
        kept = self._kept[trial.id]
        self._progress.done(trial, kept.reason if kept.status == "failed" else None)

    def _make_further(self, trials: Sequence[Trial]) -> None:
        self._progress.further(len(trials), sum(trial.seconds for trial in trials))
        for trial in trials:
            self._make(trial)

    def _measure(self, trial: Trial) -> None:
        left = {"flagged": self.plan.spec.noise.repeat_flagged, "failed": self.plan.spec.failures.tries - 1}
        if self.testbed.emulated:  # this host disturbs every trial, so a repeat would not be better
            left["flagged"] = 0
        while True:
            if self._stop is not None and self._stop.is_set():  # also between the trials of a search
                raise KeyboardInterrupt
            self._progress.trial(trial)
            record = self.testbed.measure(trial, self._next_attempt(trial))
            self._traces.check(record)
            metrics = self._metrics_of(record)
            if trial.kind == "search":
                metrics = _checked_counts(record, metrics)
            self._writer.append(record.to_json())
            self._keep(record, metrics)
            self._watch_causes(record)
            self._budget.count(record)
            self._budget.check()
            if record.final or left.get(record.status, 0) == 0:
                break
            left[record.status] -= 1
        if self._kept[trial.id].status != "failed":  # a flagged trial is data, even if its repeat fails
            self._failures_of.pop(trial.point.id, None)
        elif not record.final:
            self._failures_of.setdefault(trial.point.id, []).append(record.reason or "")

    def _known_reason(self, point: Point) -> str | None:
        """Return the one reason why the last two trials of a point failed; None if other points fail for it as well."""
        reasons = self._failures_of.get(point.id, [])[-2:]
        causes = set(map(_cause, reasons))
        shared = causes == {self._cause} and set(self._failed_by_it.values()) != {point.id}
        return reasons[0] if len(reasons) == 2 and len(causes) == 1 and not shared else None

    def _give_up(self, trial: Trial, reason: str) -> None:
        record = self.testbed.begun(trial, self._next_attempt(trial))
        record = record.failed(f"not tried, because two trials of this point failed: {reason}", final=True)
        self._writer.append(record.to_json())
        self._keep(record, {})

    def _search(self, maximum: Trial) -> None:
        """Search the maximum; reuse the trials of an interrupted run."""

        def count(step: Trial) -> SearchCounts:
            counts = self._step(step)
            self._progress.spent(step.seconds, maximum.seconds)
            return counts

        attempt = self._next_attempt(maximum)
        try:
            search, warnings = run_search(self.plan.spec, maximum, count)
        except StepFailed as failed:
            record = self.testbed.begun(maximum, attempt).failed(str(failed))
        else:
            record = self.testbed.begun(maximum, attempt).having(search=search)
            self.warnings += warnings
        self._writer.append(record.to_json())
        self._keep(record, self._metrics_of(record))

    def _step(self, step: Trial) -> SearchCounts:
        stored = self._stored_steps.pop(step.id, None)
        if stored is not None:
            # Repeat the trial if this search asks for another load (another version of the package planned it).
            usable = stored.status != "failed" and _same_params(stored, step)
            metrics = self._metrics_of(stored)
            self._keep(stored if usable else stored.having(status="failed"), metrics)
        if not self._done(step):
            self._measure(step)
        kept = self._kept[step.id]
        if kept.counts is None:
            raise StepFailed(f"{step.id}: {kept.reason}")
        return kept.counts

    def _next_attempt(self, trial: Trial) -> int:
        kept = self._kept.get(trial.id)
        return 0 if kept is None else kept.attempt + 1

    def _metrics_of(self, record: TrialRecord) -> Mapping[str, float]:
        """Return the metrics of a record, none if it failed; set its status and flags by the rules that readers apply.

        A record that contradicts the protocol fails.
        """
        if record.status == "failed":
            return {}
        try:
            found = judge(record.to_json(), self.plan.spec.noise)
        except UsageError as error:
            record.status, record.reason = "failed", f"the node's result contradicts the protocol: {error}"
            return {}
        record.status, record.flags = found.status, list(found.flags)
        record.reason = found.reason or record.reason
        return found.metrics

    def _watch_causes(self, record: TrialRecord) -> None:
        """End the run if trials in a row fail for one cause; a trial that was not tried counts for nothing.

        Raises:
            TrialError: the cause is that of no single trial.
        """
        if record.final:
            return
        cause = _cause(record.reason or "") if record.status == "failed" else ""
        if cause != self._cause:
            self._cause, self._failed_by_it = cause, {}
        if cause:
            self._failed_by_it[record.trial] = record.point
        if len(self._failed_by_it) >= self.plan.spec.failures.in_a_row:
            remedy = f"remove the cause, then {resume_command(self._writer.folder)}"
            raise TrialError(
                f"{len(self._failed_by_it)} trials in a row failed for one reason: {record.reason}",
                str(self._writer.log),
                f"{remedy}; or a new run with more failures.in_a_row",
            )

    def _keep(self, record: TrialRecord, metrics: Mapping[str, float]) -> None:
        before = self._kept.get(record.trial)
        if before is not None and record.status == "failed" != before.status:
            # The repeat of a flagged trial failed, so the flagged trial stays in the data.
            self._kept[record.trial] = replace(before, attempt=record.attempt)
            return
        counted = record.kind == "search" and record.status != "failed"
        self._kept[record.trial] = Kept(
            status=record.status,
            attempt=record.attempt,
            kind=record.kind,
            point=record.point,
            repeat=record.repeat,
            metrics=metrics,
            reason=record.reason or "",
            counts=counts_of(record, metrics) if counted else None,
            steps=tuple(record.search["trials"]) if record.search is not None else (),
            measured=Measured.of({"host_state": record.host_state, "host": record.host}),
        )
        self.testbed.maxima.keep(record, metrics)

    def _repeat_until(self) -> None:
        until = self.plan.spec.repeats.narrow
        if until is None:
            return
        for repeat in range(until.at_least, until.at_most):
            limits = metric_dictionary()[until.metric].limits
            values = self._values(until.metric)
            wide = [point for point, sample in values if stopping_half_width(sample, limits) > until.within]
            if not wide:
                return
            self._make_further(self.plan.further_round(wide, repeat))
        self._warn_of_width()

    def _repeat_until_decided(self, began_s: float) -> None:
        """Repeat the points of open claims, look by look, until more trials decide none or the time is over."""
        repeats = self.plan.spec.repeats
        if not repeats.decided or self._judge_claims is None:
            return
        looks = Looks.of(self.plan, self._writer.meta)
        if looks.ended:
            return
        stored_s = sum(trial.seconds for trial in self._possible_trials() if trial.id in self._stored)
        end_s = began_s + (repeats.at_most_ns or 0) / 1e9 - stored_s
        made = max([repeats.at_least, *looks.made])
        while True:
            self.testbed.end_block()
            last = made >= looks.declared or time.monotonic() >= end_s
            if last:  # an interrupted part of the run may have made repeats after its last look
                made = max([made, *(kept.repeat + 1 for kept in self._kept.values() if kept.kind == "measure")])
            self._writer.update(looks=looks.take(made, last=last))
            open_claims = self._judge_claims(self._writer.folder, made)
            # If all trials are flagged after two looks, those of a third would be as well.
            flagged = [each for each in open_claims if each.all_flagged and len(looks.made) > 1]
            open_claims = [each for each in open_claims if each not in flagged]
            if last or not open_claims:
                break
            points = points_of(open_claims, self.plan.points)
            self._say_open(open_claims, made, len(points))
            target = looks.after(made)
            while made < target and time.monotonic() < end_s:
                self._make_further(self.plan.further_round(points, made, min(2, target - made)))
                made += min(2, target - made)
        if flagged:
            self.warnings.append(
                f"{counted(len(flagged), 'verdict')} cannot be decided by more time, because after {made} repeats all "
                f"trials are flagged: {_names(flagged)} (use a quiet machine or isolated CPUs, or allow waits: `--set "
                "noise.max_waiting=...`)"
            )
        if open_claims:
            why = "the declared maximum" if made >= looks.declared else "the given time"
            what = f"{counted(len(open_claims), 'verdict')} still open after {made} repeats, {why}"
            self.warnings.append(f"{what}: {_names(open_claims)}")

    def _say_open(self, open_claims: Sequence[OpenClaim], made: int, points: int) -> None:
        what = f"after {made} repeats {counted(len(open_claims), 'verdict')} open, {counted(points, 'point')} continue"
        self._progress.say("; ".join([what, *(f"{each.claim}: {each.waits_for}" for each in open_claims)]))

    def _extra_repeats(self) -> range:
        """Return the repeat numbers of extra blocks; they follow the highest number that the plan can have."""
        repeats = self.plan.spec.repeats
        if repeats.decided:  # repeats after the last look would change its verdicts
            return range(0)
        first = repeats.at_least if repeats.narrow is None else repeats.narrow.at_most
        return range(first, first + self.plan.spec.noise.extra_blocks)

    def _repeat_on_same_host_state(self) -> None:
        """Run a few extra blocks of the points that lack repeats in a single host state."""
        if self.testbed.emulated:
            return
        extra = self._extra_repeats()
        # A block that an interrupted run began counts as done, so that resuming a complete run measures nothing.
        begun = {kept.repeat for kept in self._kept.values() if kept.kind == "measure"}
        for number, repeat in enumerate(extra, 1):
            if any(other >= repeat for other in begun):
                continue
            points = self._short_of_host_state()
            if not points:
                return
            few = f"{len(points)} points with too few repeats in one host state"
            self._progress.say(f"{self._host_state_text()}: extra block {number} of at most {len(extra)} for {few}")
            self._make_further(self.plan.further_round(points, repeat))
            self.testbed.end_block()
        points = self._short_of_host_state()
        if points:
            few = f"{len(points)} of {len(self.plan.points)} points, '{points[0].id}' the first,"
            self.warnings.append(
                f"{self._host_state_text()}, and after {len(extra)} extra blocks {few} lack repeats in one "
                "host state: their trials in different host states are pooled"
            )

    def _host_state_text(self) -> str:
        return (
            f"the host state changed during the run ({'; '.join(judge_host_state(self.testbed.host_checks).changes())})"
        )

    def _short_of_host_state(self) -> list[Point]:
        """Return the points that lack repeats in a single host state."""
        _, found = self._seen()
        return [point for point in self.plan.points if point.id in found.short]

    def _seen(self) -> tuple[list[tuple[Kept, str]], Standing]:
        """Return the valid trials with their host states, and the repeats of each point in the main one.

        If there is only one host state, there is no main one and no point lacks repeats.
        """
        judgement = judge_host_state(self.testbed.host_checks)
        seen = [kept for kept in self._kept.values() if kept.kind == "measure" and kept.status != "failed"]
        labels = trial_labels(judgement, self.testbed.host_checks, [kept.measured for kept in seen])
        labelled = list(zip(seen, labels, strict=True))
        if len(judgement.host_states) < 2:
            return labelled, Standing(UNKNOWN, {})
        planned = {trial.repeat for trial in self.plan.trials if trial.kind == "measure"}
        wanted = None if self.plan.spec.repeats.decided else wanted_in_one(len(planned))
        return labelled, standing([(kept.point, label) for kept, label in labelled], wanted)

    def _values(self, metric: str) -> list[tuple[Point, list[float]]]:
        """Return the values per point that claims would use if the run ended now.

        Trials in other host states are left out if each point has enough repeats in the main one.
        """
        seen, found = self._seen()
        anywhere = found.main == UNKNOWN or bool(found.short)
        counted = [kept for kept, label in seen if metric in kept.metrics and (anywhere or label == found.main)]
        return [
            (point, [kept.metrics[metric] for kept in counted if kept.point == point.id]) for point in self.plan.points
        ]

    def _warn_of_width(self) -> None:
        until = self.plan.spec.repeats.narrow
        assert until is not None
        level, limits = human_share(STOPPED_CONFIDENCE), metric_dictionary()[until.metric].limits
        for point, values in self._values(until.metric):
            width = stopping_half_width(values, limits)
            after = f"'{point.id}': after {until.at_most} trials, {len(values)} of which gave {until.metric},"
            if math.isinf(width):
                self.warnings.append(f"{after} it has no {level} interval (asked for +-{human_share(until.within)})")
            elif width > until.within:
                wide = f"+-{human_share(width, 2)} wide (asked for {human_share(until.within)})"
                self.warnings.append(f"{after} its {level} interval is still {wide}")


def _names(claims: Sequence[OpenClaim]) -> str:
    return ", ".join(each.claim for each in claims)


def _cause(reason: str) -> str:
    """Return a reason without the numbers that differ between trials with one cause: CPUs, bytes, process numbers."""
    return re.sub(r"\d+", "#", reason)


def _checked_counts(record: TrialRecord, metrics: Mapping[str, float]) -> Mapping[str, float]:
    """Return the metrics of a search trial; the trial fails if it does not count its losses."""
    if record.status == "failed":
        return metrics
    try:
        counts_of(record, metrics)
    except (NotMeasured, KeyError) as missing:
        record.status, record.reason = "failed", f"the trial does not count its losses: {missing}"
        return {}
    return metrics


def _same_params(record: TrialRecord, trial: Trial) -> bool:
    """Return whether a stored record was made with the parameters that the plan has now (compared as JSON)."""
    return bool(record.params == json.loads(json.dumps(trial.point.values())))
