# SPDX-License-Identifier: BSD-3-Clause
"""Read the specs of experiments/, each of them once per test process."""

from functools import cache
from pathlib import Path

from pollscope.base.paths import data_folder
from pollscope.spec import LoadedSpec, Overrides, load_file

EXPERIMENTS = sorted(data_folder("experiments").rglob("*.yaml"))


@cache
def shipped(path: Path, quick: bool = False) -> LoadedSpec:
    """Return one of EXPERIMENTS, to be read only."""
    return load_file(path, Overrides(quick=quick))
