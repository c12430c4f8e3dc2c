# SPDX-License-Identifier: BSD-3-Clause
"""Compute exact mean waiting times of symmetric cyclic polling: one core that polls several queues in turn.

Every queue has Poisson arrivals at the same rate and the same service; moving on to the next queue, the cost of a poll,
takes the switch-over time. Source: H. Takagi, Analysis of Polling Systems (1986), and Queueing analysis of polling
models, ACM Computing Surveys 20(1) (1988), equations for symmetric systems.
"""

from collections.abc import Sequence

from pollscope.base.errors import UsageError
from pollscope.models.checked import NS_PER_S, Count, NotNegative, Positive, at_least, checked, model, stable


@model
class CyclicQueues:
    """Describe queues that one server polls in turn.

    Attributes:
        queues: number of queues.
        rate_pps: arrivals at all of them together.
        service_ns: mean service of a packet.
        service_squared_ns2: mean of its square.
        switch_ns: switch-over time between two queues, the cost of a poll.

    Raises:
        UsageError: a value is negative or no number, E[S^2] is below E[S]^2, or the utilisation is 1 or more.
    """

    queues: Count
    rate_pps: NotNegative
    service_ns: Positive
    service_squared_ns2: NotNegative
    switch_ns: Positive

    def __post_init__(self) -> None:
        at_least("CyclicQueues", self.service_ns**2 * (1 - 1e-12), service_squared_ns2=self.service_squared_ns2)
        stable("CyclicQueues", self.utilisation)

    @property
    def utilisation(self) -> float:
        """Return the share of time in which a packet is served."""
        return self.rate_pps * self.service_ns / NS_PER_S

    @property
    def cycle_ns(self) -> float:
        """Return the mean time of a sweep over all queues, which no service discipline changes."""
        return self.queues * self.switch_ns / (1 - self.utilisation)

    @property
    def _backlog_ns(self) -> float:
        return self.rate_pps / NS_PER_S * self.service_squared_ns2

    @property
    def gated_wait_ns(self) -> float:
        """Return the mean wait if a poll serves the packets that were there at its start (unlimited burst)."""
        moves_ns = self.switch_ns * (self.queues + self.utilisation)
        return (self._backlog_ns + moves_ns) / (2 * (1 - self.utilisation))

    @property
    def limited_wait_ns(self) -> float:
        """Return the mean wait if a poll serves one packet (limited-1, a burst of 1).

        Raises:
            UsageError: the queues have no steady state, because each packet costs a switch-over as well.
        """
        rate_per_ns = self.rate_pps / NS_PER_S
        load = stable("limited_wait_ns", self.utilisation + rate_per_ns * self.switch_ns)
        moves_ns = self.switch_ns * (self.queues + self.utilisation)
        return (self._backlog_ns + moves_ns) / (2 * (1 - load))


@checked
def gated_mean_wait_ns(
    rates_pps: Sequence[NotNegative], service_ns: float, service_squared_ns2: float, switch_ns: float
) -> float:
    """Return the mean wait of all packets if queues have different rates and polls serve the packets at their start.

    The wait at a single queue has no closed form, but the mean weighted by load has one (pseudo-conservation law). With
    the same service at all queues this is the mean over all packets. Source: O. J. Boxma and W. P. Groenendijk,
    Pseudo-conservation laws in cyclic-service systems, Journal of Applied Probability 24 (1987), for constant
    switch-over times.

    Args:
        rates_pps: arrivals at each queue; queues without arrivals are polled as well.
        service_ns: mean service of a packet.
        service_squared_ns2: mean of its square.
        switch_ns: switch-over time between two queues, constant.
    """
    if not sum(rates_pps):
        raise UsageError("is 0, allowed is a number above 0", "gated_mean_wait_ns: sum_of_rates")
    whole_ns = len(rates_pps) * switch_ns
    one = CyclicQueues(1, sum(rates_pps), service_ns, service_squared_ns2, whole_ns)
    load = one.utilisation
    squares = sum((rate * service_ns / NS_PER_S) ** 2 for rate in rates_pps)
    moves_ns = whole_ns * (1 + squares / load) / (2 * (1 - load))
    return one.rate_pps / NS_PER_S * service_squared_ns2 / (2 * (1 - load)) + moves_ns


# Bytes that an empty poll reads: the descriptor at the head, the line of queue state (apps/pmd/crossover_port.h), and
# two pointers in ethdev's arrays, to the queue and to its callbacks (rte_eth_rx_burst()).
_POLL_BYTES = 2 * 64 + 2 * 8
# Cycles of a load that L2, L3 and memory answer beyond one of the L1, and loads that are under way at once (line fill
# buffers): Intel 64 and IA-32 Architectures Optimization Reference Manual, Skylake server; memory: some 80 ns.
MORE_CYCLES, OVERLAPPED = (10, 55, 200), 12


@checked
def cached_poll_ns(queues: Count, cache_bytes: Sequence[Count], cycle_ns: Positive) -> float:
    """Return the extra time of an empty poll among so many queues, over one whose lines the L1 holds.

    The loads of polls of different queues overlap. L1 and L2 replace the least recently used line, or nearly so: a
    sweep over more lines than fit finds none of them there, because each was evicted just before its next use (Smith
    and Goodman, IEEE Transactions on Computers C-34, 1985). Last-level caches prevent that (Jaleel et al., ISCA 2010):
    the share that fits is found.

    Args:
        queues: polled in turn.
        cache_bytes: sizes of L1, L2 and L3.
        cycle_ns: of the clock.
    """
    swept = queues * _POLL_BYTES
    *inner, last = cache_bytes
    beyond = [*(float(swept > size) for size in inner), max(0.0, 1 - last / swept)]
    # Time of each level, without the accesses that a further level answers.
    steps = [more - before for more, before in zip(MORE_CYCLES, (0, *MORE_CYCLES), strict=False)]
    cycles = sum(share * step for share, step in zip(beyond, steps, strict=True))
    return _POLL_BYTES / 64 * cycles / OVERLAPPED * cycle_ns
