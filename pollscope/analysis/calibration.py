# SPDX-License-Identifier: BSD-3-Clause
"""Compute the costs of a modelled machine (polls, packets, the path) from measured runs (docs/models.md).

Every cost names the runs that it comes from and has an interval over their trials. A cost that the runs do not
reveal is left out; nothing is assumed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray

from pollscope.analysis.claims.evaluate import rows_of
from pollscope.analysis.host_metadata import HostMetadata
from pollscope.analysis.point_values import factors
from pollscope.base.errors import UsageError
from pollscope.base.units import human_number
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.record import Account, NotMeasured, TrialObservations
from pollscope.models import points
from pollscope.models.costs import Costs
from pollscope.models.simulate import simulate
from pollscope.spec.lcores import dispatchers, share_queues
from pollscope.spec.model import Parameters
from pollscope.spec.points import level_text
from pollscope.store.results_table import current_table
from pollscope.store.run_folder import RunFolder

# The costs of polls and packets depend on these parameters and on the number of queues, so all trials share one value.
_HOLDS_FOR = (
    "workload",
    "frame",
    "rx_desc",
    "organisation",
    "notification",
    "feed",
    "dma",
    "generator",
    "lookups",
    "checksum",
    "routes",
    "encapsulation",
    "transform",
    "sessions",
    "task_buffers",
    "parity_buffers",
    "task_data",
    "page_size",
    "trace",
    "corunner",
)
# If fewer polls than this share are empty, the window does not show the cost of an empty poll.
_LEAST_EMPTY = 0.5
# Busy polls must differ by this factor in their packets to separate the cost of a poll from that of its packets.
_LEAST_SPREAD = 2.0
# Below this share of useful cycles hardly any packet waits for another.
_LIGHT_USEFUL_SHARE = 0.1
_SIMULATED_PACKETS = 100_000
_FEWEST_TRIALS = 3
# A generator that finds fewer packets due on average rests between its iterations, which hides their duration.
_LEAST_SENT = 2.0

# With this many bootstrap samples the ends of a 95 % interval are accurate to about 5 % of its width.
RESAMPLES, RESAMPLING_SEED = 400, 1

Trial = Mapping[str, Any]
Interval = list[float]


def calibrate(runs: Sequence[RunFolder], only: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """Return the content of a file for the testbed `model`, from the trials at these levels of factors (`only`)."""
    _same_machine(runs)
    tables = [_table(run, only) for run in runs]
    trials = [trial for table in tables for trial in table]
    where = ", ".join(run.run_id for run in runs)
    if not trials:
        raise UsageError("no trial is data", where, "give complete runs, and levels that they contain")
    holds_for = _holds_for(trials, where)
    found = _costs(trials, where, HostMetadata(runs[0].meta).testbed_name)
    rows: dict[str, list[str]] = {}
    for run in runs:
        for row in rows_of(run):
            rows.setdefault(row, []).append(run.run_id)
    return {
        "kind": "model",
        "tsc_hz": round(median(trial["tsc_hz"] for trial in trials)),
        "workloads": {str(holds_for.pop("workload")): found},
        "holds_for": holds_for,
        "made_from": {
            "runs": [run.run_id for run in runs],
            "rows": {row: ", ".join(names) for row, names in rows.items()},
        },
    }


def _holds_for(trials: Sequence[Trial], where: str) -> dict[str, Any]:
    """Return the conditions for which the costs hold; costs of rings come from other organisations than costs of
    polling cores.
    """
    handing = [trial for trial in trials if dispatchers(trial["params"])]
    plain = [trial for trial in trials if not dispatchers(trial["params"])]
    found = {name: _one(plain if plain and name == "organisation" else trials, name, where) for name in _HOLDS_FOR}
    if handing and plain:
        found["organisation"] = sorted({found["organisation"], *(trial["params"].organisation for trial in handing)})
    if shared := [trial for trial in handing if trial["params"].organisation == "scale-up"]:
        found["ring_sync"] = sorted({"default", _one(shared, "ring_sync", where)})
    return found


def _same_machine(runs: Sequence[RunFolder]) -> None:
    first = HostMetadata(runs[0].meta).processor
    for run in runs[1:]:
        if (other := HostMetadata(run.meta).processor) != first:
            raise UsageError(
                f"was measured on another machine than {runs[0].run_id}: {other}, not {first}",
                run.run_id,
                "calibrate each machine by itself",
            )


def _table(run: RunFolder, only: Mapping[str, frozenset[str]]) -> list[Trial]:
    """Return the trials of a run that are data, each with its parameters and metrics."""
    table = current_table(run)
    if run.modelled:
        raise UsageError("was modelled: costs of a model come from what was measured", run.run_id)
    known = set(factors(table))
    for factor in only:
        if factor not in known:
            raise UsageError(f"the run has no factor {factor}", run.run_id, f"it has {', '.join(sorted(known))}")
    records = {trial["trial"]: trial for trial in run.trials if trial.get("result")}
    data = table[(table["status"] == "ok") & table["trial"].isin(records)]
    return [
        _trial(records[row["trial"]], row)
        for row in data.to_dict("records")
        if all(
            {str(row[f"factor.{factor}"]), level_text(factor, row[f"factor.{factor}"])} & levels
            for factor, levels in only.items()
        )
    ]


def _trial(record: Trial, row: Mapping[Any, Any]) -> Trial:
    metrics = {
        name: row[f"metric.{name}"] for name in metric_dictionary().metrics if pd.notna(row.get(f"metric.{name}"))
    }
    # The values were checked when the spec was read. A parameter that the record lacks had its default.
    params = Parameters.model_construct(**record["params"])
    generators = record["result"].get("gen", {}).get("lcores", [])
    if len(generators) == 1 and "burst" in (histograms := generators[0].get("histogram", {})):
        turns = [(sent, count) for sent, count in histograms["burst"]["values"] if sent]
        metrics["sent_mean"] = sum(sent * count for sent, count in turns) / max(1, sum(count for _, count in turns))
    tsc_hz = record["result"]["window"]["tsc_hz"]
    ends = _ring_ends(record, tsc_hz) if dispatchers(params) else []
    return {**metrics, "params": params, "tsc_hz": tsc_hz, "ring_ends": ends}


class _RingEnd(NamedTuple):
    """The work of one lcore at a ring: packets and time of a mean busy poll; None with too few empty polls."""

    dispatches: bool
    packets: float
    busy_poll_ns: float
    empty_poll_ns: float | None


def _ring_ends(record: Trial, tsc_hz: float) -> list[_RingEnd]:
    trial, found = TrialObservations(record), []
    for lcore in trial.lcores:
        with suppress(NotMeasured, ZeroDivisionError):
            if trial.has_modelled_classes:
                busy, idle = (lcore["cycles"][name].number() for name in ("useful", "empty_poll"))
            else:
                account = Account(lcore, 0.0)
                busy, idle = account.useful, account.empty_poll
            empty, partial, full = (lcore["polls"][kind].number() for kind in ("empty", "partial", "full"))
            busy_polls = partial + full
            poll_ns = idle / empty / tsc_hz * 1e9 if empty >= _LEAST_EMPTY * (empty + busy_polls) else None
            dispatches = lcore["role"].text() == "dispatcher"
            packets = lcore["rx_packets"].number() / busy_polls
            found.append(_RingEnd(dispatches, packets, busy / busy_polls / tsc_hz * 1e9, poll_ns))
    return found


def _one(trials: Sequence[Trial], name: str, where: str) -> Any:
    levels = list(dict.fromkeys(getattr(trial["params"], name) for trial in trials))
    if len(levels) > 1:
        text = ", ".join(map(str, levels))
        raise UsageError(
            f"costs depend on {name}, and the trials have {text}", where, f"choose: --at {name}={levels[0]}"
        )
    return levels[0]


def _costs(trials: Sequence[Trial], where: str, testbed: str) -> dict[str, Any]:
    handing = [trial for trial in trials if dispatchers(trial["params"])]
    trials = [trial for trial in trials if not dispatchers(trial["params"])]
    together = [trial for trial in trials if share_queues(trial["params"])]
    alone = [trial for trial in trials if not share_queues(trial["params"])]
    if not trials:
        remedy = "give trials without dispatchers as well (experiments/model/rings.yaml has both)"
        raise UsageError("costs of a ring need trials of cores that poll for themselves", where, remedy)
    if not alone:
        remedy = "give trials with one core as well"
        raise UsageError("the cost of sharing a queue needs trials of one core alone", where, remedy)
    source = f"{testbed} run {where}" if len(where) < 60 else f"{testbed} runs {where}"
    found = {"empty_poll_ns": _empty_poll(alone, where, source), **_busy_polls(alone, where, source)}
    found |= _generator(trials, source)
    found |= _turns(trials, source)
    costs = Costs.model_validate(found, strict=False)
    found |= _shared(together, costs, where, source)
    found |= _rings(handing, costs, source)
    return found | _path(alone, costs, source)


def _shared(trials: Sequence[Trial], costs: Costs, where: str, source: str) -> dict[str, Any]:
    """Return the extra cost per packet, and per empty poll, when several cores share its queue."""
    more: dict[int, list[float]] = {}
    for trial in trials:
        queues = points.queues_of_a_core(trial["params"])
        known = costs.busy_poll_ns.reaches(queues) and costs.packet_ns.reaches(queues)
        if known and (busy_poll := _busy_poll(trial)) is not None:
            packets, busy_ns = busy_poll
            left_ns = (busy_ns - costs.busy_poll_ns.at(queues)) / packets - costs.packet_ns.at(queues)
            more.setdefault(queues, []).append(max(0.0, left_ns))
    if not more:
        return {}
    source_of = f"{source}, several cores: useful cycles and the wire beyond one core's"
    found = {"shared_packet_ns": _measured(more, source_of)}
    idle = [trial for trial in trials if trial["params"].organisation == "locked" and _tells_empty_polls(trial)]
    return found | ({"shared_empty_poll_ns": _empty_poll(idle, where, source)} if idle else {})


def _rings(trials: Sequence[Trial], costs: Costs, source: str) -> dict[str, Any]:
    """Return the cost of a ring for dispatchers and workers, and the extra cost of one that can be shared.

    The extra cost is measured with one core at each end, where no core waits. The time beyond an operation on a ring of
    one's own consists of the atomic accesses that cores make one after the other. The cost of a cache line that another
    core held (ring_contended_ns) cannot be derived from sums over a window: it elapses while the core waits for its
    turn.
    """
    costs_of: dict[str, dict[int, list[float]]] = {"dispatch_ns": {}, "empty_ring_poll_ns": {}, "ring_busy_poll_ns": {}}
    for queues, end, beyond_ns in _beyond_own_work(trials, costs, "scale-out"):
        name, value = ("dispatch_ns", beyond_ns / end.packets) if end.dispatches else ("ring_busy_poll_ns", beyond_ns)
        costs_of[name].setdefault(queues, []).append(value)
        if not end.dispatches and end.empty_poll_ns is not None:
            costs_of["empty_ring_poll_ns"].setdefault(queues, []).append(end.empty_poll_ns)
    alone = f"{source}, dispatchers and workers with a ring each"
    found: dict[str, Any] = {name: _measured(values, alone) for name, values in costs_of.items() if values}
    pairs = [trial for trial in trials if trial["params"].cores == dispatchers(trial["params"]) == 1]
    rows: dict[int, list[tuple[float, float]]] = {}
    for queues, end, beyond_ns in _beyond_own_work(pairs, costs, "scale-up"):
        own = costs_of["dispatch_ns" if end.dispatches else "ring_busy_poll_ns"].get(queues)
        if own:
            own_ns = median(own) * (end.packets if end.dispatches else 1.0)
            rows.setdefault(queues, []).append((end.packets, max(0.0, beyond_ns - own_ns)))
    origin = {
        "origin": "measured",
        "source": f"{source}, least squares of operations beyond those on a ring of one's own",
    }
    separable = {queues: found for queues, found in rows.items() if _separable(found)}
    return found | (_fits(("ring_ns", "ring_packet_ns"), separable, origin) if separable else {})


def _beyond_own_work(trials: Sequence[Trial], costs: Costs, organisation: str) -> Iterator[tuple[int, _RingEnd, float]]:
    """Yield the queues of a dispatcher, an end of a ring, and the ns of a busy poll there that belong to the ring."""
    for trial in trials:
        params: Parameters = trial["params"]
        queues = points.queues_of_a_core(params)
        if (
            params.organisation == organisation
            and costs.busy_poll_ns.reaches(queues)
            and costs.packet_ns.reaches(queues)
        ):
            packet_ns = costs.packet_ns.at(queues) + _asked_ns(trial)
            for end in trial["ring_ends"]:
                own_ns = costs.busy_poll_ns.at(queues) if end.dispatches else end.packets * packet_ns
                yield queues, end, max(0.0, end.busy_poll_ns - own_ns)


def _by_queues(values: Mapping[int, Sequence[float]]) -> dict[str, Any]:
    """Return the median at each number of queues, rounded to the digits that a measurement has, and its interval."""
    found = {queues: float(f"{median(trials):.4g}") for queues, trials in sorted(values.items())}
    return {"by_queues": found, **_intervals({queues: _of_median(trials) for queues, trials in values.items()})}


def _intervals(found: Mapping[int, Interval | None]) -> dict[str, Any]:
    known = {queues: interval for queues, interval in sorted(found.items()) if interval is not None}
    return {"intervals": known} if known else {}


def _of_median(trials: Sequence[float]) -> Interval | None:
    """Return the 95 % interval of the median of trials, by a bootstrap; None for too few trials."""
    if len(trials) < _FEWEST_TRIALS:
        return None
    drawn = np.random.Generator(np.random.PCG64(RESAMPLING_SEED)).choice(trials, (RESAMPLES, len(trials)))
    return _ends(np.median(drawn, axis=1))


def _ends(resampled: NDArray[np.float64]) -> Interval:
    low, high = np.percentile(resampled, [2.5, 97.5])
    return [float(f"{low:.4g}"), float(f"{high:.4g}")]


def _empty_poll(trials: Sequence[Trial], where: str, source: str) -> dict[str, Any]:
    values: dict[int, list[float]] = {}
    for trial in trials:
        if _tells_empty_polls(trial):
            polls_per_s = trial["empty_poll_fraction"] * trial["poll_rate_hz"]
            running = trial["empty_poll_share"] * trial["params"].cores
            values.setdefault(points.queues_of_a_core(trial["params"]), []).append(running / polls_per_s * 1e9)
    if not values:
        raise UsageError("no trial shows the cost of an empty poll", where, "give a run with little traffic")
    return _measured(values, f"{source}, empty polls")


def _tells_empty_polls(trial: Trial) -> bool:
    return trial.get("empty_poll_fraction", 0) >= _LEAST_EMPTY and "empty_poll_share" in trial


def _busy_poll(trial: Trial) -> tuple[float, float] | None:
    """Return packets and ns of a mean busy poll, without the cost that the spec adds; None if it was not timed."""
    if not (trial.get("rx_pps") and trial.get("burst_mean") and "useful_share" in trial):
        return None
    busy_polls_per_s = trial["rx_pps"] / trial["burst_mean"]
    busy = (trial["useful_share"] + trial.get("wire_share", 0.0)) * trial["params"].cores
    return trial["burst_mean"], busy / busy_polls_per_s * 1e9 - trial["burst_mean"] * _asked_ns(trial)


def _busy_polls(trials: Sequence[Trial], where: str, source: str) -> dict[str, Any]:
    """Return the costs of a busy poll and of a packet, per number of queues if they are separable, else over all."""
    rows: dict[int, list[tuple[float, float]]] = {}
    for trial in trials:
        if (busy_poll := _busy_poll(trial)) is not None:
            rows.setdefault(points.queues_of_a_core(trial["params"]), []).append(busy_poll)
    every = [row for found in rows.values() for row in found]
    bursts = [burst for burst, _ in every]
    if not _separable(every):
        seen = f"busy polls took {_range(bursts)} packets" if every else "no busy poll was timed"
        raise UsageError(
            f"the costs of a busy poll and of its packets cannot be separated: {seen}",
            where,
            "give a run with light and heavy load",
        )
    fit = f"least squares of useful cycles and the wire of busy polls of {_range(bursts)} packets"
    origin = {"source": f"{source}, {fit}", "origin": "measured"}
    if all(map(_separable, rows.values())):
        return _fits(("busy_poll_ns", "packet_ns"), rows, origin)
    fitted = zip(("busy_poll_ns", "packet_ns"), _fit(every), _fit_intervals(every), strict=True)
    return {name: {"value": value, "interval": interval, **origin} for name, value, interval in fitted}


def _asked_ns(trial: Trial) -> float:
    """Return the mean cost per packet that the spec adds: the model adds it again."""
    return points.mean_service_ns(trial["params"], trial["tsc_hz"])


def _range(values: Sequence[float]) -> str:
    return f"{human_number(min(values))} to {human_number(max(values))}"


def _separable(rows: Sequence[tuple[float, float]]) -> bool:
    """Return whether busy polls differ enough in their packets to separate both costs."""
    bursts = [burst for burst, _ in rows]
    return len(rows) >= _FEWEST_TRIALS and max(bursts) >= _LEAST_SPREAD * min(bursts)


def _fit(rows: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Fit the time of a busy poll to its packets by non-negative least squares; errors are relative to the time."""
    weights = np.array([1 / max(time_ns, 1.0) for _, time_ns in rows])
    sides = np.array([[1.0, burst] for burst, _ in rows]) * weights[:, None]
    busy_poll_ns, packet_ns = scipy.optimize.nnls(sides, weights * [time_ns for _, time_ns in rows])[0]
    return float(f"{busy_poll_ns:.4g}"), float(f"{packet_ns:.4g}")


def _fit_intervals(rows: Sequence[tuple[float, float]]) -> tuple[Interval, Interval]:
    """Return 95 % intervals of both parts of the fit, by a bootstrap over trials."""
    random = np.random.Generator(np.random.PCG64(RESAMPLING_SEED))
    drawn = random.integers(0, len(rows), (RESAMPLES, len(rows)))
    fits = np.array([_fit([rows[place] for place in places]) for places in drawn])
    return _ends(fits[:, 0]), _ends(fits[:, 1])


def _measured(values: Mapping[int, Sequence[float]], source: str) -> dict[str, Any]:
    return {**_by_queues(values), "origin": "measured", "source": source}


def _generator(trials: Sequence[Trial], source: str) -> dict[str, Any]:
    """Return the generator's rate in the trials in which it sent as fast as it could."""
    values: dict[int, list[float]] = {}
    for trial in trials:
        if trial["params"].saturate and trial.get("offered_pps"):
            values.setdefault(points.queues_of_a_core(trial["params"]), []).append(trial["offered_pps"])
    return {"generator_pps": _measured(values, f"{source}, saturating trials")} if values else {}


def _turns(trials: Sequence[Trial], source: str) -> dict[str, Any]:
    """Return the costs of an iteration of a busy generator with a schedule and of its packets, by number of queues."""
    rows: dict[int, list[tuple[float, float]]] = {}
    for trial in trials:
        if not trial["params"].saturate and trial.get("offered_pps") and trial.get("sent_mean", 0) >= _LEAST_SENT:
            turn_ns = trial["sent_mean"] / trial["offered_pps"] * 1e9
            rows.setdefault(points.queues_of_a_core(trial["params"]), []).append((trial["sent_mean"], turn_ns))
    separable = {queues: found for queues, found in rows.items() if _separable(found)}
    if not separable:
        return {}
    sent = [sent for found in separable.values() for sent, _ in found]
    source = f"{source}, least squares of the generator's turns of {_range(sent)} packets"
    return _fits(("turn_ns", "sent_ns"), separable, {"origin": "measured", "source": source})


def _fits(
    names: tuple[str, str], rows: Mapping[int, Sequence[tuple[float, float]]], origin: Mapping[str, str]
) -> dict[str, Any]:
    fits = {queues: _fit(found) for queues, found in sorted(rows.items())}
    spreads = {queues: _fit_intervals(found) for queues, found in rows.items()}
    return {
        name: {
            "by_queues": {queues: fit[part] for queues, fit in fits.items()},
            **_intervals({queues: spread[part] for queues, spread in spreads.items()}),
            **origin,
        }
        for part, name in enumerate(names)
    }


def _path(trials: Sequence[Trial], costs: Costs, source: str) -> dict[str, Any]:
    """Return the median latency at the lightest loads minus the time in a simulated DUT: the cost of the path."""
    beyond: list[float] = []
    for trial in trials:
        params: Parameters = trial["params"]
        light = 0 < trial.get("useful_share", 1.0) <= _LIGHT_USEFUL_SHARE
        if not light or not params.load_pps or "latency_sent_p50_ns" not in trial:
            continue
        if points.queues_of_a_core(params) > min(costs.empty_poll_ns.by_queues or {1: 0.0}):
            continue
        system = points.system(params, costs, trial["tsc_hz"], params.load_pps)
        times = simulate(system, _SIMULATED_PACKETS / params.load_pps * 1e9, workers=1).times
        beyond.append(trial["latency_sent_p50_ns"] - times.percentile(50))
    if not beyond:
        return {}
    text = f"{source}, median latency of the fewest queues less the simulated time in the DUT, {len(beyond)} trials"
    interval = _of_median([max(0.0, each) for each in beyond])
    found = {"value": float(f"{max(0.0, median(beyond)):.4g}"), "origin": "fitted", "source": text}
    return {"path_ns": found if interval is None else {**found, "interval": interval}}
