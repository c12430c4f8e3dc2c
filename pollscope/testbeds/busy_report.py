# SPDX-License-Identifier: BSD-3-Clause
"""Read how busy a DPDK program says that it is, each by its own definition (docs/validity.md compares them).

- `/eal/lcore/usage` of DPDK's telemetry, from 23.03 on: programs that register a function for it, among them testpmd
  with `--record-core-cycles`.
- `/l3fwd_power/stats`: l3fwd-power with `--telemetry`.
- testpmd's prompt, with an older DPDK: `-i --auto-start --record-core-cycles`.
"""

import re
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from pollscope.host.telemetry_socket import TelemetrySocket

_ANSWER_LIMIT_S, _LOOK_S = 2.0, 0.001
_STATISTICS = re.compile(rb"Accumulated forward statistics(.*?)testpmd> ", re.DOTALL)
_BUSY_CYCLES = re.compile(rb"\((?:total|busy) cycles=(\d+)")
_WHOLE_PERCENT = 100


class BusyCycles(NamedTuple):
    """Busy cycles of the DUT's lcores and all their cycles, both since the same moment."""

    busy: float
    total: float


Reader = Callable[[], BusyCycles | None]


def busy_reader(connection: TelemetrySocket, lcores: Collection[int], prompt: Reader | None) -> Reader | None:
    """Return the function that reads what a program counts; None if it counts nothing.

    Args:
        connection: to the program.
        lcores: those of the DUT.
        prompt: reads testpmd's prompt, if the program has one.
    """
    readers: list[Reader] = [partial(_lcore_usage, connection, lcores), _L3fwdPower(connection).read]
    if prompt:
        readers.append(prompt)
    return next((read for read in readers if read() is not None), None)


def busy_share(readings: Sequence[BusyCycles | None]) -> float | None:
    """Return the busy share from the first to the last reading; None if one is missing, or no cycle was counted."""
    first, last = readings[0], readings[-1]
    if first is None or last is None or last.total <= first.total:
        return None
    # The time of an answer of testpmd's prompt is known to a millisecond only.
    return min(1.0, (last.busy - first.busy) / (last.total - first.total))


def _lcore_usage(connection: TelemetrySocket, lcores: Collection[int]) -> BusyCycles | None:
    usage = connection.value("/eal/lcore/usage")
    if not isinstance(usage, dict):
        return None
    columns = [usage.get(key, []) for key in ("lcore_ids", "busy_cycles", "total_cycles")]
    counts = [BusyCycles(busy, total) for lcore, busy, total in zip(*columns, strict=False) if lcore in lcores]
    return BusyCycles(sum(each.busy for each in counts), sum(each.total for each in counts)) if counts else None


class _L3fwdPower:
    """l3fwd-power's `busy_percent` of its last 10,000 polls, added up over the readings."""

    def __init__(self, connection: TelemetrySocket) -> None:
        self._connection, self._sum = connection, BusyCycles(0, 0)

    def read(self) -> BusyCycles | None:
        found = self._connection.value("/l3fwd_power/stats")
        if not isinstance(found, dict) or "busy_percent" not in found:
            return None
        self._sum = BusyCycles(self._sum.busy + found["busy_percent"], self._sum.total + _WHOLE_PERCENT)
        return self._sum


def prompt_reader(
    arguments: Sequence[str], commands: IO[bytes], log: Path, tsc_hz: float, lcores: int
) -> Reader | None:
    """Return the function that asks testpmd at its prompt; None if this program has none, or counts no cycles.

    Any other testpmd ends at the first line of its input.
    """
    if "--record-core-cycles" not in arguments or not {"-i", "--interactive"} & set(arguments):
        return None

    def read() -> BusyCycles | None:
        end, asked_s = log.stat().st_size, time.monotonic()
        commands.write(b"show fwd stats all\n")
        commands.flush()
        said = _answer(log, end)
        # All cycles follow from the time. Without packets testpmd omits the busy ones.
        now_s = (asked_s + time.monotonic()) / 2
        found = None if said is None else _BUSY_CYCLES.search(said)
        return None if said is None else BusyCycles(int(found[1]) if found else 0, now_s * tsc_hz * lcores)

    return read


def _answer(log: Path, begin: int) -> bytes | None:
    """Return the statistics that a log holds behind a place; None if they do not come in time."""
    deadline = time.monotonic() + _ANSWER_LIMIT_S
    while time.monotonic() < deadline:
        with log.open("rb") as said:
            said.seek(begin)
            if found := _STATISTICS.search(said.read()):
                return found[1]
        time.sleep(_LOOK_S)
    return None
