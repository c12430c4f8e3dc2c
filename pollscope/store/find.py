# SPDX-License-Identifier: BSD-3-Clause
"""Find run folders: by path, by a folder of them (`results`), by spec, row or run id, or as `latest`.

A spec, row or folder means the newest measured run of the spec; a modelled one only where nothing was measured.
`WORD~1` is the run before that one.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pollscope.base.errors import UsageError
from pollscope.store.run_folder import REMEDY, read_meta

LATEST = "latest"
RESULTS = Path("results")
_SPEC_ENDINGS = (".yaml", ".yml")


def find_run(word: str | Path) -> Path:
    """Return the run that a word names: a run folder, or the newest of those below a folder.

    Raises:
        UsageError: there is none.
    """
    return max(find_runs(word), key=_age)


def find_runs(words: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the runs that words name, without duplicates: a run folder, or the newest run of each spec below a folder.

    Raises:
        UsageError: a word names no run.
    """
    every = [words] if isinstance(words, str | Path) else words
    if "" in every:
        raise UsageError("is not a run", "''", REMEDY)
    return list(dict.fromkeys(path for word in every for path in _runs_of(Path(word))))


def runs_below(places: Sequence[Path]) -> list[Path]:
    """Return every run below the folders: of results, of a spec, or of a run itself.

    Raises:
        UsageError: a folder that is not there, or holds no run.
    """
    found: dict[Path, None] = {}
    for place in places:
        if not place.is_dir():
            raise UsageError("there is no such folder", str(place), "name a folder of results")
        levels = ([place], place.glob("*"), place.glob("*/*"))
        runs = [run for level in levels for run in sorted(level) if is_run(run)]
        if not runs:
            raise UsageError("holds no run folder", str(place), "measure with `pollscope run`, or name another folder")
        found |= dict.fromkeys(runs)
    return list(found)


def _runs_of(path: Path) -> list[Path]:
    is_spec = path.suffix in _SPEC_ENDINGS and path.is_file()
    if not is_spec and (path.exists() or path == RESULTS):
        return [path] if is_run(path) or path.is_file() else _newest_below(path)
    word, _, back = str(path).rpartition("~")
    if not (word and back.isdecimal()):
        word, back = str(path), "0"
    if word.lower() == LATEST:
        return [_back(word, sorted((run for spec in _folders(RESULTS) for run in _runs_in(spec)), key=_age), int(back))]
    by_name = {folder.name.lower(): folder for folder in _folders(RESULTS)}
    named = by_name.get(_name_in(path) if is_spec else word.lower())
    if named is not None:
        return [_back(word, _measured(_runs_in(named)), int(back), named)]
    of_row = [[run for run in _runs_in(spec) if word.lower() in _rows(run)] for spec in by_name.values()]
    if any(of_row):
        return [_back(word, _measured(runs), int(back)) for runs in of_row if runs]
    by_id = [run for spec in by_name.values() for run in _runs_in(spec) if _has_id(run, str(path))]
    if by_id:
        return by_id
    close = get_close_matches(str(path).lower(), [*by_name, LATEST], n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise UsageError(
        "there is no such run", str(path), f"{hint}{REMEDY}, its id, a spec or row that was run here, or `{LATEST}`"
    )


def _back(word: str, runs: Sequence[Path], count: int, place: Path = RESULTS) -> Path:
    """Return the newest of the runs, which are sorted by age, or the run that many places before it."""
    if not runs:
        raise UsageError("holds no run folder", str(place), "measure with `pollscope run`")
    if count >= len(runs):
        raise UsageError(f"there is no run {count} before the newest", f"{word}~{count}", f"{word} has {len(runs)}")
    return runs[-1 - count]


def _measured(runs: Sequence[Path]) -> list[Path]:
    """Return the runs that were measured; all of them where a model computed each."""
    return [run for run in runs if not is_modelled(run)] or list(runs)


def is_modelled(run: Path) -> bool:
    """Return whether a run was computed by the testbed `model`."""
    return bool(_meta(run).get("testbed", {}).get("kind") == "model")


def _meta(run: Path) -> Mapping[str, Any]:
    """Return run.json; empty if this version cannot read the run."""
    try:
        return read_meta(run)
    except UsageError:
        return {}


def _runs_in(folder: Path) -> list[Path]:
    return sorted((run for run in _folders(folder) if is_run(run)), key=_age)


def _name_in(spec: Path) -> str:
    """Return the name that a spec's file gives its runs."""
    from pollscope.spec import load_file

    return load_file(spec).spec.name


def _rows(run: Path) -> set[str]:
    """Return the paper rows of a run in small letters; none if this version cannot read the run."""
    return {str(row).lower() for row in _meta(run).get("rows") or []}


def _has_id(run: Path, word: str) -> bool:
    """Return whether a word is a run's id, or the part of the id after the time."""
    return word.lower() in (run.name.lower(), run.name.lower().rpartition("-")[2])


def is_run(path: Path) -> bool:
    """Return whether a folder is that of a run."""
    return (path / "run.json").exists()


def _newest_below(folder: Path) -> list[Path]:
    """Return the newest run of each spec in a folder, or below it as in `results`."""
    found = _newest(folder) or [run for spec in _folders(folder) for run in _newest(spec)]
    if not found:
        raise UsageError("holds no run folder", str(folder), "measure with `pollscope run`")
    return found


def _newest(folder: Path) -> list[Path]:
    """Return the newest run of each spec in a folder, a modelled one only where nothing was measured.

    A folder that is named after a spec holds runs of that spec alone.
    """
    runs = _runs_in(folder)
    if not runs or _spec_of(runs[-1]) == folder.name:
        return _measured(runs)[-1:]
    by_spec: dict[str, list[Path]] = {}
    for run in runs:
        by_spec.setdefault(_spec_of(run), []).append(run)
    return [_measured(of_spec)[-1] for of_spec in by_spec.values()]


def _spec_of(run: Path) -> str:
    """Return the spec of a run; if it cannot be read, the name of its folder, so that the run is not skipped."""
    return str(_meta(run).get("spec_name", run.parent.name))


def _age(run: Path) -> tuple[str, int]:
    """Run ids begin with the time, so names sort by age."""
    return run.name, (run / "run.json").stat().st_mtime_ns


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_dir()) if folder.is_dir() else []
