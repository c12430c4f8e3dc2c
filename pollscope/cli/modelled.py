# SPDX-License-Identifier: BSD-3-Clause
"""Choose the runs that show the rows of papers: those given, else those made here and recorded ones, else modelled."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pollscope.analysis.gallery import first_measured
from pollscope.base.errors import CannotHost, UsageError
from pollscope.base.paths import data_folder
from pollscope.cli.words import say
from pollscope.plan.plan import plan_parts
from pollscope.run.modelled import modelled_run
from pollscope.spec import LoadedSpec, Overrides, known_specs, load_file, load_text
from pollscope.store.find import RESULTS, find_runs, is_run
from pollscope.store.run_folder import RunFolder, read_meta, read_run
from pollscope.testbeds import make_testbed

_KNOWN = YAML(typ="safe").load(data_folder("configs") / "gallery-models.yaml")
MACHINES: Mapping[str, tuple[str, ...]] = {name: tuple(settings) for name, settings in _KNOWN["machines"].items()}
SETTINGS: Mapping[str, tuple[str, ...]] = {row: tuple(settings) for row, settings in _KNOWN["rows"].items()}
NOT_MODELLED = "No recorded run shows it, and the model cannot compute it:"
NO_MODEL = "No recorded run shows it, and the testbed `model` cannot compute what it measures."
# A simulated host has no noise to average out. Longer windows only narrow intervals that are hardly visible on a page.
OVERRIDES = Overrides(True, ("trial.window=5 ms", "trial.warmup=1 ms", "repeats={count: 3}"))
Say = Callable[[str], None]


def measured_runs(words: Sequence[str] | None, rows: Collection[str]) -> list[RunFolder]:
    """Return the named runs; without names, those in `results`, and recorded runs of `rows` that are missing there.

    Raises:
        UsageError: a word means no run.
    """
    if words:
        return [read_run(path) for path in find_runs(words)]
    own: list[RunFolder] = []
    with suppress(UsageError):  # nothing was measured here
        own = [read_run(path) for path in find_runs(RESULTS)]
    missing = set(rows).difference(*(_rows(run.meta) for run in own))
    runs = data_folder("data") / "runs"
    for folder in (runs / "whole", runs):  # an installed wheel has only the small ones
        recorded = {path: _rows(read_meta(path)) for path in sorted(folder.glob("*")) if is_run(path)}
        own += [read_run(path) for path, shown in recorded.items() if missing & shown]
        missing = missing.difference(*recorded.values())
    return own


def _rows(meta: Mapping[str, Any]) -> set[str]:
    return set(meta.get("rows") or [meta["row"]])


def computed_runs(by_row: Mapping[str, Sequence[RunFolder]], folder: Path) -> tuple[list[RunFolder], dict[str, str]]:
    """Return modelled runs of the rows without a run and of the points of measured runs, and why a row has none."""
    found, reasons = modelled_runs([row for row, own in by_row.items() if not own], folder, say)
    return [*found, *models_of(first_measured(by_row), folder, say)], reasons


def modelled_runs(rows: Collection[str], folder: Path, say: Say) -> tuple[list[RunFolder], dict[str, str]]:
    """Run rows, shortened, on the machine of MACHINES that can host most of their points.

    The runs are kept in `folder` and reused.
    """
    specs, found, reasons = known_specs(), list[RunFolder](), dict[str, str]()
    for row in rows:
        if row not in specs:
            continue
        loaded = {name: load_file(specs[row], overrides_of(row, name)) for name in MACHINES}
        meant = [name for name in MACHINES if _is_meant(name, loaded[name])]
        whys: dict[str, None] = {}
        for machine in sorted(meant, key=lambda each: -_points_on(each, loaded[each])):
            run = _modelled(loaded[machine], machine, folder, say)
            if isinstance(run, RunFolder):
                found.append(run)
                break
            whys[run] = None
        else:
            reasons[row] = f"{NOT_MODELLED} {'; '.join(whys)}." if meant else NO_MODEL
    return found, reasons


def models_of(runs: Iterable[RunFolder], folder: Path, say: Say) -> list[RunFolder]:
    """Return modelled runs of the points of measured runs, for the model's error; none where no model can host them."""
    found = []
    for run in runs:
        asked = Overrides.from_json(run.meta["overrides"])
        short = Overrides(asked.quick, (*asked.settings, *OVERRIDES.settings))
        try:
            loaded = load_text(run.meta["spec_text"], f"{run.path}/run.json", short)
        except UsageError:  # a spec of an older version that is no longer valid
            continue
        meant = [name for name in MACHINES if not MACHINES[name] and _is_meant(name, loaded)]
        best = max(meant, key=lambda each: _points_on(each, loaded), default=None)
        computed = None if best is None else _modelled(loaded, best, folder, say)
        if isinstance(computed, RunFolder):
            found.append(computed)
    return found


def overrides_of(row: str, machine: str) -> Overrides:
    """Return the overrides with which a modelled machine runs a row; factors that the row sweeps are kept."""
    swept = load_file(known_specs()[row]).spec.factors
    fixed = {each: each.partition("=")[0].removeprefix("parameters.") for each in MACHINES[machine]}
    settings = [each for each, name in fixed.items() if getattr(swept, name) is None]
    return Overrides(OVERRIDES.quick, (*OVERRIDES.settings, *SETTINGS.get(row, ()), *settings))


def _is_meant(machine: str, loaded: LoadedSpec) -> bool:
    with closing(make_testbed(machine)) as testbed:
        return testbed.named_by(loaded.spec.testbeds)


def _points_on(machine: str, loaded: LoadedSpec) -> int:
    with closing(make_testbed(machine)) as testbed:
        plans = plan_parts(loaded.spec, [(part.name, part.refusal) for part in testbed.parts])
        return sum(len(plan.points) for plan in plans)


def _modelled(loaded: LoadedSpec, machine: str, folder: Path, say: Say) -> RunFolder | str:
    try:
        run = modelled_run(loaded, machine, folder, say)
    except CannotHost as error:
        return error.what
    return run if run.trials else "; ".join(str(warning) for warning in run.meta["warnings"])
