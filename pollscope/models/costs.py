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
# Keys of a file are texts.
Queues = Annotated[int, Field(ge=1, strict=False)]


class Cost(StrictModel):
    """One cost.

    Attributes:
        value: in the unit that its name has.
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
        """Tell whether the cost is known for this number of queues, or lies between two that are."""
        return self.by_queues is None or min(self.by_queues) <= queues <= max(self.by_queues)

    @property
    def range(self) -> str:
        """The numbers of queues for which it is known."""
        known = sorted(self.by_queues or ())
        return f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}" if known else "any"

    def at(self, queues: int) -> float:
        """For a core that polls so many queues: straight between two known numbers, on a logarithmic axis.

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
    """A rate of the generator. It falls by steps where traffic goes to a second queue: no line is drawn over them."""

    def from_more_queues(self, queues: int) -> int | None:
        """The number of queues whose rate stands for this one; None where the rate is known, or drawn between two."""
        several = [known for known in self.by_queues or () if known > 1]
        return min(several) if several and 1 < queues < min(several) else None

    def at(self, queues: int) -> float:
        """As of any cost, but between one queue and the fewest of several that are known as with these.

        Raises:
            ValueError: the number lies outside of what is known.
        """
        return super().at(self.from_more_queues(queues) or queues)


class Costs(StrictModel):
    """Those of one workload on one machine; what is left out is not known, and points that need it are left out.

    Attributes:
        empty_poll_ns: a poll that finds nothing.
        busy_poll_ns: a poll that finds packets, with sending them, beside what each packet takes.
        packet_ns: a packet: taken, processed and sent.
        shared_packet_ns: more of a packet where several cores take from one RX queue (corec, locked).
        shared_empty_poll_ns: a poll that finds nothing in an RX queue that several cores poll (locked).
        path_ns: what a round trip takes beside the DUT: wire, NIC, generator.
        dispatch_ns: a packet at a dispatcher.
        empty_ring_poll_ns: a worker's poll of an empty ring.
        ring_busy_poll_ns: a worker's poll that finds packets in a ring, beside what each packet takes.
        ring_ns: part of putting packets into a shared ring, or of taking them out, that only one core does at a time.
        ring_packet_ns: the same for each packet.
        ring_contended_ns: more of it for an operation that had to wait for another core's; left out: nothing.
        qwait_ns: what being told the next ready queue takes a core, with all that belongs to it.
        notice_ns: from an arrival until a waiting core is told; left out: nothing.
        wake_up_ns: of a waiting core that sleeps (idle: sleep), beside notice_ns.
        per_ready_ns: more of it for each queue that is ready, where the ready set is searched (ready_set: linear).
        generator_pps: what the generator sends at most.
        turn_ns: of a generator that has a schedule, a turn in which it sends what came due, beside what each packet
            takes; left out: it sends each packet when it is due.
        sent_ns: more of a turn for each packet.
        useful_ipc: instructions a cycle while a polling core receives, processes and sends.
        polling_ipc: the same of all its other cycles.
        issue_width: instructions a cycle that both threads of a core have at most: what one leaves is the other's.
        corunner_ipc: instructions a cycle of a co-runner that has a core for itself.
        static_power_w: a core draws it whatever it does.
        power_w_per_ipc: and this for each instruction a cycle.
        halted_power_w: a core that waits without work, but not in C1, draws it instead of static_power_w.
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
