# SPDX-License-Identifier: BSD-3-Clause
"""HyperPlane on a modelled chip: what each statement of the paper amounts to there (docs/results.md#hyperplane)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError
from ruamel.yaml import YAML

from pollscope.base import document
from pollscope.base.errors import UsageError
from pollscope.base.paths import data_folder
from pollscope.models.costs import Cost
from pollscope.models.simulate import Arrivals, Outcome, PollingCores, QwaitCores, Service, simulate
from pollscope.spec.expressions import parse
from pollscope.stats.estimates import Estimate, mean_estimate

Notification = Literal["spin", "qwait", "c1"]
Shape = Literal["FB", "PC", "NC", "SQ"]
TASKS = ("encap", "crypto", "steer", "rs", "raid", "dispatch")
SHAPES: tuple[Shape, ...] = ("FB", "PC", "NC", "SQ")
# The paper averages over numbers of queues that it does not name; assume powers of two up to its largest.
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
        """Return the same chip with another value of one parameter.

        Raises:
            UsageError: no such parameter, or no finite number above 0.
        """
        if name not in self.values:
            raise UsageError("is not a parameter of the chip", name, f"it has {', '.join(self.values)}")
        if not (math.isfinite(value) and value > 0):
            raise UsageError(f"is {value}, allowed is a number above 0", name)
        return replace(self, values={**self.values, name: value})

    def cycles_ns(self, *names: str) -> float:
        """Return the time of the sum of these cycles."""
        return sum(self[name] for name in names) / self["clock_hz"] * 1e9

    @property
    def qwait_ns(self) -> float:
        """Return the time from asking for a ready queue to its packet, with both atomic checks."""
        return self.cycles_ns("qwait_cycles", "rearm_cycles")

    def poll_ns(self, queues: int) -> float:
        """Return the time of an empty poll, by the cache level that holds the heads of so many queues."""
        heads = queues * self["head_bytes"]
        beyond_l1 = max(0.0, 1 - self["l1_bytes"] / heads)
        in_memory = self._in_memory(queues)
        return self["poll_ns"] + beyond_l1 * self["poll_llc_ns"] + in_memory * self["poll_memory_ns"]

    def _in_memory(self, queues: int) -> float:
        """Return the share of heads and task data that do not fit the LLC with so many queues."""
        return max(0.0, 1 - self["llc_bytes"] / (queues * (self["task_bytes"] + self["head_bytes"])))

    def task_ns(self, task: str, queues: int) -> float:
        """Return the time of a task, which depends on the number of queues with tasks."""
        return self[f"{task}_ns"] + self._in_memory(queues) * self["task_memory_ns"]


def chip(path: Path | None = None) -> Chip:
    """Read a chip from a file.

    Raises:
        UsageError: a parameter is missing, unknown, or not a number with its origin.
    """
    shipped = data_folder("configs") / "platforms" / "hyperplane-chip.yaml"
    known = _read(shipped)
    if path is None:
        return known
    found = _read(path)
    if wrong := sorted(set(known.values) ^ set(found.values)):
        what = "is missing" if wrong[0] in known.values else "is not a parameter of the chip"
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
    """Return the number of queues that are always busy."""
    return {"FB": queues, "PC": max(1, round(0.2 * queues)), "NC": min(100, queues), "SQ": 1}[shape]


def turn(shape: Shape, queues: int) -> tuple[float, float]:
    """Return packets and empty polls of one sweep over all queues at saturation."""
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


def light(machine: Chip, task: str, queues: int, how: Notification) -> Outcome:
    """Simulate the time in the system of one core below 1 % load."""
    task_ns = machine.task_ns(task, 1)
    rate_pps = _ZERO_LOAD * 1e9 / task_ns
    system = _system(machine, task_ns, rate_pps, 1, queues, how, 1, None)
    return simulate(system, PACKETS / rate_pps * 1e9, 10 * queues * machine.poll_ns(queues), parts=PARTS)


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
    """Return the model of cores in groups that share the queues; spinning cores of a group share heads."""
    arrivals, service = Arrivals(rate_pps), Service(task_ns)
    if how != "spin":
        system = QwaitCores(arrivals, service, cores, queues, groups, weights, qwait_ns=machine.qwait_ns)
        wake_up_ns = machine["wake_up_ns"] if how == "c1" else 0.0
        return replace(system, notice_ns=machine.cycles_ns("lookup_cycles"), wake_up_ns=wake_up_ns)
    shared = groups < cores
    poll_ns = machine.poll_ns(queues // groups) * (machine["shared_poll_factor"] if shared else 1.0)
    return PollingCores(arrivals, service, cores, queues, weights, shared=shared, burst=1, empty_poll_ns=poll_ns)


@dataclass(frozen=True)
class Multicore:
    """Four cores and 400 queues (figure 10): tails at a load, and the rate of saturation."""

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
        """Return each queue's weight; hot ones are spread evenly over the cores."""
        hot = hot_queues(self.shape, MULTICORE_QUEUES)
        if hot == MULTICORE_QUEUES:
            return None
        each = MULTICORE_QUEUES // CORES
        return tuple(1.0 if queue % each < hot // CORES else _BACKGROUND for queue in range(MULTICORE_QUEUES))

    def tail(self, how: Notification, groups: int, rate_pps: float) -> list[float]:
        """Return 99th percentiles of independent simulations, in ns."""
        # All groups are alike, so one is simulated.
        cores, queues = CORES // groups, MULTICORE_QUEUES // groups
        every = self.weights()
        weights = None if every is None else every[:queues]
        each_pps = rate_pps / groups
        system = _system(self.machine, self.task_ns, each_pps, cores, queues, how, 1, weights)
        window_ns = PACKETS / each_pps * 1e9
        found = [simulate(system, window_ns, window_ns / 10, PARTS + part, 1, 1) for part in range(PARTS)]
        return [float(each.times.percentile(99)) for each in found]


@dataclass(frozen=True)
class Statement:
    """One statement of the paper, and its value on the chip.

    Attributes:
        row: of the paper.
        text: in our own words.
        low, high: allowed.
        lever: parameter that would have to differ if the statement fails. of: computes the chip's value.
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
        """Judge by the interval, as claims are judged."""
        if self.low <= found.low and found.high <= self.high:
            return "consistent by construction" if self.fitted else "agrees"
        return "disagrees" if found.high < self.low or found.low > self.high else "inconclusive"

    def comes_out(self, found: Estimate) -> bool:
        """Return whether the verdict is that the statement holds, by construction or not."""
        return self.verdict(found) in ("agrees", "consistent by construction")

    def needed(self, machine: Chip) -> float | None:
        """Return the lever's nearest value for which the statement holds; None if none lies within a factor of 10."""
        for factor in np.geomspace(1.03, 10, 30):
            for value in (machine[self.lever] * factor, machine[self.lever] / factor):
                if self.comes_out(self.of(machine.having(self.lever, float(value)))):
                    return float(value)
        return None


def _ratio(above: Sequence[float], below: Sequence[float]) -> Estimate:
    return mean_estimate([one / two for one, two in zip(above, below, strict=True)])


def _throughput(machine: Chip) -> float:
    return fmean(
        peak_pps(machine, *each, "qwait") / peak_pps(machine, *each, "spin") for each in product(TASKS, SHAPES, QUEUES)
    )


@cache
def _light(values: tuple[tuple[str, float], ...], task: str, queues: int, how: Notification) -> tuple[float, float]:
    found = light(Chip(dict(values), {}), task, queues, how)
    assert found.mean_ns is not None
    return found.mean_ns.value, float(found.times.percentile(99))


def _zero_load(machine: Chip, task: str, queues: int, how: Notification) -> tuple[float, float]:
    """Return mean and 99th percentile at zero load."""
    return _light(tuple(machine.values.items()), task, queues, how)


def _zero_load_ratio(machine: Chip, place: int) -> float:
    return fmean(
        _zero_load(machine, *each, "spin")[place] / _zero_load(machine, *each, "qwait")[place]
        for each in product(TASKS, QUEUES)
    )


def _crossover(machine: Chip, how: Notification) -> float:
    """Return the number of queues from which spinning has the higher mean; it is the same for all tasks."""
    # The mean of a poller's wait is half a sweep; the tests compare the simulation with this.
    told_ns = machine.qwait_ns + machine.cycles_ns("lookup_cycles")
    told_ns += machine["wake_up_ns"] if how == "c1" else 0.0
    return next((n for n in range(1, 1001) if n * machine.poll_ns(n) / 2 > told_ns), 1001)


def _tail_us(machine: Chip, how: Notification) -> float:
    return max(_zero_load(machine, task, 1000, how)[1] for task in TASKS) / 1e3


def _one_queue(machine: Chip) -> float:
    return max(_zero_load(machine, task, 1, "qwait")[0] / _zero_load(machine, task, 1, "spin")[0] for task in TASKS)


def _least_improvement(machine: Chip) -> Estimate:
    """Return the least improvement of the tail with PC, over loads below the saturation of spinning."""
    system = Multicore(machine, "PC")
    most = system.saturation_pps("spin", CORES)
    loads = [load * most for load in (0.1, 0.3, 0.5, 0.7, 0.9)]
    found = [_ratio(system.tail("qwait", CORES, load), system.tail("spin", CORES, load)) for load in loads]
    worst = max(found, key=lambda each: each.value)
    return replace(worst, value=1 - worst.value, low=1 - worst.high, high=1 - worst.low)


def _saturation(
    machine: Chip, shape: Shape, above: tuple[Notification, int, float], below: tuple[Notification, int, float]
) -> float:
    system = Multicore(machine, shape)
    return system.saturation_pps(*above) / system.saturation_pps(*below)


def _tails(machine: Chip, load: float, above: Notification, below: Notification) -> Estimate:
    system = Multicore(machine, "FB")
    rate = load * system.saturation_pps("spin", CORES)
    return _ratio(system.tail(above, CORES, rate), system.tail(below, CORES, rate))


def _software(machine: Chip, shape: Shape) -> float:
    return min(
        peak_pps(machine, task, shape, 1000, "qwait", software=True) / peak_pps(machine, task, shape, 1000, "qwait")
        for task in TASKS
    )


def _change(machine: Chip, shape: Shape, first: int, last: int) -> float:
    ends = [peak_pps(machine, "encap", shape, queues, "spin") for queues in (first, last)]
    return ends[1] / ends[0]


def _growth(machine: Chip, place: int) -> float:
    """Return the growth over 900 queues divided by that over 450 from the same start: 2 for a straight line."""
    at = {queues: _zero_load(machine, "encap", queues, "spin")[place] for queues in (100, 550, 1000)}
    return (at[1000] - at[100]) / (at[550] - at[100])


def _steeper(machine: Chip) -> float:
    (mean, tail), (more_mean, more_tail) = (_zero_load(machine, "encap", queues, "spin") for queues in (1, 1000))
    return (more_tail - tail) / (more_mean - mean)


@cache
def statements() -> tuple[Statement, ...]:
    """Return what the paper states (data/chip-statements.yaml)."""
    found = []
    for keys in YAML(typ="safe").load(data_folder("data") / "chip-statements.yaml"):
        of = partial(_value, keys["of"])
        low, high, fitted = keys["from"], keys["to"], keys.get("fitted", False)
        found.append(Statement(keys["row"], keys["text"], low, high, keys["lever"], of, fitted))
    return tuple(found)


def _value(of: str | Sequence[Any], machine: Chip) -> Estimate:
    """Return what a statement is about: a formula of the chip's parameters, or a function above with its arguments."""
    found = parse(of)(machine.values) if isinstance(of, str) else globals()[f"_{of[0]}"](machine, *of[1:])
    return found if isinstance(found, Estimate) else Estimate(found, found, found, 1, "formula")


def judged(machine: Chip, rows: Sequence[str] | None = None) -> list[dict[str, object]]:
    """Judge the paper's statements on a chip, each as a row of a table.

    Args:
        machine: the chip.
        rows: of the paper; None: all, in some 10 s of CPU time.

    Raises:
        UsageError: a row without a statement.
    """
    known = list(dict.fromkeys(each.row for each in statements()))
    for row in rows or ():
        if row not in known:
            raise UsageError("is not a row with statements of HyperPlane", row, f"those are {', '.join(known)}")
    return [_judged(each, machine) for each in statements() if rows is None or each.row in rows]


def _judged(statement: Statement, machine: Chip) -> dict[str, object]:
    found, lever = statement.of(machine), statement.lever
    row: dict[str, object] = {"row": statement.row, "statement": statement.text}
    row |= {"from": statement.low, "to": statement.high, "chip": found.value, "low": found.low, "high": found.high}
    row["verdict"] = statement.verdict(found)
    if not statement.comes_out(found):
        row |= {"lever": lever, "is": machine[lever], "would_do": statement.needed(machine)}
    return row
