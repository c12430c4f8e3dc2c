# SPDX-License-Identifier: BSD-3-Clause
"""HyperPlane on a modelled chip: what each statement of the paper becomes there (docs/results.md#hyperplane)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from pollscope.base import document
from pollscope.base.errors import UsageError
from pollscope.base.paths import data_folder
from pollscope.models.costs import Cost
from pollscope.models.simulate import Arrivals, Outcome, PollingCores, QwaitCores, Service, simulate
from pollscope.stats.estimates import Estimate, mean_estimate

Notification = Literal["spin", "qwait", "c1"]
Shape = Literal["FB", "PC", "NC", "SQ"]
TASKS = ("encap", "crypto", "steer", "rs", "raid", "dispatch")
SHAPES: tuple[Shape, ...] = ("FB", "PC", "NC", "SQ")
# The text averages over numbers of queues that it does not name; powers of two up to its largest.
QUEUES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
_BACKGROUND = 0.05
CORES, MULTICORE_QUEUES = 4, 400
PARTS, PACKETS = 8, 12_000
_ZERO_LOAD = 0.005


@dataclass(frozen=True)
class Chip:
    """Parameters of the chip, units in their names; configs/platforms/hyperplane-chip.yaml says where each comes from.

    Attributes:
        values: name -> value.
        origins: name -> stated, measured, assumed or fitted.
    """

    values: Mapping[str, float]
    origins: Mapping[str, str]

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def having(self, name: str, value: float) -> "Chip":
        """The same chip with another value of one parameter.

        Raises:
            UsageError: no such parameter, or no finite number above 0.
        """
        if name not in self.values:
            raise UsageError("is no parameter of the chip", name, f"it has {', '.join(self.values)}")
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"is {value}, allowed is a number above 0", name)
        return replace(self, values={**self.values, name: value})

    def cycles_ns(self, *names: str) -> float:
        """Time of so many cycles together."""
        return sum(self[name] for name in names) / self["clock_hz"] * 1e9

    @property
    def qwait_ns(self) -> float:
        """From asking for a ready queue to its packet, and both atomic checks."""
        return self.cycles_ns("qwait_cycles", "rearm_cycles")

    def poll_ns(self, queues: int) -> float:
        """A poll of an empty queue among so many, by the cache level that holds the heads."""
        heads = queues * self["head_bytes"]
        beyond_l1 = max(0.0, 1 - self["l1_bytes"] / heads)
        in_memory = self._in_memory(queues)
        return self["poll_ns"] + beyond_l1 * self["poll_llc_ns"] + in_memory * self["poll_memory_ns"]

    def _in_memory(self, queues: int) -> float:
        """Share of heads and task data that the LLC does not hold, where so many queues are in use."""
        return max(0.0, 1 - self["llc_bytes"] / (queues * (self["task_bytes"] + self["head_bytes"])))

    def task_ns(self, task: str, queues: int) -> float:
        """A task, by how many queues have tasks."""
        return self[f"{task}_ns"] + self._in_memory(queues) * self["task_memory_ns"]


def chip(path: Path | None = None) -> Chip:
    """The chip of a file.

    Raises:
        UsageError: a parameter is missing, unknown, or not a number with its origin.
    """
    shipped = data_folder("configs") / "platforms" / "hyperplane-chip.yaml"
    known = _read(shipped)
    if path is None:
        return known
    found = _read(path)
    if wrong := sorted(set(known.values) ^ set(found.values)):
        what = "is missing" if wrong[0] in known.values else "is no parameter of the chip"
        raise UsageError(what, f"{path}: {wrong[0]}", f"as in {shipped}")
    return found


def _read(path: Path) -> Chip:
    data: Any = document.parse(document.read_text(path), str(path)).data
    values, origins = {}, {}
    for name, given in (data if isinstance(data, dict) else {}).items():
        try:
            cost = Cost.model_validate(given)
        except ValidationError as error:
            raise UsageError(error.errors()[0]["msg"], f"{path}: {name}") from None
        if cost.value is None or cost.value <= 0:
            raise UsageError("needs a value above 0", f"{path}: {name}")
        values[name], origins[name] = cost.value, cost.origin
    return Chip(values, origins)


def hot_queues(shape: Shape, queues: int) -> int:
    """Queues that are always busy."""
    return {"FB": queues, "PC": max(1, round(0.2 * queues)), "NC": min(100, queues), "SQ": 1}[shape]


def turn(shape: Shape, queues: int) -> tuple[float, float]:
    """Packets, and polls that find nothing, of one turn over all queues at saturation."""
    hot = hot_queues(shape, queues)
    found = _BACKGROUND if shape in ("PC", "NC") else 0.0
    return hot + found * (queues - hot), (1 - found) * (queues - hot)


def peak_pps(machine: Chip, task: str, shape: Shape, queues: int, how: Notification, software: bool = False) -> float:
    """Return the rate of one core at saturation: packets of a round, with the empty polls or QWAITs between."""
    packets, empty = turn(shape, queues)
    task_ns = machine.task_ns(task, max(1, round(packets)))
    if how == "spin":
        return packets * 1e9 / (packets * task_ns + empty * machine.poll_ns(queues))
    return 1e9 / (task_ns + machine.qwait_ns + (packets * machine["per_ready_ns"] if software else 0.0))


def light(machine: Chip, task: str, queues: int, how: Notification, seed: int = 1) -> Outcome:
    """Time in the system of one core at below 1 % load."""
    task_ns = machine.task_ns(task, 1)
    rate_pps = _ZERO_LOAD * 1e9 / task_ns
    system = _system(machine, task_ns, rate_pps, 1, queues, how, 1, None)
    return simulate(system, PACKETS / rate_pps * 1e9, 10 * queues * machine.poll_ns(queues), seed, PARTS)


def _system(
    machine: Chip,
    task_ns: float,
    rate_pps: float,
    cores: int,
    queues: int,
    how: Notification,
    groups: int,
    weights: tuple[float, ...] | None,
) -> PollingCores | QwaitCores:
    """Cores in so many groups, each with its part of the queues; spinning groups of several share heads."""
    arrivals, service = Arrivals(rate_pps), Service(task_ns)
    if how != "spin":
        wake_up_ns = machine["wake_up_ns"] if how == "c1" else 0.0
        return QwaitCores(
            arrivals,
            service,
            cores,
            queues,
            groups,
            weights,
            qwait_ns=machine.qwait_ns,
            notice_ns=machine.cycles_ns("lookup_cycles"),
            wake_up_ns=wake_up_ns,
        )
    shared = groups < cores
    poll_ns = machine.poll_ns(queues // groups) * (machine["shared_poll_factor"] if shared else 1.0)
    return PollingCores(arrivals, service, cores, queues, weights, shared=shared, burst=1, empty_poll_ns=poll_ns)


@dataclass(frozen=True)
class Multicore:
    """Four cores and 400 queues (figure 10): tails at a load, and where it saturates."""

    machine: Chip
    shape: Shape

    @property
    def task_ns(self) -> float:
        """Return the time of packet encapsulation, the only task of figure 10."""
        return self.machine.task_ns("encap", round(turn(self.shape, MULTICORE_QUEUES)[0]))

    def saturation_pps(self, how: Notification, groups: int, imbalance: float = 0.0) -> float:
        """Return packets per second of all cores; if the traffic is split, the busier core saturates first."""
        queues = MULTICORE_QUEUES // groups
        packets, empty = turn(self.shape, queues)
        each_ns = self.task_ns
        if how == "spin":
            factor = self.machine["shared_poll_factor"] if groups < CORES else 1.0
            each_ns += empty / packets * self.machine.poll_ns(queues) * factor
        else:
            each_ns += self.machine.qwait_ns
        return CORES * 1e9 / each_ns / (1 + (imbalance if groups == CORES else 0.0))

    def weights(self) -> tuple[float, ...] | None:
        """Of each queue; hot ones are spread evenly over the cores."""
        hot = hot_queues(self.shape, MULTICORE_QUEUES)
        if hot == MULTICORE_QUEUES:
            return None
        each = MULTICORE_QUEUES // CORES
        return tuple(1.0 if queue % each < hot // CORES else _BACKGROUND for queue in range(MULTICORE_QUEUES))

    def tail(self, how: Notification, groups: int, rate_pps: float, seed: int = 1) -> list[float]:
        """99th percentiles of independent simulations, in ns."""
        # Groups alike are one group, simulated by itself.
        cores, queues = CORES // groups, MULTICORE_QUEUES // groups
        every = self.weights()
        weights = None if every is None else every[:queues]
        each_pps = rate_pps / groups
        system = _system(self.machine, self.task_ns, each_pps, cores, queues, how, 1, weights)
        window_ns = PACKETS / each_pps * 1e9
        found = [simulate(system, window_ns, window_ns / 10, PARTS * seed + part, 1, 1) for part in range(PARTS)]
        return [float(each.times.percentile(99)) for each in found]


@dataclass(frozen=True)
class Statement:
    """One thing that the paper says, and what becomes of it on the chip.

    Attributes:
        row: of the paper.
        text: in our own words.
        low, high: allowed.
        lever: parameter that would have to differ where it does not come out.
        of: what the chip does.
        fitted: parameters were fitted to it: it agrees by construction.
    """

    row: str
    text: str
    low: float
    high: float
    lever: str
    of: Callable[[Chip], Estimate]
    fitted: bool = False

    def verdict(self, found: Estimate) -> str:
        """By the interval, as claims are judged."""
        if self.low <= found.low and found.high <= self.high:
            return "consistent by construction" if self.fitted else "agrees"
        return "disagrees" if found.high < self.low or found.low > self.high else "inconclusive"

    def comes_out(self, found: Estimate) -> bool:
        """Tell whether the verdict is that it holds, by construction or not."""
        return self.verdict(found) in ("agrees", "consistent by construction")

    def needed(self, machine: Chip) -> float | None:
        """The value of the lever nearest to the chip's with which it comes out; None: none up to ten times off."""
        for factor in np.geomspace(1.03, 10, 30):
            for value in (machine[self.lever] * factor, machine[self.lever] / factor):
                if self.comes_out(self.of(machine.having(self.lever, float(value)))):
                    return float(value)
        return None


def _exact(value: float) -> Estimate:
    return Estimate(value, value, value, 1, "formula")


def _ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    return mean_estimate([one / two for one, two in zip(above, below, strict=True)])


def _throughput(machine: Chip) -> Estimate:
    ratios = [
        peak_pps(machine, task, shape, queues, "qwait") / peak_pps(machine, task, shape, queues, "spin")
        for task in TASKS
        for shape in SHAPES
        for queues in QUEUES
    ]
    return _exact(sum(ratios) / len(ratios))


@cache
def _light(values: tuple[tuple[str, float], ...], task: str, queues: int, how: Notification) -> tuple[float, float]:
    found = light(Chip(dict(values), {}), task, queues, how)
    assert found.mean_ns is not None
    return found.mean_ns.value, float(found.times.percentile(99))


def _zero_load(machine: Chip, task: str, queues: int, how: Notification) -> tuple[float, float]:
    """Mean and 99th percentile at zero load."""
    return _light(tuple(machine.values.items()), task, queues, how)


def _zero_load_ratio(place: int) -> Callable[[Chip], Estimate]:
    def of(machine: Chip) -> Estimate:
        by_task = [
            sum(
                _zero_load(machine, task, queues, "spin")[place] / _zero_load(machine, task, queues, "qwait")[place]
                for queues in QUEUES
            )
            / len(QUEUES)
            for task in TASKS
        ]
        return _exact(sum(by_task) / len(by_task))

    return of


def _crossover(how: Notification) -> Callable[[Chip], Estimate]:
    """The least number of queues at which spinning has the higher mean; of all tasks the same, for tasks cancel."""

    def of(machine: Chip) -> Estimate:
        # The mean of a poller's wait is half a sweep; the simulation is held against this in the tests.
        told_ns = machine.qwait_ns + machine.cycles_ns("lookup_cycles")
        told_ns += machine["wake_up_ns"] if how == "c1" else 0.0
        return _exact(next((n for n in range(1, 1001) if n * machine.poll_ns(n) / 2 > told_ns), 1001))

    return of


def _tail_us(how: Notification) -> Callable[[Chip], Estimate]:
    return lambda machine: _exact(max(_zero_load(machine, task, 1000, how)[1] for task in TASKS) / 1e3)


def _one_queue(machine: Chip) -> Estimate:
    ratios = [_zero_load(machine, task, 1, "qwait")[0] / _zero_load(machine, task, 1, "spin")[0] for task in TASKS]
    return _exact(max(ratios))


def _half_load(machine: Chip) -> Estimate:
    system = Multicore(machine, "FB")
    rate = 0.5 * system.saturation_pps("spin", CORES)
    return _ratio(system.tail("spin", CORES, rate), system.tail("qwait", CORES, rate))


def _least_improvement(machine: Chip) -> Estimate:
    """PC: of loads before spinning saturates, the one at which the tail improves least."""
    system = Multicore(machine, "PC")
    most = system.saturation_pps("spin", CORES)
    loads = [load * most for load in (0.1, 0.3, 0.5, 0.7, 0.9)]
    found = [_ratio(system.tail("qwait", CORES, load), system.tail("spin", CORES, load)) for load in loads]
    worst = max(found, key=lambda each: each.value)
    return replace(worst, value=1 - worst.value, low=1 - worst.high, high=1 - worst.low)


def _saturation(
    shape: Shape, above: tuple[Notification, int, float], below: tuple[Notification, int, float]
) -> Callable[[Chip], Estimate]:
    def of(machine: Chip) -> Estimate:
        system = Multicore(machine, shape)
        return _exact(system.saturation_pps(*above) / system.saturation_pps(*below))

    return of


def _tails(load: float, above: Notification, below: Notification) -> Callable[[Chip], Estimate]:
    def of(machine: Chip) -> Estimate:
        system = Multicore(machine, "FB")
        rate = load * system.saturation_pps("spin", CORES)
        return _ratio(system.tail(above, CORES, rate), system.tail(below, CORES, rate))

    return of


def ipc(machine: Chip, load: float, how: Notification) -> tuple[float, float]:
    """Useful and spinning instructions per cycle of a core at a share of its saturation."""
    useful = load * machine["ipc_task"]
    return useful, (1 - load) * machine["ipc_poll"] if how == "spin" else 0.0


def _corunner_share(machine: Chip, load: float, how: Notification) -> float:
    """Return the share of a core's issue width that a data plane leaves to its SMT sibling."""
    return 1 - sum(ipc(machine, load, how)) / machine["issue_width"]


def power(machine: Chip, load: float, how: Notification) -> float:
    """Of a core, over that of a core that spins at zero load: a static part, and what is switched."""
    dynamic = (1 - machine["power_static"]) / machine["ipc_poll"]
    useful, spinning = ipc(machine, load, how)
    halted = 0.0 if how != "qwait" else (1 - load) * (machine["power_halted"] - machine["power_static"])
    return machine["power_static"] + dynamic * (useful + spinning) + halted


def _left(how: Notification) -> Callable[[Chip], Estimate]:
    return lambda machine: _exact(_corunner_share(machine, 1.0, how) / _corunner_share(machine, 0.0, how))


def _software(shape: Shape) -> Callable[[Chip], Estimate]:
    def of(machine: Chip) -> Estimate:
        ratios = [
            peak_pps(machine, task, shape, 1000, "qwait", software=True) / peak_pps(machine, task, shape, 1000, "qwait")
            for task in TASKS
        ]
        return _exact(min(ratios))

    return of


def _change(shape: Shape, first: int, last: int) -> Callable[[Chip], Estimate]:
    def of(machine: Chip) -> Estimate:
        ends = [peak_pps(machine, "encap", shape, queues, "spin") for queues in (first, last)]
        return _exact(ends[1] / ends[0])

    return of


def _growth(place: int) -> Callable[[Chip], Estimate]:
    """Return the growth over 900 queues by that over 450 from the same number on: 2 for a straight line."""

    def of(machine: Chip) -> Estimate:
        at = {queues: _zero_load(machine, "encap", queues, "spin")[place] for queues in (100, 550, 1000)}
        return _exact((at[1000] - at[100]) / (at[550] - at[100]))

    return of


def _steeper(machine: Chip) -> Estimate:
    (mean, tail), (more_mean, more_tail) = (_zero_load(machine, "encap", queues, "spin") for queues in (1, 1000))
    return _exact((more_tail - tail) / (more_mean - mean))


_INFINITE = math.inf
# Tolerances are ours: a tenth of a stated value where no other reason is given.
STATEMENTS = (
    Statement(
        "H-F3a",
        "SQ: throughput at 1000 queues over that at 1, drastically lower",
        0,
        0.5,
        "poll_ns",
        _change("SQ", 1, 1000),
    ),
    Statement(
        "H-F3a", "NC: falls less than SQ, from 100 to 1000 queues", 0.5, 0.99, "poll_ns", _change("NC", 100, 1000)
    ),
    Statement("H-F3a", "FB: level from 500 to 1000 queues", 0.9, 1.1, "task_memory_ns", _change("FB", 500, 1000)),
    Statement("H-F3a", "PC: level from 500 to 1000 queues", 0.9, 1.1, "task_memory_ns", _change("PC", 500, 1000)),
    Statement("H-F3b", "mean grows almost linearly with queues (2: a line)", 1.8, 2.2, "poll_llc_ns", _growth(0)),
    Statement("H-F3b", "the tail grows more steeply than the mean", 1.0, _INFINITE, "poll_ns", _steeper),
    Statement(
        "H-F3c", "the tail lies further above the mean with more queues, 1 to 1000", 1.0, _INFINITE, "poll_ns", _steeper
    ),
    Statement(
        "H-F8",
        "throughput of QWAIT over spinning, mean of tasks, shapes and queues: 4.1",
        3.7,
        4.5,
        "poll_ns",
        _throughput,
    ),
    Statement(
        "H-F9",
        "mean latency of spinning over QWAIT, mean of tasks and queues: 9.1",
        8.2,
        10.0,
        "poll_ns",
        _zero_load_ratio(0),
    ),
    Statement(
        "H-F9", "99th percentile of spinning over QWAIT, the same: 16.4", 14.8, 18.0, "poll_ns", _zero_load_ratio(1)
    ),
    Statement(
        "H-F9", "QWAIT over spinning at 1 queue: at most 1.03, of all tasks", 0, 1.03, "rearm_cycles", _one_queue
    ),
    Statement("H-F9", "QWAIT is the faster one from 2 queues on", 2, 2, "rearm_cycles", _crossover("qwait")),
    Statement("H-F9", "with C1 spinning is faster up to 6 queues", 7, 7, "poll_ns", _crossover("c1"), fitted=True),
    Statement(
        "H-F9",
        "spinning at 1000 queues: tail in µs, above 100",
        100,
        _INFINITE,
        "poll_ns",
        _tail_us("spin"),
    ),
    Statement("H-F9", "QWAIT at 1000 queues: tail in µs, below 10", 0, 10, "rs_ns", _tail_us("qwait")),
    Statement("H-F10", "FB, half load: tail of spinning over QWAIT, scale-out: 3.2", 2.9, 3.5, "poll_ns", _half_load),
    Statement(
        "H-F10",
        "FB: saturation of QWAIT over spinning, not considerably more",
        0.9,
        1.1,
        "rearm_cycles",
        _saturation("FB", ("qwait", 4, 0.0), ("spin", 4, 0.0)),
    ),
    Statement(
        "H-F10", "PC: the tail improves by 73 % at least before saturation", 0.73, 1.0, "poll_ns", _least_improvement
    ),
    Statement(
        "H-F10",
        "PC: saturation of QWAIT over spinning: 1.23",
        1.15,
        1.31,
        "poll_ns",
        _saturation("PC", ("qwait", 4, 0.0), ("spin", 4, 0.0)),
    ),
    Statement(
        "H-F10",
        "PC, imbalance of 10 %: QWAIT scale-up over QWAIT scale-out: 1.11",
        1.07,
        1.15,
        "encap_ns",
        _saturation("PC", ("qwait", 1, 0.1), ("qwait", 4, 0.1)),
    ),
    Statement(
        "H-F10",
        "PC, imbalance of 10 %: QWAIT scale-up over spinning scale-out: 1.37",
        1.24,
        1.5,
        "poll_ns",
        _saturation("PC", ("qwait", 1, 0.1), ("spin", 4, 0.1)),
    ),
    Statement(
        "H-F10",
        "PC, imbalance of 10 %: spinning scale-up over its scale-out: 0.46",
        0.41,
        0.51,
        "shared_poll_factor",
        _saturation("PC", ("spin", 2, 0.1), ("spin", 4, 0.1)),
        fitted=True,
    ),
    Statement(
        "H-F11a",
        "IPC of spinning: zero load over saturation, highest at zero load",
        1.0,
        _INFINITE,
        "ipc_poll",
        lambda machine: _exact(sum(ipc(machine, 0.0, "spin")) / sum(ipc(machine, 1.0, "spin"))),
        fitted=True,
    ),
    Statement(
        "H-F11a",
        "IPC of QWAIT at half load over that at full load: linear",
        0.45,
        0.55,
        "ipc_task",
        lambda machine: _exact(sum(ipc(machine, 0.5, "qwait")) / sum(ipc(machine, 1.0, "qwait"))),
        fitted=True,
    ),
    Statement(
        "H-F11b",
        "what is left to an SMT co-runner beside spinning: full load over zero load, above 1",
        1.0,
        _INFINITE,
        "ipc_poll",
        _left("spin"),
        fitted=True,
    ),
    Statement(
        "H-F11b",
        "the same beside QWAIT: below 1",
        0,
        0.99,
        "ipc_task",
        _left("qwait"),
        fitted=True,
    ),
    Statement(
        "H-F12",
        "power of spinning: zero load over saturation, above 1",
        1.0,
        _INFINITE,
        "ipc_task",
        lambda machine: _exact(power(machine, 0.0, "spin") / power(machine, 1.0, "spin")),
        fitted=True,
    ),
    Statement(
        "H-F12",
        "power at zero load with C1: 16.2 %",
        0.16,
        0.164,
        "power_static",
        lambda machine: _exact(power(machine, 0.0, "c1")),
        fitted=True,
    ),
    Statement(
        "H-F12",
        "zero load: tail with C1 over regular QWAIT: 1.38",
        1.34,
        1.42,
        "encap_ns",
        _tails(0.01, "c1", "qwait"),
        fitted=True,
    ),
    Statement(
        "H-F12", "zero load: tail of spinning over QWAIT with C1: 8.9", 8.0, 9.8, "poll_ns", _tails(0.01, "spin", "c1")
    ),
    Statement(
        "H-F12",
        "half load: tail with C1 over regular QWAIT: 1.08",
        1.04,
        1.12,
        "wake_up_ns",
        _tails(0.5, "c1", "qwait"),
    ),
    Statement(
        "H-F13",
        "FB: software over hardware ready set, lowest of tasks: 0.5",
        0.45,
        0.55,
        "per_ready_ns",
        _software("FB"),
        fitted=True,
    ),
    Statement("H-F13", "PC: the same, less severe than FB", 0.55, 1.0, "per_ready_ns", _software("PC")),
    Statement(
        "H-F13",
        "cores that one ready set in hardware serves with a QWAIT for each encapsulation: some 100",
        30,
        300,
        "ready_set_ns",
        lambda machine: _exact((machine["encap_ns"] + machine.qwait_ns) / machine["ready_set_ns"]),
    ),
    Statement(
        "H-F13",
        "area of ready and monitoring set over that of the cores: at most 0.26 %",
        0,
        0.0026,
        "monitoring_set_mm2",
        lambda machine: _exact(
            (machine["ready_set_mm2"] + machine["monitoring_set_mm2"]) / (machine["cores"] * machine["core_mm2"])
        ),
    ),
    Statement(
        "H-F13",
        "power of both over that of the cores: at most 0.4 %, 6.2 % of one",
        0,
        0.004,
        "monitoring_set_power",
        lambda machine: _exact((machine["ready_set_power"] + machine["monitoring_set_power"]) / machine["cores"]),
    ),
)


def judged(machine: Chip, rows: Sequence[str] | None = None) -> list[dict[str, object]]:
    """Judge the paper's statements on a chip, each as a row of a table.

    Args:
        machine: the chip.
        rows: of the paper; None: all, in some 10 s of CPU time.

    Raises:
        UsageError: a row without a statement.
    """
    known = list(dict.fromkeys(each.row for each in STATEMENTS))
    for row in rows or ():
        if row not in known:
            raise UsageError("is no row with statements of HyperPlane", row, f"those are {', '.join(known)}")
    return [_judged(each, machine) for each in STATEMENTS if rows is None or each.row in rows]


def _judged(statement: Statement, machine: Chip) -> dict[str, object]:
    found = statement.of(machine)
    verdict = statement.verdict(found)
    allowed = {"from": statement.low, "to": statement.high}
    numbers = {"chip": found.value, "low": found.low, "high": found.high}
    lever = {} if statement.comes_out(found) else {"lever": statement.lever, "is": machine[statement.lever]}
    would = {"would_do": statement.needed(machine)} if lever else {}
    return {
        "row": statement.row,
        "statement": statement.text,
        **allowed,
        **numbers,
        "verdict": verdict,
        **lever,
        **would,
    }
