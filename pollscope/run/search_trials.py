# SPDX-License-Identifier: BSD-3-Clause
"""Search for a maximum: provide the counts of trials, and report the outcome."""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from pollscope.base.units import human_share
from pollscope.metrics.record import NS_PER_S, NotMeasured, TrialObservations, at
from pollscope.plan.plan import Trial, search_trial
from pollscope.plan.search import Found, SearchCounts, Settings, search, settings_of
from pollscope.spec.model import Parameters, Spec
from pollscope.store.trial_record import TrialRecord


class StepFailed(Exception):
    """A trial of a search failed repeatedly; the text gives the reason."""


def run_search(spec: Spec, maximum: Trial, count: Callable[[Trial], SearchCounts]) -> tuple[dict[str, Any], list[str]]:
    """Execute a search.

    Args:
        spec: of the run.
        maximum: the planned search.
        count: measures one of its trials; its exceptions end the search.

    Returns:
        The part `search` of its record (docs/internals/store-format.md), and warnings.
    """
    settings, made = settings_of(spec), list[str]()

    def measure(load_pps: float | None, _window_ns: int) -> SearchCounts:
        step = search_trial(maximum, len(made), load_pps)
        made.append(step.id)
        return count(step)

    found = search(settings, measure)
    point, warnings = maximum.point, list[str]()
    if found.outcome != "found":
        warnings.append(f"no result of the search at '{point.id}', {found.outcome}: {found.reason}")
    if hidden := hidden_overload(point.params, settings, found):
        warnings.append(f"search at '{point.id}': {hidden}")
    return _search_json(settings, found, made), warnings


def counts_of(record: TrialRecord, metrics: Mapping[str, float]) -> SearchCounts:
    """Return the counts of a trial of a search.

    Args:
        record: of the trial, not failed.
        metrics: of the trial.

    Raises:
        NotMeasured: the generator did not count what it sent and received.
        UsageError: the record contradicts the protocol.
    """
    trial = TrialObservations(record.to_json())
    sent = int(trial.gen_sum("total", "sent"))
    back = trial.gen_sum("total", "rx_packets") - trial.gen_sum("sequence", "duplicated")
    # Negative where the node cannot recognise late duplicates (`too_old`): then nothing was lost.
    lost = max(0, sent - int(back + _missed_by_generator(trial)))
    # Time that the host takes from the generator; a model has none.
    gaps_ns = 0.0 if record.modelled else trial.gen_sum("host_gaps", "in_over_100us_ns") / len(trial.generators)
    return SearchCounts(
        sent=sent,
        lost=lost,
        unsent_share=metrics.get("unsent_share", 0.0),
        offered_pps=metrics["offered_pps"],
        received_pps=metrics["rx_pps"],
        missed_share=metrics.get("imissed_share", 0.0),
        gap_share=gaps_ns / NS_PER_S / trial.window_s,
    )


def _missed_by_generator(trial: TrialObservations) -> float:
    """Return the returned packets that found no descriptor at the generator's port; they are no loss of the DUT."""
    try:
        name = trial.part("config", "gen", "rx_port").text()
        stats = trial.part("result", "ports", name, "stats")
        return sum(at(stats, (counter,)).number() for counter in ("imissed", "rx_nombuf"))
    except NotMeasured:
        return 0.0  # the port does not tell; then every packet that is not back counts as the DUT's loss


def hidden_overload(params: Parameters, settings: Settings, found: Found) -> str | None:
    """Return a warning if the RX rings can hide more overload than the precision of the search."""
    rates = [goal.throughput_pps for goal in found.goals if goal.throughput_pps]
    held = params.queues * params.rx_desc
    share = held / (min(rates) * settings.window_ns / NS_PER_S) if rates else 0.0
    if share <= settings.width:
        return None
    return (
        f"the RX rings hold {held} packets, {human_share(share, 2)} of what arrives in a window at the rate found: so "
        f"much overload shows no loss, but the search is to be precise to {human_share(settings.width)} "
        "(longer maximum.window, smaller rx_desc)"
    )


def _search_json(settings: Settings, found: Found, trials: Sequence[str]) -> dict[str, Any]:
    return {
        "method": f"MLRsearch {version('MLRsearch')}",
        "outcome": found.outcome,
        "reason": found.reason or None,
        "highest_pps": found.highest_pps,
        "exceed_ratio": settings.exceed_ratio,
        "width": settings.width,
        "window_ns": settings.window_ns,
        "duration_sum_ns": settings.duration_sum_ns,
        "goals": [goal.to_json() for goal in found.goals],
        "trials": list(trials),
    }
