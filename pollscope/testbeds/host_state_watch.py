# SPDX-License-Identifier: BSD-3-Clause
"""Decide when a run checks the host state: before each block, within long ones, after knobs changed, at the end."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pollscope.base.clock import utc_now
from pollscope.metrics.host_state import UNKNOWN, HostCheck, judge_host_state
from pollscope.plan.plan import Trial
from pollscope.spec.points import Point

# A block of many trials may take minutes, and changes of the host state within seconds were seen.
_EVERY_S = 5.0
# If a check finds another state than the check before, it is repeated after this time: the change may have been brief.
_AGAIN_AFTER_S = 0.01
# Number of recent checks that decide whether the last one found another state. Judging all checks of a long run would
# delay its trials.
_JUDGED = 32

Take = Callable[[Point], HostCheck]
_Append = Callable[[HostCheck], dict[str, Any]]


class HostStateWatch:
    """The host-state checks of one testbed in a run.

    Args:
        take: takes a host-state check with a session that suits a point: `hosts`, or `absent` with the reason.
        append: stores it on the disk and numbers it.
        pair: the pair's name, where several share a run.
        before: the host-state checks of an interrupted part of the run.

    Attributes:
        host_checks: all of this testbed, in order.
    """

    def __init__(self, take: Take, append: _Append, pair: str | None, before: Sequence[HostCheck]) -> None:
        self._take_now, self._append, self._pair = take, append, pair
        self.host_checks = [host_check for host_check in before if host_check.get("pair") == pair]
        self._block: tuple[str, int | str] | None = None
        self._knobs: Mapping[str, object] | None = None  # none yet in this process
        self._point: Point | None = None
        self._taken_at = 0.0
        self._trials_since = 0

    def before(self, trial: Trial, knobs: Mapping[str, object]) -> int:
        """Take a host-state check if one is due before this trial; return the number of the last one.

        Args:
            trial: that is about to start.
            knobs: their settings for it, which are in place.
        """
        self._point = trial.point
        if why := self._due(trial, knobs):
            self._knobs = dict(knobs)
            self._take(why, trial.point)
        self._trials_since += 1
        return int(self.host_checks[-1]["host_check"])

    def close(self) -> None:
        """Take a last host-state check after the last trial, so that each trial lies between two."""
        if self._trials_since and self._point is not None:
            self._take("end", self._point)

    def _due(self, trial: Trial, knobs: Mapping[str, object]) -> str:
        # A baseline belongs to the block that it lies in.
        own = trial.block or trial.repeat
        block = self._block if trial.kind == "baseline" and self._block else (trial.kind, own)
        changed, self._block = block != self._block, block
        if self._knobs is None:
            return "start"
        if dict(knobs) != self._knobs:
            return "knobs"
        if changed and self._trials_since:
            return "block"
        return "time" if time.monotonic() - self._taken_at >= _EVERY_S else ""

    def _take(self, why: str, point: Point) -> None:
        self._one(why, point)
        *_, before, now = [UNKNOWN, *judge_host_state(self.host_checks[-_JUDGED:]).labels.values()]
        if now != before and UNKNOWN not in (before, now):
            time.sleep(_AGAIN_AFTER_S)
            self._one("again", point)

    def _one(self, why: str, point: Point) -> None:
        block = "" if self._block is None else f"{self._block[0]} {self._block[1]}"
        whose = {} if self._pair is None else {"pair": self._pair}
        when = {"started_utc": utc_now(), "started_monotonic_ns": time.monotonic_ns()}
        taken = self._take_now(point)
        host_check = {"why": why, "block": block, **whose, **when, "knobs": dict(self._knobs or {}), **taken}
        self.host_checks.append(self._append(host_check))
        self._taken_at, self._trials_since = time.monotonic(), 0
