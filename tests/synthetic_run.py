# SPDX-License-Identifier: BSD-3-Clause
"""Make SYNTHETIC trial records and run folders in the documented formats.

Nothing here was measured. Each number is chosen so that a test can say what must come out.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

from pollscope.store.run_folder import RunFolder, read_run

TSC_HZ = 2_000_000_000
WINDOW_CYCLES = 1_000_000_000  # half a second at 2 GHz
NO_PMU = "perf_event_open: no hardware PMU (ENOENT)"


def histogram(values: Iterable[int], unit: str = "cycles", highest: int = 3_600_000_000) -> dict[str, Any]:
    """Return an H object that holds the values; its counts are shared with others and cannot be changed."""
    return _histogram(tuple(values), unit, highest).copy()


@cache
def _histogram(values: tuple[int, ...], unit: str, highest: int) -> dict[str, Any]:
    hdr = HdrHistogram(1, highest, 3)
    for value in values:
        hdr.record_value(value)
    filled = np.flatnonzero(np.frombuffer(hdr.counts, dtype=np.uint64))  # of about ten thousand
    counts = tuple((index, hdr.counts[index]) for index in filled.tolist())
    limits = {"min": min(values), "max": max(values)} if values else {}
    shape = {"unit": unit, "lowest": 1, "highest": highest, "significant_digits": 3}
    return shape | {"total": len(values), "sum": sum(values), "counts": counts} | limits


STAMP_CYCLES = 20.0
BLOCKS = 16  # blocks of timed intervals per window, as in the node
TimedInterval = tuple[float, ...]  # polls, busy polls, transitions, packets, cycles, lost polls if any


class Costs(NamedTuple):
    """True cycles of an empty poll, an empty-to-busy transition, a busy poll, a packet of it, and a stamp."""

    empty_poll: float
    switch: float
    busy_poll: float
    packet: float
    stamp: float = STAMP_CYCLES

    def of(self, polls: int, busy_polls: int, transitions: int, packets: int) -> float:
        """Return the cycles of this number of events."""
        events = (
            self.empty_poll * (polls - busy_polls),
            self.switch * transitions,
            self.busy_poll * busy_polls,
            self.packet * packets,
        )
        return sum(events)


def timed_intervals_part(blocks: Sequence[Sequence[TimedInterval]]) -> dict[str, Any]:
    """Return the object `timed_intervals`: per block the weighted sums of products (apps/lib/accounting.h)."""
    rows, quiet = [], []
    for block in blocks:
        table = np.array([(*one, 0)[:6] for one in block], dtype=float).reshape(-1, 6)
        polls, busy_polls, transitions, packets, spent, lost = table.T
        weight = 1 / (1 + polls / 256 + 8 * busy_polls)
        one, none = np.ones(len(table)), busy_polls + lost == 0
        empty = polls - busy_polls - lost
        rows.append([len(table), *_products([one, empty, transitions, busy_polls, packets, spent, lost], weight)])
        quiet.append([int(none.sum()), *_products([one[none], polls[none], spent[none]], weight[none])])
    total = sum(one[4] for block in blocks for one in block)
    return {"blocks": rows, "quiet": quiet, "cycles": round(total), "left_out": 0, "left_out_cycles": 0}


def _products(variables: Sequence[NDArray[np.float64]], weight: NDArray[np.float64]) -> list[float]:
    count = len(variables)
    return [float(np.sum(weight * variables[i] * variables[j])) for i in range(count) for j in range(i, count)]


@cache
def _timed_intervals_json(costs: Costs, burst: int, polled: bool) -> str:
    """Return intervals of 1 to 512 polls that have exactly their costs; all blocks are equal."""
    block = [(1 << length, 0, 0, 0) for length in range(10)]
    if polled:
        for busy_polls in (1, 2, 4, 8):
            for transitions in (0, 1, busy_polls):
                for polls in (2 * busy_polls, 64):
                    block += [
                        (polls, busy_polls, min(busy_polls, transitions), packets)
                        for packets in (busy_polls, burst * busy_polls)
                    ]
    timed = [(*events, costs.stamp + costs.of(*events)) for events in block]
    one = timed_intervals_part([timed])
    whole = {name: one[name] * BLOCKS for name in ("blocks", "quiet")}
    return json.dumps(one | whole | {"cycles": round(BLOCKS * sum(timed_interval_[4] for timed_interval_ in timed))})


class Shares(NamedTuple):
    """Shares of all cycles. `loop` holds the interruptions, `useful` the interaction."""

    useful: float
    empty_poll: float
    loop: float
    instrumentation: float
    interaction: float


def shares(useful_share: float) -> Shares:
    """Return shares: 70 % of the tax are empty polls, 1 % instrumentation; a tenth of useful cycles is interaction."""
    tax = 1 - useful_share
    return Shares(useful_share, 0.7 * tax, 0.29 * tax, 0.01 * tax, 0.1 * useful_share)


def accounting(useful_share: float, empty: int, busy_polls: int, packets: int, interrupted: int) -> dict[str, Any]:
    """Return what an lcore records for shares(): half of the busy polls came after an empty poll."""
    share, transitions = shares(useful_share), (busy_polls + 1) // 2
    useful = share.useful * WINDOW_CYCLES if busy_polls else 0.0
    each = useful / max(1, busy_polls)
    costs = Costs(
        share.empty_poll * WINDOW_CYCLES / empty,
        0.1 * useful / max(1, transitions),
        0.3 * each,
        0.6 * useful / max(1, packets),
    )
    stamps = round(share.instrumentation * WINDOW_CYCLES / 2 / STAMP_CYCLES)
    return {
        "cycles": {"total": WINDOW_CYCLES},
        "transitions": transitions,
        "waited_cycles": 0,
        "event_cycles": round(share.loop * WINDOW_CYCLES) - interrupted,
        "sampling_cycles": round(share.instrumentation * WINDOW_CYCLES / 2),
        "stamps": stamps,
        "stamp_cycles": STAMP_CYCLES,
        "empty_poll_cycles": costs.empty_poll,
        "empty_poll_overlapped_cycles": costs.empty_poll * 0.9,
        "timed_intervals": json.loads(
            _timed_intervals_json(costs, max(1, packets // max(1, busy_polls)), busy_polls > 0)
        ),
        "timed": {
            "busy_polls": 1000,
            "receive_cycles": 0.3 * useful,
            "process_cycles": 0.5 * useful,
            "transmit_cycles": 0.2 * useful,
        },
    }


def series(packets: int, sweeps: int, total: int, interrupted_share: float = 0.0, parts: int = 64) -> dict[str, Any]:
    """Return the equal parts of a window; each counter's last part takes the remainder."""

    def spread(count: int) -> list[int]:
        return [count // parts] * (parts - 1) + [count - count // parts * (parts - 1)]

    interrupted = round(total * interrupted_share)
    columns = {"cycles": total, "rx_packets": packets, "tx_packets": packets, "sweeps": sweeps}
    return {name: spread(count) for name, count in columns.items()} | {"interrupted_cycles": spread(interrupted)}


def dut_lcore(
    useful_share: float = 0.6,
    packets: int = 500_000,
    queues: int = 1,
    polls: int = 10_000_000,
    interrupted_share: float = 0.0,
) -> dict[str, Any]:
    """Return one DUT lcore; every non-empty poll returns 8 packets."""
    partial = packets // 8
    interrupted = round(WINDOW_CYCLES * interrupted_share)
    accounted = accounting(useful_share, polls - partial, partial, packets, interrupted)
    left_out = round(accounted["timed_intervals"]["cycles"] / 99)
    accounted["timed_intervals"] |= {"left_out": 1, "left_out_cycles": left_out}
    return accounted | {
        "lcore": 2,
        "cpu": 1,
        "queues": queues,
        "accounting": "sampled",
        "interruptions": {"count": 2, "cycles": interrupted},
        "polls": {"empty": polls - partial, "partial": partial, "full": 0, "race_lost": 0, "refill_failed": 0},
        "iterations": polls // queues,
        "idle_iterations": (polls - partial) // queues,
        "rx_packets": packets,
        "rx_bytes": 60 * packets,
        "tx_packets": packets,
        "tx_bytes": 60 * packets,
        "tx_dropped": 0,
        "workload_dropped": 0,
        "histograms": {
            "burst": {"unit": "packets", "values": [[0, polls - partial], [8, partial]]},
            "iteration_cycles": histogram(range(100, 1100)),
            "poll_gap_cycles": histogram(range(200, 2200)),
        },
        "series": series(packets, polls // queues, WINDOW_CYCLES, interrupted_share),
        "longest": [{"tsc": 5, "cycles": 4000}, {"tsc": 9, "cycles": 20_000}],
        "os": {"voluntary_switches": 0, "involuntary_switches": 3, "minor_faults": 0},
        "pmu": {"absent": NO_PMU},
    }


def gen_lcore(pps: float, window_s: float = WINDOW_CYCLES / TSC_HZ) -> dict[str, Any]:
    """Return one generator lcore that sends on schedule and gets every packet back after 1 to 2 us."""
    sent = round(pps * window_s)
    latencies = histogram(range(1000, 2000), "ns")
    return {
        "lcore": 1,
        "cpu": 0,
        "intended": sent,
        "sent": sent,
        "unsent": 0,
        "tx_bytes": 60 * sent,
        "rx_packets": sent,
        "rx_bytes": 60 * sent,
        "rx_foreign": 0,
        "duration_tsc": WINDOW_CYCLES,
        "total": {"sent": 2 * sent, "rx_packets": 2 * sent},
        "lateness_ns": histogram(range(1, 1001), "ns"),
        "interdeparture_ns": histogram(range(1, 1001), "ns"),
        "latency_ns": {"from_intended": latencies, "from_sent": latencies},
        "sequence": sequence([]),
        "histogram": {"burst": {"unit": "packets", "values": [[1, sent]]}},
        "host_gaps": {"over_1us": 50, "over_10us": 20, "over_100us": 2, "longest_ns": 150_000},
    }


def sequence(extents: Sequence[int], duplicated: int = 0) -> dict[str, Any]:
    """Return what the generator reports about loss and order: packets with these extents, late by as many positions."""
    late = histogram(extents, "packets", highest=4096)
    counts = {"lost": 0, "duplicated": duplicated, "reordered": len(extents), "reordered_in_total": len(extents)}
    flows = {"sent": 8, "lossy": 0, "duplicated": int(duplicated > 0), "reordered": int(len(extents) > 0)}
    return counts | {
        "too_old": 0,
        "window": 512,
        "extent": late,
        "distance": late,
        "degree": late,
        "flows": flows,
        "displaced": list(Counter(extents).items()),
    }


def floor(latencies_ns: Iterable[int] = range(150, 250)) -> dict[str, Any]:
    """Return the latency of the path alone."""
    latencies = histogram(latencies_ns, "ns")
    return {"rate": {"pps": 50_000.0}, "frame": 64, "latency_ns": {"from_intended": latencies, "from_sent": latencies}}


def port(packets: int, missed: int = 0) -> dict[str, Any]:
    """Return port statistics after the drain."""
    stats = dict.fromkeys(("ierrors", "oerrors", "rx_nombuf", "opackets", "obytes"), 0)
    return {
        "stats": stats | {"ipackets": packets, "ibytes": 60 * packets, "imissed": missed},
        "xstats": {},
        "rx_queue_packets": [packets],
    }


def calibration() -> dict[str, Any]:
    """Return the node's own costs that it measured at its start, in TSC cycles."""
    costs = {"median": 7.0, "low": 6.8, "high": 7.2, "n": 11}
    names = (
        "tsc_read_cycles",
        "tsc_read_serialised_cycles",
        "stamp_cycles",
        "empty_poll_overlapped_cycles",
        "empty_poll_serialised_cycles",
        "idle_iteration_cycles",
        "sweep_cycles",
    )
    return dict.fromkeys(names, costs)


def config(queues: int) -> dict[str, Any]:
    """Return the `configure` request of a loopback trial."""
    return {
        "ports": [
            {"name": "net_crossover0_b", "rx_queues": queues, "tx_queues": 1},
            {"name": "net_crossover1_a", "rx_queues": 1, "tx_queues": 1},
        ],
        "dut": {
            "lcores": [2],
            "rx_port": "net_crossover0_b",
            "tx_port": "net_crossover1_a",
            "workload": "l3fwd-lpm",
            "accounting": "sampled",
        },
        "gen": {"lcores": [1], "tx_port": "net_crossover0_a", "rx_port": "net_crossover1_b"},
    }


def result(name: str, lcore: dict[str, Any], packets: int, pps: float) -> dict[str, Any]:
    """Return the reply to `read` of a trial that lost nothing."""
    return {
        "ok": True,
        "state": "done",
        "trial": name,
        "window": {"start_tsc": 10, "end_tsc": 10 + WINDOW_CYCLES, "tsc_hz": TSC_HZ},
        "dut": {"lcores": [lcore]},
        "gen": {"lcores": [gen_lcore(pps)]},
        "ports": {"net_crossover0_b": port(2 * packets), "net_crossover1_b": port(2 * packets)},
    }


def trial(
    name: str = "t0",
    point: str = "p0",
    repeat: int = 0,
    factors: Mapping[str, Any] | None = None,
    pps: float = 1e6,
    queues: int = 1,
    **dut: Any,
) -> dict[str, Any]:
    """Return one whole, healthy line of trials.jsonl; `dut` goes to dut_lcore."""
    window_s = WINDOW_CYCLES / TSC_HZ
    packets = round(pps * window_s)
    lcore = dut_lcore(**({"packets": packets, "queues": queues} | dut))
    return {
        "trial": name,
        "point": point,
        "repeat": repeat,
        "kind": "measure",
        "factors": dict(factors or {}),
        "params": {},
        "status": "ok",
        "attempt": 1,
        "testbed": "loopback",
        "modelled": False,
        "started_utc": "2026-01-01T00:00:00Z",
        "started_monotonic_ns": 0,
        "config": config(queues),
        "start": {"rate": {"pps": pps}},
        "result": result(name, lcore, packets, pps),
        "calibration": calibration(),
        "floor": floor(),
        "host": {"steal_ticks": 0, "context_switches": 5, "interrupts": {"0": 3, "1": 9}, "softirqs": 1},
        "flags": [],
    }


def repeated(
    levels: Mapping[str, Any], repeats: int = 3, pps: float = 1e6, spread: float = 0.0, **more: Any
) -> list[dict[str, Any]]:
    """Return the trials of one point, in each of which the share `spread` of packets is added to the one before."""
    point = ",".join(f"{name}={level}" for name, level in levels.items()) or "p"
    return [
        trial(f"{point}:{repeat}", point, repeat, levels, pps=pps * (1 + spread * repeat), **more)
        for repeat in range(repeats)
    ]


def crossed(levels: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Return the points of factors of which every level meets every other one."""
    return [dict(zip(levels, each, strict=True)) for each in product(*levels.values())]


def disturbed(record: dict[str, Any], waited: float = 0.25) -> dict[str, Any]:
    """Return the record of a trial whose DUT lcore waited for its CPU for a share of the trial."""
    window_ns = round(1e9 * WINDOW_CYCLES / TSC_HZ)
    start = {**record["start"], "warmup_ns": 0, "window_ns": window_ns}
    return {**record, "start": start, "host": {**record["host"], "waits_ns": {"1": 0, "2": round(waited * window_ns)}}}


def run_meta(**changes: Any) -> dict[str, Any]:
    """Return a run.json."""
    return {
        "format": 1,
        "pollscope": "0.1.0",
        "run_id": "20260101T000000Z-abcdef",
        "spec_name": "synthetic",
        "row": "S-F5",
        "rows": ["S-F5"],
        "paper": "socc19",
        "spec_text": "name: synthetic\n",
        "spec": {"name": "synthetic"},
        "overrides": {"quick": False, "set": []},
        "testbed": {"name": "loopback", "kind": "loopback", "shared_tsc": True},
        "seed": 1,
        "plan": [],
        "left_out": [],
        "host": {"cpu_model": "SYNTHETIC CPU"},
        "build": {},
        "node_hello": {"dpdk": "DPDK 22.11.11", "tsc_hz": TSC_HZ, "absent": {"pmu": NO_PMU}},
        "calibration": {},
        "noise": [],
        "knobs_before": {},
        "knobs_after": {},
        "units": {},
        "started_utc": "2026-01-01T00:00:00Z",
        "finished_utc": "2026-01-01T00:01:00Z",
        "status": "complete",
    } | changes


def host_check(
    number: int, line: float = 300.0, chain: float = 2.1, stream: float = 20.0, spread: float = 0.01, **more: Any
) -> dict[str, Any]:
    """Return a line of host_states.jsonl of two CPUs; batches of each quantity lie within `spread` around it."""

    def batches(each: float, count: int, n: int) -> list[int]:
        return [round(each * count * (1 + spread * (2 * i / (n - 1) - 1))) for i in range(n)]

    cores = [
        {
            "lcore": cpu + 1,
            "cpu": cpu,
            "chain": {"steps": 4096, "cycles": batches(chain, 4096, 16)},
            "wide": {"steps": 4096, "cycles": batches(1.3 * chain, 4096, 16)},
            "stream": {"bytes": 1 << 22, "cycles": batches(1 / stream, 1 << 22, 8)},
        }
        for cpu in (0, 1)
    ]
    lines = [{"lcores": [1, 2], "cpus": [0, 1], "round_trips": 32, "cycles": batches(line, 32, 32)}]
    host = {"tsc_hz": TSC_HZ, "took_ns": 2_000_000, "lines": lines, "cores": cores}
    times = {"started_utc": "2026-01-01T00:00:00Z", "started_monotonic_ns": 0}
    return {"host_check": number, "why": "block", "block": "", **times, "knobs": {}, "hosts": [host]} | more


def write_run(
    folder: Path, trials: Iterable[Mapping[str, Any]], host_checks: Iterable[Mapping[str, Any]] = (), **meta: Any
) -> Path:
    """Write a run folder of these trials, with host_states.jsonl if there are host-state checks."""
    folder.mkdir(parents=True, exist_ok=True)
    trials = list(trials)
    described = run_meta(**({"plan": [record["trial"] for record in trials]} | meta))
    (folder / "run.json").write_text(json.dumps(described), encoding="utf-8")
    lines = "".join(json.dumps(record) + "\n" for record in trials)
    (folder / "trials.jsonl").write_text(lines, encoding="utf-8")
    if host_state := "".join(json.dumps(each) + "\n" for each in host_checks):
        (folder / "host_states.jsonl").write_text(host_state, encoding="utf-8")
    return folder


def run_of(
    folder: Path, trials: Iterable[Mapping[str, Any]], host_checks: Iterable[Mapping[str, Any]] = (), **meta: Any
) -> RunFolder:
    """Write a run folder and read it."""
    return read_run(write_run(folder, trials, host_checks, **meta))
