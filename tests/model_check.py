# SPDX-License-Identifier: BSD-3-Clause
"""Run the protocols of apps/tests: the model checks under Relacy, and programs with threads."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

APPS = Path(__file__).parent.parent / "apps"
RELACY = Path("/usr/include/relacy/relacy.hpp")
# ccache caches compilation (-c) only; linking is short.
CACHED = [tool] if (tool := shutil.which("ccache")) else []


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


def explore(source: str, folder: Path, defines: str, *searches: str, found: str = "", optimise: str = "-O1") -> None:
    """Check what searches ("preemptions N", "random N") of a model in apps/tests end with: `found`, or nothing wrong.

    Optimised for long searches; for short ones (-O0) compiling takes longest.
    """
    compiler, program = shutil.which("c++"), folder / "model-check"
    if compiler is None or not RELACY.is_file():
        pytest.skip(f"needs a C++ compiler and {RELACY} (Debian: g++ and relacy-dev)")
    named = [f"-D{each}" for each in defines.split()]
    compiled = folder / "model-check.o"
    for step in (
        (*CACHED, compiler, "-std=gnu++11", optimise, "-w", *named, "-c", APPS / "tests" / source, "-o", compiled),
        (compiler, compiled, "-o", program),
    ):
        done = run(*step)
        assert done.returncode == 0, done.stderr[-3000:]
    for search in searches:
        done = run(program, *search.split())
        assert done.returncode == bool(found) and re.search(found or "iterations: ", done.stdout), done.stdout[-3000:]
