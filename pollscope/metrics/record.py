# SPDX-License-Identifier: BSD-3-Clause
"""Read one trial record (a line of `trials.jsonl`) strictly by the node protocol.

A missing value raises `NotMeasured` with a reason; a contradiction of the protocol raises `UsageError` with the key.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from pollscope.base.errors import UsageError
from pollscope.metrics.accounting import (
    QUIET_VARIABLES,
    VARIABLES,
    Classes,
    MeasuredCycles,
    NoClasses,
    classes,
)
from pollscope.metrics.probed import COLUMNS, ProbedClasses, ProbedThread, SampledValue, probed_classes
from pollscope.stats.histogram import LARGEST_VALUE, Histogram, merged, parse_histogram

Result = TypeVar("Result")
NS_PER_S = 1e9
_NUMBERS = {int, float}
TAX_CLASSES = ("empty_poll", "loop", "instrumentation")
USEFUL_PARTS = ("receive", "process", "transmit")
_COUNTS_OF_LCORE = (
    "transitions",
    "rx_packets",
    "waited_cycles",
    "event_cycles",
    "sampling_cycles",
    "stamps",
    "stamp_cycles",
)
_CYCLE_CLASSES = ("total", "useful", "wire", "waiting", *TAX_CLASSES)
# Receive, process and transmit are reported if they add up to the useful cycles within this share of the window.
_PARTS_TOLERANCE = 0.02
_POLL_OUTCOMES = ("empty", "partial", "full", "race_lost")


class Flag(TypedDict):
    """Hold the flag of a test: its name, for example `noise:waiting`, and a sentence with numbers."""

    name: str
    text: str


class NotMeasured(Exception):
    """Report that a value is absent; the text is the reason for a reader."""


class OnlyEmptyPolls(NotMeasured):
    """Report that only the empty polls of an lcore's classes are known, with a large error."""

    def __init__(self, reason: str, empty_polls: MeasuredCycles) -> None:
        super().__init__(reason)
        self.empty_polls = empty_polls


@dataclass(slots=True)
class Part:
    """Hold one value of a trial record and its place, so that an error can name it.

    A trial has thousands of them and hardly ever an error: the path is composed only on request.
    """

    value: object
    above: "Part | str"
    keys: Sequence[str] = ()

    @property
    def path(self) -> str:
        """Return the path of keys to this value: `result.dut.lcores[0].polls`."""
        keys: list[str] = []
        place: Part | str = self
        while isinstance(place, Part):
            keys[:0] = place.keys
            place = place.above
        return ".".join([place, *keys] if place else keys).replace(".[", "[")

    def __getitem__(self, key: str) -> "Part":
        """Return the part under `key`.

        Raises:
            NotMeasured: the key is missing, null, or marked absent.
            UsageError: this part is not an object.
        """
        if not isinstance(self.value, dict):
            raise UsageError(f"is {_short(self.value)}, not an object", self.path)
        part = Part(self.value.get(key), self, (key,))
        if part.value is None:
            _raise_if_absent(self.value)
            raise NotMeasured(f"not in the record: {part.path}")
        _raise_if_absent(part.value)
        return part

    def items(self) -> list["Part"]:
        """Return the elements of a list.

        Raises:
            UsageError: this part is not a list.
        """
        if not isinstance(self.value, list):
            raise UsageError(f"is {_short(self.value)}, not a list", self.path)
        return [Part(value, self, (f"[{index}]",)) for index, value in enumerate(self.value)]

    def array(self) -> NDArray[np.float64]:
        """Return the elements of a list of finite numbers, zero or more.

        Raises:
            UsageError: this part is no such list.
        """
        found = _plain_array(self.value) if isinstance(self.value, list) else None
        return np.array([part.number() for part in self.items()]) if found is None else found

    def table(self) -> NDArray[np.float64]:
        """Return a list of such lists of equal length as an array, one row per list.

        Raises:
            UsageError: this part is no such list.
        """
        lists = self.value
        if isinstance(lists, list) and set(map(type, lists)) == {list} and len(set(map(len, lists))) == 1:
            found = _plain_array(list(chain.from_iterable(lists)))
            if found is not None:
                return found.reshape(len(lists), -1)
        rows = [part.array() for part in self.items()]
        if len(set(map(len, rows))) > 1:
            raise UsageError("is not a list of lists of one length", self.path)
        return np.array(rows) if rows else np.empty((0, 0))

    def numbers(self) -> list[float]:
        """Return the same as a list."""
        found: list[float] = self.array().tolist()
        return found

    def numbers_of(self, *keys: str) -> dict[str, float]:
        """Return several numbers of an object.

        Raises:
            NotMeasured: one is missing, null, or marked absent.
            UsageError: this part is not an object, or one of them no finite number of zero or more.
        """
        return {key: self[key].number() for key in keys}

    def estimate(self) -> float:
        """Return a finite number of any sign: an estimate of a small quantity may be below zero.

        Raises:
            UsageError: anything else.
        """
        if isinstance(self.value, int | float) and not isinstance(self.value, bool) and -(2**63) <= self.value < 0:
            return float(self.value)
        return self.number()

    def number(self) -> float:
        """Return a finite number, zero or more.

        Raises:
            UsageError: anything else.
        """
        value = self.value
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise UsageError(f"is {_short(value)}, not a number", self.path)
        if not 0 <= value <= LARGEST_VALUE:
            raise UsageError(f"is {_short(value)}, allowed is 0 to 2^63-1", self.path)
        return float(value)

    def text(self) -> str:
        """Return a string.

        Raises:
            UsageError: anything else.
        """
        if not isinstance(self.value, str):
            raise UsageError(f"is {_short(self.value)}, not a text", self.path)
        return self.value


def _plain_array(values: list[Any]) -> NDArray[np.float64] | None:
    """Convert a list at once if all its numbers are valid; otherwise None. Lists are long."""
    if set(map(type, values)) <= _NUMBERS:
        with suppress(OverflowError):
            found = np.array(values, dtype=float)
            if not values or (found.min() >= 0 and found.max() < LARGEST_VALUE):
                return found
    return None


def _raise_if_absent(value: object) -> None:
    if isinstance(value, dict) and len(value) == 1 and "absent" in value:
        raise NotMeasured(str(value["absent"]) or "the node gave no reason")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


@dataclass(frozen=True, slots=True)
class _Absent:
    reason: str


class TrialObservations:
    """Read the parts of one trial record that metrics are computed from, each once."""

    def __init__(self, record: Mapping[str, object]) -> None:
        self.record = Part(record, "")
        self._histograms: dict[tuple[str, ...], Histogram] = {}
        self._found: dict[object, Any] = {}

    def once(self, compute: Callable[["TrialObservations"], Result]) -> Result:
        """Return the result of `compute` for this trial, which is called only once, even if it raises NotMeasured.

        Raises:
            NotMeasured: raised by `compute`.
            UsageError: raised by `compute`.
        """
        if compute not in self._found:
            try:
                self._found[compute] = compute(self)
            except NotMeasured as absent:
                # The error itself refers to all frames and these to this object: a cycle until garbage collection.
                self._found[compute] = _Absent(str(absent))
        found = self._found[compute]
        if type(found) is _Absent:
            raise NotMeasured(found.reason)
        result: Result = found
        return result

    def part(self, *keys: str) -> Part:
        """Return the part at a path of keys below the record."""
        return at(self.record, keys)

    @cached_property
    def tsc_hz(self) -> float:
        return positive(self.part("result", "window", "tsc_hz"))

    @cached_property
    def generator_tsc_hz(self) -> float:
        """Return the TSC frequency of the generator's host, which on a pair is not the DUT's."""
        try:
            return positive(self.part("result", "gen", "window", "tsc_hz"))
        except NotMeasured:
            return self.tsc_hz

    @cached_property
    def window_s(self) -> float:
        window = self.part("result", "window")
        cycles = window["end_tsc"].number() - window["start_tsc"].number()
        if cycles <= 0:
            raise UsageError("end_tsc is not after start_tsc", window.path)
        return cycles / self.tsc_hz

    @cached_property
    def lcores(self) -> list[Part]:
        return self._lcores("dut", "the trial had no DUT lcore")

    @cached_property
    def generators(self) -> list[Part]:
        return self._lcores("gen", "the trial had no generator")

    def _lcores(self, role: str, none: str) -> list[Part]:
        result = self.part("result")
        if not isinstance(result.value, Mapping) or result.value.get(role) is None:
            raise NotMeasured(none)
        lcores = result[role]["lcores"].items()
        if not lcores:
            raise NotMeasured(none)
        return lcores

    def dut_sum(self, *keys: str) -> float:
        """Return the sum of a number over the DUT's lcores."""
        return sum(at(lcore, keys).number() for lcore in self.lcores)

    def received(self, key: str) -> float:
        """Return the sum of a number over the lcores that read RX queues, which count each packet once."""
        if not self.readers:
            raise NotMeasured("the DUT only sends (workload tx)")
        return sum(lcore[key].number() for lcore in self.readers)

    def sent(self, key: str) -> float:
        """Return the sum of a number over the workers: dispatchers send nothing."""
        return sum(lcore[key].number() for lcore in self.workers)

    @cached_property
    def readers(self) -> list[Part]:
        """Return the lcores that read RX queues."""
        return [lcore for lcore in self.lcores if _source(lcore) == "rx-queues"]

    @cached_property
    def workers(self) -> list[Part]:
        """Return the lcores that send."""
        return [lcore for lcore in self.lcores if _role(lcore) == "worker"]

    @cached_property
    def dispatchers(self) -> list[Part]:
        """Return the lcores that put packets into rings."""
        return [lcore for lcore in self.lcores if _role(lcore) == "dispatcher"]

    def gen_sum(self, *keys: str) -> float:
        """Return the sum of a number over the generator's lcores."""
        return sum(at(lcore, keys).number() for lcore in self.generators)

    @property
    def cycles(self) -> dict[str, float]:
        """Return `total`, `useful`, `wire` and the tax classes, summed over lcores; they add up to the whole window."""
        return self.once(_cycles)

    @property
    def has_modelled_classes(self) -> bool:
        """Return whether a model states the classes; those of a measured trial follow from its timed intervals."""
        return "useful" in keys_of(self.lcores[0]["cycles"])

    @property
    def accounts(self) -> list["Account"]:
        """Return the classes of each lcore."""
        return self.once(_accounts)

    @cached_property
    def wire_cycles_per_frame(self) -> float:
        """Return the cycles per sent frame that the DUT spends as the virtual NIC's DMA engine; 0 with a real NIC."""
        try:
            xstats = self.part("result", "ports", self.part("config", "dut", "tx_port").text(), "xstats")
        except NotMeasured:
            return 0.0
        timed = {
            end: sum(xstats[key].number() for key in keys_of(xstats) if key.endswith(f"_wire_sampled_{end}"))
            for end in ("cycles", "frames")
        }
        return timed["cycles"] / timed["frames"] if timed["frames"] else 0.0

    def useful_part_share(self, name: str) -> float:
        """Return the share of receive, process or transmit in all cycles, if they can be separated."""
        if self.has_modelled_classes:
            return self.dut_sum("cycles", name) / self.cycles["total"]
        return sum(one.part(name) for one in self.accounts) / self.cycles["total"]

    @cached_property
    def total_cycles(self) -> float:
        return nonzero(self.dut_sum("cycles", "total"), "the DUT's window has no cycles")

    @cached_property
    def probed(self) -> list[ProbedClasses]:
        """Return a plug-in's samples of each thread of a foreign program.

        Raises:
            NotMeasured: pollscope's own node was measured, or a thread was sampled too rarely.
        """
        found = [_probed_classes(lcore) for lcore in self.lcores if "probe" in keys_of(lcore)]
        if not found:
            raise NotMeasured("only the plug-in of `pollscope attach` samples it")
        return found

    @cached_property
    def polls(self) -> dict[str, float]:
        """Return polls by outcome, summed over lcores, without `refill_failed` if the driver counts those as empty."""
        if "probe" in keys_of(self.lcores[0]):
            return self._probed_polls()
        counts = {name: self.dut_sum("polls", name) for name in _POLL_OUTCOMES}
        try:
            return counts | {"refill_failed": self.dut_sum("polls", "refill_failed")}
        except NotMeasured:
            return counts

    def _probed_polls(self) -> dict[str, float]:
        """Return empty and busy polls at the program's own pace."""
        empty = busy = 0.0
        for each in self.probed:
            polls, fraction = _known(each.poll_rate_hz) * self.window_s, _known(each.empty_fraction)
            empty, busy = empty + polls * fraction, busy + polls * (1 - fraction)
        return {"empty": empty, "busy": busy}

    @cached_property
    def busy_polls(self) -> float:
        return self.polls["busy"] if "busy" in self.polls else self.polls["partial"] + self.polls["full"]

    @cached_property
    def interrupted_cycles(self) -> float:
        """Return the cycles in which something else had the DUT's CPUs."""
        return self.dut_sum("interruptions", "cycles")

    @cached_property
    def running_cycles(self) -> float:
        """Return the cycles in which the DUT's lcores ran their loop."""
        return nonzero(max(0.0, self.total_cycles - self.interrupted_cycles), "the DUT's lcores never ran")

    @cached_property
    def poll_count(self) -> float:
        return nonzero(sum(self.polls.values()), "no queue was polled in the window")

    @cached_property
    def iterations(self) -> float:
        """Return the sweeps over all queues of an lcore, summed over lcores."""
        if any("notices" in keys_of(lcore) for lcore in self.lcores):
            raise NotMeasured("a notified loop makes no sweeps")
        return nonzero(self.dut_sum("iterations"), "no iteration was completed in the window")

    @cached_property
    def waiting_cycles(self) -> float:
        """Return the cycles in which the DUT's lcores waited for packets, which are measured completely."""
        return sum(lcore["waiting"]["cycles"].number() for lcore in self.lcores if "waiting" in keys_of(lcore))

    @cached_property
    def packets(self) -> float:
        return nonzero(self.received("rx_packets"), "the DUT received no packet in the window")

    @cached_property
    def corunner(self) -> Part:
        """Return the co-runner's counts in the window."""
        if isinstance(self.record.value, Mapping) and self.record.value.get("corunner") is not None:
            for worker in self.part("corunner", "result", "workers").items():
                if worker["name"].text() == "corunner":
                    return worker
        raise NotMeasured("no co-runner ran")

    @cached_property
    def rx_queues(self) -> float:
        """Return the number of RX queues of the port that the DUT polls."""
        name = self.part("config", "dut", "rx_port").text()
        for port in self.part("config", "ports").items():
            if port["name"].text() == name:
                return positive(port["rx_queues"])
        raise UsageError(f"dut.rx_port '{name}' is not among the configured ports", "config.ports")

    @cached_property
    def rx_port(self) -> Part:
        """Return the statistics of the DUT's RX port over the whole trial."""
        name = self.part("config", "dut", "rx_port").text()
        return self.part("result", "ports", name, "stats")

    def dut_histogram(self, name: str) -> Histogram:
        """Return a histogram of the DUT, merged over its lcores; never empty."""
        return self._histogram(self.lcores, ("histograms", name))

    def gen_histogram(self, *keys: str, may_be_empty: bool = False) -> Histogram:
        """Return a histogram of the generator, merged over its lcores; empty only if the caller allows it."""
        return self._histogram(self.generators, keys, may_be_empty)

    def _histogram(self, lcores: Sequence[Part], keys: tuple[str, ...], may_be_empty: bool = False) -> Histogram:
        if keys not in self._histograms:
            self._histograms[keys] = _merged_histogram([at(lcore, keys) for lcore in lcores])
        if self._histograms[keys].samples == 0 and not may_be_empty:
            raise NotMeasured(f"no sample in the histogram {keys[-1]}")
        return self._histograms[keys]

    def floor_histogram(self) -> Histogram:
        """Return latencies, from actual departure, of frames that came straight back to the generator; never empty."""
        histogram = _merged_histogram([self.part("floor", "latency_ns", "from_sent")])
        if histogram.samples == 0:
            raise NotMeasured("no frame came back when the floor was measured")
        return histogram

    def nic_stamps(self) -> Part:
        """Return the samples by the clock of the generator's NICs; some frames have both stamps."""
        params = self.part("params").value
        if not (isinstance(params, Mapping) and params.get("nic_timestamps")):
            raise NotMeasured("the spec requests no frames that NICs stamp (parameter nic_timestamps)")
        stamps = self.generators[0]["nic_stamps"]
        sent, back = (int(stamps[name].number()) for name in ("sent", "back"))
        if not back:
            raise NotMeasured(f"none of {sent} frames for the NIC to stamp came back")
        if not stamps["latency_ns"]["total"].number():
            bad = ", ".join(f"{stamps[name].number():.0f} {name}" for name in ("unstamped", "implausible"))
            raise NotMeasured(f"of {back} frames that came back none has two plausible stamps ({bad})")
        return stamps

    def nic_histogram(self, name: str) -> Histogram:
        """Return latencies of those frames: `latency_ns` by NIC clock, `software_ns` by the generator's; not empty."""
        return _merged_histogram([self.nic_stamps()[name]])

    def pmu(self, scope: str, event: str) -> float:
        """Return the events of a scope (window, useful, polling), summed over the DUT's lcores."""
        return sum(at(counted, (scope, event)).number() for counted in self.once(_pmus))

    def in_ns(self, value: float, unit: str) -> float:
        """Return a value of a histogram in nanoseconds."""
        if unit not in ("ns", "cycles"):
            raise UsageError(f"a histogram has the unit '{unit}', allowed are ns and cycles", "result")
        return value if unit == "ns" else value / self.tsc_hz * NS_PER_S


def _pmus(trial: TrialObservations) -> list[Part]:
    return [lcore["pmu"] for lcore in trial.lcores]


def _cycles(trial: TrialObservations) -> dict[str, float]:
    if not trial.has_modelled_classes:
        return {name: sum(getattr(one, name) for one in trial.accounts) for name in _CYCLE_CLASSES}
    classes_of_model = {name: trial.dut_sum("cycles", name) for name in ("useful", *TAX_CLASSES)}
    return classes_of_model | {"total": trial.total_cycles, "waiting": trial.waiting_cycles, "wire": 0.0}


def _accounts(trial: TrialObservations) -> list["Account"]:
    return [Account(lcore, trial.wire_cycles_per_frame) for lcore in trial.lcores]


class Account:
    """Hold the classes of one lcore (docs/validity.md), in cycles.

    Raises:
        OnlyEmptyPolls: the cost of an empty poll is known too badly.
        NotMeasured: the accounting mode has no classes, or its timed intervals were too few.
    """

    def __init__(self, lcore: Part, wire_cycles_per_frame: float) -> None:
        found = _classes_by_probe(lcore) if "probe" in keys_of(lcore) else classes(_recorded(lcore))
        if isinstance(found, NoClasses):
            raise OnlyEmptyPolls(found.reason, found.empty_polls) if found.empty_polls else NotMeasured(found.reason)
        self.lcore, self.classes = lcore, found
        self.total, self.loop, self.instrumentation = found.total, found.loop, found.instrumentation
        self.empty_poll, self.waiting = found.empty_poll.value, found.waiting
        self.wire = _optional(lcore, "tx_packets") * wire_cycles_per_frame
        self.useful = found.packets.value - self.wire
        if self.wire > max(0.0, found.packets.value) + found.packets.error:
            raise NotMeasured(
                f"the wire, timed burst by burst, takes {100 * self.wire / self.total:.1f} % of the window, all that "
                f"has to do with packets {100 * found.packets.value / self.total:.1f} %: bursts overlap in the loop"
            )

    def part(self, name: str) -> float:
        """Return receive, process or transmit, timed per busy poll, if these add up to all useful cycles."""
        timed = timed_parts(self.lcore)
        timed["transmit"] -= self.wire
        excess = (sum(timed.values()) - self.useful) / self.total
        if abs(excess) > _PARTS_TOLERANCE:
            raise NotMeasured(
                f"timed one at a time, busy polls take {100 * abs(excess):.1f} % of the window "
                f"{'more' if excess > 0 else 'less'} than in the loop, so their parts do not add up"
            )
        return timed[name]

    @property
    def idle_iterations(self) -> float:
        """Return the cycles of iterations without a packet; a notified loop makes one poll per iteration."""
        if "notices" in keys_of(self.lcore):
            return self.empty_poll
        return self.lcore["idle_iterations"].number() * self.lcore["queues"].number() * self.classes.empty_poll_cycles

    @property
    def interaction(self) -> MeasuredCycles:
        """Return Classes.interaction."""
        return _known(self.classes.interaction)

    @property
    def misfit(self) -> float:
        """Return Classes.misfit."""
        return _known(self.classes.misfit)


def _probed_classes(lcore: Part) -> ProbedClasses:
    """Return the classes of one thread that the plug-in sampled."""
    probe = lcore["probe"]
    blocks = probe["blocks"].table()
    if blocks.shape[1] != len(COLUMNS):
        raise UsageError(f"is not a list of blocks with {len(COLUMNS)} numbers each", probe["blocks"].path)
    rate = _or_absent(probe, "rx_pps")
    thread = ProbedThread(
        blocks,
        positive(probe["tsc_hz"]),
        SampledValue(**probe["callback_cycles"].numbers_of("value", "error")),
        **probe.numbers_of("tx_callback_cycles", "max_burst", "queues", "loaded_queues"),
        rx_pps=rate if isinstance(rate, float) else None,
    )
    return _known(probed_classes(thread))


def _classes_by_probe(lcore: Part) -> Classes:
    found = _probed_classes(lcore)
    total = lcore["cycles"]["total"].number()
    sampled = float(lcore["probe"]["blocks"].table()[:, COLUMNS.index("sampled_cycles")].sum())
    useful = MeasuredCycles(found.useful.value * total, found.useful.error * total)
    interrupted, instrumentation = found.interrupted * total, found.stamped * sampled
    empty = total - useful.value - interrupted - instrumentation
    cost = 0.0 if isinstance(found.empty_poll_cycles, str) else found.empty_poll_cycles.value
    unknown = "a plug-in cannot tell busy polls by themselves from their interaction with empty polls"
    return Classes(
        total, MeasuredCycles(empty, useful.error), interrupted, instrumentation, useful, unknown, unknown, cost
    )


def timed_parts(lcore: Part) -> dict[str, float]:
    """Return the cycles of all busy polls as timed one at a time; zeros where there was none."""
    if lcore["polls"]["partial"].number() + lcore["polls"]["full"].number() == 0:
        return dict.fromkeys(USEFUL_PARTS, 0.0)
    parts = {name: lcore["timed"][f"{name}_cycles"].estimate() for name in USEFUL_PARTS}
    parts["process"] += lcore["waited_cycles"].number()
    return parts


def _recorded(lcore: Part) -> dict[str, object]:
    """Return the values of an lcore that classes() reads, each checked."""
    if "timed_intervals" not in keys_of(lcore):
        return {"accounting": lcore["accounting"].text()}
    numbers = lcore.numbers_of(*_COUNTS_OF_LCORE)
    return (
        {**numbers}
        | _waiting(lcore)
        | {
            "packets": _optional(lcore, "packets", numbers["rx_packets"]),
            "series": _series(lcore),
            "cycles": {"total": nonzero(lcore["cycles"]["total"].number(), "the DUT's window has no cycles")},
            "interruptions": {"cycles": lcore["interruptions"]["cycles"].number()},
            "polls": {
                **lcore["polls"].numbers_of("empty", "partial", "full", "race_lost"),
                "refill_failed": _or_absent(lcore["polls"], "refill_failed"),
            },
            "lock": {"cycles": lcore["lock"]["cycles"].number() if "lock" in keys_of(lcore) else 0.0},
            "empty_poll_cycles": _or_absent(lcore, "empty_poll_cycles"),
            "timed_intervals": {
                "blocks": _sums(lcore["timed_intervals"]["blocks"], VARIABLES),
                "quiet": _sums(lcore["timed_intervals"]["quiet"], QUIET_VARIABLES),
            },
        }
    )


def _waiting(lcore: Part) -> dict[str, object]:
    """Return the waits and notifications of an lcore that waits for packets; nothing for others."""
    if "waiting" not in keys_of(lcore):
        return {}
    waiting: dict[str, object] = {"waiting": {"cycles": lcore["waiting"]["cycles"].number()}}
    if "notices" not in keys_of(lcore):
        return waiting
    sums = ("samples", "cycles", "squared_cycles")
    notices = {kind: lcore["notices"][kind].numbers_of(*sums) for kind in ("empty", "busy_polls")}
    return waiting | {"notices": notices}


def _or_absent(part: Part, key: str) -> object:
    """Return a number, or the mark of an absent value with the reason."""
    try:
        return part[key].number()
    except NotMeasured as reason:
        return {"absent": str(reason)}


def _series(lcore: Part) -> dict[str, NDArray[np.float64]]:
    """Return cycles and sweeps of the parts of the window; nothing if the record has none."""
    if "series" not in keys_of(lcore):
        return {}
    return {name: lcore["series"][name].array() for name in ("cycles", "sweeps")}


def _sums(blocks: Part, variables: int) -> NDArray[np.float64]:
    """Return, per block, a number of timed intervals and the sums of products of that many variables."""
    rows = blocks.table()
    columns = 1 + variables * (variables + 1) // 2
    if rows.shape[1] != columns:
        raise UsageError(f"is not a list of blocks with {columns} numbers each", blocks.path)
    return rows


def _known(value: Result | str) -> Result:
    if isinstance(value, str):
        raise NotMeasured(value)
    return value


def keys_of(part: Part) -> list[str]:
    """Return the keys of an object in order; nothing for other values."""
    return list(part.value) if isinstance(part.value, Mapping) else []


def _optional(lcore: Part, key: str, default: float = 0.0) -> float:
    return lcore[key].number() if isinstance(lcore.value, Mapping) and key in lcore.value else default


def _source(lcore: Part) -> object:
    # Runs that are older than rings have neither: all lcores were workers at RX queues.
    return lcore.value.get("source", "rx-queues") if isinstance(lcore.value, Mapping) else None


def _role(lcore: Part) -> object:
    return lcore.value.get("role", "worker") if isinstance(lcore.value, Mapping) else None


def at(part: Part, keys: Sequence[str]) -> Part:
    """Return the part at a path of keys below another part.

    Raises:
        NotMeasured: a key is missing, null, or marked absent.
        UsageError: a part on the way is not an object.
    """
    for key in keys:
        part = part[key]
    return part


def positive(part: Part) -> float:
    """Return a number above 0; raise UsageError with the place otherwise."""
    value = part.number()
    if value == 0:
        raise UsageError("is 0, allowed is more than 0", part.path)
    return value


def nonzero(value: float, reason: str) -> float:
    """Return a divisor; raise NotMeasured with the reason if it is 0."""
    if value == 0:
        raise NotMeasured(reason)
    return value


def _merged_histogram(parts: Sequence[Part]) -> Histogram:
    return merged([parse_histogram(part.value, part.path) for part in parts], parts[0].path)
