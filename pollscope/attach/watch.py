# SPDX-License-Identifier: BSD-3-Clause
"""Observe a program for some time: live, or trial by trial into a run folder."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pollscope.attach.programs import DpdkProgram
from pollscope.attach.recording import AttachedRun, trial_id
from pollscope.base.errors import DiskError, HostError, TrialError
from pollscope.collectors.registry import create
from pollscope.host.placement import room_beside
from pollscope.node.observation import CounterReading, Observer, ThreadShare, shares
from pollscope.spec.model import CollectorUse
from pollscope.testbeds.collecting import Collection, file_stem
from pollscope.testbeds.session import TrialRequest

LIVE_STEP_S, REFRESH_S, LIVE_S = 0.25, 1.0, 5.0
TRIAL_STEP_S, TRIAL_S, MOST_TRIALS = 0.1, 2.0, 10
# Readings are kept for the whole observation up to this number.
_MOST_READINGS = 2400
Refresh = Callable[[Sequence[CounterReading], Sequence[ThreadShare]], None]


@contextmanager
def beside(cpus: Sequence[int]) -> Iterator[None]:
    """Run this thread and its children on CPUs without a polling thread, if there are any."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, room_beside(before, cpus))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def polling_cpus(observer: Observer) -> list[int]:
    """Observe for a moment and return the CPUs of the polling threads."""
    observer.read()
    time.sleep(LIVE_STEP_S)
    return sorted({each.cpu for each in observer.read().threads.values()})


def watch(observer: Observer, seconds: float | None, refresh: Refresh) -> list[CounterReading]:
    """Call `refresh` each second with the latest readings, until the time is over or KeyboardInterrupt.

    Returns:
        The readings, of a long observation the latest ones.

    Raises:
        HostError: the program has ended.
    """
    readings: deque[CounterReading] = deque([observer.read()], maxlen=_MOST_READINGS)
    begin_s = shown_s = time.monotonic()
    try:
        while seconds is None or time.monotonic() < begin_s + seconds:
            time.sleep(LIVE_STEP_S)
            readings.append(observer.read())
            if time.monotonic() >= shown_s + REFRESH_S:
                shown_s = time.monotonic()
                latest = list(readings)[-int(LIVE_S / LIVE_STEP_S) - 1 :]
                refresh(latest, shares(latest, observer.info))
    except KeyboardInterrupt:
        if seconds is not None:
            raise
    return list(readings)


def trials_of(seconds: float) -> int:
    """Return the number of trials in an observation: of 2 s or longer, and at most 10."""
    return max(1, min(MOST_TRIALS, int(seconds / TRIAL_S)))


def record(
    observer: Observer, program: DpdkProgram, seconds: float, results: Path, collectors: Sequence[str], refresh: Refresh
) -> Path:
    """Write a run folder of several trials, and return it.

    Raises:
        TrialError: the program ended; the trials until then are kept.
        DiskError: the disk takes no more; the trials until then are kept.
        KeyboardInterrupt: after noting it in the run folder.
    """
    trials = trials_of(seconds)
    recording = AttachedRun(results, program, observer.info, trials, seconds)
    last = observer.read()
    repeat = 0
    try:
        for repeat in range(trials):
            readings, extra = _trial(
                observer, program, seconds / trials, last, _collection(recording, repeat, collectors, program)
            )
            refresh(readings, recording.append(repeat, readings, extra))
            last = readings[-1]
    except DiskError as error:
        with suppress(DiskError):  # the folder may be gone
            recording.finish("failed", error.what)
        remedy = "free disk space and attach again; the trials until then are kept"
        raise DiskError(error.what, error.where, remedy) from error
    except HostError as error:
        recording.fail(repeat, last.t_ns, str(error))
        recording.finish("failed", str(error))
        raise TrialError(f"the observation ended early: {error.what}", str(recording.folder)) from error
    except KeyboardInterrupt:
        recording.finish("interrupted")
        raise
    recording.finish("complete", cautions=observer.cautions())
    return recording.folder


def _collection(recording: AttachedRun, repeat: int, names: Sequence[str], program: DpdkProgram) -> Collection | None:
    if not names:
        return None
    options: Mapping[str, Mapping[str, Any]] = {"dpdk-telemetry": {"socket": str(program.socket)}}
    made = [(create(name, **options.get(name, {})), CollectorUse(name=name)) for name in names]
    return Collection({"": made}, recording.folder, file_stem(trial_id("all", repeat), 0))


def _trial(
    observer: Observer, program: DpdkProgram, seconds: float, first: CounterReading, collection: Collection | None
) -> tuple[list[CounterReading], dict[str, Any]]:
    """Return the readings of one trial, and what collectors recorded during it."""
    if collection is None:
        return _readings(observer, seconds, first), {}
    collection.start()
    try:
        first = observer.read()
        collection.mark(TrialRequest(program.name, 0, round(seconds * 1e9), 0, {}))
        readings = _readings(observer, seconds, first)
    finally:
        collection.stop()
    return readings, collection.record({})


def _readings(observer: Observer, seconds: float, first: CounterReading) -> list[CounterReading]:
    end_s = time.monotonic() + seconds
    readings = [first]
    while (left_s := end_s - time.monotonic()) > TRIAL_STEP_S:
        time.sleep(TRIAL_STEP_S)
        readings.append(observer.read(with_queues=False))
    time.sleep(max(0.0, left_s))
    return [*readings, observer.read()]
