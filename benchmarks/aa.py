#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare one point with itself under two names, through the whole path from spec to verdict, many times.

The names are two seeds that a point without hiccups does not use. The claim is that their packet rates are equal, so
each verdict *disagrees* is a false alarm. `--planted 10` makes the second name slower by 10 % of its cycles per packet:
*disagrees* is then right. `--feed wire` has a generator send, instead of rings that the virtual NIC keeps full.
Each run is judged twice: by all its trials, and by the undisturbed ones (`aa_undisturbed_...`).

Prints `ratio NAME MEDIAN LOW HIGH N`:

  ratio aa_disagrees             share of *disagrees* (planted: aa_found, share of *disagrees* below 1)
  ratio aa_half_width            half-width of the ratio's interval over the ratio
  ratio aa_half_width_10s        the same for 10 s of measuring per name: it falls with the root of the time
  ratio aa_undisturbed_known     share of runs in which both names have an undisturbed level
  ratio aa_time_per_window       time of a run per time in its windows, without the start of the node
  ratio aa_sd_...                standard deviation of the rate's logarithm: `within` a window (standard error of its
                                 mean, from its parts), `windows` (neighbours in one configuration), `configurations`
                                 (neighbours in two, if planted), `blocks`, `runs` (a process each)

Goals: at most 5 % of *disagrees*, or 90 % of planted differences of 10 % found; a half-width of at most 2 % after 10 s
with rings kept full, 4 % with a generator. Ends with 1 when one is missed. Needs two CPUs; a run takes SECONDS * 4.
"""

import math
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ratio import Goal, options, print_ratio, run_main

from pollscope.analysis.claims.evaluate import evaluate_run
from pollscope.analysis.claims.verdict import VerdictKind
from pollscope.analysis.point_values import by_point, measured
from pollscope.run.run import new_run_folder, start_run
from pollscope.spec import Overrides, load_text
from pollscope.store.results_table import current_table, last_attempts
from pollscope.store.run_folder import RunFolder, read_run
from pollscope.testbeds import make_testbed

WINDOW_S = 0.03
# Prefix of the figures of each metric.
METRICS = {"aa": "rx_pps", "aa_undisturbed": "undisturbed_rx_pps"}
SPEC = """\
format: 1
name: aa
title: One point under two names
parameters: {{workload: l3fwd-lpm, lookups: 8, saturate: true, generator_receives: false, feed: {feed}}}
{factors}
trial: {{warmup: 10 ms, window: {window_ms} ms, drain: 5 ms}}
repeats: {{count: {repeats}}}
order: {{seed: {seed}, compare: hiccup_seed}}
noise: {{extra_blocks: 0}}
claims:
  - id: equal
    statement: Both names have the same rate.
    metric: rx_pps
    predicate: {{kind: ratio, factor: hiccup_seed, from: 1, to: 2, low: 1, high: 1}}
"""
SAME = "factors: {hiccup_seed: [1, 2]}"
PLANTED = "factors: {{hiccup_seed: [1, 2], extra_cycles: [0, {extra}]}}\nzip: [[hiccup_seed, extra_cycles]]"


class Judged(NamedTuple):
    """Hold the ratio of one run by one metric, NaN where a name has no value, and whether it refutes the claim.

    Undisturbed trials refute it by the interval alone: a comparison of them has no verdict.
    """

    refutes: bool
    ratio: float = math.nan
    half_width: float = math.nan


class Looked(NamedTuple):
    """The result of one run."""

    judged: Mapping[str, Judged]
    time_per_window: float
    trials: Sequence[Mapping[str, Any]]


def one_run(seed: int, feed: str, repeats: int, extra: int, folder: Path) -> Looked:
    """Run the spec with a node of its own, and judge its claim."""
    factors = PLANTED.format(extra=extra) if extra else SAME
    text = SPEC.format(seed=seed, feed=feed, repeats=repeats, factors=factors, window_ms=round(1000 * WINDOW_S))
    with closing(make_testbed("loopback")) as testbed:
        outcome = start_run(load_text(text, "aa.yaml", Overrides()), testbed, new_run_folder(folder, "aa"), _silent)
    run = read_run(outcome.folder)
    judged = {name: _judged(run, metric) for name, metric in METRICS.items()}
    return Looked(judged, _time_per_window(run), last_attempts(run.trials))


def _judged(run: RunFolder, metric: str) -> Judged:
    names = by_point(measured(current_table(run)), metric)
    if len(names) < 2:
        return Judged(False)
    ratio = names[1].over(names[0])
    refutes = not ratio.low <= 1 <= ratio.high
    if metric in {claim["metric"] for claim in run.meta["spec"]["claims"]}:
        refutes = evaluate_run(run)[0].finding.kind is VerdictKind.DISAGREES
    return Judged(refutes, ratio.value, ratio.relative_half_width)


def _silent(_text: str) -> None:
    """Drop a line of progress."""


def _time_per_window(run: RunFolder) -> float:
    starts = [int(trial["started_monotonic_ns"]) for trial in last_attempts(run.trials)]  # type: ignore[call-overload]
    return float((max(starts) - min(starts)) / 1e9 / ((len(starts) - 1) * WINDOW_S))


def rate(trial: Mapping[str, Any]) -> float:
    """Return the logarithm of the packets that a trial received."""
    return math.log(sum(int(lcore["rx_packets"]) for lcore in trial["result"]["dut"]["lcores"]))


def within(trial: Mapping[str, Any]) -> float:
    """Return the standard error of a window's mean rate over its rate, from the parts of the window."""
    parts = [float(part) for part in trial["result"]["dut"]["lcores"][0]["series"]["rx_packets"]]
    return statistics.stdev(parts) / math.sqrt(len(parts)) / statistics.fmean(parts)


def spreads(trials: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the standard deviations of one run: within a window, of windows, of configurations, of blocks."""
    same: list[float] = []
    other: list[float] = []
    for one, two in pairwise(trials):
        (same if one["config"] == two["config"] else other).append(rate(two) - rate(one))
    blocks: dict[str, list[float]] = {}
    for trial in trials:
        blocks.setdefault(trial["block"], []).append(rate(trial))
    means = [statistics.fmean(block) for block in blocks.values()]
    found = {"within": statistics.fmean(map(within, trials))}
    found |= {
        name: math.sqrt(statistics.fmean(step**2 for step in steps) / 2)
        for name, steps in (("windows", same), ("configurations", other))
        if steps
    }
    return {**found, "blocks": statistics.stdev(means)}


def extra_cycles(trials: Sequence[Mapping[str, Any]], per_cent: float) -> int:
    """Return how many cycles more per packet lower the rate by that much."""
    window = trials[0]["result"]["window"]
    cycles = int(window["end_tsc"]) - int(window["start_tsc"])
    per_packet = statistics.median(cycles / math.exp(rate(trial)) for trial in trials)
    return round(per_packet * per_cent / (100 - per_cent))


def main() -> int:
    words = options(__doc__)
    words.add_argument("runs", type=int, nargs="?", default=20)
    words.add_argument("--seconds", type=float, default=2.0, help="of windows per name and run (default 2)")
    words.add_argument("--feed", choices=("infinite", "wire"), default="infinite")
    words.add_argument("--planted", type=float, default=0.0, metavar="PER_CENT")
    asked = words.parse_args()
    repeats = max(12, round(asked.seconds / WINDOW_S))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder, extra = Path(scratch), 0
        if asked.planted:
            extra = extra_cycles(one_run(0, asked.feed, 12, 0, folder).trials, asked.planted)
        looks = [one_run(1 + seed, asked.feed, repeats, extra, folder) for seed in range(asked.runs)]
    print(f"# {time.monotonic() - began:.0f} s, {repeats} windows per name and run", file=sys.stderr)
    return 0 if all(_printed(looks, asked.feed, asked.planted, repeats)) else 1


def _printed(looks: Sequence[Looked], feed: str, planted: float, repeats: int) -> list[bool]:
    """Print all figures; return whether the goals are met."""
    met = [each for name in METRICS for each in _of_metric(name, looks, feed, planted, repeats)]
    print_ratio("aa_time_per_window", [look.time_per_window for look in looks])
    each = [spreads(look.trials) for look in looks]
    for name in each[0]:
        print_ratio(f"aa_sd_{name}", [found[name] for found in each if name in found])
    if len(looks) > 1:
        runs = statistics.stdev(statistics.fmean(map(rate, look.trials)) for look in looks)
        print(f"ratio aa_sd_runs {runs:.4f} {runs:.4f} {runs:.4f} {len(looks)}", flush=True)
    return met


def _of_metric(name: str, looks: Sequence[Looked], feed: str, planted: float, repeats: int) -> list[bool]:
    judged = [look.judged[name] for look in looks]
    known = [each for each in judged if math.isfinite(each.half_width)]
    if name != "aa":
        _share(f"{name}_known", [math.isfinite(each.half_width) for each in judged], Goal())
    if planted:
        found = [each.refutes and each.ratio < 1 for each in judged]
        met = [_share(f"{name}_found", found, Goal(least=0.9))]
        if known:
            print_ratio(f"{name}_planted_ratio", [each.ratio for each in known])
    else:
        met = [_share(f"{name}_disagrees", [each.refutes for each in judged], Goal(most=0.05))]
    if not known:
        return met
    print_ratio(f"{name}_half_width", [each.half_width for each in known])
    scale = math.sqrt(repeats * WINDOW_S / 10)
    goal = Goal(most=0.02 if feed == "infinite" else 0.04)
    scaled = print_ratio(f"{name}_half_width_10s", [each.half_width * scale for each in known], goal)
    return [*met, goal.is_met(scaled.value)]


def _share(name: str, hits: Sequence[bool], goal: Goal) -> bool:
    """Print a share with its 95 % interval (Wilson 1927); return whether it meets the goal."""
    n, share, z = len(hits), statistics.fmean(hits), 1.96
    middle, half = share + z * z / 2 / n, z * math.sqrt(share * (1 - share) / n + z * z / 4 / n / n)
    low, high = ((middle + end) / (1 + z * z / n) for end in (-half, half))
    print(f"ratio {name} {share:.4f} {low:.4f} {high:.4f} {n}", flush=True)
    if goal != Goal():
        print(f"  goal: {goal}, {'met' if goal.is_met(share) else 'missed'}", file=sys.stderr, flush=True)
    return goal.is_met(share)


if __name__ == "__main__":
    run_main(main)
