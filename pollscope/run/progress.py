# SPDX-License-Identifier: BSD-3-Clause
"""Show the progress of a run and the time left.

Nothing is drawn while a window is open: a screen that refreshes itself would take cycles from the cores being measured.
"""

import sys
import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from pollscope.base.printable import printable
from pollscope.base.units import human_time
from pollscope.plan.plan import Trial

# Without a terminal a line is printed at most this often.
_LINE_EVERY_S = 10.0
# After this time the measured pace is better than the expected one: a knob may need a reboot.
PACE_AFTER_S = 5.0


class Progress:
    """Shows which trial runs and how long the rest takes; a bar on a terminal, plain lines elsewhere.

    Args:
        trials: their number and their expected time count.
        console: where to draw; standard error by default, so that standard output stays for results.
    """

    def __init__(self, trials: Sequence[Trial], console: Console | None = None) -> None:
        # The bar moves the cursor, which the filter of the standard error would not let through.
        self._console = console or Console(file=getattr(sys.stderr, "unfiltered", None), stderr=True, highlight=False)
        self._left_s = sum(trial.seconds for trial in trials)
        self._count, self._total = 0, len(trials)
        self._said_at = 0.0
        self._spent_s = 0.0  # of the expected time of the trial that is being made
        self._done_s = 0.0  # of the expected time of all, since the beginning
        self._began: float | None = None  # when the first trial started; earlier time belongs to no trial
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            auto_refresh=False,
            disable=not self._console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=self._total, left="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.stop()

    def skip(self, trials: int, seconds: float) -> None:
        """Count trials that already exist."""
        self._count += trials
        self._left_s -= seconds

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(printable(text), markup=False, soft_wrap=True)

    def trial(self, trial: Trial) -> None:
        """Show the trial that starts."""
        if self._began is None:
            self._began = time.monotonic()
        left = f"{human_time(max(0.0, self._left_s) * self._pace())} left"
        self._bar.update(
            self._task, description=printable(trial.id), completed=self._count, total=self._total, left=left
        )
        self._bar.refresh()
        if not self._console.is_terminal and time.monotonic() - self._said_at >= _LINE_EVERY_S:
            self._said_at = time.monotonic()
            self.say(f"trial {self._count + 1} of {self._total}, {left}: {trial.id}")

    def done(self, trial: Trial, failure: str | None) -> None:
        """Count an ended trial; `failure` is the reason if it failed."""
        self._count += 1
        self._take_off(max(0.0, trial.seconds - self._spent_s))
        self._spent_s = 0.0
        if failure is not None:
            self.say(f"failed: {trial.id}: {failure}")

    def spent(self, seconds: float, of_s: float) -> None:
        """Count a finished part of the next trial, which takes `of_s` seconds in all."""
        counted = min(seconds, max(0.0, of_s - self._spent_s))
        self._spent_s += counted
        self._take_off(counted)

    def _take_off(self, seconds: float) -> None:
        self._left_s -= seconds
        self._done_s += seconds

    def _pace(self) -> float:
        """Return the ratio of elapsed to expected time so far."""
        elapsed_s = 0.0 if self._began is None else time.monotonic() - self._began
        return elapsed_s / self._done_s if elapsed_s >= PACE_AFTER_S and self._done_s > 0 else 1.0

    def further(self, trials: int, seconds: float) -> None:
        """Add a round of trials to the expected time."""
        self._total += trials
        self._left_s = max(0.0, self._left_s) + seconds
