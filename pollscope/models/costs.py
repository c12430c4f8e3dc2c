# SPDX-License-Identifier: BSD-3-Clause
"""Hold the costs of a modelled machine for each action of its cores, with the source of each number."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pollscope.base.fields import StrictModel

Origin = Literal["measured", "stated", "assumed", "fitted"]
_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=False)]
Interval = Annotated[tuple[_NotNegative, _NotNegative], Field(strict=False)]
# Keys of a file are strings.
Queues = Annotated[int, Field(ge=1, strict=False)]


class Cost(StrictModel):
    """One cost.

    Attributes:
        value: in the unit of its name.
        by_queues: instead of it, values by the number of queues that a core polls.
        interval: 95 % interval of the value, low and high end, where it comes from several trials.
        intervals: instead of it, those of by_queues; fewer where a number of queues has too few trials.
        origin: measured (on a host), stated (by a paper), assumed, or fitted (to results, so that a model with it is
            consistent with these by construction).
        source: run, paper and section, or why it is assumed.
    """

    value: _NotNegative | None = None
    by_queues: Mapping[Queues, _NotNegative] | None = None
    interval: Interval | None = None
    intervals: Mapping[Queues, Interval] | None = None
    origin: Origin
    source: str = Field(min_length=1)

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.value is None) == (self.by_queues is None):
            raise ValueError("needs either `value` or `by_queues`")
        if self.by_queues is not None and not self.by_queues:
            raise ValueError("by_queues needs a number of queues")
        self._check_intervals()
        return self

    def _check_intervals(self) -> None:
        alone = self.interval is not None and self.value is None
        if alone or not set(self.intervals or ()) <= set(self.by_queues or ()):
            raise ValueError("interval goes with `value`, intervals with the same numbers of `by_queues`")
        ends = [*([] if self.interval is None else [self.interval]), *(self.intervals or {}).values()]
        if any(low > high for low, high in ends):
            raise ValueError("an interval begins with its lower end")

    def reaches(self, queues: int) -> bool:
        """Return whether the cost is known for this number of queues or can be interpolated."""
        return self.by_queues is None or min(self.by_queues) <= queues <= max(self.by_queues)

    @property
    def range(self) -> str:
        """Return the range of numbers of queues for which the cost is known."""
        known = sorted(self.by_queues or ())
        return f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}" if known else "any"

    def at(self, queues: int) -> float:
        """Return the cost for a core that polls so many queues, interpolated on a logarithmic axis.

        Raises:
            ValueError: the number lies outside of what is known.
        """
        if self.by_queues is None:
            return float(self.value or 0.0)
        if not self.reaches(queues):
            raise ValueError(f"is known for {self.range} queues per core, not for {queues}")
        known = sorted(self.by_queues)
        if queues in known:
            return self.by_queues[queues]
        below, above = next(pair for pair in pairwise(known) if pair[0] < queues < pair[1])
        part = math.log(queues / below) / math.log(above / below)
        return (1 - part) * self.by_queues[below] + part * self.by_queues[above]


class SentCost(Cost):
    """A rate of the generator. It drops at the second queue, so it is not interpolated between one queue and more."""

    def from_more_queues(self, queues: int) -> int | None:
        """Return the number of queues whose rate is used for this one; None if the rate is known or interpolated."""
        several = [known for known in self.by_queues or () if known > 1]
        return min(several) if several and 1 < queues < min(several) else None

    def at(self, queues: int) -> float:
        """Return the rate; between one queue and the fewest known queues it is the rate of the latter.

        Raises:
            ValueError: the number lies outside of what is known.
        """
        return super().at(self.from_more_queues(queues) or queues)


class Costs(StrictModel):
    """Hold the costs of one workload on one machine; points that need an unknown cost are left out.

    Attributes:
        empty_poll_ns: an empty poll.
        busy_poll_ns: a busy poll with its transmission, without the cost per packet.
        packet_ns: receiving, processing and sending a packet.
        shared_packet_ns: extra cost per packet if several cores take from one RX queue (corec, locked).
        shared_empty_poll_ns: an empty poll of an RX queue that several cores poll (locked).
        path_ns: part of a round trip outside the DUT: wire, NIC, generator.
        dispatch_ns: a packet at a dispatcher.
        empty_ring_poll_ns: a worker's poll of an empty ring.
        ring_busy_poll_ns: a worker's busy poll of a ring, without the cost per packet.
        ring_ns: serial part of an enqueue to a shared ring, or of a dequeue.
        ring_packet_ns: the same for each packet.
        ring_contended_ns: extra cost of an operation that had to wait for another core; default: 0.
        qwait_ns: a notification: asking for the next ready queue until it is known.
        notice_ns: from an arrival until a waiting core is notified; default: 0.
        wake_up_ns: wake-up of a sleeping core (idle: sleep), in addition to notice_ns.
        per_ready_ns: extra cost of a notification per ready queue, if the ready set is searched (ready_set: linear).
        generator_pps: maximum rate of the generator.
        turn_ns: an iteration in which a generator with a schedule sends all due packets, without the cost per packet;
            default: it sends each packet when it is due.
        sent_ns: extra cost of such an iteration per packet.
        useful_ipc: instructions per cycle while a polling core receives, processes and sends.
        polling_ipc: instructions per cycle in all its other cycles.
        issue_width: maximum of instructions per cycle that both threads of a core share.
        corunner_ipc: instructions per cycle of a co-runner that has a core for itself.
        static_power_w: power of a core that does not depend on its work. power_w_per_ipc: additional power per
            instruction per cycle. halted_power_w: power of a core that waits without work, but not in C1; it replaces
            static_power_w.
    """

    empty_poll_ns: Cost
    busy_poll_ns: Cost
    packet_ns: Cost
    shared_packet_ns: Cost | None = None
    shared_empty_poll_ns: Cost | None = None
    path_ns: Cost | None = None
    dispatch_ns: Cost | None = None
    empty_ring_poll_ns: Cost | None = None
    ring_busy_poll_ns: Cost | None = None
    ring_ns: Cost | None = None
    ring_packet_ns: Cost | None = None
    ring_contended_ns: Cost | None = None
    qwait_ns: Cost | None = None
    notice_ns: Cost | None = None
    wake_up_ns: Cost | None = None
    per_ready_ns: Cost | None = None
    generator_pps: SentCost | None = None
    turn_ns: SentCost | None = None
    sent_ns: SentCost | None = None
    useful_ipc: Cost | None = None
    polling_ipc: Cost | None = None
    issue_width: Cost | None = None
    corunner_ipc: Cost | None = None
    static_power_w: Cost | None = None
    power_w_per_ipc: Cost | None = None
    halted_power_w: Cost | None = None

    @model_validator(mode="after")
    def _polls_take_time(self) -> Self:
        for name in ("empty_poll_ns", "shared_empty_poll_ns", "empty_ring_poll_ns"):
            cost: Cost | None = getattr(self, name)
            if cost is not None and 0 in (cost.value, *(cost.by_queues or {}).values()):
                raise ValueError(f"{name} is 0, allowed is more: an idle core would poll without end")
        return self

    @model_validator(mode="after")
    def _a_turn_is_whole(self) -> Self:
        if (self.turn_ns is None) != (self.sent_ns is None):
            raise ValueError("turn_ns and sent_ns are known together or not at all")
        return self
