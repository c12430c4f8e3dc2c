# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope attach`: measure a running DPDK program, live or into a run folder."""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from pollscope.attach import openmetrics, table
from pollscope.attach.programs import DpdkProgram, find_program, look_at, running_programs
from pollscope.attach.watch import beside, polling_cpus, record, watch
from pollscope.base.errors import HostError, UsageError
from pollscope.base.names import COLLECTORS
from pollscope.base.replacing import check_place
from pollscope.cli.words import JsonFlag, say
from pollscope.host.lock import HostLock
from pollscope.host.telemetry_socket import TelemetrySocket
from pollscope.node.observation import CounterReading, Observer, ThreadShare, port_rates, shares
from pollscope.node.probe import Probe

EXAMPLES = (
    "pollscope attach --list                          the DPDK programs of this host, and whether a probe is in them",
    "pollscope attach dpdk-testpmd                    a table, updated each second until Ctrl-C",
    "pollscope attach dpdk-testpmd --seconds 20 --out results",
    "pollscope attach --socket /proc/4711/root/run/dpdk/rte/dpdk_telemetry.v2 --seconds 5 --json",
)
_JSON_SECONDS = 2.0


def attach(
    program: Annotated[
        str | None,
        typer.Argument(metavar="[PROGRAM]", help="Name or pid of the process, or its EAL file prefix."),
    ] = None,
    list_programs: Annotated[bool, typer.Option("--list", help="List the running DPDK programs.")] = False,
    socket: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The program with this telemetry socket, also in a container.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="End after this many seconds; default: at Ctrl-C.", min=0.5, max=86400)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write a run folder DIR/attach-PROGRAM/RUN-ID.")
    ] = None,
    metrics: Annotated[
        Path | None,
        typer.Option("--openmetrics", metavar="FILE", help="Rewrite this file each second, for Prometheus."),
    ] = None,
    collect: Annotated[
        list[str] | None,
        typer.Option(
            "--collect",
            metavar="NAME",
            help="With --out: also record this collector; repeatable.",
            autocompletion=lambda: list(COLLECTORS),
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure a running DPDK program: polling tax, polls, bursts and packets per lcore and queue.

    The program needs the probe plug-in, and nothing else: no rebuild, and no restart if `pollscope probe install` came
    before its start. The plug-in samples 1 ms of every 50 ms; in between, the program runs as it would without it.
    """
    if list_programs or (program is None and socket is None):
        if program or out or metrics or collect:
            raise UsageError("--list only lists programs", remedy="omit the other options")
        _list(running_programs([socket] if socket else (), say), as_json)
        return
    _check(seconds, out, metrics, collect or ())
    path = find_program(program or "", socket, say)
    with ExitStack() as stack:
        try:
            connection = stack.enter_context(TelemetrySocket(path))
            found = look_at(connection)
        except OSError as error:
            raise HostError(f"the program does not answer: {error}", str(path)) from error
        if not found.probe:
            raise HostError("no probe plug-in is in this program", found.name, found.advice)
        observer = Observer(connection, stack.enter_context(Probe(connection)))
        stack.enter_context(beside(polling_cpus(observer)))
        view = _View(found, metrics, quiet=as_json)
        if out is None:
            _live(observer, view, seconds, as_json)
        else:
            assert seconds is not None
            _record(observer, view, seconds, out, collect or (), as_json)


def _check(seconds: float | None, out: Path | None, metrics: Path | None, collectors: Sequence[str]) -> None:
    """Refuse contradictory options before the program is touched."""
    if out is not None and seconds is None:
        raise UsageError("a run folder needs an end", "--out", "add --seconds N")
    if collectors and out is None:
        raise UsageError("collectors need a run folder", "--collect", "add --seconds N --out DIR")
    for name in collectors:
        if name not in COLLECTORS:
            raise UsageError(f"there is no collector {name!r}", "--collect", "pollscope collect lists them")
    if metrics is not None:
        check_place(metrics)


class _View:
    """Show each second what threads do: on a terminal, as lines, or in a file for Prometheus."""

    def __init__(self, program: DpdkProgram, metrics: Path | None, quiet: bool) -> None:
        self.program, self._metrics, self._quiet = program, metrics, quiet
        self._history: dict[int, list[float]] = {}
        self._warned = False

    def _write_metrics(self, threads: Sequence[ThreadShare]) -> None:
        """Rewrite the file for Prometheus. A full disk there does not end the observation."""
        if self._metrics is None:
            return
        try:
            openmetrics.write(self._metrics, self.program, threads)
        except HostError as error:
            if not self._warned:
                say(str(error))
            self._warned = True

    def refresh(self, _readings: Sequence[CounterReading], threads: Sequence[ThreadShare]) -> None:
        """Show the latest state."""
        for each in threads:
            if not isinstance(each.classes, str):
                self._history.setdefault(each.counts.index, []).append(each.classes.tax.value)
        self._write_metrics(threads)
        if not self._quiet and sys.stdout.isatty():
            _show(table.lines(self.program, threads, self._history))

    def end(self, threads: Sequence[ThreadShare]) -> None:
        """Print the whole observation."""
        self._write_metrics(threads)
        lines = table.lines(self.program, threads, self._history)
        if sys.stdout.isatty():
            _show(lines)
        else:
            typer.echo("\n".join(lines))
        for each in threads:
            typer.echo(table.details(each))


def _show(lines: Sequence[str]) -> None:
    """Replace what is on the terminal. Names of programs stay in the filter, which would show this sequence as text."""
    getattr(sys.stdout, "unfiltered", sys.stdout).write(table.CLEAR)
    typer.echo(table.screen(lines), nl=False)


def _live(observer: Observer, view: _View, seconds: float | None, as_json: bool) -> None:
    readings = watch(observer, _JSON_SECONDS if seconds is None and as_json else seconds, view.refresh)
    threads = shares(readings, observer.info)
    if as_json:
        typer.echo(json.dumps(table.as_json(view.program, threads, port_rates(readings)), indent=2))
    else:
        view.end(threads)
        for caution in observer.cautions():
            typer.echo(caution)


def _record(
    observer: Observer, view: _View, seconds: float, out: Path, collectors: Sequence[str], as_json: bool
) -> None:
    last: list[ThreadShare] = []

    def refresh(readings: Sequence[CounterReading], threads: Sequence[ThreadShare]) -> None:
        last[:] = threads
        view.refresh(readings, threads)

    with HostLock(f"attach {view.program.name}") if collectors else nullcontext():
        folder = record(observer, view.program, seconds, out, collectors, refresh)
    if as_json:
        typer.echo(json.dumps({"run": str(folder)}))
    else:
        view.end(last)
        typer.echo(folder)
        say(f"next: pollscope report {folder}")


def _list(programs: Sequence[DpdkProgram], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([table.program_json(each) for each in programs], indent=2))
        return
    if not programs:
        typer.echo("no DPDK program offers telemetry here (root sees those of root and of containers)")
    for each in programs:
        for line in table.program_lines(each):
            typer.echo(line)
