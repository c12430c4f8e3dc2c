# SPDX-License-Identifier: BSD-3-Clause
"""Talk to the hosts of a pair through `pollscope agent` on each, started over SSH when it is first needed."""

import base64
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pollscope import __version__
from pollscope.base.errors import ExitCode, HostError, PollscopeError, TrialError, UsageError, one_line
from pollscope.host.activity import Activity, activity_of
from pollscope.host.lock import InUse
from pollscope.node.client import ClientOwner, NodeClient, NodeRefused
from pollscope.testbeds.pair.config import PairHost
from pollscope.testbeds.pair.ssh import LOST_STATUS, root_command

REQUEST_LIMIT_S = 60.0
# A collector records some MiB per trial.
RECORDING_LIMIT_BYTES = 1 << 30
# The clocks of two hosts are compared by this many round trips; the fastest one counts.
_CLOCK_TRIPS = 5
_CLOCK_FRESH_NS = 1_000_000_000
# Exit status of a shell that finds no program, or one that it may not start.
_NO_PROGRAM = ("status 126", "status 127")


@dataclass(frozen=True)
class Clock:
    """Another host's monotonic clock at one time: offset to this host's clock, exact to `error_ns`."""

    at_ns: int
    offset_ns: int
    error_ns: int


@dataclass
class Clocks:
    """Readings of another host's clock; times between two of them are converted by both, for clocks drift apart."""

    readings: list[Clock] = field(default_factory=list)

    def here_ns(self, there_ns: int) -> int:
        """Return a time of that clock on this host's."""
        first, last = self.readings[0], self.readings[-1]
        begin_ns, end_ns = first.at_ns + first.offset_ns, last.at_ns + last.offset_ns
        if end_ns <= begin_ns:
            return there_ns - first.offset_ns
        done = (there_ns - begin_ns) / (end_ns - begin_ns)
        return there_ns - round(first.offset_ns + done * (last.offset_ns - first.offset_ns))


class RemoteHost(ClientOwner):
    """One host of a pair.

    Args:
        name: `dut` or `generator`.
        config: of the testbed's file.
        prefix: file prefix of its node, by which collectors find it.

    Attributes:
        holds_knobs: whether knobs are set there now; a connection that ends restores them.
        clocks: readings of its clock in the present trial.
        collector_options: options of collectors there for programs beside the DUT.
    """

    def __init__(self, name: str, config: PairHost, prefix: str) -> None:
        self.name, self.config, self._prefix = name, config, prefix
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._absent = ""
        self._starts = 0
        self._answers: dict[str, dict[str, Any]] = {}
        self.holds_knobs = False
        self.clocks = Clocks()
        self.collector_options: Mapping[str, dict[str, object]] = {}

    def __str__(self) -> str:
        return f"{self.name} {self.config.ssh}"

    @property
    def connection(self) -> int:
        """Return the number of the connection to the agent, from 1; 0 if there was none."""
        return self._starts if self._client is not None and self._client.alive else 0

    def options(self, collector: str) -> dict[str, object]:
        """Return the options of a collector there."""
        if collector == "dpdk-telemetry":
            return {"file_prefix": self._prefix}
        if collector in ("pcm-iio", "perf-uncore") and self.config.nics:
            return {"nics": list(self.config.nics)}
        return self.collector_options.get(collector, {})

    def ask(self, request: str, **fields: Any) -> dict[str, Any]:
        """Send a request to the agent, which is started if it does not run.

        Raises:
            HostError: the host cannot be reached, has no agent, lost it, or cannot do what was asked.
            UsageError: what was asked is wrong.
        """
        client = self._connect()
        try:
            reply = client.request(request, REQUEST_LIMIT_S, **fields)
        except NodeRefused as error:
            raise HostError(error.what, str(self)) from error
        except TrialError as error:
            self.end()
            lost = f"status {LOST_STATUS}" in error.what
            raise HostError("the SSH connection was lost" if lost else error.what, str(self)) from error
        if failed := reply.get("failed"):
            raise _error(failed, str(self))
        return reply

    def ask_once(self, request: str, **fields: Any) -> dict[str, Any]:
        """Return the answer to a question about hardware and programs, which is asked once; raise as `ask`."""
        key = repr((request, fields))
        if key not in self._answers:
            self._answers[key] = self.ask(request, **fields)
        return self._answers[key]

    def absence(self) -> str:
        """Return why nothing can be read or set there; empty if it can."""
        try:
            self._connect()
        except HostError as error:
            return str(error)
        return ""

    def has_agent(self) -> bool:
        """Return whether there is an agent; raise HostError if the host cannot be reached at all."""
        try:
            self._connect()
        except HostError:
            if not self._absent:
                raise
        return not self._absent

    def _connect(self) -> NodeClient:
        if self._absent:
            raise HostError(self._absent, str(self))
        if self._client is None or not self._client.alive:
            self.end()
            self._client = self._start()
        return self._client

    def _start(self) -> NodeClient:
        program = self.config.pollscope
        if program is None:
            self._absent = "this testbed has no collectors and knobs there"
            raise HostError(self._absent, str(self))
        log = self._new_log()
        remote = self.config.ssh
        client = NodeClient(root_command(remote, [program, "agent"]), log, "pollscope agent", patience=remote.patience)
        try:
            version = client.wait_hello(self.config.hello_limit_s).get("pollscope")
        except HostError as error:
            if any(status in error.what for status in _NO_PROGRAM):
                self._absent = f"there is no program {program} (pollscope play provision brings it)"
                raise HostError(self._absent, str(self)) from error
            said = log.read_text(errors="replace").strip().splitlines()
            raise HostError(said[-1].strip() if said else error.what, str(self)) from error
        if version != __version__:
            client.end()
            self._absent = f"{program} is pollscope {version}, this is {__version__} (pollscope play provision)"
            raise HostError(self._absent, str(self))
        self._starts += 1
        client.keep_heartbeat(remote.heartbeat_timeout_s)
        try:
            reply = client.request("aside", REQUEST_LIMIT_S, cpus=list(self.config.cpus))
        except TrialError as error:
            client.end()
            raise HostError(error.what, str(self)) from error
        if failed := reply.get("failed"):
            client.end()
            raise _error(failed, str(self))
        return client

    def _new_log(self) -> Path:
        """Return an empty file for messages of ssh and the agent; it is removed when the connection is closed."""
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="pollscope-host-")
        log = Path(self._folder.name) / "log"
        log.write_bytes(b"")
        return log

    def read_clock(self) -> Clock:
        """Compare the clocks; append the reading to `clocks`, but keep only the first and the last.

        Raises:
            HostError: as `ask`.
        """
        if self.clocks.readings and time.monotonic_ns() - self.clocks.readings[-1].at_ns < _CLOCK_FRESH_NS:
            return self.clocks.readings[-1]
        trips = []
        for _ in range(_CLOCK_TRIPS):
            asked_ns = time.monotonic_ns()
            with self._wrong_form():
                there_ns = int(self.ask("clock")["t_ns"])
            half_ns = (time.monotonic_ns() - asked_ns) // 2
            trips.append(Clock(asked_ns + half_ns, there_ns - asked_ns - half_ns, half_ns))
        best = min(trips, key=lambda trip: trip.error_ns)
        self.clocks.readings = [*self.clocks.readings[:1], best]
        return best

    @contextmanager
    def _wrong_form(self) -> Iterator[None]:
        """Report a reply of another form in one line."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise HostError(f"wrong reply: {error!r}", str(self)) from error

    def activity(self, cpus: Sequence[int], pid: int, lcores: Sequence[int]) -> tuple[Activity, dict[int, int]]:
        """Return other activity on some CPUs there, and how long lcores of a node had to wait."""
        reply = self.ask("activity", cpus=list(cpus), pid=pid, lcores=list(lcores))
        with self._wrong_form():
            waits = {int(lcore): int(wait_ns) for lcore, wait_ns in reply["waits_ns"].items()}
            return activity_of(reply["activity"]), waits

    def pieces(self, collector: str, ending: str) -> Iterator[bytes]:
        """Yield a recording of that host, piece by piece.

        Raises:
            HostError: as `ask`; or the recording is longer than RECORDING_LIMIT_BYTES.
        """
        offset = 0
        while data := base64.b64decode(self.ask("read", name=collector, ending=ending, offset=offset)["data"]):
            offset += len(data)
            if offset > RECORDING_LIMIT_BYTES:
                raise HostError(f"sent more than {RECORDING_LIMIT_BYTES >> 20} MiB for one recording", str(self))
            yield data

    def close(self) -> None:
        """End the agent in order: it restores what it changed."""
        super().close()
        if self._folder is not None:
            self._folder.cleanup()
        self._folder = None


def _error(failed: Any, host: str) -> PollscopeError:
    if not isinstance(failed, Mapping) or not {"exit_code", "what", "where", "remedy"} <= failed.keys():
        return HostError(f"wrong reply: {one_line(repr(failed)[:200])}", host)
    where = f"{host}: {failed['where']}" if failed["where"] else host
    kind = InUse if failed.get("in_use") else UsageError if failed["exit_code"] == ExitCode.USAGE else HostError
    return kind(str(failed["what"]), where, str(failed["remedy"]))
