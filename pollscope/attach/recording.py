# SPDX-License-Identifier: BSD-3-Clause
"""Write what was observed of a program as a run folder, which every command reads (docs/internals/store-format.md)."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pollscope.attach.programs import DpdkProgram
from pollscope.attach.table import unseen_text
from pollscope.base.clock import utc_now
from pollscope.host.metadata import host_metadata
from pollscope.knobs.session import snapshot
from pollscope.node.observation import (
    CounterReading,
    ThreadShare,
    port_rates,
    shares,
    thread_names,
    thread_result,
)
from pollscope.node.probe import ProbeInfo, ThreadCounts
from pollscope.spec.points import point_id
from pollscope.store.results_table import write_table
from pollscope.store.run_meta import new_meta
from pollscope.store.trial_record import TrialRecord
from pollscope.store.writer import RunWriter, new_run_id

TESTBED = "attach"
_LONGEST_NAME = 40


def folder_of(results: Path, program: DpdkProgram, run_id: str) -> Path:
    """Return the run folder, as `pollscope run` would place it."""
    return results / spec_name(program) / run_id


def spec_name(program: DpdkProgram) -> str:
    """Return the name under which runs of a program are found: `attach-dpdk-testpmd`."""
    plain = re.sub(r"[^a-z0-9]+", "-", program.name.lower()).strip("-")
    return f"attach-{plain or 'program'}"[:_LONGEST_NAME]


class AttachedRun:
    """One run of a running program: a repeat per part of the observation, a point per polling thread."""

    def __init__(self, results: Path, program: DpdkProgram, info: ProbeInfo, trials: int, seconds: float) -> None:
        """Make the run folder.

        Raises:
            DiskError: it cannot be made.
        """
        self._program, self._info, self._failed = program, info, 0
        self._unseen, self._trials = "", list[str]()
        # Index of the thread that was alone in the first part with threads: its point has no factor. -1: several were.
        self._alone: int | None = None
        run_id = new_run_id()
        self.folder = folder_of(results, program, run_id)
        self._writer = RunWriter.create(self.folder, self._meta(run_id, trials, seconds))

    def _meta(self, run_id: str, trials: int, seconds: float) -> dict[str, Any]:
        program = self._program
        return new_meta(
            run_id=run_id,
            spec_name=spec_name(program),
            title=f"{program.name}, as it ran ({program.dpdk})",
            spec={"name": spec_name(program), "repeats": {"count": trials}},
            testbed={"name": TESTBED, "kind": TESTBED, "shared_tsc": True},
            host=host_metadata(),
            build={"dpdk": program.dpdk},
            program={
                "name": program.name,
                "pid": program.pid,
                "lcores": list(program.lcores),
                "ports": [vars(port) for port in program.ports],
                "seconds": seconds,
            },
            knobs_before=snapshot(),
        )

    def append(self, repeat: int, readings: Sequence[CounterReading], extra: Mapping[str, Any]) -> list[ThreadShare]:
        """Add the trials of several readings, one per thread; return what the threads did.

        Raises:
            DiskError: the disk takes no more.
        """
        threads = shares(readings, self._info)
        if self._alone is None and threads:
            self._alone = threads[0].counts.index if len(threads) == 1 else -1
        if not threads:
            self.fail(repeat, readings[0].t_ns, "no thread of the program polls an RX queue")
        rates = port_rates(readings)
        names = thread_names(readings[-1].threads.values())
        for thread in threads:
            record = self._begun(repeat, readings[0].t_ns, self._factors(thread.counts, names))
            result = thread_result(readings, thread, threads, rates, self._info)
            self._add(record.having(result=result, **extra))
        self._unseen = unseen_text(self._program, threads)
        return threads

    def _factors(self, counts: ThreadCounts, names: Mapping[int, str]) -> dict[str, Any]:
        if counts.index == self._alone:
            return {}
        return {"lcore": names[counts.index] if counts.lcore is None else counts.lcore}

    def fail(self, repeat: int, t_ns: int, reason: str) -> None:
        """Add a trial that failed."""
        self._failed += 1
        self._add(self._begun(repeat, t_ns, {}).failed(reason))

    def _add(self, record: TrialRecord) -> None:
        self._trials.append(record.trial)
        self._writer.append(record.to_json())

    def _begun(self, repeat: int, t_ns: int, factors: Mapping[str, Any]) -> TrialRecord:
        point = point_id(factors)
        return TrialRecord(
            trial=trial_id(point, repeat),
            point=point,
            repeat=repeat,
            kind="measure",
            factors=dict(factors),
            testbed=TESTBED,
            modelled=False,
            started_utc=utc_now(),
            started_monotonic_ns=t_ns,
        )

    def finish(self, status: str, reason: str | None = None, cautions: Sequence[str] = ()) -> None:
        """Close the run with warnings for the reader, and derive its table."""
        self._writer.finish(
            status="failed" if self._failed and status == "complete" else status,
            reason=reason,
            finished_utc=utc_now(),
            plan=self._trials,
            warnings=[*([self._unseen] if self._unseen else []), *cautions],
            knobs_after=snapshot(),
        )
        self._writer.close()
        write_table(self.folder)


def trial_id(point: str, repeat: int) -> str:
    """Return the name of a trial."""
    return f"measure:{point}:{repeat}"
