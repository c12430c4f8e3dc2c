# SPDX-License-Identifier: BSD-3-Clause
"""Run several specs one after the other: skip those that a testbed cannot host, and report on each in one line."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from pollscope.base.errors import CannotHost, ExitCode, PollscopeError, WrongTestbed, reason_of
from pollscope.cli.words import say
from pollscope.run.run import new_run_folder
from pollscope.spec import LoadedSpec
from pollscope.store.run_folder import resume_command


@dataclass(frozen=True)
class Ended:
    """The outcome of one spec.

    Attributes:
        text: a sentence, with the run folder if there is one.
        code: the exit code of `pollscope run` with this spec alone.
        skipped: why the testbed cannot host it; None when it can.
    """

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
