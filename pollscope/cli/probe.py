# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope probe`: put the probe plug-in where EAL finds it, and remove it."""

import typer

from pollscope.base.errors import HostError
from pollscope.host.lock import HostLock
from pollscope.knobs import KnobHost, knobs_of
from pollscope.knobs.session import KnobSession, read_values, restore_all

_KNOB = "probe"

app = typer.Typer(help="Put the probe plug-in where EAL finds it, or remove it.", no_args_is_help=True)


@app.command("install")
def install() -> None:
    """Copy the built plug-in into DPDK's driver folder; programs that start from now on load it.

    It costs nothing until `pollscope attach` starts to sample. The journal of knobs keeps the change.
    """
    with KnobSession("probe install", KnobHost(), by_hand=True) as session:
        changes = session.set(_KNOB, None, "on")
        values = session.get(_KNOB)
    for change in changes:
        typer.echo(f"{change.target}: the plug-in is there now; start your program again to load it")
    for folder in values.keys() - {change.target for change in changes}:
        typer.echo(f"{folder}: the plug-in was there already")


@app.command("remove")
def remove() -> None:
    """Remove the plug-in that `install` copied; running programs keep it until they end."""
    host = KnobHost()
    with HostLock("probe remove", host.lock_path):
        knobs = knobs_of(host)
        results = restore_all(host, knobs, name=_KNOB)
    for result in results:
        typer.echo(f"{result.target}: {result.text}")
    if any(not result.restored for result in results):
        raise HostError("the plug-in was not removed everywhere", remedy="pollscope knob restore probe --force")
    left = [folder for folder, value in read_values(knobs[_KNOB]).items() if value != "off"]
    if left:
        raise HostError("a plug-in is there that `probe install` did not copy", left[0], "delete it by hand")
    if not results:
        typer.echo("no plug-in is installed")
