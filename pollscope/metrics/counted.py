# SPDX-License-Identifier: BSD-3-Clause
"""Compute metrics from the collectors' counts in the measurement window: the `means` of a trial record.

Several collectors may count the same quantity; the first that counted it in this trial is used, and two are never
added. A quantity that none of them counted is absent, with the reason for each.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from ruamel.yaml import YAML

from pollscope.base.errors import one_line
from pollscope.base.paths import data_folder
from pollscope.metrics.formulas import Compute
from pollscope.metrics.formulas.traffic import TRAFFIC
from pollscope.metrics.record import NS_PER_S, NotMeasured, Part, TrialObservations, keys_of, nonzero
from pollscope.stats.littles_law import BITS_PER_BYTE, outstanding_requests

# One source of a quantity: a collector, and its metrics to add (configs/counted.yaml).
_Way = tuple[str, Sequence[str]]

_TABLES: dict[str, Any] = YAML(typ="safe").load(data_folder("configs") / "counted.yaml")
# Settings of devices that metrics need; a trial's record has them as `states` of their collector.
STATES: Mapping[str, Sequence[str]] = {
    "mlxconfig": ("LOG_MAX_OUTSTANDING_WQE",),
    "pcie": ("link_speed", "link_width", "max_payload", "max_read_request", "tags"),
}


def _each(by: str, *metrics: str, of: str = "") -> tuple[_Way, ...]:
    """Return the ways of a collector or a group of collectors, on a host of a pair."""
    host = f"{of}/" if of else ""
    return tuple((host + collector, metrics) for collector in _TABLES["collectors"].get(by, [by]))


def _ways(name: str, of: str = "") -> tuple[_Way, ...]:
    every = (item for way in _TABLES["ways"][name] for item in way.items())
    return tuple(way for by, metrics in every for way in _each(by, *metrics, of=of))


def _first(trial: TrialObservations, ways: Sequence[_Way], compute: Callable[[_Way], float]) -> float:
    """Return the value of the first way that works.

    Raises:
        NotMeasured: none does; the text gives the reason for each collector of the run.
    """
    there = trial.once(_collectors)
    reasons: dict[str, str] = {}
    for way in ways:
        if way[0] not in there:
            continue
        try:
            return compute(way)
        except NotMeasured as absent:
            reasons.setdefault(way[0], str(absent))
    said = [f"{name} {reason}" for name, reason in reasons.items()]
    names = ", ".join(dict.fromkeys(name for name, _ in ways))
    raise NotMeasured("; ".join(said) or f"no collector of this trial counts it (the spec may name {names})")


def _means(trial: TrialObservations, collector: str) -> Mapping[str, Any]:
    """Return a collector's means.

    Raises:
        NotMeasured: it delivered nothing.
    """
    part = trial.once(_collectors)[collector]
    try:
        means = part["means"].value
    except NotMeasured:
        means = None
    if not isinstance(means, Mapping) or not means:
        reason = part["reason"].text() if part["status"].text() != "ok" else "gave no value in the window"
        raise NotMeasured(f"is {part['status'].text()}: {reason}")
    return means


def _collectors(trial: TrialObservations) -> dict[str, Part]:
    """Return the record of each collector; on a pair, the DUT's collectors are also listed without their host."""
    found: dict[str, Part] = {}
    with suppress(NotMeasured):
        every = trial.part("collectors")
        for key in keys_of(every):
            with suppress(NotMeasured):
                found[key] = every[key]
    return {key.removeprefix("dut/"): part for key, part in found.items()} | found


def is_counted(trial: TrialObservations) -> bool:
    """Return whether a trial has a source of these metrics: a collector's record, or a model's own power."""
    modelled = isinstance(trial.record.value, Mapping) and trial.record.value.get("modelled")
    return bool(modelled or trial.once(_collectors))


@cache
def reasons_without_collectors() -> Mapping[str, str]:
    """Return why these metrics are absent where `is_counted` says no; cached, as they are a third of all metrics."""
    reasons = {}
    for name, compute in COUNTED.items():
        try:
            compute(TrialObservations({}))
        except NotMeasured as absent:
            reasons[name] = one_line(str(absent))
    return reasons


def _added(trial: TrialObservations, way: _Way) -> float:
    """Return the sum of the means of a way's metrics."""
    means, total = _means(trial, way[0]), 0.0
    for name in way[1]:
        mean = means.get(name.rstrip("?"))
        if mean is not None:
            total += float(mean["value"])
        elif not name.endswith("?"):
            raise NotMeasured(f"gave no {name} in the window")
    return total


def device_state(trial: TrialObservations, collector: str, name: str) -> float:
    """Return a setting of the DUT's NIC: that of its RX port, or of the only device that has one.

    Raises:
        NotMeasured: no collector recorded it, or several devices have one.
    """

    def found(way: _Way) -> float:
        part = trial.once(_collectors)[way[0]]
        states = part.value.get("states") if isinstance(part.value, Mapping) else None
        known = {path: each[name] for path, each in (states or {}).items() if name in each}
        port = trial.part("config", "dut", "rx_port").text()
        own = [value for path, value in known.items() if port.endswith(path.rpartition("device:")[2])]
        values = own or list(known.values())
        if len(values) != 1:
            raise NotMeasured(f"gave no {name}" if not values else f"gave {name} of {len(values)} devices")
        return float(values[0])

    return _first(trial, [(collector, ())], found)


def _rate(*ways: _Way) -> Compute:
    return lambda trial: _first(trial, ways, lambda way: _added(trial, way))


def _share(part: Sequence[str], whole: Sequence[str], by: str, none: str) -> Compute:
    """Return a part's share of the whole, both counted by one collector."""
    return lambda trial: _first(
        trial, _each(by, *part), lambda way: _added(trial, way) / nonzero(_added(trial, (way[0], whole)), none)
    )


def _clock_hz(trial: TrialObservations, way: _Way) -> float:
    """Return the clock of the units of one kind, which all have the same one."""
    mean = _means(trial, way[0]).get(way[1][0])
    if mean is None:
        raise NotMeasured(f"gave no {way[1][0]} in the window")
    return nonzero(float(mean["value"]) / float(mean["units"]), f"{way[1][0]} stood still")


def _under_way(occupancy: str, clock: str, by: str) -> Compute:
    """Return the requests under way in all units of one kind: entries summed over cycles / cycles."""
    return lambda trial: _first(
        trial, _each(by, occupancy), lambda way: _added(trial, way) / _clock_hz(trial, (way[0], [clock]))
    )


def _latency_ns(occupancy: str, inserts: Sequence[str], none: str) -> Compute:
    """Return the latency by Little's law in a CHA: requests under way / requests per second."""

    def found(trial: TrialObservations, way: _Way) -> float:
        cycles = _added(trial, way) / nonzero(_added(trial, (way[0], inserts)), none)
        return cycles * NS_PER_S / _clock_hz(trial, (way[0], ["cha_clock"]))

    return lambda trial: _first(trial, _each("perf-uncore", occupancy), lambda way: found(trial, way))


def _total_of_units(*ways: _Way) -> Compute:
    """Sum a gauge over its units, such as packages' power; the recorded mean is an average over units."""

    def total(trial: TrialObservations, way: _Way) -> float:
        _added(trial, way)  # absent with its reason
        means = _means(trial, way[0])
        return sum(float(means[name]["value"]) * float(means[name]["units"]) for name in way[1])

    return lambda trial: _first(trial, ways, lambda way: total(trial, way))


def _per_packet(counted: Compute) -> Compute:
    return lambda trial: counted(trial) * trial.window_s / trial.packets


_PER: dict[str, Callable[[Compute], Compute]] = {
    "packet": _per_packet,
    "sent": lambda counted: (
        lambda trial: (
            counted(trial) * trial.window_s / nonzero(trial.sent("tx_packets"), "the DUT sent no packet in the window")
        )
    ),
    "offered": lambda counted: (
        lambda trial: counted(trial) / nonzero(TRAFFIC["offered_pps"](trial), "the generator sent nothing")
    ),
}


def _tabled(way: str, per: str = "", of: str = "", times: float = 1, over: float = 1) -> Compute:
    """Return how a metric of the table `rates` is computed."""
    rate = _rate(*_ways(way, of))
    return _PER[per](rate) if per else lambda trial: rate(trial) * times / over


def _hits(trial: TrialObservations) -> float:
    def found(way: _Way) -> float:
        return _added(trial, (way[0], ["iotlb.lookups"])) - _added(trial, way)

    return _first(trial, _ways("iotlb_misses"), found)


# Data of one read: packets of 64 B, without which the law's sizes are unknown (intra-host paper, section 4.1).
_READ_BYTES = 64
_NJ_PER_J = 1e9
# DMA writes go into the caches line by line.
LINE_BYTES = 64


def _reads_under_way(bytes_per_s: Callable[[TrialObservations], float]) -> Compute:
    """Apply Little's law to the NIC's own latency and a rate of reads in bytes."""
    return lambda trial: outstanding_requests(
        BITS_PER_BYTE * bytes_per_s(trial), COUNTED["nic_pcie_latency_ns"](trial), _READ_BYTES
    )


# The clocks in which page walkers count cycles: of the IIO, or of the VT-d unit itself.
_WALKER_CLOCKS = {"perf-uncore": "iio_clock", "vtd-pmu": "iommu_clocks"}


def _walks_under_way(trial: TrialObservations) -> float:
    """Return the mean number of page walks under way, over all walkers."""

    def found(way: _Way) -> float:
        return _added(trial, way) / _clock_hz(trial, (way[0], [_WALKER_CLOCKS[way[0]]]))

    ways = [(collector, ["page_walk_occupancy"]) for collector in _WALKER_CLOCKS]
    return _first(trial, ways, found)


def _credits_used(_trial: TrialObservations) -> float:
    raise NotMeasured(
        "no register and no counter of NIC or IIO shows the credits that both ends of a link grant each other: "
        "nic_pcie_read_stalled_share and nic_pcie_write_stalled_share say for how long the NIC had none"
    )


# One quantity, measured in three ways.
OUTSTANDING = ("outstanding_reads_nic", "outstanding_reads_iotlb", "outstanding_reads_iio")


def _most_reads(trial: TrialObservations) -> float:
    """Return the largest measured number of reads, so that the used share of a limit is not understated.

    Raises:
        NotMeasured: none of them was measured.
    """
    reads = []
    for name in OUTSTANDING:
        with suppress(NotMeasured):
            reads.append(COUNTED[name](trial))
    return max(reads) if reads else COUNTED[OUTSTANDING[0]](trial)


def _disagreement(trial: TrialObservations) -> float:
    """Return the excess of the largest number of reads over the smallest."""
    found = []
    for name in OUTSTANDING:
        with suppress(NotMeasured):
            found.append(nonzero(COUNTED[name](trial), f"{name} is 0"))
    if len(found) < 2:
        raise NotMeasured(f"fewer than two of {', '.join(OUTSTANDING)} were measured")
    return max(found) / min(found) - 1


def _power_w(trial: TrialObservations) -> float:
    """Return the packages' power; a modelled trial has that of the DUT's cores alone."""
    if trial.record.value.get("modelled"):  # type: ignore[attr-defined]
        return trial.part("result", "power_w").number()
    return _total_of_units(("turbostat", ["package_power"]), ("pcm-power", ["package_power"]))(trial)


COUNTED: dict[str, Compute] = {
    **{name: _tabled(**each) for name, each in _TABLES["rates"].items()},
    **{name: _share(**each) for name, each in _TABLES["shares"].items()},
    **{name: _under_way(**each) for name, each in _TABLES["under_way"].items()},
    **{name: _latency_ns(**each) for name, each in _TABLES["latencies"].items()},
    "iotlb_hits_per_s": _hits,
    "page_walks_under_way": _walks_under_way,
    "dram_bytes_per_s": lambda trial: (
        COUNTED["dram_read_bytes_per_s"](trial) + COUNTED["dram_write_bytes_per_s"](trial)
    ),
    "outstanding_reads_nic": _reads_under_way(_rate(*_ways("nic_inbound"))),
    "outstanding_reads_iotlb": _reads_under_way(lambda trial: _READ_BYTES * COUNTED["iotlb_lookups_per_s"](trial)),
    "outstanding_reads_iio": _reads_under_way(_rate(*_ways("nic_dma_read"), *_ways("dma_read"))),
    "outstanding_reads_disagreement": _disagreement,
    "outstanding_writes_iio": lambda trial: outstanding_requests(
        BITS_PER_BYTE * COUNTED["pcie_dma_write_bytes_per_s"](trial), COUNTED["cha_write_latency_ns"](trial), LINE_BYTES
    ),
    "nic_tags": lambda trial: device_state(trial, "pcie", "tags"),
    "nic_work_requests": lambda trial: 2 ** device_state(trial, "mlxconfig", "LOG_MAX_OUTSTANDING_WQE"),
    "tags_used_share": lambda trial: _most_reads(trial) / COUNTED["nic_tags"](trial),
    "work_requests_used_share": lambda trial: _most_reads(trial) / COUNTED["nic_work_requests"](trial),
    "credits_used_share": _credits_used,
    "energy_per_packet_nj": lambda trial: _NJ_PER_J * _per_packet(_power_w)(trial),
    "package_power_w": _power_w,
}
# For a co-runner without counts of its own.
corunner_ipc = _share(["instructions"], ["cycles"], "perf-corunner", "counted no cycle")
