# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope history`."""

from pathlib import Path
from typing import Annotated

import typer

from pollscope.analysis.history import changed_with_it, history_text, together_text
from pollscope.analysis.history import history as history_of
from pollscope.analysis.history import together as together_of
from pollscope.base.errors import ExitCode, UsageError
from pollscope.cli.words import MetricNames, echo
from pollscope.spec import find_specs, load_file
from pollscope.store.find import is_run
from pollscope.store.run_folder import read_run


def history(
    spec: Annotated[str, typer.Argument(metavar="SPEC", help="A spec: file, name or paper row.")],
    metrics: MetricNames = None,
    results: Annotated[Path, typer.Option("--results", metavar="DIR", help="Folder of the run folders.")] = Path(
        "results"
    ),
    fail_on_change: Annotated[
        bool, typer.Option("--fail-on-change", help="Exit with code 1 if any level changed.")
    ] = False,
    together: Annotated[
        bool, typer.Option("--together", help="Instead pool all runs; the intervals cover the scatter between runs.")
    ] = False,
) -> None:
    """Show where a metric changed its level over the runs of a spec.

    Ten runs are needed to detect a change, about five of them after it. The rate of false alarms is 1 % per series.
    For each change, the differences of spec and host at that run follow. To compare two runs, use `pollscope compare`.
    Without --fail-on-change the exit code is always 0. With --together: the mean over runs, the scatter
    between runs and within runs, and how many trials per run are worth their time (Kalibera & Jones 2013).
    """
    folder = results / _name(spec, results)
    runs = [read_run(path) for path in sorted(folder.glob("*")) if is_run(path)]
    if not runs:
        raise UsageError("holds no run folder", str(folder), "measure with `pollscope run`, or name another --results")
    if together:
        if fail_on_change:
            raise UsageError("shows no change of level", "--together", "leave out --fail-on-change")
        typer.echo(together_text(together_of(runs, metrics)))
        return
    found = history_of(runs, metrics)
    echo([history_text(found), *changed_with_it(runs, found)])
    if fail_on_change and any(each.changes for each in found):
        raise typer.Exit(ExitCode.TRIALS_FAILED)


def _name(word: str, results: Path) -> str:
    """Return the name of a spec, which is also that of its results folder; the spec itself may be gone."""
    if "/" not in word and (results / word).is_dir():
        return word
    found = find_specs(word)
    if len(found) != 1:
        raise UsageError(f"holds {len(found)} specs", word, "name one")
    return load_file(found[0]).spec.name
