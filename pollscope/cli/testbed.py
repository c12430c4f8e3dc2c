# SPDX-License-Identifier: BSD-3-Clause
"""Run `pollscope testbed up|down|status|check NAME`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pollscope.base.errors import ExitCode, UsageError
from pollscope.base.names import did_you_mean
from pollscope.base.paths import data_folder
from pollscope.cli.words import JsonFlag
from pollscope.testbeds import DEFAULT, HostFinding, TestbedState, make_testbed

app = typer.Typer(no_args_is_help=False, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name in configs/testbeds, or the path of a file.")]


@app.command()
def status(name: Name = DEFAULT) -> None:
    """Say whether a testbed could run something now; change nothing."""
    _show(name, make_testbed(name).status())


@app.command()
def up(name: Name = DEFAULT) -> None:
    """Prepare a testbed."""
    _show(name, make_testbed(name).up())


@app.command()
def down(name: Name = DEFAULT) -> None:
    """Take down what `up` prepared."""
    _show(name, make_testbed(name).down())


@app.command()
def check(name: Name = DEFAULT, as_json: JsonFlag = False) -> None:
    """Show in one table what each host of a testbed has and lacks, with the remedies; change nothing."""
    findings = make_testbed(name).findings()
    if as_json:
        typer.echo(json.dumps([asdict(each) for each in findings], indent=1))
    else:
        _show_findings(findings)
    if any(each.state == "no" for each in findings):
        raise typer.Exit(ExitCode.HOST)


def _examples() -> dict[str, Path]:
    files = sorted((data_folder("configs") / "testbeds").iterdir())
    kinds = {path.name.removesuffix(".example.yaml"): path for path in files if path.name.endswith(".example.yaml")}
    return kinds | {path.stem: path for path in files if path.name.startswith("inventory-")}


@app.command()
def example(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A kind of testbed, or an inventory.", autocompletion=lambda: [*_examples()]
        ),
    ],
) -> None:
    """Print a commented file to start from: of two servers, or an inventory for the plays."""
    known = _examples()
    if name not in known:
        what = f"there is no example {name!r}{did_you_mean(name, sorted(known))}"
        raise UsageError(what, remedy=f"one of: {', '.join(known)}")
    typer.echo(known[name].read_text(), nl=False)


def _show_findings(findings: Sequence[HostFinding]) -> None:
    table = Table(box=None, padding=(0, 1))
    for head in ("host", "", "what", "found", "what to do"):
        table.add_column(head, overflow="fold")
    for each in findings:
        table.add_row(*(Text(cell) for cell in (each.host, each.state, each.what, each.text, each.remedy)))
    Console(highlight=False).print(table)
    lacking = [each for each in findings if each.state == "no"]
    typer.echo(f"not ready: {len(lacking)} lacking, first: {lacking[0].host} {lacking[0].what}" if lacking else "ready")


def _show(name: str, state: TestbedState) -> None:
    typer.echo(f"{name}: {'ready' if state.ready else 'not ready'}")
    for fact in state.metadata:
        typer.echo(f"  {fact}")
    if not state.ready:
        raise typer.Exit(ExitCode.HOST)
