# SPDX-License-Identifier: BSD-3-Clause
"""Run build/wire-bench (apps/bench/wire_bench.h describes its loops)."""

import os
import select
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from eal import built, file_prefix, memory

from pollscope.base.errors import HostError

LIMIT_S = 30.0
WINDOW_MS = 80
HAD_CPU = 0.9  # of the window; below that another program ran on the core
TRIES = 200

T = TypeVar("T")


@dataclass(frozen=True)
class Done:
    """The work of one worker within the window."""

    frames: int
    cpu_ns: int

    @property
    def per_cpu_s(self) -> float:
        """Return the frames per second of CPU time."""
        return self.frames / self.cpu_ns * 1e9

    @property
    def had_cpu(self) -> bool:
        """Return whether the worker had its core for nearly the whole window."""
        return self.cpu_ns > HAD_CPU * WINDOW_MS * 1e6


def two_cpus() -> tuple[int, int]:
    """Return the CPUs to work on.

    Raises:
        HostError: there is only one CPU.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise HostError("needs two CPUs", f"this process may use CPU {cpus[0]} only")
    return cpus[0], cpus[-1]


class WireBench:
    """A process whose worker i is bound to the i-th of `cpus`.

    Raises:
        HostError: the program is not built, or does not answer.
    """

    def __init__(self, cpus: Sequence[int], log: Path) -> None:
        lcores = ",".join(f"{worker}@{cpu}" for worker, cpu in enumerate(cpus))
        command = [built("wire-bench"), "--lcores", lcores, "--no-pci", "--no-telemetry", "--log-level", "lib.*:error"]
        command += [*file_prefix(), *memory(128, 256)]  # two pools of 4095 mbufs, rings, and EAL's own
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, bufsize=1
            )
        self._log = log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def start(self, loop: str, workers: str, longer_cycles: int = 0) -> None:
        """Begin a loop in which receiving a burst takes `longer_cycles` more; `finish` waits for its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{loop} {WINDOW_MS} {workers} {longer_cycles}\n")
        self._process.stdin.flush()

    def finish(self) -> list[Done]:
        """Return what each worker did."""
        assert self._process.stdout is not None
        while True:
            ready, _, _ = select.select([self._process.stdout], [], [], LIMIT_S)
            line = self._process.stdout.readline() if ready else ""
            if not line:
                raise HostError(f"wire-bench does not answer: {self._log.read_text()[-300:]!r}", "build/wire-bench")
            numbers = line.split()
            if numbers and all(word.isdigit() for word in numbers):  # otherwise it is a line of EAL
                return [Done(int(f), int(ns)) for f, ns in zip(numbers[::2], numbers[1::2], strict=True)]

    def run(self, loop: str, workers: str, longer_cycles: int = 0) -> list[Done]:
        """Run one loop from begin to end."""
        self.start(loop, workers, longer_cycles)
        return self.finish()


class Undisturbed:
    """Repeat windows that other programs disturbed.

    Raises:
        HostError: the cores were taken away in nearly every try.
    """

    def __init__(self) -> None:
        self._left = TRIES

    def __call__(self, measure: Callable[[], list[Done]]) -> list[Done]:
        while True:
            done = measure()
            if all(each.had_cpu for each in done):
                return done
            self._left -= 1
            if self._left == 0:
                raise HostError(
                    f"{TRIES} windows had less than {HAD_CPU:.0%} of their cores",
                    "something else runs on this machine",
                    "end it, or try again later",
                )
