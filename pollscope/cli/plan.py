# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope plan`."""

import json
from contextlib import closing
from typing import Annotated, Any

import typer

from pollscope.base.errors import CannotHost, HostError, PollscopeError, WrongTestbed
from pollscope.base.units import human_size, human_time
from pollscope.cli.words import JsonFlag, QuickFlag, Setting, TestbedName, say, say_of, specs_of
from pollscope.plan.plan import Plan, Trial, plan_parts
from pollscope.spec import LoadedSpec, Overrides, Spec, known_specs, load_file
from pollscope.spec.advice import offered_load
from pollscope.spec.points import point_text
from pollscope.testbeds import DEFAULT, Testbed, make_testbed

# From here on a plan says what room its run takes. Of a measured trial, on the disk and in a report (docs/spec.md, many
# points); a modelled one takes a fifth of it.
_MANY_TRIALS = 10_000
# Points left out for one reason, from which on they are told by the first and the last.
_MANY_LEFT_OUT = 10
TRIAL_BYTES, TRIAL_MEMORY_BYTES = 23e3, 140e3
EXAMPLES = (
    "pollscope plan S-F5",
    "pollscope plan S-F5 --quick --json",
    "pollscope plan my.yaml --set factors.queues='[1, 512]'",
)


def plan(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="File, name or paper row.", autocompletion=known_specs)],
    testbed: TestbedName = None,
    quick: QuickFlag = False,
    settings: Setting = None,
    as_json: JsonFlag = False,
) -> None:
    """Shows the trials in the order in which they would run, the expected time, and the points left out and why.

    Nothing is started. Exit code 3 when no point of any spec is left, 2 when the specs name other testbeds. Of several
    specs, those that `run` would skip are said.
    """
    skipped: list[PollscopeError] = []
    paths = specs_of([spec])
    with closing(make_testbed(testbed or DEFAULT)) as chosen:
        for path in paths:
            loaded = load_file(path, Overrides(quick, tuple(settings or ())))
            say_of(loaded)
            try:
                _plan_one(loaded, chosen, as_json)
            except (WrongTestbed, CannotHost) as error:
                skipped.append(error)
        if len(skipped) == len(paths):
            raise skipped[0]
        for each in skipped:
            say(f"skipped: {each}")
        _say_not_ready(chosen)


def _plan_one(loaded: LoadedSpec, testbed: Testbed, as_json: bool) -> None:
    """Shows the plans of a spec; raises WrongTestbed or CannotHost where `run` would measure nothing of it."""
    testbed.require_named(loaded.name, loaded.spec.testbeds)
    plans = _show_plans(loaded.spec, testbed, as_json)
    if not any(made.points for made in plans):
        from pollscope.run.run import no_point_left  # a plan needs nothing else of the runner, which loads much

        raise no_point_left(plans, testbed.name)


def _say_not_ready(testbed: Testbed) -> None:
    """A plan needs no testbed that is up; a run does."""
    try:
        testbed.check()
    except HostError as error:
        say(f"not ready for a run: {error}")


def _show_plans(spec: Spec, testbed: Testbed, as_json: bool) -> list[Plan]:
    parts = testbed.parts
    plans = plan_parts(spec, [(part.name, part.refusal) for part in parts])
    shown = [
        (made, testbed.name if len(parts) == 1 else f"{testbed.name} {part.name}")
        for part, made in zip(parts, plans, strict=True)
    ]
    cautions = dict.fromkeys(
        text for part, made in zip(parts, plans, strict=True) for point in made.points for text in part.cautions(point)
    )
    for text in cautions:
        say(f"caution: {text}")
    if as_json:
        found = [_as_json(*each) for each in shown]
        typer.echo(json.dumps(found[0] if len(parts) == 1 else found, indent=1))
    else:
        for each in shown:
            _show(*each)
    return plans


def _as_json(made: Plan, testbed: str) -> dict[str, Any]:
    return {
        "spec": made.spec.name,
        "testbed": testbed,
        "seed": made.spec.order.seed,
        "expected_s": made.seconds,
        "expected_at_most_s": made.seconds_at_most,
        "trials": [_trial(trial) for trial in made.trials],
        "left_out": [{"point": each.point, "reason": each.reason} for each in made.left_out],
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial.id,
        "kind": trial.kind,
        "point": trial.point.id,
        "repeat": trial.repeat,
        "factors": dict(trial.point.factors),
        "warmup_ns": trial.warmup_ns,
        "window_ns": trial.window_ns,
        "search_trials": trial.search_trials or None,
    }


def _room(trials: int) -> str:
    disk, memory = (human_size(int(trials * each)) for each in (TRIAL_BYTES, TRIAL_MEMORY_BYTES))
    return f"room: about {disk} on the disk, and {memory} of memory to report on it (docs/spec.md, many points)"


def _show(made: Plan, testbed: str) -> None:
    longest = made.seconds_at_most
    at_most = f", at most {human_time(longest)}" if longest > made.seconds else ""
    typer.echo(f"{made.spec.name} on {testbed}: {made.spec.title}")
    typer.echo(offered_load(made.spec))
    typer.echo(f"{len(made.trials)} trials, about {human_time(made.seconds)}{at_most}, seed {made.spec.order.seed}")
    if len(made.trials) >= _MANY_TRIALS:
        typer.echo(_room(len(made.trials)))
    for index, trial in enumerate(made.trials, 1):
        searched = f" (a search: about {trial.search_trials} trials, {human_time(trial.seconds)})"
        named = trial.id.replace(trial.point.id, point_text(trial.point.factors))
        typer.echo(f"{index:5}  {named}{searched if trial.search_trials else ''}")
    by_reason: dict[str, list[str]] = {}
    for each in made.left_out:
        by_reason.setdefault(each.reason, []).append(point_text(each.factors) if each.factors else each.point)
    for reason, points in by_reason.items():
        many = f"{len(points)} points, {points[0]} to {points[-1]}"
        for point in points if len(points) < _MANY_LEFT_OUT else [many]:
            typer.echo(f"left out  {point}: {reason}")
