# SPDX-License-Identifier: BSD-3-Clause
"""The facts of every point of a run, from its trial records and its table of metrics."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from pollscope.analysis.explain.facts import CoreLoad, PointFacts
from pollscope.analysis.host_facts import HostFacts
from pollscope.analysis.point_values import absence, level_rank, levels_text, measured
from pollscope.analysis.saturation import unsaturated_points
from pollscope.metrics.record import Account, NotMeasured, Part, TrialFacts, nonzero
from pollscope.store.results_table import last_attempts
from pollscope.store.run_folder import RunFolder

IOMMU = "knob.iommu"
LINE_METRICS = {"rx_port": ("RX", "rx_line_bps"), "tx_port": ("TX", "tx_line_bps")}
Record = Mapping[str, Any]


def run_facts(run: RunFolder, table: pd.DataFrame) -> list[PointFacts]:
    """The facts of each point that was measured, by rising levels.

    Raises:
        UsageError: a trial contradicts the protocol.
    """
    records: dict[str, Record] = {str(record["trial"]): record for record in last_attempts(run.trials)}
    whole = _whole_run(run, table)
    unsaturated = unsaturated_points(table)
    found: list[tuple[Record, PointFacts]] = []
    for point, rows in measured(table).groupby("point", sort=False):
        own: list[Record] = [records[str(name)] for name in rows["trial"]]
        known = replace(whole, not_its_maximum=unsaturated.get(str(point), ""), **_of_point(run, own[0]))
        single = [_facts(known, rows.iloc[[index]], [record]) for index, record in enumerate(own)]
        together = _facts(known, rows, own)
        found.append((own[0]["factors"], replace(together, trials=single if len(single) > 1 else ())))
    ordered = sorted(found, key=lambda each: [level_rank(level) for level in each[0].values()])
    return [_with_neighbours(levels, facts, ordered) for levels, facts in ordered]


def _whole_run(run: RunFolder, table: pd.DataFrame) -> PointFacts:
    """What all points of a run share."""
    facts = HostFacts(run.meta)
    caches = facts.fact("caches")
    llc = caches.get("L3") if isinstance(caches, Mapping) else None
    return PointFacts(
        "",
        llc_bytes=float(llc) if isinstance(llc, int) else None,
        without_hardware=facts.without_hardware,
        absent=dict.fromkeys(_metrics(table), ""),
    )


def _metrics(table: pd.DataFrame) -> list[str]:
    return [str(name).removeprefix("metric.") for name in table.columns if str(name).startswith("metric.")]


def _of_point(run: RunFolder, record: Record) -> dict[str, Any]:
    links, no_link = _links(run, record)
    label = levels_text({name: level for name, level in record["factors"].items() if level is not None})
    return {"label": label or "all", "params": {**record["params"], **record["factors"]}, "links": links} | no_link


def _links(run: RunFolder, record: Record) -> tuple[list[tuple[str, str, float]], dict[str, str]]:
    """The lines of the DUT's ports whose speed the driver told, and why there is none."""
    speeds = {port["name"]: port.get("link_bps") for port in HostFacts(run.meta).hello.get("ports", [])}
    names = {role: (record.get("config") or {}).get("dut", {}).get(role) for role in LINE_METRICS}
    found = [
        (f"the {LINE_METRICS[role][0]} line of {name}", LINE_METRICS[role][1], float(speeds[name]))
        for role, name in names.items()
        if speeds.get(name)
    ]
    reasons = [reason for what, reason in HostFacts(run.meta).absent.items() if what.startswith("link_bps.")]
    return found, {"no_link": reasons[0]} if reasons and not found else {}


def _facts(known: PointFacts, rows: pd.DataFrame, records: Sequence[Record]) -> PointFacts:
    values, absent = {}, {}
    for name in known.absent:
        column = rows[f"metric.{name}"].dropna()
        if len(column):
            values[name] = tuple(float(value) for value in column)
        else:
            absent[name] = absence(rows, name)
    loads, no_loads = _loads(records)
    filled = [share for record in records if (share := _visits_filled(record)) is not None]
    same = bool(loads) and len({tuple(core.name for core in each) for each in loads}) == 1
    return replace(
        known,
        values=values,
        absent=absent,
        loads=loads if same else (),
        no_loads=no_loads or "the trials ran on different CPUs",
        visits_filled=filled,
        trial_count=len(records),
        flagged=int((rows["status"] == "flagged").sum()),
    )


def _loads(records: Sequence[Record]) -> tuple[list[list[CoreLoad]], str]:
    """The DUT's lcores of each trial that has cycles, and why the others have none."""
    found, reason = [], ""
    for record in records:
        try:
            found.append([_load(account) for account in TrialFacts(record).accounts])
        except NotMeasured as absent:
            reason = str(absent)
    return found, reason


def _load(account: Account) -> CoreLoad:
    lcore = account.lcore
    running = nonzero(account.total - lcore["interruptions"]["cycles"].number(), "an lcore never ran")
    waiting = _optional(lcore, "lock", "cycles") / running
    role = str(lcore.value.get("role", "worker")) if isinstance(lcore.value, Mapping) else "worker"
    busy = min(1.0, max(0.0, 1 - account.empty_poll / running - waiting))
    return CoreLoad(f"{role} on CPU {lcore['cpu'].number():g}", role, busy, waiting)


def _optional(lcore: Part, *keys: str) -> float:
    part = lcore
    try:
        for key in keys:
            part = part[key]
        return part.number()
    except NotMeasured:
        return 0.0


def _visits_filled(record: Record) -> float | None:
    """Of the queue with most packets: what it gave over what its visits could have taken; None where unknown."""
    trial, params = TrialFacts(record), record["params"]
    try:
        name = trial.part("config", "dut", "rx_port").text()
        packets = [one.number() for one in trial.part("result", "ports", name, "rx_queue_packets").items()]
        visits = sum(lcore["iterations"].number() * lcore["queues"].number() for lcore in trial.readers) / len(packets)
        most = max(packets) / sum(packets) * trial.packets
        return most / nonzero(visits * float(params["burst"]), "no queue was visited")
    except (NotMeasured, ZeroDivisionError, KeyError):
        return None


def _with_neighbours(levels: Record, facts: PointFacts, every: Sequence[tuple[Record, PointFacts]]) -> PointFacts:
    """With the points that differ in one factor only: the fewest cores, and the IOMMU off."""
    fewest = min((each for each in _but_for(levels, "cores", every)), key=lambda each: each[0]["cores"], default=None)
    before = fewest[1] if fewest and fewest[0]["cores"] < levels.get("cores", 0) else None
    off = next((other for known, other in _but_for(levels, IOMMU, every) if known[IOMMU] == "off"), None)
    off = None if levels.get(IOMMU) == "off" else off
    trials = [replace(each, before=before, without_iommu=off) for each in facts.trials]
    return replace(facts, before=before, without_iommu=off, trials=trials)


def _but_for(
    levels: Record, factor: str, every: Sequence[tuple[Record, PointFacts]]
) -> Iterator[tuple[Record, PointFacts]]:
    """The points that have the factor, with the same levels of all others."""
    if factor in levels:
        rest = {name: level for name, level in levels.items() if name != factor}
        for known, facts in every:
            if factor in known and {name: level for name, level in known.items() if name != factor} == rest:
                yield known, facts
