# SPDX-License-Identifier: BSD-3-Clause
"""Attach to a program as `pollscope attach` does, while something else measures it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

from eal import plug_in

from pollscope.attach.programs import find_program, look_at
from pollscope.attach.watch import LIVE_STEP_S
from pollscope.host.telemetry_socket import TelemetrySocket
from pollscope.node.observation import CounterReading, Observer
from pollscope.node.probe import Probe


def probe() -> list[str]:
    """Return EAL's arguments for the probe plug-in."""
    return plug_in("librte_pollscope_probe.so")


@contextmanager
def attached(pid: int, *settings: str) -> Iterator[Observer]:
    """Attach to a program while the block lasts."""
    with TelemetrySocket(find_program(str(pid))) as connection:
        look_at(connection)
        with Probe(connection, *settings) as session:
            yield Observer(connection, session)


@contextmanager
def watching(observer: Observer) -> Iterator[list[CounterReading]]:
    """Read the counters as often as the live table, in a thread. The list is complete after the block."""
    readings, ended = [observer.read()], Event()

    def read() -> None:
        while not ended.wait(LIVE_STEP_S):
            readings.append(observer.read())

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            yield readings
        finally:
            ended.set()
        reading.result()
    readings.append(observer.read())
