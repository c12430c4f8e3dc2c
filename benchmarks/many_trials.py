#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure how long a run of 10,030 trials takes to load, analyse and render: whole commands, in CPU time.

The trials are those of a recorded run (data/runs), repeated under other names. `pollscope run` leaves the table of its
trials beside them, so `report` and `claims` are measured with it. The time of a first `report`, which derives the table
on all CPUs, is printed separately. Prints `ratio many_trials_NAME MEDIAN LOW HIGH N`: allowed over used CPU time. Goal:
at least 1. Ends with 1 when it is missed.
"""

import json
import sys
import tempfile
from pathlib import Path

from ratio import Goal, options, print_ratio, seconds

RECORDED = Path(__file__).resolve().parent.parent / "data" / "runs" / "s-f5-polling-tax"
TRIALS = 10_030
ROUNDS = 3
GOAL = Goal(least=1)
ALLOWED_S = {"report": 10.0, "claims": 6.0}
COMMAND = (sys.executable, "-c", "from pollscope.cli import main; main()")


def write_run(folder: Path) -> None:
    """Write a run folder with the recorded trials, each as often as needed."""
    folder.mkdir()
    for name in ("run.json", "host_states.jsonl"):
        (folder / name).write_bytes((RECORDED / name).read_bytes())
    recorded = [json.loads(line) for line in (RECORDED / "trials.jsonl").read_text(encoding="utf-8").splitlines()]
    repeats = 1 + max(record["repeat"] for record in recorded)
    with (folder / "trials.jsonl").open("w", encoding="utf-8") as trials:
        for number in range(TRIALS):
            again, which = divmod(number, len(recorded))
            record = recorded[which] | {"trial": f"{recorded[which]['trial']}-{again}"}
            record["repeat"] += repeats * again
            trials.write(json.dumps(record, separators=(",", ":")) + "\n")


def main() -> int:
    options(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        write_run(folder)
        size = (folder / "trials.jsonl").stat().st_size
        print(f"# {TRIALS} trials, {size / 1e6:.0f} MB of trials.jsonl", file=sys.stderr)
        words = {"report": ("report", str(folder), "--out", f"{scratch}/page.html"), "claims": ("claims", str(folder))}
        cpu_s, passed_s = seconds([*COMMAND, *words["report"]])
        print(f"# report without a table: {cpu_s:.1f} s of CPU time, {passed_s:.1f} s passed", file=sys.stderr)
        medians = []
        for name, own in words.items():
            taken = [seconds([*COMMAND, *own]) for _ in range(ROUNDS)]
            middle = [sorted(each)[ROUNDS // 2] for each in zip(*taken, strict=True)]
            print(f"# {name}: {middle[0]:.1f} s of CPU time, {middle[1]:.1f} s passed", file=sys.stderr)
            ratios = [ALLOWED_S[name] / each for each, _ in taken]
            medians.append(print_ratio(f"many_trials_{name}", ratios, GOAL).value)
    return 0 if all(map(GOAL.is_met, medians)) else 1


if __name__ == "__main__":
    sys.exit(main())
