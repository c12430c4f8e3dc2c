# SPDX-License-Identifier: BSD-3-Clause
"""One run: from a loaded spec to a finished run folder, and from an interrupted run folder to the same."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from pollscope import __version__
from pollscope.base.errors import CannotHost, HostError, PollscopeError, UsageError, WrongTestbed
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.judgement import RULES
from pollscope.plan.plan import Plan, plan_parts
from pollscope.run.progress import Progress
from pollscope.run.runner import Runner
from pollscope.run.trials import TrialMaker, collector_options
from pollscope.spec import LoadedSpec, Overrides, load_text
from pollscope.spec.model import Spec
from pollscope.spec.points import point_id
from pollscope.store.results_table import write_table
from pollscope.store.run_folder import RunFolder, read_run
from pollscope.store.writer import RunWriter, new_run_id, utc_now
from pollscope.testbeds import Knobs, Session, Testbed, knobs_of_part, make_testbed, parts_of

if TYPE_CHECKING:
    from pollscope.run.collecting import RunCollectors

# Of the reasons why a plan has no point.
MOST_REASONS = 3
NOT_RESTORED = "knob not restored"
# Also as it stands in run folders of before.
_NOT_RESTORED_TEXTS = (NOT_RESTORED, "knob not given back")
# How long each measuring core is watched for gaps before the run.
# Enough for a warning; what the host takes from a trial is recorded in the trial.
NOISE_NS = 500_000_000


@dataclass(frozen=True)
class Outcome:
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


def new_run_folder(out: Path, spec_name: str) -> Path:
    """`OUT/SPEC-NAME/RUN-ID` of a run that begins now; it is not made yet."""
    return out / spec_name / new_run_id()


def start_run(
    loaded: LoadedSpec, testbed: Testbed, folder: Path, say: Callable[[str], None], restore_first: bool = False
) -> Outcome:
    """Runs a spec into a new folder, see `new_run_folder`.

    `restore_first`: restores the knobs that an ended run left behind, instead of refusing to start.

    Raises:
        HostError: a node does not start.
        WrongTestbed: the spec is not meant for this testbed.
        CannotHost: a collector that it requires cannot work.
    """
    spec = loaded.spec
    _check_testbed(spec, testbed, loaded.name)
    testbed.check()
    plans = plan_parts(spec, [(part.name, part.refusal) for part in parts_of(testbed)])
    with testbed.knobs(f"run {spec.name}", restore_first) as knobs:
        _say_restored(knobs, say)
        meta = _first_meta(loaded, plans, testbed, folder.name, knobs.snapshot())
        with RunWriter.create(folder, meta) as writer:
            say(f"{spec.name}: {sum(len(plan.trials) for plan in plans)} trials into {folder}")
            if not any(plan.points for plan in plans):
                return _nothing_to_run(plans, testbed, writer)
            return _Run(plans, testbed, writer, knobs, None).execute()


def resume_run(path: Path, say: Callable[[str], None], restore_first: bool = False) -> Outcome:
    """Completes a run that was interrupted: every planned trial is there once; failed ones are made again.

    Raises:
        UsageError: not a run folder, or one of another format.
    """
    stored = read_run(path)
    loaded = load_text(stored.meta["spec_text"], f"{path}/run.json", Overrides.from_json(stored.meta["overrides"]))
    testbed = make_testbed(stored.meta["testbed"]["file"])
    testbed.check()
    parts = parts_of(testbed)
    plans = plan_parts(
        loaded.spec,
        [(part.name, _same_left_out(loaded.spec, stored, part.name if parts[1:] else None)) for part in parts],
    )
    trials = [trial.id for plan in plans for trial in plan.trials]
    if trials != stored.meta["plan"][: len(trials)]:
        raise UsageError(
            f"its plan was made by pollscope {stored.meta['pollscope']} and differs from what this one makes", str(path)
        )
    with (
        testbed.knobs(f"resume {path}", restore_first) as knobs,
        RunWriter.resume(path, stored.meta) as writer,
    ):
        _say_restored(knobs, say)
        if writer.torn:
            say("the last line of trials.jsonl was cut off and is dropped; its trial is made again")
        if not any(plan.points for plan in plans):
            return _nothing_to_run(plans, testbed, writer)
        return _Run(plans, testbed, writer, knobs, stored).execute()


def _knobs_after(knobs: Knobs) -> Mapping[str, Any]:
    """The knobs now; a host that was lost must not keep the run from being closed."""
    try:
        return knobs.snapshot()
    except HostError as error:
        return {"all": {"host": f"absent: {error}"}}


def _say_restored(knobs: Knobs, say: Callable[[str], None]) -> None:
    for outcome in knobs.restored_first:
        say(f"restored first: {outcome}")


def no_point_left(plans: Sequence[Plan], testbed: str) -> CannotHost:
    """The error of plans without points, with the first reasons."""
    every = dict.fromkeys(each.reason for plan in plans for each in plan.left_out)
    reasons = "; ".join(list(every)[:MOST_REASONS])
    return CannotHost(f"no point is left: {reasons}", f"testbed {testbed}", "pollscope plan lists all of them")


def _check_testbed(spec: Spec, testbed: Testbed, name: str) -> None:
    if testbed.kind not in spec.testbeds:
        raise WrongTestbed(
            f"is not meant for a testbed of kind '{testbed.kind}'", f"{name}: testbeds", ", ".join(spec.testbeds)
        )


def _same_left_out(spec: Spec, stored: RunFolder, pair: str | None) -> Callable[[Mapping[str, Any]], str | None]:
    # Free memory may have changed since; the run is completed as it was planned.
    entries = [entry for entry in stored.meta["left_out"] if entry.get("pair") == pair]
    reasons = {entry["point"]: entry["reason"] for entry in entries}
    own = [trial for trial in stored.meta["plan"] if pair is None or trial.endswith(f"@{pair}")]
    there = {trial.partition(":")[2].rpartition(":")[0] for trial in own}

    def refusal(params: Mapping[str, Any]) -> str | None:
        point = point_id({name: params[name] for name in spec.levels})
        return None if point in there else reasons.get(point, reasons.get(f"baseline {point}"))

    return refusal


def _nothing_to_run(plans: Sequence[Plan], testbed: Testbed, writer: RunWriter) -> Outcome:
    """A run without trials: claims and report then say for each row why it is not measurable here."""
    error = no_point_left(plans, testbed.name)
    writer.update(
        status="complete", finished_utc=utc_now(), warnings=[error.what], knobs_after=writer.meta["knobs_before"]
    )
    return Outcome(writer.folder, 0, 0, 0, {}, [error.what], error)


def _first_meta(
    loaded: LoadedSpec, plans: Sequence[Plan], testbed: Testbed, run_id: str, knobs: Mapping[str, Any]
) -> dict[str, Any]:
    spec = loaded.spec
    return {
        "pollscope": __version__,
        "rules": RULES,
        "run_id": run_id,
        "spec_name": spec.name,
        "row": spec.all_rows[0],
        "rows": list(spec.all_rows),
        "paper": spec.paper,
        "title": spec.title,
        "spec_text": loaded.text,
        "spec": spec.resolved(),
        "overrides": loaded.overrides.to_json(),
        "testbed": testbed.describe(),
        "seed": spec.order.seed,
        "plan": [trial.id for plan in plans for trial in plan.trials],
        "left_out": _left_out(plans, testbed),
        **testbed.machine(),
        "node_hello": None,
        "noise": [],
        "maxima": {},
        "warnings": [],
        "knobs_before": knobs,
        "knobs_after": None,
        "units": {name: metric.unit for name, metric in metric_dictionary().metrics.items()},
        "started_utc": utc_now(),
        "finished_utc": None,
        "status": "running",
    }


def _left_out(plans: Sequence[Plan], testbed: Testbed) -> list[dict[str, Any]]:
    """The points left out; of several pairs with the pair's name."""
    several = len(plans) > 1
    return [
        {"point": each.point, "reason": each.reason, "factors": each.factors} | ({"pair": part.name} if several else {})
        for part, plan in zip(parts_of(testbed), plans, strict=True)
        for each in plan.left_out
    ]


def _run_collectors(spec: Spec, folder: Path) -> "RunCollectors | None":
    if not spec.collectors:
        return None
    from pollscope.run.collecting import RunCollectors  # imports every collector, which most runs do not need

    return RunCollectors(spec.collectors, folder)


class _Lane:
    """One testbed that measures, with its own trials, nodes, knobs and maxima."""

    def __init__(
        self, plan: Plan, testbed: Testbed, writer: RunWriter, knobs: Knobs, progress: Progress, stop: Event, log: Path
    ) -> None:
        self.plan, self.testbed = plan, testbed
        self.collectors = _run_collectors(plan.spec, writer.folder)
        most_cores = max(trial.point.params["cores"] for trial in plan.trials)
        self.maker = TrialMaker(testbed, most_cores, log, self.collectors)
        self.runner = Runner(plan, testbed, writer, self.maker, progress, knobs, stop)

    def open_first(self) -> tuple[Session, list[dict[str, Any]]]:
        """The first session, and the noise of its CPUs."""
        session = self.maker.session(self.plan.trials[0].point.params)
        noise = session.noise(NOISE_NS)
        self.runner.warnings += session.facts
        return session, noise

    def probe_collectors(self, session: Session) -> dict[str, dict[str, Any]]:
        """What the collectors say before the first trial.

        Raises:
            CannotHost: a required one cannot work.
        """
        if self.collectors is None:
            return {}
        every = [trial.point.params for trial in self.plan.trials]
        accompanied = next((params for params in every if params["corunner"] != "none"), every[0])
        found = self.collectors.probe(collector_options(session, accompanied), session.ends)
        for name, each in found.items():
            if each["required"] and not each["available"]:
                raise CannotHost(f"the required collector {name} cannot work here: {each['reason']}")
        return found


class _Run:
    """The part that is the same for a new run and for a resumed one; several pairs work side by side."""

    def __init__(
        self, plans: list[Plan], testbed: Testbed, writer: RunWriter, knobs: Knobs, stored: RunFolder | None
    ) -> None:
        self._writer, self._knobs, self._stop = writer, knobs, Event()
        self._spec = plans[0].spec
        self._progress = Progress([trial for plan in plans for trial in plan.trials])
        parts = [(part, plan) for part, plan in zip(parts_of(testbed), plans, strict=True) if plan.trials]
        self._lanes = [
            _Lane(plan, part, writer, knobs_of_part(knobs, part.name), self._progress, self._stop, log)
            for part, plan in parts
            for log in [writer.log if len(plans) == 1 else writer.log.with_stem(f"node-{part.name}")]
        ]
        for lane in self._lanes:
            if stored is not None:
                lane.runner.remember(stored.trials, stored.canaries)

    def execute(self) -> Outcome:
        try:
            self._knobs.apply(self._spec.knobs)
            with self._progress:
                self._open_first_sessions()
                self._run_lanes()
        except KeyboardInterrupt:
            self._finish("interrupted")
            raise
        except (PollscopeError, OSError):
            self._finish("failed")
            raise
        return self._finish("failed" if any(lane.runner.failures() for lane in self._lanes) else "complete")

    def _run_lanes(self) -> None:
        if len(self._lanes) == 1:
            self._lanes[0].runner.run()
            return
        with ThreadPoolExecutor(len(self._lanes)) as pool:
            running = [pool.submit(lane.runner.run) for lane in self._lanes]
            try:
                wait(running)
            except KeyboardInterrupt:
                self._stop.set()  # trials that run end in order; leaving the block waits for them
                raise
        for each in running:
            each.result()

    def _open_first_sessions(self) -> None:
        opened = [(lane, *lane.open_first()) for lane in self._lanes]
        several = {"pairs": {lane.testbed.name: session.hello for lane, session, _ in opened}} if opened[1:] else {}
        noise = [
            {**each, **({"pair": lane.testbed.name} if several else {})} for lane, _, found in opened for each in found
        ]
        hello = {**opened[0][1].hello, **several}
        self._writer.update(node_hello=hello, noise=noise, status="running", finished_utc=None)
        self._warn_of_build()
        self._probe_collectors([(lane, session) for lane, session, _ in opened])

    def _probe_collectors(self, opened: list[tuple[_Lane, Session]]) -> None:
        if opened[0][0].collectors is None:
            return
        for index, (lane, session) in enumerate(opened):
            found = lane.probe_collectors(session)
            if index == 0:
                self._writer.update(collectors=found)
            for name, each in found.items():
                if not each["available"]:
                    self._progress.say(f"the collector {name} is absent: {each['reason']}")

    def _warn_of_build(self) -> None:
        flags = self._writer.meta["build"].get("flags", {})
        if flags.get("buildtype") == "debug" or flags.get("b_sanitize") not in (None, "none", []):
            self._lanes[0].runner.warnings.append(
                "pollscope-node is a debug or sanitizer build: its costs are not those of a release"
            )

    def _finish(self, status: str) -> Outcome:
        for lane in self._lanes:
            lane.maker.close()
        runners = [lane.runner for lane in self._lanes]
        outcomes = [*self._knobs.restored_first, *self._knobs.restore()]
        kept = [f"{NOT_RESTORED}: {each}" for each in outcomes if not each.restored]
        # What an earlier part of the run left was tried again before this part began.
        before = [text for text in self._writer.meta["warnings"] if not text.startswith(_NOT_RESTORED_TEXTS)]
        found = [text for runner in runners for text in runner.warnings]
        warnings = list(dict.fromkeys([*before, *found, *kept]))
        self._writer.update(
            status=status,
            rules=RULES,
            finished_utc=utc_now(),
            plan=[trial for runner in runners for trial in runner.trial_ids()],
            maxima=self._maxima(),
            warnings=warnings,
            knobs_after=_knobs_after(self._knobs),
        )
        counts = {status: sum(runner.count(status) for runner in runners) for status in ("ok", "flagged", "failed")}
        if counts["ok"] + counts["flagged"]:
            self._write_table(status)
        failures = {trial: reason for runner in runners for trial, reason in runner.failures().items()}
        return Outcome(self._writer.folder, counts["ok"], counts["flagged"], counts["failed"], failures, warnings)

    def _write_table(self, status: str) -> None:
        self._writer.close()  # all facts are on the disk: what was kept in reserve for them is free for the table
        try:
            write_table(self._writer.folder)
        except HostError:
            if status == "complete":  # else there is a graver error to tell; the table is made anew when it is read
                raise

    def _maxima(self) -> dict[str, dict[str, Any]]:
        """Point -> its maximum; of several pairs POINT@PAIR, for each has its own."""
        if len(self._lanes) == 1:
            return self._lanes[0].runner.maxima
        return {
            f"{point}@{lane.testbed.name}": maximum
            for lane in self._lanes
            for point, maximum in lane.runner.maxima.items()
        }
