# SPDX-License-Identifier: BSD-3-Clause
"""Derive `results.parquet` of a run folder: one row per trial with its metrics, again whenever it is out of date."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from pollscope import __version__
from pollscope.base.errors import DiskError, UsageError
from pollscope.base.replacing import replacing
from pollscope.host.files import read_plain
from pollscope.metrics import RULES
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.metrics.host_state import UNKNOWN, Measured, judge_host_state, standing, trial_labels, wanted_in_one
from pollscope.metrics.judgement import Judgement, drift_flags, judge
from pollscope.metrics.noise import LIMITS, Limits
from pollscope.metrics.record import Flag, NotMeasured, Part
from pollscope.metrics.undisturbed import UNDISTURBED, undisturbed
from pollscope.spec.model import Noise
from pollscope.store.own_folder import belongs_to_this_user
from pollscope.store.run_folder import RunFolder, read_run
from pollscope.store.table_file import TABLE_FILE, is_newer_than_sources, stamp

KEYS = ("run_id", "row", "point", "repeat", "block", "kind", "trial", "status", "testbed", "modelled")
# Judged when the table is made: of trials (metrics/judgement.py), of host-state checks (metrics/host_state.py).
_JUDGED_KEYS = ("reason", "flags", "host_state", "other_host_state")
_WORDS = ("run_id", "row", "point", "block", "kind", "trial", "status", "testbed", "reason", "flags", "host_state")
_THINNED = "the run was thinned before this metric existed"


def derive_table(run: RunFolder) -> pd.DataFrame:
    """Return the table of store-format.md: one row per trial, its last attempt, in the order of measurement.

    Columns: the keys, `reason`, `flags` (see `flags_of`), `host_state` and `other_host_state` (docs/validity.md),
    `factor.NAME`, `metric.NAME` (float, NaN when absent) and `absent.NAME` (a category: the reason, else null).
    The attribute `rules` is the version of the rules by which trials were judged.

    Raises:
        UsageError: a trial contradicts the protocol.
    """
    records = last_attempts(run.trials)
    judgements = _judgements(run, records)
    drifts = _drifts(run, records, judgements)
    stands = trial_host_states(run)
    rows = [
        _table_row(run, record, judgement)
        | {"flags": json.dumps([*judgement.flags, *drifts.get(number, ())])}
        | {"host_state": stand.label, "other_host_state": stand.left_out}
        for number, (record, judgement, stand) in enumerate(zip(records, judgements, stands, strict=True))
    ]
    metrics = metric_dictionary().metrics
    factors = sorted({column for row in rows for column in row if column.startswith("factor.")})
    named = [*KEYS, *_JUDGED_KEYS, *factors]
    table = pd.DataFrame([[row.get(name, np.nan) for name in named] for row in rows], columns=named)
    found = np.empty((len(judgements), len(metrics)))
    for row, each in enumerate(judgements):
        found[row] = list(map(each.metrics.get, metrics, repeat(np.nan)))
    values = {f"metric.{name}": column for name, column in zip(metrics, found.T, strict=True)}
    whys = [tuple(map(each.absences.get, metrics)) for each in judgements]
    # A few reasons, each thousands of times: as numbers into a list of them a table is copied forty times as fast.
    reasons = {f"absent.{name}": _reasons([why[column] for why in whys]) for column, name in enumerate(metrics)}
    data = [_is_data(*each) for each in zip(records, judgements, stands, strict=True)]
    points = [(each.get("pair"), each["point"]) if kept else None for each, kept in zip(records, data, strict=True)]
    for name, of in UNDISTURBED.items():
        values[f"metric.{name}"], absent = undisturbed(name, values[f"metric.{of}"], points)
        reasons[f"absent.{name}"] = _reasons(absent)
    table = pd.concat([table, pd.DataFrame(values | reasons, index=table.index)], axis="columns")
    table = table.astype(dict.fromkeys(_WORDS, "str") | {"other_host_state": "bool"})
    for factor in factors:
        # Levels that are partly words (frame 64 and imix) are words all: a column has one type.
        if table[factor].dropna().map(lambda level: isinstance(level, str)).nunique() > 1:
            table[factor] = table[factor].map(str, na_action="ignore")
    if run.meta["row"] is None:  # in words it would be "None"
        table["row"] = pd.Series(None, index=table.index, dtype="str")
    table.attrs.update(pollscope=__version__, rules=RULES)
    return table


def _reasons(given: Sequence[str | None]) -> pd.Categorical:
    """Return a column of reasons or None; its type is text even if all are None, so that the file has one type."""
    words = tuple(sorted({reason for reason in {*given} if reason is not None}))
    numbers: dict[str | None, int] = {None: -1, **{word: number for number, word in enumerate(words)}}
    return pd.Categorical.from_codes(list(map(numbers.__getitem__, given)), dtype=_type_of(words))


@lru_cache(maxsize=1000)  # most columns of a table have the same few
def _type_of(words: tuple[str, ...]) -> pd.CategoricalDtype:
    return pd.CategoricalDtype(pd.Index(words, dtype="str"))


def flags_of(table: pd.DataFrame) -> list[list[Flag]]:
    """Return the flags of the trials of a table's rows (pollscope/metrics/judgement.py)."""
    return [json.loads(flags) for flags in table["flags"]]


def last_attempts(trials: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return the last attempt of each trial in the order of measurement; a failed one does not replace data."""
    kept: dict[object, dict[str, object]] = {}
    for record in trials:
        before = kept.get(record["trial"])
        if before is not None and record["status"] == "failed" != before["status"]:
            continue
        kept.pop(record["trial"], None)
        kept[record["trial"]] = record
    return list(kept.values())


def _judgements(run: RunFolder, records: Sequence[Mapping[str, object]]) -> list[Judgement]:
    limits = noise_limits(run)
    try:
        return [judge(each, limits) for each in records]
    except UsageError as error:
        raise UsageError(error.what, f"{run.path / 'trials.jsonl'}: {error.where}", error.remedy) from None


def noise_limits(run: RunFolder) -> Limits:
    """Return the limits of host noise in the run's spec, and the defaults for those that it does not name.

    Raises:
        UsageError: one is not a number.
    """
    spec = Part(run.meta.get("spec", {}), f"{run.path / 'run.json'}: spec")
    found: dict[str, Any] = {}
    for name in LIMITS:
        with suppress(NotMeasured):
            found[name] = spec["noise"][name].number()
    return Noise.model_construct(**found)


def _drifts(
    run: RunFolder, records: Sequence[Mapping[str, object]], judgements: Sequence[Judgement]
) -> dict[int, list[Flag]]:
    """Return for the number of each baseline record its flags; each pair has its own baselines."""
    baseline = run.meta.get("spec", {}).get("baseline")
    by_pair: dict[object, list[int]] = {}
    for number, record in enumerate(records):
        if record["kind"] == "baseline" and baseline:
            by_pair.setdefault(record.get("pair"), []).append(number)
    found: dict[int, list[Flag]] = {}
    for numbers in by_pair.values():
        own = [judgements[number] for number in numbers]
        flags = drift_flags(own, str(baseline["metric"]), float(baseline["drift"]))
        found |= dict(zip(numbers, flags, strict=True))
    return found


@dataclass(frozen=True)
class Stand:
    """The host state of one trial; `left_out`: its point was seen often enough in another state."""

    label: str
    left_out: bool


def _is_data(record: Mapping[str, object], judgement: Judgement, stand: Stand) -> bool:
    return record["kind"] == "measure" and judgement.status != "failed" and not stand.left_out


def trial_host_states(run: RunFolder) -> list[Stand]:
    """Return the host states of the last attempts of a run's trials.

    If every point was seen in one state as often as the spec's repeats ask, trials in other states are left out.
    Otherwise none is.
    """
    records = last_attempts(run.trials)
    labels = trial_labels(judge_host_state(run.host_checks), run.host_checks, map(Measured.of, records))
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
    """Return the only host state whose trials count, or UNKNOWN when all count."""
    repeats = run.meta.get("spec", {}).get("repeats") or {}
    until = repeats.get("until")
    asked = repeats.get("count") or (until.get("at_least") if isinstance(until, Mapping) else None)
    # Of several pairs each makes every so manieth block.
    blocks = {record["repeat"] for record, _ in own if asked is None or int(str(record["repeat"])) < asked}
    # A run until verdicts measures some points many times as often as it asked for: those trials are no spare ones.
    wanted = None if until == "verdicts" else wanted_in_one(len(blocks))
    found = standing([(str(record["point"]), label) for record, label in own], wanted)
    return UNKNOWN if found.short else found.main


def _table_row(run: RunFolder, record: Mapping[str, object], judgement: Judgement) -> dict[str, object]:
    factors = record["factors"]
    if not isinstance(factors, Mapping):
        raise UsageError("factors is not an object", f"{run.path / 'trials.jsonl'}: trial {record['trial']}")
    return (
        {"run_id": run.run_id, "row": run.meta["row"]}
        | {key: record[key] for key in KEYS[2:] if key != "block"}
        | {"block": str(record.get("block", ""))}
        | {"status": judgement.status, "reason": judgement.reason}
        | {f"factor.{name}": level for name, level in factors.items()}
        | ({"factor.pair": record["pair"]} if "pair" in record else {})
    )


def write_table(run_folder: Path) -> Path:
    """Derive `results.parquet` of a run folder, by atomic replacement, and return its path.

    Raises:
        UsageError: no run folder, or one that contradicts the formats.
        DiskError: the disk is full or read-only.
    """
    stamped = stamp(run_folder, RULES)  # before reading: later lines make the table outdated
    run = read_run(run_folder)
    if run.meta.get("thinned"):
        raise UsageError("is thinned: its table cannot be derived again", str(run_folder))
    return _written(derive_table(run), run_folder, stamped)


def _written(table: pd.DataFrame, run_folder: Path, stamped: Mapping[str, Any]) -> Path:
    table.attrs.update(stamped)
    path = run_folder / TABLE_FILE
    try:
        with replacing(path) as new:
            table.to_parquet(new, index=False)
    except OSError as error:
        raise DiskError(f"cannot be written: {error.strerror or error}", str(path)) from error
    return path


def current_table(run: RunFolder) -> pd.DataFrame:
    """Return the table of a run, derived again if it is missing or out of date; callers must not change it.

    The table is not stored where the folder belongs to another user or cannot be written to.

    Raises:
        UsageError: a trial contradicts the protocol.
    """
    stamped = stamp(run.path, RULES)
    known: pd.DataFrame | None = run.derived.get("table")
    if known is None or run.derived["table stamp"] != stamped:
        known = _read_or_derived(run, stamped)
        run.derived.update({"table": known, "table stamp": stamped})
    return known


def _stored(run: RunFolder) -> pd.DataFrame:
    """Return the stored table.

    Raises:
        ValueError: it is damaged, or belongs to other trials. OSError: it cannot be read.
    """
    content = BytesIO(read_plain(run.path / TABLE_FILE))
    # A small file can hold very many rows, so they are counted before they are read.
    rows, expected = pq.read_metadata(content).num_rows, len(last_attempts(run.trials))
    if rows != expected:
        raise ValueError(f"{rows} rows for {expected} trials")
    content.seek(0)
    return pd.read_parquet(content)


def _kept(run: RunFolder, stamped: Mapping[str, Any]) -> pd.DataFrame:
    """Return the stored table of a thinned run, whose trials lack parts that metrics come from.

    Raises:
        UsageError: it is missing or damaged, or belongs to other trials.
    """
    try:
        table = _stored(run)
        if lacking := {*KEYS, *_JUDGED_KEYS} - {*table.columns}:
            raise ValueError(f"it has no column {min(lacking)}")
        table = table.astype(dict.fromkeys(_WORDS, "str") | {"repeat": "int64", "other_host_state": "bool"})
        if not all(isinstance(json.loads(flags), list) for flags in table["flags"]):
            raise ValueError("its flags are no lists")
        known = {f"metric.{name}" for name in metric_dictionary().metrics}
        table = table.astype(dict.fromkeys(known & {*table.columns}, "float64"))
    except (ValueError, TypeError, OSError, RecursionError) as error:
        raise UsageError(f"the table of a thinned run cannot be read: {error}", str(run.path / TABLE_FILE)) from None
    there = {*table.columns}
    new = [name for name in metric_dictionary().metrics if not {f"metric.{name}", f"absent.{name}"} <= there]
    values = {f"metric.{name}": np.full(len(table), np.nan) for name in new}
    whys = {f"absent.{name}": _reasons([_THINNED] * len(table)) for name in new}
    older = table.drop(columns=[column for column in (*values, *whys) if column in there])
    table = pd.concat([older, pd.DataFrame(values | whys, index=table.index)], axis="columns")
    table.attrs.clear()
    table.attrs.update(stamped)
    return table


def _read_or_derived(run: RunFolder, stamped: Mapping[str, Any]) -> pd.DataFrame:
    if run.meta.get("thinned"):
        return _kept(run, stamped)
    if is_newer_than_sources(run.path):
        # A damaged table is derived again.
        with suppress(ValueError, OSError, RecursionError):
            table = _stored(run)
            known = {f"metric.{name}" for name in metric_dictionary().metrics}
            if table.attrs == stamped and known <= set(table.columns):
                return table
    table = derive_table(run)
    # This table lacks lines that were appended after the run was read.
    if run.trials_bytes == stamped["trials_bytes"] and belongs_to_this_user(run.path):
        with suppress(DiskError):  # the folder may be read-only, or its disk full
            _written(table, run.path, stamped)
    return table
