#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Kill the runner with SIGKILL at a random moment, ten times, and check that `--resume` completes each run.

Prints `ratio resumed_complete MEDIAN LOW HIGH N`: the share of killed runs in which, after `--resume`, every planned
trial exists exactly once. Goal: 1. Ends with 1 when it is missed. Needs two cores.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from ratio import options

from pollscope.store.run_folder import read_run

SPEC = """\
format: 1
name: killed
row: S-F5
title: Killed at a random moment
parameters: {generator_receives: false}
factors:
  queues: [1, 8]
  load_of_max: [0 %, 50 %, 100 %]
trial: {warmup: 10 ms, window: 60 ms, drain: 20 ms}
repeats: {count: 4}
maximum: {repeats: 2}
"""
# A run of this spec takes about five seconds; imports and the measurement of the host's noise precede the first trial.
EARLIEST_S, LATEST_S = 2.0, 5.0
POLLSCOPE = str(Path(sys.executable).with_name("pollscope"))


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=10)
    kills = parser.parse_args().kills
    complete = [one_kill(random.Random(seed)) for seed in range(kills)]
    share = sum(complete) / len(complete)
    print(f"ratio resumed_complete {share:.4f} {min(complete):.4f} {max(complete):.4f} {kills}")
    print("  goal: 1", file=sys.stderr)
    return 0 if share == 1 else 1


def one_kill(chance: random.Random) -> float:
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "spec.yaml"
        spec.write_text(SPEC)
        while not (runs := started_and_killed(spec, chance)):
            pass  # killed before there was a run folder: nothing to resume
        return float(all(resumed(path) for path in runs))


def started_and_killed(spec: Path, chance: random.Random) -> list[Path]:
    command = [POLLSCOPE, "run", str(spec), "--out", str(spec.parent)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(chance.uniform(EARLIEST_S, LATEST_S))
    process.send_signal(signal.SIGKILL)
    process.wait()
    return [path.parent for path in spec.parent.glob("*/*/run.json")]


def resumed(folder: Path) -> bool:
    before = len(read_run(folder).trials)
    done = subprocess.run([POLLSCOPE, "run", "--resume", str(folder)], stdout=subprocess.DEVNULL, check=False)
    run = read_run(folder)
    print(
        f"# killed after {before} of {len(run.meta['plan'])} trials, resume ended with {done.returncode}",
        file=sys.stderr,
    )
    return done.returncode == 0 and Counter(trial["trial"] for trial in run.trials) == Counter(run.meta["plan"])


if __name__ == "__main__":
    sys.exit(main())
