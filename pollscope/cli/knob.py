# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope knob`: list, read, set and restore host state."""

import os
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from pollscope.base.errors import HostError, UsageError
from pollscope.base.names import KNOBS
from pollscope.cli.words import KnobName, echo_json, say
from pollscope.host.journal import load
from pollscope.host.lock import HostLock
from pollscope.knobs import Knob, KnobHost, KnobSession, Policy, RestoreResult, knobs_of, pick, read_values, restore_all
from pollscope.knobs.session import (
    Caller,
    Change,
    hand_journal,
    left_behind,
    require_nobody_between,
    run_journal,
    would_change,
)

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)

Target = Annotated[
    str | None,
    typer.Option("--target", "-t", help="One target (see `knob list`); for PCI knobs an address or an interface."),
]
_AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable.")]


@app.callback()
def choose_host(
    context: typer.Context,
    root: Annotated[
        Path | None,
        typer.Option(
            help="A folder with sys, proc, dev and state, used instead of this host's: to try knobs out.",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    emulated: Annotated[
        bool,
        typer.Option("--emulated", help="The machine is emulated: also set knobs that it only pretends to have."),
    ] = False,
) -> None:
    """List, read, set and restore host state."""
    context.obj = replace(KnobHost.at(root) if root else KnobHost(), emulated=emulated)


@app.command("list")
def list_knobs(context: typer.Context, as_json: _AsJson = False) -> None:
    """List all knobs: availability or the reason against it, present values, and changes."""
    host: KnobHost = context.obj
    rows = [_row(knob, host) for knob in knobs_of(host).values()]
    if as_json:
        echo_json(rows)
        return
    for row in rows:
        typer.echo(f"{row['knob']:<15} {row['summary']}")
        typer.echo(f"{'':<15}   {'absent: ' + row['reason'] if row['reason'] else 'available'}")
        for value in dict.fromkeys(row["values"].values()):
            targets = [target for target in row["values"] if row["values"][target] == value]
            few = " ".join(targets) if len(targets) <= 3 else f"{targets[0]} .. {targets[-1]} ({len(targets)})"
            typer.echo(f"{'':<15}   {few} = {value}")
        for target, old in row["changed_from"].items():
            typer.echo(f"{'':<15}   {target} was {old} before pollscope")
    _warn_left_behind(host)


@app.command("get")
def get(context: typer.Context, name: KnobName, target: Target = None, as_json: _AsJson = False) -> None:
    """Print the values of one knob, one line per target."""
    values = read_values(pick(knobs_of(context.obj), name), target)
    if as_json:
        echo_json(values)
        return
    for each, value in values.items():
        typer.echo(f"{each} {value}")


@app.command("set")
def set_knob(
    context: typer.Context,
    name: KnobName,
    value: Annotated[str, typer.Argument(metavar="VALUE")],
    target: Target = None,
    hold: Annotated[bool, typer.Option("--hold", help="Restore it at Ctrl-C, instead of at `knob restore`.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Print what would change, or why it cannot; write nothing.")
    ] = False,
) -> None:
    """Set a knob; a journal keeps the previous value until `knob restore`."""
    if check:
        _say_changes(name, would_change(context.obj, name, target, value))
        return
    with KnobSession(f"knob set {name}", context.obj, by_hand=not hold, caller=_caller()) as session:
        changes = session.set(name, target, value)
        _say_changes(name, changes)
        if hold:
            with suppress(KeyboardInterrupt):
                say("held until Ctrl-C")
                threading.Event().wait()


@app.command("restore")
def restore(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only this knob.", autocompletion=lambda: list(KNOBS))
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite values that another program changed.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Accept the present value of knobs that cannot be restored.")
    ] = False,
) -> None:
    """Restore what ended runs and `knob set` changed, newest first."""
    if force and keep:
        raise UsageError("--force and --keep exclude each other")
    policy = Policy.FORCE if force else Policy.KEEP if keep else Policy.ASK
    host: KnobHost = context.obj
    with HostLock("knob restore", host.lock_path):
        # Restore values of a run in any case: the run is dead, otherwise it would hold the lock.
        if not load(run_journal(host)).pending:
            require_nobody_between(host, _caller())
        knobs = knobs_of(host)
        if name is not None:
            pick(knobs, name)
        results = restore_all(host, knobs, policy, name)
    _say_results(results)


def _caller() -> Caller:
    """Return the caller that a host records with a changed knob; pollscope_knob (Ansible) identifies itself."""
    return "play" if os.environ.get("POLLSCOPE_CALLER") == "play" else "user"


def _row(knob: Knob, host: KnobHost) -> dict[str, Any]:
    try:
        values, unreadable = read_values(knob), ""
    except HostError as error:
        values, unreadable = {}, str(error)
    journals = [entry for journal in (run_journal(host), hand_journal(host)) for entry in load(journal).pending]
    changed = {each.target: knob.that_has(each.target).show(each.old) for each in journals if each.knob == knob.name}
    reason = knob.available().reason or unreadable
    return {
        "knob": knob.name,
        "summary": knob.summary,
        "allowed": knob.values,
        "available": not reason,
        "reason": reason,
        "values": values,
        "changed_from": changed,
    }


def _warn_left_behind(host: KnobHost) -> None:
    # The journal of a run that still holds the lock is not a leftover.
    try:
        with HostLock("knob list", host.lock_path):
            pending = left_behind(host)
    except HostError:
        return
    if pending:
        say(f"{pending} (pollscope knob restore)")


def _say_changes(name: str, changes: list[Change]) -> None:
    if not changes:
        typer.echo(f"{name}: has this value already, nothing was written")
    for change in changes:
        typer.echo(f"{change.knob} {change.target}: {change.before} -> {change.after}")


def _say_results(results: list[RestoreResult]) -> None:
    if not results:
        typer.echo("nothing to restore")
    for result in results:
        typer.echo(str(result))
    left = sum(not result.restored for result in results)
    if left:
        raise HostError(
            f"{left} of {len(results)} values were not restored",
            remedy="--force writes over others' changes, --keep accepts what is there",
        )
