# SPDX-License-Identifier: BSD-3-Clause
"""Check whether `results.parquet` of a run folder is up to date, without loading a numerical library."""

from functools import cache
from pathlib import Path
from stat import S_ISREG
from typing import Any

from pollscope import __version__
from pollscope.base.paths import PACKAGE, data_folder
from pollscope.store.run_folder import trials_file

TABLE_FILE = "results.parquet"


def is_newer_than_sources(run_folder: Path) -> bool:
    """Return whether a run has a table that is newer than its trials, the dictionary and the code that derives it."""
    try:
        table = (run_folder / TABLE_FILE).lstat()
    except OSError:
        return False
    sources = [path for path in (trials_file(run_folder), run_folder / "host_states.jsonl") if path.exists()]
    return S_ISREG(table.st_mode) and table.st_mtime_ns > max(
        [_code_time_ns(), *(path.stat().st_mtime_ns for path in sources)]
    )


def stamp(run_folder: Path, rules: int) -> dict[str, Any]:
    """Return the metadata of a table derived now (`PANDAS_ATTRS` in the file)."""
    trials = trials_file(run_folder)
    size = trials.stat().st_size if trials.exists() else 0
    return {"pollscope": __version__, "rules": rules, "trials_bytes": size}


@cache
def _code_time_ns() -> int:
    # The table depends on the trials, the dictionary and the code that derives it.
    code = [file for room in ("metrics", "stats") for file in (PACKAGE / room).rglob("*.py")]
    tables = [data_folder("configs") / name for name in ("metrics.yaml", "counted.yaml")]
    sources = [PACKAGE / "store" / "results_table.py", *tables, *code]
    return max(source.stat().st_mtime_ns for source in sources if source.exists())
