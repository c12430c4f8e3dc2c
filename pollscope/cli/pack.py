# SPDX-License-Identifier: BSD-3-Clause
"""`pollscope pack`: one file that runs on a host without anything installed, or one file of run folders."""

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, Self

import typer

from pollscope.base.archive import Member, require_new, total_bytes, write_archive
from pollscope.base.errors import UsageError
from pollscope.base.units import human_size, human_time
from pollscope.cli.words import say
from pollscope.store.find import RESULTS, runs_below

EXAMPLES = (
    "pollscope pack pollscope.tar.gz               for a host with glibc and nothing else",
    "pollscope pack --runs runs.tar.gz             all runs below results",
    "pollscope pack --runs runs.tar.gz results/s-f5-polling-tax",
)
# Without a terminal a line is printed at most this often.
_LINE_EVERY_S = 10.0


def pack(
    out: Annotated[Path, typer.Argument(metavar="OUT.tar.gz", help="The file to write; it must not exist.")],
    places: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RESULTS...]", help="With --runs: folders of results; run folders; default: results."),
    ] = None,
    runs: Annotated[bool, typer.Option("--runs", help="Pack run folders instead of pollscope.")] = False,
) -> None:
    """Write one file that brings pollscope to a host without root and network, or brings the host's runs back.

    The host unpacks the file, and `./pollscope` in the new folder works like `pollscope` here. It needs Linux on
    x86-64 with this host's glibc or a newer one. The programs are built for the levels x86-64-v2 and x86-64-v3, which
    takes minutes the first time. Only files that git tracks are packed. Plays stay here: a bundle has no Ansible.

    With --runs the file holds results/SPEC/RUN of each run.
    """
    if places and not runs:
        raise UsageError("only runs are packed by name", str(places[0]), "pollscope pack --runs OUT.tar.gz RESULTS...")
    require_new(out)
    if runs:
        folders = runs_below(places or [RESULTS])
        _write(out, [member for folder in folders for member in _files_of(folder)])
        typer.echo(f"{out}: {len(folders)} runs, {human_size(out.stat().st_size)}")
        return
    from pollscope.node.bundle import make_bundle

    bundle = make_bundle(say)
    _write(out, bundle.members)
    typer.echo(f"{out}: {human_size(out.stat().st_size)}, {human_size(total_bytes(bundle.members))} unpacked")
    typer.echo(f"on the host: tar -xzf {shlex.quote(out.name)} && cd {bundle.name} && ./pollscope doctor")


def _files_of(run: Path) -> list[Member]:
    folder = run.resolve()
    paths = [path for path in sorted(folder.rglob("*")) if not path.is_dir() or path.is_symlink()]
    for path in paths:
        if path.is_symlink() or not path.is_file():
            raise UsageError("is not a regular file", str(path), "remove it: a run folder holds regular files only")
    name = f"{RESULTS}/{folder.parent.name}/{folder.name}"
    return [Member(f"{name}/{path.relative_to(folder)}", path) for path in paths]


def _write(out: Path, members: Sequence[Member]) -> None:
    with _Progress(total_bytes(members)) as progress:
        write_archive(out, members, progress.packed)


class _Progress:
    """Show how much is packed and how long the rest takes; a bar on a terminal, plain lines elsewhere."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        # The bar moves the cursor, which the filter of the standard error would not let through.
        console = Console(file=getattr(sys.stderr, "unfiltered", None), stderr=True, highlight=False)
        columns = (TextColumn("packing"), BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn())
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._bar.add_task("", total=total)
        self._total, self._done = total, 0
        self._began = self._said = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def packed(self, count: int) -> None:
        """Count further bytes."""
        self._done += count
        self._bar.advance(self._task, count)
        now = time.monotonic()
        if self._bar.disable and now - self._said >= _LINE_EVERY_S:
            self._said = now
            left_s = (now - self._began) * (self._total - self._done) / self._done
            say(f"packed {human_size(self._done)} of {human_size(self._total)}, {human_time(left_s)} left")
