# SPDX-License-Identifier: BSD-3-Clause
"""Suggest the next command: after a run, after Ctrl-C, and after a full disk."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pollscope.base.errors import DiskError, reason_of
from pollscope.cli.words import say
from pollscope.store.find import is_run
from pollscope.store.results_table import last_attempts
from pollscope.store.run_folder import read_run, resume_command
from pollscope.store.table_file import TABLE_FILE


def next_steps(folder: Path) -> str:
    """Return the page of a run, and the command that makes it."""
    return f"next: pollscope report {shlex.quote(str(folder))}   (writes {folder}/report.html)"


def complete_already(folder: Path) -> bool:
    """Return whether a run has nothing left to do: it is complete with its table, and no planned trial failed.

    Raises:
        UsageError: no run folder, or a damaged one.
    """
    run = read_run(folder)
    made = {str(trial["trial"]) for trial in last_attempts(run.trials) if trial["status"] != "failed"}
    ended = run.meta.get("status") == "complete" and (folder / TABLE_FILE).exists()
    return ended and made >= set(run.meta.get("plan", []))


@contextmanager
def said_how_to_go_on(folder: Path) -> Iterator[None]:
    """If the block ends early, say what is kept and which command resumes the run.

    Raises:
        DiskError: with what is kept; also in place of an error of the system, for instance of a full disk.
    """
    try:
        yield
    except KeyboardInterrupt:
        say(_kept(folder))
        raise
    except OSError as error:
        raise DiskError(reason_of(error), str(folder), _kept(folder)) from error
    except DiskError as error:
        remedies = (_kept(folder), "" if is_run(folder) else error.remedy)
        raise DiskError(error.what, error.where, "; ".join(filter(None, remedies))) from error


def _kept(folder: Path) -> str:
    if not is_run(folder):
        return "nothing was measured yet"
    try:
        with (folder / "trials.jsonl").open("rb") as file:
            kept = sum(line.endswith(b"\n") for line in file)
    except OSError:
        kept = 0
    trials = f"{kept} trial{'s are' if kept != 1 else ' is'} kept"
    return f"{trials}; `{resume_command(folder)}` continues"
