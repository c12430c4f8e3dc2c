# SPDX-License-Identifier: BSD-3-Clause
"""Which runs show the rows of papers: those given, else those made here and the recorded ones, else the model's."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

from pollscope.base.errors import CannotHost, UsageError, WrongTestbed
from pollscope.base.paths import data_folder
from pollscope.plan.plan import plan_parts
from pollscope.run.modelled import modelled_run
from pollscope.spec import LoadedSpec, Overrides, known_specs, load_file
from pollscope.store.find import RESULTS, find_runs, is_run
from pollscope.store.run_folder import RunFolder, read_run
from pollscope.testbeds import make_testbed

# Machines of the testbed `model`, in the order in which they are asked where they have as many points.
MACHINES = ("model", "model-skylake", "servers")
NOT_MODELLED = "No recorded run shows it, and the model cannot compute it:"
# A simulated window needs no rest of the host to average over: longer ones narrow intervals that a page hardly shows.
OVERRIDES = Overrides(True, ("trial.window=5 ms", "trial.warmup=1 ms", "repeats={count: 3}"))
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
    """Shortened runs of rows by that of MACHINES which can have most of their points.

    They are made in `folder`; one that is there already is not made again.

    Returns:
        The runs, and row -> why no model can have it.
    """
    specs, found, reasons = known_specs(), list[RunFolder](), dict[str, str]()
    for row in rows:
        if row not in specs:
            continue
        loaded = load_file(specs[row], OVERRIDES)
        whys: dict[str, None] = {}
        for machine in sorted(MACHINES, key=lambda each: -_points_on(each, loaded)):
            run = _modelled(loaded, machine, folder, say)
            if isinstance(run, RunFolder):
                found.append(run)
                break
            whys[run] = None
        else:
            reasons[row] = f"{NOT_MODELLED} {'; '.join(whys)}."
    return found, reasons


def _points_on(machine: str, loaded: LoadedSpec) -> int:
    """How many points of a spec a modelled machine can have; none where it is not meant for one."""
    with closing(make_testbed(machine)) as testbed:
        if not testbed.named_by(loaded.spec.testbeds):
            return 0
        plans = plan_parts(loaded.spec, [(part.name, part.refusal) for part in testbed.parts])
        return sum(len(plan.points) for plan in plans)


def _modelled(loaded: LoadedSpec, machine: str, folder: Path, say: Say) -> RunFolder | str:
    """The run of a spec on a modelled machine, or why there is none."""
    try:
        run = modelled_run(loaded, machine, folder, say)
    except WrongTestbed as error:
        return f"its spec {error.what} ({error.remedy.partition(';')[0]})"
    except CannotHost as error:
        return error.what
    return run if run.trials else "; ".join(str(warning) for warning in run.meta["warnings"])
