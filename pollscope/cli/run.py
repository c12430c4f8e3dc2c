# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope run`."""

from pathlib import Path
from typing import Annotated

import typer

from pollscope.cli.words import QuickFlag, Setting, TestbedName, specs_of
from pollscope.errors import ExitCode, UsageError
from pollscope.run import Outcome, resume_run, start_run
from pollscope.spec import LoadedSpec, Overrides, load_file
from pollscope.summary import failed_claims, show_summary
from pollscope.testbeds import DEFAULT, make_testbed

EXAMPLES = (
    "pollscope run S-F5 --quick",
    "pollscope run experiments/sanity experiments/socc19 --out /data/results",
    "pollscope run S-F8 --set trial.window='2 s' --set factors.queues='[1, 1024]'",
    "pollscope run --resume results/s-f5-polling-tax/20261120T162617Z-1a2b3c",
)


def run(
    specs: Annotated[
        list[str] | None, typer.Argument(metavar="SPEC...", help="Files, folders, names or paper rows.")
    ] = None,
    testbed: TestbedName = None,
    quick: QuickFlag = False,
    resume: Annotated[
        Path | None, typer.Option("--resume", metavar="RUN", help="Complete the run folder of an interrupted run.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where run folders are made.")] = Path("results"),
    settings: Setting = None,
    restore_first: Annotated[
        bool, typer.Option("--restore-first", help="Give back the knobs that an ended run left behind, then start.")
    ] = False,
) -> None:
    """Measures specs, each into a run folder of its own: OUT/SPEC-NAME/RUN-ID.

    Ends with a table of what was measured and the folder's path. Exit code 1 when trials failed, or when a claim of a
    spec with `must: claims` does not hold; 3 when this testbed can host no point of any spec. A row that cannot be
    hosted gets a run folder without trials, whose claims say why. An interrupted run is completed with --resume.
    """
    if (resume is None) == (not specs):
        raise UsageError("give specs to run, or --resume RUN", remedy="pollscope run --help")
    if resume is not None:
        if quick or settings or testbed:
            raise UsageError("--resume goes on with the run's own settings", remedy="leave the other options away")
        _end([_report(resume_run(resume, _say, restore_first))])
        return
    overrides = Overrides(quick, tuple(settings or ()))
    # All specs are checked before the first one starts.
    loaded = [load_file(path, overrides) for path in specs_of(specs or [])]
    _end([_run_one(each, testbed or DEFAULT, out, restore_first) for each in loaded])


def _run_one(loaded: LoadedSpec, testbed: str, out: Path, restore_first: bool) -> Outcome:
    return _report(start_run(loaded, make_testbed(testbed), out, _say, restore_first))


def _report(outcome: Outcome) -> Outcome:
    """Shows how a run went."""
    show_summary(outcome)
    typer.echo(outcome.folder)
    return outcome


def _end(outcomes: list[Outcome]) -> None:
    """The exit code of all runs together; a row that cannot be hosted here is no failure beside others that can."""
    impossible = [outcome.nothing_left for outcome in outcomes if outcome.nothing_left is not None]
    broken = [
        sentence for outcome in outcomes if outcome.nothing_left is None for sentence in failed_claims(outcome.folder)
    ]
    for sentence in broken:
        typer.echo(f"pollscope: {sentence}", err=True)
    if broken or any(outcome.failed for outcome in outcomes):
        raise typer.Exit(ExitCode.TRIALS_FAILED)
    if len(impossible) == len(outcomes):
        raise impossible[0]


def _say(text: str) -> None:
    typer.echo(text, err=True)
