# SPDX-License-Identifier: BSD-3-Clause
"""Compute the metrics of packets: sent by the generator, lost, dropped, out of order."""

from collections.abc import Mapping

from pollscope.base.names import DROP_ON_PURPOSE, SEND_NOTHING
from pollscope.metrics.formulas import Compute
from pollscope.metrics.record import NS_PER_S, NotMeasured, Part, TrialObservations, at, keys_of, nonzero, positive

# Duplicate acknowledgments after which a TCP sender considers a segment lost (RFC 5681 section 3.2).
_TCP_DUPLICATE_ACKS = 3
# The node counts larger displacements as this one (SEQUENCE_DISPLACEMENT_MAX of apps/lib/sequence.h).
_FARTHEST_DISPLACEMENT = 256


def _gen_rate(key: str) -> Compute:
    return lambda trial: trial.gen_sum(key) / _generator_s(trial)


def _generator_s(trial: TrialObservations) -> float:
    # Generator lcores run in parallel: their rates add up, and the mean of their windows is the window.
    duration = trial.gen_sum("duration_tsc") / len(trial.generators)
    return nonzero(duration, "the generator's window has no length") / trial.generator_tsc_hz


def _gap_rate(key: str) -> Compute:
    return lambda trial: trial.gen_sum("host_gaps", key) / trial.window_s


def require_receiver(trial: TrialObservations) -> None:
    """Raise NotMeasured if no packet can come back to the generator."""
    trial.once(_receives)


def _receives(trial: TrialObservations) -> None:
    generator = trial.part("config", "gen").value
    if isinstance(generator, Mapping) and generator.get("rx_port") is None:
        raise NotMeasured("the generator does not receive in this configuration (gen.rx_port is null)")
    if _workload(trial) in SEND_NOTHING:
        raise NotMeasured("the workload drops every packet on purpose")


def _require_answers(trial: TrialObservations) -> None:
    """Raise NotMeasured if a packet that does not come back need not be lost."""
    require_receiver(trial)
    if _workload(trial) in DROP_ON_PURPOSE:
        raise NotMeasured("the workload drops some packets on purpose")


def _workload(trial: TrialObservations) -> object:
    dut = trial.part("config", "dut").value
    return dut.get("workload") if isinstance(dut, Mapping) else None


def _first_copies(trial: TrialObservations) -> float:
    require_receiver(trial)
    copies = trial.gen_sum("total", "rx_packets") - trial.gen_sum("sequence", "duplicated")
    return nonzero(max(copies, 0.0), "the generator received nothing")


def _worst_loss(flows: Part) -> float:
    if flows["lossy"].number() == 0:
        return 0.0
    return flows["worst_loss"]["lost"].number() / positive(flows["worst_loss"]["sent"])


def _rate_error(trial: TrialObservations) -> float:
    rate = trial.part("start", "rate")
    if isinstance(rate.value, Mapping) and "pps" not in rate.value:
        raise NotMeasured("no rate in packets per second was asked for")
    asked = nonzero(rate["pps"].number(), "no traffic was asked for")
    return trial.gen_sum("sent") / _generator_s(trial) / asked - 1


def _generator_away_share(trial: TrialObservations) -> float:
    away_ns = sum(at(lcore, ("host_gaps", "in_over_100us_ns")).number() for lcore in trial.generators)
    return away_ns / NS_PER_S / (trial.window_s * len(trial.generators))


def _loss_share(trial: TrialObservations) -> float:
    _require_answers(trial)
    sent = nonzero(trial.gen_sum("total", "sent"), "the generator sent nothing")
    return 1 - (trial.gen_sum("total", "rx_packets") - trial.gen_sum("sequence", "duplicated")) / sent


def _lossy_flows_share(trial: TrialObservations) -> float:
    _require_answers(trial)
    return trial.gen_sum("sequence", "flows", "lossy") / nonzero(
        trial.gen_sum("sequence", "flows", "sent"), "the generator sent nothing"
    )


def _worst_flow_loss_share(trial: TrialObservations) -> float:
    _require_answers(trial)
    return max(_worst_loss(lcore["sequence"]["flows"]) for lcore in trial.generators)


def _duplicated_share(trial: TrialObservations) -> float:
    require_receiver(trial)
    received = nonzero(trial.gen_sum("total", "rx_packets"), "the generator received nothing")
    return trial.gen_sum("sequence", "duplicated") / received


def _displaced(trial: TrialObservations) -> list[tuple[int, int]]:
    """Return displacements other than 0 with the number of packets that have each."""
    require_receiver(trial)
    if trial.gen_histogram("sequence", "extent", may_be_empty=True).refused:
        raise NotMeasured("packets came too late to determine the order of those before them")
    return [pair for lcore in trial.generators for pair in _pairs(at(lcore, ("sequence", "displaced")).value)]


def _pairs(value: object) -> list[tuple[int, int]]:
    if not isinstance(value, list):
        raise NotMeasured("the trial was measured before displacements were counted")
    return [(int(by), int(packets)) for by, packets in value]


def _displacement_mean(trial: TrialObservations) -> float:
    found = _displaced(trial)
    if far := sum(packets for by, packets in found if abs(by) >= _FARTHEST_DISPLACEMENT):
        raise NotMeasured(
            f"{far} packets are displaced by {_FARTHEST_DISPLACEMENT} places or more, which is not recorded exactly"
        )
    packets = nonzero(sum(packets for _, packets in found), "no packet was displaced")
    return sum(abs(by) * count for by, count in found) / packets


def _reordered_by_3_share(trial: TrialObservations) -> float:
    require_receiver(trial)
    degree = trial.gen_histogram("sequence", "degree", may_be_empty=True)
    return degree.at_least(_TCP_DUPLICATE_ACKS) / _first_copies(trial)


def _imissed_share(trial: TrialObservations) -> float:
    # Of a running program (`pollscope attach`) the rates of all ports are known.
    result = trial.part("result")
    attached = "ports_per_s" in keys_of(result)
    ports = [result["ports_per_s"][port] for port in keys_of(result["ports_per_s"])] if attached else [trial.rx_port]
    missed = sum(port["imissed"].number() for port in ports)
    arrived = sum(port["ipackets"].number() for port in ports) + missed
    return missed / nonzero(arrived, "no packet arrived at the DUT's RX port")


def _rx_nombuf_share(trial: TrialObservations) -> float:
    refused = trial.rx_port["rx_nombuf"].number()
    arrived = trial.rx_port["ipackets"].number() + trial.rx_port["imissed"].number() + refused
    return refused / nonzero(arrived, "no packet arrived at the DUT's RX port")


def _tx_dropped_share(trial: TrialObservations) -> float:
    dropped = trial.sent("tx_dropped")
    return dropped / nonzero(dropped + trial.sent("tx_packets"), "the DUT sent nothing")


def _ring_full_share(trial: TrialObservations) -> float:
    if not trial.dispatchers:
        raise NotMeasured("there is no ring: no lcore is a dispatcher")
    full = sum(lcore["ring_full"].number() for lcore in trial.dispatchers)
    return full / nonzero(trial.received("rx_packets"), "the dispatchers received no packet in the window")


def _core_imbalance(trial: TrialObservations) -> float:
    packets = [lcore["rx_packets"].number() for lcore in trial.workers]
    if len(packets) < 2:
        raise NotMeasured("a single core has no other core to compare with")
    mean = nonzero(sum(packets), "the cores received no packet in the window") / len(packets)
    return (max(packets) - mean) / (sum(packets) - mean)


TRAFFIC: dict[str, Compute] = {
    "offered_pps": _gen_rate("sent"),
    "intended_pps": _gen_rate("intended"),
    "generator_gaps_over_10us_per_s": _gap_rate("over_10us"),
    "generator_gaps_over_100us_per_s": _gap_rate("over_100us"),
    "unsent_share": lambda trial: (
        trial.gen_sum("unsent") / nonzero(trial.gen_sum("intended"), "no packet was due in the window")
    ),
    "rate_error": _rate_error,
    "generator_lcores": lambda trial: len(trial.generators),
    "generator_gap_longest_ns": lambda trial: max(
        at(lcore, ("host_gaps", "longest_ns")).number() for lcore in trial.generators
    ),
    "generator_away_share": _generator_away_share,
    "loss_share": _loss_share,
    "lossy_flows_share": _lossy_flows_share,
    "worst_flow_loss_share": _worst_flow_loss_share,
    "duplicated_share": _duplicated_share,
    "reordered_share": lambda trial: trial.gen_sum("sequence", "reordered") / _first_copies(trial),
    "reordered_total_share": lambda trial: trial.gen_sum("sequence", "reordered_in_total") / _first_copies(trial),
    "displaced_share": lambda trial: sum(packets for _, packets in _displaced(trial)) / _first_copies(trial),
    "displacement_mean": _displacement_mean,
    "reordered_by_3_share": _reordered_by_3_share,
    "imissed_share": _imissed_share,
    "rx_nombuf_share": _rx_nombuf_share,
    "tx_dropped_share": _tx_dropped_share,
    "ring_full_share": _ring_full_share,
    "core_imbalance": _core_imbalance,
    "reta_moves_per_s": lambda trial: trial.part("result", "dut", "rebalancing", "moved").number() / trial.window_s,
    "posted_bytes": lambda trial: trial.part(
        "result", "ports", trial.part("config", "dut", "rx_port").text(), "posted_bytes"
    ).number(),
}
