# SPDX-License-Identifier: BSD-3-Clause
"""Execute plans and write the run folder; several plans run in parallel, each on a part of the testbed."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from pollscope.base.clock import utc_now
from pollscope.base.errors import CannotHost, HostError, PollscopeError, reason_of
from pollscope.knobs import Knobs
from pollscope.metrics import RULES
from pollscope.plan.plan import Plan
from pollscope.run.failure_budget import FailureBudget
from pollscope.run.looks import Judge
from pollscope.run.progress import Progress
from pollscope.run.runner import Runner
from pollscope.run.trace_identity import refuse_other_nodes
from pollscope.store.results_table import write_table
from pollscope.store.run_folder import RunFolder
from pollscope.store.trial_record import TrialRecord
from pollscope.store.writer import RunWriter
from pollscope.testbeds import Testbed
from pollscope.testbeds.base import Assignment, Opening

NOT_RESTORED = "knob not restored"


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run.

    Attributes:
        folder: the run folder.
        ok, flagged, failed: numbers of trials.
        failures: trial -> reason.
        warnings: sentences about the quality of the run.
        nothing_left: why the testbed could host no point; None if it could.
    """

    folder: Path
    ok: int
    flagged: int
    failed: int
    failures: Mapping[str, str]
    warnings: list[str]
    nothing_left: CannotHost | None = None


class Execution:
    """A new or resumed run.

    Args:
        plans: one per part of the testbed; a part without trials is not used.
        testbed: measures the trials.
        writer: the run folder.
        knobs: those of the whole testbed, already entered.
        stored: the run folder of an interrupted run; None for a new run.
        judge_claims: finds the claims that are open, for `repeats: {until: verdicts}`.
    """

    def __init__(
        self,
        plans: Sequence[Plan],
        testbed: Testbed,
        writer: RunWriter,
        knobs: Knobs,
        stored: RunFolder | None,
        judge_claims: Judge | None = None,
    ) -> None:
        self._writer, self._knobs, self._stored = writer, knobs, stored
        self._stop, self._progress = Event(), Progress([trial for plan in plans for trial in plan.trials])
        self._shared = len(plans) > 1
        budget = FailureBudget(plans[0].spec.failures.at_most, writer.log, writer.folder)
        self._runners = [
            Runner(plan, part, writer, self._progress, budget, self._stop, judge_claims)
            for part, plan in zip(testbed.parts, plans, strict=True)
            if plan.trials
        ]
        if stored is not None:
            records = [TrialRecord.from_json(line, f"{stored.path}/trials.jsonl") for line in stored.trials]
            for runner in self._runners:
                runner.remember(records)

    def execute(self) -> RunOutcome:
        """Make all missing trials, and close the run whatever happens.

        Raises:
            KeyboardInterrupt: after noting it in the run folder.
            PollscopeError: an error of the testbed.
        """
        try:
            self._knobs.apply(self._runners[0].plan.spec.knobs)
            with self._progress:
                self._begin()
                self._run()
        except KeyboardInterrupt:
            self._finish("interrupted")
            raise
        except BaseException as error:  # also after a defect of pollscope: end the nodes and restore the knobs
            self._finish("failed", _ended_by(error))
            raise
        return self._finish("failed" if any(runner.failures() for runner in self._runners) else "complete")

    def _run(self) -> None:
        if len(self._runners) == 1:
            self._runners[0].run()
            return
        with ThreadPoolExecutor(len(self._runners)) as pool:
            running = [pool.submit(runner.run) for runner in self._runners]
            try:
                wait(running)
            except KeyboardInterrupt:
                self._stop.set()  # running trials end normally; leaving the block waits for them
                raise
        for each in running:
            each.result()

    def _begin(self) -> None:
        openings = {runner.testbed.name: runner.testbed.begin(self._assignment(runner)) for runner in self._runners}
        first = next(iter(openings.values()))
        several = len(openings) > 1
        pairs = {"pairs": {name: opening.hello for name, opening in openings.items()}} if several else {}
        noise = [
            {**each, **({"pair": name} if several else {})}
            for name, opening in openings.items()
            for each in opening.noise
        ]
        hello = None if first.hello is None else {**first.hello, **pairs}
        if self._stored is not None:
            refuse_other_nodes(self._stored.meta, hello or {}, noise, str(self._writer.folder))
        collectors = {"collectors": first.collectors} if first.collectors else {}
        self._writer.update(
            node_hello=hello, noise=noise, status="running", reason=None, finished_utc=None, **collectors
        )
        for opening in openings.values():
            self._say_absent(opening)

    def _assignment(self, runner: Runner) -> Assignment:
        log, host_checks = self._writer.log, [] if self._stored is None else self._stored.host_checks
        own_log = log.with_stem(f"{log.stem}-{runner.testbed.name}") if self._shared else log
        return Assignment(runner.plan, self._writer.folder, own_log, self._writer.append_host_check, host_checks)

    def _say_absent(self, opening: Opening) -> None:
        for name, each in opening.collectors.items():
            if each["required"] and not each["available"]:
                raise CannotHost(f"the required collector {name} cannot work here: {each['reason']}")
        for name, each in opening.collectors.items():
            if not each["available"]:
                self._progress.say(f"the collector {name} is absent: {each['reason']}")

    def _finish(self, status: str, reason: str | None = None) -> RunOutcome:
        for runner in self._runners:
            runner.testbed.end()
        outcomes = [*self._knobs.restored_first, *self._knobs.restore()]
        warnings = self._warnings([f"{NOT_RESTORED}: {each}" for each in outcomes if not each.restored])
        self._writer.finish(
            status=status,
            reason=reason,
            rules=RULES,
            finished_utc=utc_now(),
            plan=self._trial_ids(),
            maxima=self._maxima(),
            warnings=warnings,
            knobs_after=knobs_after(self._knobs),
        )
        ok, flagged, failed = (
            sum(runner.count(status) for runner in self._runners) for status in ("ok", "flagged", "failed")
        )
        if ok + flagged:
            self._write_table(status)
        failures = {trial: reason for runner in self._runners for trial, reason in runner.failures().items()}
        return RunOutcome(self._writer.folder, ok, flagged, failed, failures, warnings)

    def _trial_ids(self) -> list[str]:
        """Return the planned trials of all pairs, followed by the trials that each pair added."""
        planned = [trial.id for runner in self._runners for trial in runner.plan.trials]
        return planned + [trial for runner in self._runners for trial in runner.further_ids()]

    def _write_table(self, status: str) -> None:
        self._writer.close()  # all measurements are on the disk, so the table may use the reserve
        try:
            write_table(self._writer.folder)
        except HostError:
            if status == "complete":  # otherwise a graver error is reported; readers derive the table again
                raise

    def _warnings(self, not_restored: Sequence[str]) -> list[str]:
        # Drop warnings of an earlier part of the run: its knobs were restored before this part began.
        before = [text for text in self._writer.meta["warnings"] if not text.startswith(NOT_RESTORED)]
        flags = self._writer.meta["build"].get("flags", {})
        if flags.get("buildtype") == "debug" or flags.get("b_sanitize") not in (None, "none", []):
            before.append("pollscope-node is a debug or sanitizer build: its costs are not those of a release")
        found = [text for runner in self._runners for text in (*runner.testbed.warnings, *runner.warnings)]
        return list(dict.fromkeys([*before, *found, *not_restored]))

    def _maxima(self) -> dict[str, dict[str, Any]]:
        """Return point -> maximum; with several pairs POINT@PAIR, because each pair has its own maximum.

        Maxima of an interrupted part of the run are kept.
        """
        before: dict[str, dict[str, Any]] = self._writer.meta["maxima"]
        return before | {
            f"{point}@{runner.testbed.name}" if len(self._runners) > 1 else point: maximum
            for runner in self._runners
            for point, maximum in runner.testbed.maxima.found.items()
        }


def _ended_by(error: BaseException) -> str:
    """Return the error that ended a run, without its remedy."""
    if isinstance(error, PollscopeError):
        return f"{error.where}: {error.what}" if error.where else error.what
    return reason_of(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def knobs_after(knobs: Knobs) -> Mapping[str, Mapping[str, str]]:
    """Return the present knobs; a lost host must not prevent closing the run."""
    try:
        return knobs.snapshot()
    except HostError as error:
        return {"all": {"host": f"absent: {error}"}}
