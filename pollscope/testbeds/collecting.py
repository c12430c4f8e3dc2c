# SPDX-License-Identifier: BSD-3-Clause
"""Run the collectors of a run, and store what they deliver in each trial (docs/internals/store-format.md).

They record while the trial runs and are parsed after it, before the next one starts. An error of a collector is
recorded in the trial; it fails the trial only if the spec requires the collector.
"""

import hashlib
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pollscope.base.errors import HostError, PollscopeError, UsageError
from pollscope.collectors.interface import Collector, CollectorOutcome, Status
from pollscope.collectors.plausibility import judge
from pollscope.collectors.registry import create
from pollscope.collectors.replay import Replay
from pollscope.collectors.sample import Kind, SourceSample, write_samples
from pollscope.collectors.session import CollectorSession, overhead_share
from pollscope.collectors.window import LcoreCounts, Series, WindowSeries
from pollscope.host.files import make_folder, sync_folder
from pollscope.host.placement import room_beside
from pollscope.metrics.counted import STATES
from pollscope.metrics.record import NotMeasured, Part, positive
from pollscope.plan.plan import Plan
from pollscope.spec.model import CollectorUse
from pollscope.store.trial_record import TrialRecord
from pollscope.testbeds.pair.remote_host import RemoteHost
from pollscope.testbeds.quantities import choose
from pollscope.testbeds.session import TrialRequest

RAW_FOLDER, SAMPLES_FOLDER = "collectors", "samples"
# A file name holds 255 bytes; the rest is for the hash, the attempt and the ending.
_STEM_CHARACTERS = 160
Options = Mapping[str, Mapping[str, object]]
Made = tuple[Collector, CollectorUse]


class RunCollectors:
    """The collectors that a spec names.

    Args:
        uses: of the spec.
        folder: the run folder.
        plan: of their testbed; with several pairs, each measures only some of the repeats.
    """

    def __init__(self, uses: Sequence[CollectorUse], folder: Path, plan: Plan) -> None:
        self._asked, self._folder = list(uses), folder
        self._uses: Sequence[CollectorUse] = []
        repeats = sorted({trial.repeat for trial in plan.trials if trial.kind == "measure"})
        self._turns = {repeat: turn for turn, repeat in enumerate(repeats)}

    def probe(self, options: Options, hosts: Sequence[RemoteHost] = ()) -> dict[str, dict[str, Any]]:
        """Choose the collectors; return what run.json keeps: name, or HOST/NAME -> `{available, reason, ...}`.

        An entry has `quantities`, and `instead_of` with reasons, if the spec asks for quantities.
        """

        def obstacle(use: CollectorUse) -> str:
            several = [each for several in self._made([use], options, hosts).values() for each in several]
            found = [_probe(collector, each) for collector, each in several]
            return "" if any(each["available"] for each in found) else "; ".join(each["reason"] for each in found)

        self._uses, choices = choose(self._asked, obstacle)
        made = self._made(self._uses, options, hosts)
        return {
            key_of(host, use.name): _probe(each, use) | (asdict(choices[use.name]) if use.name in choices else {})
            for host, several in made.items()
            for each, use in several
        }

    def _uses_of(self, record: TrialRecord) -> list[CollectorUse]:
        """Return the collectors of a trial: all that do not rotate, and the rotating one of its repeat."""
        turns = [use for use in self._uses if use.rotate]
        turn = self._turns.get(record.repeat, record.repeat) if record.kind == "measure" else record.repeat
        return [use for use in self._uses if not use.rotate or use is turns[turn % len(turns)]]

    def _made(
        self, uses: Sequence[CollectorUse], options: Options, hosts: Sequence[RemoteHost]
    ) -> Mapping[str, Sequence[Made]]:
        """Return the collectors of each host, by its name; "" is this host."""
        if not hosts:
            return {"": [(_make(use, options), use) for use in uses]}
        for host in hosts:
            host.clocks.readings.clear()
        # A collector with options from the session observes the nodes from this host.
        here = [use for use in uses if use.name in options]
        there = [use for use in uses if use not in here]
        made = {host.name: [(_make_there(use, host), use) for use in there if host.name in use.ends] for host in hosts}
        return {**({"": [(_make(use, options), use) for use in here]} if here else {}), **made}

    def begin(
        self, record: TrialRecord, options: Options, cpus: Sequence[int], hosts: Sequence[RemoteHost] = ()
    ) -> "Collection":
        """Start the collectors of this trial; `cpus` are left to the measured programs (pollscope.host.placement).

        Raises:
            HostError: the run folder cannot be written.
        """
        stem = file_stem(record.trial, record.attempt)
        collection = Collection(self._made(self._uses_of(record), options, hosts), self._folder, stem)
        with _beside(cpus):
            collection.start()
        return collection


class Collection:
    """The collectors of one trial, on this host or on the two of a pair."""

    def __init__(self, made: Mapping[str, Sequence[Made]], folder: Path, stem: str) -> None:
        self._folder, self._stem = folder, stem
        raw = folder / RAW_FOLDER / stem
        self._hosts = [_OneHost(host, several, raw / host) for host, several in made.items()]

    def start(self) -> None:
        """Start them. First remove files that an earlier, killed trial of this name left in the folder."""
        shutil.rmtree(self._folder / RAW_FOLDER / self._stem, ignore_errors=True)
        try:
            for host in self._hosts:
                host.session.start()
        except BaseException as error:  # Ctrl-C, a full disk: end what has been started
            self.stop()
            if not isinstance(error, OSError):
                raise
            where = str(self._folder / RAW_FOLDER)
            raise HostError(f"cannot create the folder of recordings: {error.strerror}", where) from error

    def mark(self, request: TrialRequest) -> None:
        """Mark the phases of a trial that begins now (right to the time its request takes, below 1 ms)."""
        now = time.monotonic_ns()
        for host in self._hosts:
            host.session.mark("warmup", now)
            host.session.mark("window", now + request.warmup_ns)
            host.session.mark("drain", now + request.warmup_ns + request.window_ns)

    def stop(self) -> None:
        """Stop them, the last started first."""
        for host in reversed(self._hosts):
            host.session.stop()

    def record(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Parse and store the recordings; return the trial's `collectors`, `plausibility`, `phases`, `samples`.

        It also has `status` and `reason` if a required collector did not deliver. `result` is the node's.

        Raises:
            HostError: the samples cannot be written.
        """
        path = self._keep()
        collectors: dict[str, Any] = {}
        findings: list[dict[str, Any]] = []
        for host in self._hosts:
            # Counts of the node belong to the host of the DUT.
            counts = node_counts(result) if host.name in ("", "dut") else ()
            window = WindowSeries(host.judged, host.session.outcomes.values(), counts)
            host.fail_silent()
            collectors |= host.outcomes(means(window), states(window))
            findings += host.findings(window)
        return {**self._kept(collectors, path), "plausibility": findings, **self._failure()}

    def record_lost(self) -> dict[str, Any]:
        """Return what was recorded until the node was lost, without means and verdicts, because the window is
        incomplete.

        The phase `lost` begins when the collectors were stopped; later phases are removed.

        Raises:
            HostError: the samples cannot be written.
        """
        outcomes = [each for host in self._hosts for each in host.session.outcomes.values()]
        stopped_ns = max((each.stopped_ns for each in outcomes if each.stopped_ns), default=time.monotonic_ns())
        for host in self._hosts:
            host.session.marks = [mark for mark in host.session.marks if mark.t_ns < stopped_ns]
            host.session.mark("lost", stopped_ns)
        path = self._keep()
        return self._kept({key: each for host in self._hosts for key, each in host.outcomes({}, {}).items()}, path)

    def _keep(self) -> Path:
        samples = (sample for host in self._hosts for sample in host.samples())
        return _write_atomically(self._folder / SAMPLES_FOLDER / f"{self._stem}.parquet", samples)

    def _kept(self, collectors: Mapping[str, Any], path: Path) -> dict[str, Any]:
        return {
            "collectors": collectors,
            "phases": [{"phase": mark.phase, "t_ns": mark.t_ns} for mark in self._hosts[0].session.marks],
            "samples": str(path.relative_to(self._folder)),
        }

    def _failure(self) -> dict[str, str]:
        failed = [each for host in self._hosts for each in host.failures()]
        return {"status": "failed", "reason": f"required collector {'; '.join(failed)}"} if failed else {}


class _OneHost:
    """The collectors of one host in one trial; `name` is "" for this one."""

    def __init__(self, name: str, made: Sequence[Made], raw: Path) -> None:
        self.name = name
        self._collectors = {collector.name: collector for collector, _ in made}
        intervals_ns = {use.name: use.interval_ns for _, use in made}
        required = [use.name for _, use in made if use.required]
        self.session = CollectorSession(list(self._collectors.values()), raw, intervals_ns, required)
        self._total, self._in_window = Counter[str](), Counter[str]()
        self.judged: list[SourceSample] = []  # those that the rules need

    def samples(self) -> Iterator[SourceSample]:
        """Return what was recorded, and count it on its way to the disk; the unit path names the host."""
        for sample in self.session.samples():
            inside = self.session.phase_of(sample.t_ns) == "window"
            self._total[sample.source] += 1
            self._in_window[sample.source] += inside
            # States are read at start and stop and hold in between.
            if inside or sample.kind is Kind.STATE:
                self.judged.append(sample)
            yield sample._replace(unit_path=f"{self.name}/{sample.unit_path}") if self.name else sample

    def outcomes(self, found: Mapping[str, Mapping[str, Any]], held: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outcome of each, with its means and states."""
        return {
            key_of(self.name, name): self._outcome(self.session.outcomes[name], found.get(name, {}))
            | ({"states": held[name]} if name in held else {})
            for name in self._collectors
        }

    def _outcome(self, outcome: CollectorOutcome, found: Mapping[str, Any]) -> dict[str, Any]:
        problems = {"count": outcome.problems.count, "first": outcome.problems.first} if outcome.problems.count else {}
        return {
            "status": outcome.status,
            "reason": outcome.reason,
            "cpu_share": overhead_share(outcome),
            "samples": self._total[outcome.collector],
            "samples_in_window": self._in_window[outcome.collector],
            **({"left_out": problems} if problems else {}),
            "means": dict(found),
        }

    def findings(self, window: WindowSeries) -> list[dict[str, Any]]:
        """Check whether the numbers of this host agree."""
        host = f"{self.name}: " if self.name else ""
        return [
            {"rule": each.rule, "verdict": each.verdict, "text": f"{host}{each.text}", "numbers": dict(each.numbers)}
            for each in judge(window)
        ]

    def fail_silent(self) -> None:
        """Judge a collector without a sample in the window as failed, unless it records only rare events or
        settings.
        """
        for name, outcome in self.session.outcomes.items():
            collector = self._collectors[name]
            there = self._in_window[name] or collector.once or collector.sparse
            if outcome.status is Status.OK and not there:
                outcome.status, outcome.reason = Status.FAILED, "gave no sample inside the measurement window"

    def failures(self) -> list[str]:
        """Return required collectors that did not deliver, with the reason."""
        failed = self.session.failed_required()
        return [f"{key_of(self.name, each.collector)} {each.status}: {each.reason}" for each in failed]


def node_counts(result: Mapping[str, Any]) -> Iterator[LcoreCounts]:
    """Return what the node's PMU counted on its DUT lcores; nothing if it had none, or if it contradicts itself.

    (A result that contradicts the protocol fails the trial when its metrics are derived.)
    """
    with suppress(UsageError):
        yield from _node_counts(Part(result, "result"))


def _node_counts(record: Part) -> Iterator[LcoreCounts]:
    try:
        window, lcores = record["window"], record["dut"]["lcores"].items()
    except NotMeasured:
        return
    for lcore in lcores:
        try:
            counts = lcore["pmu"]["window"]
            yield LcoreCounts(
                int(lcore["lcore"].number()),
                int(lcore["cpu"].number()),
                counts["instructions"].number(),
                counts["cycles"].number(),
                (window["end_tsc"].number() - window["start_tsc"].number()) / positive(window["tsc_hz"]),
            )
        except NotMeasured:
            continue


def means(window: WindowSeries) -> dict[str, dict[str, dict[str, Any]]]:
    """Return source -> metric -> `{value, unit, units}` over a window.

    Rates and counts per second are summed, gauges averaged, over the units of the coarsest level that has the metric:
    a socket's total and its channels are not added. States and metrics without a value are left out.
    """
    sources: dict[str, dict[str, dict[str, Any]]] = {}
    for source, metric in window.metrics():
        chosen = window.coarsest(source, metric, lambda series: _mean(series) is not None)
        if chosen:
            sources.setdefault(source, {})[metric] = _over_units(chosen)
    return sources


def states(window: WindowSeries) -> dict[str, dict[str, dict[str, float]]]:
    """Return source -> unit path -> the last value of each state that metrics need."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (source, path, metric), series in window.series.items():
        if metric in STATES.get(source, ()) and series.count:
            found.setdefault(source, {}).setdefault(path, {})[metric] = series.last
    return found


def _mean(series: Series) -> float | None:
    if series.kind is Kind.GAUGE:
        return series.total / series.count if series.count else None
    return None if series.kind is Kind.STATE else series.per_second()


def _over_units(chosen: Sequence[Series]) -> dict[str, Any]:
    values = [value for value in map(_mean, chosen) if value is not None]
    gauge, unit = chosen[0].kind is Kind.GAUGE, chosen[0].unit
    per_s = "" if gauge or chosen[0].kind is Kind.RATE else "/s"
    return {"value": sum(values) / (len(values) if gauge else 1), "unit": f"{unit}{per_s}", "units": len(values)}


def file_stem(trial: str, attempt: int) -> str:
    """Return a file name for a trial's attempt: readable, and different for different trials."""
    readable = re.sub(r"[^A-Za-z0-9._=,@-]", "_", trial)[:_STEM_CHARACTERS]
    return f"{readable}-{hashlib.sha256(trial.encode()).hexdigest()[:8]}-{attempt}"


def _make(use: CollectorUse, options: Options) -> Collector:
    if use.replay is not None:
        return Replay(create(use.name), Path(use.replay))
    return create(use.name, **options.get(use.name, {}))


def _make_there(use: CollectorUse, host: RemoteHost) -> Collector:
    from pollscope.testbeds.pair.remote_collector import RemoteCollector

    return _make(use, {}) if use.replay is not None else RemoteCollector(host, use.name)


def key_of(host: str, name: str) -> str:
    """Return the name of a collector in records: on a pair, HOST/NAME."""
    return f"{host}/{name}" if host else name


def _probe(collector: Collector, use: CollectorUse) -> dict[str, Any]:
    try:
        available, reason = collector.probe()
    except (OSError, PollscopeError) as error:
        available, reason = False, str(error)
    replay = {} if use.replay is None else {"replay": use.replay}
    return {
        "available": available,
        "reason": reason,
        "required": use.required,
        "interval_ns": use.interval_ns,
        **replay,
    }


def _write_atomically(path: Path, samples: Iterable[SourceSample]) -> Path:
    # A unique name: pairs that share a run write at the same time.
    new = path.with_name(f".{path.stem}.new.parquet")
    try:
        make_folder(path.parent)
        write_samples(new, samples)
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise HostError(f"the samples cannot be written: {os.strerror(error.errno or 0)}", str(path)) from error
    return path


@contextmanager
def _beside(busy: Sequence[int]) -> Iterator[None]:
    """Run threads and tools that the block starts on CPUs outside `busy`."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, room_beside(before, busy))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
