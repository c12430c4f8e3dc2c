# SPDX-License-Identifier: BSD-3-Clause
"""Which runs show the rows of papers: those given, else those made here and the recorded ones, else the model's."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from pollscope import __version__
from pollscope.base.errors import CannotHost, UsageError, WrongTestbed
from pollscope.base.paths import data_folder
from pollscope.metrics.rules import RULES
from pollscope.run.run import new_run_folder, start_run
from pollscope.spec import LoadedSpec, Overrides, known_specs, load_file
from pollscope.store.find import RESULTS, find_runs, is_run
from pollscope.store.run_folder import RunFolder, read_run
from pollscope.testbeds import make_testbed

TESTBED = "model"
NOT_MODELLED = "No recorded run shows it, and the model cannot compute it:"
# The longer windows of a full run narrow intervals that a page does not show.
OVERRIDES = Overrides(quick=True)
Say = Callable[[str], None]


def measured_runs(words: Sequence[str] | None) -> list[RunFolder]:
    """The runs that are meant; without words those in `results`, and the recorded ones of rows that are not there.

    Raises:
        UsageError: a word means no run.
    """
    if words:
        return [read_run(path) for path in find_runs(words)]
    own: list[RunFolder] = []
    with suppress(UsageError):  # nothing was measured here
        own = [read_run(path) for path in find_runs(RESULTS)]
    known = {row for run in own for row in _rows(run)}
    recorded = [read_run(path) for path in sorted((data_folder("data") / "runs").iterdir()) if is_run(path)]
    return [*own, *(run for run in recorded if not known & _rows(run))]


def _rows(run: RunFolder) -> set[str]:
    return set(run.meta.get("rows") or [run.meta["row"]])


def modelled_runs(rows: Collection[str], folder: Path, say: Say) -> tuple[list[RunFolder], Mapping[str, str]]:
    """Runs of rows by the testbed `model`, shortened, in `folder`; one that is there already is not made again.

    Returns:
        The runs, and row -> why the model cannot have it.
    """
    specs, found, reasons = known_specs(), list[RunFolder](), dict[str, str]()
    for row in rows:
        if row not in specs:
            continue
        try:
            run = _modelled(load_file(specs[row], OVERRIDES), folder, say)
        except WrongTestbed as error:
            reasons[row] = f"{NOT_MODELLED} its spec {error.what}."
        except CannotHost as error:
            reasons[row] = f"{NOT_MODELLED} {error.what}."
        else:
            found += [run] if run.trials else []
            if not run.trials:
                reasons[row] = f"{NOT_MODELLED} {'; '.join(str(warning) for warning in run.meta['warnings'])}."
    return found, reasons


def _modelled(loaded: LoadedSpec, folder: Path, say: Say) -> RunFolder:
    for path in sorted((folder / loaded.spec.name).glob("*/run.json"), reverse=True):
        run = read_run(path.parent)
        made_by = run.meta["pollscope"], run.meta.get("rules"), run.meta["spec_text"]
        if made_by == (__version__, RULES, loaded.text) and run.meta["status"] == "complete":
            return run
    with closing(make_testbed(TESTBED)) as testbed:
        return read_run(start_run(loaded, testbed, new_run_folder(folder, loaded.spec.name), say).folder)
