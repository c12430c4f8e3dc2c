# SPDX-License-Identifier: BSD-3-Clause
"""What else runs on the polling CPUs of a pair's two hosts during a trial, as their agents see it."""

from collections.abc import Mapping, Sequence
from typing import Any

from pollscope.base.errors import HostError
from pollscope.host.activity import Activity
from pollscope.testbeds.pair.ends import End

# Counted on both hosts, and added for the trial.
_ADDED = ("steal_ticks", "softirqs")
Seen = tuple[Activity, dict[int, int]]


class PairWatch:
    """From now on.

    Args:
        ends: both hosts.
        nodes: end -> pid of its node and number of its polling lcores (1, 2, ...).
    """

    def __init__(self, ends: Sequence[End], nodes: Mapping[str, tuple[int, int]]) -> None:
        self._ends, self._nodes = ends, nodes
        self._before = {end.name: self._look(end) for end in ends}

    def _look(self, end: End) -> Seen | str:
        pid, polling = self._nodes[end.name]
        try:
            return end.activity(end.host.cpus[:polling], pid, range(1, polling + 1))
        except HostError as error:
            return str(error)

    def record(self) -> dict[str, Any]:
        """Each host's under its name; sums and waits of both when both are known."""
        found = {end.name: self._since(end) for end in self._ends}
        missing = [each["absent"] for each in found.values() if "absent" in each]
        if missing:
            return {"absent": missing[0], "ends": found}
        waits = {f"{name}/{lcore}": ns for name, each in found.items() for lcore, ns in each["waits_ns"].items()}
        added = {key: sum(each[key] for each in found.values()) for key in _ADDED}
        return {**added, "waits_ns": waits, "ends": found}

    def _since(self, end: End) -> dict[str, Any]:
        before, after = self._before[end.name], self._look(end)
        for each in (before, after):
            if isinstance(each, str):
                return {"absent": each}
        assert not isinstance(before, str)
        assert not isinstance(after, str)
        waits = {str(lcore): ns - before[1].get(lcore, 0) for lcore, ns in after[1].items()}
        return {**after[0].since(before[0]), "waits_ns": waits, "clock": self._clock(end)}

    def _clock(self, end: End) -> dict[str, int]:
        clock = end.read_clock()
        return {"offset_ns": clock.offset_ns, "error_at_most_ns": clock.error_ns}
