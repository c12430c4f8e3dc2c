#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Find hiccups that the DUT adds, 100 us with a probability of 1 %, in the latency histogram.

Packets are 125 us apart, longer than a hiccup. So no packet waits behind a delayed one, and each hiccup shows as one
latency. Only the histograms are used. A delay is a latency less the median. The delays of hiccups lie where the
histogram holds most above the trials without hiccups before and after (whose delays the host makes), within a tenth of
that place. The host moves some delayed packets out of that band, as it moves packets of the trials without hiccups:
their share is corrected for. Each trial draws other packets.

Prints, each the median over N trials with its 95 % interval:
`ratio hiccup_share MEDIAN LOW HIGH N`     share of delayed packets over the configured probability,
`ratio hiccup_count MEDIAN LOW HIGH N`     share of delayed packets over the share that the DUT reports,
`ratio hiccup_size MEDIAN LOW HIGH N`      median of their delays over 100 us.
Goal: 0.95 to 1.05. Ends with 1 when it is missed.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from dut_node import DutNode, dut_node
from ratio import Goal, between, main_of

from pollscope.stats.histogram import parse_histogram

# 160 hiccups per trial: the interval over 61 trials is about 3 % to each side.
TRIALS = 61
WINDOW_S, PPS = 2.0, 8e3
PROBABILITY, HICCUP_NS = 0.01, 100_000
BAND = 0.1
# Shorter delays are the ordinary spread of a path on a virtual machine.
DELAY_MIN_NS = 5_000
GOAL = Goal(0.95, 1.05)


@dataclass(frozen=True)
class Delays:
    """Latencies of one trial above their median: delays in ns, rising, and the share of packets up to each."""

    ns: npt.NDArray[np.float64]
    share: npt.NDArray[np.float64]
    injected: float

    def up_to(self, delay_ns: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the share of packets with at most these delays."""
        place = np.searchsorted(self.ns, delay_ns, side="right")
        return np.concatenate(([0.0], self.share))[place]

    def around(self, delay_ns: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the share of packets with delays within a tenth of these."""
        return self.up_to(delay_ns * (1 + BAND)) - self.up_to(delay_ns * (1 - BAND))


def trial(node: DutNode, seed: int | None) -> Delays:
    """Run one trial with the hiccups of this seed, or without any."""
    delay = {"kind": "fixed", "ns": HICCUP_NS}
    hiccup = {"probability": PROBABILITY, "delay": delay, "seed": seed} if seed is not None else None
    node.configure({"workload": "io", "hiccup": hiccup}, generator=True, receives=True)
    result = node.result(WINDOW_S, PPS)
    (generator,), (lcore,) = result["gen"]["lcores"], result["dut"]["lcores"]
    latency = parse_histogram(generator["latency_ns"]["from_sent"], "from_sent")
    ns, share = np.array(latency.cumulative()).T
    injected = lcore["hiccups"]["count"] / lcore["rx_packets"] if hiccup else 0.0
    return Delays(ns - latency.percentile(50), share, injected)


def found_hiccups(with_them: Delays, without: tuple[Delays, Delays]) -> tuple[float, float]:
    """Return the share of packets that hiccups delayed, and the median of their delays in ns."""
    places = with_them.ns[with_them.ns > DELAY_MIN_NS]
    excess = with_them.around(places) - (without[0].around(places) + without[1].around(places)) / 2
    best = int(np.argmax(excess))
    band = places[best] * np.array([1 - BAND, 1 + BAND])
    left_there = np.mean([each.up_to(places[best : best + 1] * BAND) for each in without])
    middle = with_them.up_to(band).mean()
    return float(excess[best] / left_there), float(with_them.ns[np.searchsorted(with_them.share, middle)])


def measure() -> dict[str, list[float]]:
    """Return found over known values."""
    ratios: dict[str, list[float]] = {"share": [], "count": [], "size": []}
    with dut_node(feed="wire") as node:
        for delayed, before, after in between(TRIALS, lambda: trial(node, None), lambda seed: trial(node, seed)):
            share, size_ns = found_hiccups(delayed, (before, after))
            ratios["share"].append(share / PROBABILITY)
            ratios["count"].append(share / delayed.injected)
            ratios["size"].append(size_ns / HICCUP_NS)
    return {f"hiccup_{name}": values for name, values in ratios.items()}


if __name__ == "__main__":
    main_of(__doc__, measure, GOAL)
