#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The search for the maximum throughput on a DUT whose rate is known.

The DUT spends 52000 cycles on each packet. What a packet costs beside them is measured by saturating the same DUT
without them (a few tenths of a per cent), so the known rate is tsc_hz / (52000 + own cycles). One run of SEARCHES
searches (7).

    ratio throughput_loss_0_5   rate found at a loss ratio of 0.5 % over the known rate
    ratio throughput_loss_0     rate found without loss over the known rate
    ratio loss_explained        what the trials below the known rate should have lost by the gaps recorded in them,
                                over what they lost

A gap of the DUT's core lets packets lie until the RX ring (64 descriptors) is full; what comes then is lost. The
expected loss comes from playing the recorded stretches of each trial on a queue of that size with the known service
time. Needs two idle cores.

    benchmarks/mlrsearch_known_rate.py [SEARCHES]

Exit status 1 when the median at 0.5 % misses the known rate by more than 1 %, or when less than half or more than
twice of the loss below the known rate is explained.
"""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from ratio import print_ratio

from pollscope.derive import derive_trial
from pollscope.run_folder import read_run
from pollscope.search_trials import counts_of

EXTRA_CYCLES, BURST, RING = 52_000, 8, 64
RATE_TOLERANCE, EXPLAINED = 0.01, (0.5, 2.0)
# With fewer lost packets than this a share of them says nothing.
FEWEST_LOST = 20
HEAD = "format: 1\nrow: S-F5\ntrial: {warmup: 5 ms, drain: 200 ms, window: 500 ms}\nquick: {}\n"
COMMON = f"workload: io, burst: {BURST}, rx_desc: {RING}, longest: 64"
BARE = f"name: bare\ntitle: own cost\nparameters: {{{COMMON}, saturate: true}}\nrepeats: {{count: 5}}\n"
SEARCH = f"""\
name: search
title: known rate
parameters: {{{COMMON}, extra_cycles: {EXTRA_CYCLES} cycles, load_of_max: 50 %}}
repeats: {{count: 1}}
maximum: {{method: mlrsearch, repeats: REPEATS, duration_sum: 2500 ms, most_unsent: 10 %}}
"""
Record = Mapping[str, Any]


def run(text: str, folder: Path) -> list[Record]:
    """The trials of a run of its own; one without a result is none of ours to judge."""
    spec = folder / "spec.yaml"
    spec.write_text(HEAD + text)
    command = [str(Path(sys.executable).with_name("pollscope")), "run", str(spec), "--out", str(folder)]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    name = text.split("\n")[0].removeprefix("name: ")
    trials: list[Record] = read_run(next((folder / name).iterdir())).trials
    return [trial for trial in trials if trial["status"] != "failed"]


def own_cycles(trials: list[Record]) -> float:
    """What a packet costs a saturated DUT beside the added cycles."""
    return median(derive_trial(trial)[0]["cycles_per_packet_all"] for trial in trials)


def expected_loss(trial: Record, service_cycles: float) -> int:
    """Packets that do not fit into the ring while the DUT does nothing but what its recorded stretches say."""
    lcore, window = trial["result"]["dut"]["lcores"][0], trial["result"]["window"]
    start, end = lcore["window"]["start_tsc"], lcore["window"]["end_tsc"]
    offered_pps = trial["result"]["gen"]["lcores"][0]["sent"] / ((end - start) / window["tsc_hz"])
    per_cycle = offered_pps / window["tsc_hz"]
    usual = 1.1 * BURST * service_cycles
    long = sorted((each["tsc"] - each["cycles"], each["tsc"]) for each in lcore["longest"] if each["cycles"] > usual)
    now, waiting, lost = float(start), 0.0, 0.0
    while now < end:
        taken = min(BURST, int(waiting))
        waiting -= taken
        until = now + max(taken * service_cycles, 1 / per_cycle)
        while long and long[0][0] < until:
            until = max(until, long.pop(0)[1])
        arrived = (until - now) * per_cycle
        lost += max(0.0, waiting + arrived - RING)
        waiting, now = min(float(RING), waiting + arrived), until
    return round(lost)


def judge(search: Record, steps: Mapping[str, Record], known_pps: float, service_cycles: float) -> tuple[float, ...]:
    """Throughput at 0 and at 0.5 % over the known rate, packets lost and expected to be lost below the known rate."""
    found = [goal["throughput_pps"] or 0.0 for goal in search["search"]["goals"]]
    lost = expected = 0
    for name in search["search"]["trials"]:
        step = steps[name]
        if step["params"]["saturate"] or step["params"]["load_pps"] > known_pps:
            continue
        counts = counts_of(step, derive_trial(step)[0])
        lost, expected = lost + counts.lost, expected + expected_loss(step, service_cycles)
    return found[0] / known_pps, found[1] / known_pps, lost, expected


def main() -> int:
    searches = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with tempfile.TemporaryDirectory() as folder:
        service = EXTRA_CYCLES + own_cycles(run(BARE, Path(folder)))
        trials = run(SEARCH.replace("REPEATS", str(searches)), Path(folder))
    steps = {trial["trial"]: trial for trial in trials if trial["kind"] == "search"}
    known_pps = next(iter(steps.values()))["result"]["window"]["tsc_hz"] / service
    done = [trial for trial in trials if trial["kind"] == "maximum" and trial["search"]["outcome"] == "found"]
    for trial in trials:
        if trial["kind"] == "maximum" and trial not in done:
            print(f"no result: {trial['search']['reason']}", file=sys.stderr)
    if not done:
        return 1
    found = [judge(trial, steps, known_pps, service) for trial in done]
    for none, half, lost, expected in found:
        print(
            f"known {known_pps:.0f} pps; short at 0.5 % by {100 * (1 - half):.2f} %, at 0 by {100 * (1 - none):.2f} %; "
            f"below the known rate {lost} packets were lost, by recorded gaps {expected}",
            file=sys.stderr,
        )
    taken = median(derive_trial(step)[0]["interrupted_share"] for step in steps.values())
    print(f"the host took the DUT's core for {100 * taken:.2g} % of the time (median of trials)", file=sys.stderr)
    half = print_ratio("throughput_loss_0_5", [each[1] for each in found])
    print_ratio("throughput_loss_0", [each[0] for each in found])
    shares = [expected / lost for _, _, lost, expected in found if lost >= FEWEST_LOST]
    explained = print_ratio("loss_explained", shares).value if shares else 1.0
    return 0 if abs(half.value - 1) <= RATE_TOLERANCE and EXPLAINED[0] <= explained <= EXPLAINED[1] else 1


if __name__ == "__main__":
    sys.exit(main())
