# SPDX-License-Identifier: BSD-3-Clause
"""Watch other activity on the polling CPUs of a pair's two hosts during a trial, through their agents."""

from collections.abc import Mapping, Sequence
from typing import Any

from pollscope.base.errors import HostError
from pollscope.host.activity import Activity
from pollscope.testbeds.pair.remote_host import RemoteHost

# Counted on both hosts, and added for the trial.
_ADDED = ("steal_ticks", "softirqs")
Seen = tuple[Activity, dict[int, int]]


class PairWatch:
    """Watch from now on.

    Args:
        hosts: both hosts.
        nodes: host -> pid of its node and number of its polling lcores (1, 2, ...).
    """

    def __init__(self, hosts: Sequence[RemoteHost], nodes: Mapping[str, tuple[int, int]]) -> None:
        self._hosts, self._nodes = hosts, nodes
        self._before = {host.name: self._look(host) for host in hosts}

    def _look(self, host: RemoteHost) -> Seen | str:
        pid, polling = self._nodes[host.name]
        try:
            return host.activity(host.config.cpus[:polling], pid, range(1, polling + 1))
        except HostError as error:
            return str(error)

    def record(self) -> dict[str, Any]:
        """Return the record of each host under its name, and sums of both if both are known."""
        found = {host.name: self._since(host) for host in self._hosts}
        missing = [each["absent"] for each in found.values() if "absent" in each]
        if missing:
            return {"absent": missing[0], "ends": found}
        waits = {f"{name}/{lcore}": ns for name, each in found.items() for lcore, ns in each["waits_ns"].items()}
        added = {key: sum(each[key] for each in found.values()) for key in _ADDED}
        return {**added, "waits_ns": waits, "ends": found}

    def _since(self, host: RemoteHost) -> dict[str, Any]:
        before, after = self._before[host.name], self._look(host)
        for each in (before, after):
            if isinstance(each, str):
                return {"absent": each}
        assert not isinstance(before, str)
        assert not isinstance(after, str)
        waits = {str(lcore): ns - before[1].get(lcore, 0) for lcore, ns in after[1].items()}
        return {**after[0].since(before[0]), "waits_ns": waits, "clock": self._clock(host)}

    def _clock(self, host: RemoteHost) -> dict[str, int]:
        clock = host.read_clock()
        return {"offset_ns": clock.offset_ns, "error_at_most_ns": clock.error_ns}
