# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope collect`: read counters of this host for some seconds, or read a recorded output of a tool."""

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from pollscope.base.errors import ExitCode, HostError, UsageError
from pollscope.base.names import COLLECTORS
from pollscope.base.replacing import check_place, written
from pollscope.base.units import human_number
from pollscope.cli.words import CollectorNames
from pollscope.collectors.interface import Collector, CollectorOutcome, Status
from pollscope.collectors.plausibility import judge
from pollscope.collectors.registry import create, probe_all
from pollscope.collectors.replay import Replay
from pollscope.collectors.sample import Kind, write_samples
from pollscope.collectors.session import CollectorSession, overhead_share
from pollscope.collectors.window import Plausibility, Series, WindowSeries

EXAMPLES = (
    "pollscope collect                                     what can be read here, and why not",
    "pollscope collect ethtool kernel-load --seconds 5 --out samples.parquet",
    "pollscope collect pcm-iio --replay recorded.csv       the output of a tool, recorded elsewhere",
)


def collect(
    names: CollectorNames = None,
    seconds: Annotated[float, typer.Option(help="How long.", min=0.01, max=86400)] = 3.0,
    out: Annotated[Path | None, typer.Option(help="Write all samples (.csv, .jsonl, .parquet).")] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two samples.", min=0.01, max=3600)] = 1.0,
    raw: Annotated[Path | None, typer.Option(help="Keep the raw recordings in this folder.")] = None,
    replay: Annotated[
        Path | None, typer.Option(help="Feed the one collector from this file instead of the host.")
    ] = None,
) -> None:
    """Reads counters of this host for some seconds and prints a line per metric; --out keeps every sample."""
    if not names:
        _list()
        return
    collectors = [create(name) for name in names]
    if replay is not None:
        if len(collectors) != 1:
            raise UsageError("--replay feeds one collector", "", "name one")
        collectors = [Replay(collectors[0], replay)]
    if out is not None and out.suffix not in (".csv", ".jsonl", ".parquet"):
        raise UsageError(f"unknown ending {out.suffix!r}", str(out), "use one of .csv, .jsonl, .parquet")
    if out is not None:
        check_place(out)
    _refuse_absent(collectors)
    with tempfile.TemporaryDirectory(prefix="pollscope-collect-") as folder:
        session = CollectorSession(collectors, raw or Path(folder), round(interval * 1e9))
        _record(session, seconds)
        if out is not None:
            with written(out) as new:
                count = write_samples(new, session.samples())
            typer.echo(f"{count} samples in {out}")
        window = WindowSeries(session.samples(), session.outcomes.values())
    _print(window)
    _report(session.outcomes, window)


def _list() -> None:
    width = max(map(len, COLLECTORS))
    for name, (available, reason) in probe_all().items():
        typer.echo(f"{name:{width}}  {'available' if available else 'absent   '}  {reason}")


def _refuse_absent(collectors: list[Collector]) -> None:
    for collector in collectors:
        available, reason = collector.probe()
        if not available:
            raise HostError(
                f"cannot collect {collector.name}: {reason}", "", "pollscope collect lists what can be read here"
            )


def _record(session: CollectorSession, seconds: float) -> None:
    """Stops the collectors also when interrupted: a tool left behind would keep the counters."""
    session.start()
    try:
        session.mark("window")
        time.sleep(seconds)
    finally:
        session.stop()


def _print(window: WindowSeries) -> None:
    for (source, path, metric), series in window.series.items():
        typer.echo(f"{source:14} {path:32} {metric:40} {_value(series)}")


def _value(series: Series) -> str:
    if not series.count:
        return series.text or (f"absent: {series.reason}" if series.reason else "(empty)")
    rate, unit = series.per_second(), "" if series.unit == "1" else f" {series.unit}"
    if series.kind in (Kind.COUNTER, Kind.INTERVAL) and rate is not None:
        return f"{human_number(rate, 6)} {series.unit}/s"
    if series.kind is Kind.COUNTER:
        return f"{human_number(series.last, 15)}{unit} (counter)"
    return f"{human_number(series.total / series.count, 6)}{unit}"


def _report(outcomes: dict[str, CollectorOutcome], window: WindowSeries) -> None:
    """Outcomes and what is not plausible, on standard error; exit code 1 when a collector did not deliver."""
    for name, outcome in outcomes.items():
        share = overhead_share(outcome)
        cost = "CPU use not measured" if share is None else f"{share:.2%} of a core"
        typer.echo(f"{name}: {outcome.status}{f', {outcome.reason}' if outcome.reason else ''}; {cost}", err=True)
        for problem in outcome.problems.first:
            typer.echo(f"{name}: left out: {problem}", err=True)
        if more := outcome.problems.count - len(outcome.problems.first):
            typer.echo(f"{name}: left out: {more} lines more", err=True)
    for finding in judge(window):
        if finding.verdict is not Plausibility.OK:
            typer.echo(f"{finding.verdict}: {finding.text}", err=True)
    if any(outcome.status is not Status.OK for outcome in outcomes.values()):
        raise typer.Exit(ExitCode.TRIALS_FAILED)
