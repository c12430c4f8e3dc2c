# SPDX-License-Identifier: BSD-3-Clause
"""Run a loaded spec into a finished run folder, or complete the folder of an interrupted run."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from pollscope.base.clock import utc_now
from pollscope.base.errors import CannotHost, UsageError
from pollscope.base.paths import is_shipped
from pollscope.host.lock import InUse
from pollscope.knobs import Knobs
from pollscope.plan.plan import Plan, plan_parts
from pollscope.run.execution import Execution, RunOutcome
from pollscope.run.looks import Judge
from pollscope.run.trace_identity import refuse_another_config, refuse_another_machine
from pollscope.spec import LoadedSpec, Overrides, load_text
from pollscope.spec.points import Point
from pollscope.store.own_folder import require_own
from pollscope.store.run_folder import RunFolder, read_run, resume_command
from pollscope.store.run_meta import check_resumable, new_meta
from pollscope.store.writer import RunWriter, new_run_id
from pollscope.testbeds import Testbed, make_testbed

_ASK_EVERY_S = 0.5
# Of the reasons why a plan has no point.
MOST_REASONS = 3


def new_run_folder(out: Path, spec_name: str) -> Path:
    """Return the folder `OUT/SPEC-NAME/RUN-ID` for a run that begins now, without making it."""
    return out / spec_name / new_run_id()


def start_run(
    loaded: LoadedSpec,
    testbed: Testbed,
    folder: Path,
    say: Callable[[str], None],
    restore_first: bool = False,
    wait: bool = False,
    judge_claims: Judge | None = None,
) -> RunOutcome:
    """Run a spec into a new folder, see `new_run_folder`.

    `restore_first`: restore the knobs that an ended run left behind, instead of refusing to start.
    `wait`: wait while another run holds the host, instead of refusing to start.
    `judge_claims`: finds the claims that are open, for `repeats: {until: verdicts}`.

    Raises:
        HostError: a node does not start.
        WrongTestbed: the spec is not meant for this testbed.
        CannotHost: a collector that it requires cannot work.
    """
    spec = loaded.spec
    testbed.require_named(loaded.name, spec.testbeds)
    with _held(testbed, f"run {spec.name}", restore_first, say if wait else None) as hold:
        testbed.check()
        plans = plan_parts(spec, [(part.name, part.refusal) for part in testbed.parts])
        knobs = hold()
        _say_restored(knobs, say)
        meta = _first_meta(loaded, plans, testbed, folder.name, knobs.snapshot())
        with RunWriter.create(folder, meta) as writer:
            say(f"{spec.name}: {sum(len(plan.trials) for plan in plans)} trials into {folder}")
            return _execute(plans, testbed, writer, knobs, None, judge_claims)


def resume_run(
    path: Path,
    say: Callable[[str], None],
    restore_first: bool = False,
    confirmed: str | None = None,
    wait: bool = False,
    judge_claims: Judge | None = None,
) -> RunOutcome:
    """Complete a run that was interrupted: measure the missing planned trials, and the failed ones again.

    `confirmed`: the testbed's file that the user named; needed where the run names a file that pollscope does not ship.

    Raises:
        UsageError: not a run folder, one of another format, one that is not this user's own, or a testbed's file that
            was not confirmed.
        HostError: it was begun on another testbed, machine, kernel or build, or on other CPUs; or it is still running.
    """
    stored = read_run(path)
    require_own(path)
    check_resumable(stored.meta, f"{path}/run.json")
    file = _stored_testbed(stored, confirmed)
    loaded = load_text(stored.meta["spec_text"], f"{path}/run.json", Overrides.from_json(stored.meta["overrides"]))
    with (
        closing(make_testbed(file)) as testbed,
        _held(testbed, f"resume {path}", restore_first, say if wait else None) as hold,
    ):
        return _resumed(stored, loaded, testbed, say, hold, judge_claims)


def _stored_testbed(stored: RunFolder, confirmed: str | None) -> str:
    """Return the testbed's file of a run, which names hosts, users and programs; a foreign one has to be confirmed."""
    file = str(stored.meta["testbed"]["file"])
    if is_shipped(file) or (confirmed is not None and Path(confirmed).resolve() == Path(file).resolve()):
        return file
    remedy = f"if you trust it: {resume_command(stored.path)}"
    what = f"names {file}, which names the hosts and programs of the resumed run"
    raise UsageError(what, f"{stored.path}/run.json: testbed.file", remedy)


def _resumed(
    stored: RunFolder,
    loaded: LoadedSpec,
    testbed: Testbed,
    say: Callable[[str], None],
    hold: Callable[[], Knobs],
    judge_claims: Judge | None,
) -> RunOutcome:
    path = stored.path
    refuse_another_config(stored.meta, testbed.config.digests(), str(path))
    testbed.check()
    parts = testbed.parts
    plans = plan_parts(
        loaded.spec, [(part.name, _same_left_out(stored, part.name if parts[1:] else None)) for part in parts]
    )
    trials = [trial.id for plan in plans for trial in plan.trials]
    planned = set(trials)  # trials that a run added follow those of its plan
    if trials != [trial for trial in stored.meta["plan"] if trial in planned]:
        raise UsageError(
            f"its plan was made by pollscope {stored.meta['pollscope']} and differs from what this one makes", str(path)
        )
    knobs = hold()
    with RunWriter.resume(path) as writer:
        stored = read_run(path)  # another one may have gone on with it until now
        _say_restored(knobs, say)
        refuse_another_machine(stored.meta, testbed.machine(), str(path))
        if writer.torn:
            say("the last line of trials.jsonl was cut off and is dropped; its trial is made again")
        return _execute(plans, testbed, writer, knobs, stored, judge_claims)


@contextmanager
def _held(
    testbed: Testbed, what: str, restore_first: bool, say_waiting: Callable[[str], None] | None
) -> Iterator[Callable[[], Knobs]]:
    """Yield the session that locks the hosts of a testbed until the block ends.

    A run that waits locks them before it checks the testbed, because the other run may hold missing resources.
    """
    with ExitStack() as stack:
        if say_waiting is None:
            yield lambda: stack.enter_context(testbed.knobs(what, restore_first))
            return
        said = ""
        while True:
            try:
                knobs = stack.enter_context(testbed.knobs(what, restore_first))
                break
            except InUse as error:
                if error.what != said:
                    say_waiting(f"waiting: {error.what}")
                said = error.what
            time.sleep(_ASK_EVERY_S)
        yield lambda: knobs


def no_point_left(plans: Sequence[Plan], testbed: str) -> CannotHost:
    """Return the error for plans without points, with the first reasons."""
    every = dict.fromkeys(each.reason for plan in plans for each in plan.left_out)
    reasons = "; ".join(list(every)[:MOST_REASONS])
    return CannotHost(f"no point is left: {reasons}", f"testbed {testbed}", "pollscope plan lists all of them")


def _execute(
    plans: Sequence[Plan],
    testbed: Testbed,
    writer: RunWriter,
    knobs: Knobs,
    stored: RunFolder | None,
    judge_claims: Judge | None,
) -> RunOutcome:
    if any(plan.points for plan in plans):
        return Execution(plans, testbed, writer, knobs, stored, judge_claims).execute()
    # A run without trials: claims and report then say for each row why it is not measurable here.
    error = no_point_left(plans, testbed.name)
    writer.finish(
        status="complete", finished_utc=utc_now(), warnings=[error.what], knobs_after=writer.meta["knobs_before"]
    )
    return RunOutcome(writer.folder, 0, 0, 0, {}, [error.what], error)


def _say_restored(knobs: Knobs, say: Callable[[str], None]) -> None:
    for outcome in knobs.restored_first:
        say(f"restored first: {outcome}")


def _same_left_out(stored: RunFolder, pair: str | None) -> Callable[[Point], str | None]:
    # Free memory may have changed since; the run is completed as it was planned.
    entries = [entry for entry in stored.meta["left_out"] if entry.get("pair") == pair]
    reasons = {entry["point"]: entry["reason"] for entry in entries}
    own = [trial for trial in stored.meta["plan"] if pair is None or trial.endswith(f"@{pair}")]
    there = {trial.partition(":")[2].rpartition(":")[0] for trial in own}

    def refusal(point: Point) -> str | None:
        return None if point.id in there else reasons.get(point.id, reasons.get(f"baseline {point.id}"))

    return refusal


def _first_meta(
    loaded: LoadedSpec, plans: Sequence[Plan], testbed: Testbed, run_id: str, knobs: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    spec = loaded.spec
    return new_meta(
        run_id=run_id,
        spec_name=spec.name,
        row=next(iter(spec.all_rows), None),
        rows=list(spec.all_rows),
        paper=spec.paper,
        title=spec.title,
        spec_text=loaded.text,
        spec=spec.resolved(),
        overrides=loaded.overrides.to_json(),
        testbed=testbed.describe(),
        seed=spec.order.seed,
        plan=[trial.id for plan in plans for trial in plan.trials],
        left_out=_left_out(plans, testbed),
        **testbed.machine(),
        knobs_before=knobs,
    )


def _left_out(plans: Sequence[Plan], testbed: Testbed) -> list[dict[str, Any]]:
    """Return the omitted points; with several pairs, with the pair's name."""
    several = len(plans) > 1
    return [
        {"point": each.point, "reason": each.reason, "factors": each.factors} | ({"pair": part.name} if several else {})
        for part, plan in zip(testbed.parts, plans, strict=True)
        for each in plan.left_out
    ]
