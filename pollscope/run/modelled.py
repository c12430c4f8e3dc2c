# SPDX-License-Identifier: BSD-3-Clause
"""Runs on a modelled machine: made once, found again."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from pollscope import __version__
from pollscope.base.errors import UsageError
from pollscope.metrics import RULES
from pollscope.run.run import new_run_folder, start_run
from pollscope.spec import LoadedSpec, Overrides, known_specs, load_file
from pollscope.store.run_folder import RunFolder, read_run
from pollscope.testbeds import make_testbed


def modelled_row(row: str, machine: str, folder: Path, settings: Sequence[str] = (), quick: bool = False) -> RunFolder:
    """Run a row's spec on a modelled machine; print only its progress.

    Args:
        row: a row with a shipped spec.
        machine: name of a testbed of kind `model`.
        folder: see `modelled_run`.
        settings: KEY=VALUE, as `pollscope run --set` takes them.
        quick: apply the spec's `quick` section.

    Raises:
        UsageError: no spec of this row, or wrong settings.
        WrongTestbed: the spec is not meant for a model.
    """
    specs = known_specs()
    if row not in specs:
        raise UsageError("is not a row with a shipped spec", row, "`ls experiments/*` shows them")
    return modelled_run(load_file(specs[row], Overrides(quick, tuple(settings))), machine, folder, lambda _text: None)


def modelled_run(loaded: LoadedSpec, machine: str, folder: Path, say: Callable[[str], None]) -> RunFolder:
    """Run a spec on a modelled machine; the run has no trial if the model has none of the points.

    It is made in `folder`/MACHINE/SPEC-NAME; one that this version made there of the same spec is not made again.

    Raises:
        WrongTestbed: the spec is not meant for a model.
    """
    with closing(make_testbed(machine)) as testbed:
        own = folder / testbed.name
        asked = loaded.spec.resolved()
        for path in sorted((own / loaded.spec.name).glob("*/run.json"), reverse=True):
            run = read_run(path.parent)
            made_by = run.meta["pollscope"], run.meta.get("rules"), run.meta["spec"], run.meta["testbed"]
            if made_by == (__version__, RULES, asked, testbed.describe()) and run.meta["status"] == "complete":
                return run
        return read_run(start_run(loaded, testbed, new_run_folder(own, loaded.spec.name), say).folder)
