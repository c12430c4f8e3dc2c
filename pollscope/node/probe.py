# SPDX-License-Identifier: BSD-3-Clause
"""Speak the protocol of the probe plug-in over a program's telemetry socket (docs/internals/probe-protocol.md)."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from pollscope.base.errors import HostError
from pollscope.host.telemetry_socket import TelemetrySocket
from pollscope.metrics.probed import COLUMNS, SampledValue, Sums

VERSION = 1
_PREFIX = "/pollscope/probe"
_NO_SESSION = "there is no session"
_QUEUES_PER_PAGE = 32
_MOST_PAGES = 4096
_WRAP = 1 << 64
# Numbers of a class of gaps, in the order of the protocol, and their names in COLUMNS after the class.
_CLASS = (
    "",
    "_c",
    "_c2",
    "interruptions",
    "interrupted_cycles",
    "longest",
    "_m",
    "_n",
    "_m2",
    "_n2",
    "_mn",
    "_mc",
    "_nc",
)
_CLASSES = {"empty_empty": "ee", "empty_busy": "eb", "busy_empty": "be", "busy_busy": "bb"}
# With fewer doubled gaps, the cost of a callback in place is not estimated.
_MIN_DOUBLED = 1000
# Relative error of the cost of a callback in place (the second one finds everything in the cache), and of the loop's.
_ERROR_IN_PLACE, _ERROR_OF_LOOP = 0.1, 0.5
_Z = 1.96


@dataclass(frozen=True)
class ProbeInfo:
    """The plug-in's description of itself: TSC frequency, calibrated cycles of its callbacks, and what it lacks.

    Attributes:
        skipped_windows: since it was loaded, because too many removed callbacks could not be freed.
        lost_threads: polling threads that are not counted, because there are more than it has room for.
    """

    tsc_hz: float
    rx_callback_cycles: float
    tx_callback_cycles: float
    skipped_windows: int = 0
    lost_threads: int = 0


@dataclass(frozen=True)
class ThreadCounts:
    """The counters of one polling thread at a moment. `lcore` is None for a thread that EAL did not start."""

    index: int
    tid: int
    name: str
    lcore: int | None
    cpu: int
    counts: Mapping[str, int]
    longest_cycles: int
    max_burst: int
    doubled: tuple[int, int, int]


@dataclass(frozen=True)
class QueueCounts:
    """The counters of one RX queue at a moment.

    Attributes:
        thread: index of the thread that polled it last, or -1.
        moves: from one thread to another.
    """

    port: int
    queue: int
    thread: int
    moves: int
    polls: int
    full: int
    packets: int
    sizes: Sequence[int]


class Probe:
    """A session with the plug-in of one program; entering starts sampling, leaving ends it.

    Args:
        connection: to the program.
        settings: of the session, for example `period_us=10000`; default: the plug-in's.
    """

    def __init__(self, connection: TelemetrySocket, *settings: str) -> None:
        self._connection, self._settings, self._session = connection, settings, ""

    def __enter__(self) -> Self:
        self._start()
        return self

    def _start(self) -> None:
        self._session = str(_whole(self._request("start", *self._settings), "session"))

    def __exit__(self, *_error: object) -> None:
        # A program that has ended has nothing to stop, and a session that ended by its heartbeat is stopped.
        with suppress(HostError):
            self._request("stop", self._session)

    def info(self) -> ProbeInfo:
        """Return the plug-in's description of itself.

        Raises:
            HostError: the program has no plug-in, or one of another version.
        """
        found = self._request("info")
        if (version := _whole(found, "version")) != VERSION:
            raise HostError(
                f"the plug-in speaks version {version} of the protocol, this pollscope version {VERSION}",
                str(self._connection.path),
                "load the plug-in that was built with this pollscope",
            )
        return ProbeInfo(*(_whole(found, field.name) for field in fields(ProbeInfo)))

    def threads(self) -> list[ThreadCounts]:
        """Return the counters of all polling threads seen so far."""
        return [_thread(int(index), self._ask("thread", index)) for index in self._ask("threads")]

    def queues(self) -> list[QueueCounts]:
        """Return the counters of all RX queues."""
        found: list[QueueCounts] = []
        first = 0
        for _ in range(_MOST_PAGES):
            page = self._ask("queues", str(first), str(_QUEUES_PER_PAGE))
            found += [_queue(name, numbers) for name, numbers in page.items() if name.startswith("rx_")]
            if "next" not in page:
                break
            first = _whole(page, "next")
        return found

    def _ask(self, command: str, *parameters: str) -> dict[str, Any]:
        """Return the reply within the session; begin another one if this host was too busy for its heartbeat."""
        try:
            return self._request(command, self._session, *parameters)
        except HostError as error:
            if _NO_SESSION not in error.what:
                raise
        self._start()
        return self._request(command, self._session, *parameters)

    def _request(self, command: str, *parameters: str) -> dict[str, Any]:
        request = ",".join([f"{_PREFIX}/{command}", *parameters])
        where = str(self._connection.path)
        try:
            reply = self._connection.value(request)
        except OSError as error:
            raise HostError(f"the program is gone or does not answer: {error}", where) from error
        if reply is None:
            raise HostError("no probe plug-in is in this program", where, "pollscope attach --list says how to load it")
        if not isinstance(reply, dict):
            raise HostError(f"the plug-in's reply to {request} is not an object", where)
        if "error" in reply:
            raise HostError(str(reply["error"]), where)
        return reply


def _whole(reply: Mapping[str, Any], key: str) -> int:
    value = reply.get(key)
    if type(value) is not int:
        raise HostError(f"the plug-in's reply has no number '{key}'", remedy="load the plug-in of this pollscope")
    return value


def _numbers(reply: Mapping[str, Any], key: str, count: int) -> list[int]:
    value = reply.get(key)
    if not isinstance(value, list) or len(value) < count or any(type(each) is not int for each in value):
        raise HostError(
            f"the plug-in's reply has no {count} numbers '{key}'", remedy="load the plug-in of this pollscope"
        )
    return value


def _thread(index: int, reply: Mapping[str, Any]) -> ThreadCounts:
    counts = dict.fromkeys(COLUMNS, 0)
    counts |= {"windows": _whole(reply, "windows"), "tx_bursts": _whole(reply, "tx_bursts")}
    longest = 0
    for name, letters in _CLASSES.items():
        for part, value in zip(_CLASS, _numbers(reply, name, len(_CLASS)), strict=False):
            if part in counts:
                counts[part] += value
            elif part == "longest":
                longest = max(longest, value)
            elif letters + part in counts:
                counts[letters + part] = value
        counts["sampled_cycles"] += counts[f"{letters}_c"] + _numbers(reply, name, len(_CLASS))[4]
    lcore = _whole(reply, "lcore")
    doubled = _numbers(reply, "doubled_empty_empty", 3)
    return ThreadCounts(
        index,
        _whole(reply, "tid"),
        str(reply.get("name", "")),
        None if lcore < 0 else lcore,
        _whole(reply, "cpu"),
        counts,
        longest,
        max(1, _whole(reply, "most_asked")),
        (doubled[0], doubled[1], doubled[2]),
    )


def _queue(name: str, numbers: object) -> QueueCounts:
    try:
        _, port, queue = name.split("_")
        thread, moves, polls, full, packets, *sizes = _numbers({name: numbers}, name, 5)
        return QueueCounts(int(port), int(queue), thread - 1, moves, polls, full, packets, sizes)
    except ValueError as error:
        raise HostError(f"the plug-in names a queue {name!r}", remedy="load the plug-in of this pollscope") from error


def row_between(before: ThreadCounts | None, after: ThreadCounts) -> Sums:
    """Return what was sampled between two moments, in the order of COLUMNS."""
    return np.array([float(_grown(before.counts[name] if before else 0, after.counts[name])) for name in COLUMNS])


def callback_cost(before: ThreadCounts | None, after: ThreadCounts, info: ProbeInfo) -> SampledValue:
    """Return the cycles of one RX callback: measured in place by windows in which it ran twice, or else in a loop."""
    zeros = (0, 0, 0)
    doubled = [_grown(old, new) for old, new in zip(before.doubled if before else zeros, after.doubled, strict=True)]
    names = ("ee", "ee_c", "ee_c2")
    single = [_grown(before.counts[name] if before else 0, after.counts[name]) for name in names]
    if min(doubled[0], single[0]) < _MIN_DOUBLED:
        return SampledValue(info.rx_callback_cycles, _ERROR_OF_LOOP * info.rx_callback_cycles)
    cost = doubled[1] / doubled[0] - single[1] / single[0]
    scatter = math.hypot(_standard_error(*doubled), _standard_error(*single))
    return SampledValue(max(0.0, cost), math.hypot(_Z * scatter, _ERROR_IN_PLACE * cost))


def _standard_error(count: int, total: int, squares: int) -> float:
    mean = total / count
    return math.sqrt(max(0.0, squares / count - mean * mean) / count)


def _grown(before: int, after: int) -> int:
    return (after - before) % _WRAP
