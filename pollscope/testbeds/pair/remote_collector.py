# SPDX-License-Identifier: BSD-3-Clause
"""A collector that runs on a host of a pair; its recording is copied here, converted to the clock of the run, and
parsed here.
"""

from collections.abc import Iterator
from pathlib import Path

from pollscope.base.errors import HostError
from pollscope.collectors.interface import Collector, CollectorOutcome, ProbeResult, Status
from pollscope.collectors.parsing import Problems
from pollscope.collectors.recording import Recording
from pollscope.collectors.registry import create
from pollscope.collectors.sample import Reading
from pollscope.testbeds.pair.remote_host import RemoteHost


class RemoteCollector(Collector):
    """Stands for the collector `name` on a host. Whatever happens to the host is in its outcome, as for a local one."""

    def __init__(self, host: RemoteHost, name: str) -> None:
        self._host, self._here = host, create(name, **host.options(name))
        self.name, self.summary = self._here.name, self._here.summary
        self.once, self.sparse = self._here.once, self._here.sparse
        self._folder, self._connection = Path(), 0

    def probe(self) -> ProbeResult:
        if not self._host.has_agent():
            return ProbeResult(False, self._host.absence())
        reply = self._host.ask("probe", name=self.name, options=self._host.options(self.name))
        return ProbeResult(bool(reply["available"]), str(reply["reason"]))

    def start(self, folder: Path, interval_ns: int) -> None:
        self._folder = folder
        self._host.read_clock()
        self._host.ask("start", name=self.name, options=self._host.options(self.name), interval_ns=interval_ns)
        self._connection = self._host.connection

    def stop(self) -> CollectorOutcome:
        try:
            if not self._connection or self._host.connection != self._connection:
                raise HostError("the connection was lost while it recorded", str(self._host))
            return self._stopped()
        except (HostError, OSError) as error:
            return CollectorOutcome(self.name, Status.FAILED, str(error))
        except (ValueError, LookupError, TypeError) as error:  # the host breaks the protocol
            return CollectorOutcome(self.name, Status.FAILED, f"{self._host}: wrong reply: {error!r}")

    def _stopped(self) -> CollectorOutcome:
        reply = self._host.ask("stop", name=self.name)
        self._host.read_clock()
        raw = self._fetch() if reply["recorded"] else None
        here_ns = self._host.clocks.here_ns
        started_ns, stopped_ns = here_ns(reply["started_ns"]), here_ns(reply["stopped_ns"])
        status, problems = Status(reply["status"]), Problems(**reply["problems"])
        return CollectorOutcome(
            self.name, status, reply["reason"], reply["cpu_ns"], started_ns, stopped_ns, raw, problems
        )

    def _fetch(self) -> Path:
        raw = self._folder / f"{self.name}.raw"
        with raw.open("wb") as file:
            file.writelines(self._host.pieces(self.name, ".raw"))
        # A pace (see collectors/recording.py) has a head, then lines with times; a full disk leaves none.
        head, *lines = [*b"".join(self._host.pieces(self.name, ".pace")).decode().splitlines(keepends=True), ""]
        for offset, t_ns, label in (line.split(" ", 2) for line in lines if line):
            head += f"{offset} {self._host.clocks.here_ns(int(t_ns))} {label}"
        raw.with_suffix(".pace").write_text(head, encoding="utf-8")
        return raw

    def parse_recording(self, recording: Recording, problems: Problems) -> Iterator[Reading]:
        return self._here.parse_recording(recording, problems)
