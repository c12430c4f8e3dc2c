# SPDX-License-Identifier: BSD-3-Clause
"""Executes a plan: maxima first, then block after block, further rounds until intervals are narrow enough."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from threading import Event
from typing import Any

from pollscope.base.errors import HostError, TrialError, UsageError
from pollscope.base.units import human_rate
from pollscope.knobs.points import knob_settings
from pollscope.metrics.ground import Canary, standing, trial_labels
from pollscope.metrics.judgement import judge
from pollscope.metrics.record import NotMeasured
from pollscope.plan.plan import Plan, Trial, search_trial
from pollscope.plan.search import Counts, search, settings_of
from pollscope.run.ground_watch import GroundWatch
from pollscope.run.progress import Progress
from pollscope.run.search_trials import counts_of, hidden_overload, search_json
from pollscope.run.trials import Record, TrialMaker, not_run, same_params, search_record
from pollscope.spec.points import Point
from pollscope.stats.estimates import relative_half_width
from pollscope.store.writer import RunWriter
from pollscope.testbeds import HostAway, Knobs, Testbed

# So many nodes lost one after the other are no accident: the run stops and can be resumed.
GIVE_UP_AFTER = 5
# The DUT misses less than this share at saturation: then it was the generator that could not do more.
GENERATOR_BOUND_MISSED = 0.01
# So often a trial of a search is made that fails, before the search has failed.
STEP_TRIES = 3


@dataclass
class Kept:
    """What is remembered of a trial's last attempt; the record itself is on the disk."""

    status: str
    attempt: int
    kind: str
    point: str
    metrics: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    counts: Counts | None = None
    searched: Mapping[str, Any] | None = None
    repeat: int = 0
    ground: int | None = None


class StepFailed(Exception):
    """A trial of a search failed again and again; the text says why."""


class Runner:
    """One execution of a plan, from the start or continued.

    Args:
        plan: the trials.
        testbed: where they run.
        writer: the run folder.
        maker: makes single trials.
        progress: told before each trial.
        knobs: turned to a point's levels before its trial.
        stop: when set, no further trial is begun (KeyboardInterrupt).
    """

    def __init__(
        self,
        plan: Plan,
        testbed: Testbed,
        writer: RunWriter,
        maker: TrialMaker,
        progress: Progress,
        knobs: Knobs,
        stop: Event | None = None,
    ) -> None:
        self._plan, self._testbed, self._writer, self._maker = plan, testbed, writer, maker
        self._progress, self._knobs, self._stop = progress, knobs, stop
        self._kept: dict[str, Kept] = {}
        self._stored_steps: dict[str, Record] = {}
        self._lost_in_a_row = 0
        self._pair = next((trial.pair for trial in plan.trials), None)
        self._ground = GroundWatch(maker.ground, writer.append_canary, self._pair)
        self.warnings: list[str] = []
        self.maxima: dict[str, dict[str, Any]] = {}

    def remember(self, records: Iterable[Record], canaries: Sequence[Canary] = ()) -> None:
        """Takes over an interrupted run's canaries, and its trials whose parameters are still those of the plan."""
        self._ground.remember(canaries)
        planned = {trial.id: trial for trial in self._possible_trials()}
        for record in records:
            trial = planned.get(record["trial"])
            if record["kind"] == "search":
                self._stored_steps[record["trial"]] = record
            elif trial is not None and same_params(record, trial):
                self._keep(record, self._metrics_of(record))
        for kept in list(self._kept.values()):
            for step in kept.searched["trials"] if kept.searched is not None else ():
                self._remember_step(step)

    def _remember_step(self, step: str) -> None:
        stored = self._stored_steps.pop(step, None)
        if stored is not None:
            self._keep(stored, self._metrics_of(stored))

    def run(self) -> None:
        """Makes every trial that is not there yet.

        Raises:
            HostError: a node cannot be started, or a host whose knobs are turned is gone.
            TrialError: node after node was lost.
        """
        there = [trial for trial in self._plan.trials if self._done(trial)]
        self._progress.skip(len(there), sum(trial.seconds for trial in there))
        for trial in self._plan.trials:
            self._make(trial)
        self._repeat_until()
        self._ground.close()
        self._repeat_on_same_ground()

    def count(self, *statuses: str) -> int:
        """How many trials ended with one of these statuses."""
        return sum(kept.status in statuses for kept in self._kept.values())

    def failures(self) -> dict[str, str]:
        """Trial -> reason, of those that failed."""
        return {trial: kept.reason for trial, kept in self._kept.items() if kept.status == "failed"}

    def trial_ids(self) -> list[str]:
        """All trials of the run in the order of the plan, further rounds last."""
        planned = [trial.id for trial in self._plan.trials]
        return planned + [trial for trial in self._kept if trial not in set(planned)]

    def _possible_trials(self) -> Iterable[Trial]:
        yield from self._plan.trials
        until = self._plan.spec.repeats.until
        if until is not None:
            for repeat in range(until.at_least, until.at_most):
                yield from self._plan.further_round(self._plan.points, repeat)
        for repeat in self._extra_repeats():
            yield from self._extra_block(self._plan.points, repeat)

    def _done(self, trial: Trial) -> bool:
        kept = self._kept.get(trial.id)
        return kept is not None and kept.status != "failed"

    def _make(self, trial: Trial) -> None:
        if self._done(trial):
            return
        if self._stop is not None and self._stop.is_set():
            raise KeyboardInterrupt
        if trial.search_trials:
            self._search(trial)
        else:
            self._measure(trial)
        self._progress.done(trial, self._kept[trial.id].status)

    def _measure(self, trial: Trial) -> None:
        for _again in range(1 + self._plan.spec.noise.repeat_flagged):
            self._progress.trial(trial)
            record = self._attempt(trial)
            metrics = self._judge(trial, record)
            self._writer.append(record)
            self._keep(record, metrics)
            if record["status"] != "flagged":
                break

    def _search(self, maximum: Trial) -> None:
        """Executes a search; its trials are made, or taken from what an interrupted run has left."""
        settings, made = settings_of(self._plan.spec), list[str]()

        def measure(load_pps: float | None, _window_ns: int) -> Counts:
            step = search_trial(maximum, len(made), load_pps)
            made.append(step.id)
            counts = self._step(step)
            self._progress.spent(step.seconds, maximum.seconds)
            return counts

        attempt = self._next_attempt(maximum)
        try:
            found = search(settings, measure)
        except StepFailed as failed:
            record = not_run(maximum, attempt, self._testbed, str(failed))
        else:
            record = search_record(maximum, attempt, self._testbed, search_json(settings, found, made))
            if found.outcome != "found":
                self.warnings.append(
                    f"no result of the search at '{maximum.point.id}', {found.outcome}: {found.reason}"
                )
            if hidden := hidden_overload(maximum.point.params, settings, found):
                self.warnings.append(f"search at '{maximum.point.id}': {hidden}")
        self._writer.append(record)
        self._keep(record, self._metrics_of(record))

    def _step(self, step: Trial) -> Counts:
        stored = self._stored_steps.pop(step.id, None)
        if stored is not None:
            # Another load than this search asks for (another version of the package): the trial is made again.
            usable = stored["status"] != "failed" and same_params(stored, step)
            self._keep(stored if usable else {**stored, "status": "failed"}, self._metrics_of(stored))
        for _try in range(STEP_TRIES):
            if self._done(step):
                break
            self._measure(step)
        kept = self._kept[step.id]
        if kept.counts is None:
            raise StepFailed(f"{step.id}: {kept.reason}")
        return kept.counts

    def _next_attempt(self, trial: Trial) -> int:
        kept = self._kept.get(trial.id)
        return 0 if kept is None else kept.attempt + 1

    def _attempt(self, trial: Trial) -> Record:
        attempt = self._next_attempt(trial)
        maximum_pps = None
        if trial.maximum_of is not None:
            maximum_pps = self._maximum(trial.maximum_of)
            if maximum_pps is None:
                why = self._no_maximum(trial.maximum_of)
                reason = f"the maximum of '{trial.maximum_of}' could not be measured, so its share is not known{why}"
                return not_run(trial, attempt, self._testbed, reason)
        try:
            self._knobs.apply(knob_settings(trial.point.factors))
        except HostAway:
            raise
        except HostError as error:
            return not_run(trial, attempt, self._testbed, f"its knobs could not be set: {error}")
        ground = self._ground.before(trial, knob_settings(trial.point.factors))
        return {**self._maker.make(trial, attempt, maximum_pps), "ground": ground}

    def _judge(self, trial: Trial, record: Record) -> dict[str, float] | None:
        """Judges a fresh record as its readers will, and notes in it what the run decides on."""
        self._watch_losses(record)
        metrics = self._metrics_of(record)
        return _checked_counts(record, metrics) if trial.kind == "search" and metrics is not None else metrics

    def _metrics_of(self, record: Record) -> dict[str, float] | None:
        """The metrics of a record that did not fail, judged anew; one that contradicts the protocol fails by that."""
        if record["status"] == "failed":
            return None
        try:
            found = judge(record, self._plan.spec.noise)
        except UsageError as error:
            record["status"], record["reason"] = "failed", f"the node's result contradicts the protocol: {error}"
            return None
        record["status"], record["flags"] = found.status, list(found.flags)
        if found.reason:
            record["reason"] = found.reason
        return dict(found.metrics)

    def _watch_losses(self, record: Record) -> None:
        lost = record["status"] == "failed" and record.get("lost", False)
        self._lost_in_a_row = self._lost_in_a_row + 1 if lost else 0
        if self._lost_in_a_row >= GIVE_UP_AFTER:
            self._writer.append(record)
            raise TrialError(
                f"{GIVE_UP_AFTER} nodes in a row were lost, the last one because: {record['reason']}",
                str(self._writer.log),
                f"pollscope run --resume {self._writer.folder} goes on from here",
            )

    def _keep(self, record: Record, metrics: dict[str, float] | None) -> None:
        kept = Kept(record["status"], record["attempt"], record["kind"], record["point"], metrics or {})
        kept.reason = record.get("reason", "")
        kept.searched = record.get("search")
        kept.repeat, kept.ground = record["repeat"], record.get("ground")
        if record["kind"] == "search" and record["status"] != "failed" and metrics is not None:
            kept.counts = counts_of(record, metrics)
        self._kept[record["trial"]] = kept

    def _values(self, keep: Callable[[Kept], bool], metric: str) -> list[float]:
        good = (kept for kept in self._kept.values() if kept.status != "failed" and keep(kept))
        return [kept.metrics[metric] for kept in good if metric in kept.metrics]

    def _maximum(self, point: str) -> float | None:
        if point not in self.maxima:
            here = lambda kept: kept.kind == "maximum" and kept.point == point  # noqa: E731
            rates, missed = self._values(here, "rx_pps"), self._values(here, "imissed_share")
            rates = rates or [goal["throughput_pps"] for goal in self._found(point) if goal["throughput_pps"]]
            if not rates:
                return None
            self._record_maximum(point, rates, missed)
        return float(self.maxima[point]["pps"])

    def _found(self, point: str) -> list[Mapping[str, Any]]:
        """What the searches at a point found for the first loss ratio, whose rate is 100 % load."""
        here = (kept for kept in self._kept.values() if kept.kind == "maximum" and kept.point == point)
        return [kept.searched["goals"][0] for kept in here if kept.searched is not None]

    def _no_maximum(self, point: str) -> str:
        reasons = [goal["reason"] for goal in self._found(point) if goal["reason"]]
        return f": {reasons[0]}" if reasons else ""

    def _record_maximum(self, point: str, rates: list[float], missed: list[float]) -> None:
        pps = median(rates)
        bound = bool(missed) and median(missed) < GENERATOR_BOUND_MISSED
        self.maxima[point] = {"pps": pps, "trials": len(rates), "generator_bound": bound}
        if bound:
            self.warnings.append(
                f"generator-bound maximum at '{point}': of {human_rate(pps)} the DUT missed only "
                f"{100 * median(missed):.2g} %, so 100 % load is what the generator can do, not what the DUT can take"
            )

    def _repeat_until(self) -> None:
        until = self._plan.spec.repeats.until
        if until is None:
            return
        for repeat in range(until.at_least, until.at_most):
            wide = [point for point in self._plan.points if self._width(point, until.metric) > until.within]
            if not wide:
                return
            self._progress.further(len(wide), sum(trial.seconds for trial in self._plan.further_round(wide, repeat)))
            for trial in self._plan.further_round(wide, repeat):
                self._make(trial)
        self._warn_of_width()

    def _extra_repeats(self) -> range:
        """Numbers of the blocks that are made again when the ground has changed: behind all that the plan can have."""
        repeats = self._plan.spec.repeats
        first = repeats.at_least if repeats.until is None else repeats.until.at_most
        return range(first, first + self._plan.spec.noise.extra_blocks)

    def _extra_block(self, points: Iterable[Point], repeat: int) -> list[Trial]:
        block = self._plan.further_round(points, repeat)
        if self._pair is None:
            return block
        return [replace(trial, id=f"{trial.id}@{self._pair}", pair=self._pair) for trial in block]

    def _repeat_on_same_ground(self) -> None:
        """Further blocks, a few at most, of points that were not seen on the same ground as often as repeats ask."""
        extra = self._extra_repeats()
        # A block that an interrupted run began counts as made: a run that has ended finds nothing left to do.
        begun = {kept.repeat for kept in self._kept.values() if kept.kind == "measure"}
        for number, repeat in enumerate(extra, 1):
            if any(other >= repeat for other in begun):
                continue
            points = self._short_of_ground()
            if not points:
                return
            few = f"{len(points)} points not seen often enough on one ground"
            self._progress.say(f"{self._ground_text()}: extra block {number} of at most {len(extra)} for {few}")
            block = self._extra_block(points, repeat)
            self._progress.further(len(block), sum(trial.seconds for trial in block))
            for trial in block:
                self._make(trial)
            self._ground.close()
        points = self._short_of_ground()
        if points:
            few = f"{len(points)} of {len(self._plan.points)} points, '{points[0].id}' the first,"
            self.warnings.append(
                f"{self._ground_text()}, and after {len(extra)} extra blocks {few} have not been seen on one ground "
                "as often as repeats ask: their trials on different ground are pooled"
            )

    def _ground_text(self) -> str:
        return f"the ground under the run changed ({'; '.join(self._ground.judge().changes())})"

    def _short_of_ground(self) -> list[Point]:
        """The points that were not seen on one ground as often as repeats ask."""
        judgement = self._ground.judge()
        seen = [kept for kept in self._kept.values() if kept.kind == "measure" and kept.status != "failed"]
        if len(judgement.grounds) < 2:
            return []
        labels = trial_labels(judgement, self._ground.canaries, [{"ground": kept.ground} for kept in seen])
        planned = {trial.repeat for trial in self._plan.trials if trial.kind == "measure"}
        found = standing([(kept.point, label) for kept, label in zip(seen, labels, strict=True)], len(planned))
        return [point for point in self._plan.points if point.id in found.short]

    def _width(self, point: Point, metric: str) -> float:
        values = self._values(lambda kept: kept.kind == "measure" and kept.point == point.id, metric)
        return relative_half_width(values)

    def _warn_of_width(self) -> None:
        until = self._plan.spec.repeats.until
        assert until is not None
        for point in self._plan.points:
            width = self._width(point, until.metric)
            if width > until.within:
                self.warnings.append(
                    f"'{point.id}': after {until.at_most} trials the 95 % interval of {until.metric} is still "
                    f"+-{100 * width:.2g} % wide (asked for {100 * until.within:g} %)"
                )


def _checked_counts(record: Record, metrics: dict[str, float]) -> dict[str, float] | None:
    """The metrics of a trial of a search; one that does not tell what was lost fails by that."""
    try:
        counts_of(record, metrics)
    except (NotMeasured, KeyError) as missing:
        record["status"], record["reason"] = "failed", f"the trial does not tell what was lost: {missing}"
        return None
    return metrics
