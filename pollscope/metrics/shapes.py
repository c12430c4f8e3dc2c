# SPDX-License-Identifier: BSD-3-Clause
"""Check whether a saturated trial had the traffic shape (as in HyperPlane) that its spec asks for.

Hot queues are always backlogged; a poll of any other queue finds packets with a fixed probability. The share of empty
polls follows from that alone, whatever a packet costs, and the DUT counts its polls exactly.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pollscope.base.names import SHARED_QUEUES
from pollscope.base.units import human_number, human_rate, human_time
from pollscope.metrics.record import Flag, NotMeasured, Part, TrialObservations, at, keys_of

# A trial whose share of empty polls differs by more than this did not have its shape.
MOST_OFF = 0.05
# Share of the packets for cold queues that the generator may drop because they are overdue.
_MOST_UNSENT = 0.05
# Duration per generator lcore.
_SHAPE_COUNTS = ("hot_sent", "cold_sent", "cold_unsent", "hot_asked", "cold_asked")
_Params = Mapping[str, Any]


def hot_queues(params: _Params) -> int:
    """Return the number of queues that are always backlogged."""
    queues = int(params["queues"])
    if params["shape"] == "SQ":
        return 1
    if params["shape"] == "FB" or params["background_probability"] >= 1:
        return queues
    if params["shape"] == "NC":
        return min(queues, int(params["concentrated_queues"]))
    # Half a queue counts as one, as in the node; Python's round() goes to the even number.
    return max(1, int(params["concentrated_share"] * queues + 0.5))


def empty_share(queues: float, hot: float, probability: float) -> float:
    """Return the share of empty polls if every queue is polled equally often."""
    return (queues - hot) * (1 - probability) / queues


def empty_per_busy(params: _Params) -> float:
    """Return the number of empty polls per busy poll."""
    cold = 0.0 if params["shape"] == "SQ" else float(params["background_probability"])
    share = empty_share(params["queues"], hot_queues(params), cold)
    return share / (1 - share)


@dataclass(frozen=True)
class ShapePolls:
    """Hold the empty polls of a trial.

    Attributes:
        polls: all polls.
        empty: those that found nothing.
        expected: how many would have, by the shape.
    """

    polls: float
    empty: float
    expected: float

    @property
    def off(self) -> float:
        """Return the excess of the share of empty polls."""
        return (self.empty - self.expected) / self.polls


def polls_of_shape(trial: TrialObservations) -> ShapePolls:
    """Compare what the DUT's polls found with what they should have found by the hot queues.

    Raises:
        NotMeasured: the trial had no shape to compare its polls with, or polls were not counted.
    """
    shape = _shape(trial)
    hot = {int(queue.number()) for queue in shape["hot"].items()}
    probability = shape["probability"].number()
    polls = empty = expected = 0.0
    for lcore, queues in _readers(trial):
        counts = {name: lcore["polls"][name].number() for name in ("empty", "partial", "full")}
        polls += sum(counts.values())
        empty += counts["empty"]
        expected += sum(counts.values()) * empty_share(len(queues), len(hot & set(queues)), probability)
    if not polls:
        raise NotMeasured("no queue was polled in the window")
    return ShapePolls(polls, empty, expected)


def _shape(trial: TrialObservations) -> Part:
    try:
        return trial.part("result", "feed")
    except NotMeasured:
        return _generators_shape(trial)


def _generators_shape(trial: TrialObservations) -> Part:
    """Return the generator's record of the shape: counts summed over its lcores; other values are the same for all."""
    shapes = [at(lcore, ("shape",)) for lcore in trial.generators]
    first = shapes[0]
    if len(shapes) == 1 or not isinstance(first.value, Mapping):
        return first
    counts = [name for name in _SHAPE_COUNTS if name in keys_of(first)]
    return Part({**first.value, **{name: sum(each[name].number() for each in shapes) for name in counts}}, first.path)


def _readers(trial: TrialObservations) -> Iterator[tuple[Part, range]]:
    """Yield the lcores that poll RX queues, each with its queues: dealt out in turn, unless all poll all."""
    queues = int(trial.rx_queues)
    readers = [lcore for lcore in trial.lcores if lcore["source"].text() == "rx-queues"]
    if trial.part("params", "organisation").text() in SHARED_QUEUES:
        yield from ((lcore, range(queues)) for lcore in readers)
    else:
        yield from ((lcore, range(each, queues, len(readers))) for each, lcore in enumerate(readers))


def shape_flags(trial: TrialObservations) -> list[Flag]:
    """Return the flag `shape` of a trial whose traffic had another shape than asked for."""
    try:
        if any("notices" in keys_of(lcore) for lcore in trial.lcores):
            return _flags_of_notified(trial)
        found = polls_of_shape(trial)
        texts = [*_wrong_polls(found, trial.part("params", "shape").text()), *_limits(trial, found)]
        return [{"name": "shape", "text": "; ".join([*texts, *_taken_away(trial)])}] if texts else []
    except NotMeasured:
        return []


def _flags_of_notified(trial: TrialObservations) -> list[Flag]:
    """Check a notified core: it polls no empty queues, and never waits while hot queues always have packets."""
    shape, name = _shape(trial), trial.part("params", "shape").text()
    cycles = [(lcore["waiting"]["cycles"].number(), lcore["cycles"]["total"].number()) for lcore in trial.lcores]
    waited = sum(part for part, _ in cycles) / sum(whole for _, whole in cycles)
    texts = _late(shape) if "cold_unsent" in keys_of(shape) else []
    if waited > MOST_OFF:
        texts += [
            f"{name}: the cores waited in {100 * waited:.1f} % of the cycles, where the shape always has packets: "
            "the generator was the limit"
        ]
    return [{"name": "shape", "text": "; ".join([*texts, *_taken_away(trial)])}] if texts else []


def _wrong_polls(found: ShapePolls, shape: str) -> list[str]:
    if abs(found.off) <= MOST_OFF:
        return []
    shares = [f"{100 * count / found.polls:.1f} %" for count in (found.empty, found.expected)]
    return [f"{shape}: {shares[0]} of the polls were empty where the shape has {shares[1]}"]


def _limits(trial: TrialObservations, found: ShapePolls) -> list[str]:
    """Return what kept the generator from the shape in cold queues, which have too few polls to show it."""
    try:
        shape = _generators_shape(trial)
    except NotMeasured:  # the port itself made the packets
        return []
    try:
        queue_polls = shape["queue_polls"].number()
    except NotMeasured as unknown:
        has_cold = shape["cold"].number() * shape["probability"].number() > 0
        return [f"cold queues got no packets: {unknown}"] if has_cold else []
    dry = _dry(trial, shape, queue_polls) if found.off > MOST_OFF else []
    return [*_late(shape), *dry, *(_too_many(shape) if found.off < -MOST_OFF else [])]


def _late(shape: Part) -> list[str]:
    unsent, asked = shape["cold_unsent"].number(), shape["cold_asked"].number()
    if unsent <= _MOST_UNSENT * max(asked, 1.0):
        return []
    return [f"the generator gave up {unsent:.0f} packets for cold queues, of about {asked:.0f}, because it was late"]


def _too_many(shape: Part) -> list[str]:
    sent, asked = shape["cold_sent"].number(), shape["cold_asked"].number()
    if sent <= (1 + _MOST_UNSENT) * asked:
        return []
    return [
        f"cold queues got {sent:.0f} packets where their polls asked for about {asked:.0f}: polls became rarer "
        "faster than the generator counts them"
    ]


def _dry(trial: TrialObservations, shape: Part, queue_polls: float) -> list[str]:
    sent, wanted = shape["hot_sent"].number(), shape["hot_asked"].number()
    if sent >= wanted:
        return ["hot queues received more than their polls take, so they were empty for a part of the window only"]
    rates = [human_rate(packets / trial.window_s) for packets in (sent, wanted)]
    return [
        f"the generator was the limit: hot queues ran empty, it sent them {rates[0]}, and their "
        f"{human_number(queue_polls)} queue polls together had room for {rates[1]}"
    ]


def _taken_away(trial: TrialObservations) -> list[str]:
    try:
        gaps_ns = trial.gen_sum("host_gaps", "in_over_100us_ns")
    except NotMeasured:
        return []
    return [f"the host took the generator's core away for {human_time(gaps_ns / 1e9)} of the window"] if gaps_ns else []
