# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope run`."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from pollscope.base.errors import ExitCode, UsageError
from pollscope.cli.gate import Gate
from pollscope.cli.missing import say_missing
from pollscope.cli.run_steps import (
    Ended,
    complete_already,
    next_steps,
    open_claims,
    run_several,
    said_how_to_go_on,
    settings_until_decided,
)
from pollscope.cli.summary import failed_claims, show_summary
from pollscope.cli.words import (
    FailIf,
    OptionalSpecs,
    QuickFlag,
    Setting,
    TestbedName,
    say,
    say_of,
    specs_of,
    split_words,
)
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.run.execution import RunOutcome
from pollscope.run.looks import Judge
from pollscope.run.run import new_run_folder, resume_run, start_run
from pollscope.spec import LoadedSpec, Overrides, load_file
from pollscope.store.find import RESULTS, find_run
from pollscope.testbeds import DEFAULT, Testbed, make_testbed


def run(
    specs: OptionalSpecs = None,
    testbed: TestbedName = None,
    quick: QuickFlag = False,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="RUN", help="Complete an interrupted run: its folder, its id, or `latest`."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder in which run folders are made.")] = RESULTS,
    settings: Setting = None,
    dask: Annotated[
        str | None,
        typer.Option("--dask", metavar="ADDRESS", help="Simulate on this Dask cluster (testbeds of kind model)."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", metavar="METRIC,...", help="Metrics of the table; default: those that fit."),
    ] = None,
    restore_first: Annotated[
        bool, typer.Option("--restore-first", help="Restore the knobs that an ended run left behind, then start.")
    ] = False,
    until_decided: Annotated[
        str | None,
        typer.Option(
            "--until-decided",
            metavar="TIME",
            help="Measure the points of open claims further, for at most this time (10m): repeats={until: verdicts}.",
        ),
    ] = None,
    fail_if: FailIf = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="FACTOR", help="Judge --fail-if from this factor's first level to each other one."
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait while another run holds this host, then start.")] = False,
) -> None:
    """Measure specs, each into a run folder of its own: OUT/SPEC-NAME/RUN-ID.

    The output ends with a table of points and the path of the folder. Exit code 1 if trials failed, or if a claim of a
    spec with `must: claims` does not hold. --resume completes an interrupted run.

    A run ends when three trials in a row have failed for one reason, or when 20 tries have failed (`failures` in the
    spec). A point of which two trials have failed for one reason is not tried again until --resume.

    With --fail-if, --by and --until-decided the run ends when the conditions are decided at every point, when one of
    them holds at any point, or when the time is over. The exit code is that of `compare --fail-if`.

    Of several specs, those that this testbed cannot host are skipped, and the output ends with one line per spec. The
    exit code is then the highest of the specs that ran. If none ran, it is 3, or 2 if the specs name other testbeds.
    """
    if (resume is None) == (not specs):
        what = "a run is resumed without specs" if specs else "give specs to run, or --resume RUN"
        raise UsageError(what, "--resume" if specs else "", "pollscope run --help")
    shown = [metric_dictionary()[name].name for name in split_words(columns)]
    gate = Gate.asked(fail_if, by, has_end=bool(until_decided or resume))
    judge = open_claims if gate is None else gate.open
    if resume is not None:
        if quick or settings or dask or until_decided:
            raise UsageError("--resume uses the run's own settings", remedy="omit the other options")
        resumed = find_run(resume)
        _leave([_gated(_resume(resumed, restore_first, testbed, wait, shown, judge), resumed, gate)])
        return
    settings = [*(settings or ()), *settings_until_decided(until_decided), *(gate.settings if gate else ())]
    loaded = _checked(specs or [], Overrides(quick, tuple(settings)))
    if gate is not None:
        gate.require_factor([*loaded.values()])
    place = testbed or DEFAULT
    with closing(make_testbed(place)) as named:  # an unknown name ends the command here
        for each in loaded.values():
            say_missing(each, named)

    def run_one(each: LoadedSpec, folder: Path) -> Ended:
        with closing(make_testbed(place)) as chosen:
            if dask is not None:
                _compute_on(dask, chosen)
            return _report(start_run(each, chosen, folder, say, restore_first, wait, judge), shown)

    if len(loaded) == 1:
        (only,) = loaded.values()
        folder = new_run_folder(out, only.spec.name)
        with said_how_to_go_on(folder):
            ended = run_one(only, folder)
        _leave([_gated(ended, folder, gate)])
    else:
        options = [*_options(testbed, quick, out, settings, restore_first), *(["--dask", dask] if dask else [])]
        options += ["--wait"] if wait else []
        _leave(run_several(loaded, out, run_one, options))


def _compute_on(address: str, testbed: Testbed) -> None:
    from pollscope.testbeds.cluster import Cluster
    from pollscope.testbeds.model import ModelTestbed

    if not isinstance(testbed, ModelTestbed):
        what = f"is for modelled testbeds, and {testbed.name} is none"
        raise UsageError(what, f"--dask {address}", "--testbed model, or leave it away")
    testbed.compute_on(Cluster(address))


def _checked(specs: list[str], overrides: Overrides) -> dict[Path, LoadedSpec]:
    """Read and check all specs before the first one starts, and print warnings about each."""
    loaded = {path: load_file(path, overrides) for path in specs_of(specs)}
    for each in loaded.values():
        say_of(each)
    return loaded


def _gated(ended: Ended, folder: Path, gate: Gate | None) -> Ended:
    return ended if gate is None or ended.skipped else replace(ended, code=gate.code(folder))


def _resume(
    folder: Path, restore_first: bool, testbed: str | None, wait: bool, columns: Sequence[str], judge: Judge
) -> Ended:
    """Complete a run; if it is already complete, say so and measure nothing."""
    if complete_already(folder):
        say(f"{folder}: is complete; nothing is left to measure")
        typer.echo(folder)
        say(next_steps(folder))
        return Ended(f"was complete: {folder}")
    with said_how_to_go_on(folder):
        return _report(resume_run(folder, say, restore_first, testbed, wait, judge), columns)


def _options(testbed: str | None, quick: bool, out: Path, settings: Sequence[str], restore_first: bool) -> list[str]:
    return [
        *(["--testbed", testbed] if testbed else []),
        *(["--quick"] if quick else []),
        *(["--out", str(out)] if out != RESULTS else []),
        *(word for setting in settings for word in ("--set", setting)),
        *(["--restore-first"] if restore_first else []),
    ]


def _report(outcome: RunOutcome, columns: Sequence[str]) -> Ended:
    show_summary(outcome, columns=columns)
    typer.echo(outcome.folder)
    if outcome.ok + outcome.flagged:
        say(next_steps(outcome.folder))
    if outcome.nothing_left is not None:
        return Ended(f"skipped, because {outcome.nothing_left.what}: {outcome.folder}", skipped=outcome.nothing_left)
    broken = failed_claims(outcome.folder)
    for sentence in broken:
        say(f"pollscope: {sentence}")
    trials = outcome.ok + outcome.flagged + outcome.failed
    texts = [f"{outcome.failed} of {trials} trials failed" if outcome.failed else f"done, {trials} trials"]
    texts += [f"{len(broken)} claims do not hold"] if broken else []
    code = ExitCode.TRIALS_FAILED if outcome.failed or broken else ExitCode.DONE
    return Ended(f"{', '.join(texts)}: {outcome.folder}", code)


def _leave(ended: Sequence[Ended]) -> None:
    """Exit with the code of all specs together; a skipped spec is no failure if others ran."""
    if all(each.skipped is not None for each in ended):
        raise next(each.skipped for each in ended if each.skipped is not None)
    if code := max(each.code for each in ended):
        raise typer.Exit(code)
