# SPDX-License-Identifier: BSD-3-Clause
"""Compute metrics from the collectors' counts in the measurement window: the `means` of a trial record.

Several collectors may count the same quantity; the first that counted it in this trial is used, and two are never
added. A quantity that none of them counted is absent, with the reason for each.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from pollscope.base.errors import one_line
from pollscope.metrics.formulas import Compute
from pollscope.metrics.formulas.traffic import TRAFFIC
from pollscope.metrics.record import NS_PER_S, NotMeasured, Part, TrialObservations, keys_of, nonzero
from pollscope.stats.littles_law import BITS_PER_BYTE, outstanding_requests

# One source of a quantity: a collector, and its metrics to add. A `?` at the end marks one that not every processor
# has.
_Way = tuple[str, Sequence[str]]

_NIC_DMA_WRITE: tuple[_Way, ...] = (("pcm-iio", ["nic_dma_write"]), ("perf-uncore", ["nic_dma_write"]))
_NIC_DMA_READ: tuple[_Way, ...] = (("pcm-iio", ["nic_dma_read"]), ("perf-uncore", ["nic_dma_read"]))
_DMA_WRITE: tuple[_Way, ...] = (
    ("pcm-iio", ["dma_write"]),
    ("perf-uncore", ["dma_write"]),
    ("perf-uncore", ["dma_write_local", "dma_write_remote"]),
    ("pcm-pcie", ["pcie_write_bytes"]),
)
_DMA_READ: tuple[_Way, ...] = (
    ("pcm-iio", ["dma_read"]),
    ("perf-uncore", ["dma_read"]),
    ("perf-uncore", ["dma_read_local", "dma_read_remote"]),
    ("pcm-pcie", ["pcie_read_bytes"]),
)
_DRAM_READ: tuple[_Way, ...] = (
    ("pcm-memory", ["dram_read"]),
    ("perf-uncore", ["dram_read"]),
    ("perf-uncore", ["dram_read_schedule0", "dram_read_schedule1"]),
    ("pcm", ["memory_read"]),
    ("amd-uprof-pcm", ["dram_read"]),
)
_DRAM_WRITE: tuple[_Way, ...] = (
    ("pcm-memory", ["dram_write"]),
    ("perf-uncore", ["dram_write"]),
    ("perf-uncore", ["dram_write_schedule0", "dram_write_schedule1"]),
    ("pcm", ["memory_write"]),
    ("amd-uprof-pcm", ["dram_write"]),
)
_IOMMU_COLLECTORS = ("pcm-iio", "perf-uncore", "vtd-pmu", "amd-iommu", "qemu-vtd")
_LLC_COLLECTORS = ("pcm-pcie", "perf-uncore")
_NIC_COLLECTORS = ("ethtool", "dpdk-telemetry")
# Settings of devices that metrics need; a trial's record has them as `states` of their collector.
STATES: Mapping[str, Sequence[str]] = {
    "mlxconfig": ("LOG_MAX_OUTSTANDING_WQE",),
    "pcie": ("link_speed", "link_width", "max_payload", "max_read_request", "tags"),
}


def _each(collectors: Sequence[str], *metrics: str) -> tuple[_Way, ...]:
    return tuple((collector, metrics) for collector in collectors)


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


def _share(part: Sequence[str], whole: Sequence[str], collectors: Sequence[str], none: str) -> Compute:
    """Return a part's share of the whole, both counted by one collector."""
    return lambda trial: _first(
        trial,
        _each(collectors, *part),
        lambda way: _added(trial, way) / nonzero(_added(trial, (way[0], whole)), none),
    )


def _clock_hz(trial: TrialObservations, way: _Way) -> float:
    """Return the clock of the units of one kind, which all have the same one."""
    mean = _means(trial, way[0]).get(way[1][0])
    if mean is None:
        raise NotMeasured(f"gave no {way[1][0]} in the window")
    return nonzero(float(mean["value"]) / float(mean["units"]), f"{way[1][0]} stood still")


def _under_way(occupancy: str, clock: str) -> Compute:
    """Return the requests under way in all units of one kind: entries summed over cycles / cycles."""

    def found(trial: TrialObservations, way: _Way) -> float:
        return _added(trial, way) / _clock_hz(trial, (way[0], [clock]))

    return lambda trial: _first(trial, _each(["perf-uncore"], occupancy), lambda way: found(trial, way))


def _latency_ns(occupancy: str, inserts: Sequence[str], none: str) -> Compute:
    """Return the latency by Little's law in a CHA: requests under way / requests per second."""

    def found(trial: TrialObservations, way: _Way) -> float:
        cycles = _added(trial, way) / nonzero(_added(trial, (way[0], inserts)), none)
        return cycles * NS_PER_S / _clock_hz(trial, (way[0], ["cha_clock"]))

    return lambda trial: _first(trial, _each(["perf-uncore"], occupancy), lambda way: found(trial, way))


def _total_of_units(*ways: _Way) -> Compute:
    """Sum a gauge over its units, such as packages' power; the recorded mean is an average over units."""

    def total(trial: TrialObservations, way: _Way) -> float:
        _added(trial, way)  # absent with its reason
        means = _means(trial, way[0])
        return sum(float(means[name]["value"]) * float(means[name]["units"]) for name in way[1])

    return lambda trial: _first(trial, ways, lambda way: total(trial, way))


def _of_the_generator(ways: Sequence[_Way]) -> tuple[_Way, ...]:
    """Return the same collectors on the generator's host of a pair."""
    return tuple((f"generator/{collector}", metrics) for collector, metrics in ways)


def _per_packet(counted: Compute) -> Compute:
    return lambda trial: counted(trial) * trial.window_s / trial.packets


def _per_sent_packet(counted: Compute) -> Compute:
    return lambda trial: (
        counted(trial) * trial.window_s / nonzero(trial.sent("tx_packets"), "the DUT sent no packet in the window")
    )


def _per_offered_packet(counted: Compute) -> Compute:
    return lambda trial: counted(trial) / nonzero(TRAFFIC["offered_pps"](trial), "the generator sent nothing")


def _hits(trial: TrialObservations) -> float:
    def found(way: _Way) -> float:
        return _added(trial, (way[0], ["iotlb.lookups"])) - _added(trial, way)

    return _first(trial, _IOTLB_MISSES, found)


_IOTLB_MISSES = _each(_IOMMU_COLLECTORS, "iotlb.misses")
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

    return _first(trial, _each(tuple(_WALKER_CLOCKS), "page_walk_occupancy"), found)


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
    "pcie_dma_write_bytes_per_s": _rate(*_DMA_WRITE),
    "pcie_dma_read_bytes_per_s": _rate(*_DMA_READ),
    "nic_dma_write_bytes_per_s": _rate(*_NIC_DMA_WRITE),
    "nic_dma_read_bytes_per_s": _rate(*_NIC_DMA_READ),
    "pcie_mmio_write_bytes_per_s": _rate(("pcm-iio", ["mmio_write"])),
    "pcie_mmio_read_bytes_per_s": _rate(("pcm-iio", ["mmio_read"])),
    "iotlb_hits_per_s": _hits,
    "iotlb_lookups_per_s": _rate(*_each(_IOMMU_COLLECTORS, "iotlb.lookups")),
    "iotlb_misses_per_s": _rate(*_IOTLB_MISSES),
    "iotlb_miss_share": _share(["iotlb.misses"], ["iotlb.lookups"], _IOMMU_COLLECTORS, "counted no IOTLB lookup"),
    "iotlb_misses_per_packet": _per_packet(_rate(*_IOTLB_MISSES)),
    "iotlb_misses_per_sent_packet": _per_sent_packet(_rate(*_IOTLB_MISSES)),
    "pcie_dma_read_bytes_per_sent_packet": _per_sent_packet(_rate(*_DMA_READ)),
    "iotlb_walk_latency_cycles": _rate(*_each(_IOMMU_COLLECTORS, "iotlb.walk_latency")),
    "page_walks_under_way": _walks_under_way,
    "completion_buffer_latency_cycles": _share(
        ["completion_buffer_occupancy"],
        ["completion_buffer_inserts"],
        ["perf-uncore"],
        "counted no completion with data",
    ),
    "irp_queue_latency_cycles": _share(
        ["irp_queue_occupancy"], ["irp_queue_inserts"], ["perf-uncore"], "counted no request of a device"
    ),
    "cha_read_latency_cycles": _share(
        ["pcirdcur_occupancy"], ["pcirdcur_hit", "pcirdcur_miss"], ["perf-uncore"], "counted no read of a device"
    ),
    "dram_read_queue_latency_cycles": _share(
        ["read_queue_occupancy"], ["read_queue_inserts"], ["perf-uncore"], "counted no read of DRAM"
    ),
    "iommu_memory_accesses_per_s": _rate(*_each(_IOMMU_COLLECTORS, "iommu_memory_accesses")),
    "dma_write_llc_hit_share": _share(
        ["itom_hit", "itomcachenear_hit?"],
        ["itom_hit", "itomcachenear_hit?", "itom_miss", "itomcachenear_miss?"],
        _LLC_COLLECTORS,
        "counted no write of a device",
    ),
    "dma_read_llc_hit_share": _share(
        ["pcirdcur_hit"], ["pcirdcur_hit", "pcirdcur_miss"], _LLC_COLLECTORS, "counted no read of a device"
    ),
    "dram_read_bytes_per_s": _rate(*_DRAM_READ),
    "dram_write_bytes_per_s": _rate(*_DRAM_WRITE),
    "dram_bytes_per_s": lambda trial: _rate(*_DRAM_READ)(trial) + _rate(*_DRAM_WRITE)(trial),
    "dram_read_bytes_per_packet": _per_packet(_rate(*_DRAM_READ)),
    "dram_write_bytes_per_packet": _per_packet(_rate(*_DRAM_WRITE)),
    "generator_dram_read_bytes_per_packet": _per_offered_packet(_rate(*_of_the_generator(_DRAM_READ))),
    "generator_dram_write_bytes_per_packet": _per_offered_packet(_rate(*_of_the_generator(_DRAM_WRITE))),
    "host_llc_misses_per_s": _rate(("pcm", ["l3_misses"]), ("perf", ["cache-misses"])),
    "nic_rx_no_descriptor_per_s": _rate(*_each(_NIC_COLLECTORS, "nic.rx_no_descriptor")),
    "nic_rx_port_discards_per_s": _rate(*_each(_NIC_COLLECTORS, "nic.rx_port_discards")),
    "nic_pcie_read_stalled_share": lambda trial: (
        _rate(*_each(_NIC_COLLECTORS, "nic.pcie_read_stalled_percent"))(trial) / 100
    ),
    "nic_pcie_write_stalled_share": lambda trial: (
        _rate(*_each(_NIC_COLLECTORS, "nic.pcie_write_stalled_percent"))(trial) / 100
    ),
    "nic_pcie_no_completion_clocks": _rate(("neohost", ["pcie_stalled_no_completion"])),
    "nic_pcie_latency_ns": lambda trial: _rate(("neohost", ["pcie_latency_mean"]))(trial) * NS_PER_S,
    "outstanding_reads_nic": _reads_under_way(_rate(("neohost", ["pcie_inbound"]))),
    "outstanding_reads_iotlb": _reads_under_way(
        lambda trial: _READ_BYTES * _rate(*_each(_IOMMU_COLLECTORS, "iotlb.lookups"))(trial)
    ),
    "outstanding_reads_iio": _reads_under_way(_rate(*_NIC_DMA_READ, *_DMA_READ)),
    "outstanding_reads_disagreement": _disagreement,
    "outstanding_reads_buffers": _under_way("completion_buffer_occupancy", "iio_clock"),
    "outstanding_requests_irp": _under_way("irp_occupancy", "irp_clock"),
    "outstanding_requests_cha": _under_way("llc_io_occupancy", "cha_clock"),
    "cha_request_latency_ns": _latency_ns(
        "llc_io_occupancy", ["llc_io_hits", "llc_io_misses"], "counted no request of a device"
    ),
    "outstanding_writes_cha": _under_way("itom_occupancy", "cha_clock"),
    "cha_write_latency_ns": _latency_ns("itom_occupancy", ["itom_hit", "itom_miss"], "counted no write of a device"),
    "outstanding_writes_iio": lambda trial: outstanding_requests(
        BITS_PER_BYTE * _rate(*_DMA_WRITE)(trial), COUNTED["cha_write_latency_ns"](trial), LINE_BYTES
    ),
    "nic_tags": lambda trial: device_state(trial, "pcie", "tags"),
    "nic_work_requests": lambda trial: 2 ** device_state(trial, "mlxconfig", "LOG_MAX_OUTSTANDING_WQE"),
    "tags_used_share": lambda trial: _most_reads(trial) / COUNTED["nic_tags"](trial),
    "work_requests_used_share": lambda trial: _most_reads(trial) / COUNTED["nic_work_requests"](trial),
    "credits_used_share": _credits_used,
    "nic_mtt_l0_miss_share": _share(
        ["mtt_cache_l0_misses"],
        ["mtt_cache_l0_hits", "mtt_cache_l0_misses"],
        ["neohost"],
        "counted no look-up of a translation",
    ),
    "energy_per_packet_nj": lambda trial: _NJ_PER_J * _per_packet(_power_w)(trial),
    "package_power_w": _power_w,
}
# For a co-runner without counts of its own.
corunner_ipc = _share(["instructions"], ["cycles"], ["perf-corunner"], "counted no cycle")
