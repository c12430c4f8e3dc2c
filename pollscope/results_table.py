# SPDX-License-Identifier: BSD-3-Clause
"""The table `results.parquet` of a run folder: one row per trial with its metrics, made anew when it is out of date."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pollscope import __version__
from pollscope.derive import derive_trial
from pollscope.errors import UsageError
from pollscope.ground import UNKNOWN, judge, standing, trial_labels
from pollscope.metrics import metric_dictionary
from pollscope.places import data_folder
from pollscope.run_folder import RunFolder, read_run

TABLE_FILE = "results.parquet"
KEYS = ("run_id", "row", "point", "repeat", "kind", "trial", "status", "testbed", "modelled")
# What is judged of the canaries (pollscope/ground.py) when the table is made.
GROUND_KEYS = ("ground", "other_ground")


def derive_table(run: RunFolder) -> pd.DataFrame:
    """The table of docs/store-format.md: one row per trial, its last attempt, in the order of measurement.

    Columns: the keys, `ground` and `other_ground` (docs/ground.md), `factor.NAME`, `metric.NAME` (float, NaN when
    absent) and `absent.NAME` (the reason, else null).

    Raises:
        UsageError: a trial contradicts the protocol.
    """
    rows = [
        _table_row(run, record) | {"ground": stand.label, "other_ground": stand.left_out}
        for record, stand in zip(last_attempts(run.trials), trial_grounds(run), strict=True)
    ]
    metrics = list(metric_dictionary().metrics)
    factors = sorted({column for row in rows for column in row if column.startswith("factor.")})
    columns = [
        *KEYS,
        *GROUND_KEYS,
        *factors,
        *(f"metric.{name}" for name in metrics),
        *(f"absent.{name}" for name in metrics),
    ]
    table = pd.DataFrame(rows, columns=columns)
    kinds = {f"metric.{name}": "float64" for name in metrics} | {f"absent.{name}": "str" for name in metrics}
    words = ("run_id", "row", "point", "kind", "trial", "status", "testbed", "ground")
    return table.astype(kinds | dict.fromkeys(words, "str") | {"other_ground": "bool"})


def last_attempts(trials: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """The trials without those that were measured again later under the same name."""
    return list({record["trial"]: record for record in trials}.values())


@dataclass(frozen=True)
class Stand:
    """The ground of one trial, and whether the trial is left out because its point was seen often enough on another."""

    label: str
    left_out: bool


def trial_grounds(run: RunFolder) -> list[Stand]:
    """Where the last attempts of a run's trials stand.

    Where every point was seen on one ground as often as the spec's repeats ask, trials on other ground are left out;
    where not, none is.
    """
    records = last_attempts(run.trials)
    labels = trial_labels(judge(run.canaries), run.canaries, records)
    by_pair: dict[object, list[tuple[Mapping[str, object], str]]] = {}
    for record, label in zip(records, labels, strict=True):
        if record["kind"] == "measure" and record["status"] != "failed":
            by_pair.setdefault(record.get("pair"), []).append((record, label))
    main = {pair: _main(run, own) for pair, own in by_pair.items()}
    return [
        Stand(label, record["kind"] == "measure" and main.get(record.get("pair"), label) not in (UNKNOWN, label))
        for record, label in zip(records, labels, strict=True)
    ]


def _main(run: RunFolder, own: Sequence[tuple[Mapping[str, object], str]]) -> str:
    """The ground whose trials alone count, or UNKNOWN when all do."""
    repeats = run.meta.get("spec", {}).get("repeats") or {}
    asked = repeats.get("count") or (repeats.get("until") or {}).get("at_least")
    # Of several pairs each makes every so manieth block.
    blocks = {record["repeat"] for record, _ in own if asked is None or int(str(record["repeat"])) < asked}
    found = standing([(str(record["point"]), label) for record, label in own], len(blocks))
    return UNKNOWN if found.short else found.main


def _table_row(run: RunFolder, record: Mapping[str, object]) -> dict[str, object]:
    try:
        metrics, absences = derive_trial(record)
    except UsageError as error:
        raise UsageError(error.what, f"{run.path / 'trials.jsonl'}: {error.where}", error.remedy) from None
    factors = record["factors"]
    if not isinstance(factors, Mapping):
        raise UsageError("factors is not an object", f"{run.path / 'trials.jsonl'}: trial {record['trial']}")
    return (
        {"run_id": run.run_id, "row": run.meta["row"]}
        | {key: record[key] for key in KEYS[2:]}
        | {f"factor.{name}": level for name, level in factors.items()}
        | ({"factor.pair": record["pair"]} if "pair" in record else {})
        | {f"metric.{name}": value for name, value in metrics.items()}
        | {f"absent.{name}": reason for name, reason in absences.items()}
    )


def write_table(run_folder: Path) -> Path:
    """Derive `results.parquet` of a run folder, by atomic replacement, and return its path.

    Raises:
        UsageError: no run folder, or one that contradicts the formats.
    """
    table = derive_table(read_run(run_folder))
    table.attrs["pollscope"] = __version__
    path, new = run_folder / TABLE_FILE, run_folder / f".{TABLE_FILE}.{os.getpid()}"
    table.to_parquet(new, index=False)
    new.replace(path)
    return path


def read_table(run_folders: Sequence[Path]) -> pd.DataFrame:
    """The tables of several runs one below the other; each is derived anew when it is missing or out of date.

    Raises:
        UsageError: no run folder, or one that contradicts the formats.
    """
    return pd.concat([current_table(read_run(folder)) for folder in run_folders], ignore_index=True)


def current_table(run: RunFolder) -> pd.DataFrame:
    """The table of a run, derived anew when it is missing or out of date.

    A run folder that cannot be written to (an archive) is derived in memory.

    Raises:
        UsageError: a trial contradicts the protocol.
    """
    path = run.path / TABLE_FILE
    if _is_current(path, [run.path / "trials.jsonl", run.path / "ground.jsonl"]):
        table = pd.read_parquet(path)
        if table.attrs.get("pollscope") == __version__ and len(table) == len(last_attempts(run.trials)):
            return table
    if not os.access(run.path, os.W_OK):
        return derive_table(run)
    return pd.read_parquet(write_table(run.path))


def _is_current(table: Path, facts: Sequence[Path]) -> bool:
    if not table.exists():
        return False
    # The dictionary and the code that derives decide what the table holds, as the trials do.
    here = Path(__file__).parent
    names = ("counted.py", "derive.py", "ground.py", "histogram.py", "record.py", "results_table.py", "steady.py")
    code = [*(here / name for name in names), here / "analysis/change_point.py"]
    sources = [*facts, data_folder("configs") / "metrics.yaml", *code, *(here / "formulas").glob("*.py")]
    return table.stat().st_mtime_ns > max(source.stat().st_mtime_ns for source in sources if source.exists())
