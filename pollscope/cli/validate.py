# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope validate`."""

import typer

from pollscope.base.errors import ExitCode, PollscopeError
from pollscope.cli.words import Setting, SpecWords, say, say_of, specs_of
from pollscope.spec import Overrides, SpecError, load_file


def validate(
    specs: SpecWords,
    settings: Setting = None,
) -> None:
    """Check specs: keys, units, levels, and keys that depend on each other. Nothing is run.

    Every problem is one line with file, line, key, and the allowed values. Exit code 2 if there is a problem.
    """
    failed = False
    for path in specs_of(specs):
        try:
            loaded = load_file(path, Overrides(settings=tuple(settings or ())))
            if loaded.spec.quick is not None:
                load_file(path, Overrides(quick=True, settings=tuple(settings or ())))
            typer.echo(f"{path}: ok")
            say_of(loaded)
        except SpecError as error:
            failed = True
            for problem in error.problems:
                say(f"pollscope: {problem}")
        except PollscopeError as error:
            failed = True
            say(f"pollscope: {error}")
    if failed:
        raise typer.Exit(ExitCode.USAGE)
