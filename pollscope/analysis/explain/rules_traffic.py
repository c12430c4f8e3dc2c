# SPDX-License-Identifier: BSD-3-Clause
"""Judge stages in front of the DUT: the requested load, the generator, the line."""

from collections.abc import Iterator

from pollscope.analysis.explain.finding import CLEAR, LIMITS, OPEN, RuleJudgement, judged
from pollscope.analysis.explain.observations import PointObservations
from pollscope.analysis.saturation import UNSENT_LIMIT
from pollscope.base.units import counted, human, human_share
from pollscope.metrics.record import NotMeasured
from pollscope.plan.search import SATURATED_MISSED_SHARE

# Organisations that cannot have `feed: infinite`.
_ONLY_FROM_THE_WIRE = ("corec", "rebalanced")
# A line is full from this share of its speed on.
_LINE_SHARE = 0.98


def _has_time_left(point: PointObservations) -> bool:
    """Return whether the DUT has time left; assume so if its cycles or losses are unknown."""
    try:
        return not point.core_bound
    except NotMeasured:
        return True


def _generator(point: PointObservations) -> RuleJudgement:
    if not point.has_generator:
        return judged(CLEAR, "nothing is sent to the DUT")
    if point.backlogged:
        return judged(CLEAR, f"{point.lost_text}: it sends more than the DUT takes")
    if not _sends(point):
        return judged(CLEAR, "no load was requested")
    unsent, sent = point.text_if_known("unsent_share"), point.text_if_known("offered_pps")
    late = (point.known("unsent_share") or 0.0) > UNSENT_LIMIT
    whole = bool(point.param("saturate")) or (point.param("load_of_max") == 1 and bool(point.not_its_maximum))
    if not late and not whole:
        return judged(CLEAR, unsent or sent)
    if not _has_time_left(point):
        return judged(OPEN, unsent, "the DUT has no time left either")
    if not whole and _generator_is_away(point):
        return judged(OPEN, unsent, f"{point.text('generator_away_share')}: the host has its CPU then")
    if whole and point.lost_elsewhere > SATURATED_MISSED_SHARE:
        return judged(OPEN, _elsewhere(point), sent)
    why = "it sends as much as it can, and the DUT misses none of it" if whole else "it sends less than was due"
    missed = point.text_if_known("imissed_share")
    return judged(LIMITS, f"{why}: {sent}", unsent, missed, point.not_its_maximum, *_wire(point))


def _wire(point: PointObservations) -> Iterator[str]:
    """Yield that the wire of the virtual NIC is the limit, whether fewer DUT cores got more, and what lifts it."""
    if not point.wire_lcores or point.param("generator_sleep"):
        return
    senders = f"{counted(point.wire_lcores, 'generator lcore')} {'writes' if point.wire_lcores == 1 else 'write'}"
    yield f"the wire is the limit: {senders} all frames into the DUT's rings"
    fewer, sent = point.before, point.known("offered_pps") or 0.0
    if fewer is not None and (fewer.known("offered_pps") or 0.0) > sent:
        cores = counted(fewer.param("cores") or 1, "DUT core")
        yield f"with {cores} it sent more ({fewer.text('offered_pps')}): more receiving cores make the wire slower"
    fed = bool(point.param("saturate")) and point.param("organisation") not in _ONLY_FROM_THE_WIRE
    infinite = ", or `feed: infinite`, which fills the rings without a wire" if fed else ""
    if point.param("generator") == "agent":
        yield f"what lifts it: a generator core of more lcores (`generator: core`){infinite}"
        return
    yield f"what lifts it: another generator lcore (`cpus: {{generator: [...]}}` in the testbed's file){infinite}"


def _generator_is_away(point: PointObservations) -> bool:
    """Return whether the unsent packets are about those due while something else had the generator's CPU."""
    return 2 * (point.known("generator_away_share") or 0.0) >= (point.known("unsent_share") or 0.0) > UNSENT_LIMIT


def _sends(point: PointObservations) -> bool:
    return (point.known("offered_pps") or point.known("intended_pps") or point.known("rx_pps") or 0.0) > 0


def _offered_load(point: PointObservations) -> RuleJudgement:
    if point.param("feed") == "none":
        return judged(LIMITS, "nothing is sent (feed: none)", *_polls(point))
    if not point.has_generator:
        return judged(CLEAR, "there is no load to choose: the DUT works without a generator")
    if not _sends(point):
        return judged(LIMITS, "nothing is sent: every cycle is an empty poll's or the loop's", *_polls(point))
    load = point.text_if_known("offered_pps") or point.text("rx_pps")
    if point.backlogged:
        return judged(CLEAR, f"{load}, and {point.lost_text}")
    slow = _generator(point).kind is not CLEAR and not _generator_is_away(point)
    if point.param("saturate") or slow or not _has_time_left(point):
        return judged(CLEAR, load)
    if point.lost_elsewhere > SATURATED_MISSED_SHARE:
        return judged(OPEN, _elsewhere(point), load)
    return judged(LIMITS, f"the DUT takes all packets: {load}", _left(point), point.not_its_maximum)


def _polls(point: PointObservations) -> list[str]:
    return [point.text_if_known(name) for name in ("poll_rate_running_hz", "sweep_time_ns")]


def _elsewhere(point: PointObservations) -> str:
    if point.not_arrived is not None:
        lost = human_share(point.not_arrived)
        return f"{lost} of the sent packets did not reach the DUT's port: lost on the way to it"
    return f"{point.text('loss_share')}, which no counter of the DUT shows: in the NIC, or where the generator receives"


def _nic_port(point: PointObservations) -> RuleJudgement:
    discards = point.text("nic_rx_port_discards_per_s")
    discarded = point.mean("nic_rx_port_discards_per_s")
    came = point.known("offered_pps") or point.mean("rx_pps") + discarded
    full = discarded > SATURATED_MISSED_SHARE * came
    return judged(LIMITS if full else CLEAR, discards, "its own buffer was full: PCIe, or memory behind it")


def _left(point: PointObservations) -> str:
    try:
        core = point.busiest
    except NotMeasured:
        return ""
    return f"{core.name}, the busiest of {len(point.cores)}, has {human_share(1 - core.busy)} of its time left"


def _line(point: PointObservations) -> RuleJudgement:
    if point.without_hardware:
        raise NotMeasured(point.without_hardware)
    if not point.links:
        raise NotMeasured(point.no_link or point.not_there)
    used = {name: (point.mean(metric) / speed, metric, speed) for name, metric, speed in point.links}
    name, (share, metric, speed) = max(used.items(), key=lambda each: each[1][0])
    said = f"{point.text(metric)} of {human(speed, 'bit/s')} on {name}: {human_share(share)}"
    return judged(LIMITS if share >= _LINE_SHARE else CLEAR, said)


JUDGES = {
    "offered load": _offered_load,
    "generator": _generator,
    "line": _line,
    "NIC port": _nic_port,
}
