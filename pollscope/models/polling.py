# SPDX-License-Identifier: BSD-3-Clause
"""One core that polls several queues in turn: exact mean waiting times of symmetric cyclic polling.

Every queue has Poisson arrivals at the same rate and the same service; moving on to the next queue, the cost of a poll,
takes the switch-over time. Source: H. Takagi, Analysis of Polling Systems (1986), and Queueing analysis of polling
models, ACM Computing Surveys 20(1) (1988), equations for symmetric systems.
"""

from dataclasses import dataclass

from pollscope.models.checked import NS_PER_S, above_zero, at_least, stable, whole


@dataclass(frozen=True)
class CyclicQueues:
    """Queues that one server visits in turn.

    Attributes:
        queues: how many.
        rate_pps: arrivals at all of them together.
        service_ns: mean service of a packet.
        service_squared_ns2: mean of its square.
        switch_ns: mean switch-over time between two queues, the cost of a poll.
        switch_variance_ns2: its variance.

    Raises:
        UsageError: a value is negative or no number, E[S^2] is below E[S]^2, or the utilisation is 1 or more.
    """

    queues: int
    rate_pps: float
    service_ns: float
    service_squared_ns2: float
    switch_ns: float
    switch_variance_ns2: float = 0.0

    def __post_init__(self) -> None:
        model = "CyclicQueues"
        whole(model, 1, queues=self.queues)
        at_least(model, 0, rate_pps=self.rate_pps, switch_variance_ns2=self.switch_variance_ns2)
        above_zero(model, service_ns=self.service_ns, switch_ns=self.switch_ns)
        at_least(model, self.service_ns**2 * (1 - 1e-12), service_squared_ns2=self.service_squared_ns2)
        stable(model, self.utilisation)

    @property
    def utilisation(self) -> float:
        """Share of the time in which a packet is served."""
        return self.rate_pps * self.service_ns / NS_PER_S

    @property
    def cycle_ns(self) -> float:
        """Mean time of a turn of all queues, whatever is done at a visit."""
        return self.queues * self.switch_ns / (1 - self.utilisation)

    @property
    def _backlog_ns(self) -> float:
        return self.rate_pps / NS_PER_S * self.service_squared_ns2

    @property
    def _switch_excess_ns(self) -> float:
        return self.switch_variance_ns2 / (2 * self.switch_ns)

    @property
    def exhaustive_wait_ns(self) -> float:
        """Mean wait where a queue is served until it is empty."""
        moves_ns = self.switch_ns * (self.queues - self.utilisation)
        return self._switch_excess_ns + (self._backlog_ns + moves_ns) / (2 * (1 - self.utilisation))

    @property
    def gated_wait_ns(self) -> float:
        """Mean wait where a visit serves what was there when it began: a poll with a burst that takes all."""
        moves_ns = self.switch_ns * (self.queues + self.utilisation)
        return self._switch_excess_ns + (self._backlog_ns + moves_ns) / (2 * (1 - self.utilisation))

    @property
    def limited_wait_ns(self) -> float:
        """Mean wait where a visit serves one packet (limited-1): a poll with a burst of 1.

        Raises:
            UsageError: the queues have no steady state: each packet costs a switch-over, too.
        """
        rate_per_ns = self.rate_pps / NS_PER_S
        load = stable("limited_wait_ns", self.utilisation + rate_per_ns * self.switch_ns)
        moves_ns = self.switch_ns * (self.queues + self.utilisation) + rate_per_ns * self.switch_variance_ns2
        return self._switch_excess_ns + (self._backlog_ns + moves_ns) / (2 * (1 - load))
