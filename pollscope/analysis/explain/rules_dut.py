# SPDX-License-Identifier: BSD-3-Clause
"""Judge stages inside the DUT: its cores, the sweep over queues, rings, locks, mbufs, the TX queue, and the host."""

from pollscope.analysis.explain.finding import CLEAR, LIMITS, OPEN, RuleJudgement, judged
from pollscope.analysis.explain.observations import BUSY_SHARE, FULL_BUSY_POLLS_SHARE, CoreLoad, PointObservations
from pollscope.base.names import RECEIVE_NOTHING, SHARED_QUEUES
from pollscope.base.units import counted, human_ns, human_number, human_share
from pollscope.metrics.record import NotMeasured
from pollscope.plan.search import SATURATED_MISSED_SHARE

# From this share of an lcore's time on, waiting for a lock limits: without it the same core does 11 % more.
_LOCK_SHARE = 0.1
_LOST_CLAIMS_SHARE = 0.5
# If the virtual NIC takes more than this share of a busy core's time, it limits, not the forwarder.
_MOSTLY_WIRE_SHARE = 0.5
# This share of packets may by chance find no mbuf, or no room in the TX queue, at the start.
_FEW_SHARE = 0.001
_AWAY_SHARE = 0.01
# A core that loses this share of its time is limited by that, whatever else limits it.
_MOSTLY_AWAY_SHARE = 0.25


def _core_cycles(point: PointObservations) -> RuleJudgement:
    try:
        core = point.busiest
    except NotMeasured:
        return _core_by_polls(point)
    within = f" +-{human_share(core.error)}" if core.error else ""
    busy = f"{core.name} is busy for {human_share(core.busy)}{within} of the time in which it runs"
    if not point.core_bound and core.busy >= BUSY_SHARE:
        return judged(
            OPEN, f"{busy} and misses nothing; {_left(core)}, and larger bursts may carry more", _cycles_text(point)
        )
    if not point.core_bound:
        return judged(CLEAR, f"{busy}, the busiest of {len(point.cores)}; {_left(core)}")
    if _wire(point) >= _MOSTLY_WIRE_SHARE * core.busy:
        return judged(CLEAR, f"{busy}, but most of that is the virtual NIC's copying")
    waiting = _waits_most(point)
    if waiting.waiting >= _LOCK_SHARE:
        # An unfair lock keeps one core busy and starves the others: with less work per packet it would be held as long.
        return judged(OPEN, f"{busy}, but {waiting.name} waits for the queue's lock", _cycles_text(point))
    return judged(
        LIMITS, busy, _cycles_text(point), *(point.text_if_known(name) for name in ("wire_share", "ipc_useful"))
    )


def _left(core: CoreLoad) -> str:
    return f"{human_share(1 - core.busy)} of its time is left"


def _wire(point: PointObservations) -> float:
    """Return the share of time that the DUT's cores spend as the virtual NIC's DMA engine."""
    return point.known("wire_share") or 0.0


def _copying(point: PointObservations) -> RuleJudgement:
    wire = _wire(point)
    if not wire:
        return judged(CLEAR, "the DUT's cores copy nothing for a virtual NIC")
    share = point.text("wire_share")
    if not point.core_bound or wire < _MOSTLY_WIRE_SHARE * point.busiest.busy:
        return judged(CLEAR, f"{share} of the cores' time")
    return judged(
        LIMITS,
        f"{share} of the cores' time goes into copying frames, which a NIC's DMA engine does by itself",
        _cycles_text(point),
        "a run with `dma: swap` (buffers change hands) or `feed: infinite` (no sender) measures the rest alone",
    )


def _core_by_polls(point: PointObservations) -> RuleJudgement:
    """Judge without cycles: an empty poll takes less than a busy one, so few empty polls take few cycles."""
    if point.backlogged and point.mean("empty_poll_fraction") <= 1 - BUSY_SHARE:
        return judged(LIMITS, f"{point.text('empty_poll_fraction')}, and a poll that finds packets takes longer")
    raise NotMeasured(point.no_loads or point.not_there)


def _cycles_text(point: PointObservations) -> str:
    extra = point.param("extra_cycles") or 0
    if point.ring_is_full or point.known("cycles_per_packet_useful") is None:
        return f"the spec adds {human_number(extra)} cycles to the work on a packet (extra_cycles)" if extra else ""
    added = f", of which the spec adds {human_number(extra)} (extra_cycles)" if extra else ""
    return f"{point.text('cycles_per_packet_useful')}{added}"


def _sweep(point: PointObservations) -> RuleJudgement:
    if point.param("notification") == "qwait":
        return judged(CLEAR, "doorbells identify the next queue, so no empty queue is polled")
    filled = point.filled
    said = f"the fullest queue gives {human_share(filled)} of what its polls can take ({point.param('burst')} each)"
    if not point.backlogged or filled < FULL_BUSY_POLLS_SHARE:
        return judged(CLEAR, said)
    if not point.has_idle_polls:
        return judged(CLEAR, f"{said}, but the core has no time for more polls")
    return judged(
        LIMITS, said, *(point.text_if_known(name) for name in ("sweep_time_ns", "empty_poll_share", "tax_share"))
    )


def _rx_ring(point: PointObservations) -> RuleJudgement:
    lost = point.text_if_known("imissed_share") or "no packet was received"
    if point.param("feed") == "infinite" or point.missed <= SATURATED_MISSED_SHARE:
        return judged(CLEAR, lost)
    if not point.has_idle_polls or point.filled >= FULL_BUSY_POLLS_SHARE:
        return judged(CLEAR, f"{lost}, because the ring is filled faster than it is emptied")
    if _is_away(point, point.missed):
        said = f"{lost}; a longer ring would hold the packets that come while the host has the core"
        return judged(OPEN, said, _lasts(point))
    reader = max(point.readers, key=lambda core: core.busy)
    return judged(
        LIMITS,
        f"{lost}, while {reader.name} is busy for {human_share(reader.busy)} only",
        _lasts(point),
        *(point.text_if_known(name) for name in ("poll_gap_p99_ns", "longest_iteration_ns", "interrupted_share")),
    )


def _lasts(point: PointObservations) -> str:
    """Return how long it takes to fill the ring of one queue, if all queues get the same rate."""
    size, rate = point.param("rx_desc"), point.known("offered_pps")
    if not size or not rate:
        return ""
    queues = 1 if point.param("shape") == "SQ" else point.param("queues") or 1
    return f"at the mean rate {size} descriptors hold the packets of {human_ns(1e9 * size * queues / rate)}"


def _is_away(point: PointObservations, lost: float) -> bool:
    """Return whether the lost packets are about those that come while something else has the core."""
    away = point.known("interrupted_share") or 0.0
    return away >= _AWAY_SHARE and 2 * away >= lost


def _host(point: PointObservations) -> RuleJudgement:
    away = f"{point.text('interrupted_share')} of the time something else has the DUT's CPUs"
    sends_all_it_can = point.param("workload") in RECEIVE_NOTHING and point.core_bound
    if point.nothing_is_sent and 2 * point.away_flagged > point.trial_count:
        return judged(OPEN, f"{point.away_flagged} of {counted(point.trial_count, 'trial')} are flagged for it: {away}")
    if not (point.backlogged or sends_all_it_can):
        return judged(CLEAR, away)
    lossy = point.param("feed") != "infinite" and not point.core_bound and _is_away(point, point.lost)
    if lossy or point.mean("interrupted_share") >= _MOSTLY_AWAY_SHARE:
        lost = point.lost_text if point.lost else ""
        return judged(LIMITS, away, lost, _lasts(point) if point.known("imissed_share") else "")
    return judged(CLEAR, away)


def _ring_between(point: PointObservations) -> RuleJudgement:
    if not point.param("dispatchers") and point.param("organisation") != "scale-up":
        return judged(CLEAR, "no ring lies between the DUT's cores")
    full = point.text("ring_full_share")
    if not point.ring_is_full:
        return judged(CLEAR, full)
    if point.busiest.busy >= BUSY_SHARE:
        return judged(CLEAR, f"{full}, because the workers have no time left")
    return judged(LIMITS, full, f"ring of {point.param('ring_size')} entries, {point.param('ring_sync')}")


def _shared_queue(point: PointObservations) -> RuleJudgement:
    if point.param("organisation") not in SHARED_QUEUES or (point.param("cores") or 1) < 2:
        return judged(CLEAR, "no queue is shared")
    if point.param("organisation") != "locked":
        claims = point.text("claim_lost_fraction")
        return judged(OPEN if point.mean("claim_lost_fraction") > _LOST_CLAIMS_SHARE else CLEAR, claims)
    core = _waits_most(point)
    said = f"{core.name} waits for the queue's lock for {human_share(core.waiting)} of the time in which it runs"
    return judged(LIMITS if core.waiting >= _LOCK_SHARE and point.backlogged else CLEAR, said)


def _waits_most(point: PointObservations) -> CoreLoad:
    return max(point.cores, key=lambda core: core.waiting)


def _mbufs(point: PointObservations) -> RuleJudgement:
    names = [name for name in ("rx_nombuf_share", "refill_failed_fraction") if point.known(name) is not None]
    if not names:
        point.mean("rx_nombuf_share")
    texts = [point.text(name) for name in names]
    short = any(point.mean(name) > _FEW_SHARE for name in names)
    return judged(LIMITS if short else CLEAR, *texts)


def _tx_queue(point: PointObservations) -> RuleJudgement:
    dropped = point.text("tx_dropped_share")
    return judged(LIMITS if point.mean("tx_dropped_share") > SATURATED_MISSED_SHARE else CLEAR, dropped)


JUDGES = {
    "core cycles": _core_cycles,
    "copying of the virtual NIC": _copying,
    "shared queue": _shared_queue,
    "sweep over the queues": _sweep,
    "ring between cores": _ring_between,
    "RX ring": _rx_ring,
    "host takes the core": _host,
    "mbuf pool": _mbufs,
    "TX queue": _tx_queue,
}
