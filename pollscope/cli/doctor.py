# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope doctor`."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from pollscope.base.errors import ExitCode
from pollscope.cli.words import JsonFlag
from pollscope.run.doctor import Check, answer, can_measure, examine, run_selftest, to_json

EXAMPLES = (
    "pollscope doctor",
    "pollscope doctor --json",
    "pollscope doctor --self-test             how much each accounting mode distorts, on this machine",
)
_MARKS = {"yes": ("green", "yes"), "no": ("red", "no"), "note": ("yellow", "note")}


def doctor(
    as_json: JsonFlag = False,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Also measure the distortion of each accounting mode (spins two cores).")
    ] = False,
) -> None:
    """Show what this host can measure, what not, and why, and how NICs, root ports, NUMA nodes and cores are connected.

    Nothing is changed. Exit code 3 if not even the loopback testbed works.
    """
    findings = examine()
    rows = run_selftest() if self_test else []
    if as_json:
        typer.echo(json.dumps({**to_json(findings), **({"selftest": rows} if rows else {})}, indent=1))
    else:
        _show(findings, rows)
    if not can_measure(findings):
        raise typer.Exit(ExitCode.HOST)


def _show(findings: list[Check], rows: list[dict[str, Any]]) -> None:
    screen = Console(highlight=False)
    for topic in dict.fromkeys(finding.topic for finding in findings):
        table = Table(title=topic, title_justify="left", show_header=False, box=None, padding=(0, 1))
        for finding in (each for each in findings if each.topic == topic):
            colour, word = _MARKS[finding.state]
            table.add_row(f"[{colour}]{word}[/{colour}]", finding.name, finding.text)
        screen.print(table)
    if rows:
        screen.print(_selftest_table(rows))
    screen.print(answer(findings), markup=False, soft_wrap=True)


def _selftest_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="TSC cycles that accounting adds to a poll, with its 95 % interval", title_justify="left")
    for head in ("packet every", "mode", "cycles per poll", "added", "interval", "n"):
        table.add_column(head, justify="right")
    for row in rows:
        every = row["every_k_polls"]
        interval = f"{row['low']:+.1f} .. {row['high']:+.1f}"
        polls = f"{every} polls" if every else "never"
        cells = f"{row['cycles_per_poll']:.1f}", f"{row['added_cycles_per_poll']:+.1f}", interval, str(row["n"])
        table.add_row(polls, row["mode"], *cells)
    return table
