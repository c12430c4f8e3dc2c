#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Copy complete runs into a folder without the parts of their records that take most of the space.

    .venv/bin/python data/runs/thin.py data/runs/whole results/s-f9-latency/20261128T052218Z-05f877

Removed are the sums and samples behind the accounting of cycles, the series and the longest gaps within each window,
the generator's timing and its share of each queue, the counters of each queue, histograms unless the row's figure
shows distributions, and trials that were made again. Metrics are no longer derived from such a run: its table,
results.parquet, is kept instead (docs/internals/store-format.md). Paths of the checkout become relative.
"""

import gzip
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pollscope.analysis.claims.evaluate import rows_of
from pollscope.analysis.figures import figure_of
from pollscope.analysis.figures.figure import PaperFigure
from pollscope.base.errors import UsageError
from pollscope.base.names import figure_rows
from pollscope.store.results_table import current_table, last_attempts
from pollscope.store.run_folder import read_run

REMOVED = {
    "dut": ("timed_intervals", "probe", "series", "longest"),
    "gen": ("lateness_ns", "interdeparture_ns", "shape"),
}
HISTOGRAMS = {"dut": ("histograms",), "gen": ("latency_ns", "sequence")}
QUEUE_COUNTER = re.compile(r"[rt]x_q\d+_")
CHECKOUT = f"{Path(__file__).resolve().parents[2]}/"


def thinned(record: Any, distributions: bool) -> dict[str, Any]:
    """Return the record without the parts, and without histograms unless `distributions`; changes it."""
    result = record.get("result") or {}
    for end, parts in REMOVED.items():
        for lcore in result.get(end, {}).get("lcores", []):
            for part in parts if distributions else (*parts, *HISTOGRAMS[end]):
                lcore.pop(part, None)
    if not distributions:
        record.pop("floor", None)
    for port in result.get("ports", {}).values():
        port.pop("rx_queue_packets", None)
        port["xstats"] = {name: n for name, n in port.get("xstats", {}).items() if not QUEUE_COUNTER.match(name)}
    return record


def thin(folder: Path, out: Path) -> None:
    """Copy a run without the removed parts to `out`, where at most an earlier thinned run may be.

    Raises:
        UsageError: no run folder, one that is not complete, or a place with something else in it.
    """
    run = read_run(folder)
    if run.meta["status"] != "complete":
        raise UsageError(f"the run is {run.meta['status']}", str(folder))
    if out.exists() and not read_run(out).meta.get("thinned"):
        raise UsageError("holds a run that is not thinned", str(out))
    table, new = current_table(run), out.with_name(f".{out.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    meta = json.dumps({**run.meta, "thinned": True}, indent=1).replace(CHECKOUT, "")
    (new / "run.json").write_text(f"{meta}\n")
    figures = [figure_of(row) for row in rows_of(run) if row in figure_rows()]
    pools = any(isinstance(figure, PaperFigure) and figure.pools_trials for figure in figures)
    records = (thinned(record, pools) for record in last_attempts(run.trials))
    lines = "".join(f"{json.dumps(record, separators=(',', ':'))}\n" for record in records)
    (new / "trials.jsonl.gz").write_bytes(gzip.compress(lines.replace(CHECKOUT, "").encode(), 9, mtime=0))
    # Of hundreds of columns with few rows, the schema of Arrow and statistics would take most of the space.
    small = {"store_schema": False, "write_statistics": False, "compression": "zstd", "compression_level": 19}
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), new / "results.parquet", **small)
    if (states := folder / "host_states.jsonl").exists():
        shutil.copy(states, new)
    if out.exists():
        shutil.rmtree(out)
    new.rename(out)


def main() -> None:
    """Thin each run that the command line names."""
    target, *folders = (Path(word).resolve() for word in sys.argv[1:])
    for folder in folders:
        out = target / folder.parent.name
        try:
            thin(folder, out)
        except UsageError as error:
            sys.exit(f"thin: {error}")
        print(f"{out}: {sum(file.stat().st_size for file in out.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
