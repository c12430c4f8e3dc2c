#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check that queues are as empty as a traffic shape says, for both feeds, by the DUT's exact count of its polls.

One DUT lcore encapsulates 64-byte packets, configured as H-F3a is. Shapes and queues alternate; each feed has a node of
its own. Prints, each with the 95 % interval of the median over N trials,
`ratio shape_FEED_QUEUES MEDIAN LOW HIGH N`: busy polls over those of the shape's formula, for 500 and 1000 queues, all
shapes together. Goal: the median trial's empty polls differ by at most 5 % of all polls, or the run names the generator
as the reason;
`ratio cold_empty_poll MEDIAN LOW HIGH N`: time of an empty poll of a fed cold queue (infinite, never a packet) over
that of a silent queue of the wire. Each is the time by which a sweep of 1000 queues exceeds one of 500, over 500.
With --details `ratio shape_FEED_SHAPE_QUEUES ...` for every shape, also with 100 queues (no goal). Flags of trials that
missed their shape go to standard error. Ends with 1 when a goal is missed.
"""

import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from eal import LIMIT_S, start_node
from ratio import options, print_ratio, run_main

from pollscope.metrics.record import TrialObservations
from pollscope.metrics.shapes import MOST_OFF, empty_per_busy, polls_of_shape, shape_flags
from pollscope.node.client import NodeClient
from pollscope.node.requests import Wiring, configure_request
from pollscope.spec.model import Parameters

ROUNDS, POLL_ROUNDS = 5, 9
SHAPES, QUEUES = ("FB", "PC", "NC"), (100, 500, 1000)
WARMUP_NS, WINDOW_NS = 80_000_000, 200_000_000
GEN, PORT_A, PORT_B, PORT_C, PORT_D = 1, *(f"net_crossover{pair}_{end}" for pair in (0, 1) for end in "ab")
WIRING = Wiring((GEN,), (2,), gen_tx=PORT_A, dut_rx=PORT_B, dut_tx=PORT_C, gen_rx=PORT_D)
SAME = {"workload": "encap", "rx_desc": 256, "generator_burst": 64, "generator_receives": False, "saturate": True}


def node(folder: Path, feed: str) -> NodeClient:
    vdev = f"net_crossover0,feed={feed}" + (",flows=1024" if feed == "infinite" else "")
    memory = ["--no-huge", "-m", "2048"]
    return start_node("0@0,1@0,2@1", [vdev, "net_crossover1"], memory, folder / f"{feed}.log")


def record(client: NodeClient, params: Parameters, rate: Mapping[str, Any]) -> dict[str, Any]:
    """Run one trial and return it as a run records it."""
    config = configure_request(params, WIRING)
    client.request("configure", LIMIT_S, **config)
    times = {"warmup_ns": WARMUP_NS, "window_ns": WINDOW_NS, "drain_max_ns": 10_000_000}
    client.request("start", LIMIT_S, trial="bench", rate=rate, **times)
    client.wait_event(("done", "failed"), LIMIT_S)
    return {
        "trial": "bench",
        "params": params.model_dump(),
        "config": config,
        "result": client.request("read", LIMIT_S),
    }


def point(feed: str, shape: str, queues: int) -> Parameters:
    return Parameters().model_copy(update={**SAME, "feed": feed, "shape": shape, "queues": queues})


class Shape:
    """The trials of one point."""

    def __init__(self, feed: str, shape: str, queues: int) -> None:
        self.name, self.params = f"{feed}_{shape}_{queues}", point(feed, shape, queues)
        self.ratios: list[float] = []
        self._off: list[float] = []
        self._named = 0

    def measure(self, client: NodeClient) -> None:
        trial = record(client, self.params, {"saturate": True})
        found = polls_of_shape(TrialObservations(trial))
        busy = found.polls - found.empty
        self.ratios.append(busy / (found.polls - found.expected))
        self._off.append(abs(found.off))
        flags = shape_flags(TrialObservations(trial))
        self._named += bool(flags)
        formula = empty_per_busy(self.params.model_dump())
        said = f"{found.empty / busy:.3f} empty polls per busy poll (formula {formula:.3f})"
        print("; ".join([f"{self.name}: {said}", *(flag["text"] for flag in flags)]), file=sys.stderr)

    @property
    def is_good(self) -> bool:
        return self.params.queues < 500 or median(self._off) <= MOST_OFF or 2 * self._named > len(self._off)


def sweep_cycles(client: NodeClient, feed: str, queues: int) -> float:
    params = point(feed, "SQ", queues).model_copy(update={"workload": "drop", "accounting": "count"})
    trial = record(client, params, {"saturate": True} if feed == "infinite" else {"pps": 0})
    (lcore,) = trial["result"]["dut"]["lcores"]
    return float(sum(lcore["series"]["cycles"]) - lcore["interruptions"]["cycles"]) / float(lcore["iterations"])


def empty_poll_cycles(client: NodeClient, feed: str) -> float:
    return (sweep_cycles(client, feed, 1000) - sweep_cycles(client, feed, 500)) / 500


def main() -> int:
    details = options(__doc__, details=True).parse_args().details
    points = {feed: [Shape(feed, shape, q) for q in QUEUES for shape in SHAPES] for feed in ("infinite", "wire")}
    cold = []
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder)
        with closing(node(logs, "infinite")) as fed, closing(node(logs, "wire")) as wired:
            for _ in range(ROUNDS):
                for client, feed in ((fed, "infinite"), (wired, "wire")):
                    for each in points[feed]:
                        each.measure(client)
            for _ in range(POLL_ROUNDS):
                silent, found = empty_poll_cycles(wired, "wire"), empty_poll_cycles(fed, "infinite")
                print(f"an empty poll: wire {silent:.2f}, fed {found:.2f} cycles", file=sys.stderr)
                cold.append(found / silent)
    shapes = [each for feed in points.values() for each in feed]
    for each in shapes:
        if details:
            print_ratio(f"shape_{each.name}", each.ratios)
    for feed, of_feed in points.items():
        for queues in (500, 1000):
            busy = [ratio for each in of_feed if each.params.queues == queues for ratio in each.ratios]
            print_ratio(f"shape_{feed}_{queues}", busy)
    print(f"  goal: every shape off by at most {MOST_OFF:.0%} of its polls", file=sys.stderr)
    print_ratio("cold_empty_poll", cold)
    return 0 if all(each.is_good for each in shapes) else 1


if __name__ == "__main__":
    run_main(main)
