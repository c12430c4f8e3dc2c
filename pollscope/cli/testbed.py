# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope testbed up|down|status NAME`."""

from typing import Annotated

import typer

from pollscope.base.errors import ExitCode
from pollscope.testbeds import DEFAULT, State, make_testbed

EXAMPLES = (
    "pollscope testbed status",
    "pollscope testbed up loopback",
)
app = typer.Typer(no_args_is_help=False, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name in configs/testbeds, or the path of a file.")]


@app.command()
def status(name: Name = DEFAULT) -> None:
    """Says whether a testbed could run something now; changes nothing."""
    _show(name, make_testbed(name).status())


@app.command()
def up(name: Name = DEFAULT) -> None:
    """Prepares a testbed."""
    _show(name, make_testbed(name).up())


@app.command()
def down(name: Name = DEFAULT) -> None:
    """Takes down what `up` prepared."""
    _show(name, make_testbed(name).down())


def _show(name: str, state: State) -> None:
    typer.echo(f"{name}: {'ready' if state.ready else 'not ready'}")
    for fact in state.facts:
        typer.echo(f"  {fact}")
    if not state.ready:
        raise typer.Exit(ExitCode.HOST)
