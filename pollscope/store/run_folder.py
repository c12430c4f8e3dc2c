# SPDX-License-Identifier: BSD-3-Clause
"""Reading a run folder (docs/internals/store-format.md): nothing is written, nothing is repaired."""

import json
import shlex
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import orjson

from pollscope.base.errors import UsageError
from pollscope.base.paths import is_shipped
from pollscope.host.files import read_plain
from pollscope.metrics.dictionary import metric_dictionary
from pollscope.store.run_meta import check_meta
from pollscope.store.trial_record import CheckRecord, TrialRecord, checked

FORMAT = 1
# More than any trials compress to: a small file of a stranger must not fill the memory.
_MOST_EXPANSION = 100
REMEDY = "give the folder that `pollscope run` printed"


@dataclass(frozen=True)
class RunFolder:
    """A run as it is on disk.

    Attributes:
        path: the folder.
        meta: run.json.
        trials: the lines of trials.jsonl in order; a repeated trial is there once per attempt.
        torn: whether the last line was cut off (and left out).
        host_checks: the lines of host_states.jsonl in order; empty where the testbed has no host.
        trials_bytes: length of the file of the trials when it was read.
        derived: results that are needed repeatedly, by name.
    """

    path: Path
    meta: dict[str, Any]
    trials: list[dict[str, Any]]
    torn: bool
    host_checks: list[dict[str, Any]] = field(default_factory=list)
    trials_bytes: int = 0
    derived: dict[str, Any] = field(init=False, default_factory=dict, repr=False, compare=False)

    @property
    def run_id(self) -> str:
        """Return the run's identifier."""
        return str(self.meta["run_id"])

    @property
    def modelled(self) -> bool:
        """Return whether a trial was computed instead of measured."""
        return any(trial["modelled"] for trial in self.trials)

    @property
    def attached(self) -> bool:
        """Return whether `pollscope attach` recorded a program that was running."""
        return bool(self.meta["testbed"].get("kind") == "attach")


def read_run(path: Path) -> RunFolder:
    """Read and check a run folder.

    Raises:
        UsageError: no run folder, a format that is not known, or a broken line that is not the last.
    """
    meta = read_meta(path)
    trials, torn, size = _read_lines(trials_file(path), TrialRecord)
    host_checks, _, _ = _read_lines(path / "host_states.jsonl", CheckRecord)
    return RunFolder(path, meta, trials, torn, host_checks, size)


def trials_file(folder: Path) -> Path:
    """Return the file of the trials: trials.jsonl, or trials.jsonl.gz of a finished run that was compressed."""
    plain, compressed = folder / "trials.jsonl", folder / "trials.jsonl.gz"
    return compressed if compressed.exists() and not plain.exists() else plain


def read_meta(path: Path) -> dict[str, Any]:
    """Read and check run.json of a run folder.

    Raises:
        UsageError: no run folder, a format that is not known, or units that are not those of the metric dictionary.
    """
    file = path / "run.json"
    try:
        meta = json.loads(read_plain(file), parse_constant=_no_number)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_file() and (path.parent / "run.json").exists():
            raise UsageError("is a file of a run folder, not the folder", str(path), f"give {path.parent}") from None
        raise UsageError("is not a run folder: it has no run.json", str(path), REMEDY) from None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", str(file)) from None
    except (ValueError, RecursionError) as error:
        remedy = "it is cut off or was changed by hand: take the folder from a copy"
        raise UsageError(f"is not JSON: {error}", str(file), remedy) from None
    if not isinstance(meta, dict) or "format" not in meta:
        raise UsageError("was not written by pollscope: it has no 'format'", str(file), REMEDY)
    if meta["format"] != FORMAT:
        what = f"has format {meta['format']!r}; this pollscope reads format {FORMAT}"
        raise UsageError(what, str(file), "read it with the version that wrote it")
    check_meta(meta, str(file))
    _check_units(meta.get("units", {}), file)
    return meta


def resume_command(folder: Path) -> str:
    """Return the command that completes a run; it names a testbed's file that the user has to confirm."""
    try:
        file = str(read_meta(folder)["testbed"].get("file", ""))
    except UsageError:
        file = ""
    confirmed = f" --testbed {shlex.quote(file)}" if file and not is_shipped(file) else ""
    return f"pollscope run --resume {shlex.quote(str(folder))}{confirmed}"


def _check_units(units: Mapping[str, str], file: Path) -> None:
    """Refuse a run whose units differ from those of the metric dictionary."""
    known = metric_dictionary().metrics
    for name, unit in units.items():
        if name in known and unit != known[name].unit:
            what = f"is {unit!r}; in the metric dictionary of this pollscope it is {known[name].unit!r}"
            raise UsageError(what, f"{file}: units.{name}", "read it with the version that wrote it")


def _read_lines(file: Path, kind: type[TrialRecord | CheckRecord]) -> tuple[list[dict[str, Any]], bool, int]:
    """Return the records of a file, whether its last line is incomplete, and its length in bytes."""
    try:
        stored = read_plain(file)
        content = _expanded(stored) if file.suffix == ".gz" else stored
    except FileNotFoundError:
        return [], False, 0
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", str(file)) from None
    except zlib.error as error:
        raise UsageError(f"is not gzip data: {error}", str(file)) from None
    lines = content.split(b"\n")
    # A whole line ends with a newline, so the part after the last newline is empty or truncated.
    torn = lines.pop() != b""
    return (
        [_parse_line(line, kind, f"{file}: line {number}") for number, line in enumerate(lines, 1)],
        torn,
        len(stored),
    )


def _expanded(compressed: bytes) -> bytes:
    """Return the content of a gzip file; one of an incomplete file ends like a torn line."""
    expansion = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    content = expansion.decompress(compressed, _MOST_EXPANSION * len(compressed))
    if expansion.unconsumed_tail:
        raise zlib.error(f"expands to more than {_MOST_EXPANSION} times its size")
    return content


def _parse_line(line: bytes, kind: type[TrialRecord | CheckRecord], place: str) -> dict[str, Any]:
    try:
        record = _loads(line)
    except (ValueError, RecursionError):
        raise UsageError("is not JSON, so the run folder is damaged", place) from None
    if not isinstance(record, dict):
        raise UsageError("is not a JSON object, so the run folder is damaged", place)
    checked(kind, record, place)
    if kind is TrialRecord and "status" not in record:  # one that is being made has none yet
        raise UsageError("has no 'status'", place)
    if kind is TrialRecord:
        record.setdefault("params", {})
    return record


def _loads(line: bytes) -> object:
    """Return the value of a JSON text; orjson is four times as fast as json, but refuses text that is not UTF-8."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line.decode("utf-8", errors="replace"), parse_constant=_no_number)


def _no_number(word: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python reads and JSON does not have."""
    raise ValueError(f"{word} is not a number")
