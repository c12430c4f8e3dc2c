# SPDX-License-Identifier: BSD-3-Clause
"""One run: from a loaded spec to a finished run folder, and from an interrupted run folder to the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pollscope import __version__
from pollscope.derive import write_table
from pollscope.errors import HostError, PollscopeError, UsageError
from pollscope.metrics import metric_dictionary
from pollscope.noise import host_warnings
from pollscope.plan import LeftOut, Plan, make_plan
from pollscope.progress import Progress
from pollscope.run_folder import RunFolder, read_run
from pollscope.runner import Runner
from pollscope.spec import LoadedSpec, Overrides, load_text
from pollscope.spec.model import Spec
from pollscope.spec.points import point_id
from pollscope.store import RunWriter, new_run_id, utc_now
from pollscope.testbeds import Knobs, Session, Testbed, make_testbed
from pollscope.trials import TrialMaker, collector_options

if TYPE_CHECKING:
    from pollscope.collecting import RunCollectors

# Of the reasons why a plan has no point.
MOST_REASONS = 3
# How long each measuring core is watched for gaps before the run.
NOISE_NS = 1_000_000_000


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
    nothing_left: HostError | None = None


def start_run(
    loaded: LoadedSpec, testbed: Testbed, out: Path, say: Callable[[str], None], restore_first: bool = False
) -> Outcome:
    """Runs a spec into a new folder `out/<spec-name>/<run-id>`.

    `restore_first`: gives back the knobs that an ended run left behind, instead of refusing to start.

    Raises:
        HostError: a node does not start.
        UsageError: the spec is not meant for this testbed.
    """
    spec = loaded.spec
    _check_testbed(spec, testbed, loaded.name)
    testbed.check()
    plan = make_plan(spec, testbed.refusal)
    with testbed.knobs(f"run {spec.name}", restore_first) as knobs:
        _say_restored(knobs, say)
        run_id = new_run_id()
        folder = out / spec.name / run_id
        meta = _first_meta(loaded, plan, testbed, run_id, knobs.snapshot())
        with RunWriter.create(folder, meta) as writer:
            say(f"{spec.name}: {len(plan.trials)} trials into {folder}")
            if not plan.points:
                return _nothing_to_run(plan, testbed, writer)
            return _Run(plan, testbed, writer, knobs, []).execute()


def resume_run(path: Path, say: Callable[[str], None], restore_first: bool = False) -> Outcome:
    """Completes a run that was interrupted: every planned trial is there once; failed ones are made again.

    Raises:
        UsageError: not a run folder, or one of another format.
    """
    stored = read_run(path)
    loaded = load_text(stored.meta["spec_text"], f"{path}/run.json", Overrides.from_json(stored.meta["overrides"]))
    testbed = make_testbed(stored.meta["testbed"]["file"])
    testbed.check()
    plan = make_plan(loaded.spec, _same_left_out(loaded.spec, stored))
    if [trial.id for trial in plan.trials] != stored.meta["plan"][: len(plan.trials)]:
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
        if not plan.points:
            return _nothing_to_run(plan, testbed, writer)
        return _Run(plan, testbed, writer, knobs, stored.trials).execute()


def _say_restored(knobs: Knobs, say: Callable[[str], None]) -> None:
    for outcome in knobs.restored_first:
        say(f"given back first: {outcome}")


def no_point_left(plan: Plan, testbed: str) -> HostError:
    """The error of a plan without points, with the first reasons."""
    reasons = "; ".join(list(dict.fromkeys(each.reason for each in plan.left_out))[:MOST_REASONS])
    return HostError(f"no point is left: {reasons}", f"testbed {testbed}", "pollscope plan lists all of them")


def _check_testbed(spec: Spec, testbed: Testbed, name: str) -> None:
    if testbed.kind not in spec.testbeds:
        raise UsageError(
            f"is not meant for a testbed of kind '{testbed.kind}'", f"{name}: testbeds", ", ".join(spec.testbeds)
        )


def _same_left_out(spec: Spec, stored: RunFolder) -> Callable[[Mapping[str, Any]], str | None]:
    # Free memory may have changed since; the run is completed as it was planned.
    reasons = {entry["point"]: entry["reason"] for entry in stored.meta["left_out"]}

    def refusal(params: Mapping[str, Any]) -> str | None:
        point = point_id({name: params[name] for name in spec.levels})
        planned = any(trial.endswith(f":{point}:0") for trial in stored.meta["plan"])
        return None if planned else reasons.get(point, reasons.get(f"baseline {point}"))

    return refusal


def _nothing_to_run(plan: Plan, testbed: Testbed, writer: RunWriter) -> Outcome:
    """A run without trials: claims and report then say for each row why it is not measurable here."""
    error = no_point_left(plan, testbed.name)
    writer.update(
        status="complete", finished_utc=utc_now(), warnings=[error.what], knobs_after=writer.meta["knobs_before"]
    )
    return Outcome(writer.folder, 0, 0, 0, {}, [error.what], error)


def _first_meta(
    loaded: LoadedSpec, plan: Plan, testbed: Testbed, run_id: str, knobs: Mapping[str, Any]
) -> dict[str, Any]:
    spec = loaded.spec
    return {
        "pollscope": __version__,
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
        "plan": [trial.id for trial in plan.trials],
        "left_out": [_left_out(each) for each in plan.left_out],
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


def _left_out(each: LeftOut) -> dict[str, Any]:
    return {"point": each.point, "reason": each.reason, "factors": each.factors}


def _run_collectors(spec: Spec, folder: Path) -> "RunCollectors | None":
    if not spec.collectors:
        return None
    from pollscope.collecting import RunCollectors  # imports every collector, which most runs do not need

    return RunCollectors(spec.collectors, folder)


class _Run:
    """The part that is the same for a new run and for a resumed one."""

    def __init__(
        self, plan: Plan, testbed: Testbed, writer: RunWriter, knobs: Knobs, records: list[dict[str, Any]]
    ) -> None:
        self._plan, self._testbed, self._writer, self._knobs = plan, testbed, writer, knobs
        most_cores = max(trial.point.params["cores"] for trial in plan.trials)
        self._collectors = _run_collectors(plan.spec, writer.folder)
        self._maker = TrialMaker(testbed, most_cores, writer.log, self._collectors)
        self._progress = Progress(plan)
        self._runner = Runner(plan, testbed, writer, self._maker, self._progress, knobs)
        self._runner.remember(records)

    def execute(self) -> Outcome:
        try:
            self._knobs.apply(self._plan.spec.knobs)
            with self._progress:
                self._open_first_session()
                self._runner.run()
        except KeyboardInterrupt:
            self._finish("interrupted")
            raise
        except PollscopeError:
            self._finish("failed")
            raise
        return self._finish("failed" if self._runner.failures() else "complete")

    def _open_first_session(self) -> None:
        session = self._maker.session(self._plan.trials[0].point.params)
        noise = session.noise(NOISE_NS)
        self._writer.update(node_hello=session.hello, noise=noise, status="running", finished_utc=None)
        self._runner.warnings += [*session.facts, *host_warnings(self._plan.spec.noise, noise)]
        self._warn_of_build(session)
        self._probe_collectors(session)

    def _probe_collectors(self, session: Session) -> None:
        if self._collectors is None:
            return
        every = [trial.point.params for trial in self._plan.trials]
        accompanied = next((params for params in every if params["corunner"] != "none"), every[0])
        found = self._collectors.probe(collector_options(session, accompanied))
        self._writer.update(collectors=found)
        for name, each in found.items():
            if not each["available"]:
                if each["required"]:
                    raise HostError(f"the required collector {name} cannot work here: {each['reason']}")
                self._progress.say(f"the collector {name} is absent: {each['reason']}")

    def _warn_of_build(self, session: Session) -> None:
        flags = self._writer.meta["build"].get("flags", {})
        if flags.get("buildtype") == "debug" or flags.get("b_sanitize") not in (None, "none", []):
            self._runner.warnings.append(
                "pollscope-node is a debug or sanitizer build: its costs are not those of a release"
            )

    def _finish(self, status: str) -> Outcome:
        self._maker.close()
        runner = self._runner
        kept = [f"knob not given back: {each}" for each in self._knobs.give_back() if not each.settled]
        found = [*self._writer.meta["warnings"], *runner.warnings, *runner.flagged_warning(), *kept]
        warnings = list(dict.fromkeys(found))
        self._writer.update(
            status=status,
            finished_utc=utc_now(),
            plan=runner.trial_ids(),
            maxima=runner.maxima,
            warnings=warnings,
            knobs_after=self._knobs.snapshot(),
        )
        if runner.count("ok", "flagged"):
            write_table(self._writer.folder)
        return Outcome(
            self._writer.folder,
            runner.count("ok"),
            runner.count("flagged"),
            runner.count("failed"),
            runner.failures(),
            warnings,
        )
