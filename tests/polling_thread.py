# SPDX-License-Identifier: BSD-3-Clause
"""A simulated polling thread with known costs, and what a probe would sample of it."""

import math
import random
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from pollscope.metrics.probed import COLUMNS, Sums

TSC_HZ = 2e9


@dataclass
class PollingThread:
    """Costs in cycles: of an empty poll, of a busy poll and its packets (received, then processed), of stamps."""

    pps: float
    queues: int = 1
    loaded: int = 1
    empty: float = 40.0
    receive: tuple[float, float] = (60.0, 10.0)
    process: tuple[float, float] = (30.0, 50.0)
    stamp: float = 45.0
    sent_stamp: float = 0.0
    max_burst: int = 32
    ring: int = 1024
    scatter: float = 0.1
    interruption_cycles: float = 0.0
    seed: int = 1
    useful_cycles: float = field(init=False, default=0.0)
    own_cycles: float = field(init=False, default=0.0)
    packets: int = field(init=False, default=0)
    polls: int = field(init=False, default=0)
    busy_polls: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._queues = [0.0] * self.queues
        self._last = [0.0] * self.queues
        self._clock = 0.0

    def _arrivals(self, cycles: float) -> float:
        mean = self.pps / self.loaded * cycles / TSC_HZ
        # A Poisson number; by its normal approximation where that is good.
        if mean > 50:
            return max(0.0, round(self._random.gauss(mean, math.sqrt(mean))))
        below, count = math.exp(-mean), 0
        product = self._random.random()
        while product > below:
            product *= self._random.random()
            count += 1
        return count

    def observe(self, windows: int, window_cycles: float, between_cycles: float) -> Sums:
        """Return one row of COLUMNS per window; count the truth in the time between windows."""
        rows = []
        for _ in range(windows):
            rows.append(self._window(window_cycles))
            self._own_pace(between_cycles)
        return np.array([[row[name] for name in COLUMNS] for row in rows])

    def _poll(self, queue: int) -> tuple[int, float]:
        if queue < self.loaded:
            self._queues[queue] += self._arrivals(self._clock - self._last[queue])
            self._queues[queue] = min(self._queues[queue], self.ring)
            self._last[queue] = self._clock
        burst = int(min(self._queues[queue], self.max_burst))
        self._queues[queue] -= burst
        cost = self.receive[0] + self.receive[1] * burst if burst else self.empty
        return burst, cost * self._random.uniform(1 - self.scatter, 1 + self.scatter)

    def _processing(self, burst: int) -> float:
        return self.process[0] + self.process[1] * burst if burst else 0.0

    def _own_pace(self, cycles: float) -> None:
        end, queue = self._clock + cycles, 0
        begin = self._clock
        while self._clock < end:
            burst, cost = self._poll(queue)
            cost += self._processing(burst)
            self._clock += cost
            self.useful_cycles += cost if burst else 0.0
            self.packets += burst
            self.polls += 1
            self.busy_polls += burst > 0
            queue = (queue + 1) % self.queues
        self.own_cycles += self._clock - begin

    def _window(self, cycles: float) -> dict[str, float]:
        row = defaultdict(float, windows=1.0)
        end, queue, before, pending = self._clock + cycles, 0, -1, 0.0
        while self._clock < end:
            burst, cost = self._poll(queue)
            interval = pending + cost + self.stamp
            self._clock += interval
            if before >= 0:
                self._add(row, before, burst, interval)
            if self.interruption_cycles and self._random.random() < 1e-4:
                self._clock += self.interruption_cycles
                row["interruptions"] += 1
                row["interrupted_cycles"] += self.interruption_cycles
                row["sampled_cycles"] += self.interruption_cycles
            before, pending = burst, self._processing(burst)
            if burst:
                pending += self.sent_stamp
                row["tx_bursts"] += 1
            queue = (queue + 1) % self.queues
        return row

    @staticmethod
    def _add(row: dict[str, float], m: int, n: int, c: float) -> None:
        kind = ("b" if m else "e") + ("b" if n else "e")
        row["sampled_cycles"] += c
        for name, value in {"": 1, "_c": c, "_c2": c * c, "_n": n, "_n2": n * n, "_nc": n * c}.items():
            row[kind + name] += value
        for name, value in {"_m": m, "_m2": m * m, "_mc": m * c, "_mn": m * n}.items():
            row[kind + name] += value

    @property
    def true_useful_share(self) -> float:
        """Return the share of useful cycles at the thread's own pace."""
        return self.useful_cycles / self.own_cycles

    @property
    def own_pps(self) -> float:
        """Return the packets per second that it received at its own pace."""
        return self.packets / self.own_cycles * TSC_HZ

    @property
    def true_saturation_pps(self) -> float:
        """Return its packet rate with full bursts from the loaded queues."""
        burst = self.max_burst
        cycles = self.receive[0] + self.process[0] + burst * (self.receive[1] + self.process[1])
        return TSC_HZ * burst / (cycles + self.empty * (self.queues - self.loaded) / self.loaded)
