# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope plan`."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from pollscope.base.errors import CannotHost, HostError, PollscopeError, UsageError, WrongTestbed
from pollscope.base.units import human_size, human_time
from pollscope.cli.missing import missing, say_missing
from pollscope.cli.words import (
    JsonFlag,
    OptionalSpecs,
    PaperName,
    QuickFlag,
    Setting,
    TestbedName,
    say,
    say_of,
    specs_of,
)
from pollscope.plan.plan import Plan, Trial, plan_parts
from pollscope.spec import Overrides, Spec, known_specs, load_file
from pollscope.spec.advice import offered_load
from pollscope.spec.points import point_text
from pollscope.testbeds import DEFAULT, Testbed, make_testbed

# From this many trials on, a plan states the disk and memory that its run takes. Both constants are per measured trial
# (docs/reference-spec.md, many points); a modelled trial takes a fifth.
_MANY_TRIALS = 10_000
TRIAL_BYTES, TRIAL_MEMORY_BYTES = 23e3, 140e3
# From this many on, points that are left out for one reason are shown as the first and the last of them.
_MANY_LEFT_OUT = 10
_WIDEST_MISSING = 60
# NR_CPUS of the distributions' kernels.
_MOST_CPUS = 8192
EXAMPLES = (
    "pollscope plan S-F5",
    "pollscope plan --paper socc19 --summary                  a line per row: points, time, what is missing",
    "pollscope plan S-F16 C-T2 --cpus 16 --summary            for another host, with 16 CPUs",
    "pollscope plan S-F5 S-F8 --quick --json",
    "pollscope plan S-F8 --set factors.queues='[1, 512]'",
)


def plan(
    specs: OptionalSpecs = None,
    testbed: TestbedName = None,
    paper: PaperName = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="One line per spec: points, time (also with --quick), what is missing.")
    ] = False,
    cpus: Annotated[
        int | None,
        typer.Option("--cpus", min=1, max=_MOST_CPUS, help="Plan for another host like this one with so many CPUs."),
    ] = None,
    quick: QuickFlag = False,
    settings: Setting = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the trials in their order, the expected time, and the points that are left out and why.

    Nothing is started. With --paper, the specs are those of the paper's rows. Specs that `run` would skip are
    named. With --cpus, another host is assumed that differs from this one only in its number of CPUs. Exit code 3 if
    no point of any spec is left, 2 if the specs name other testbeds.
    """
    if bool(specs) == (paper is not None):
        raise UsageError("give specs, or --paper for those of a paper", remedy="pollscope plan --help")
    paths = specs_of(specs) if specs else _specs_of_paper(str(paper))
    with closing(make_testbed(testbed or DEFAULT)) as chosen:
        _assume(chosen, cpus, as_json)
        if summary:
            _show_summary(paths, chosen, tuple(settings or ()), as_json)
            return
        skipped, documents = list[PollscopeError](), list[Any]()
        for number, path in enumerate(paths):
            loaded = load_file(path, Overrides(quick, tuple(settings or ())))
            say_of(loaded)
            say_missing(loaded, chosen)
            try:
                chosen.require_named(loaded.name, loaded.spec.testbeds)
                plans = _plans(loaded.spec, chosen)
                if as_json:
                    documents += [_as_json(*each) | _of(chosen) for each in plans]
                else:
                    typer.echo("\n" * bool(number), nl=False)
                    for made, name in plans:
                        _show(made, name)
                _require_points([made for made, _ in plans], chosen)
            except (WrongTestbed, CannotHost) as error:
                skipped.append(error)
        if documents:
            typer.echo(json.dumps(documents[0] if len(documents) == 1 else documents, indent=1))
        if len(skipped) == len(paths):
            raise skipped[0]
        for each in skipped:
            say(f"skipped: {each}")
        _say_not_ready(chosen)


def _assume(testbed: Testbed, cpus: int | None, as_json: bool) -> None:
    """Let a testbed plan for another host with this many CPUs, if a number is given, and say so."""
    if cpus is not None:
        testbed.plan_for(cpus)
        if not as_json:
            typer.echo(f"A plan for another host, not for this one: {testbed.other_host}.\n")


def _of(testbed: Testbed) -> dict[str, str]:
    return {"other_host": testbed.other_host} if testbed.other_host else {}


def _specs_of_paper(paper: str) -> list[Path]:
    """Return the shipped specs of a paper, in the order of their rows."""
    shipped = {name: path for name, path in known_specs().items() if name[0].isupper()}
    paths = dict.fromkeys(shipped[name] for name in sorted(shipped, key=row_order))
    return [path for path in paths if re.search(rf"^paper: {paper}$", path.read_text(encoding="utf-8"), re.MULTILINE)]


def row_order(row: str) -> list[tuple[str, int]]:
    """Return a key that sorts S-F9 before S-F10a."""
    return [(text, int(number or -1)) for text, number in re.findall(r"(\D+)(\d*)", row)]


def _require_points(plans: list[Plan], testbed: Testbed) -> None:
    """Raise CannotHost if `run` would measure nothing."""
    if not any(made.points for made in plans):
        from pollscope.run.run import no_point_left  # imported late: it loads many modules

        raise no_point_left(plans, testbed.name)


def _show_summary(paths: Iterable[Path], testbed: Testbed, settings: tuple[str, ...], as_json: bool) -> None:
    lines = [_summary(path, testbed, settings) | _of(testbed) for path in paths]
    if as_json:
        typer.echo(json.dumps(lines, indent=1))
        return
    head = ("row", "points", "quick", "whole", "missing", "title")
    cells = [head, *(tuple(_summary_cells(line)) for line in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head) - 1)]
    for row in cells:
        typer.echo("  ".join([*(f"{text:{width}}" for text, width in zip(row, widths, strict=False)), row[-1]]))
    whole, quick = (sum(line[key] or 0 for line in lines) for key in ("whole_s", "quick_s"))
    where = "there" if testbed.other_host else "here"
    typer.echo(f"\nAll that can run {where}: {human_time(whole)}, with --quick {human_time(quick)} at least.")
    typer.echo("`pollscope plan ROW` says why points are left out; `pollscope run ROW` measures a row.")


def _summary(path: Path, testbed: Testbed, settings: tuple[str, ...]) -> dict[str, Any]:
    """Return a spec's question, how much of it a testbed can run, how long that takes, and what is missing."""
    spec = load_file(path, Overrides(settings=settings)).spec
    line = {"rows": list(spec.all_rows) or [spec.name], "title": spec.title, "points": 0, "of": 0}
    if not testbed.named_by(spec.testbeds):
        return line | {"quick_s": None, "whole_s": None, "missing": [f"testbed {' or '.join(spec.testbeds)}"]}
    plans = [made for made, _ in _plans(spec, testbed, quiet=True)]
    short = load_file(path, Overrides(quick=True, settings=settings)).spec if spec.quick is not None else spec
    lacking = [f"{each.what} ({each.claims} of {each.of_claims} claims)" for each in missing(spec, testbed)]
    reasons = Counter(each.reason for made in plans for each in made.left_out if each.refused)
    return line | {
        "points": len({point.id for made in plans for point in made.points}),
        "of": len({point.id for made in plans for point in made.points} | _refused(plans)),
        "quick_s": max(made.seconds for made, _ in _plans(short, testbed, quiet=True)) or None,
        "whole_s": max(made.seconds for made in plans) or None,
        "missing": [*lacking, *(reason for reason, _ in reasons.most_common(1))],
    }


def _refused(plans: Iterable[Plan]) -> set[str]:
    return {each.point for made in plans for each in made.left_out if each.refused}


def _summary_cells(line: dict[str, Any]) -> Iterator[str]:
    yield ", ".join(line["rows"])
    yield f"{line['points']} of {line['of']}" if line["of"] else "-"
    for key in ("quick_s", "whole_s"):
        yield "-" if line[key] is None else human_time(line[key])
    text = "; ".join(line["missing"])
    yield text if len(text) <= _WIDEST_MISSING else f"{text[: _WIDEST_MISSING - 3]}..."
    yield line["title"]


def _say_not_ready(testbed: Testbed) -> None:
    """Say why a run could not start now; a plan itself needs no testbed that is up."""
    if testbed.other_host:
        return
    try:
        testbed.check()
    except HostError as error:
        say(f"not ready for a run: {error}")


def _plans(spec: Spec, testbed: Testbed, quiet: bool = False) -> list[tuple[Plan, str]]:
    """Return a plan and a name for each part of the testbed."""
    parts = testbed.parts
    plans = plan_parts(spec, [(part.name, part.refusal) for part in parts])
    if not quiet:
        pairs = zip(parts, plans, strict=True)
        for text in dict.fromkeys(
            text for part, made in pairs for point in made.points for text in part.cautions(point)
        ):
            say(f"caution: {text}")
    names = [testbed.name if len(parts) == 1 else f"{testbed.name} {part.name}" for part in parts]
    names = [f"another host ({testbed.other_host.split(',')[0]})"] if testbed.other_host else names
    return list(zip(plans, names, strict=True))


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
    return (
        f"room: about {disk} on the disk, and {memory} of memory to report on it (docs/reference-spec.md, many points)"
    )


def _show(made: Plan, testbed: str) -> None:
    longest = made.seconds_at_most
    at_most = f", at most {human_time(longest)}" if longest > made.seconds else ""
    about = f"about {human_time(made.seconds)}{at_most}, seed {made.spec.order.seed}"
    typer.echo(f"{made.spec.name} on {testbed}: {made.spec.title}")
    typer.echo(offered_load(made.spec))
    typer.echo(f"{len(made.trials)} trials, {about}" if made.trials else "no trial: no point is left")
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
