# SPDX-License-Identifier: BSD-3-Clause
"""Do what `pollscope run` does around a run: name the next command, run several specs, find open claims."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from pollscope.analysis.claims import evaluate_run
from pollscope.analysis.claims.verdict import VerdictKind
from pollscope.base.errors import CannotHost, DiskError, ExitCode, PollscopeError, WrongTestbed, reason_of
from pollscope.cli.words import say
from pollscope.metrics.undisturbed import TOO_FEW
from pollscope.run.looks import OpenClaim
from pollscope.run.run import new_run_folder
from pollscope.spec import LoadedSpec
from pollscope.store.find import is_run
from pollscope.store.results_table import last_attempts
from pollscope.store.run_folder import RunFolder, read_run, resume_command
from pollscope.store.table_file import TABLE_FILE


def next_steps(folder: Path) -> str:
    """Return the page of a run, and the command that makes it."""
    return f"next: pollscope report {shlex.quote(str(folder))}   (writes {folder}/report.html)"


def complete_already(folder: Path) -> bool:
    """Return whether a run has nothing left to do: it is complete with its table, and no planned trial failed.

    Raises:
        UsageError: no run folder, or a damaged one.
    """
    run = read_run(folder)
    made = {str(trial["trial"]) for trial in last_attempts(run.trials) if trial["status"] != "failed"}
    ended = run.meta.get("status") == "complete" and (folder / TABLE_FILE).exists()
    return ended and made >= set(run.meta.get("plan", []))


@contextmanager
def said_how_to_go_on(folder: Path) -> Iterator[None]:
    """If the block ends early, say what is kept and which command resumes the run.

    Raises:
        DiskError: with what is kept; also in place of an error of the system, for instance of a full disk.
    """
    try:
        yield
    except KeyboardInterrupt:
        say(_kept(folder))
        raise
    except OSError as error:
        raise DiskError(reason_of(error), str(folder), _kept(folder)) from error
    except DiskError as error:
        remedies = (_kept(folder), "" if is_run(folder) else error.remedy)
        raise DiskError(error.what, error.where, "; ".join(filter(None, remedies))) from error


def _kept(folder: Path) -> str:
    if not is_run(folder):
        return "nothing was measured yet"
    try:
        with (folder / "trials.jsonl").open("rb") as file:
            kept = sum(line.endswith(b"\n") for line in file)
    except OSError:
        kept = 0
    trials = f"{kept} trial{'s are' if kept != 1 else ' is'} kept"
    return f"{trials}; `{resume_command(folder)}` continues"


@dataclass(frozen=True)
class Ended:
    """Hold the outcome of one spec: a sentence, its own exit code, and why the testbed cannot host it."""

    text: str
    code: ExitCode = ExitCode.DONE
    skipped: PollscopeError | None = None


def run_several(
    specs: Mapping[Path, LoadedSpec], out: Path, run_one: Callable[[LoadedSpec, Path], Ended], options: Sequence[str]
) -> list[Ended]:
    """Run specs one after the other and show one line for each at the end, also after Ctrl-C.

    Args:
        specs: by their files.
        out: where run folders are made.
        run_one: runs one spec into a folder.
        options: of the command line, for the command that continues after Ctrl-C.

    Raises:
        KeyboardInterrupt: the run folders that are there say how far it came.
    """
    ended: list[Ended] = []
    folder = out
    try:
        for loaded in specs.values():
            folder = new_run_folder(out, loaded.spec.name)
            ended.append(_run_or_skip(loaded, folder, run_one))
    except KeyboardInterrupt:
        began = folder != out and folder.exists()
        resume = [f"interrupted, `{resume_command(folder)}` completes it"] if began else []
        _show(specs, [*(each.text for each in ended), *resume])
        if left := list(specs)[len(ended) + began :]:
            typer.echo(f"to run the rest: {shlex.join(['pollscope', 'run', *map(str, left), *options])}")
        raise
    _show(specs, [each.text for each in ended])
    return ended


def _run_or_skip(loaded: LoadedSpec, folder: Path, run_one: Callable[[LoadedSpec, Path], Ended]) -> Ended:
    try:
        return run_one(loaded, folder)
    except (WrongTestbed, CannotHost) as error:
        return Ended(f"skipped, because {error}", skipped=error)
    except (PollscopeError, OSError) as error:
        what, code = reason_of(error), error.exit_code if isinstance(error, PollscopeError) else ExitCode.HOST
        say(f"pollscope: {what}")
        resume = f"; `{resume_command(folder)}` continues" if folder.exists() else ""
        return Ended(f"failed, because {what}{resume}", code)


def _show(specs: Mapping[Path, LoadedSpec], texts: Sequence[str]) -> None:
    names = [loaded.spec.name for loaded in specs.values()]
    width = max(map(len, names))
    rest = ["not begun"] * (len(names) - len(texts))
    typer.echo()
    for name, text in zip(names, [*texts, *rest], strict=True):
        typer.echo(f"{name:{width}}  {text}")


def settings_until_decided(time: str | None) -> list[str]:
    """Return the settings that `--until-decided TIME` stands for; `10m` is short for `10 min`."""
    if time is None:
        return []
    in_minutes = time.endswith("m") and time[:-1].strip().replace(".", "", 1).isdecimal()
    return ["repeats.until=verdicts", f"repeats.at_most={f'{time[:-1]} min' if in_minutes else time}"]


def run_at_look(folder: Path, repeats: int) -> RunFolder:
    """Return a run without trials of repeats from `repeats` on, which were made after the look of that many."""
    run = read_run(folder)
    made = [trial for trial in run.trials if trial["kind"] != "measure" or trial["repeat"] < repeats]
    # Without its size, the table of these trials is not stored.
    return replace(run, trials=made, trials_bytes=0) if len(made) < len(run.trials) else run


def open_claims(folder: Path, repeats: int) -> list[OpenClaim]:
    """Return the claims of a run folder that more trials may decide, at the level that its run.json holds.

    These are the inconclusive ones, and those about an undisturbed level for which a point has too few trials.
    """
    run = run_at_look(folder, repeats)
    return [
        OpenClaim(
            verdict.claim.id,
            verdict.finding.sentence,
            [sample.levels for sample in verdict.finding.behind],
            all_flagged=0 < verdict.finding.trials == verdict.finding.flagged,
        )
        for verdict in evaluate_run(run)
        if verdict.kind is VerdictKind.INCONCLUSIVE
        or (verdict.kind is VerdictKind.NOT_MEASURABLE and TOO_FEW in verdict.finding.sentence)
    ]
