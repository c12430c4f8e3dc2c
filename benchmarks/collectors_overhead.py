#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure the throughput of a saturated loopback run with all collectors of this host at 10 Hz over that without.

The DUT does what it does in row S-F5, so that the DUT and not the generator is the limit. Trials with and without
collectors alternate in one node. Each pair is with, without, without, with, or the other way round, so that drift
cancels.

Prints `ratio collectors_throughput MEDIAN LOW HIGH N` (goal: low end at least 0.98). With --details also the CPU share
of each collector. Needs two idle cores: with only two, the collectors run on the generator's. Ends with 1 when the goal
is missed.
"""

import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from ratio import options, print_ratio

from pollscope.collectors.registry import probe_all
from pollscope.metrics.derive import derive_trial
from pollscope.plan.plan import Plan, make_plan
from pollscope.spec import load_text
from pollscope.store.trial_record import TrialRecord
from pollscope.testbeds import DEFAULT, make_testbed
from pollscope.testbeds.base import Assignment
from pollscope.testbeds.node_testbed import NodeTestbed

TARGET = 0.98
PAIRS = 200  # with fewer the interval is wider than the effect
INTERVAL = "100 ms"
# These tools overwrite each other's uncore counters, so only one of them runs at a time.
EXCLUSIVE = ("pcm-iio", "pcm-pcie", "pcm-memory", "pcm", "pcm-power", "perf-uncore")
SPEC = """\
format: 1
name: collectors-overhead
row: S-F5
title: Saturated, with and without collectors
parameters: {saturate: true, generator_receives: false, workload: l3fwd-lpm, extra_cycles: 400 cycles}
factors: {queues: [1]}
trial: {warmup: 200 ms, window: 500 ms, drain: 20 ms}
repeats: {count: 1}
collectors: COLLECTORS
"""


def main() -> int:
    parser = options(__doc__, details=True)
    parser.add_argument("pairs", type=int, nargs="?", default=PAIRS, help=f"default {PAIRS}: ten minutes")
    arguments = parser.parse_args()
    testbed = make_testbed(DEFAULT)
    loaded = load_text(SPEC.replace("COLLECTORS", json.dumps(uses())), "collectors_overhead.py")
    assert isinstance(testbed, NodeTestbed)
    plan = make_plan(loaded.spec, testbed.refusal)
    with tempfile.TemporaryDirectory() as folder:
        ratios, shares = measure_pairs(testbed, plan, Path(folder), arguments.pairs)
    estimate = print_ratio("collectors_throughput", ratios)
    print(f"  goal: low end at least {TARGET:g}", file=sys.stderr)
    for name, several in shares.items():
        if arguments.details:
            print(f"# {name}: {median(several):.2%} of a core")
    return 0 if estimate.low >= TARGET else 1


def uses() -> list[dict[str, str]]:
    """Return every collector that works here, as a spec names them; DPDK's telemetry works once the node runs."""
    available = [name for name, (there, _) in probe_all().items() if there and name != "dpdk-telemetry"]
    taken = [name for name in available if name in EXCLUSIVE]
    names = [name for name in available if name not in taken[1:]]
    return [{"name": name, "interval": INTERVAL} for name in [*names, "dpdk-telemetry"]]


def measure_pairs(
    testbed: NodeTestbed, plan: Plan, folder: Path, pairs: int
) -> tuple[list[float], dict[str, list[float]]]:
    """Return the ratios of throughput with and without collectors, and the share of a core that each collector used."""
    ratios: list[float] = []
    shares: dict[str, list[float]] = {}
    testbed.begin(Assignment(plan, folder, folder / "node.log", lambda host_check: {"host_check": 0, **host_check}))
    collectors = testbed.collectors
    try:
        for pair in range(-1, pairs):
            rates: dict[bool, float] = {True: 0.0, False: 0.0}
            first = bool(pair % 2)
            for turn, with_them in enumerate((first, not first, not first, first)):
                testbed.collectors = collectors if with_them else None
                record = testbed.measure(plan.trials[0], attempt=4 * (pair + 1) + turn)
                rates[with_them] += rate(record)
                note_shares(record, shares)
            if pair >= 0:  # the first pair warms up
                ratios.append(rates[True] / rates[False])
    finally:
        testbed.end()
    return ratios, shares


def rate(record: TrialRecord) -> float:
    """Return the packets per second that the DUT received; end the program when the trial failed."""
    metrics, _ = derive_trial(record.to_json())
    if "rx_pps" not in metrics:
        raise SystemExit(f"a trial failed: {record.reason}")
    return float(metrics["rx_pps"])


def note_shares(record: TrialRecord, shares: dict[str, list[float]]) -> None:
    """Add the collectors' CPU shares; end the program when one delivered nothing, because then it cost nothing."""
    for name, each in (record.collectors or {}).items():
        if each["status"] != "ok":
            raise SystemExit(f"the collector {name} is {each['status']}: {each['reason']}")
        shares.setdefault(name, []).append(each["cpu_share"] or 0.0)


if __name__ == "__main__":
    sys.exit(main())
