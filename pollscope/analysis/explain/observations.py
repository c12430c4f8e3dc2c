# SPDX-License-Identifier: BSD-3-Clause
"""Hold the observations of one point that the rules judge, with the quantities that several rules derive from them.

They come from a run's trials or from a paper's table (run_metadata.py); rules treat both alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import Any

from pollscope.analysis.saturation import REACHED_SHARE, WITHOUT_GENERATOR
from pollscope.base.names import NOT_ALL_ANSWERED, RECEIVE_NOTHING
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.record import NotMeasured
from pollscope.models.pcie import PcieLink
from pollscope.plan.search import SATURATED_MISSED_SHARE
from pollscope.stats.estimates import mean_estimate

# A core that is busy for this share of its time is saturated. If packets are lost, the lower share is enough, because
# losses come in stretches. Without loss a busy core may still carry more: a packet in a larger burst costs less.
BUSY_SHARE, BUSY_AND_LOSING_SHARE = 0.95, 0.9
# A queue whose polls are this full is never emptied.
FULL_BUSY_POLLS_SHARE = 0.9


@dataclass(frozen=True)
class CoreLoad:
    """Hold the load of one DUT lcore, as shares of the time in which it ran.

    Busy is the time without empty polls and waits for a ready queue or a lock; `waiting` is that in waits for locks.
    `error` is the uncertainty of `busy`, if it exceeds that of a consistent accounting.
    """

    name: str
    role: str
    busy: float
    waiting: float
    error: float = 0.0

    def shifted(self, errors: float) -> "CoreLoad":
        """Return the load with its busy share moved by a multiple of the error."""
        return replace(self, busy=min(1.0, max(0.0, self.busy + errors * self.error)))


@dataclass(frozen=True)
class PointObservations:
    """Hold the known numbers and parameters of one point; those that are not known raise NotMeasured.

    Attributes:
        label: its levels in words.
        params: parameters of its trials (docs/reference-spec.md).
        values: metric -> one value for each trial that has it.
        why_absent: returns why no trial has a metric; `not_there` is the reason if it is None.
        loads: the DUT's lcores of each trial; empty if no trial has cycles (`no_loads` is the reason).
        busy_polls_filled: per trial, packets of the fullest queue (with doorbells: of all queues) over the packets that
            its busy polls could have taken.
        links: (name of the line, metric of its traffic, bits per second); `no_link` is the reason if there is none.
        limits: known capacities that are not metrics of the run: tags, wqes, dram_bytes_per_s.
        llc_bytes: size of the last-level cache.
        llc_ways: its ways; None if unknown.
        nic_link: the PCIe link of the NIC (collector pcie); None if unknown.
        wire_lcores: generator lcores that play the wire of a virtual NIC; 0 if none does.
        without_hardware: why no PCIe, IOMMU or DDIO of real hardware is behind the NIC; empty if it may be real.
        not_its_maximum: why the load is not a share of the DUT's maximum; empty if it is one.
        before: the point that differs only in having the fewest cores.
        without_iommu: the point that differs only in having the IOMMU off.
        trial_count: trials behind the numbers; 0 for a paper's numbers.
        flagged: how many of them are flagged.
        away_flagged: how many of them are flagged because something else had a measuring CPU.
        modelled: the numbers were computed, not measured.
        trials: the observations of each trial; empty if there is only one.
        in_words: write numbers with their intervals; False for single trials, of which only the judgement is used.
    """

    label: str
    params: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    why_absent: Callable[[str], str] | None = None
    not_there: str = "it is not in the record"
    loads: Sequence[Sequence[CoreLoad]] = ()
    no_loads: str = ""
    busy_polls_filled: Sequence[float] = ()
    links: Sequence[tuple[str, str, float]] = ()
    no_link: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)
    llc_bytes: float | None = None
    llc_ways: int | None = None
    nic_link: PcieLink | None = None
    wire_lcores: int = 0
    without_hardware: str = ""
    not_its_maximum: str = ""
    before: "PointObservations | None" = None
    without_iommu: "PointObservations | None" = None
    trial_count: int = 0
    flagged: int = 0
    away_flagged: int = 0
    modelled: bool = False
    trials: "Sequence[PointObservations]" = ()
    in_words: bool = True

    def mean(self, metric: str) -> float:
        if not self.values.get(metric):
            raise NotMeasured(self.why_absent(metric) if self.why_absent else self.not_there)
        return fmean(self.values[metric])

    def known(self, metric: str) -> float | None:
        """Return the mean of a metric; None if it is absent."""
        values = self.values.get(metric)
        return fmean(values) if values else None

    def text(self, metric: str) -> str:
        """Return title, mean and interval as text: 'Empty polls 41.3 % (39 to 43 %)'."""
        self.mean(metric)
        if not self.in_words:
            return metric
        entry = metric_dictionary()[metric]
        estimate = mean_estimate(list(self.values[metric]), limits=entry.limits)
        ends = f" ({entry.text(estimate.low)} to {entry.text(estimate.high)})" if estimate.has_interval else ""
        return f"{entry.title} {entry.text(estimate.value)}{ends}"

    def text_if_known(self, metric: str) -> str:
        """Return the text of a metric; empty if it is absent."""
        return self.text(metric) if self.values.get(metric) else ""

    def param(self, name: str) -> Any:
        return self.params.get(name)

    @cached_property
    def has_generator(self) -> bool:
        return self.param("feed") not in WITHOUT_GENERATOR and self.param("workload") not in RECEIVE_NOTHING

    @property
    def nothing_is_sent(self) -> bool:
        rates = [self.known(metric) for metric in ("offered_pps", "intended_pps", "rx_pps")]
        known = [rate for rate in rates if rate is not None]
        return self.param("feed") == "none" or (self.has_generator and bool(known) and not any(known))

    @cached_property
    def missed(self) -> float:
        """Return the share of packets that found no free descriptor.

        Raises:
            NotMeasured: it is not known.
        """
        if self.known("imissed_share") is None and not (self.known("offered_pps") or self.known("rx_pps")):
            return 0.0  # nothing came
        return self.mean("imissed_share")

    @cached_property
    def lost(self) -> float:
        """Return the larger of two loss shares: no free descriptor, or no room in a ring between cores.

        Raises:
            NotMeasured: neither is known.
        """
        full = self.known("ring_full_share")
        return self.missed if full is None else max(full, self.known("imissed_share") or 0.0)

    @property
    def lost_text(self) -> str:
        """Return the share that is `lost` as text; empty if it is absent."""
        names = ("imissed_share", "ring_full_share")
        return self.text_if_known(max(names, key=lambda name: self.known(name) or 0.0))

    @cached_property
    def backlogged(self) -> bool:
        """Return whether the DUT always had more packets than it took.

        Raises:
            NotMeasured: what was lost is not known.
        """
        if self.param("feed") == "infinite":
            return True
        return self.has_generator and self.lost > SATURATED_MISSED_SHARE

    @property
    def lost_elsewhere(self) -> float:
        """Return the share of packets that did not come back to the generator and that no counter of the DUT explains.

        If the generator does not receive, it is the share that did not reach the DUT, beyond the difference that the
        windows of two clocks can make.
        """
        if self.not_arrived is not None:
            return self.not_arrived
        if self.param("workload") in NOT_ALL_ANSWERED:
            return 0.0
        counted = ("imissed_share", "ring_full_share", "rx_nombuf_share", "tx_dropped_share")
        return (self.known("loss_share") or 0.0) - sum(self.known(name) or 0.0 for name in counted)

    @cached_property
    def not_arrived(self) -> float | None:
        """Return the share of sent packets that the DUT neither received nor counted; None if nearly all arrived."""
        sent, came = self.known("offered_pps"), self.known("rx_pps")
        if not self.has_generator or not sent or came is None:
            return None
        counted = sum(self.known(name) or 0.0 for name in ("imissed_share", "rx_nombuf_share"))
        share = 1 - came / sent - counted
        return share if share > 1 - REACHED_SHARE else None

    @cached_property
    def busiest(self) -> CoreLoad:
        """Return the busiest lcore by the means over the trials; the busiest worker if a ring to the workers is full.

        A dispatcher that drops packets at a full ring is busy but is not the limit.

        Raises:
            NotMeasured: the trials have no cycles.
        """
        cores = [core for core in self.cores if core.role == "worker" or not self.ring_is_full] or self.cores
        return max(cores, key=lambda core: core.busy)

    @property
    def ring_is_full(self) -> bool:
        return (self.known("ring_full_share") or 0.0) > SATURATED_MISSED_SHARE

    @property
    def has_idle_polls(self) -> bool:
        """Return whether all lcores that read RX queues have time for more polls: they neither work nor wait for a
        lock.

        Raises:
            NotMeasured: the trials have no cycles.
        """
        return all(core.busy + core.waiting < BUSY_AND_LOSING_SHARE for core in self.readers)

    @property
    def readers(self) -> list[CoreLoad]:
        """Return the lcores that read RX queues.

        Raises:
            NotMeasured: the trials have no cycles.
        """
        return [core for core in self.cores if core.role == "dispatcher"] or self.cores

    @cached_property
    def cores(self) -> list[CoreLoad]:
        """Return the loads of the DUT's lcores, as means over the trials.

        Raises:
            NotMeasured: the trials have no cycles.
        """
        if not self.loads:
            raise NotMeasured(self.no_loads or self.not_there)
        if len(self.loads) == 1:
            return list(self.loads[0])
        return [
            CoreLoad(
                one[0].name,
                one[0].role,
                fmean(each.busy for each in one),
                fmean(each.waiting for each in one),
                fmean(each.error for each in one),
            )
            for one in zip(*self.loads, strict=True)
        ]

    @cached_property
    def load_error(self) -> float:
        return max((core.error for core in self.cores), default=0.0) if self.loads else 0.0

    @cached_property
    def at_its_errors(self) -> "tuple[PointObservations, PointObservations]":
        """Return the point twice: with all busy shares lower by their error, and higher by their error."""
        lower, higher = (
            replace(self, loads=[[core.shifted(errors) for core in each] for each in self.loads])
            for errors in (-1.0, 1.0)
        )
        return lower, higher

    @cached_property
    def core_bound(self) -> bool:
        """Return whether the busiest lcore is saturated while more packets are waiting.

        Raises:
            NotMeasured: its cycles or the lost packets are unknown.
        """
        load = self.param("load_of_max")
        at_its_maximum = isinstance(load, int | float) and load >= 1 and not self.not_its_maximum
        if self.busiest.busy >= BUSY_SHARE and (at_its_maximum or self.param("workload") in RECEIVE_NOTHING):
            return True
        return self.busiest.busy >= BUSY_AND_LOSING_SHARE and self.backlogged

    @cached_property
    def filled(self) -> float:
        """Return how full the polls of the fullest queue were: packets over what they could have taken.

        Raises:
            NotMeasured: packets of single queues, or bursts, are not known.
        """
        if not self.busy_polls_filled:
            raise NotMeasured(self.not_there if self.known("rx_pps") else "no packet was received")
        return fmean(self.busy_polls_filled)
