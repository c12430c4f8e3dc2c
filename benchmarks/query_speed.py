#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measure how long `pollscope query` takes over 10^6 rows: the whole command, from start to last line, in CPU time.

CPU time, so that other processes on the cores do not count. The time that passed is printed beside it; it is less on
idle cores, because a query has several threads.

The rows are those of a recorded run (data/runs), repeated with 0.1 % of noise so that no metric compresses to nothing,
in ten run folders of 10^5 rows each with all columns. Prints for every query `ratio query_NAME MEDIAN LOW HIGH N`: the
second allowed over the time used. The command over no row is printed for comparison. Goal: low end at least 1. Ends
with 1 when it is missed.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from ratio import options, print_ratio, seconds

from pollscope.metrics import RULES
from pollscope.store.results_table import derive_table
from pollscope.store.run_folder import read_run
from pollscope.store.table_file import TABLE_FILE, stamp

RECORDED = Path(__file__).resolve().parent.parent / "data" / "runs" / "s-f5-polling-tax"
RUNS, ROWS = 10, 100_000
ROUNDS = 10
ALLOWED_S = 1.0
COMMAND = [sys.executable, "-c", "from pollscope.cli import main; main()", "query"]
QUERIES = {
    "count": "SELECT count(*) FROM trials",
    "means": """SELECT "factor.queues", "factor.load_of_max", avg("metric.tax_share"), stddev("metric.rx_pps"), count(*)
                FROM trials WHERE kind = 'measure' AND status <> 'failed' GROUP BY ALL ORDER BY ALL""",
    "quantiles": """SELECT run_id, quantile_cont("metric.latency_p99_ns", [0.5, 0.99]) FROM trials GROUP BY ALL""",
}


def write_runs(results: Path) -> None:
    """Write ten run folders with tables only: a query over tables that are up to date reads no trial."""
    run = read_run(RECORDED)
    one = derive_table(run)
    many = pd.concat([one] * (ROWS // len(one) + 1), ignore_index=True).head(ROWS)
    numbers = [name for name in many.columns if name.startswith("metric.") and many[name].notna().any()]
    chance = np.random.default_rng(1)
    for number in range(RUNS):
        run_id = f"20260101T0000{number:02}Z-abcdef"
        folder = results / "many" / run_id
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps(run.meta | {"run_id": run_id}), encoding="utf-8")
        (folder / "trials.jsonl").touch()
        table = many.assign(run_id=run_id)
        table[numbers] *= 1 + 1e-3 * chance.standard_normal((ROWS, len(numbers)))
        table.attrs.update(stamp(folder, RULES))
        table.to_parquet(folder / TABLE_FILE, index=False)


def measured(name: str, sql: str, results: Path) -> list[float]:
    taken = [seconds([*COMMAND, sql, results]) for _ in range(ROUNDS)]
    cpu_s, passed_s = (sorted(each)[ROUNDS // 2] for each in zip(*taken, strict=True))
    print(f"# {name}: {cpu_s:.2f} s of CPU time, {passed_s:.2f} s passed", file=sys.stderr)
    return [each for each, _ in taken]


def main() -> int:
    options(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results, single = Path(folder) / "results", Path(folder) / "single"
        write_runs(results)
        size = sum(path.stat().st_size for path in results.rglob(TABLE_FILE))
        print(f"# {RUNS * ROWS} rows in {RUNS} runs, {size / 1e6:.0f} MB of parquet", file=sys.stderr)
        shutil.copytree(next((results / "many").iterdir()), single)
        measured("no row", "SELECT 1", single)
        lows = []
        for name, sql in QUERIES.items():
            lows.append(print_ratio(f"query_{name}", [ALLOWED_S / each for each in measured(name, sql, results)]).low)
            print("  goal: low end at least 1", file=sys.stderr)
    return 0 if min(lows) >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
