# SPDX-License-Identifier: BSD-3-Clause
"""Collect the observations at every point of a run from its records and metrics, or of a paper's table of counters."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from pollscope.analysis.explain.dma_models import link_of
from pollscope.analysis.explain.observations import BUSY_AND_LOSING_SHARE, BUSY_SHARE, CoreLoad, PointObservations
from pollscope.analysis.host_metadata import HostMetadata
from pollscope.analysis.papers import citation, stated
from pollscope.analysis.point_values import PAIR, absence, level_rank, levels_text, measured, places
from pollscope.analysis.saturation import unsaturated_points
from pollscope.base.errors import UsageError
from pollscope.base.units import counted
from pollscope.metrics.accounting import MISFIT_SHARE, WOULD_TELL
from pollscope.metrics.counted import device_state
from pollscope.metrics.record import Account, NotMeasured, OnlyEmptyPolls, Part, TrialObservations, keys_of, nonzero
from pollscope.models.pcie import PcieLink
from pollscope.stats.littles_law import BITS_PER_BYTE, outstanding_requests
from pollscope.store.results_table import last_attempts
from pollscope.store.run_folder import RunFolder

IOMMU = "knob.iommu"
# Flags of trials in which something else had a measuring CPU.
_AWAY_FLAGS = {"noise:waiting", "noise:steal_ticks", "noise:involuntary_switches"}
# A trial with a larger error of its cycles cannot distinguish a busy core; it is used only if no other is better.
_MOST_ERROR = BUSY_SHARE - BUSY_AND_LOSING_SHARE
_NO_EMPTY_POLLS = "absent.empty_poll_share"
_LINE_METRICS = {"rx_port": ("RX", "rx_line_bps"), "tx_port": ("TX", "tx_line_bps")}
Record = Mapping[str, Any]


def run_metadata(run: RunFolder, table: pd.DataFrame) -> list[PointObservations]:
    """Return the observations of each point that was measured, by rising levels.

    Raises:
        UsageError: a trial contradicts the protocol.
    """
    records: dict[str, Record] = {str(record["trial"]): record for record in last_attempts(run.trials)}
    whole = _whole_run(run)
    unsaturated = unsaturated_points(table)
    found: list[tuple[Record, PointObservations]] = []
    every = measured(table)
    for place, rows in every.groupby(places(every), sort=False):
        trials = _trials(rows, records)
        first = trials[0].record
        known = replace(
            whole,
            not_its_maximum=unsaturated.get(str(place), ""),
            why_absent=partial(absence, rows),
            **_of_point(run, first),
        )
        silent = replace(known, in_words=False)
        single = [_observations(silent, [trial]) for trial in trials] if len(trials) > 1 else []
        found.append((_levels(first), replace(_observations(known, trials), trials=single)))
    ordered = sorted(found, key=lambda each: [level_rank(level) for level in each[0].values()])
    return [_with_neighbours(levels, point, ordered) for levels, point in ordered]


@dataclass(frozen=True)
class _Trial:
    """Hold a trial for the rules: its record, its metrics, and values that are computed from it once."""

    record: Record
    metrics: Mapping[str, float]
    loads: list[CoreLoad] | str
    filled: float | None


def _trials(rows: pd.DataFrame, records: Mapping[str, Record]) -> list[_Trial]:
    names = [str(name) for name in rows.columns if str(name).startswith("metric.") and rows[name].notna().any()]
    values = rows[names].to_numpy(dtype=float).tolist()
    metrics_of = [name.removeprefix("metric.") for name in names]
    found = []
    for trial, own, reason in zip(rows["trial"], values, rows[_NO_EMPTY_POLLS], strict=True):
        record = records[str(trial)]
        metrics = {name: value for name, value in zip(metrics_of, own, strict=True) if not math.isnan(value)}
        found.append(_Trial(record, metrics, _loads(record, metrics, reason), _busy_polls_filled(record)))
    return found


def _whole_run(run: RunFolder) -> PointObservations:
    host = HostMetadata(run.meta)
    caches = host.get("caches")
    llc = caches.get("L3") if isinstance(caches, Mapping) else None
    ways = host.get("llc_ways")
    return PointObservations(
        "",
        llc_bytes=float(llc) if isinstance(llc, int) else None,
        llc_ways=ways if isinstance(ways, int) else None,
        without_hardware=host.without_hardware,
    )


def _levels(record: Record) -> dict[str, Any]:
    """Return what identifies a point: its levels, and its pair if the testbed has pairs."""
    return {**({PAIR: record[PAIR]} if PAIR in record else {}), **record["factors"]}


def _of_point(run: RunFolder, record: Record) -> dict[str, Any]:
    links, no_link = _links(run, record)
    # The sending of the generator is the virtual NIC's DMA.
    senders = ((record.get("config") or {}).get("gen") or {}).get("lcores", ())
    label = levels_text({name: level for name, level in _levels(record).items() if level is not None})
    return {
        "label": label or "all",
        "params": {**(record.get("params") or {}), **record["factors"]},
        "links": links,
        "nic_link": _nic_link(record),
        "wire_lcores": len(senders) if HostMetadata(run.meta).virtual_nic else 0,
    } | no_link


def _nic_link(record: Record) -> PcieLink | None:
    """Return the PCIe link of the DUT's NIC; None if it was not recorded or the model of links does not know it."""
    names = ("link_speed", "link_width", "max_payload", "max_read_request")
    trial = TrialObservations(record)
    try:
        return link_of({name: device_state(trial, "pcie", name) for name in names})
    except NotMeasured:
        return None


def _links(run: RunFolder, record: Record) -> tuple[list[tuple[str, str, float]], dict[str, str]]:
    """Return the lines of the DUT's ports whose speed the driver reported, and the reason if there is none."""
    speeds = {port["name"]: port.get("link_bps") for port in HostMetadata(run.meta).hello.get("ports", [])}
    names = {role: ((record.get("config") or {}).get("dut") or {}).get(role) for role in _LINE_METRICS}
    found = [
        (f"the {_LINE_METRICS[role][0]} line of {name}", _LINE_METRICS[role][1], float(speeds[name]))
        for role, name in names.items()
        if speeds.get(name)
    ]
    reasons = [reason for what, reason in HostMetadata(run.meta).absent.items() if what.startswith("link_bps.")]
    return found, {"no_link": reasons[0]} if reasons and not found else {}


def _observations(known: PointObservations, trials: Sequence[_Trial]) -> PointObservations:
    values: dict[str, list[float]] = {}
    for trial in trials:
        for name, value in trial.metrics.items():
            values.setdefault(name, []).append(value)
    known_loads = [trial.loads for trial in trials if not isinstance(trial.loads, str)]
    loads = [each for each in known_loads if max(core.error for core in each) <= _MOST_ERROR] or known_loads
    reasons = [trial.loads for trial in trials if isinstance(trial.loads, str)]
    same = len(loads) == 1 or len({tuple(core.name for core in each) for each in loads}) == 1
    return replace(
        known,
        values=values,
        loads=loads if same else (),
        no_loads=reasons[0] if reasons else "the trials ran on different CPUs",
        busy_polls_filled=[trial.filled for trial in trials if trial.filled is not None],
        trial_count=len(trials),
        modelled=any(trial.record.get("modelled") for trial in trials),
        flagged=sum(trial.record["status"] == "flagged" for trial in trials),
        away_flagged=sum(any(flag["name"] in _AWAY_FLAGS for flag in trial.record["flags"]) for trial in trials),
    )


def _loads(record: Record, metrics: Mapping[str, float], no_empty_polls: object) -> list[CoreLoad] | str:
    """Return the loads of the DUT's lcores in a trial, or the reason why it has no cycles.

    For a single lcore, the table has all values except waits for a lock; otherwise classes are computed.
    """
    trial = TrialObservations(record)
    try:
        alone = trial.lcores[0] if len(trial.lcores) == 1 and "lock" not in keys_of(trial.lcores[0]) else None
        if alone is not None and "empty_poll_share" in metrics:
            running = nonzero(1 - metrics.get("interrupted_share", 0.0), "the DUT's lcore never ran")
            idle = metrics["empty_poll_share"] + metrics.get("waiting_share", 0.0)
            return [_load(alone, idle / running, 0.0, _error(metrics.get("accounting_misfit_share", 0.0)) / running)]
        if alone is not None and isinstance(no_empty_polls, str) and not no_empty_polls.endswith(WOULD_TELL):
            return no_empty_polls
        return [_load_of(lcore, trial.wire_cycles_per_frame) for lcore in trial.lcores]
    except NotMeasured as absent:
        return str(absent)


def _load_of(lcore: Part, wire_cycles_per_frame: float) -> CoreLoad:
    try:
        account = Account(lcore, wire_cycles_per_frame)
    except OnlyEmptyPolls as known:
        idle, running = known.empty_polls.value + _cycles(lcore, "waiting"), _running(lcore)
        return _load(lcore, idle / running, _cycles(lcore, "lock") / running, known.empty_polls.error / running)
    misfit = account.classes.misfit
    error = 0.0 if isinstance(misfit, str) else _error(misfit / account.total) * account.total
    running = _running(lcore)
    return _load(
        lcore, (account.empty_poll + account.waiting) / running, _cycles(lcore, "lock") / running, error / running
    )


def _error(misfit: float) -> float:
    """Return the error of a share of cycles if timed intervals miss the window by more than allowed."""
    return abs(misfit) if abs(misfit) > MISFIT_SHARE else 0.0


def _running(lcore: Part) -> float:
    cycles = lcore["cycles"]["total"].number() - lcore["interruptions"]["cycles"].number()
    return nonzero(max(0.0, cycles), "an lcore never ran")


def _cycles(lcore: Part, name: str) -> float:
    """Return the cycles of an lcore's waits for a lock or for a ready queue; 0 without such waits."""
    return lcore[name]["cycles"].number() if name in keys_of(lcore) else 0.0


def _load(lcore: Part, idle: float, waiting: float, error: float) -> CoreLoad:
    """Return an lcore's load; `idle` is the share of empty polls, `waiting` that of waits."""
    role = str(lcore.value.get("role", "worker")) if isinstance(lcore.value, Mapping) else "worker"
    busy = min(1.0, max(0.0, 1 - idle - waiting))
    return CoreLoad(f"{role} on CPU {lcore['cpu'].number():.0f}", role, busy, waiting, error)


def _busy_polls_filled(record: Record) -> float | None:
    """Return how full the polls of the queue with most packets were; None where unknown."""
    trial, params = TrialObservations(record), record.get("params") or {}
    try:
        name = trial.part("config", "dut", "rx_port").text()
        counts = trial.part("result", "ports", name, "rx_queue_packets").items()
        if params.get("notification") == "qwait":  # a queue is polled only when it has packets
            busy_polls = sum(lcore["polls"][kind].number() for lcore in trial.readers for kind in ("partial", "full"))
            return trial.packets / nonzero(busy_polls * float(params["burst"]), "no queue was polled")
        busy_polls = sum(lcore["iterations"].number() * lcore["queues"].number() for lcore in trial.readers) / len(
            counts
        )
        most = _busiest_share(counts) * trial.packets
        return most / nonzero(busy_polls * float(params["burst"]), "no queue was polled")
    except (NotMeasured, ZeroDivisionError, KeyError):
        return None


def _busiest_share(counts: Sequence[Part]) -> float:
    """Return the share of a port's packets that the busiest queue received; drivers may not count by queue."""
    if len(counts) == 1:
        return 1.0
    if any(one.value is None for one in counts):
        raise NotMeasured("the driver does not count packets by queue")
    packets = [one.number() for one in counts]
    return max(packets) / sum(packets)


def _with_neighbours(
    levels: Record, point: PointObservations, every: Sequence[tuple[Record, PointObservations]]
) -> PointObservations:
    """Add the points that differ in one factor only: the one with the fewest cores and the one with the IOMMU off."""
    fewest = min((each for each in _but_for(levels, "cores", every)), key=lambda each: each[0]["cores"], default=None)
    before = fewest[1] if fewest and fewest[0]["cores"] < levels.get("cores", 0) else None
    off = next((other for known, other in _but_for(levels, IOMMU, every) if known[IOMMU] == "off"), None)
    off = None if levels.get(IOMMU) == "off" else off
    if before is None and off is None:
        return point
    trials = [replace(each, before=before, without_iommu=off) for each in point.trials]
    return replace(point, before=before, without_iommu=off, trials=trials)


def _but_for(
    levels: Record, factor: str, every: Sequence[tuple[Record, PointObservations]]
) -> Iterator[tuple[Record, PointObservations]]:
    """Yield the points that have the factor and the same levels of all others."""
    if factor in levels:
        rest = {name: level for name, level in levels.items() if name != factor}
        for known, point in every:
            if factor in known and {name: level for name, level in known.items() if name != factor} == rest:
                yield known, point


# Metrics of docs/reference-metrics.md -> columns of table 1 of the intra-host paper.
COLUMNS = {
    "tx_pps": "tx_rate_pps",
    "pcie_dma_read_bytes_per_s": "ib_read_bytes_per_s",
    "iotlb_hits_per_s": "iotlb_hits_per_s",
    "iotlb_misses_per_s": "iotlb_misses_per_s",
    "iotlb_miss_share": "iotlb_miss_share",
    "nic_pcie_latency_ns": "pcie_latency_mean_ns",
    "nic_pcie_no_completion_clocks": "pcie_stalls_no_completion",
    "nic_mtt_l0_miss_share": "mtt_l0_miss_share",
}
_NOT_STATED = "the paper's table does not have it"


def paper_metadata(paper: str) -> list[PointObservations]:
    """Return one point for each number of sending cores of the table.

    Raises:
        UsageError: the paper states no table of counters.
    """
    table, law = stated(paper, "I-T1"), stated(paper, "I-LL")
    if not table or not law:
        raise UsageError(
            "the paper has no table of counters to explain", citation(paper), "name a run, or --paper intrahost"
        )
    limits = {"tags": float(law["tag_limit"]), "wqes": float(table["log_max_outstanding_wqe"])}
    found: list[PointObservations] = []
    for index, cores in enumerate(table["tx_cores"]):
        values = {metric: float(table[column][index]) for metric, column in COLUMNS.items()}
        lookups = values["iotlb_hits_per_s"] + values["iotlb_misses_per_s"]
        latency_ns, size = values["nic_pcie_latency_ns"], law["request_bytes"]
        inbound = float(table["pcie_inbound_bits_per_s"][index])
        values |= {
            "iotlb_lookups_per_s": lookups,
            "outstanding_reads_nic": outstanding_requests(inbound, latency_ns, size),
            "outstanding_reads_iotlb": outstanding_requests(lookups * BITS_PER_BYTE, latency_ns, 1),
        }
        point = PointObservations(
            counted(cores, "sending core"),
            {"workload": "tx", "cores": cores},
            {metric: (value,) for metric, value in values.items()},
            not_there=_NOT_STATED,
            limits=limits,
        )
        found.append(replace(point, before=found[0] if found else None))
    return found
