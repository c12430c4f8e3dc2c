#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure the share of a run's wall time that lies inside measurement windows: 40 trials of 1 s, run as a user would.

Prints `ratio window_share MEDIAN LOW HIGH N` (N runs). Goal: at least 0.85. Ends with 1 when it is missed. A second
figure, `window_share_30ms`, is of trials with the windows of specs of rates (10 ms of warm-up, 30 ms, 40 repeats);
it has no goal. Needs two idle cores.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ratio import Goal, options, print_ratio

from pollscope.store.run_folder import read_run

GOAL = Goal(least=0.85)
LONG, SHORT = ("{window: 1 s}", 5), ("{warmup: 10 ms, window: 30 ms, drain: 10 ms}", 40)
SPEC = """\
format: 1
name: window-share
row: S-F5
title: Forty trials of one second
parameters: {{generator_receives: false}}
factors:
  queues: [1, 8]
  load_pps: [0 pps, 100 kpps, 500 kpps, 1 Mpps]
trial: {trial}
repeats: {{count: {count}}}
"""


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=1)
    runs = parser.parse_args().runs
    estimate = print_ratio("window_share", [share_of_one_run(*LONG) for _ in range(runs)], GOAL)
    print_ratio("window_share_30ms", [share_of_one_run(*SHORT) for _ in range(runs)])
    return 0 if GOAL.is_met(estimate.value) else 1


def share_of_one_run(trial: str, count: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "spec.yaml"
        spec.write_text(SPEC.format(trial=trial, count=count))
        before = time.monotonic()
        command = [str(Path(sys.executable).with_name("pollscope")), "run", str(spec), "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        wall_s = time.monotonic() - before
        run = read_run(next(path.parent for path in Path(folder).glob("*/*/run.json")))
    windows = [trial["result"]["window"] for trial in run.trials]
    measured_s = sum((window["end_tsc"] - window["start_tsc"]) / window["tsc_hz"] for window in windows)
    return float(measured_s / wall_s)


if __name__ == "__main__":
    sys.exit(main())
