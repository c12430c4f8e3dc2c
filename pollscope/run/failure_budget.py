# SPDX-License-Identifier: BSD-3-Clause
"""How many tries of a run may fail, over all its pairs (failures.at_most)."""

import shlex
from pathlib import Path
from threading import Lock

from pollscope.base.errors import TrialError
from pollscope.store.trial_record import TrialRecord


class FailureBudget:
    """The failed tries of all pairs together.

    Args:
        at_most: allowed failures; after one more, no pair begins another trial.
        log: of the run, for the error.
        folder: the run folder, from which the run can be resumed.
    """

    def __init__(self, at_most: int, log: Path, folder: Path) -> None:
        self._at_most, self._log, self._folder = at_most, log, folder
        self._failed, self._last, self._lock = 0, "", Lock()

    def count(self, record: TrialRecord) -> None:
        """Count a failed try, unless an earlier failure made it fail."""
        if record.status == "failed" and not record.final:
            with self._lock:
                self._failed += 1
                self._last = f"{record.trial}, because: {record.reason}"

    def check(self) -> None:
        """Refuse further trials if the budget is used up.

        Raises:
            TrialError: more tries have failed than may.
        """
        if self._failed > self._at_most:
            raise TrialError(
                f"{self._failed} tries have failed, failures.at_most allows {self._at_most}; "
                f"the last one, {self._last}",
                str(self._log),
                f"pollscope run --resume {shlex.quote(str(self._folder))} continues from here",
            )
