# SPDX-License-Identifier: BSD-3-Clause
"""Check that the program builds without the libraries that only some workloads need."""

import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
LIMIT_S = 240


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.one_in(2)
@pytest.mark.skipif(shutil.which("meson") is None, reason="meson is not installed")
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize(
    ("option", "file", "include"), [("crypto", "encryptor.c", "<rte_cryptodev.h>"), ("isal", "coder.c", "<isa-l.h>")]
)
def test_without_a_library(tmp_path: Path, option: str, file: str, include: str) -> None:
    """The stand-in is compiled, and no file that includes the library's headers."""
    build = tmp_path / "build"
    run("meson", "setup", build, CHECKOUT / "apps", f"-D{option}=disabled", "-Dcrossover=false")
    run("ninja", "-C", build, f"libnode.a.p/node_workload_no_{file}.o")
    compiled = (build / "compile_commands.json").read_text()
    assert f"workload/no_{file}" in compiled
    assert f"workload/{file}" not in compiled
    including = {path.name for path in (CHECKOUT / "apps").rglob("*.[ch]") if include in path.read_text()}
    assert including == {file}
