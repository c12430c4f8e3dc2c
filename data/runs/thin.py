#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Copy complete runs into a folder without the parts of their records that take most of the space.

    .venv/bin/python data/runs/thin.py data/runs/whole results/s-f9-latency/20261128T052218Z-05f877

Removed are the sums behind the accounting of cycles, the series within each window, the generator's timing and the
counters of each queue. Metrics are no longer derived from such a run: its table, results.parquet, is kept instead
(docs/internals/store-format.md). Paths of the checkout become relative.
"""

import gzip
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from pollscope.store.results_table import current_table
from pollscope.store.run_folder import read_run

REMOVED = {"dut": ("timed_intervals", "series"), "gen": ("lateness_ns", "interdeparture_ns")}
QUEUE_COUNTER = re.compile(r"[rt]x_q\d+_")
CHECKOUT = f"{Path(__file__).resolve().parents[2]}/"


def thinned(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record without the parts; changes it."""
    result = record.get("result") or {}
    for end, parts in REMOVED.items():
        for lcore in result.get(end, {}).get("lcores", []):
            for part in parts:
                lcore.pop(part, None)
    for port in result.get("ports", {}).values():
        port["xstats"] = {name: n for name, n in port.get("xstats", {}).items() if not QUEUE_COUNTER.match(name)}
    return record


def main() -> None:
    """Thin each run that the command line names."""
    target, *folders = map(Path, sys.argv[1:])
    for folder in folders:
        run = read_run(folder)
        if run.meta["status"] != "complete":
            sys.exit(f"{folder}: the run is {run.meta['status']}")
        table = current_table(run)
        out = target / folder.parent.name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        meta = json.dumps({**run.meta, "thinned": True}, indent=1).replace(CHECKOUT, "")
        (out / "run.json").write_text(f"{meta}\n")
        lines = "".join(f"{json.dumps(thinned(record), separators=(',', ':'))}\n" for record in run.trials)
        (out / "trials.jsonl.gz").write_bytes(gzip.compress(lines.replace(CHECKOUT, "").encode(), 9, mtime=0))
        table.to_parquet(out / "results.parquet", index=False, compression="zstd", compression_level=19)
        shutil.copy(folder / "host_states.jsonl", out)
        print(f"{out}: {sum(file.stat().st_size for file in out.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
