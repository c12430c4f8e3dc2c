# SPDX-License-Identifier: BSD-3-Clause
"""Execute plans into a finished run folder; several plans run side by side, each on a part of the testbed."""

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
    """How a run ended.

    Attributes:
        folder: the run folder.
        ok, flagged, failed: numbers of trials.
        failures: trial -> reason.
        warnings: sentences about the quality of the run.
        nothing_left: why the testbed could host no point; None when it could.
    """

    folder: Path
    ok: int
    flagged: int
    failed: int
    failures: Mapping[str, str]
    warnings: list[str]
    nothing_left: CannotHost | None = None


class Execution:
    """A new run, or one that goes on.

    Args:
        plans: one for each part of the testbed; a part without a trial is left alone.
        testbed: where.
        writer: the run folder.
        knobs: of the whole testbed, entered.
        stored: what an interrupted run has left.
    """

    def __init__(
        self, plans: Sequence[Plan], testbed: Testbed, writer: RunWriter, knobs: Knobs, stored: RunFolder | None
    ) -> None:
        self._writer, self._knobs, self._stored = writer, knobs, stored
        self._stop, self._progress = Event(), Progress([trial for plan in plans for trial in plan.trials])
        self._shared = len(plans) > 1
        budget = FailureBudget(plans[0].spec.failures.at_most, writer.log, writer.folder)
        self._runners = [
            Runner(plan, part, writer, self._progress, budget, self._stop)
            for part, plan in zip(testbed.parts, plans, strict=True)
            if plan.trials
        ]
        if stored is not None:
            records = [TrialRecord.from_json(line, f"{stored.path}/trials.jsonl") for line in stored.trials]
            for runner in self._runners:
                runner.remember(records)

    def execute(self) -> RunOutcome:
        """Make every trial that is not there yet, and end the run in order whatever happens.

        Raises:
            KeyboardInterrupt: the run folder says so.
            PollscopeError: as the testbed's.
        """
        try:
            self._knobs.apply(self._runners[0].plan.spec.knobs)
            with self._progress:
                self._begin()
                self._run()
        except KeyboardInterrupt:
            self._finish("interrupted")
            raise
        except BaseException as error:  # also a defect: its run has ended, and its nodes and knobs are given back
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
                self._stop.set()  # trials that run end in order; leaving the block waits for them
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
        """The plan of all pairs, and behind it what each added to its own."""
        planned = [trial.id for runner in self._runners for trial in runner.plan.trials]
        return planned + [trial for runner in self._runners for trial in runner.further_ids()]

    def _write_table(self, status: str) -> None:
        self._writer.close()  # everything measured is on the disk: the reserve is free for the table
        try:
            write_table(self._writer.folder)
        except HostError:
            if status == "complete":  # else there is a graver error to tell; the table is derived again when it is read
                raise

    def _warnings(self, not_restored: Sequence[str]) -> list[str]:
        # Knobs that an earlier part of the run left were restored again before this part began.
        before = [text for text in self._writer.meta["warnings"] if not text.startswith(NOT_RESTORED)]
        flags = self._writer.meta["build"].get("flags", {})
        if flags.get("buildtype") == "debug" or flags.get("b_sanitize") not in (None, "none", []):
            before.append("pollscope-node is a debug or sanitizer build: its costs are not those of a release")
        found = [text for runner in self._runners for text in (*runner.testbed.warnings, *runner.warnings)]
        return list(dict.fromkeys([*before, *found, *not_restored]))

    def _maxima(self) -> dict[str, dict[str, Any]]:
        """Point -> its maximum; of several pairs POINT@PAIR, for each has its own.

        Those that only an interrupted part of the run needed are kept.
        """
        before: dict[str, dict[str, Any]] = self._writer.meta["maxima"]
        return before | {
            f"{point}@{runner.testbed.name}" if len(self._runners) > 1 else point: maximum
            for runner in self._runners
            for point, maximum in runner.testbed.maxima.found.items()
        }


def _ended_by(error: BaseException) -> str:
    """Return what ended a run, without the advice that its last line gave."""
    if isinstance(error, PollscopeError):
        return f"{error.where}: {error.what}" if error.where else error.what
    return reason_of(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"


def knobs_after(knobs: Knobs) -> Mapping[str, Mapping[str, str]]:
    """The knobs now; a host that was lost must not keep the run from being closed."""
    try:
        return knobs.snapshot()
    except HostError as error:
        return {"all": {"host": f"absent: {error}"}}
