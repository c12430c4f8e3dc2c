# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope collect`: read counters of this host for some seconds, or read a recorded output of a tool."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from pollscope.base.errors import ExitCode, HostError, UsageError
from pollscope.base.names import COLLECTORS
from pollscope.base.replacing import check_place, written
from pollscope.base.units import human_number
from pollscope.cli.words import CollectorNames, say
from pollscope.collectors.interface import Collector, CollectorOutcome, Status
from pollscope.collectors.plausibility import judge
from pollscope.collectors.registry import create, probe_all
from pollscope.collectors.replay import Replay
from pollscope.collectors.sample import Kind, write_samples
from pollscope.collectors.session import CollectorSession, overhead_share
from pollscope.collectors.window import Plausibility, Series, WindowSeries
from pollscope.host.disk_folder import folder_on_disk
from pollscope.host.lock import HostLock


def collect(
    names: CollectorNames = None,
    seconds: Annotated[float, typer.Option(help="Duration in seconds.", min=0.01, max=86400)] = 3.0,
    out: Annotated[Path | None, typer.Option(help="Write all samples (.csv, .jsonl, .parquet).")] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two samples.", min=0.01, max=3600)] = 1.0,
    raw: Annotated[Path | None, typer.Option(help="Keep the raw recordings in this folder.")] = None,
    replay: Annotated[
        Path | None, typer.Option(help="Feed the one collector from this file instead of the host.")
    ] = None,
    file_prefix: Annotated[
        str, typer.Option(metavar="NAME", help="For dpdk-telemetry: EAL file prefix of the application to read.")
    ] = "",
) -> None:
    """Read counters of this host for some seconds and print a line per metric; --out keeps every sample.

    Ctrl-C ends it early; the samples until then are written and printed.
    """
    if not names:
        _list()
        return
    if file_prefix and "dpdk-telemetry" not in names:
        raise UsageError("--file-prefix chooses an application for dpdk-telemetry", "", "name that collector")
    options = {"dpdk-telemetry": {"file_prefix": file_prefix}}
    collectors = [create(name, **options.get(name, {})) for name in names]
    if replay is not None:
        if len(collectors) != 1:
            raise UsageError("--replay feeds one collector", "", "name one")
        collectors = [Replay(collectors[0], replay)]
    if out is not None:
        if out.suffix not in (".csv", ".jsonl", ".parquet"):
            raise UsageError(f"unknown ending {out.suffix!r}", str(out), "use one of .csv, .jsonl, .parquet")
        check_place(out)
    _refuse_absent(collectors)
    with nullcontext() if replay else _alone(f"collect {' '.join(names)}"), _recordings(raw) as folder:
        session = CollectorSession(collectors, folder, round(interval * 1e9))
        whole = _record(session, seconds)
        if out is not None:
            with written(out) as new:
                count = write_samples(new, session.samples())
            typer.echo(f"{count} samples in {out}")
        window = WindowSeries(session.samples(), session.outcomes.values())
    delivered = _report(session.outcomes, window)
    if not whole:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if not delivered:
        raise typer.Exit(ExitCode.TRIALS_FAILED)


@contextmanager
def _alone(what: str) -> Iterator[None]:
    """Hold the host lock, because counters are few; continue without it if this user may not open it.

    Raises:
        HostError: a run or another collection measures on the host, or a play changes it.
    """
    from pollscope.knobs import KnobHost
    from pollscope.knobs.session import require_nobody_between

    with ExitStack() as held:
        try:
            held.enter_context(HostLock(what))
            require_nobody_between(KnobHost())
        except HostError as error:
            if not isinstance(error.__cause__, OSError):
                raise
        yield


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


@contextmanager
def _recordings(raw: Path | None) -> Iterator[Path]:
    """Yield the folder of the recordings; remove a temporary one unless the samples could not be written.

    Raises:
        HostError: as the block, with the folder of the kept recordings.
    """
    if raw is not None:
        yield raw
        return
    folder = Path(tempfile.mkdtemp(prefix="pollscope-collect-", dir=folder_on_disk()))
    try:
        yield folder
    except HostError as error:
        again = f"pollscope collect NAME --replay {folder}/NAME.raw --out FILE"
        raise HostError(error.what, error.where, f"the recordings are kept: {again}") from error
    except BaseException:
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


def _record(session: CollectorSession, seconds: float) -> bool:
    """Record, and return whether it lasted `seconds`; always stop the tools, which would keep the counters."""
    session.start()
    try:
        session.mark("window")
        time.sleep(seconds)
    except KeyboardInterrupt:
        return False
    finally:
        session.stop()
    return True


def _value(series: Series) -> str:
    if not series.count:
        return series.text or (f"absent: {series.reason}" if series.reason else "(empty)")
    rate, unit = series.per_second(), "" if series.unit == "1" else f" {series.unit}"
    if series.kind in (Kind.COUNTER, Kind.INTERVAL) and rate is not None:
        return f"{human_number(rate, 6)} {series.unit}/s"
    if series.kind is Kind.COUNTER:
        return f"{human_number(series.last, 15)}{unit} (counter)"
    return f"{human_number(series.total / series.count, 6)}{unit}"


def _report(outcomes: dict[str, CollectorOutcome], window: WindowSeries) -> bool:
    """Print the window, and outcomes and implausible values on standard error; return whether all delivered."""
    for (source, path, metric), series in window.series.items():
        typer.echo(f"{source:14} {path:32} {metric:40} {_value(series)}")
    for name, outcome in outcomes.items():
        share = overhead_share(outcome)
        cost = "CPU use not measured" if share is None else f"{share:.2%} of a core"
        say(f"{name}: {outcome.status}{f', {outcome.reason}' if outcome.reason else ''}; {cost}")
        for problem in outcome.problems.first:
            say(f"{name}: left out: {problem}")
        if more := outcome.problems.count - len(outcome.problems.first):
            say(f"{name}: left out: {more} lines more")
    for finding in judge(window):
        if finding.verdict is not Plausibility.OK:
            say(f"{finding.verdict}: {finding.text}")
    return all(outcome.status is Status.OK for outcome in outcomes.values())
